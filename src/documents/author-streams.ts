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

/** One author's session, as far as it is applied. */
export class AuthorStream {
  readonly client: number;
  /** The highest applied number; all numbers before it are applied, too. */
  number = 0;
  /** The end of its changes after each segment, by number. */
  readonly ends = new Map<number, number>();
  clock = 0;
  /** The end of each other client's changes that its author has applied. */
  readonly seen = new Map<number, number>();
  #segments: Segment[] = [];
  #sum = '';
  #summed = 0;

  constructor(client: number) {
    this.client = client;
  }

  /** Its segments in order; of two that overlap, only the later and larger one. */
  get segments(): readonly Segment[] {
    return this.#segments;
  }

  /** A digest of all its segments: equal on replicas with equal segments. */
  get sum(): string {
    for (; this.#summed < this.#segments.length; this.#summed++) {
      const { first, number, after, digest } = this.#segments[this.#summed]!.claim();
      const text = canonicalJson([this.#sum, first, number, after, digest]);
      this.#sum = createHash('sha256').update(text).digest('base64url').slice(0, 22);
    }
    return this.#sum;
  }

  keep(segment: Segment): void {
    while (this.#segments.length > 0 && this.#segments.at(-1)!.first >= segment.first) this.#segments.pop();
    this.#segments.push(segment);
    if (this.#summed >= this.#segments.length) this.#restart();
  }

  swap(run: ReadonlySet<Segment>, one: Segment): void {
    const place = this.#segments.findIndex((segment) => run.has(segment));
    this.#segments = this.#segments.filter((segment) => !run.has(segment));
    this.#segments.splice(place, 0, one);
    this.#restart();
  }

  /** The segments that cover a number in that range. */
  within(first: number, number: number): Segment[] {
    const found: Segment[] = [];
    for (let index = this.#segments.length - 1; index >= 0; index--) {
      const segment = this.#segments[index]!;
      if (segment.number < first) break;
      if (segment.first <= number) found.unshift(segment);
    }
    return found;
  }

  #restart(): void {
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
  readonly #streams = new Set<string>();

  addStream(stream: string): void {
    if (this.#streams.has(stream)) return;
    this.#streams.add(stream);
    for (const part of [this.#all, this.#partOf(stream)]) part.streams++;
  }

  addBytes(stream: string, bytes: number): void {
    for (const part of [this.#all, this.#partOf(stream)]) part.bytes += bytes;
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
