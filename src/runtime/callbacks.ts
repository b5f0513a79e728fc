import { describeError } from './errors.js';
import type { Logger } from './runtime.js';

/** Called when a callback threw or its promise rejected; `subject` names the callback. */
export type CallbackFailed = (subject: string, error: unknown) => void;

/**
 * Calls code of the embedding program from inside the fabric. A throw and a rejection both reach `failed`; neither
 * reaches the caller or ends the process.
 */
export function callGuarded<A extends readonly unknown[]>(
  callback: (...args: A) => unknown,
  args: A,
  failed: (error: unknown) => void,
): void {
  try {
    const returned = callback(...args);
    // A foreign thenable may throw or settle twice; `Promise.resolve` guards against both.
    if (isThenable(returned)) Promise.resolve(returned).then(undefined, failed);
  } catch (error) {
    failed(error);
  }
}

export function guarded<A extends readonly unknown[]>(
  callback: (...args: A) => unknown,
  subject: string,
  failed: CallbackFailed,
): (...args: A) => void {
  return (...args) => callGuarded(callback, args, (error) => failed(subject, error));
}

/** The subscribers of one event. A failure of one is reported, and does not keep the others from being called. */
export class Callbacks<A extends readonly unknown[]> {
  readonly #subject: string;
  readonly #failed: CallbackFailed;
  /** Replaced at every change, so that a round of calls uses the callbacks that it began with. */
  #subscribed: readonly Subscribed<A>[] = [];

  constructor(subject: string, failed: CallbackFailed) {
    this.#subject = subject;
    this.#failed = failed;
  }

  get size(): number {
    return this.#subscribed.length;
  }

  /** Returns the function that unsubscribes. */
  add(callback: (...args: A) => unknown): () => void {
    const own: Subscribed<A> = { callback, active: true };
    this.#subscribed = [...this.#subscribed, own];
    return () => {
      own.active = false;
      this.#subscribed = this.#subscribed.filter((other) => other !== own);
    };
  }

  call(...args: A): void {
    for (const own of this.#subscribed) {
      if (own.active) callGuarded(own.callback, args, (error) => this.#failed(this.#subject, error));
    }
  }

  clear(): void {
    for (const own of this.#subscribed) own.active = false;
    this.#subscribed = [];
  }
}

interface Subscribed<A extends readonly unknown[]> {
  readonly callback: (...args: A) => unknown;
  active: boolean;
}

/** For a component that has no event stream. */
export function logCallback(logger: Logger): CallbackFailed {
  return (subject, error) => logger.error({ subject, err: error }, 'callback failed');
}

/** For a component that was given neither a logger nor an event stream. */
export const warnOfCallback: CallbackFailed = (subject, error) => {
  process.emitWarning(`${subject}: ${describeError(error)}`, 'CallbackFailed');
};

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
