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

/** Statuses that say something by themselves. */
const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  401: 'TOKEN_REQUIRED',
  405: 'METHOD_NOT_FOUND',
  413: 'PAYLOAD_TOO_LARGE',
  429: 'REMOTE_BUSY',
  502: 'REMOTE_BUSY',
  503: 'REMOTE_BUSY',
  504: 'REMOTE_BUSY',
};

/** What came with an error besides its body. */
export interface ErrorSetting {
  readonly origin: string;
  readonly status?: number | undefined;
  readonly retryAfter?: string | undefined;
}

/**
 * The error that a remote agent's error is here: by its reason, its number or its status, never by its words. It is an
 * `ExternalServiceError` whatever its code, so that nobody takes it for an error of this side.
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

/** Did the connection end or fall silent, so that nobody knows how the call went? */
export function isBroken(error: unknown): boolean {
  if (!(error instanceof EclipticError) || error instanceof ExternalServiceError) return false;
  return error.code === 'FETCH_FAILED' || error.code === 'FETCH_TIMEOUT';
}

/** Is it certain that the request never reached the other side? */
export function wasNotSent(error: unknown): boolean {
  return isBroken(error) && (error as EclipticError).details.sent === false;
}

/** The same error where an earlier request about the same work may have reached the other side. */
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
/** Of one answer, or one event of a stream. */
const MAX_ANSWER_BYTES = 16 * MEBIBYTE;
/** How long anything may take that the agent has no need to think about. */
const QUICK_MS = 30_000;

/** How foreign agents are reached. */
export interface Reach {
  readonly allowPrivate?: AllowPrivate | undefined;
  /** Certificate authorities (PEM) to trust in place of the well-known ones. */
  readonly ca?: string | readonly string[] | undefined;
  readonly resolve?: Resolve | undefined;
}

export interface RemoteEndpointInit extends Reach {
  readonly url: string;
  /** Sent with a request; asked for each. */
  readonly headers: () => Promise<Readonly<Record<string, string>>>;
  readonly connections: Connections;
}

export interface EndpointRequest {
  readonly verb: string;
  /** Appended to the endpoint's URL. */
  readonly path?: string | undefined;
  readonly query?: URLSearchParams | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
  /** Does the answer come when the agent is done, and not at once? */
  readonly slow?: boolean | undefined;
  /** A connection of its own: one that was used before may break in a way that leaves open what arrived. */
  readonly fresh?: boolean | undefined;
}

/** One place of a remote agent: sends requests there, and gives what comes back as JSON. */
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

  /** The JSON of a good answer, undefined for an empty one; any other is thrown as the error that it is. */
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

  /** The data of the events of a stream, or of a lone answer where there is no stream. */
  async *stream(request: EndpointRequest, limits: CallLimits): AsyncGenerator<{ data: unknown; id: string }> {
    const { url, options } = await this.#prepared(request, 'text/event-stream, application/json', limits);
    const answer = await limits.during(
      guardedFetch(this.#runtime, url, {
        ...options,
        stream: true,
        // An agent may answer with its first event only.
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
        // Following one would repeat a send elsewhere, or lose what it says.
        ...(request.verb === 'GET' ? {} : { redirects: 0 }),
        ...(request.body === undefined ? {} : { body: request.body }),
        ...(allowPrivate === undefined ? {} : { allowPrivate }),
        ...(ca === undefined ? {} : { ca }),
        ...(resolve === undefined ? {} : { resolve }),
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
    // 0.3's HTTP binding has code and message at the top.
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
  return new EclipticError('INVALID_AGENT_RESPONSE', `what ${origin} answered is not JSON`, { origin });
}
