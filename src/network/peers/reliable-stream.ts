import { EclipticError, type ErrorCode, isErrorCode, type Outcome } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import { COMMA, malformed, type Refusal } from './wire.js';

/** Told once what became of an item. */
export interface ItemOutcome {
  taken(): void;
  refused(error: EclipticError): void;
}

/**
 * An item that is kept until the other node has acknowledged or refused it: a range of a chunk outside of the JavaScript
 * heap. As strings, the items of a full window were copied by every run of the garbage collector, which took half of the
 * sender's CPU time.
 */
class Outgoing {
  chunk: Buffer;
  start: number;
  end: number;
  readonly outcome: ItemOutcome | undefined;

  constructor(chunk: Buffer, start: number, end: number, outcome: ItemOutcome | undefined) {
    this.chunk = chunk;
    this.start = start;
    this.end = end;
    this.outcome = outcome;
  }

  get text(): string {
    return this.chunk.toString('utf8', this.start, this.end);
  }
}

/** The items that may be kept at once, and their bytes together. */
interface OutgoingInit {
  items: number;
  bytes: number;
}

/** The limit of sent and unacknowledged items; the rest waits here instead of in the network. */
const WINDOW_ITEMS = 4_096;
const WINDOW_BYTES = 4 * 1_048_576;
/** One frame holds up to this much, unless a single item is larger. */
const FRAME_ITEMS = 512;
const FRAME_BYTES = 65_536;
/** Chunks grow from the first size to the second, so that a conversation with few items takes little memory. */
const FIRST_CHUNK_BYTES = 2_048;
const CHUNK_BYTES = FRAME_BYTES;
/** The chunk that a conversation keeps while nothing is in flight is at most this large. */
const IDLE_CHUNK_BYTES = 8_192;
const NO_CHUNK: Buffer = Buffer.alloc(0);

/**
 * The sending half of a conversation: numbers every item and keeps it until it is acknowledged, so that it can be sent
 * again over the next link. No timers, no I/O.
 */
