import type { Client, JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { untilAborted } from '../../runtime/async.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import type { Program } from '../../system/process/children.js';
import type { JailSettings } from '../../system/process/jail-settings.js';
import { Allowance, readLines } from '../../system/process/lines.js';
import { resolveSettings, type SecretSettings } from '../../system/secrets/credential-source.js';
import type { Redactor } from '../../system/secrets/secret.js';
import { type ClientSdk, clientFor, explainer, HANDSHAKE_MS, isLost, loadClientSdk, MODERN } from './client-sdk.js';
import { Connection, type ServerContext } from './connection.js';

export interface ChildEndpoint {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: SecretSettings;
  readonly cwd?: string;
  /** A jail of the operating system for the program. Default: none. */
  readonly jail?: JailSettings;
}

/** The program to start, with the present values of its settings. */
export async function programOf({ server, redactor, owner }: ServerContext, endpoint: ChildEndpoint): Promise<Program> {
  await loadClientSdk();
  const { kind: _, jail, ...program } = endpoint;
  const { cwd: workspace = process.cwd() } = endpoint;
  return {
    ...program,
    env: await resolveSettings(owner, endpoint.env),
    name: server,
    redact: redactor.clean,
    jail: jail && { ...jail, name: `mcp-${server}`, workspace },
  };
}

export async function connectChild(context: ServerContext, endpoint: ChildEndpoint, signal: AbortSignal) {
  const child = await context.children.start(await programOf(context, endpoint));
  return greetChild(context, child, signal);
}

/** Initialises MCP with a started program, and stops the program on failure. */
export async function greetChild(context: ServerContext, child: Child, signal: AbortSignal): Promise<Connection> {
  const { server, runtime, redactor } = context;
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
 * Most servers speak the 2025 protocol, and many exit when anything else comes first. So try that first, and the 2026
 * protocol where the server refuses it.
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

/** Non-MCP lines, such as a banner, are skipped; a program that writes only such lines does not speak MCP. */
const MAX_RUBBISH = 1_000;

/**
 * MCP over a child's standard input and output. Closing a transport leaves the child running, so that a second protocol
 * can be tried on the same child.
 */
export class ChildPipe {
  readonly #child: Child;
  readonly #allowance: Allowance;
  #transport: PipeTransport | undefined;
  #rubbish = 0;
  #failure: EclipticError | undefined;

  constructor(runtime: Runtime, child: Child) {
    this.#child = child;
    this.#allowance = new Allowance(runtime);
    void this.#read();
  }

  /** Lines that were not MCP messages. */
  get rubbish(): number {
    return this.#rubbish;
  }

  get floods(): number {
    return this.#allowance.floods;
  }

  /** Why reading stopped, if not because the child ended. */
  get failure(): EclipticError | undefined {
    return this.#failure;
  }

  /** Opens a transport that receives all further messages. */
  open(): Transport {
    this.#transport = new PipeTransport(this.#child);
    return this.#transport;
  }

  async #read(): Promise<void> {
    try {
      await readLines(this.#child.stdout, async (line) => {
        // The SDK handles notifications later than answers, which end the call: an answer must not overtake them.
        const asked = await this.#take(line);
        await this.#allowance.spend(line.length, asked ? 0 : 1);
      });
    } catch (error) {
      this.#failure = new EclipticError('INVALID_FRAME', describeError(error), {}, error);
    }
    // A child without output is useless.
    void this.#child.stop();
    await this.#transport?.close();
  }

  /** Returns whether the message answers a request. */
  async #take(line: string): Promise<boolean> {
    const message = parse(line);
    if (message) return this.#transport?.take(message) ?? false;
    if (line.trim() !== '' && ++this.#rubbish > MAX_RUBBISH) {
      throw new EclipticError('INVALID_FRAME', `it wrote more than ${MAX_RUBBISH} lines that are no MCP messages`);
    }
    return false;
  }
}

class PipeTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #child: Child;
  /** Ids of open requests. */
  readonly #asked = new Set<unknown>();
  #closed = false;

  constructor(child: Child) {
    this.#child = child;
  }

  async start(): Promise<void> {}

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed) throw await this.#child.explained();
    if ('method' in message && 'id' in message) this.#asked.add(message.id);
    // A cancelled request is no longer open; most servers do not answer it.
    else if ('method' in message && message.method === 'notifications/cancelled') {
      this.#asked.delete(message.params?.requestId);
    }
    await this.#child.write(`${JSON.stringify(message)}\n`);
  }

  /** Passes a message to the SDK; returns whether it answers a request. */
  take(message: JSONRPCMessage): boolean {
    this.onmessage?.(message);
    return !('method' in message) && this.#asked.delete(message.id);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.onclose?.();
  }
}

function parse(line: string): JSONRPCMessage | undefined {
  try {
    const value: unknown = JSON.parse(line);
    const isMessage = typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0';
    return isMessage ? (value as JSONRPCMessage) : undefined;
  } catch {
    return undefined;
  }
}
