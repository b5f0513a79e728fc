import type { Runtime, Timer } from '../../runtime/runtime.js';
import { NormalizedProviderError } from '../adapter/errors.js';

/** What a piece of work requires of its provider. */
export interface WorkRoute {
  readonly type: string;
  readonly capabilities: readonly string[];
  readonly workspaceId: string;
}

export interface WaitingLimits {
  /** Pieces of work that may wait in one line. Default 100. */
  readonly queueLimit: number;
  /** Longest wait while all providers are down. Default 300,000. */
  readonly queueMs: number;
}

const WAITING_LIMITS: WaitingLimits = { queueLimit: 100, queueMs: 300_000 };

/** All lines together hold this many times the limit of one. */
const LINES = 10;

interface Line<Provider> {
  readonly route: WorkRoute;
  readonly waiting: Set<(provider: Provider) => void>;
  readonly fail: Set<(error: NormalizedProviderError) => void>;
}

/** Work that waits for a provider: one line for each route, first come first served. */
export class WaitingWork<Provider> {
  readonly #runtime: Runtime;
  readonly #limits: WaitingLimits;
  readonly #lines = new Map<string, Line<Provider>>();
  readonly #ends = new Set<(error: NormalizedProviderError) => void>();

  constructor(runtime: Runtime, limits: Partial<WaitingLimits> = {}) {
    this.#runtime = runtime;
    this.#limits = { ...WAITING_LIMITS, ...limits };
  }

  get size(): number {
    return this.#ends.size;
  }

  /** New work must wait behind waiting work. */
  isWaiting(route: WorkRoute): boolean {
    return this.#lines.size > 0 && this.#lines.has(keyOf(route));
  }

  /** Resolves with the provider when it is this work's turn. */
  wait(
    route: WorkRoute,
    correlationId: string,
    signal: AbortSignal | undefined,
    isBusy: () => boolean = () => false,
  ): Promise<Provider> {
    const key = keyOf(route);
    const line = this.#lines.get(key) ?? { route, waiting: new Set(), fail: new Set() };
    const { queueLimit, queueMs } = this.#limits;
    const failure = (code: 'PROVIDER_QUEUE_FULL' | 'PROVIDER_UNAVAILABLE' | 'PROVIDER_CANCELLED', message: string) =>
      new NormalizedProviderError(code, message, 'internal', { correlationId, details: { ...route } });
    if (line.waiting.size >= queueLimit || this.size >= LINES * queueLimit) {
      const message = `${this.size} pieces of work wait already, ${line.waiting.size} of them for ${describe(route)}`;
      return Promise.reject(failure('PROVIDER_QUEUE_FULL', message));
    }
    return new Promise((resolve, reject) => {
      const settle = () => {
        timer.cancel();
        signal?.removeEventListener('abort', cancel);
        this.#ends.delete(fail);
        line.waiting.delete(go);
        line.fail.delete(fail);
        if (line.waiting.size === 0) this.#lines.delete(key);
      };
      const go = (provider: Provider) => {
        settle();
        resolve(provider);
      };
      const fail = (error: NormalizedProviderError) => {
        settle();
        reject(error);
      };
      const cancel = () => fail(failure('PROVIDER_CANCELLED', 'the caller cancelled the work while it waited'));
      // While providers are only busy, the wait is limited by their own limits and by the caller.
      const expire = () => {
        if (isBusy()) timer = this.#runtime.setTimer(expire, queueMs);
        else fail(failure('PROVIDER_UNAVAILABLE', `${describe(route)} did not come back within ${queueMs} ms`));
      };
      let timer: Timer = this.#runtime.setTimer(expire, queueMs);
      line.waiting.add(go);
      line.fail.add(fail);
      this.#lines.set(key, line);
      this.#ends.add(fail);
      if (signal?.aborted) cancel();
      else signal?.addEventListener('abort', cancel, { once: true });
    });
  }

  /** Begins waiting work, in order, as long as `take` finds a provider. */
  release(take: (route: WorkRoute) => Provider | undefined): void {
    for (const { route, waiting } of [...this.#lines.values()]) {
      for (const go of waiting) {
        const provider = take(route);
        if (provider === undefined) break;
        go(provider);
      }
    }
  }

  /** Fails the work of each line for which `why` gives a reason. */
  giveUp(why: (route: WorkRoute) => NormalizedProviderError | undefined): void {
    for (const { route, waiting, fail } of [...this.#lines.values()]) {
      const reason = waiting.size > 0 ? why(route) : undefined;
      if (reason) for (const end of [...fail]) end(reason);
    }
  }

  close(error: NormalizedProviderError): void {
    for (const fail of [...this.#ends]) fail(error);
  }
}

function keyOf({ type, capabilities, workspaceId }: WorkRoute): string {
  return JSON.stringify([workspaceId, type, [...capabilities].sort()]);
}

function describe({ type, capabilities }: WorkRoute): string {
  return capabilities.length === 0 ? `providers of type ${type}` : `a provider for ${capabilities.join(', ')}`;
}
