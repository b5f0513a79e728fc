import type { WorkerHealth } from '../../agent/staffing.js';
import { Callbacks } from '../../runtime/callbacks.js';
import type { Runtime } from '../../runtime/runtime.js';
import {
  type ExecuteTerms,
  guardedTerms,
  type ProviderAdapter,
  type ProviderHealthStatus,
  type ProviderRegistration,
} from '../adapter/adapter.js';
import { NormalizedProviderError, normalizeError } from '../adapter/errors.js';
import type { ProviderEvents } from '../adapter/events.js';
import { HealthCoordinator } from '../health/health.js';
import type { HealthPolicy } from '../health/health-machine.js';
import { DEFAULT_WORKSPACE, FailoverRouter } from './failover.js';
import {
  checkRegistration,
  describeState,
  type ProviderRow,
  RegisteredProvider,
  rowOf,
  WORSE,
  workerHealthOf,
} from './registered-provider.js';
import { type WaitingLimits, WaitingWork, type WorkRoute } from './waiting-work.js';

export interface ProviderRegistryComponents {
  runtime: Runtime;
  events: ProviderEvents;
}

export interface ProviderRegistryInit {
  health?: Partial<HealthPolicy>;
  waiting?: Partial<WaitingLimits>;
}

const MAX_PROVIDERS = 1_000;
/** Failures of work that say something of the provider's health. */
const CHECKED_AT_ONCE: ReadonlySet<string> = new Set([
  'PROVIDER_CREDENTIAL_MISSING',
  'PROVIDER_UNAVAILABLE',
  'PROVIDER_CREDENTIAL_DENIED',
]);

export interface ExecuteRoute {
  /** The type of the provider, or the pool that it was registered in. */
  readonly type: string;
  readonly capabilities?: readonly string[] | undefined;
  readonly workspaceId?: string | undefined;
}

/** The providers of a node, and the only way to give them work. */
export class ProviderRegistry {
  readonly health: HealthCoordinator;
  readonly failover: FailoverRouter;
  readonly #runtime: Runtime;
  readonly #events: ProviderEvents;
  readonly #waiting: WaitingWork<RegisteredProvider>;
  readonly #providers = new Map<string, RegisteredProvider>();
  readonly #lanes = new Map<string, string>();
  /** First starts under way. */
  readonly #registering = new Map<string, Promise<void>>();
  readonly #watchers: Callbacks<[row: ProviderRow]>;
  #closed = false;

