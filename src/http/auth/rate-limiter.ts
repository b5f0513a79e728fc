import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

/** Callers that are remembered; who was forgotten begins anew. */
const MAX_CALLERS = 10_000;
const MINUTE_MS = 60_000;

interface Bucket {
  left: number;
  at: number;
}

/** How many requests each caller may make: half a minute's worth at once, and then as many as time brings. */
export class RateLimiter {
  readonly #runtime: Runtime;
  readonly #perMinute: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(runtime: Runtime, perMinute: number) {
    this.#runtime = runtime;
    this.#perMinute = perMinute;
  }

  /** Counts one request; throws `RATE_LIMITED`, with the time to wait, when there were too many. */
  take(caller: string): void {
    if (this.#perMinute === Number.POSITIVE_INFINITY) return;
    const most = Math.max(1, this.#perMinute / 2);
    const now = this.#runtime.now();
    const bucket = this.#buckets.get(caller) ?? { left: most, at: now };
    const perMs = this.#perMinute / MINUTE_MS;
    bucket.left = Math.min(most, bucket.left + Math.max(0, now - bucket.at) * perMs);
    bucket.at = now;
    // The latest last, so that the first is the one to forget.
    this.#buckets.delete(caller);
    this.#buckets.set(caller, bucket);
    if (this.#buckets.size > MAX_CALLERS) this.#buckets.delete(this.#buckets.keys().next().value!);
    if (bucket.left >= 1) {
      bucket.left--;
      return;
    }
    const retryAfterMs = Math.ceil((1 - bucket.left) / perMs);
    const message = `"${caller}" makes more than ${this.#perMinute} requests a minute`;
    throw new EclipticError('RATE_LIMITED', message, { retryAfterMs });
  }
}
