import { Callbacks } from '../../runtime/callbacks.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { ProviderAdapter, ProviderCrash, ProviderHealthStatus, ProviderType } from '../adapter/adapter.js';
import { NormalizedProviderError } from '../adapter/errors.js';
import type { ProviderEvents } from '../adapter/events.js';
import {
  HEALTH_POLICY,
  type Health,
  type HealthEvent,
  type HealthPolicy,
  type HealthTransition,
  newHealth,
  stepHealth,
} from './health-machine.js';

/** A check that takes longer has failed. */
const CHECK_MS = 5_000;
export const MIN_INTERVAL_MS = 5_000;
export const DEFAULT_INTERVAL_MS = 30_000;

/** What is asked about its health. */
type Checked = Pick<ProviderAdapter, 'type' | 'health' | 'onCrash' | 'onReady'> & {
  /** Is it still being made ready? There is nothing to check then. */
  readonly isStarting?: () => boolean;
};

interface HealthComponents {
  runtime: Runtime;
  events: ProviderEvents;
}

interface CheckedAbout {
  /** Default: what the adapter says that it is. */
  readonly type?: ProviderType;
  /** Why it is unavailable as it is, so that the first check can wait. Default: it is healthy, and checked at once. */
  readonly unavailable?: string;
}

type TransitionListener = (providerId: string, transition: HealthTransition) => void;

interface Tracked {
  readonly id: string;
  readonly type: ProviderType | undefined;
  readonly adapter: Checked;
  readonly intervalMs: number;
  health: Health;
  /** The check that is under way. And since when has its silence been counted? */
  checking: Promise<void> | undefined;
  lateSince: number | undefined;
  crashes: number;
  timer: Timer | undefined;
  stop: () => void;
}

/**
 * Watches over every provider: the first check at once, one each interval, never two at a time, a crash as soon as it
 * is known. Only transitions are told.
 */
export class HealthCoordinator {
  readonly #runtime: Runtime;
  readonly #events: ProviderEvents;
  readonly #policy: HealthPolicy;
  readonly #tracked = new Map<string, Tracked>();
  readonly #listeners: Callbacks<Parameters<TransitionListener>>;

  constructor({ runtime, events }: HealthComponents, policy: Partial<HealthPolicy> = {}) {
    this.#runtime = runtime;
    this.#events = events;
    this.#listeners = new Callbacks('health.onTransition', events.callbackFailed);
    this.#policy = { ...HEALTH_POLICY, ...policy };
  }

  /** Begins to check a provider. */
  register(providerId: string, adapter: Checked, intervalMs: number, about: CheckedAbout = {}): void {
    this.unregister(providerId);
    const now = this.#runtime.now();
    const { type = adapter.type, unavailable } = about;
    const health = unavailable === undefined ? newHealth('healthy', now) : newHealth('unavailable', now, unavailable);
    const stops = [
      adapter.onCrash?.((crash) => this.crashed(providerId, crash)),
      adapter.onReady?.(() => this.checkNow(providerId)),
    ];
    const tracked: Tracked = {
      id: providerId,
      type,
      adapter,
      intervalMs: Math.max(intervalMs, MIN_INTERVAL_MS),
      health,
      checking: undefined,
      lateSince: undefined,
      crashes: 0,
      timer: undefined,
      stop: () => {
        for (const stop of stops) stop?.();
      },
    };
    this.#tracked.set(providerId, tracked);
    if (unavailable === undefined) this.#tick(tracked);
    else this.#wait(tracked);
  }

  /** Stops checking it, and forgets it. */
  unregister(providerId: string): void {
    const tracked = this.#tracked.get(providerId);
    if (!tracked) return;
    this.#tracked.delete(providerId);
    tracked.timer?.cancel();
    tracked.stop();
  }

  getStatus(providerId: string): ProviderHealthStatus {
    const tracked = this.#tracked.get(providerId);
    if (tracked) return statusOf(tracked);
    const message = `no provider "${providerId}" is checked`;
    throw new NormalizedProviderError('PROVIDER_NOT_FOUND', message, 'internal', { details: { providerId } });
  }

