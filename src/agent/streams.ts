import type { RefusalListener } from '../mesh/remote-delivery.js';
import { Deadline, type DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';

/** Chunks that a producer may send before the consumer grants more. */
export const STREAM_WINDOW = 256;
/** Chunks, and their bytes, that may be on their way to another node without its acknowledgement. */
export const CHUNKS_IN_FLIGHT = 64;
const BYTES_IN_FLIGHT = 262_144;
/** A slow reader still grants this often, so that the producer knows that it is alive. */
const GRANT_EVERY_MS = 5_000;

export interface StreamPort {
  readonly runtime: Runtime;
  readonly deadlines: DeadlineQueue;
  /** Sends one envelope of this stream to the other end; rejects when it was not delivered. */
  send(type: 'stream-start' | 'stream-data' | 'stream-end' | 'error', payload: unknown): Promise<void>;
  /**
   * Sends one chunk; throws if it is refused at once. Returns the bytes that are on their way to another node, whose answer
   * is told to `outcome`, or 0 if the reader has the chunk.
   */
  sendChunk(payload: unknown, index: number, outcome: RefusalListener): number;
  finished(): void;
}

/** The reading end of a stream, as its agent feeds it. */
export interface ReadingEnd {
  begin(): void;
  push(chunk: unknown): void;
  /** The producer is done. */
  end(): void;
  /** The whole answer, in place of a stream. */
  answer(value: unknown): void;
  /** The producer says that it failed. */
  producerFailed(error: EclipticError): void;
  /** Ends the stream from this side, and tells the producer. */
  fail(error: EclipticError): void;
}

/** The reading end: an async iterator over the chunks, in order. Leaving the loop early tells the producer to stop. */
export class StreamReader<T = unknown> extends Deadline implements AsyncIterableIterator<T>, ReadingEnd {
  readonly #port: StreamPort;
  readonly #idleMs: number;
  readonly #buffer: T[] = [];
  readonly #credit: Credit;
  #begun = false;
  #onBegun: (() => void) | undefined;
  #waiting: { resolve: (result: IteratorResult<T>) => void; reject: (error: unknown) => void } | undefined;
  #open = true;
  #error: EclipticError | undefined;

  constructor(port: StreamPort, idleMs: number) {
    super();
    this.#port = port;
    this.#idleMs = idleMs;
    this.#credit = new Credit(port);
  }

  /** @internal */
  begin(): void {
    this.#begun = true;
    this.#onBegun?.();
  }

  /** @internal */
  onBegun(callback: () => void): void {
    this.#onBegun = callback;
    if (this.#begun) callback();
  }

  /** @internal */
  push(chunk: T): void {
    if (!this.#open) return;
    if (this.#waiting) {
      this.#wake().resolve({ value: chunk, done: false });
      if (this.#open) this.#credit.taken();
    } else if (this.#buffer.length === STREAM_WINDOW) {
      this.fail(new EclipticError('QUEUE_FULL', 'the producer sent more than the stream’s window allows'));
    } else {
      this.#buffer.push(chunk);
    }
  }

  /** @internal The producer is done. */
  end(): void {
    if (!this.#open) return;
    this.#finish();
    if (this.#waiting) this.#wake().resolve({ value: undefined, done: true });
  }

  /** @internal */
  answer(value: T): void {
    this.push(value);
    this.end();
  }

  /** @internal The producer says that it failed: the error comes after the chunks that came before it. */
  producerFailed(error: EclipticError): void {
    if (!this.#open) return;
    this.#finish();
    if (this.#waiting) this.#wake().reject(error);
    else this.#error = error;
  }

  /** @internal Ends the stream from this side, and tells the producer. */
  fail(error: EclipticError): void {
    if (!this.#open) return;
    this.#tellProducer();
    this.producerFailed(error);
  }

  override expire(): void {
    this.fail(new EclipticError('REQUEST_TIMEOUT', `the stream was silent for ${this.#idleMs} ms`));
  }

  next(): Promise<IteratorResult<T>> {
    if (this.#buffer.length > 0) {
      const value = this.#buffer.shift() as T;
      if (this.#open) this.#credit.taken();
      return Promise.resolve({ value, done: false });
    }
    if (this.#error) {
      const error = this.#error;
      this.#error = undefined;
      return Promise.reject(error);
    }
    if (!this.#open) return Promise.resolve({ value: undefined, done: true });
    if (this.#waiting) {
      return Promise.reject(
        new EclipticError('INVALID_TRANSITION', 'a stream is read by one reader, one step at a time'),
      );
    }
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#port.deadlines.add(this, this.#idleMs);
    });
  }

  async return(): Promise<IteratorResult<T>> {
    if (this.#open) {
      this.#tellProducer();
      this.end();
    }
    this.#buffer.length = 0;
    this.#error = undefined;
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #wake() {
    const waiting = this.#waiting!;
    this.#waiting = undefined;
    this.#port.deadlines.remove(this);
    return waiting;
  }

  #tellProducer(): void {
    this.#port.send('stream-end', null).catch(() => {});
  }

  #finish(): void {
    this.#open = false;
    this.#port.finished();
  }
}

/** Takes the items of a stream as they arrive. If a method throws, the stream ends with that error. */
export interface StreamListener {
  begun(): void;
  item(value: unknown): void;
  /** The whole answer, in place of a stream. `ended` is not called for it. */
  answered(value: unknown): void;
  ended(error?: unknown): void;
}

/**
 * The reading end of a listener that takes every item at once: nothing waits, so it needs no promise, no buffer and no
 * deadline. An answer that comes at once is heard before the call that asked returns.
 */
export class StreamTap implements ReadingEnd {
  readonly #port: StreamPort;
  readonly #listener: StreamListener;
  readonly #credit: Credit;
  #open = true;

  constructor(port: StreamPort, listener: StreamListener) {
    this.#port = port;
    this.#listener = listener;
    this.#credit = new Credit(port);
  }

  begin(): void {
    if (this.#open) this.#listener.begun();
  }

  push(chunk: unknown): void {
    if (!this.#open) return;
    try {
      this.#listener.item(chunk);
    } catch (error) {
      this.leave();
      this.#listener.ended(error);
    }
    if (this.#open) this.#credit.taken();
  }

  answer(value: unknown): void {
    if (!this.#open) return;
    this.#finish();
    try {
      this.#listener.answered(value);
    } catch (error) {
      this.#listener.ended(error);
    }
  }

  end(): void {
    if (!this.#open) return;
    this.#finish();
    this.#listener.ended();
  }

  producerFailed(error: EclipticError): void {
    if (!this.#open) return;
    this.#finish();
    this.#listener.ended(error);
  }

  fail(error: EclipticError): void {
    if (!this.#open) return;
    this.leave();
    this.#listener.ended(error);
  }

  /** Tells the producer to stop. The listener hears nothing more. */
  leave(): void {
    if (!this.#open) return;
    this.#port.send('stream-end', null).catch(() => {});
    this.#finish();
  }

  #finish(): void {
    this.#open = false;
    this.#port.finished();
  }
}

/** What a reader has taken since it last let the producer send more. */
class Credit {
  readonly #port: StreamPort;
  #taken = 0;
  #grantedAt: number;

  constructor(port: StreamPort) {
    this.#port = port;
    this.#grantedAt = port.runtime.now();
  }

  /** After half a window, or some time, lets the producer send as much again. */
  taken(): void {
    const now = this.#port.runtime.now();
    if (++this.#taken < STREAM_WINDOW / 2 && now - this.#grantedAt < GRANT_EVERY_MS) return;
    const credit = this.#taken;
    this.#taken = 0;
    this.#grantedAt = now;
    this.#port.send('stream-data', { credit }).catch(() => {});
  }
}

/**
 * The writing end: sends the items of an iterable, never further ahead than the reader's window. Chunks for another node do
 * not wait for each other's acknowledgements, so a stream is not limited to one chunk for each round trip.
 */
export class StreamWriter extends Deadline implements RefusalListener {
  readonly #port: StreamPort;
  readonly #idleMs: number;
  #window = STREAM_WINDOW;
  #stopped: EclipticError | undefined;
  #wake: (() => void) | undefined;
  #sent = 0;
  #inFlight = 0;
  /** An upper bound, which is corrected when nothing is in flight: acknowledgements do not name their chunks. */
  #bytes = 0;
  #onAcknowledged: (() => void) | undefined;

  constructor(port: StreamPort, idleMs: number) {
    super();
    this.#port = port;
    this.#idleMs = idleMs;
  }

  /** @internal */
  credit(payload: unknown): void {
    const credit = (payload as { credit?: unknown } | null)?.credit;
    if (typeof credit !== 'number' || !(credit > 0)) return;
    this.#window = Math.min(STREAM_WINDOW, this.#window + Math.floor(credit));
    this.#wake?.();
  }

  /** @internal The reader left, or the wait for it ended. */
  stop(error: EclipticError): void {
    this.#stopped ??= error;
    this.#wake?.();
    this.#onAcknowledged?.();
  }

  /** @internal The other node has a chunk. */
  holds(): boolean {
    this.#acknowledged();
    return false;
  }

  /** @internal The other node refused a chunk, or was lost. */
  fail(error: EclipticError): void {
    this.stop(error);
    this.#acknowledged();
  }

  override expire(): void {
    this.stop(new EclipticError('REQUEST_TIMEOUT', `the reader of the stream took nothing for ${this.#idleMs} ms`));
  }

  /** Sends all items and the end. Throws the source's error, or why the reader cannot be reached. */
  async pump(source: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
    let started = false;
    try {
      await this.#port.send('stream-start', null);
      started = true;
      for await (const chunk of source) {
        if (this.#window === 0) await this.#room();
        if (this.#stopped) break;
        this.#window--;
        if (!this.#sendNow(chunk)) await this.#sendLater(chunk);
        if (this.#inFlight >= CHUNKS_IN_FLIGHT || this.#bytes >= BYTES_IN_FLIGHT) {
          await this.#untilInFlight(CHUNKS_IN_FLIGHT / 2);
        }
      }
      // The end tells the reader that it has every chunk.
      await this.#untilInFlight(0);
      if (this.#stopped) throw this.#stopped;
      await this.#port.send('stream-end', null);
    } catch (error) {
      throw started ? partly(error) : error;
    } finally {
      this.#port.finished();
    }
  }

  /** False if the chunk was refused at once while others are in flight. */
  #sendNow(chunk: unknown): boolean {
    try {
      const bytes = this.#port.sendChunk(chunk, this.#sent, this);
      this.#sent++;
      if (bytes > 0) {
        this.#inFlight++;
        this.#bytes += bytes;
      }
      return true;
    } catch (error) {
      if (this.#inFlight === 0) throw error;
      return false;
    }
  }

  /** A silent peer and a full buffer refuse at once. Both may be over when the chunks in flight have arrived. */
  async #sendLater(chunk: unknown): Promise<void> {
    await this.#untilInFlight(0);
    if (!this.#stopped) this.#sendNow(chunk);
  }

  #acknowledged(): void {
    if (--this.#inFlight === 0) this.#bytes = 0;
    this.#onAcknowledged?.();
  }

  /** Resolves when at most so many chunks, and half of the bytes, are in flight, or the stream is stopped. */
  async #untilInFlight(chunks: number): Promise<void> {
    const isReached = () =>
      this.#stopped !== undefined ||
      this.#inFlight === 0 ||
      (this.#inFlight <= chunks && this.#bytes < BYTES_IN_FLIGHT);
    if (isReached()) return;
    await new Promise<void>((resolve) => {
      this.#onAcknowledged = () => {
        if (isReached()) resolve();
      };
    });
    this.#onAcknowledged = undefined;
  }

  async #room(): Promise<void> {
    this.#port.deadlines.add(this, this.#idleMs);
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      if (this.#window > 0 || this.#stopped) resolve();
    });
    this.#wake = undefined;
    this.#port.deadlines.remove(this);
  }
}

/** Earlier chunks may have arrived, although this one did not. */
function partly(error: unknown): unknown {
  if (!(error instanceof EclipticError) || error.details.outcome !== 'not-delivered') return error;
  return new EclipticError(error.code, error.message, { ...error.details, outcome: 'unknown' }, error);
}
