import { EclipticError, type ErrorCode, isErrorCode } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { ByteCollector } from '../../system/fetch/body.js';
import type { Connections } from '../../system/fetch/exchange.js';
import { type FetchOptions, guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { type ServerSentEvent, SseReader } from '../../system/fetch/sse.js';
import type { AllowPrivate, Resolve } from '../../system/fetch/target.js';
import { codeOfWireError, ExternalServiceError, OWN_DOMAIN } from '../protocol/errors.js';
import type { CallLimits } from './call-limits.js';

const MAX_TEXT = 1_000;
const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo';

const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  401: 'TOKEN_REQUIRED',
  405: 'METHOD_NOT_FOUND',
  413: 'PAYLOAD_TOO_LARGE',
  429: 'REMOTE_BUSY',
  502: 'REMOTE_BUSY',
  503: 'REMOTE_BUSY',
  504: 'REMOTE_BUSY',
};

export interface ErrorSetting {
  readonly origin: string;
  readonly status?: number;
  readonly retryAfter?: string;
}

/**
 * Maps a remote error by its reason, number or status, never by its text. The result is an `ExternalServiceError`
 * whatever its code, so that it is not taken for an error of this node.
 */
export function remoteError(error: unknown, { origin, status, retryAfter }: ErrorSetting): ExternalServiceError {
  const { code, message, data, details } = isFields(error) ? error : ({} as Fields);
  const info = errorInfo(data) ?? errorInfo(details);
  const reason = text(info?.reason);
  // JSON-RPC's numbers are negative; the HTTP binding repeats its status here.
  const rpc = typeof code === 'number' && code < 0 ? code : undefined;
  const retryAfterMs = /^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1_000 : undefined;
  const said = text(message) ?? text(error) ?? (status === undefined ? 'an error' : `HTTP ${status}`);
  const about = { origin, status, rpc, reason, retryAfterMs };
  return new ExternalServiceError(
    `${origin} answered: ${said}`,
    Object.fromEntries(Object.entries(about).filter(([, value]) => value !== undefined)),
    codeOf(rpc, reason, info?.domain, status),
  );
}

/** The connection ended or fell silent, so the outcome is unknown. */
export function isBroken(error: unknown): boolean {
  if (!(error instanceof EclipticError) || error instanceof ExternalServiceError) return false;
  return error.code === 'FETCH_FAILED' || error.code === 'FETCH_TIMEOUT';
}

/** The request certainly did not reach the agent. */
export function wasNotSent(error: unknown): boolean {
  return isBroken(error) && (error as EclipticError).details.sent === false;
}

/** Marks the error of a repeated request as possibly sent, because an earlier attempt may have arrived. */
export function mayHaveArrived(error: unknown): unknown {
  if (!wasNotSent(error)) return error;
  const { code, message, details } = error as EclipticError;
  return new EclipticError(code, message, { ...details, sent: true }, error);
}

function codeOf(
  rpc: number | undefined,
  reason: string | undefined,
  domain: unknown,
  status: number | undefined,
): ErrorCode {
  if (domain === OWN_DOMAIN && isErrorCode(reason)) return reason;
  return codeOfWireError(rpc, reason) ?? (status === undefined ? undefined : BY_STATUS[status]) ?? 'REMOTE_FAILED';
}

type Fields = Readonly<Record<string, unknown>>;

