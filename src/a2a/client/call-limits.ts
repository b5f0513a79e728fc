import { wait } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';

export interface CallOptions {
  /** For the whole call, over all its requests. Without it, calls that follow a task end after silence only. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** The time limit and the abort signal of a call. The first of them that ends the call is its reason. */
export class CallLimits {
  readonly #runtime: Runtime;
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  #timer: Timer | undefined;
  #heardAt: number;
  #reason: EclipticError | undefined;

  /** Without `timeoutMs`, `usual` limits the whole call or its silence. */
  constructor(runtime: Runtime, { signal, timeoutMs }: CallOptions, usual: number | { readonly silenceMs: number }) {
    this.#runtime = runtime;
    this.#caller = signal;
    this.#heardAt = runtime.stopwatch();
    if (timeoutMs === undefined && typeof usual !== 'number') this.#endAfterSilence(usual.silenceMs, usual.silenceMs);
    else this.#endAfter(timeoutMs ?? (usual as number));
    if (signal?.aborted) this.#cancel();
    else signal?.addEventListener('abort', this.#cancel, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get reason(): EclipticError | undefined {
    return this.#reason;
  }

  /** Awaits work that listens to the signal; rejects with the reason that ended the call. */
  async during<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw this.#reason ?? error;
    }
  }

  /** Awaits work that is shared with other calls, until this call ends. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const end = () => reject(this.#reason);
      if (this.#reason) end();
      this.signal.addEventListener('abort', end, { once: true });
      work.then(resolve, reject).finally(() => this.signal.removeEventListener('abort', end));
    });
  }

  /** Waits, or throws the reason that ended the call. */
  async pause(ms: number): Promise<void> {
    // A timer does not keep the process alive; a caller that waits for an answer wants it alive.
    const hold = this.#runtime.hold();
    await wait(this.#runtime, ms, this.signal);
    hold.cancel();
    if (this.#reason) throw this.#reason;
  }

  /** Restarts the limit of silence. */
  heard(): void {
    this.#heardAt = this.#runtime.stopwatch();
  }

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
