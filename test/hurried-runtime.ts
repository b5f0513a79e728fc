import type { Runtime } from '../src/runtime/runtime.js';
import { systemRuntime } from '../src/runtime/system-runtime.js';

/** The machine's own runtime, where time can be let pass and goes faster for timers; for tests with real sockets. */
export class HurriedRuntime implements Runtime {
  readonly #real = systemRuntime();
  readonly #factor: number;
  #ahead = 0;
  /** The delays of all timers. */
  readonly timers: number[] = [];
  readonly logger = this.#real.logger;

  constructor(factor = 1) {
    this.#factor = factor;
  }

  /** Lets the clock go on by that much; timers do not notice. */
  pass(ms: number): void {
    this.#ahead += ms;
  }

  now(): number {
    return this.#real.now() + this.#ahead;
  }

  stopwatch(): number {
    return this.#real.stopwatch();
  }

  setTimer(task: () => void, ms: number) {
    this.timers.push(ms);
    return this.#real.setTimer(task, ms / this.#factor);
  }

  defer(task: () => void): void {
    this.#real.defer(task);
  }

  hold() {
    return this.#real.hold();
  }

  id(): string {
    return this.#real.id();
  }

  random(): number {
    return this.#real.random();
  }

  bytes(count: number): Uint8Array {
    return this.#real.bytes(count);
  }
}
