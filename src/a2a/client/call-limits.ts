import { wait } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';

export interface CallOptions {
  /** For all of it, however many requests it takes. Without one, calls that follow a task end after silence alone. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** How long a call may go on, and whether its caller still wants it. The first to end it is the reason. */
export class CallLimits {
  readonly #runtime: Runtime;
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  #timer: Timer | undefined;
  #heardAt: number;
  #reason: EclipticError | undefined;

  /** Without a time of the caller's own: `usual` for all of it, or that much silence. */
  constructor(runtime: Runtime, { signal, timeoutMs }: CallOptions, usual: number | { readonly silenceMs: number }) {
    this.#runtime = runtime;
    this.#caller = signal;
    this.#heardAt = runtime.stopwatch();
    if (timeoutMs === undefined && typeof usual !== 'number') this.#endAfterSilence(usual.silenceMs, usual.silenceMs);
    else this.#endAfter(timeoutMs ?? (usual as number));
    if (signal?.aborted) this.#cancel();
    else signal?.addEventListener('abort', this.#cancel, { once: true });
  }

  /** Aborts when the call has to end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the call had to end, if it had. */
  get reason(): EclipticError | undefined {
    return this.#reason;
  }

  /** Waits for work that listens to the signal; what ended the call is what it fails with. */
  async during<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw this.#reason ?? error;
    }
  }

  /** Waits no longer than the call may go on, for work that others may be waiting for too. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const end = () => reject(this.#reason);
      if (this.#reason) end();
      this.signal.addEventListener('abort', end, { once: true });
      work.then(resolve, reject).finally(() => this.signal.removeEventListener('abort', end));
    });
  }

  /** Lets that much time pass, or throws what ended the call. */
  async pause(ms: number): Promise<void> {
    // A timer does not keep the process alive; a caller that waits for an answer wants it alive.
    const hold = this.#runtime.hold();
    await wait(this.#runtime, ms, this.signal);
    hold.cancel();
    if (this.#reason) throw this.#reason;
  }

  /** There is news of the task: its silence begins again. */
  heard(): void {
    this.#heardAt = this.#runtime.stopwatch();
  }

  /** The call is over: nothing ends it any more. */
  release(): void {
    this.#timer?.cancel();
    this.#caller?.removeEventListener('abort', this.#cancel);
  }

  #endAfter(ms: number): void {
    if (ms === Number.POSITIVE_INFINITY) return;
    this.#timer = this.#runtime.setTimer(() => {
      this.#end(new EclipticError('REQUEST_TIMEOUT', `Timed out after ${ms}ms`, { timeoutMs: ms }));
    }, ms);
  }

  #endAfterSilence(silenceMs: number, leftMs: number): void {
    this.#timer = this.#runtime.setTimer(() => {
      const left = this.#heardAt + silenceMs - this.#runtime.stopwatch();
      if (left > 0) return this.#endAfterSilence(silenceMs, left);
      this.#end(new EclipticError('REQUEST_TIMEOUT', `Timed out after ${silenceMs}ms without news`, { silenceMs }));
    }, leftMs);
  }

  readonly #cancel = () => this.#end(new EclipticError('CANCELLED', 'the caller cancelled the call'));

  #end(reason: EclipticError): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.release();
    this.#controller.abort();
  }
}
