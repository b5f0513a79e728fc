import { EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import { TASK, type TaskReport } from './task-messages.js';

/** The reports of one handler on their way to the caller, in order. */
export class Reports implements AsyncIterable<unknown> {
  readonly #waiting = new Fifo<unknown>();
  #wake: (() => void) | undefined;
  #over = false;
  #failure: { readonly error: unknown } | undefined;

  push(report: TaskReport): void {
    this.#waiting.push({ [TASK]: report });
    this.#wake?.();
  }

  /** The handler is done. Its value is sent unchanged. */
  end(value: unknown): void {
    if (value !== undefined) this.#waiting.push(value);
    this.#over = true;
    this.#wake?.();
  }

  fail(error: unknown): void {
    this.#failure = { error: error ?? new EclipticError('HANDLER_FAILED', 'the task’s handler threw nothing') };
    this.#wake?.();
  }

  get over(): boolean {
    return this.#over || this.#failure !== undefined;
  }

  /** The only item, if the handler is done and sent just one. */
  takeOnly(): unknown {
    return this.#over && this.#waiting.length === 1 ? this.#waiting.shift() : undefined;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown> {
    for (;;) {
      while (this.#waiting.length > 0) yield this.#waiting.shift();
      if (this.#failure) throw this.#failure.error;
      if (this.#over) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
