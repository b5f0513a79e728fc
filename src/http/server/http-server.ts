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
import { descriptorLimit, RefusedConnections } from '../../system/process/descriptors.js';
import type { CallerAuth } from '../auth/caller-auth.js';
import type { Scope } from '../auth/tokens.js';

/** An answer whose headers are written once, all together: setting them one by one costs as much as making the answer. */
export class EdgeResponse extends ServerResponse<IncomingMessage> {
  /** What goes out besides what its route says. */
  readonly always: OutgoingHttpHeaders = { 'X-Content-Type-Options': 'nosniff' };

  override writeHead(status: number, headers?: OutgoingHttpHeaders): this;
  override writeHead(status: number, message?: string, headers?: OutgoingHttpHeaders): this;
  override writeHead(status: number, first?: string | OutgoingHttpHeaders, second?: OutgoingHttpHeaders): this {
    const headers = typeof first === 'object' ? first : second;
    return super.writeHead(status, { ...this.always, ...headers });
  }
}

/** One request, its caller known. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: EdgeResponse;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly principal: Party;
}

/** Serves one path, or everything below it. Answers every request itself; what it throws is answered as JSON. */
export interface Route {
  readonly path: string;
  /** Serves that path alone, and nothing below it. */
  readonly exact?: boolean;
  /** May be asked without a token. */
  readonly public?: boolean;
  /** What a token must have been given for, where it was given for something in particular. */
  readonly scope?: Scope;
  serve(exchange: Exchange): void | Promise<void>;
  /** Answers a request that was refused or failed, where its callers expect a shape of their own. */
  refuse?(response: ServerResponse, error: unknown): void;
}

export interface HttpServerInit {
  port: number;
  host: string;
  /** Names under which browsers and clients may know this node, besides the address it listens at. */
  hosts?: readonly string[];
}

export interface HttpServerComponents {
  runtime: Runtime;
  callerAuth: CallerAuth;
}

/** Ports that are tried after the wanted one. */
const PORTS_TRIED = 100;
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost', '[::1]', '::1']);
const HEADERS_MS = 10_000;
/** For a request to come in; its answer may take as long as it takes. */
const REQUEST_MS = 60_000;
/** How often connections that have said nothing for too long are looked for. */
const CHECK_MS = 5_000;
const MAX_CONNECTIONS = 4_096;
/** The part of the process's descriptors that HTTP may have; the store, links, child processes and the owner need some. */
const DESCRIPTOR_PART = 1 / 2;

export function isLoopback(host: string): boolean {
  return LOOPBACK.has(host) || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/**
 * The node's HTTP server. Whoever comes must name the node by a name it has, so that no web page reaches it under a
 * name of its own, and bring a token, unless the route is public or the node is open.
 */
export class HttpServer {
  readonly #components: HttpServerComponents;
  readonly #init: HttpServerInit;
  readonly #hosts: ReadonlySet<string>;
  readonly #server: Server<typeof IncomingMessage, typeof EdgeResponse>;
  readonly #routes: readonly Route[];
  /** The last `Host` that was ours. */
  #goodHost: string | undefined;
  readonly #refused: RefusedConnections;

  constructor(components: HttpServerComponents, init: HttpServerInit, routes: readonly Route[]) {
    this.#components = components;
    this.#init = init;
    this.#routes = routes;
    this.#hosts = new Set(
      [...LOOPBACK, init.host, `[${init.host}]`, ...(init.hosts ?? [])].map((name) => name.toLowerCase()),
    );
    const options = { ServerResponse: EdgeResponse, connectionsCheckingInterval: CHECK_MS };
    this.#server = createServer(options, (request, response) => this.#take(request, response));
    this.#server.headersTimeout = HEADERS_MS;
    this.#server.maxConnections = Math.min(MAX_CONNECTIONS, Math.floor(descriptorLimit() * DESCRIPTOR_PART));
    this.#refused = new RefusedConnections(components.runtime, 'http');
    const { maxConnections: most } = this.#server;
    this.#server.on('drop', () => this.#refused.note(`${most} connections are open`));
    this.#server.requestTimeout = REQUEST_MS;
  }

  /** Listens at the wanted port, or, if somebody has it, at the next free one. */
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

  /** The wanted port, where another program has it. */
  get takenPort(): number | undefined {
    const { port } = this.#init;
    return port === 0 || port === this.port ? undefined : port;
  }

  get url(): string {
    const { host } = this.#init;
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.port}`;
  }

  /** How many connections may be open at once, and how many were refused because as many were. */
  get connections(): { readonly most: number; readonly refused: number } {
    return { most: this.#server.maxConnections, refused: this.#refused.count };
  }

  /** Takes nothing more, and ends what is open. */
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
    this.#components.runtime.logger.debug({ err }, 'a response could not be written');
  };

  #take(request: IncomingMessage, response: EdgeResponse): void {
    response.on('error', this.#broke);
    const { path, query } = readUrl(request.url);
    const route = this.#routes.find((one) => (one.exact ? path === one.path : isAt(path, one.path)));
    // A route that fails takes down its own answer, never the server.
    void this.#serve(route, { request, response, path, query }).catch((thrown) => {
      const { code, message, details } = toEclipticError(thrown, 'HANDLER_FAILED');
      this.#components.runtime.logger.debug({ code, path, reason: message }, 'HTTP request refused');
      if (response.headersSent) {
        response.destroy();
        return;
      }
      // Who was refused does not get to hold the connection with a body that nobody reads.
      if (!request.complete) response.always.Connection = 'close';
      const challenge = challengeFor(code, details, request);
      if (challenge !== undefined) response.always['WWW-Authenticate'] = challenge;
      if (code === 'RATE_LIMITED') response.always['Retry-After'] = Math.ceil(Number(details.retryAfterMs) / 1_000);
      if (route?.refuse) route.refuse(response, thrown);
      else sendJson(response, ERRORS[code].http, { error: { code, message } });
    });
  }

  async #serve(route: Route | undefined, exchange: Omit<Exchange, 'principal'>): Promise<void> {
    const { request, response, path } = exchange;
    if (!this.#knowsHost(request)) {
      throw new EclipticError('HOST_REFUSED', 'the Host or Origin header names somebody else');
    }
    if (route?.public) return route.serve({ ...exchange, principal: NOBODY });
    const { callerAuth } = this.#components;
    const admitted = callerAuth.admit(request.headers.authorization, route?.scope);
    const { principal, token } = admitted instanceof Promise ? await admitted : admitted;
    if (!route) throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${path}`);
    if (token !== undefined) {
      response.on(
        'close',
        callerAuth.note(token, () => response.destroy()),
      );
    }
    await route.serve({ ...exchange, principal });
  }

  /** Against DNS rebinding: a page that got a name of its own to point here still sends that name. */
  #knowsHost({ headers, rawHeaders }: IncomingMessage): boolean {
    const { host = '', origin } = headers;
    if (hasTwoHosts(rawHeaders)) return false;
    // Nearly everyone says the same as the one before.
    if (host !== this.#goodHost) {
      if (!this.#hosts.has(hostnameOf(`http://${host}`))) return false;
      this.#goodHost = host;
    }
    return origin === undefined || this.#hosts.has(hostnameOf(origin));
  }
}