  getAllStatuses(): Map<string, ProviderHealthStatus> {
    return new Map([...this.#tracked.values()].map((one) => [one.id, statusOf(one)]));
  }

  /** Ids of the healthy providers of a type, in order. */
  getHealthyProviders(type: string): string[] {
    const healthy = [...this.#tracked.values()].filter((one) => one.type === type && statusOf(one).state === 'healthy');
    return healthy.map(({ id }) => id).sort();
  }

  /** Calls back after each transition, with the status already as it is then. */
  onTransition(listener: TransitionListener): () => void {
    return this.#listeners.add(listener);
  }

  /** It crashed, or could not be started again. */
  crashed(providerId: string, { error, looping }: ProviderCrash): void {
    const tracked = this.#tracked.get(providerId);
    if (!tracked) return;
    tracked.crashes++;
    this.#step(tracked, { type: 'crashed', at: this.#runtime.now(), reason: error.message, looping });
  }

  /** Checks it now, and goes on at its interval from now; unless a check is under way already. */
  checkNow(providerId: string): void {
    const tracked = this.#tracked.get(providerId);
    if (!tracked || tracked.checking) return;
    tracked.timer?.cancel();
    this.#tick(tracked);
  }

  /** Resolves when the check that is under way is over, at once where there is none. */
  async checkUnderWay(providerId: string): Promise<void> {
    await this.#tracked.get(providerId)?.checking;
  }

  close(): void {
    for (const id of [...this.#tracked.keys()]) this.unregister(id);
    this.#listeners.clear();
  }

  #tick(tracked: Tracked): void {
    this.#wait(tracked);
    if (!tracked.adapter.isStarting?.()) this.#check(tracked);
  }

  #wait(tracked: Tracked): void {
    tracked.timer = this.#runtime.setTimer(() => this.#tick(tracked), tracked.intervalMs);
  }

  #check(tracked: Tracked): void {
    if (tracked.checking) {
      // The last question is still open: one more would tell nothing new.
      const { lateSince = Number.POSITIVE_INFINITY } = tracked;
      if (lateSince < this.#runtime.now()) this.#failed(tracked, 'it has not answered the last check yet');
      return;
    }
    const { crashes } = tracked;
    tracked.lateSince = undefined;
    const timer = this.#runtime.setTimer(() => {
      tracked.lateSince = this.#runtime.now();
      this.#failed(tracked, `it did not answer within ${CHECK_MS} ms`);
    }, CHECK_MS);
    const over = (event: (at: number) => HealthEvent) => {
      tracked.checking = undefined;
      timer.cancel();
      // What it said before it crashed is worth nothing.
      if (tracked.lateSince === undefined && tracked.crashes === crashes)
        this.#step(tracked, event(this.#runtime.now()));
    };
    tracked.checking = (async () => tracked.adapter.health())().then(
      ({ state, message, needsOwner = false }) =>
        over((at) =>
          state === 'healthy'
            ? { type: 'passed', at }
            : { type: 'failed', at, reason: message ?? `it is ${state}`, needsOwner },
        ),
      (error) => over((at) => ({ type: 'failed', at, reason: describeError(error) })),
    );
  }

  #failed(tracked: Tracked, reason: string): void {
    this.#step(tracked, { type: 'failed', at: this.#runtime.now(), reason });
  }

  #step(tracked: Tracked, event: HealthEvent): void {
    if (this.#tracked.get(tracked.id) !== tracked) return;
    const { next, transition } = stepHealth(tracked.health, event, this.#policy);
    tracked.health = next;
    if (!transition) return;
    const { id: provider, type: providerType } = tracked;
    this.#events.emit('provider.health.changed', {
      provider,
      providerType,
      reason: next.message,
      details: { ...transition, failureCount: next.failures },
    });
    this.#listeners.call(provider, transition);
  }
}

function statusOf({ health, adapter }: Tracked): ProviderHealthStatus {
  const { state, lastCheck, failures, message, needsOwner } = health;
  const status = { state, lastCheck: new Date(lastCheck), failureCount: failures, ...(needsOwner && { needsOwner }) };
  if (state === 'healthy' && adapter.isStarting?.()) {
    return { ...status, state: 'unavailable', message: 'it is being started' };
  }
  return message === undefined ? status : { ...status, message };
}
