import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Party } from '../../mesh/policy.js';
import { EclipticError, ERRORS, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { inSpan } from '../../runtime/tracing.js';
import { descriptorLimit, RefusedConnections } from '../../system/process/descriptors.js';
import { ANONYMOUS, type AuthenticatedCaller, type CallerAuth } from '../auth/caller-auth.js';
import type { Scope } from '../auth/tokens.js';

/** Writes all headers at once: setting them one by one costs as much as making the response. */
export class HttpResponse extends ServerResponse<IncomingMessage> {
  /** Headers besides those of the route. */
  readonly always: OutgoingHttpHeaders = { 'X-Content-Type-Options': 'nosniff' };

  override writeHead(status: number, headers?: OutgoingHttpHeaders): this;
  override writeHead(status: number, message?: string, headers?: OutgoingHttpHeaders): this;
  override writeHead(status: number, first?: string | OutgoingHttpHeaders, second?: OutgoingHttpHeaders): this {
    const headers = typeof first === 'object' ? first : second;
    return super.writeHead(status, { ...this.always, ...headers });
  }
}

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: HttpResponse;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly principal: Party;
}

/** Serves one path, or everything below it. Answers every request; errors that it throws are answered as JSON. */
export interface Route {
  readonly path: string;
  readonly exact?: boolean;
  /** Requires no token. */
  readonly public?: boolean;
  /** Answers under any host name: a supervisor asks by the address of the container. */
  readonly anyHost?: boolean;
  /** Requests to it are no work: they leave no span. */
  readonly untraced?: boolean;
  /** The scope that a limited token must have. */
  readonly scope?: Scope;
  /** Authenticates in a way of its own; where it returns undefined, the request needs a token. */
  admit?(request: IncomingMessage): AuthenticatedCaller | undefined;
  serve(exchange: Exchange): void | Promise<void>;
  /** The address of its metadata as a protected resource (RFC 9728), where clients can get a token by themselves. */
  readonly resourceMetadata?: () => string | undefined;
  /** Answers a refused or failed request in the shape that its clients expect. */
  refuse?(response: ServerResponse, error: unknown): void;
}

export interface HttpServerInit {
  port: number;
  host: string;
  /** Further host names of this node. */
  hosts?: readonly string[];
}

export interface HttpServerComponents {
  runtime: Runtime;
  callerAuth: CallerAuth;
}

/** Ports tried after the configured one. */
const PORTS_TRIED = 100;
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost', '[::1]', '::1']);
const HEADERS_MS = 10_000;
/** For receiving a request; its response is not limited. */
const REQUEST_MS = 60_000;
/** Interval of Node's check for these timeouts. */
const CHECK_MS = 5_000;
const MAX_CONNECTIONS = 4_096;
/** The share of the process's descriptors; the store, links and child processes need some. */
const DESCRIPTOR_PART = 1 / 2;

