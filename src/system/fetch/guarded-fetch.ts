import type { IncomingMessage } from 'node:http';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { ByteCollector, bodyOf } from './body.js';
import { type Ask, type Connections, exchange, redirected } from './exchange.js';
import { refused } from './fetch-errors.js';
import { Lifeline } from './lifeline.js';
import { AllowList, type AllowPrivate, parseTarget, type Resolve, resolveTarget, systemResolve } from './target.js';

const MEBIBYTE = 1_048_576;

/** Addresses of one name that are tried. */
const MAX_ADDRESSES = 4;

const METHODS: ReadonlySet<string> = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT']);

/** Headers about the connection, length or host, which callers may not set. */
const OUR_HEADERS: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

export interface FetchOptions {
  /** Default GET. */
  method?: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | Uint8Array;
  /** Ends the fetch with `CANCELLED` and closes its connection. */
  signal?: AbortSignal;
  /** Limit for the fetch with redirects and body; of a stream, until its body begins. Default 30 s. */
  timeoutMs?: number;
  /** Longest silence within a body while it is read. Default 10 s; of a stream 60 s. */
  idleMs?: number;
  /** Of the body. Default 1 MiB; of a stream 64 MiB. */
  maxBytes?: number;
  /** Redirects that are followed; one more is refused. Default 5. */
  redirects?: number;
  /** Exceptions for private addresses. Default none. */
  allowPrivate?: AllowPrivate;
  /** Default: any. */
  ports?: readonly number[];
  /** Certificate authorities (PEM) to trust in place of the well-known ones. */
  ca?: string | readonly string[];
  /** Connections to use again. Default: one for this fetch. */
  connections?: Connections;
  /** Default: the system's resolver. */
  resolve?: Resolve;
}

interface StreamOptions extends FetchOptions {
  /** Give the body as it comes, with back-pressure. */
  stream: true;
  /** Limit for the body. Default 1 hour. */
  streamMs?: number;
  /** Take one of `connections`, and give it back if the body is read to its end: for short streams. */
  reuse?: boolean;
}

interface Head {
  readonly status: number;
  /** By lower-case name; repeated values are joined by commas. */
  readonly headers: ReadonlyMap<string, string>;
  /** The URL of the answer, after redirects. It may contain secrets. */
  readonly url: string;
}

export interface FetchAnswer extends Head {
  readonly body: Buffer;
}

interface StreamAnswer extends Head {
  /** Must be read to its end, left early (`break`) or closed. */
  readonly body: AsyncIterable<Buffer>;
  /** Closes the connection where the body is not read. */
  close(): void;
}

/**
 * Fetches an untrusted URL. On every hop, the connection goes to a public address (or one that `allowPrivate` lists) that
 * was resolved once and checked; size and time are bounded. Any status is an answer. Errors: `FETCH_REFUSED`
 * (`details.reason` names the rule), `FETCH_FAILED`, `FETCH_TIMEOUT`, `PAYLOAD_TOO_LARGE` or `CANCELLED`.
 */
export function guardedFetch(runtime: Runtime, url: string | URL, options: StreamOptions): Promise<StreamAnswer>;
export function guardedFetch(
  runtime: Runtime,
  url: string | URL,
  options?: FetchOptions & { stream?: undefined },
): Promise<FetchAnswer>;
export async function guardedFetch(
  runtime: Runtime,
  url: string | URL,
  options: FetchOptions & Partial<StreamOptions> = {},
): Promise<FetchAnswer | StreamAnswer> {
  const ask = firstAsk(url, options);
  const allow = new AllowList(options.allowPrivate);
  const lifeline = new Lifeline(runtime, ask.target.url.origin, options.signal);
  try {
    lifeline.limit('timeoutMs', options.timeoutMs ?? 30_000);
    const { response, last } = await follow(runtime, ask, allow, options, lifeline);
    const { origin, href } = last.target.url;
    const head = { status: response.statusCode ?? 0, headers: headersOf(response), url: href };
    const maxBytes = options.maxBytes ?? (options.stream ? 64 * MEBIBYTE : MEBIBYTE);
    const idleMs = options.idleMs ?? (options.stream ? 60_000 : 10_000);
    if (options.stream) lifeline.limit('streamMs', options.streamMs ?? 3_600_000);
    const chunks = bodyOf(response, { origin, maxBytes, idleMs }, lifeline);
    if (lifeline.reason) throw lifeline.reason;
    if (options.stream) return { ...head, body: chunks, close: lifeline.cancel };
    const body = new ByteCollector('the answer', maxBytes);
    for await (const chunk of chunks) body.add(chunk);
    return { ...head, body: body.take() };
  } catch (error) {
    lifeline.release();
    throw error;
  }
}

