import type { Runtime } from './runtime.js';

type Timers = Pick<Runtime, 'setTimer'>;

/** Resolves after `ms`, or as soon as the signal aborts. */
export function wait(runtime: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      timer.cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = runtime.setTimer(end, ms);
    signal?.addEventListener('abort', end);
  });
}

/** Settles as the work does, or after `ms` with the value that `late` returns or the error that it throws. */
export function within<T, L = never>(runtime: Timers, work: Promise<T>, ms: number, late: () => L): Promise<T | L> {
  return new Promise<T | L>((resolve, reject) => {
    const timer = runtime.setTimer(() => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    }, ms);
    work.finally(() => timer.cancel()).then(resolve, reject);
  });
}

/** Settles as the work does, or rejects as soon as the signal aborts: not all work listens to a signal. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/**
 * A promise that is settled from outside. The promise is made when it is first asked for, so that an outcome that
 * nothing waits for costs no promise, and a rejection that nothing waits for is not reported as unhandled.
 */
export class Deferred<T> {
  #promise: Promise<T> | undefined;
  #resolve: ((value: T) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;
  #outcome: { readonly value: T } | { readonly error: unknown } | undefined;

  get promise(): Promise<T> {
    if (this.#promise) return this.#promise;
    const promise = new Promise<T>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    promise.catch(() => {});
    this.#promise = promise;
    this.#settle();
    return promise;
  }

  resolve(value: T): void {
    this.#outcome ??= { value };
    this.#settle();
  }

  reject(error: unknown): void {
    this.#outcome ??= { error };
    this.#settle();
  }

  #settle(): void {
    if (!this.#promise || !this.#outcome) return;
    if ('error' in this.#outcome) this.#reject!(this.#outcome.error);
    else this.#resolve!(this.#outcome.value);
  }
}

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
