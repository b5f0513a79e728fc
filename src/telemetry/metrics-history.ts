/** Samples of an hour, and the time between two of them. */
export const HISTORY_SAMPLES = 720;
export const HISTORY_EVERY_MS = 5_000;

export interface MetricsHistory {
  readonly everyMs: number;
  /** When each sample was taken, oldest first. */
  readonly at: readonly number[];
  /** By name, one number for each sample; null where there was nothing to measure, as the time of no message. */
  readonly series: Readonly<Record<string, readonly (number | null)[]>>;
}

/** The latest samples of a fixed set of series, in memory that does not grow. */
export class SampleRing {
  readonly #capacity: number;
  readonly #at: Float64Array;
  readonly #series = new Map<string, Float64Array>();
  #count = 0;

  constructor(names: readonly string[], capacity = HISTORY_SAMPLES) {
    this.#capacity = capacity;
    this.#at = new Float64Array(capacity);
    for (const name of names) this.#series.set(name, new Float64Array(capacity));
  }

  /** A series without a value in this sample gets 0; null says that there was nothing to measure. */
  add(at: number, values: Readonly<Record<string, number | null>>): void {
    const place = this.#count % this.#capacity;
    this.#at[place] = at;
    for (const [name, ring] of this.#series) ring[place] = values[name] === null ? Number.NaN : (values[name] ?? 0);
    this.#count++;
  }

  /** The latest samples, oldest first; all of them by default. */
  read(everyMs: number, points = this.#capacity): MetricsHistory {
    const kept = Math.min(this.#count, this.#capacity, points);
    const first = this.#count - kept;
    const take = (ring: Float64Array) =>
      Array.from({ length: kept }, (_, index) => ring[(first + index) % this.#capacity]!);
    const measured = (ring: Float64Array) => take(ring).map((value) => (Number.isNaN(value) ? null : value));
    const series = Object.fromEntries([...this.#series].map(([name, ring]) => [name, measured(ring)]));
    return { everyMs, at: take(this.#at), series };
  }
}
