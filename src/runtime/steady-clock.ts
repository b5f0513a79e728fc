import type { Runtime } from './runtime.js';

/** A clock that is ahead of the elapsed time by more than this may be wrong. */
const JUMP_MS = 10 * 60_000;
/** How long a jump forward must last before it counts. */
const CONFIRM_MS = 3_600_000;

/**
 * The wall clock for effects that cannot be undone, such as the expiry of mail or of a membership. A jump forward counts
 * only when it has lasted for an hour; until then, time goes on at its usual pace from before the jump. A wrong clock
 * that is corrected within the hour has expired nothing. A clock that goes back is followed at once.
 */
export class SteadyClock {
  readonly #runtime: Pick<Runtime, 'now' | 'stopwatch'>;
  #at: number;
  #watch: number;
  /** When the wall clock was first seen to be ahead. */
  #aheadSince: number | undefined;

  constructor(runtime: Pick<Runtime, 'now' | 'stopwatch'>) {
    this.#runtime = runtime;
    this.#at = runtime.now();
    this.#watch = runtime.stopwatch();
  }

  /** Continues from the last time that an earlier process knew: a start long after it counts as a jump. */
  resume(last: number): void {
    this.#at = Math.min(last, this.#runtime.now());
    this.#watch = this.#runtime.stopwatch();
    this.now();
  }

  now(): number {
    const wall = this.#runtime.now();
    const watch = this.#runtime.stopwatch();
    const expected = this.#at + watch - this.#watch;
    this.#watch = watch;
    if (wall <= expected + JUMP_MS) this.#aheadSince = undefined;
    else this.#aheadSince ??= watch;
    if (this.#aheadSince !== undefined && watch - this.#aheadSince < CONFIRM_MS) this.#at = expected;
    else {
      this.#aheadSince = undefined;
      this.#at = wall;
    }
    return this.#at;
  }

  /** Is the wall clock ahead of the time that is known to have passed? */
  get inDoubt(): boolean {
    this.now();
    return this.#aheadSince !== undefined;
  }
}
