import type { Transport } from '@modelcontextprotocol/client';
import { untilAborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import {
  type CredentialOwner,
  parted,
  resolveHeaders,
  type SecretSettings,
} from '../../system/secrets/credential-source.js';
import type { Redactor } from '../../system/secrets/secret.js';
import { clientFor, HANDSHAKE_MS } from './client.js';
import { Connection } from './connection.js';
import { HttpRequests } from './http-requests.js';
import type { OAuthSettings } from './login/attempt.js';
import { explainer, loadClientSdk } from './login/failures.js';
import type { Login } from './login/login.js';

export interface HttpEndpoint {
  readonly kind: 'http' | 'sse';
  readonly url: URL;
  readonly headers: SecretSettings;
  /** How to log in, where the server wants that. */
  readonly oauth?: OAuthSettings | undefined;
}

export interface ConnectHttpComponents {
  runtime: Runtime;
  redactor: Redactor;
  /** Whose credentials the headers refer to. */
  owner: CredentialOwner;
  /** Where the server may want its user to log in. */
  login?: Login | undefined;
}

/** Greets a server over HTTP. It is sent the headers of its configuration, and nothing of whoever calls. */
export async function connectHttp(
  { runtime, redactor, owner, login }: ConnectHttpComponents,
  server: string,
  { kind, url, headers }: HttpEndpoint,
  signal: AbortSignal,
): Promise<Connection> {
  const sdk = await loadClientSdk();
  const { plain, secret } = parted(headers);
  // What is missing is said before anybody is called: the SDK would hide it in an error of its own.
  await resolveHeaders(owner, secret);
  const requests = new HttpRequests(
    runtime,
    (message) => transport.onmessage?.(message),
    () => resolveHeaders(owner, secret),
  );
  const explain = explainer(sdk, server, redactor, login);
  const options = { requestInit: { headers: plain }, fetch: requests.fetch, ...(login && { authProvider: login }) };
  const transport: Transport =
    kind === 'sse' ? new sdk.SSEClientTransport(url, options) : new sdk.StreamableHTTPClientTransport(url, options);
  const client = clientFor(sdk, kind === 'sse' ? 'legacy' : 'auto');
  // Aborted requests and streams that are opened anew come here too; what matters reaches whoever asked.
  client.onerror = (error) => runtime.logger.debug({ server, error: redactor.clean(error.message) }, 'MCP client');
  try {
    await untilAborted(client.connect(transport, { signal, timeout: HANDSHAKE_MS }), signal);
  } catch (error) {
    await client.close().catch(() => {});
    await transport.close().catch(() => {});
    throw explain(error);
  }
  const connection = new Connection({
    sdk,
    server,
    client,
    close: () => client.close().catch(() => {}),
    explain,
    complaints: () => [
      ...(requests.floods > 0 ? [`it floods, and was slowed down ${requests.floods} times`] : []),
      ...(login?.complaint === undefined ? [] : [login.complaint]),
    ],
  });
  client.onclose = () => connection.end(new EclipticError('AGENT_UNAVAILABLE', 'the connection was closed'));
  return connection;
}
