import { Callbacks } from '../../runtime/callbacks.js';
import type { ProviderEvents } from '../adapter/events.js';
import type { HealthCoordinator } from '../health/health.js';
import {
  type Candidate,
  EMPTY_TABLE,
  isServed,
  type RoutingEffect,
  type RoutingEvent,
  type RoutingPhase,
  select,
  stepRouting,
} from './failover-machine.js';

export const DEFAULT_WORKSPACE = 'default';

interface FailoverComponents {
  events: ProviderEvents;
  health: HealthCoordinator;
}

/**
 * Selects the provider for each piece of work. The routing table changes when a provider is added, removed or changes its
 * state, never for a request; work in flight stays where it is.
 */
export class FailoverRouter {
  readonly #events: ProviderEvents;
  readonly #stopListening: () => void;
  readonly #watchers: Callbacks<[]>;
  #table = EMPTY_TABLE;

  constructor({ events, health }: FailoverComponents) {
    this.#events = events;
    this.#watchers = new Callbacks('failover.onChange', events.callbackFailed);
    this.#stopListening = health.onTransition((id, { to }) => this.#step({ type: 'changed', id, state: to }));
  }

  /** The first healthy provider of a type, or of a pool, with all required capabilities; null where there is none. */
  selectProvider(
    type: string,
    requiredCapabilities: readonly string[] = [],
    workspaceId = DEFAULT_WORKSPACE,
  ): string | null {
    return select(this.#table, type, requiredCapabilities, workspaceId);
  }

  /** Is there such a provider, healthy or not? */
  isServed(type: string, requiredCapabilities: readonly string[] = [], workspaceId = DEFAULT_WORKSPACE): boolean {
    return isServed(this.#table, type, requiredCapabilities, workspaceId);
  }

  add(candidate: Candidate): void {
    this.#step({ type: 'added', candidate });
  }

  remove(id: string): void {
    this.#step({ type: 'removed', id });
  }

  setPhase(id: string, phase: RoutingPhase): void {
    this.#step({ type: 'changed', id, phase });
  }

  onChange(watcher: () => void): void {
    this.#watchers.add(watcher);
  }

  close(): void {
    this.#stopListening();
    this.#watchers.clear();
  }

  #step(event: RoutingEvent): void {
    const { state, effects } = stepRouting(this.#table, event);
    this.#table = state;
    for (const effect of effects) this.#tell(effect);
    this.#watchers.call();
  }

  #tell(effect: RoutingEffect): void {
    const { providerType, pool, workspaceId, capabilities, wholeType } = effect;
    const details = { workspaceId, capabilities, wholeType };
    const isWholeType = wholeType && pool === providerType;
    const what = isWholeType ? `providers of type ${providerType}` : `providers for ${capabilities.join(', ')}`;
    if (effect.type === 'failover') {
      const { from, to } = effect;
      const reason = `work goes to ${to} instead of ${from} from now on`;
      const about = { provider: to, providerType, reason, details: { ...details, from, to } };
      this.#events.emit('provider.failover.activated', about);
    } else if (effect.type === 'unavailable') {
      const reason = `all ${what} are down; work for them waits. See: ecliptic providers`;
      const about = { providerType, code: 'PROVIDER_UNAVAILABLE', reason, details };
      this.#events.emit('provider.capability.unavailable', about);
    } else this.#events.emit('provider.capability.available', { providerType, details });
  }
}
