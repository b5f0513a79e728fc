import { EclipticError, type ErrorCode, isErrorCode, type Outcome } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import { malformed, type Refusal } from './wire.js';

/** An item that is kept until the other node has acknowledged or refused it. */
interface Outgoing {
  text: string;
  readonly resolve: (() => void) | undefined;
  readonly reject: ((error: EclipticError) => void) | undefined;
}

/** The items that may be kept at once, and their characters together. */
interface OutgoingInit {
  items: number;
  chars: number;
}

/** The limit of sent and unacknowledged items; the rest waits here instead of in the network. */
const WINDOW_ITEMS = 4_096;
const WINDOW_CHARS = 4 * 1_048_576;
/** One frame holds up to this much, unless a single item is larger. */
const FRAME_ITEMS = 512;
const FRAME_CHARS = 65_536;

/**
 * The sending half of a conversation: numbers every item and keeps it until it is acknowledged, so that it can be sent
 * again over the next link. No timers, no I/O.
 */
export class OutgoingStream {
  readonly #init: OutgoingInit;
  readonly #kept = new Fifo<Outgoing>();
  /** The number of the first item kept. */
  #base = 1;
  /** How many of the kept items were sent over the present link. */
  #sent = 0;
  #sentChars = 0;
  #chars = 0;
  /** The highest number ever sent. */
  #highest = 0;

  constructor(init: OutgoingInit) {
    this.#init = init;
  }

  get base(): number {
    return this.#base;
  }

  /** Is there an item to send, and room in the window? */
  get ready(): boolean {
    return this.#sent < this.#kept.length && this.#sent < WINDOW_ITEMS && this.#sentChars < WINDOW_CHARS;
  }

  get settled(): boolean {
    return this.#kept.length === 0;
  }

  /** Adds an item and returns its number; `resolve` or `reject` is called once, when its outcome is known. */
  push(text: string, resolve?: () => void, reject?: (error: EclipticError) => void): number {
    const { items, chars } = this.#init;
    if (this.#kept.length >= items || this.#chars + text.length > chars) {
      throw new EclipticError('QUEUE_FULL', 'too many items wait for the other node already');
    }
    this.#chars += text.length;
    this.#kept.push({ text, resolve, reject });
    return this.#base + this.#kept.length - 1;
  }

  /** Replaces an item. The other side takes one of the two, so the outcome of one that was sent is `unknown`. */
  replace(number: number, text: string): Outcome {
    const index = number - this.#base;
    const item = index < 0 ? undefined : this.#kept.at(index);
    if (!item) return 'unknown';
    const change = text.length - item.text.length;
    this.#chars += change;
    if (index < this.#sent) this.#sentChars += change;
    item.text = text;
    return number > this.#highest ? 'not-delivered' : 'unknown';
  }

  /** The items of the next frame, and the number of the first. */
  take(): { first: number; texts: string[] } {
    const first = this.#base + this.#sent;
    const texts: string[] = [];
    let chars = 0;
    while (this.ready && texts.length < FRAME_ITEMS) {
      const { text } = this.#kept.at(this.#sent)!;
      if (texts.length > 0 && chars + text.length > FRAME_CHARS) break;
      chars += text.length;
      texts.push(text);
      this.#sent++;
      this.#sentChars += text.length;
    }
    this.#highest = Math.max(this.#highest, this.#base + this.#sent - 1);
    return { first, texts };
  }

  /** Sends every unacknowledged item again. */
  rewind(): void {
    this.#sent = 0;
    this.#sentChars = 0;
  }

  /** Settles the items up to `received`. False if they were settled before. */
  acknowledge(received: number, refusals: readonly Refusal[]): boolean {
    if (received > this.#highest) throw malformed('it acknowledges an item that was never sent');
    if (received < this.#base) return false;
    const refused = refusals.length === 0 ? undefined : new Map(refusals.map((refusal) => [refusal[0], refusal]));
    while (this.#base <= received) {
      const { text, resolve, reject } = this.#kept.shift()!;
      this.#chars -= text.length;
      if (this.#sent > 0) {
        this.#sent--;
        this.#sentChars -= text.length;
      }
      const refusal = refused?.get(this.#base);
      this.#base++;
      if (refusal) reject?.(refusedBy(refusal));
      else resolve?.();
    }
    return true;
  }

  /** Rejects every kept item with its outcome; the stream is not used any more. */
  fail(reason: string): void {
    const first = this.#base;
    this.#kept.drain().forEach(({ reject }, index) => {
      const outcome = first + index <= this.#highest ? 'unknown' : 'not-delivered';
      reject?.(new EclipticError('DELIVERY_FAILED', reason, { outcome }));
    });
  }
}

/** The receiving half: counts the items it has taken, so that each is taken once. */
export class IncomingStream {
  readonly #refusals = new Map<number, Refusal>();
  #received = 0;

  /** The number of the last item that was taken. */
  get received(): number {
    return this.#received;
  }

  /** Refusals that the other side may not have received. */
  get refusals(): readonly Refusal[] {
    return this.#refusals.size === 0 ? NONE : [...this.#refusals.values()];
  }

  /** How many of the items from `first` on were taken before; undefined when items before `first` are missing. */
  known(first: number): number | undefined {
    return first > this.#received + 1 ? undefined : this.#received + 1 - first;
  }

  /** Counts one more item and returns its number. */
  advance(): number {
    return ++this.#received;
  }

  refuse(seq: number, error: EclipticError): void {
    if (this.#refusals.size > 2 * WINDOW_ITEMS) throw malformed('it never settles refused items');
    this.#refusals.set(seq, [seq, error.code, error.message]);
  }

  /** The other side has received the refusals of items below `base`. */
  forget(base: number): void {
    if (this.#refusals.size === 0) return;
    for (const seq of this.#refusals.keys()) if (seq < base) this.#refusals.delete(seq);
  }
}

const NONE: readonly Refusal[] = [];

function refusedBy([, code, reason]: Refusal): EclipticError {
  const known: ErrorCode = isErrorCode(code) ? code : 'DELIVERY_FAILED';
  return new EclipticError(known, reason, { outcome: 'not-delivered' });
}
