import type { Client } from '@modelcontextprotocol/client';
import { untilAborted } from '../../runtime/async.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import type { Children, Program } from '../../system/process/children.js';
import { type CredentialOwner, resolveSettings, type SecretSettings } from '../../system/secrets/credential-source.js';
import type { Redactor } from '../../system/secrets/secret.js';
import { ChildPipe } from './child-pipe.js';
import { clientFor, HANDSHAKE_MS, MODERN } from './client.js';
import { Connection } from './connection.js';
import { type ClientSdk, explainer, isLost, loadClientSdk } from './login/failures.js';

export interface ChildEndpoint {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: SecretSettings;
  readonly cwd?: string;
}

export interface GreetComponents {
  runtime: Runtime;
  redactor: Redactor;
}

export interface ConnectChildComponents extends GreetComponents {
  children: Children;
  /** Whose credentials its environment refers to. */
  owner: CredentialOwner;
}

/** What to start for a server, with the values that its settings have now. */
export async function programOf(
  { redactor, owner }: Pick<ConnectChildComponents, 'redactor' | 'owner'>,
  server: string,
  { command, args, env, cwd }: ChildEndpoint,
): Promise<Program> {
  await loadClientSdk();
  const program = { command, args, env: await resolveSettings(owner, env), name: server, redact: redactor.clean };
  return cwd === undefined ? program : { ...program, cwd };
}

/** Starts a server's program and greets it. */
export async function connectChild(
  components: ConnectChildComponents,
  server: string,
  endpoint: ChildEndpoint,
  signal: AbortSignal,
): Promise<Connection> {
  const child = await components.children.start(await programOf(components, server, endpoint));
  return greetChild(components, server, child, signal);
}

/** Greets a server's program, and ends it when that fails. One child, whatever protocol it turns out to speak. */
export async function greetChild(
  { runtime, redactor }: GreetComponents,
  server: string,
  child: Child,
  signal: AbortSignal,
): Promise<Connection> {
  const sdk = await loadClientSdk();
  const pipe = new ChildPipe(runtime, child);
  const explain = explainer(sdk, server, redactor);
  const reason = () => redacted(pipe.failure ?? child.failure(), redactor);
  try {
    const client = await untilAborted(greet(sdk, pipe, signal), signal);
    const connection = new Connection({
      sdk,
      server,
      client,
      close: () => end(client, child),
      explain,
      complaints: () => complaints(pipe),
    });
    void child.exited.then(() => connection.end(reason()));
    return connection;
  } catch (error) {
    await child.stop(signal.aborted ? { graceMs: 0 } : {});
    throw isLost(sdk, error) ? reason() : explain(error);
  }
}

/**
 * Most servers speak 2025's protocol, and many of those end at anything else that comes first. So that is tried first,
 * and 2026's where it is refused.
 */
async function greet(sdk: ClientSdk, pipe: ChildPipe, signal: AbortSignal): Promise<Client> {
  const options = { signal, timeout: HANDSHAKE_MS };
  const legacy = clientFor(sdk, 'legacy');
  try {
    await legacy.connect(pipe.open(), options);
    return legacy;
  } catch (refusal) {
    if (isLost(sdk, refusal) || signal.aborted) throw refusal;
    const modern = clientFor(sdk, { pin: MODERN });
    try {
      await modern.connect(pipe.open(), options);
      return modern;
    } catch (error) {
      if (isLost(sdk, error) || signal.aborted) throw error;
      const said = `it takes neither an older protocol (${describeError(refusal)}) nor ${MODERN} (${describeError(error)})`;
      throw new EclipticError('PROTOCOL_MISMATCH', said, {}, error);
    }
  }
}

async function end(client: Client, child: Child): Promise<void> {
  const stopped = child.stop();
  await client.close().catch(() => {});
  await stopped;
}

function complaints(pipe: ChildPipe): string[] {
  return [
    ...(pipe.rubbish > 0 ? [`it wrote ${pipe.rubbish} lines that are no MCP messages`] : []),
    ...(pipe.floods > 0 ? [`it floods its output, and was slowed down ${pipe.floods} times`] : []),
  ];
}

function redacted({ code, message, details }: EclipticError, redactor: Redactor): EclipticError {
  return new EclipticError(code, redactor.clean(message), redactor.cleanAll(details));
}
