import type { Deadline, DeadlineQueue } from '../runtime/deadlines.js';
import type { Runtime } from '../runtime/runtime.js';
import { WorkTimer } from '../runtime/work-timer.js';

/** Requests whose time limit stands still, or did, while the owner of the asked agent decides. */
export class HeldRequests {
  readonly #runtime: Runtime;
  readonly #deadlines: DeadlineQueue;
  readonly #timers = new Map<Deadline, WorkTimer>();

  constructor({ runtime, deadlines }: { runtime: Runtime; deadlines: DeadlineQueue }) {
    this.#runtime = runtime;
    this.#deadlines = deadlines;
  }

  hold(request: Deadline, decisions: number): void {
    const timer = this.#timers.get(request) ?? this.#timerOf(request);
    timer?.hold(decisions);
  }

  forget(request: Deadline): void {
    this.#timers.get(request)?.cancel();
    this.#timers.delete(request);
  }

  /** Undefined for a request without a time limit. */
  #timerOf(request: Deadline): WorkTimer | undefined {
    const left = this.#deadlines.left(request);
    if (left === undefined) return undefined;
    this.#deadlines.remove(request);
    const timer = new WorkTimer(this.#runtime, left, () => request.expire());
    this.#timers.set(request, timer);
    return timer;
  }
}
