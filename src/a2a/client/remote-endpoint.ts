import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { AllowPrivate } from '../../system/fetch/allow-list.js';
import { ByteCollector } from '../../system/fetch/byte-collector.js';
import type { Connections } from '../../system/fetch/connections.js';
import { type FetchOptions, guardedFetch } from '../../system/fetch/guarded-fetch.js';
import type { Resolve } from '../../system/fetch/resolve.js';
import { type ServerSentEvent, SseReader } from '../../system/fetch/sse.js';
import type { CallLimits } from './call-limits.js';
import { remoteError } from './remote-errors.js';

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