/** How a caller is told what it lacks (RFC 6750). */
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

const NOBODY: Party = Object.freeze({ address: 'anonymous', node: undefined, tier: 3, sandboxId: undefined });

/** Two of them mean one thing to a proxy and another to us (RFC 9112, 3.2). */
function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return hosts > 1;
}

/** A scheme, a name and perhaps a port: nothing that stands before, as in `user@name`, or after. */
const ORIGIN = /^https?:\/\/[\w.:[\]-]+$/i;

function hostnameOf(url: string): string {
  if (!ORIGIN.test(url)) return '';
  try {
    return new URL(url).hostname;
  } catch {
    return '';
  }
}

/** Of most requests. */
const NO_QUERY = new URLSearchParams();

function readUrl(url = '/'): Pick<Exchange, 'path' | 'query'> {
  const mark = url.indexOf('?');
  if (mark < 0) return { path: url, query: NO_QUERY };
  return { path: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) };
}

/** Is that the path of a route, or one below it? */
function isAt(path: string, route: string): boolean {
  return path.startsWith(route) && (path.length === route.length || path[route.length] === '/');
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  // As a string it goes out in one piece with the headers.
  const body = JSON.stringify(value);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

/** Resolves when a response takes more again, or is gone. */
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

/** Bytes of one request. */
export const MAX_BODY_BYTES = 4 * 1_048_576;

/** Reads a request to its end. One that is too large is refused before it is read on. */
export function readBody(request: IncomingMessage, maxBytes = MAX_BODY_BYTES): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = () => {
      reject(new EclipticError('PAYLOAD_TOO_LARGE', `a request may have ${maxBytes} bytes`, { maxBytes }));
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
    request.on('error', (error) => reject(new EclipticError('CANCELLED', 'the caller went away', {}, error)));
    request.on('close', () => {
      if (!request.complete) reject(new EclipticError('CANCELLED', 'the caller went away'));
    });
  });
}

const JSON_TYPE = /^application\/([\w.-]+\+)?json\s*(;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i;

/** Refuses a body that says that it is no plain JSON in UTF-8; one that says nothing is read. */
export function requireJsonBody(headers: IncomingHttpHeaders): void {
  const { 'content-type': type, 'content-encoding': encoding } = headers;
  if (type !== undefined && type !== 'application/json' && !JSON_TYPE.test(type)) {
    throw new EclipticError('UNSUPPORTED_MEDIA_TYPE', 'the body must be application/json in UTF-8', { type });
  }
  if (encoding !== undefined && encoding !== '' && encoding.toLowerCase() !== 'identity') {
    throw new EclipticError('UNSUPPORTED_MEDIA_TYPE', 'the body must not be encoded', { encoding });
  }
}
