const FIRST_MS = 5_000;
const LONGEST_MS = 60_000;

/** How long to wait for an acknowledgement before everything is said again: longer each time, until one comes. */
export class Patience {
  #since: number | undefined;
  #ms = FIRST_MS;

  /** Something was acknowledged. */
  reward(now: number): void {
    this.#since = now;
    this.#ms = FIRST_MS;
  }

  /** Is it time to say everything again? To be asked now and then, with whether something waits at all. */
  isOver(now: number, waits: boolean): boolean {
    if (!waits) this.#since = undefined;
    else this.#since ??= now;
    if (this.#since === undefined || now - this.#since < this.#ms) return false;
    this.#since = now;
    this.#ms = Math.min(LONGEST_MS, 2 * this.#ms);
    return true;
  }
}