function firstAsk(url: string | URL, options: FetchOptions): Ask {
  const target = parseTarget(url, undefined, options.ports);
  const method = (options.method ?? 'GET').toUpperCase();
  if (!METHODS.has(method)) throw refused('method', 'that method is not used to fetch', { method });
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    const lower = name.toLowerCase();
    if (!OUR_HEADERS.has(lower)) headers.set(lower, value);
  }
  const body = options.body === undefined ? undefined : Buffer.from(options.body as Uint8Array);
  return { target, method, headers, body };
}

/** Checks the target of every hop. */
async function follow(
  runtime: Runtime,
  first: Ask,
  allow: AllowList,
  options: FetchOptions,
  lifeline: Lifeline,
): Promise<{ response: IncomingMessage; last: Ask }> {
  let ask = first;
  for (let left = options.redirects ?? 5; ; left--) {
    if (lifeline.reason) throw lifeline.reason;
    const addresses = await lifeline.race(resolveTarget(ask.target, allow, options.resolve ?? systemResolve));
    const response = await reach(runtime, ask, addresses.slice(0, MAX_ADDRESSES), options, lifeline);
    try {
      const next = redirected(ask, response.statusCode ?? 0, response.headers.location, options.ports);
      if (!next) {
        refuseEncoding(ask, response);
        return { response, last: ask };
      }
      const { origin } = first.target.url;
      if (left <= 0) throw refused('redirects', `${origin} redirects more often than allowed`, { origin });
      response.destroy();
      ask = next;
    } catch (error) {
      response.destroy();
      throw error;
    }
  }
}

/** Tries the addresses in turn until something was sent. */
async function reach(
  runtime: Runtime,
  ask: Ask,
  addresses: readonly string[],
  options: FetchOptions & { stream?: boolean; reuse?: boolean },
  lifeline: Lifeline,
): Promise<IncomingMessage> {
  const { ca } = options;
  // A long stream would occupy a shared connection.
  let agent = options.stream && !options.reuse ? undefined : options.connections?.agent(ask.target.secure);
  for (let at = 0; ; ) {
    const isLastAddress = at === addresses.length - 1;
    try {
      return await exchange(runtime, { ask, address: addresses[at]!, isLastAddress, agent, ca }, lifeline);
    } catch (error) {
      if (!(error instanceof EclipticError) || error.code !== 'FETCH_FAILED') throw error;
      const { sent, reused } = error.details;
      // A kept connection may end just as it is used again; that says nothing about the other side.
      if (reused && (ask.method === 'GET' || ask.method === 'HEAD')) agent = undefined;
      else if (sent || isLastAddress) throw error;
      else at++;
    }
  }
}

/** No compression is requested, which prevents decompression bombs; a compressed answer is refused. */
function refuseEncoding({ target }: Ask, { headers }: IncomingMessage): void {
  const { origin } = target.url;
  const content = headers['content-encoding']?.trim().toLowerCase() ?? '';
  const transfer = headers['transfer-encoding']?.trim().toLowerCase() ?? '';
  if ((content !== '' && content !== 'identity') || (transfer !== '' && transfer !== 'chunked')) {
    throw refused('encoding', `${origin} answers in an encoding that was not asked for`, { origin });
  }
}

function headersOf(response: IncomingMessage): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  for (const [name, values] of Object.entries(response.headersDistinct)) {
    if (values) headers.set(name, values.join(', '));
  }
  return headers;
}
