import { EclipticError, type ErrorCode, isErrorCode, type Outcome } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import { malformed, type Refusal } from './wire.js';

/** Something on its way to the other node, kept until that node says what became of it. */
interface Outgoing {
  text: string;
  readonly resolve: (() => void) | undefined;
  readonly reject: ((error: EclipticError) => void) | undefined;
}

export interface OutgoingInit {
  /** Items that may be kept at once. */
  items: number;
  /** Characters of all of them together. */
  chars: number;
}

/** Items sent and not acknowledged; the rest waits here instead of in the network. */
const WINDOW_ITEMS = 4_096;
const WINDOW_CHARS = 4 * 1_048_576;
/** One frame holds up to this much, unless a single item is larger. */
const FRAME_ITEMS = 512;
const FRAME_CHARS = 65_536;

/**
 * The sending half of the conversation between two processes: numbers every item, and keeps it until it is
 * acknowledged, so that it can be sent again over the next link. No timers, no I/O.
 */
export class OutgoingStream {
  readonly #init: OutgoingInit;
  readonly #kept = new Fifo<Outgoing>();
  /** The number of the first item kept. */
  #base = 1;
  /** How many of those kept were sent over the present link. */
  #sent = 0;
  #sentChars = 0;
  #chars = 0;
  /** The highest number that was ever sent. */
  #highest = 0;

  constructor(init: OutgoingInit) {
    this.#init = init;
  }

  get base(): number {
    return this.#base;
  }

  /** Does something wait to be sent, and may it? */
  get ready(): boolean {
    return this.#sent < this.#kept.length && this.#sent < WINDOW_ITEMS && this.#sentChars < WINDOW_CHARS;
  }

  /** Is everything acknowledged? */
  get settled(): boolean {
    return this.#kept.length === 0;
  }

  /** Keeps an item for sending, and gives its number; `resolve` or `reject` is called once, when its fate is known. */
  push(text: string, resolve?: () => void, reject?: (error: EclipticError) => void): number {
    const { items, chars } = this.#init;
    if (this.#kept.length >= items || this.#chars + text.length > chars) {
      throw new EclipticError('QUEUE_FULL', 'too much waits for the other node already');
    }
    this.#chars += text.length;
    this.#kept.push({ text, resolve, reject });
    return this.#base + this.#kept.length - 1;
  }

  /**
   * Puts another item in the place of one that must not be taken any more. The other side takes one of the two under
   * that number, so `unknown` is the outcome of an item that was sent once.
   */
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

  /** The next items to put into one frame, and the number of the first. */
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

  /** Everything that was sent and not acknowledged will be sent again. */
  rewind(): void {
    this.#sent = 0;
    this.#sentChars = 0;
  }

  /** The other side has taken everything up to `received`, but for the refusals. True when that is news. */
  acknowledge(received: number, refusals: readonly Refusal[]): boolean {
    if (received > this.#highest) throw malformed('it acknowledges what was never sent');
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

  /** Gives up everything kept, and with it the stream; each item learns whether it may have arrived. */
  fail(reason: string): void {
    const first = this.#base;
    this.#kept.drain().forEach(({ reject }, index) => {
      const outcome = first + index <= this.#highest ? 'unknown' : 'not-delivered';
      reject?.(new EclipticError('DELIVERY_FAILED', reason, { outcome }));
    });
  }
}

/** The receiving half: knows how far it has come, so that what is sent again is not taken again. */
export class IncomingStream {
  readonly #refusals = new Map<number, Refusal>();
  #received = 0;

  /** Everything up to this number was taken. */
  get received(): number {
    return this.#received;
  }

  /** Refusals that the other side may not have heard of. */
  get refusals(): readonly Refusal[] {
    return this.#refusals.size === 0 ? NONE : [...this.#refusals.values()];
  }

  /** How many of the items that begin at `first` were taken before; undefined when some in between are missing. */
  known(first: number): number | undefined {
    return first > this.#received + 1 ? undefined : this.#received + 1 - first;
  }

  /** Counts one more item as taken; returns its number. */
  advance(): number {
    return ++this.#received;
  }

  refuse(seq: number, error: EclipticError): void {
    if (this.#refusals.size > 2 * WINDOW_ITEMS) throw malformed('it never moves on');
    this.#refusals.set(seq, [seq, error.code, error.message]);
  }

  /** The other side will never ask about numbers below `base` again. */
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