export function isLoopback(host: string): boolean {
  return LOOPBACK.has(host) || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/**
 * The node's HTTP server. A request must have a known `Host`, against DNS rebinding, and a token, unless the route is
 * public or the node is open.
 */
export class HttpServer {
  readonly #components: HttpServerComponents;
  readonly #init: HttpServerInit;
  readonly #hosts: ReadonlySet<string>;
  readonly #server: Server<typeof IncomingMessage, typeof HttpResponse>;
  readonly #routes: readonly Route[];
  /** Cached, because most requests have the same. */
  #goodHost: string | undefined;
  readonly #refused: RefusedConnections;

  constructor(components: HttpServerComponents, init: HttpServerInit, routes: readonly Route[]) {
    this.#components = components;
    this.#init = init;
    this.#routes = routes;
    this.#hosts = new Set(
      [...LOOPBACK, init.host, `[${init.host}]`, ...(init.hosts ?? [])].map((name) => name.toLowerCase()),
    );
    const options = { ServerResponse: HttpResponse, connectionsCheckingInterval: CHECK_MS };
    this.#server = createServer(options, (request, response) => this.#take(request, response));
    this.#server.headersTimeout = HEADERS_MS;
    this.#server.maxConnections = Math.min(MAX_CONNECTIONS, Math.floor(descriptorLimit() * DESCRIPTOR_PART));
    this.#refused = new RefusedConnections(components.runtime, 'http');
    const { maxConnections: most } = this.#server;
    this.#server.on('drop', () => this.#refused.note(`${most} connections are open`));
    this.#server.requestTimeout = REQUEST_MS;
  }

  /** Listens at the configured port, or the next free one. */
  async listen(): Promise<void> {
    const { port, host } = this.#init;
    for (let tried = port; ; tried++) {
      const failure = await this.#tryPort(tried, host);
      if (!failure) return;
      if (failure.code === 'EADDRINUSE' && tried < port + PORTS_TRIED && tried < 65_535) continue;
      const message = `cannot listen at ${host}:${tried}: ${failure.message}`;
      throw new EclipticError('ADDRESS_UNUSABLE', message, { host, port: tried }, failure);
    }
  }

  get port(): number {
    return (this.#server.address() as AddressInfo | null)?.port ?? 0;
  }

  /** The configured port, if another program has it. */
  get takenPort(): number | undefined {
    const { port } = this.#init;
    return port === 0 || port === this.port ? undefined : port;
  }

  get url(): string {
    const { host } = this.#init;
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.port}`;
  }

  get connections(): { readonly most: number; readonly refused: number } {
    return { most: this.#server.maxConnections, refused: this.#refused.count };
  }

  openConnections(): Promise<number> {
    return new Promise((resolve) => this.#server.getConnections((_error, count) => resolve(count ?? 0)));
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  #tryPort(port: number, host: string): Promise<NodeJS.ErrnoException | undefined> {
    return new Promise((resolve) => {
      const fail = (error: NodeJS.ErrnoException) => resolve(error);
      this.#server.once('error', fail);
      this.#server.listen(port, host, () => {
        this.#server.off('error', fail);
        this.#server.on('error', (error) => this.#refused.note(error));
        resolve(undefined);
      });
    });
  }

  readonly #broke = (err: Error): void => {
    this.#components.runtime.logger.debug({ err }, 'HTTP response not written');
  };

  #take(request: IncomingMessage, response: HttpResponse): void {
    response.on('error', this.#broke);
    const { path, query } = readUrl(request.url);
    const route = this.#routes.find((one) => (one.exact ? path === one.path : isAt(path, one.path)));
    // A route that fails ends its own response, never the server.
    try {
      const served = this.#serve(route, { request, response, path, query, principal: ANONYMOUS });
      if (served) served.catch((thrown) => this.#refuse(route, request, response, path, thrown));
    } catch (thrown) {
      this.#refuse(route, request, response, path, thrown);
    }
  }

  #refuse(
    route: Route | undefined,
    request: IncomingMessage,
    response: HttpResponse,
    path: string,
    thrown: unknown,
  ): void {
    const { code, message, details } = toEclipticError(thrown, 'HANDLER_FAILED');
    this.#components.runtime.logger.debug({ code, path, reason: message }, 'HTTP request refused');
    if (response.headersSent) {
      response.destroy();
      return;
    }
    // A refused client may not hold the connection with an unread body.
    if (!request.complete) response.always.Connection = 'close';
    const challenge = challengeFor(code, details, request);
    const metadata = challenge && route?.resourceMetadata?.();
    const more = metadata ? `, resource_metadata="${metadata}"` : '';
    if (challenge !== undefined) response.always['WWW-Authenticate'] = challenge + more;
    if (code === 'RATE_LIMITED') response.always['Retry-After'] = Math.ceil(Number(details.retryAfterMs) / 1_000);
    if (route?.refuse) route.refuse(response, thrown);
    else sendJson(response, ERRORS[code].http, { error: { code, message } });
  }

  #serve(route: Route | undefined, exchange: Exchange): void | Promise<void> {
    const { request } = exchange;
    if (!route?.anyHost && !this.#knowsHost(request)) {
      throw new EclipticError('HOST_REFUSED', 'the Host or Origin header names another host');
    }
    if (route?.public) return route.serve(exchange);
    const { callerAuth } = this.#components;
    const admitted = route?.admit?.(request) ?? callerAuth.admit(request.headers.authorization, route?.scope);
    // Without a promise where there is nothing to wait for: it would cost every request about a microsecond.
    if (admitted instanceof Promise) return admitted.then((caller) => this.#serveTo(caller, route, exchange));
    return this.#serveTo(admitted, route, exchange);
  }

  #serveTo(
    { principal, token }: AuthenticatedCaller,
    route: Route | undefined,
    { request, response, path, query }: Exchange,
  ): void | Promise<void> {
    const { callerAuth } = this.#components;
    if (!route) throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${path}`);
    if (token !== undefined) {
      response.on(
        'close',
        callerAuth.note(token, () => response.destroy()),
      );
    }
    const { tracer } = this.#components.runtime;
    const exchange: Exchange = { request, response, path, query, principal };
    if (!tracer || route.untraced) return route.serve(exchange);
    const { method = 'GET', headers } = request;
    const parent = typeof headers.traceparent === 'string' ? headers.traceparent : null;
    const attributes = {
      'http.request.method': method,
      'http.route': route.path,
      'ecliptic.caller': principal.address,
    };
    const init = { kind: 'server', parent, attributes } as const;
    return inSpan(tracer, `${method} ${route.path}`, init, async () => route.serve(exchange));
  }

  /** Against DNS rebinding: a page whose name was pointed here still sends that name. */
  #knowsHost({ headers, rawHeaders }: IncomingMessage): boolean {
    const { host = '', origin } = headers;
    if (hasTwoHosts(rawHeaders)) return false;
    if (host !== this.#goodHost) {
      if (!this.#hosts.has(hostnameOf(`http://${host}`))) return false;
      this.#goodHost = host;
    }
    return origin === undefined || this.#hosts.has(hostnameOf(origin));
  }
}

