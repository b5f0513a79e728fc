import type { Runtime, Timer } from './runtime.js';

/** Work that waits longer than this altogether is limited again. */
const MAX_HELD_MS = 24 * 60 * 60_000;

/** The time limit of an attempt. It stands still while the work waits for decisions of an owner. */
export class WorkTimer implements Timer {
  readonly #runtime: Runtime;
  readonly #onDue: () => void;
  #leftMs: number;
  #mayHoldMs = MAX_HELD_MS;
  #isHeld = false;
  #since: number;
  #timer: Timer;

  constructor(runtime: Runtime, ms: number, onDue: () => void) {
    this.#runtime = runtime;
    this.#onDue = onDue;
    this.#leftMs = ms;
    this.#since = runtime.stopwatch();
    this.#timer = runtime.setTimer(onDue, ms);
  }

  /** The work waits for so many decisions from now on. */
  hold(decisions: number): void {
    if (decisions > 0 === this.#isHeld || (decisions > 0 && this.#mayHoldMs <= 0)) return;
    this.#change(decisions > 0);
  }

  cancel(): void {
    this.#timer.cancel();
  }

  #change(isHeld: boolean): void {
    const now = this.#runtime.stopwatch();
    const passed = now - this.#since;
    if (this.#isHeld) this.#mayHoldMs -= passed;
    else this.#leftMs -= passed;
    this.#since = now;
    this.#isHeld = isHeld;
    this.#timer.cancel();
    this.#timer = isHeld
      ? this.#runtime.setTimer(() => this.#change(false), Math.max(0, this.#mayHoldMs))
      : this.#runtime.setTimer(this.#onDue, Math.max(0, this.#leftMs));
  }
}
