import { Deadline } from '../../runtime/deadlines.js';
import { EclipticError } from '../../runtime/errors.js';

export interface WorkHandle<T> {
  readonly done: Promise<T>;
  /** Tells the program to stop; `done` settles when it has. */
  cancel(): void;
}

export interface WorkTerms {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Shows that work makes progress: its deadline limits silence, not duration. */
export interface Activity {
  /** The program sent something about this work. */
  touch(): void;
  /** The work waits for a person: the deadline is suspended until the returned function is called. */
  hold(): () => void;
}

export interface PendingWorkEvents {
  readonly now: () => number;
  readonly rearm: (run: Deadline, ms: number) => void;
  readonly onGivenUp: (stopped: Promise<unknown>) => void;
}

/** One piece of work in flight. It settles once, with the program's answer or the first failure. */
export class PendingWork<T> extends Deadline implements Activity {
  readonly settled: Promise<T>;
  readonly #handle: WorkHandle<T>;
  readonly #events: PendingWorkEvents;
  readonly #timeoutMs: number;
  #activeAt: number;
  #holds = 0;
  #reject!: (error: unknown) => void;
  #over = false;

  constructor(begin: (activity: Activity) => WorkHandle<T>, { timeoutMs }: WorkTerms, events: PendingWorkEvents) {
    super();
    this.#timeoutMs = timeoutMs;
    this.#events = events;
    this.#activeAt = events.now();
    const handle = begin(this);
    this.#handle = handle;
    this.settled = new Promise<T>((resolve, reject) => {
      this.#reject = reject;
      handle.done.then(
        (value) => {
          this.#over = true;
          resolve(value);
        },
        (error) => this.fail(error),
      );
    });
  }

  /** Fails the work and tells the program to stop. */
  giveUp(error: unknown): void {
    if (this.#over) return;
    this.fail(error);
    this.#handle.cancel();
    this.#events.onGivenUp(this.#handle.done.catch(() => {}));
  }

  /** Fails the work without telling the program, which is gone. */
  fail(error: unknown): void {
    this.#over = true;
    this.#reject(error);
  }

  touch(): void {
    this.#activeAt = this.#events.now();
  }

  hold(): () => void {
    let held = true;
    this.#holds++;
    return () => {
      if (!held) return;
      held = false;
      this.#holds--;
      this.touch();
    };
  }

  expire(): void {
    const silentMs = this.#holds > 0 ? 0 : this.#events.now() - this.#activeAt;
    if (silentMs < this.#timeoutMs) {
      this.#events.rearm(this, this.#timeoutMs - silentMs);
      return;
    }
    const message = `the provider showed no progress on its work for ${this.#timeoutMs} ms`;
    this.giveUp(new EclipticError('PROVIDER_TIMEOUT', message, { reason: 'deadline', timeoutMs: this.#timeoutMs }));
  }
}
