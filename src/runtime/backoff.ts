/** The delay after `failures` failures: `firstMs`, doubled with each failure, at most `maxMs`. */
export function backoffMs(failures: number, firstMs: number, maxMs = Number.POSITIVE_INFINITY): number {
  // The exponent is bounded so that a delay of zero stays zero.
  return Math.min(maxMs, firstMs * 2 ** Math.min(failures, 50));
}

/** Counts failures in a row for `backoffMs`. */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  #failures = 0;

  constructor(firstMs: number, maxMs: number) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
  }

  next(): number {
    return backoffMs(this.#failures++, this.#firstMs, this.#maxMs);
  }

  reset(): void {
    this.#failures = 0;
  }
}
