import type { ProviderRegistry } from '../providers/registry/registry.js';
import type { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { meta } from '../store/common-tables.js';
import { PROVING_BYTES, type Store } from '../store/store.js';
import { providersByState } from './node-metrics.js';

export type Phase = 'starting' | 'running' | 'stopping';

/** Why a node is not ready, or degraded. It names no agent and no file: the route is public. */
export interface ReadinessReason {
  readonly part: 'node' | 'store' | 'providers';
  readonly state: string;
  readonly message: string;
}

export interface Readiness {
  /** Only `not-ready` is answered with 503. */
  readonly status: 'ready' | 'degraded' | 'not-ready';
  readonly reasons: readonly ReadinessReason[];
}

export interface ReadinessComponents {
  readonly runtime: Runtime;
  readonly providers: ProviderRegistry;
  readonly store: Store | undefined;
}

/** Least time between two attempts to write to a store whose latest write failed. */
const PROBE_MS = 1_000;
const UNWELL = ['failed', 'unavailable', 'degraded'] as const;

/** Whether the node can take work. */
export class ReadinessCheck {
  readonly #components: ReadinessComponents;
  phase: Phase = 'starting';
  #probedAt = Number.NEGATIVE_INFINITY;

  constructor(components: ReadinessComponents) {
    this.#components = components;
  }

  async check(): Promise<Readiness> {
    const blocking = [...this.#phaseReasons(), ...(await this.#storeReasons())];
    const degrading = this.#providerReasons();
    const status = blocking.length > 0 ? 'not-ready' : degrading.length > 0 ? 'degraded' : 'ready';
    return { status, reasons: [...blocking, ...degrading] };
  }

  #phaseReasons(): ReadinessReason[] {
    const { phase } = this;
    return phase === 'running' ? [] : [{ part: 'node', state: phase, message: `the node is ${phase}` }];
  }

  async #storeReasons(): Promise<ReadinessReason[]> {
    const failure = await this.#storeFailure();
    if (!failure) return [];
    const why = failure.details.reason === 'full' ? 'the disk is full' : 'the latest write failed';
    return [{ part: 'store', state: 'failed', message: `the store cannot be written: ${why}` }];
  }

  /** A store whose latest write failed is tried again: nothing else may be written until the node is used again. */
  async #storeFailure(): Promise<EclipticError | undefined> {
    const { store, runtime } = this.#components;
    if (!store?.state?.().failure) return undefined;
    const now = runtime.stopwatch();
    if (now - this.#probedAt >= PROBE_MS) {
      this.#probedAt = now;
      await store.write([meta.put({ name: 'probe', value: '.'.repeat(PROVING_BYTES) })]).catch(() => {});
    }
    return store.state().failure;
  }

  #providerReasons(): ReadinessReason[] {
    const counts = providersByState(this.#components);
    return UNWELL.flatMap((state): ReadinessReason[] => {
      const count = counts[state] ?? 0;
      if (count === 0) return [];
      const message = count === 1 ? `1 provider is ${state}` : `${count} providers are ${state}`;
      return [{ part: 'providers', state, message }];
    });
  }
}
