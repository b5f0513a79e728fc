import type { Runtime } from '../../runtime/runtime.js';

/** Refusals of strangers that are reported one by one in a minute. */
const MAX_REPORTS = 100;
const PERIOD_MS = 60_000;

/**
 * Limits the reports of strangers. Anyone who reaches a port can be refused as often as they like, each time with another
 * key, and must not push the rest out of the audit log.
 */
export class StrangerReports {
  readonly #runtime: Runtime;
  #began = Number.NEGATIVE_INFINITY;
  #count = 0;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** May one more be reported? Those that were not are, together, once the next period begins. */
  take(report: (event: { type: 'security'; code: 'MEMBERSHIP_REFUSED'; reason: string }) => void): boolean {
    const now = this.#runtime.stopwatch();
    if (now - this.#began >= PERIOD_MS) {
      const missed = this.#count - MAX_REPORTS;
      this.#began = now;
      this.#count = 0;
      const reason = `${missed} more refusals of strangers were not reported one by one`;
      if (missed > 0) report({ type: 'security', code: 'MEMBERSHIP_REFUSED', reason });
    }
    return ++this.#count <= MAX_REPORTS;
  }
}
