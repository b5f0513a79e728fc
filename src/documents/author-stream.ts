import { createHash } from 'node:crypto';
import { canonicalJson } from '../network/membership/statement.js';
import type { Segment } from './segment.js';

/** One author's session, as far as a replica has applied it. */
export class AuthorStream {
  readonly client: number;
  /** The highest number that was applied; all before were, too. */
  number = 0;
  /** Where its changes ended after each segment that is kept, by number. */
  readonly ends = new Map<number, number>();
  clock = 0;
  /** How far its author had seen other clients when it wrote the latest. */
  readonly seen = new Map<number, number>();
  #segments: Segment[] = [];
  #sum = '';
  /** How many segments the sum covers. */
  #summed = 0;

  constructor(client: number) {
    this.client = client;
  }

  /** Its segments in order; of two that overlap, the later and larger one. */
  get segments(): readonly Segment[] {
    return this.#segments;
  }

  /** A digest of all its segments. Replicas with the same segments have the same. */
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

  /** Those that stand for a number in that range. */
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
