import { wait } from '../../runtime/async.js';
import { backoffMs } from '../../runtime/backoff.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { SpanAttributes } from '../../runtime/tracing.js';
import { Connections } from '../../system/fetch/exchange.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { SseReader } from '../../system/fetch/sse.js';
import { placesOf } from '../../system/fetch/target.js';
import { AnswerReader, isFields, messageOf, protocolFault } from './answer-reader.js';
import type { ChatAnswer, ChatRequest } from './chat-types.js';

export interface ChatClientInit {
  readonly baseUrl: string;
  readonly model: string;
  /** The headers of one request: resolved for each, so that a changed credential is used at once. */
  readonly headers: () => Promise<Record<string, string>>;
  readonly temperature?: number | undefined;
  readonly answerTokens?: number | undefined;
  /** Longest silence within an answer, and until it begins. */
  readonly silenceMs: number;
}

export interface ChatTerms {
  readonly signal: AbortSignal;
  /** Called with the pieces of the text as they arrive. `restart`: an earlier attempt broke off, and its text is void. */
  readonly onText: (text: string, restart: boolean) => void;
  /** Called before a wait. */
  readonly onRetry: (reason: string, ms: number) => void;
}

const CHECK_MS = 4_000;
const CHECK_BYTES = 4 * 1_048_576;
/** Of one answer, with the protocol's own words around each token. */
const MAX_ANSWER_BYTES = 16 * 1_048_576;
/** Bytes of an error that are read. */
const MAX_ERROR_BYTES = 65_536;
/** Attempts at one completion. Completions have no effects, so they may be repeated. */
const MAX_ATTEMPTS = 6;
/** Attempts while the endpoint cannot be reached or breaks off. */
const MAX_BROKEN_ATTEMPTS = 3;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
/** Time for the end of the connection's answer after the last event, so that the connection can be used again. */
const LINGER_MS = 1_000;
/** The endpoint may ask for this much patience; beyond it, the provider takes no work meanwhile. */
const MAX_RETRY_AFTER_MS = 60_000;

/** Asks one model behind an OpenAI-compatible API. */
export class ChatClient {
  readonly #runtime: Runtime;
  readonly #init: ChatClientInit;
  readonly #allowPrivate: readonly string[];
  readonly #connections = new Connections({ maxPerAddress: 128, maxFree: 16 });
  /** The endpoint has refused `response_format`; the schema in the prompt must do. */
  #isFormatRefused = false;

  constructor(runtime: Runtime, init: ChatClientInit) {
    this.#runtime = runtime;
    this.#init = init;
    // A private address in the configuration is intended.
    this.#allowPrivate = placesOf(init.baseUrl);
  }

  close(): void {
    this.#connections.close();
  }