/** 1.0 has a list of details, 0.3 whatever its agents put there. */
function errorInfo(details: unknown): Fields | undefined {
  return Array.isArray(details) ? details.filter(isFields).find((one) => one['@type'] === ERROR_INFO) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? cutText(value, MAX_TEXT) : undefined;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const MEBIBYTE = 1_048_576;
/** Of one answer or one event. */
const MAX_ANSWER_BYTES = 16 * MEBIBYTE;
/** For requests that need no work of the agent. */
const QUICK_MS = 30_000;

export interface Reach {
  readonly allowPrivate?: AllowPrivate;
  /** PEM certificates of authorities, trusted instead of the system's. */
  readonly ca?: string | readonly string[];
  readonly resolve?: Resolve;
}

export interface RemoteEndpointInit extends Reach {
  readonly url: string;
  /** Asked for each request. */
  readonly headers: () => Promise<Readonly<Record<string, string>>>;
  readonly connections: Connections;
}

export interface EndpointRequest {
  readonly verb: string;
  readonly path?: string;
  readonly query?: URLSearchParams;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The answer comes when the agent is done. */
  readonly slow?: boolean;
  /** Use a new connection: a reused one may break in a way that leaves open whether the request arrived. */
  readonly fresh?: boolean;
}

/** Sends requests to one URL of a remote agent, and parses its answers. */
export class RemoteEndpoint {
  readonly #runtime: Runtime;
  readonly #init: RemoteEndpointInit;

  constructor(runtime: Runtime, init: RemoteEndpointInit) {
    this.#runtime = runtime;
    this.#init = init;
  }

  get origin(): string {
    return URL.canParse(this.#init.url) ? new URL(this.#init.url).origin : 'the agent';
  }

  /** The JSON of a 2xx answer, undefined if it is empty. Throws any other answer as a `remoteError`. */
  async ask(request: EndpointRequest, limits: CallLimits): Promise<unknown> {
    const { url, options } = await this.#prepared(request, 'application/json, application/a2a+json', limits);
    const connections = request.fresh ? {} : { connections: this.#init.connections };
    const answer = await limits.during(
      guardedFetch(this.#runtime, url, {
        ...options,
        ...connections,
        maxBytes: MAX_ANSWER_BYTES,
        timeoutMs: request.slow ? Number.POSITIVE_INFINITY : QUICK_MS,
      }),
    );
    return this.#read(answer.status, answer.headers, answer.body);
  }

  /** The JSON of each event of a stream, or of a single answer. */
  async *stream(request: EndpointRequest, limits: CallLimits): AsyncGenerator<{ data: unknown; id: string }> {
    const { url, options } = await this.#prepared(request, 'text/event-stream, application/json', limits);
    const answer = await limits.during(
      guardedFetch(this.#runtime, url, {
        ...options,
        stream: true,
        // An agent may send its headers with the first event.
        timeoutMs: Number.POSITIVE_INFINITY,
        streamMs: Number.POSITIVE_INFINITY,
      }),
    );
    try {
      const type = answer.headers.get('content-type') ?? '';
      if (answer.status >= 200 && answer.status < 300 && /^text\/event-stream\b/i.test(type)) {
        const reader = new SseReader({ maxEventBytes: MAX_ANSWER_BYTES });
        for await (const event of reader.read(answer.body)) yield { data: this.#parse(event), id: event.id };
        return;
      }
      const body = new ByteCollector('the answer', MAX_ANSWER_BYTES);
      for await (const chunk of answer.body) body.add(chunk);
      yield { data: this.#read(answer.status, answer.headers, body.take()), id: '' };
    } catch (error) {
      throw limits.reason ?? error;
    } finally {
      answer.close();
    }
  }

  async #prepared(
    request: EndpointRequest,
    accept: string,
    limits: CallLimits,
  ): Promise<{ url: string; options: FetchOptions }> {
    const { allowPrivate, ca, resolve } = this.#init;
    const headers = await this.#init.headers();
    const url = this.#init.url.replace(/\/+$/, '') + (request.path ?? '');
    const query = request.query?.toString() ?? '';
    return {
      url: query === '' ? url : `${url}?${query}`,
      options: {
        method: request.verb,
        headers: { accept, ...headers, ...request.headers },
        signal: limits.signal,
        // A redirected send could run twice.
        ...(request.verb === 'GET' ? {} : { redirects: 0 }),
        body: request.body,
        allowPrivate,
        ca,
        resolve,
      },
    };
  }

  #parse({ data }: ServerSentEvent): unknown {
    const value = parsed(data);
    if (value === undefined) throw unreadable(this.origin);
    return value;
  }

  #read(status: number, headers: ReadonlyMap<string, string>, body: Buffer): unknown {
    const value = body.length === 0 ? undefined : parsed(body.toString());
    if (status >= 200 && status < 300) {
      if (value === undefined && body.length > 0) throw unreadable(this.origin);
      return value;
    }
    // In 0.3's HTTP binding, code and message are at the top level.
    const { error = value } = (value ?? {}) as { error?: unknown };
    throw remoteError(error, { origin: this.origin, status, retryAfter: headers.get('retry-after') });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unreadable(origin: string): EclipticError {
  return new EclipticError('INVALID_AGENT_RESPONSE', `the answer of ${origin} is not JSON`, { origin });
}
