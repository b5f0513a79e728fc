import type { Runtime, Timer } from '../../runtime/runtime.js';
import { FIRST_CHECK_MS, type Side } from './negotiation-context.js';

/** While anything is under way with another node, or across restarts, looks once a second who must ask again. */
export class RecheckTimer {
  readonly #runtime: Runtime;
  readonly #watched = new Set<Side>();
  #timer: Timer | undefined;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  add(side: Side): void {
    this.#watched.add(side);
    this.#wait();
  }

  remove(side: Side): void {
    if (this.#watched.size > 0) this.#watched.delete(side);
  }

  stop(): void {
    this.#watched.clear();
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wait(): void {
    if (this.#timer || this.#watched.size === 0) return;
    this.#timer = this.#runtime.setTimer(() => {
      this.#timer = undefined;
      const now = this.#runtime.now();
      for (const side of this.#watched) side.check(now);
      this.#wait();
    }, FIRST_CHECK_MS);
  }
}