  /** The names of the endpoint's models; empty where it has no list of them. */
  async models(signal: AbortSignal): Promise<readonly string[]> {
    const { status, headers, body } = await guardedFetch(this.#runtime, this.#url('models'), {
      headers: { accept: 'application/json', ...(await this.#init.headers()) },
      signal,
      timeoutMs: CHECK_MS,
      maxBytes: CHECK_BYTES,
      allowPrivate: this.#allowPrivate,
    });
    if (status === 404 || status === 405) return [];
    if (status !== 200) throw this.#refusal(status, headers, body.toString());
    const { data } = readJson(body.toString());
    if (!Array.isArray(data)) throw protocolFault('its list of models has no "data"');
    return data.flatMap((one) => (isFields(one) && typeof one.id === 'string' ? [one.id] : []));
  }

  /** One completion, repeated while the endpoint is busy or breaks off, within limits. */
  complete(request: ChatRequest, terms: ChatTerms): Promise<ChatAnswer> {
    const { tracer } = this.#runtime;
    if (!tracer) return this.#complete(request, terms);
    const { model, baseUrl } = this.#init;
    const about = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': model, 'gen_ai.provider.name': 'openai' };
    const attributes = { 'server.address': new URL(baseUrl).hostname, ...(tracer.genAi && about) };
    const span = tracer.start(`chat ${model}`, { kind: 'client', attributes });
    const answer = tracer.run(span, () => this.#complete(request, terms));
    answer.then(
      ({ tokens }) => span.end(undefined, tracer.genAi ? usageAttributes(tokens) : {}),
      (error: unknown) => span.end(error),
    );
    return answer;
  }

  async #complete(request: ChatRequest, { signal, onText, onRetry }: ChatTerms): Promise<ChatAnswer> {
    let spoken = false;
    let withFormat = request.outputSchema !== undefined && !this.#isFormatRefused;
    let connections: Connections | undefined = this.#connections;
    for (let attempt = 1; ; attempt++) {
      let restart = spoken;
      const hear = (text: string) => {
        onText(text, restart);
        spoken = true;
        restart = false;
      };
      try {
        const answer = await this.#ask(this.#body(request, withFormat), { signal, connections }, hear);
        // It was refused before, and without it the endpoint answers.
        if (request.outputSchema && !withFormat) this.#isFormatRefused = true;
        return answer;
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        const failure = toFailure(error);
        if (withFormat && REFUSALS_OF_FORMAT.has(failure.details.status)) {
          withFormat = false;
          continue;
        }
        // A kept connection may end just as it is used again; that says nothing about the endpoint.
        if (failure.details.reused === true && connections) {
          connections = undefined;
          continue;
        }
        const ms = delayOf(failure, attempt);
        if (ms === undefined) throw failure;
        onRetry(failure.message, ms);
        await wait(this.#runtime, ms, signal);
        if (signal.aborted) throw signal.reason;
      }
    }
  }

  async #ask(
    body: string,
    terms: { signal: AbortSignal; connections: Connections | undefined },
    onText: (text: string) => void,
  ): Promise<ChatAnswer> {
    const { silenceMs, headers } = this.#init;
    const answer = await guardedFetch(this.#runtime, this.#url('chat/completions'), {
      method: 'POST',
      headers: { accept: 'text/event-stream', 'content-type': 'application/json', ...(await headers()) },
      body,
      signal: terms.signal,
      ...(terms.connections && { connections: terms.connections, reuse: true }),
      stream: true,
      timeoutMs: silenceMs,
      idleMs: silenceMs,
      maxBytes: MAX_ANSWER_BYTES,
      allowPrivate: this.#allowPrivate,
    });
    if (answer.status !== 200) {
      throw this.#refusal(answer.status, answer.headers, await beginningOf(answer.body, MAX_ERROR_BYTES));
    }
    const reader = new AnswerReader(onText);
    try {
      // A server may ignore that a stream was asked for.
      if (answer.headers.get('content-type')?.includes('application/json')) {
        reader.take(await beginningOf(answer.body, MAX_ANSWER_BYTES));
        if (!reader.hasChoice) throw protocolFault('it has no choices');
      } else {
        await readStream(answer.body, reader);
        this.#release(answer);
      }
      return reader.answer;
    } catch (error) {
      answer.close();
      throw error;
    }
  }

