import { backoffMs } from '../runtime/backoff.js';

const FIRST_MS = 5_000;
const LONGEST_MS = 60_000;

/** How long to wait for an acknowledgement before everything is said again: longer each time, until one comes. */
export class Patience {
  #since: number | undefined;
  #repeats = 0;

  /** Something was acknowledged. */
  reward(now: number): void {
    this.#since = now;
    this.#repeats = 0;
  }

  /** Is it time to say everything again? To be asked now and then, with whether something waits at all. */
  isOver(now: number, waits: boolean): boolean {
    if (!waits) this.#since = undefined;
    else this.#since ??= now;
    if (this.#since === undefined || now - this.#since < backoffMs(this.#repeats, FIRST_MS, LONGEST_MS)) return false;
    this.#since = now;
    this.#repeats++;
    return true;
  }
}
