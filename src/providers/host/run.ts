import { Deadline } from '../../runtime/deadlines.js';
import { EclipticError } from '../../runtime/errors.js';

/** Work that a program has been given. */
export interface Flight<T> {
  readonly done: Promise<T>;
  /** Tells the program that nobody wants the result any more; `done` settles when it has heard. */
  cancel(): void;
}

export interface RunTerms {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** One piece of work under way: it ends once, with the program's answer or with the first thing that goes wrong. */
export class Run<T> extends Deadline {
  readonly settled: Promise<T>;
  readonly #flight: Flight<T>;
  readonly #onGivenUp: (landed: Promise<unknown>) => void;
  readonly #timeoutMs: number;
  #reject!: (error: unknown) => void;
  #over = false;

  constructor(flight: Flight<T>, { timeoutMs }: RunTerms, onGivenUp: (landed: Promise<unknown>) => void) {
    super();
    this.#flight = flight;
    this.#timeoutMs = timeoutMs;
    this.#onGivenUp = onGivenUp;
    this.settled = new Promise<T>((resolve, reject) => {
      this.#reject = reject;
      flight.done.then(
        (value) => {
          this.#over = true;
          resolve(value);
        },
        (error) => this.fail(error),
      );
    });
  }

  /** Nobody waits for it any more; the program is told. */
  giveUp(error: unknown): void {
    if (this.#over) return;
    this.fail(error);
    this.#flight.cancel();
    this.#onGivenUp(this.#flight.done.catch(() => {}));
  }

  /** It is over, and the program is past being told. */
  fail(error: unknown): void {
    this.#over = true;
    this.#reject(error);
  }

  expire(): void {
    const message = `the provider was not done within ${this.#timeoutMs} ms`;
    this.giveUp(new EclipticError('PROVIDER_TIMEOUT', message, { reason: 'deadline', timeoutMs: this.#timeoutMs }));
  }
}
