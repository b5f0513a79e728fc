import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';

const RESOLUTION_MS = 20;
const NANOS = 1e6;

/** In milliseconds. */
export interface LoopDelay {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** Measures how late the event loop is. */
export class EventLoopMeter {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #latest: LoopDelay = { p50: 0, p99: 0, max: 0 };

  start(): void {
    this.#histogram.enable();
  }

  stop(): void {
    this.#histogram.disable();
  }

  /** Of the latest interval that has ended. */
  get latest(): LoopDelay {
    return this.#latest;
  }

  /** Ends an interval and begins the next. */
  turn(): LoopDelay {
    const histogram = this.#histogram;
    const { max } = histogram;
    this.#latest = { p50: late(histogram.percentile(50)), p99: late(histogram.percentile(99)), max: late(max) };
    histogram.reset();
    return this.#latest;
  }
}

/** The histogram has the time between two ticks, which are meant to be one resolution apart. */
function late(nanos: number): number {
  return Math.max(0, Math.min(nanos, Number.MAX_SAFE_INTEGER) / NANOS - RESOLUTION_MS);
}
