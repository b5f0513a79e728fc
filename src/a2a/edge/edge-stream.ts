import type { EclipticError } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import type { StreamResponse } from '../protocol/types.js';

/** One event of a stream; a single message has no number. */
export interface NumberedEvent {
  readonly sequence?: number;
  readonly event: StreamResponse;
}

/** Characters of events that may be under way to a reader at another node and not read. */
export const WINDOW_CHARS = 1_048_576;
/** Short events cost memory too. */
const EVENT_CHARS = 256;
export const MAX_UNREAD = WINDOW_CHARS / EVENT_CHARS;

interface Received {
  readonly event: NumberedEvent;
  readonly marked: boolean;
  readonly chars: number;
}

export interface RemoteStreamListener {
  /** The reader has read that many events since the last call. */
  read(count: number): void;
  /** The reader leaves before the end. */
  left(): void;
}

/** The reader's end of a stream from another node. */
export class RemoteStream implements AsyncIterator<NumberedEvent, undefined> {
  readonly #listener: RemoteStreamListener;
  readonly #waiting = new Fifo<Received>();
  #read = 0;
  /** Of the events that wait, where they are measured. */
  #chars = 0;
  #over = false;
  #error: EclipticError | undefined;
  #wake: (() => void) | undefined;

  constructor(listener: RemoteStreamListener) {
    this.#listener = listener;
  }

  get unread(): number {
    return this.#waiting.length;
  }

  /** False if the sender should have waited for the reader. */
  push(event: NumberedEvent, marked: boolean, chars = 0): boolean {
    if (this.#over) return true;
    if (this.#chars >= WINDOW_CHARS) return false;
    this.#chars += chars;
    this.#waiting.push({ event, marked, chars });
    this.#wake?.();
    return true;
  }

  /** Events that arrived before the end are still read. */
  end(error?: EclipticError): void {
    this.#error ??= error;
    this.#over = true;
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<NumberedEvent, undefined>> {
    for (;;) {
      const received = this.#waiting.shift();
      if (received) {
        this.#read++;
        this.#chars -= received.chars;
        if (received.marked) this.#listener.read(this.#read);
        if (received.marked) this.#read = 0;
        return { value: received.event, done: false };
      }
      if (this.#error) throw this.#error;
      if (this.#over) return { value: undefined, done: true };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async return(): Promise<IteratorResult<NumberedEvent, undefined>> {
    const open = !this.#over;
    this.#waiting.drain();
    this.#error = undefined;
    this.end();
    if (open) this.#listener.left();
    return { value: undefined, done: true };
  }
}

/** Events under way to all readers at one node. The links to it carry everything else, too. */
export class SharedWindow {
  readonly #most: number;
  #used = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get full(): boolean {
    return this.#used >= this.#most;
  }

  add(chars: number): void {
    this.#used += chars;
  }
}

/**
 * The sender's count of the events that the other node has not read. Some events are marked: the reader confirms when it
 * has read one, so that a fast stream costs few confirmations and a slow reader stops the sender. While the shared window
 * is full, each stream has one event under way.
 */
export class StreamWindow {
  readonly #shared: SharedWindow;
  readonly #sizes = new Fifo<number>();
  #unread = 0;
  #unmarked = 0;
  /** The shared window was full after the latest event, which is marked therefore. */
  #tight = false;
  #closed = false;
  #wake: (() => void) | undefined;

  constructor(shared: SharedWindow) {
    this.#shared = shared;
  }

  /** True if the event is to be marked. */
  sent(chars: number): boolean {
    const size = chars + EVENT_CHARS;
    this.#sizes.push(size);
    this.#unread += size;
    this.#unmarked += size;
    this.#shared.add(size);
    this.#tight = this.#shared.full;
    if (this.#unmarked < WINDOW_CHARS / 4 && !this.#tight) return false;
    this.#unmarked = 0;
    return true;
  }

  read(count: number): void {
    for (let left = Math.min(count, this.#sizes.length); left > 0; left--) this.#forget(this.#sizes.shift()!);
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.#forget(this.#unread);
    this.#sizes.drain();
    this.#wake?.();
  }

  /** Resolves when more may be sent. */
  async room(): Promise<void> {
    while (!this.#closed && (this.#unread >= WINDOW_CHARS || (this.#tight && this.#unread > 0))) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #forget(chars: number): void {
    this.#unread -= chars;
    this.#shared.add(-chars);
  }
}
