import type { Runtime } from '../../runtime/runtime.js';

/** Values whose end is remembered; who knows of more than that is no longer at work with the first. */
const MAX_REMEMBERED = 10_000;

/** Until when values that were replaced may still be used. */
export class Grace {
  readonly #runtime: Runtime;
  /** By the value's id, the earliest first. */
  readonly #ends = new Map<string, number>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** A value was replaced. The first word counts: what replaces its successor gives it no more time. */
  ends(id: string, at: number): void {
    if (this.#ends.has(id)) return;
    this.#ends.set(id, at);
    if (this.#ends.size <= MAX_REMEMBERED) return;
    for (const first of this.#ends.keys()) {
      this.#ends.delete(first);
      break;
    }
  }

  /** May it still be used? Where another process replaced it, `otherwise` is what is known. */
  lasts(id: string, otherwise: number): boolean {
    this.ends(id, otherwise);
    return this.#runtime.now() < this.#ends.get(id)!;
  }
}
