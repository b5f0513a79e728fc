import type { Logger, Runtime, Timer } from '../../src/runtime/runtime.js';
import type { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';

export interface ProcessEvents {
  /** Called before each task of the process. */
  onStep: () => void;
  onError: (message: string, fields: Record<string, unknown>) => void;
}

/** One process's view of the common clock. Once the process has ended, none of its timers fires any more. */
export class ProcessRuntime implements Runtime {
  readonly logger: Logger;
  readonly #inner: SimulatedRuntime;
  readonly #events: ProcessEvents;
  readonly #timers = new Set<Timer>();
  /** How far the wall clock of this machine is ahead of the common one. */
  aheadMs = 0;
  #ended = false;

  constructor(inner: SimulatedRuntime, events: ProcessEvents) {
    this.#inner = inner;
    this.#events = events;
    const error: Logger['error'] = (fields, message) => {
      if (!this.#ended) events.onError(message, fields);
    };
    this.logger = { debug() {}, info() {}, warn() {}, error };
  }

  /** Timers that have not fired. */
  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#inner.now() + this.aheadMs;
  }

  stopwatch(): number {
    return this.#inner.stopwatch();
  }

  setTimer(task: () => void, ms: number): Timer {
    if (this.#ended) return { cancel() {} };
    const inner = this.#inner.setTimer(() => {
      this.#timers.delete(timer);
      this.#events.onStep();
      task();
    }, ms);
    const timer = {
      cancel: () => {
        this.#timers.delete(timer);
        inner.cancel();
      },
    };
    this.#timers.add(timer);
    return timer;
  }

  defer(task: () => void): void {
    this.setTimer(task, 0);
  }

  hold(): Timer {
    return { cancel() {} };
  }

  id(): string {
    return this.#inner.id();
  }

  random(): number {
    return this.#inner.random();
  }

  bytes(count: number): Uint8Array {
    return this.#inner.bytes(count);
  }

  /** For the simulation's own handlers: resolves after that time; never, if the process ends before. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#inner.setTimer(() => {
        if (!this.#ended) resolve();
      }, ms);
    });
  }

  end(): void {
    this.#ended = true;
    for (const timer of [...this.#timers]) timer.cancel();
  }
}
