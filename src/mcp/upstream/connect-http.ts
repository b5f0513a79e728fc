import { setMaxListeners } from 'node:events';
import type { FetchLike, JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { untilAborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { Allowance } from '../../system/process/lines.js';
import { parted, resolveHeaders, type SecretSettings } from '../../system/secrets/credential-source.js';
import { clientFor, explainer, HANDSHAKE_MS, LOST_CODE, loadClientSdk, TOO_LARGE_CODE } from './client-sdk.js';
import { Connection, type ServerContext } from './connection.js';
import type { OAuthSettings } from './login-attempt.js';

export interface HttpEndpoint {
  readonly kind: 'http' | 'sse';
  readonly url: URL;
  readonly headers: SecretSettings;
  readonly oauth?: OAuthSettings | undefined;
}

/** Connects to a server over HTTP. The server gets the configured headers, and nothing of the caller's. */
export async function connectHttp(
  { server, runtime, redactor, owner, login }: ServerContext,
  { kind, url, headers }: HttpEndpoint,
  signal: AbortSignal,
): Promise<Connection> {
  const sdk = await loadClientSdk();
  const { plain, secret } = parted(headers);
  // Report missing credentials first: the SDK would hide them in an error of its own.
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
  // Aborted requests and reopened streams also end here; real failures reach the caller.
  client.onerror = (error) =>
    runtime.logger.debug({ server, error: redactor.clean(error.message) }, 'MCP server connection reported an error');
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

/** The longest response, and the longest event of a stream. */
const MAX_BYTES = 32 * 1_048_576;
/** Lines of a stream that are free, for the answer to a request. */
const ANSWER_LINES = 4;
const NEWLINE = 0x0a;

/**
 * HTTP requests to one server: limits sizes, slows a flooding server down, and fails requests whose stream breaks off.
 */
export class HttpRequests {
  readonly #allowance: Allowance;
  readonly #answer: (message: JSONRPCMessage) => void;
  readonly #headers: () => Promise<Readonly<Record<string, string>>>;

  /** `headers` is called for each request, because credentials may be rotated. */
  constructor(
    runtime: Runtime,
    answer: (message: JSONRPCMessage) => void,
    headers: () => Promise<Readonly<Record<string, string>>>,
  ) {
    this.#allowance = new Allowance(runtime);
    this.#answer = answer;
    this.#headers = headers;
  }

  get floods(): number {
    return this.#allowance.floods;
  }

  readonly fetch: FetchLike = async (url, init) => {
    const signal = init?.signal ?? undefined;
    // All requests of a connection share one signal.
    if (signal) setMaxListeners(0, signal);
    const headers = new Headers(init?.headers);
    for (const [name, value] of Object.entries(await this.#headers())) headers.set(name, value);
    let response: Response;
    try {
      response = await fetch(url, { ...init, headers });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw unreachable(new URL(url).origin, error);
    }
    if (!response.ok || !response.body) return response;
    const limited = this.#limited(
      response.headers.get('content-type') ?? '',
      init?.method === 'POST' ? ANSWER_LINES : 0,
    );
    response.body.pipeTo(limited.writable).catch((error) => {
      if (!signal?.aborted) this.#brokeOff(init?.body, error);
    });
    return new Response(limited.readable, response);
  };

  #limited(type: string, free: number): TransformStream<Uint8Array, Uint8Array> {
    const streamed = type.includes('text/event-stream');
    let length = 0;
    let unpaid = free;
    return new TransformStream({
      transform: async (chunk, controller) => {
        let lines = 0;
        for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) lines++;
        length = streamed && lines > 0 ? chunk.length - chunk.lastIndexOf(NEWLINE) : length + chunk.length;
        if (length > MAX_BYTES) {
          throw new EclipticError('PAYLOAD_TOO_LARGE', `the answer is longer than ${MAX_BYTES} bytes`);
        }
        controller.enqueue(chunk);
        // An event has at least two lines.
        const paid = streamed ? Math.max(0, lines - unpaid) : 0;
        unpaid = Math.max(0, unpaid - lines);
        await this.#allowance.spend(chunk.length, paid / 2);
      },
    });
  }

  /** Without this, the SDK would wait for the answer until its time-out. */
  #brokeOff(body: RequestInit['body'], error: unknown): void {
    if (typeof body !== 'string') return;
    const { id } = JSON.parse(body) as { id?: string | number };
    if (id === undefined) return;
    const failure =
      error instanceof EclipticError
        ? { code: TOO_LARGE_CODE, message: error.message }
        : { code: LOST_CODE, message: 'the answer broke off' };
    this.#answer({ jsonrpc: '2.0', id, error: failure });
  }
}

function unreachable(origin: string, error: unknown): EclipticError {
  const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  const outcome = code === 'ECONNREFUSED' || code === 'ENOTFOUND' ? 'not-delivered' : 'unknown';
  const message = `${origin} cannot be reached${code === undefined ? '' : ` (${code})`}`;
  return new EclipticError('AGENT_UNAVAILABLE', message, { outcome }, error);
}
