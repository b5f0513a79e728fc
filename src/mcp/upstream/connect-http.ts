import type { Transport } from '@modelcontextprotocol/client';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { clientFor, HANDSHAKE_MS } from './client.js';
import { Connection } from './connection.js';
import { loadClientSdk, upstreamFailure } from './failures.js';
import { HttpRequests } from './http-requests.js';
import type { Redactor } from './redactor.js';
import { untilAborted } from './until-aborted.js';

export interface HttpEndpoint {
  readonly kind: 'http' | 'sse';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ConnectHttpComponents {
  runtime: Runtime;
  redactor: Redactor;
}

/** Greets a server over HTTP. It is sent the headers of its configuration, and nothing of whoever calls. */
export async function connectHttp(
  { runtime, redactor }: ConnectHttpComponents,
  server: string,
  { kind, url, headers }: HttpEndpoint,
  signal: AbortSignal,
): Promise<Connection> {
  const sdk = await loadClientSdk();
  const requests = new HttpRequests(runtime, (message) => transport.onmessage?.(message));
  const options = { requestInit: { headers }, fetch: requests.fetch };
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
    const { code, message, details } = upstreamFailure(sdk, server, error);
    throw new EclipticError(code, redactor.clean(message), details);
  }
  const connection = new Connection({
    sdk,
    server,
    client,
    close: () => client.close().catch(() => {}),
    complaints: () => (requests.floods > 0 ? [`it floods, and was slowed down ${requests.floods} times`] : []),
  });
  client.onclose = () => connection.end(new EclipticError('AGENT_UNAVAILABLE', 'the connection was closed'));
  return connection;
}
