import { setMaxListeners } from 'node:events';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { timedOut } from './fetch-errors.js';

/** What can end a fetch from this side: its caller, its time, silence. The first of them stays the reason. */
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
    // One signal may well end thousands of fetches; Node would take that for a leak.
    setMaxListeners(0, caller);
    caller.addEventListener('abort', this.cancel);
  }

  /** Why the fetch was ended, if it was. */
  get reason(): EclipticError | undefined {
    return this.#reason;
  }

  /** All that is left has to happen within this time; it takes the place of any earlier limit. */
  limit(name: 'timeoutMs' | 'streamMs', ms: number): void {
    this.#total?.cancel();
    this.#total = this.#timer(name, ms);
  }

  /** From now on the other side has to say something within this time. */
  listen(ms: number): void {
    this.#silence?.cancel();
    this.#silence = this.#timer('idleMs', ms);
  }

  /** It said something. */
  heard(): void {
    this.#silence?.cancel();
    this.#silence = undefined;
  }

  /** Calls `hook` when the fetch is ended, at once if it has been; the result takes that back. */
  onEnd(hook: (reason: EclipticError) => void): () => void {
    if (this.#reason) hook(this.#reason);
    else this.#hooks.add(hook);
    return () => this.#hooks.delete(hook);
  }

  /** Waits no longer than the fetch lives, for work that cannot be stopped. */
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

  /** The fetch is over; nothing ends it any more. */
  release(): void {
    this.#total?.cancel();
    this.heard();
    this.#hooks.clear();
    this.#caller?.removeEventListener('abort', this.cancel);
  }

  /** The caller wants no more of it. */
  readonly cancel = () => {
    this.end(new EclipticError('CANCELLED', `the fetch of ${this.#origin} was cancelled`, { origin: this.#origin }));
  };

  #timer(name: 'timeoutMs' | 'streamMs' | 'idleMs', ms: number): Timer | undefined {
    if (ms === Number.POSITIVE_INFINITY || this.#reason) return undefined;
    return this.#runtime.setTimer(() => this.end(timedOut(this.#origin, name, ms)), ms);
  }
}
