import type { Runtime, Timer } from './runtime.js';

/** Something that expires. It is its own list node, so that adding and removing allocate nothing. */
export abstract class Deadline {
  /** @internal */ bucket: Bucket | undefined;
  /** @internal */ earlier: Deadline | undefined;
  /** @internal */ later: Deadline | undefined;

  abstract expire(): void;
}

interface Bucket {
  readonly due: number;
  first: Deadline | undefined;
}

/**
 * Many deadlines on few timers: due times are rounded up to `resolutionMs`, and each rounded instant has one timer.
 * Adding and removing are O(1), so that a deadline per request costs nothing when the answer comes in time.
 */
export class DeadlineQueue {
  readonly #runtime: Runtime;
  readonly #resolution: number;
  readonly #buckets = new Map<number, { bucket: Bucket; timer: Timer }>();
  #latest: Bucket | undefined;
  #expiring: Bucket | undefined;

  constructor(runtime: Runtime, resolutionMs = 20) {
    this.#runtime = runtime;
    this.#resolution = resolutionMs;
  }

  /** Expires the deadline after `ms`; one that is infinite never does. */
  add(deadline: Deadline, ms: number): void {
    if (ms === Number.POSITIVE_INFINITY) return;
    const due = Math.ceil((this.#runtime.now() + ms) / this.#resolution) * this.#resolution;
    const bucket = this.#latest?.due === due ? this.#latest : this.#bucketAt(due);
    deadline.bucket = bucket;
    deadline.earlier = undefined;
    deadline.later = bucket.first;
    if (bucket.first) bucket.first.earlier = deadline;
    bucket.first = deadline;
  }

  remove(deadline: Deadline): void {
    const { bucket, earlier, later } = deadline;
    if (!bucket) return;
    if (earlier) earlier.later = later;
    else bucket.first = later;
    if (later) later.earlier = earlier;
    deadline.bucket = undefined;
    deadline.earlier = undefined;
    deadline.later = undefined;
  }

  /** The time until it expires; undefined if it does not. */
  left({ bucket }: Deadline): number | undefined {
    return bucket && Math.max(0, bucket.due - this.#runtime.now());
  }

  /** Drops every deadline without expiring it. */
  clear(): void {
    for (const { timer } of this.#buckets.values()) timer.cancel();
    this.#buckets.clear();
    this.#latest = undefined;
    // Clearing while deadlines expire includes the rest of that instant.
    if (this.#expiring) this.#expiring.first = undefined;
  }

  #bucketAt(due: number): Bucket {
    let slot = this.#buckets.get(due);
    if (!slot) {
      const bucket: Bucket = { due, first: undefined };
      const timer = this.#runtime.setTimer(() => this.#expire(bucket), due - this.#runtime.now());
      slot = { bucket, timer };
      this.#buckets.set(due, slot);
    }
    this.#latest = slot.bucket;
    return slot.bucket;
  }

  #expire(bucket: Bucket): void {
    this.#buckets.delete(bucket.due);
    if (this.#latest === bucket) this.#latest = undefined;
    this.#expiring = bucket;
    for (let deadline = bucket.first; deadline; deadline = bucket.first) {
      this.remove(deadline);
      deadline.expire();
    }
    this.#expiring = undefined;
  }
}
