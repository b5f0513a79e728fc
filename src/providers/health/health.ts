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

/** The part of an adapter that is checked. */
type Checked = Pick<ProviderAdapter, 'type' | 'health' | 'onCrash' | 'onReady'> & {
  /** A provider that is still starting is not checked. */
  readonly isStarting?: () => boolean;
};

interface HealthComponents {
  runtime: Runtime;
  events: ProviderEvents;
}

interface CheckedAbout {
  /** Default: the adapter's own `type`. */
  readonly type?: ProviderType;
  /** The reason where it is known to be unavailable; the first check then waits for the interval. Default: checked at once. */
  readonly unavailable?: string;
}

type TransitionListener = (providerId: string, transition: HealthTransition) => void;

interface Tracked {
  readonly id: string;
  readonly type: ProviderType | undefined;
  readonly adapter: Checked;
  readonly intervalMs: number;
  health: Health;
  /** The running check, and since when it is overdue. */
  checking: Promise<void> | undefined;
  lateSince: number | undefined;
  crashes: number;
  timer: Timer | undefined;
  stop: () => void;
}

/**
 * Tracks the health of every provider: checks at once and then at each interval, never two at a time, and counts a crash
 * as soon as it happens. Only transitions are emitted.
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

  /** Sorted by id. */
  getHealthyProviders(type: string): string[] {
    const healthy = [...this.#tracked.values()].filter((one) => one.type === type && statusOf(one).state === 'healthy');
    return healthy.map(({ id }) => id).sort();
  }

  /** Calls back after each transition; `getStatus` already gives the new state. */
  onTransition(listener: TransitionListener): () => void {
    return this.#listeners.add(listener);
  }

  /** To be called when a provider crashed, or could not be restarted. */
  crashed(providerId: string, { error, looping }: ProviderCrash): void {
    const tracked = this.#tracked.get(providerId);
    if (!tracked) return;
    tracked.crashes++;
    this.#step(tracked, { type: 'crashed', at: this.#runtime.now(), reason: error.message, looping });
  }

  /** Checks now, unless a check is running, and restarts the interval. */
  checkNow(providerId: string): void {
    const tracked = this.#tracked.get(providerId);
    if (!tracked || tracked.checking) return;
    tracked.timer?.cancel();
    this.#tick(tracked);
  }

  /** Resolves when the running check is over; at once where none is running. */
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
      // The last check has not ended: another one would tell nothing new.
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
      // An answer from before a crash does not count.
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
