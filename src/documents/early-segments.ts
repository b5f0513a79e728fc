import type { Segment } from './segment.js';

/** Segments that may wait for others that come before them, and their bytes. */
const MAX_EARLY = 1_000;
const MAX_EARLY_BYTES = 8 * 1_048_576;

/** Segments that came before what they build on. What does not fit comes again, when it is asked for. */
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

  /** Takes out those that need not wait any more, one after the other: each may be what the next waits for. */
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
