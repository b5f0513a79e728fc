/** Cumulative counts, in the form of Prometheus. */
export interface HistogramSnapshot {
  /** Cumulative counts by upper bound in milliseconds; the last bound is infinite. */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
  readonly sumMs: number;
  readonly count: number;
}

/** For steps within the process: from a microsecond to a minute. */
export const STEP_BOUNDS_MS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000,
  60_000,
];

/** For work of tools, programs and models: from a millisecond to an hour. */
export const WORK_BOUNDS_MS: readonly number[] = [
  0.1, 1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000,
];

/** Counts durations by size, without storing them. */
export class Histogram {
  readonly #bounds: Float64Array;
  readonly #counts: Float64Array;
  #sum = 0;
  #count = 0;

  constructor(boundsMs: readonly number[]) {
    this.#bounds = Float64Array.from(boundsMs);
    this.#counts = new Float64Array(boundsMs.length + 1);
  }

  get count(): number {
    return this.#count;
  }

  get average(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count;
  }

  observe(ms: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && ms > bounds[at]!) at++;
    this.#counts[at]!++;
    this.#sum += ms;
    this.#count++;
  }

  snapshot(): HistogramSnapshot {
    let count = 0;
    const buckets = [...this.#bounds, Number.POSITIVE_INFINITY].map((bound, at) => {
      count += this.#counts[at]!;
      return [bound, count] as const;
    });
    return { buckets, sumMs: this.#sum, count };
  }
}

/**
 * The duration below which that share of the durations lies, of those between two snapshots: interpolated within its
 * bucket, as Prometheus does. Zero where there were none.
 */
export function quantileOf(share: number, now: HistogramSnapshot, before?: HistogramSnapshot): number | null {
  const between = now.buckets.map(([bound, count], at) => [bound, count - (before?.buckets[at]?.[1] ?? 0)] as const);
  const total = between.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const rank = share * total;
  const at = between.findIndex(([, count]) => count >= rank);
  const [upper, count] = between[at]!;
  const [lower, below] = between[at - 1] ?? [0, 0];
  // The last bucket has no upper bound.
  if (upper === Number.POSITIVE_INFINITY) return lower;
  return lower + (upper - lower) * ((rank - below) / Math.max(1, count - below));
}
