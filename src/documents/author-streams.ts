import { createHash } from 'node:crypto';
import { splitAddress } from '../mesh/address.js';
import { canonicalJson } from '../network/membership/statement.js';
import { EclipticError } from '../runtime/errors.js';
import { authorOf, MAX_STREAMS, type Segment, unreadable } from './segment.js';

const MAX_DOCUMENT_BYTES = 64 * 1_048_576;
/** Above this part of a limit, only nodes with less than an equal part of it may add more. */
const OPEN_TO_ALL = 0.75;
/** Segments that wait for segments they depend on, and their bytes. */
const MAX_EARLY = 1_000;
const MAX_EARLY_BYTES = 8 * 1_048_576;

/**
 * The end of an author's changes after each of its segments, by number. Numbers whose ends are equally far apart take the
 * space of one.
 */
export class SegmentEnds {
  readonly #firsts: number[] = [];
  readonly #lasts: number[] = [];
  /** The end at the first number, and how far the ends are apart. */
  readonly #clocks: number[] = [];
  readonly #steps: number[] = [];

  /** `number` is higher than all before. */
  add(number: number, clock: number): void {
    const run = this.#lasts.length - 1;
    if (run >= 0 && number === this.#lasts[run]! + 1) {
      const step = clock - this.#clockIn(run, this.#lasts[run]!);
      if (this.#firsts[run] === this.#lasts[run]) this.#steps[run] = step;
      if (this.#steps[run] === step) {
        this.#lasts[run] = number;
        return;
      }
    }
    this.#insert(run + 1, number, number, clock, 0);
  }

  at(number: number): number | undefined {
    const run = this.#runFrom(number);
    return run < this.#lasts.length && this.#firsts[run]! <= number ? this.#clockIn(run, number) : undefined;
  }

  /** The end at the number, or at the lowest one after it. */
  atOrAfter(number: number): number | undefined {
    const run = this.#runFrom(number);
    return run < this.#lasts.length ? this.#clockIn(run, Math.max(number, this.#firsts[run]!)) : undefined;
  }

  /** Removes the numbers from `first` to below `end`. */
  remove(first: number, end: number): void {
    for (let run = this.#runFrom(first); run < this.#lasts.length && this.#firsts[run]! < end; ) {
      const [from, to, step] = [this.#firsts[run]!, this.#lasts[run]!, this.#steps[run]!];
      const right = to >= end ? this.#clockIn(run, Math.max(end, from)) : 0;
      const left = this.#clocks[run]!;
      this.#drop(run);
      if (from < first) this.#insert(run++, from, first - 1, left, step);
      if (to >= end) this.#insert(run++, Math.max(end, from), to, right, step);
    }
  }

  #clockIn(run: number, number: number): number {
    return this.#clocks[run]! + this.#steps[run]! * (number - this.#firsts[run]!);
  }

  /** The first run that ends at the number or after it. */
  #runFrom(number: number): number {
    let [low, high] = [0, this.#lasts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#lasts[middle]! < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #insert(run: number, first: number, last: number, clock: number, step: number): void {
    this.#firsts.splice(run, 0, first);
    this.#lasts.splice(run, 0, last);
    this.#clocks.splice(run, 0, clock);
    this.#steps.splice(run, 0, step);
  }

  #drop(run: number): void {
    for (const part of [this.#firsts, this.#lasts, this.#clocks, this.#steps]) part.splice(run, 1);
  }
}

/** One author's session, as far as it is applied. */
export class AuthorStream {
  readonly client: number;
  /** The highest applied number; all numbers before it are applied, too. */
  number = 0;
  readonly ends = new SegmentEnds();
  clock = 0;
  /** The end of each other client's changes that its author has applied. */
  readonly seen = new Map<number, number>();
  #sum = '';
  /** The number of the last segment in the sum. */
  #summed = 0;

  constructor(client: number) {
    this.client = client;
  }

  /** A digest of all its segments: equal on replicas with equal segments. `segments` returns those above a number. */
  sum(segments: (above: number) => readonly Segment[]): string {
    if (this.#summed === this.number) return this.#sum;
    for (const segment of segments(this.#summed)) {
      const { first, number, after, digest } = segment.claim();
      const text = canonicalJson([this.#sum, first, number, after, digest]);
      this.#sum = createHash('sha256').update(text).digest('base64url').slice(0, 22);
      this.#summed = number;
    }
    return this.#sum;
  }

  /** A segment was added, or has replaced others. */
  kept({ first }: Segment): void {
    if (first > this.#summed) return;
    this.#sum = '';
    this.#summed = 0;
  }
}

class Part {
  streams = 0;
  bytes = 0;
}

/**
 * Limits the share of each author's node in a document. One node may use up to three quarters of it; the rest is for nodes
 * with less than an equal part, so that no node can make the document unwritable for the others.
 */
export class AuthorShares {
  readonly #nodes = new Map<string, Part>();
  readonly #all = new Part();
  readonly #streams = new Map<string, Part>();

  addStream(stream: string): void {
    if (this.#streams.has(stream)) return;
    const part = this.#partOf(stream);
    this.#streams.set(stream, part);
    this.#all.streams++;
    part.streams++;
  }

  addBytes(stream: string, bytes: number): void {
    this.#all.bytes += bytes;
    (this.#streams.get(stream) ?? this.#partOf(stream)).bytes += bytes;
  }

  /** Is the stream counted already, or may its author's node have another one? */
  hasRoomFor(stream: string): boolean {
    return this.#streams.has(stream) || this.#hasRoom(stream, 'streams', 1, MAX_STREAMS);
  }

  assertStream(stream: string): void {
    if (this.hasRoomFor(stream)) return;
    throw unreadable(`the document has ${this.#all.streams} author streams, and too many are of this node`);
  }

  assertBytes(stream: string, bytes: number): void {
    if (this.#hasRoom(stream, 'bytes', bytes, MAX_DOCUMENT_BYTES)) return;
    const text = `the document has ${this.#all.bytes} bytes of ${MAX_DOCUMENT_BYTES}, and too many are of this node`;
    throw new EclipticError('PAYLOAD_TOO_LARGE', text);
  }

  #hasRoom(stream: string, kind: 'streams' | 'bytes', more: number, limit: number): boolean {
    const total = this.#all[kind] + more;
    if (total > limit) return false;
    const open = limit * OPEN_TO_ALL;
    if (total <= open) return true;
    const own = this.#nodes.get(nodeOf(stream));
    const nodes = this.#nodes.size + (own ? 0 : 1);
    return (own?.[kind] ?? 0) + more <= open / Math.max(2, nodes);
  }

  #partOf(stream: string): Part {
    const node = nodeOf(stream);
    const part = this.#nodes.get(node) ?? new Part();
    this.#nodes.set(node, part);
    return part;
  }
}

function nodeOf(stream: string): string {
  return splitAddress(authorOf(stream)).node ?? '';
}

/** Segments that arrived before segments they depend on. One that does not fit is asked for again later. */
export class EarlySegments {
  readonly #waiting = new Map<string, Segment>();
  #bytes = 0;

  add(segment: Segment): void {
    const key = keyOf(segment);
    const { length } = segment.update;
    if (this.#waiting.size >= MAX_EARLY || this.#bytes + length > MAX_EARLY_BYTES || this.#waiting.has(key)) return;
    this.#waiting.set(key, segment);
    this.#bytes += length;
  }

  /** Removes and yields the segments that are ready, one by one: each may be the one that the next waits for. */
  *take(isReady: (segment: Segment) => boolean): Generator<Segment> {
    for (const [key, segment] of this.#waiting) {
      if (!isReady(segment)) continue;
      this.#waiting.delete(key);
      this.#bytes -= segment.update.length;
      yield segment;
    }
  }
}

function keyOf({ stream, number }: Segment): string {
  return `${stream}#${number}`;
}