export class OutgoingStream {
  readonly #init: OutgoingInit;
  readonly #kept = new Fifo<Outgoing>();
  /** The chunk that is filled at present, and how far. Each item is followed by a comma, as in a frame. */
  #chunk = NO_CHUNK;
  #used = 0;
  /** The number of the first item kept. */
  #base = 1;
  /** How many of the kept items were sent over the present link. */
  #sent = 0;
  #sentBytes = 0;
  #bytes = 0;
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
    return this.#sent < this.#kept.length && this.#sent < WINDOW_ITEMS && this.#sentBytes < WINDOW_BYTES;
  }

  get settled(): boolean {
    return this.#kept.length === 0;
  }

  /** Adds an item and returns its number; `outcome` is told once what became of it. */
  push(text: string, outcome?: ItemOutcome): number {
    const { items, bytes } = this.#init;
    if (this.#kept.length >= items || this.#bytes + text.length > bytes) {
      throw new EclipticError('QUEUE_FULL', 'too many items wait for the other node already');
    }
    const start = this.#write(text);
    const end = this.#used - 1;
    this.#bytes += end - start;
    this.#kept.push(new Outgoing(this.#chunk, start, end, outcome));
    return this.#base + this.#kept.length - 1;
  }

  /**
   * Replaces the item with that number and outcome. The other side takes one of the two, so the outcome of one that was
   * sent is `unknown`.
   */
  replace(number: number, text: string, outcome?: ItemOutcome): Outcome {
    const index = number - this.#base;
    const item = index < 0 ? undefined : this.#kept.at(index);
    if (item?.outcome !== outcome || !item) return 'unknown';
    const start = this.#write(text);
    const end = this.#used - 1;
    const change = end - start - (item.end - item.start);
    this.#bytes += change;
    if (index < this.#sent) this.#sentBytes += change;
    item.chunk = this.#chunk;
    item.start = start;
    item.end = end;
    return number > this.#highest ? 'not-delivered' : 'unknown';
  }

  /** The items of the next frame, in runs with commas between the items of each, and the number of the first. */
  take(): { first: number; runs: readonly Uint8Array[] } {
    const first = this.#base + this.#sent;
    const runs: Uint8Array[] = [];
    let run: Outgoing | undefined;
    let end = 0;
    let bytes = 0;
    for (let count = 0; this.ready && count < FRAME_ITEMS; count++) {
      const item = this.#kept.at(this.#sent)!;
      const length = item.end - item.start;
      if (count > 0 && bytes + length > FRAME_BYTES) break;
      // Items that were pushed one after the other are next to each other, except for the first of a chunk.
      if (run && (item.chunk !== run.chunk || item.start !== end + 1)) {
        runs.push(run.chunk.subarray(run.start, end));
        run = undefined;
      }
      run ??= item;
      end = item.end;
      bytes += length;
      this.#sent++;
    }
    if (run) runs.push(run.chunk.subarray(run.start, end));
    this.#sentBytes += bytes;
    this.#highest = Math.max(this.#highest, this.#base + this.#sent - 1);
    return { first, runs };
  }

  /** Sends every unacknowledged item again. */
  rewind(): void {
    this.#sent = 0;
    this.#sentBytes = 0;
  }

  /** Settles the items up to `received`. False if they were settled before. */
  acknowledge(received: number, refusals: readonly Refusal[]): boolean {
    if (received > this.#highest) throw malformed('it acknowledges an item that was never sent');
    if (received < this.#base) return false;
    const refused = refusals.length === 0 ? undefined : new Map(refusals.map((refusal) => [refusal[0], refusal]));
    while (this.#base <= received) {
      const { start, end, outcome } = this.#kept.shift()!;
      this.#bytes -= end - start;
      if (this.#sent > 0) {
        this.#sent--;
        this.#sentBytes -= end - start;
      }
      const refusal = refused?.get(this.#base);
      this.#base++;
      if (refusal) outcome?.refused(refusedBy(refusal));
      else outcome?.taken();
    }
    if (this.#kept.length === 0) this.#reuseChunk();
    return true;
  }

  /** Gives up the items that were not acknowledged; the stream is not used any more. */
  release(): readonly Pick<Outgoing, 'text' | 'outcome'>[] {
    return this.#kept.drain();
  }

  /** Rejects every kept item with its outcome; the stream is not used any more. */
  fail(reason: string): void {
    const first = this.#base;
    this.#kept.drain().forEach(({ outcome }, index) => {
      const arrived = first + index <= this.#highest ? 'unknown' : 'not-delivered';
      outcome?.refused(new EclipticError('DELIVERY_FAILED', reason, { outcome: arrived }));
    });
  }

  /** Writes a text and a comma to the chunk, or to the next if it does not fit; returns where it begins. */
  #write(text: string): number {
    // A UTF-16 unit takes at most three bytes; the exact length costs another pass over the text.
    if (this.#used + 3 * text.length >= this.#chunk.byteLength) {
      const bytes = Buffer.byteLength(text) + 1;
      if (this.#used + bytes > this.#chunk.byteLength) this.#nextChunk(bytes);
    }
    const start = this.#used;
    const end = start + this.#chunk.write(text, start);
    this.#chunk[end] = COMMA;
    this.#used = end + 1;
    return start;
  }

  /** No item is in the chunk any more, and frames are copies. A large one is not kept for a peer that may be silent from now on. */
  #reuseChunk(): void {
    this.#used = 0;
    if (this.#chunk.byteLength > IDLE_CHUNK_BYTES) this.#chunk = NO_CHUNK;
  }

  #nextChunk(bytes: number): void {
    const usual = Math.min(CHUNK_BYTES, Math.max(FIRST_CHUNK_BYTES, 2 * this.#chunk.byteLength));
    this.#chunk = Buffer.allocUnsafeSlow(Math.max(usual, bytes));
    this.#used = 0;
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
