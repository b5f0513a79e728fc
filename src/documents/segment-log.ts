import type { Segment } from './segment.js';
import { SegmentBlock, StreamNames } from './segment-block.js';

/** So many latest segments at most are objects: the merge of an author's own segments looks at these. */
const MAX_RECENT = 512;
/** So many of the oldest of them, or updates of so many bytes, are packed at once. */
const BLOCK_COUNT = 256;
const BLOCK_BYTES = 65_536;

/** All segments of a replica, in the order in which it applied them. The older ones are packed. */
export class SegmentLog implements Iterable<Segment> {
  readonly #names = new StreamNames();
  #blocks: SegmentBlock[] = [];
  #recent: Segment[] = [];
  count = 0;
  /** Of all updates. */
  bytes = 0;

  push(segment: Segment): void {
    this.#recent.push(segment);
    this.#count(segment, 1);
    if (this.#recent.length >= MAX_RECENT) this.#pack();
  }

  *[Symbol.iterator](): Generator<Segment> {
    for (const block of this.#blocks) yield* block.segments(this.#names);
    yield* this.#recent;
  }

  /** The latest first. */
  *backwards(): Generator<Segment> {
    for (let index = this.#recent.length - 1; index >= 0; index--) yield this.#recent[index]!;
    for (let index = this.#blocks.length - 1; index >= 0; index--) {
      yield* this.#blocks[index]!.segments(this.#names).reverse();
    }
  }

  /** Those that a replica with that vector lacks. */
  *missing(vector: Readonly<Record<string, number>>): Generator<Segment> {
    const lacks = ({ stream, number }: Segment) => number > (vector[stream] ?? 0);
    for (const block of this.#blocks) {
      if (block.isMissing(vector)) yield* block.segments(this.#names).filter(lacks);
    }
    yield* this.#recent.filter(lacks);
  }

  /** Those of a stream with higher numbers, in order; of two that overlap, only the later and larger one. */
  of(stream: string, above = 0): Segment[] {
    const found: Segment[] = [];
    const add = (segment: Segment) => {
      if (segment.stream !== stream || segment.number <= above) return;
      while (found.length > 0 && found.at(-1)!.first >= segment.first) found.pop();
      found.push(segment);
    };
    for (const block of this.#blocks) {
      if (block.has(stream, above + 1, Number.POSITIVE_INFINITY)) block.segments(this.#names).forEach(add);
    }
    this.#recent.forEach(add);
    return found;
  }

  /** Puts a merged segment in place of those that it covers. Returns these. */
  replace(one: Segment): Segment[] {
    const gone: Segment[] = [];
    const edited = (segments: readonly Segment[]) => {
      return segments.flatMap((segment) => {
        if (segment.stream !== one.stream || segment.first < one.first || segment.number > one.number) return [segment];
        return gone.push(segment) === 1 ? [one] : [];
      });
    };
    const isTouched = (block: SegmentBlock) => block.has(one.stream, one.first, one.number);
    if (this.#blocks.some(isTouched)) {
      this.#blocks = this.#blocks.flatMap((block) => {
        if (!isTouched(block)) return [block];
        const left = edited(block.segments(this.#names));
        return left.length > 0 ? [new SegmentBlock(left, this.#names)] : [];
      });
    }
    this.#recent = edited(this.#recent);
    for (const segment of gone) this.#count(segment, -1);
    if (gone.length > 0) this.#count(one, 1);
    return gone;
  }

  /** Puts the same segments, now signed, in place of those that were packed without a signature. */
  update(signed: readonly Segment[]): void {
    const left = new Map(signed.map((segment) => [keyOf(segment), segment]));
    this.#blocks = this.#blocks.map((block) => {
      if (!signed.some(({ stream, first, number }) => block.has(stream, first, number))) return block;
      const segments = block.segments(this.#names).map((segment) => left.get(keyOf(segment)) ?? segment);
      return new SegmentBlock(segments, this.#names);
    });
  }

  #count({ update }: Segment, by: 1 | -1): void {
    this.count += by;
    this.bytes += by * update.length;
  }

  #pack(): void {
    let count = 0;
    for (let bytes = 0; count < BLOCK_COUNT && bytes < BLOCK_BYTES; count++)
      bytes += this.#recent[count]!.update.length;
    this.#blocks.push(new SegmentBlock(this.#recent.splice(0, count), this.#names));
  }
}

function keyOf({ stream, first, number }: Segment): string {
  return `${stream} ${first} ${number}`;
}
