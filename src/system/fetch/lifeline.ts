import { setMaxListeners } from 'node:events';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { timedOut } from './fetch-errors.js';

/** Ends a fetch when its caller cancels, its time is over or the other side is silent. The first reason counts. */
export class Lifeline {
  readonly #runtime: Runtime;
  readonly #origin: string;
  readonly #caller: AbortSignal | undefined;
  readonly #hooks = new Set<(reason: EclipticError) => void>();
  #total: Timer | undefined;
  #silence: Timer | undefined;
  #reason: EclipticError | undefined;

  constructor(runtime: Runtime, origin: string, caller: AbortSignal | undefined) {
    this.#runtime = runtime;
    this.#origin = origin;
    this.#caller = caller;
    if (caller?.aborted) this.cancel();
    if (!caller || caller.aborted) return;
    // One signal may end thousands of fetches, which Node would report as a leak.
    setMaxListeners(0, caller);
    caller.addEventListener('abort', this.cancel);
  }

  get reason(): EclipticError | undefined {
    return this.#reason;
  }

  /** Limits the rest of the fetch; replaces an earlier limit. */
  limit(name: 'timeoutMs' | 'streamMs', ms: number): void {
    this.#total?.cancel();
    this.#total = this.#timer(name, ms);
  }

  listen(ms: number): void {
    this.#silence?.cancel();
    this.#silence = this.#timer('idleMs', ms);
  }

  heard(): void {
    this.#silence?.cancel();
    this.#silence = undefined;
  }

  /** Calls `hook` when the fetch is ended, at once where it is. Returns the function that removes the hook. */
  onEnd(hook: (reason: EclipticError) => void): () => void {
    if (this.#reason) hook(this.#reason);
    else this.#hooks.add(hook);
    return () => this.#hooks.delete(hook);
  }

  /** Settles as the work does, or rejects when the fetch is ended. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const off = this.onEnd(reject);
      work.then(resolve, reject).finally(off);
    });
  }

  end(reason: EclipticError): void {
    if (this.#reason) return;
    this.#reason = reason;
    const hooks = [...this.#hooks];
    this.release();
    for (const hook of hooks) hook(reason);
  }

  /** The fetch is complete; nothing ends it from now on. */
  release(): void {
    this.#total?.cancel();
    this.heard();
    this.#hooks.clear();
    this.#caller?.removeEventListener('abort', this.cancel);
  }

  readonly cancel = () => {
    this.end(new EclipticError('CANCELLED', `the fetch of ${this.#origin} was cancelled`, { origin: this.#origin }));
  };

  #timer(name: 'timeoutMs' | 'streamMs' | 'idleMs', ms: number): Timer | undefined {
    if (ms === Number.POSITIVE_INFINITY || this.#reason) return undefined;
    return this.#runtime.setTimer(() => this.end(timedOut(this.#origin, name, ms)), ms);
  }
}