  constructor({ runtime, events }: ProviderRegistryComponents, init: ProviderRegistryInit = {}) {
    this.#runtime = runtime;
    this.#events = events;
    this.#watchers = new Callbacks('providers.onChange', events.callbackFailed);
    this.health = new HealthCoordinator({ runtime, events }, init.health);
    this.failover = new FailoverRouter({ events, health: this.health });
    this.#waiting = new WaitingWork(runtime, init.waiting);
    this.failover.onChange(() => this.#release());
    this.health.onTransition((id) => this.#changed(id));
  }

  /**
   * Registers and starts a provider. A provider that cannot be started stays registered, out of routing, and is tried again
   * at its interval; the rejection says why.
   */
  async register(registration: ProviderRegistration, adapter: ProviderAdapter): Promise<void> {
    const registering = this.#register(registration, adapter);
    const { id } = registration;
    const settled = registering.catch(() => {}).finally(() => this.#registering.delete(id));
    this.#registering.set(id, settled);
    return registering;
  }

  async #register(registration: ProviderRegistration, adapter: ProviderAdapter): Promise<void> {
    const { laneId, ...checked } = checkRegistration(registration);
    this.#admit(checked.id);
    const provider = new RegisteredProvider(this.#runtime, checked, adapter, {
      onPhase: (one) => this.#phased(one),
      onRoom: () => this.#release(),
    });
    const { id, type, pool, workspaceId, capabilities, priority, healthCheckIntervalMs } = checked;
    const candidate = { id, type, pool, workspaceId, capabilities, priority };
    this.#providers.set(id, provider);
    if (laneId !== undefined) this.#lanes.set(id, laneId);
    this.failover.add({ ...candidate, state: 'healthy', phase: 'starting' });
    try {
      await this.#start(provider, () => provider.init());
    } catch (error) {
      if (this.#providers.get(id) !== provider) throw error;
      const unavailable = (error as NormalizedProviderError).message;
      this.failover.add({ ...candidate, state: 'unavailable', phase: 'held' });
      this.health.register(id, this.#checked(provider), healthCheckIntervalMs, { type, unavailable });
      this.#changed(id);
      throw error;
    }
    this.#events.emit('provider.registered', { provider: id, providerType: type, details: { workspaceId, priority } });
    this.health.register(id, this.#checked(provider), healthCheckIntervalMs, { type });
  }

  /** Work in flight fails with `PROVIDER_TERMINATED`. */
  async unregister(id: string): Promise<void> {
    const provider = this.#require(id);
    const row = this.#row(provider);
    this.#providers.delete(id);
    this.#lanes.delete(id);
    this.health.unregister(id);
    this.failover.remove(id);
    if (this.#watchers.size > 0) this.#watchers.call({ ...row, phase: 'terminated', state: 'unavailable' });
    await provider.terminate();
    this.#events.emit('provider.unregistered', { provider: id, providerType: provider.registration.type });
  }

  get(id: string): ProviderRow {
    return this.#row(this.#require(id));
  }

  describe(id: string): Readonly<Record<string, unknown>> {
    return this.#require(id).adapter.describe?.() ?? {};
  }

  list(): ProviderRow[] {
    return [...this.#providers.values()].map((one) => this.#row(one)).sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  listByType(type: string): ProviderRow[] {
    return this.list().filter((row) => row.type === type);
  }

  listByWorkspace(workspaceId: string): ProviderRow[] {
    return this.list().filter((row) => row.workspaceId === workspaceId);
  }

  /** The provider ends with the lane. */
  bindToLane(id: string, laneId: string): void {
    this.#require(id);
    this.#lanes.set(id, laneId);
  }

  unbindFromLane(id: string): void {
    this.#lanes.delete(id);
  }

  getProvidersForLane(laneId: string): string[] {
    return [...this.#lanes].filter(([, lane]) => lane === laneId).map(([id]) => id);
  }

  async closeLane(laneId: string): Promise<void> {
    await Promise.all(this.getProvidersForLane(laneId).map((id) => this.unregister(id)));
  }

  getHealthStatus(id: string): ProviderHealthStatus {
    return this.health.getStatus(id);
  }

  onChange(watcher: (row: ProviderRow) => void): void {
    this.#watchers.add(watcher);
  }

  /** The health of the best provider with a capability; undefined where there is none. */
  healthOf(capability: string): WorkerHealth | undefined {
    const able = [...this.#providers.values()].filter(({ registration }) =>
      (registration.capabilities as readonly string[]).includes(capability),
    );
    const all = able.map((one) => workerHealthOf(this.#row(one), this.#impedimentOf(one)?.message));
    return all.sort((a, b) => WORSE[a.state] - WORSE[b.state])[0];
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Gives work to the selected provider, once. Where all capable providers are down or busy, the work waits for the first
   * that is free, or is refused, as its terms say.
   */
  async execute<TOutput = unknown>(
    route: ExecuteRoute,
    input: unknown,
    correlationId: string,
    terms: ExecuteTerms = {},
  ): Promise<TOutput> {
    const { type, capabilities = [], workspaceId = DEFAULT_WORKSPACE } = route;
    const work: WorkRoute = { type, capabilities, workspaceId };
    const began = this.#runtime.stopwatch();
    let chosen: RegisteredProvider | undefined;
    try {
      chosen = this.#take(work, correlationId) ?? (await this.#later(work, correlationId, terms));
      const guarded = guardedTerms(terms, chosen.id, this.#events.callbackFailed);
      const output = await chosen.execute(input, correlationId, guarded);
      this.#report(chosen, correlationId, terms, began);
      return output as TOutput;
    } catch (error) {
      const failure = normalizeError(error, 'internal', correlationId);
      // A missing login or a dead endpoint shows at the first work; the check takes the provider out of routing.
      if (chosen && CHECKED_AT_ONCE.has(failure.code)) this.#failedWork(chosen, failure);
      this.#report(chosen, correlationId, terms, began, failure, type);
      throw failure;
    } finally {
      this.#release();
    }
  }

  /** Gives the provider no more work; resolves when its work is done. `restart` brings it back. */
  async drain(id: string): Promise<ProviderRow> {
    const provider = this.#require(id);
    const about = { provider: id, providerType: provider.registration.type };
    this.#events.emit('provider.draining', about);
    await provider.drain();
    this.#events.emit('provider.drained', about);
    return this.#row(provider);
  }

  /** Lets the provider use its present credentials without interrupting work. Where that fails, nothing changes. */
  async renew(id: string): Promise<void> {
    const { adapter, registration } = this.#require(id);
    const about = { provider: id, providerType: registration.type };
    try {
      await adapter.renew?.();
      this.#events.emit('provider.renewed', about);
    } catch (error) {
      const failure = normalizeError(error, registration.type);
      this.#events.emit('provider.renew.failed', { ...about, code: failure.code, reason: failure.message });
      throw failure;
    }
  }

  /** Checks a provider now; a start or check under way may have begun before the change that this is for. */
  async recheck(id: string): Promise<void> {
    await this.#registering.get(id);
    await this.health.checkUnderWay(id);
    this.health.checkNow(id);
  }

  /** Work in flight fails with `PROVIDER_TERMINATED`. */
  async restart(id: string): Promise<ProviderRow> {
    const provider = this.#require(id);
    try {
      await this.#start(provider, () => provider.restart());
    } catch (error) {
      this.health.crashed(id, { error: error as NormalizedProviderError, looping: true });
      throw error;
    }
    this.#events.emit('provider.restarted', { provider: id, providerType: provider.registration.type });
    this.health.checkNow(id);
    return this.#row(provider);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.close(new NormalizedProviderError('PROVIDER_TERMINATED', 'the node is being stopped', 'internal'));
    await Promise.all([...this.#providers.keys()].map((id) => this.unregister(id)));
    this.health.close();
    this.failover.close();
  }

  async #start(provider: RegisteredProvider, begin: () => Promise<void>): Promise<void> {
    try {
      await begin();
    } catch (error) {
      const { code, message: reason } = error as NormalizedProviderError;
      const about = { provider: provider.id, providerType: provider.registration.type };
      this.#events.emit('provider.init.failed', { ...about, code, reason });
      throw error;
    }
  }

  #admit(id: string): void {
    const refuse = (code: 'PROVIDER_TERMINATED' | 'PROVIDER_EXISTS' | 'PROVIDER_QUEUE_FULL', message: string) =>
      new NormalizedProviderError(code, message, 'internal', { details: { providerId: id } });
    if (this.#closed) throw refuse('PROVIDER_TERMINATED', 'the node is being stopped');
    if (this.#providers.has(id)) throw refuse('PROVIDER_EXISTS', `there is a provider "${id}" already`);
    if (this.#providers.size >= MAX_PROVIDERS) {
      throw refuse('PROVIDER_QUEUE_FULL', `a node has at most ${MAX_PROVIDERS} providers`);
    }
  }

  /** Undefined where the work has to wait. */
  #take(work: WorkRoute, correlationId: string): RegisteredProvider | undefined {
    const { type, capabilities, workspaceId } = work;
    const id = this.failover.selectProvider(type, capabilities, workspaceId);
    if (id !== null && !this.#waiting.isWaiting(work)) {
      const provider = this.#require(id);
      return provider.reserve() ? provider : undefined;
    }
    if (id === null && !this.failover.isServed(type, capabilities, workspaceId)) {
      const needs = capabilities.length > 0 ? ` with ${capabilities.join(', ')}` : '';
      const message = `there is no provider of type ${type}${needs}`;
      const about = { correlationId, details: { required: capabilities } };
      throw new NormalizedProviderError('PROVIDER_NO_CAPABLE_ENDPOINT', message, 'internal', about);
    }
    return undefined;
  }

  /** Waits for a provider, or refuses the work where it must not wait. */
  async #later(work: WorkRoute, correlationId: string, { signal, wait = true }: ExecuteTerms) {
    const { type, capabilities, workspaceId } = work;
    const select = () => this.failover.selectProvider(type, capabilities, workspaceId);
    const impediment = wait ? this.#impediment(work) : undefined;
    if (impediment) throw normalizeError(impediment, 'internal', correlationId);
    // A remote provider may be back already: its next check must not wait for the interval while work waits.
    if (wait && select() === null) {
      for (const { id, isRemote } of this.#able(work)) if (isRemote) this.health.checkNow(id);
    }
    if (wait) return this.#waiting.wait(work, correlationId, signal, () => select() !== null);
    const busy = select();
    if (busy !== null) throw this.#full(busy, correlationId);
    const able = this.#able(work);
    // A running check may be about to bring a provider back.
    await Promise.all(able.map(({ id }) => this.health.checkUnderWay(id)));
    const provider = this.#take(work, correlationId);
    if (provider) return provider;
    const why = able.map((one) => describeState(this.#row(one))).join('; ');
    throw new NormalizedProviderError('PROVIDER_UNAVAILABLE', why, 'internal', { correlationId });
  }

  /** Work that reached none of a provider's endpoints is a crash: it is degraded until a check passes. */
  #failedWork({ id, isRemote }: RegisteredProvider, error: NormalizedProviderError): void {
    if (isRemote && error.code === 'PROVIDER_UNAVAILABLE') this.health.crashed(id, { error });
    this.health.checkNow(id);
  }

  #full(id: string, correlationId: string): NormalizedProviderError {
    const { concurrencyLimit } = this.#require(id).registration;
    const message = `provider "${id}" works on ${concurrencyLimit} things already`;
    return new NormalizedProviderError('PROVIDER_CONCURRENCY_EXCEEDED', message, 'internal', { correlationId });
  }

  #release(): void {
    if (this.#waiting.size === 0) return;
    this.#waiting.giveUp((work) => this.#impediment(work));
    this.#waiting.release(({ type, capabilities, workspaceId }) => {
      const id = this.failover.selectProvider(type, capabilities, workspaceId);
      const provider = id === null ? undefined : this.#providers.get(id);
      return provider?.reserve() ? provider : undefined;
    });
  }

  #report(
    provider: RegisteredProvider | undefined,
    correlationId: string,
    { caller: agent, laneId }: ExecuteTerms,
    began: number,
    failure?: NormalizedProviderError,
    type?: string,
  ): void {
    const outcome = !failure ? 'completed' : failure.code === 'PROVIDER_CANCELLED' ? 'cancelled' : 'failed';
    const { id, type: providerType } = provider?.registration ?? { id: undefined, type };
    this.#events.emit(`provider.execute.${outcome}`, {
      provider: id,
      providerType: providerType as ProviderRegistration['type'],
      correlationId,
      agent,
      success: !failure,
      duration: this.#runtime.stopwatch() - began,
      code: failure?.code,
      reason: failure?.message,
      details: laneId === undefined ? undefined : { laneId },
    });
  }

  #phased({ id, phase }: RegisteredProvider): void {
    this.failover.setPhase(id, phase === 'ready' || phase === 'starting' ? phase : 'held');
    this.#changed(id);
  }

  /** The health check of a registered provider, which also retries a failed start. */
  #checked(provider: RegisteredProvider) {
    const { adapter } = provider;
    return {
      health: () => provider.health(),
      isStarting: () => provider.phase === 'starting',
      ...(adapter.onCrash && { onCrash: adapter.onCrash.bind(adapter) }),
      ...(adapter.onReady && { onReady: adapter.onReady.bind(adapter) }),
    };
  }

  #able({ type, workspaceId, capabilities }: WorkRoute): RegisteredProvider[] {
    return [...this.#providers.values()].filter(({ registration }) => {
      const own: readonly string[] = registration.capabilities;
      const isSameGroup = registration.pool === type && registration.workspaceId === workspaceId;
      return isSameGroup && capabilities.every((one) => own.includes(one));
    });
  }

  /** Why no provider takes that work until an owner acts. */
  #impediment(work: WorkRoute): NormalizedProviderError | undefined {
    const impediments = this.#able(work).map((one) => this.#impedimentOf(one));
    const [first, ...others] = impediments;
    if (!first || others.some((one) => one === undefined)) return undefined;
    if (others.length === 0) return first;
    const message = impediments.map((one) => one!.message).join('; ');
    return new NormalizedProviderError('PROVIDER_UNAVAILABLE', message, 'internal');
  }

  #impedimentOf(provider: RegisteredProvider): NormalizedProviderError | undefined {
    if (provider.impediment) return provider.impediment;
    const { id, registration } = provider;
    const { needsOwner, message, state } = this.health.getAllStatuses().get(id) ?? {};
    if (!needsOwner || provider.phase === 'starting') return undefined;
    return new NormalizedProviderError(
      'PROVIDER_UNAVAILABLE',
      `provider "${id}" is ${state}: ${message}; then: ecliptic provider restart ${id}`,
      registration.type,
    );
  }

  #changed(id: string): void {
    const provider = this.#providers.get(id);
    if (provider && this.#watchers.size > 0) this.#watchers.call(this.#row(provider));
  }

  #row(provider: RegisteredProvider): ProviderRow {
    const { id } = provider;
    const row = rowOf(provider, this.#lanes.get(id), this.health.getAllStatuses().get(id));
    // An agent's card says so, too: the provider takes no work until its owner acts.
    return row.state === 'degraded' && this.#impedimentOf(provider) ? { ...row, state: 'unavailable' } : row;
  }

  #require(id: string): RegisteredProvider {
    const provider = this.#providers.get(id);
    if (provider) return provider;
    const message = `there is no provider "${id}"`;
    throw new NormalizedProviderError('PROVIDER_NOT_FOUND', message, 'internal', { details: { providerId: id } });
  }
}