  /** Reads the end of an answer in the background, so that its connection can be used again. */
  #release({ body, close }: { body: AsyncIterable<Buffer>; close: () => void }): void {
    const timer = this.#runtime.setTimer(close, LINGER_MS);
    const end = async () => {
      for await (const _ of body) return close();
    };
    void end()
      .catch(() => {})
      .finally(() => timer.cancel());
  }

  #body({ messages, tools = [], outputSchema }: ChatRequest, withFormat: boolean): string {
    const { model, temperature, answerTokens } = this.#init;
    return JSON.stringify({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
      ...(temperature !== undefined && { temperature }),
      ...(answerTokens !== undefined && { max_tokens: answerTokens }),
      ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: 'function', function: tool })) }),
      ...(withFormat && {
        response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: outputSchema } },
      }),
    });
  }

  #refusal(status: number, headers: ReadonlyMap<string, string>, body: string): EclipticError {
    const { baseUrl, model } = this.#init;
    const { error, message } = tryJson(body);
    const said = messageOf(error ?? message ?? body.trim());
    const about = { status, ...retryAfter(headers.get('retry-after'), this.#runtime.now()) };
    if (status === 404) {
      return new EclipticError('PROVIDER_UNAVAILABLE', `${baseUrl} does not serve model "${model}": ${said}`, about);
    }
    return new EclipticError('REMOTE_FAILED', `${baseUrl} answered with HTTP ${status}: ${said}`, about);
  }

  #url(path: string): string {
    return `${this.#init.baseUrl.replace(/\/+$/, '')}/${path}`;
  }
}

/** Statuses of endpoints that do not know `response_format`. */
const REFUSALS_OF_FORMAT: ReadonlySet<unknown> = new Set([400, 422]);

/** Reads the events up to the last one; what follows stays unread. */
async function readStream(body: AsyncIterable<Buffer>, reader: AnswerReader): Promise<void> {
  let events = 0;
  // Without a `return`, so that leaving the loop does not close the connection.
  const chunks = { [Symbol.asyncIterator]: () => ({ next: () => body[Symbol.asyncIterator]().next() }) };
  for await (const { data } of new SseReader().read(chunks)) {
    if (data === '[DONE]') return;
    events++;
    reader.take(data);
  }
  if (events === 0) throw protocolFault('it sent no events');
  // Some servers end without [DONE], but none without a reason.
  if (!reader.isFinished) {
    throw new EclipticError('PROVIDER_CRASHED', 'the model’s answer broke off before its end', { broken: true });
  }
}

/** How long to wait before the next attempt; undefined where another one is of no use. */
function delayOf({ code, details }: EclipticError, attempt: number): number | undefined {
  const { status, retryAfterMs } = details;
  const isBusy = status === 429 || status === 529;
  const isBroken = code === 'FETCH_FAILED' || details.broken === true || (typeof status === 'number' && status >= 500);
  if (!(isBusy && attempt < MAX_ATTEMPTS) && !(isBroken && attempt < MAX_BROKEN_ATTEMPTS)) return undefined;
  const usual = backoffMs(attempt - 1, FIRST_BACKOFF_MS, MAX_BACKOFF_MS);
  if (typeof retryAfterMs !== 'number') return usual;
  return retryAfterMs > MAX_RETRY_AFTER_MS ? undefined : Math.max(retryAfterMs, usual);
}

/** Seconds or a date. */
function retryAfter(header: string | undefined, now: number): { retryAfterMs?: number } {
  if (header === undefined) return {};
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now;
  return Number.isFinite(ms) ? { retryAfterMs: Math.max(0, ms) } : {};
}

function toFailure(error: unknown): EclipticError {
  if (!(error instanceof EclipticError)) throw error;
  if (error.code !== 'PAYLOAD_TOO_LARGE') return error;
  return new EclipticError('PROVIDER_EXECUTE_FAILED', `the model’s answer is too large: ${error.message}`);
}

async function beginningOf(body: AsyncIterable<Buffer>, most: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= most) break;
  }
  return Buffer.concat(chunks).subarray(0, most).toString();
}

function readJson(text: string): Readonly<Record<string, unknown>> {
  const value = tryJson(text);
  if (Object.keys(value).length === 0) throw protocolFault('its list of models is no JSON object');
  return value;
}

function tryJson(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isFields(value) ? value : {};
  } catch {
    return {};
  }
}

function usageAttributes(tokens: ChatAnswer['tokens']): SpanAttributes {
  return { 'gen_ai.usage.input_tokens': tokens?.input, 'gen_ai.usage.output_tokens': tokens?.output };
}
