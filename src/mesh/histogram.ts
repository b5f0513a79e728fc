/** How many values were at most each bound, as Prometheus has it. */
export interface HistogramSnapshot {
  /** Cumulative counts by upper bound in milliseconds; the last bound is infinite. */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
  readonly sumMs: number;
  readonly count: number;
}

export interface Histograms {
  readonly routingLatency: HistogramSnapshot;
  readonly toolDuration: HistogramSnapshot;
}

const BOUNDS_MS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1_000, 5_000, 30_000];

/** Counts durations by size, without keeping them. */
export class Histogram {
  readonly #counts = new Float64Array(BOUNDS_MS.length + 1);
  #sum = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  get average(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count;
  }

  observe(ms: number): void {
    let at = 0;
    while (at < BOUNDS_MS.length && ms > BOUNDS_MS[at]!) at++;
    this.#counts[at]!++;
    this.#sum += ms;
    this.#count++;
  }

  snapshot(): HistogramSnapshot {
    let count = 0;
    const buckets = [...BOUNDS_MS, Number.POSITIVE_INFINITY].map((bound, at) => {
      count += this.#counts[at]!;
      return [bound, count] as const;
    });
    return { buckets, sumMs: this.#sum, count };
  }
}