/** The `WWW-Authenticate` header (RFC 6750). */
function challengeFor(
  code: string,
  details: Readonly<Record<string, unknown>>,
  request: IncomingMessage,
): string | undefined {
  const realm = 'Bearer realm="ecliptic"';
  if (code === 'SCOPE_REQUIRED') return `${realm}, error="insufficient_scope", scope="${details.scope}"`;
  if (code !== 'TOKEN_REQUIRED') return undefined;
  return request.headers.authorization ? `${realm}, error="invalid_token"` : realm;
}

/** A proxy could read another of two Host headers than we do (RFC 9112, 3.2). */
function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return hosts > 1;
}

/** Scheme, host and port only, without user info or path. */
const ORIGIN = /^https?:\/\/[\w.:[\]-]+$/i;

function hostnameOf(url: string): string {
  if (!ORIGIN.test(url)) return '';
  try {
    return new URL(url).hostname;
  } catch {
    return '';
  }
}

const NO_QUERY = new URLSearchParams();

function readUrl(url = '/'): Pick<Exchange, 'path' | 'query'> {
  const mark = url.indexOf('?');
  if (mark < 0) return { path: url, query: NO_QUERY };
  return { path: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) };
}

function isAt(path: string, route: string): boolean {
  return path.startsWith(route) && (path.length === route.length || path[route.length] === '/');
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  // A string goes out in one write with the headers.
  const body = JSON.stringify(value);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

/** Resolves when the response has drained or closed. */
export function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      response.off('drain', over);
      response.off('close', over);
      resolve();
    };
    response.on('drain', over);
    response.on('close', over);
  });
}

export const MAX_BODY_BYTES = 4 * 1_048_576;

/** An oversized body is refused before it is read on. */
export function readBody(request: IncomingMessage, maxBytes = MAX_BODY_BYTES): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = () => {
      reject(new EclipticError('PAYLOAD_TOO_LARGE', `a request may have at most ${maxBytes} bytes`, { maxBytes }));
      request.resume();
    };
    if (Number(request.headers['content-length'] ?? 0) > maxBytes) return tooLarge();
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) {
        request.removeAllListeners('data');
        return tooLarge();
      }
      chunks.push(chunk);
    });
    request.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    request.on('error', (error) => reject(new EclipticError('CANCELLED', 'the caller disconnected', {}, error)));
    request.on('close', () => {
      if (!request.complete) reject(new EclipticError('CANCELLED', 'the caller disconnected'));
    });
  });
}

const JSON_TYPE = /^application\/([\w.-]+\+)?json\s*(;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i;

/** Refuses a declared type other than JSON in UTF-8; a body without a type is read. */
export function requireJsonBody(headers: IncomingHttpHeaders): void {
  const { 'content-type': type, 'content-encoding': encoding } = headers;
  if (type !== undefined && type !== 'application/json' && !JSON_TYPE.test(type)) {
    throw new EclipticError('UNSUPPORTED_MEDIA_TYPE', 'the body must be application/json in UTF-8', { type });
  }
  if (encoding !== undefined && encoding !== '' && encoding.toLowerCase() !== 'identity') {
    throw new EclipticError('UNSUPPORTED_MEDIA_TYPE', 'the body must not be encoded', { encoding });
  }
}
