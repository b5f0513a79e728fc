import type { Credentials } from '../../a2a/client/credentials.js';
import type { Reach } from '../../a2a/client/remote-endpoint.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Redactor } from '../../system/secrets/secret.js';
import {
  type ExecuteTerms,
  guardedTerms,
  type ProviderAdapter,
  type ProviderHealthStatus,
} from '../adapter/adapter.js';
import { NormalizedProviderError, normalizeAbort, normalizeError, type ProviderErrorCode } from '../adapter/errors.js';
import type { ProviderEvents } from '../adapter/events.js';
import {
  type A2AConfig,
  type A2ADelegation,
  type A2AEndpoint,
  type A2AResult,
  checkConfig,
  checkDelegation,
  isEndpoint,
  MAX_ENDPOINTS,
  MESH,
} from './a2a-types.js';
import { type EndpointTransport, HttpTransport } from './http-transport.js';

/** Finds further endpoints, at each health check. */
export type EndpointSource = (signal: AbortSignal) => Promise<readonly A2AEndpoint[]> | readonly A2AEndpoint[];

export interface A2ARouterComponents {
  runtime: Runtime;
  events: ProviderEvents;
  /** This agent's name in delegation chains, which prevents circles. */
  self?: string | undefined;
  reach?: Reach | undefined;
  /** Called for each request. */
  credentials?: ((endpoint: A2AEndpoint) => Promise<Credentials> | Credentials) | undefined;
  /** Removes credentials from errors and events. */
  redactor?: Redactor | undefined;
  sources?: readonly EndpointSource[] | undefined;
  /** Reaches `mesh:` endpoints. */
  meshTransport?: ((address: string) => EndpointTransport) | undefined;
}

const PROBE_MS = 4_500;

/** Errors after which an endpoint gets no work until it answers a probe. */
const DOWN: ReadonlySet<ProviderErrorCode> = new Set([
  'PROVIDER_UNAVAILABLE',
  'PROVIDER_CRASHED',
  'PROVIDER_CREDENTIAL_MISSING',
  'PROVIDER_CREDENTIAL_DENIED',
  'PROVIDER_PROTOCOL_MISMATCH',
]);

interface Route {
  readonly endpoint: A2AEndpoint;
  readonly transport: EndpointTransport;
  readonly configured: boolean;
  skills: readonly string[];
  down: string | undefined;
}

/** Remote agents behind one name. Each delegation goes to the available endpoint with the required capabilities that comes first. */
export class A2ARouterAdapter implements ProviderAdapter<A2AConfig, A2ADelegation, A2AResult> {
  readonly type = 'a2a';
  readonly #id: string;
  readonly #components: A2ARouterComponents;
  readonly #inFlight = new Set<AbortController>();
  #config: A2AConfig | undefined;
  /** Sorted by priority. */
  #table: readonly Route[] = [];
  #chosen: string | undefined;
  /** Running rounds of probes: before all have answered, the first choice is unknown. */
  #probing = 0;

  constructor(id: string, components: A2ARouterComponents) {
    this.#id = id;
    this.#components = components;
  }

  /** Probes every endpoint, and fails only where all are down. */
  async init(config: A2AConfig): Promise<void> {
    await this.terminate();
    this.#config = checkConfig(config);
    this.#setTable(this.#config.endpoints.map((endpoint) => this.#route(endpoint, true)));
    await this.#refresh();
    if (this.#table.some(({ down }) => down === undefined)) return;
    const message = this.#table.length === 0 ? 'there is no endpoint' : `no endpoint answers: ${this.#complaints()}`;
    await this.terminate();
    throw new NormalizedProviderError('PROVIDER_INIT_FAILED', message, 'a2a');
  }

  /** Looks for new endpoints, and probes all. */
  async health(): Promise<ProviderHealthStatus> {
    const config = this.#require();
    await this.#refresh();
    const usable = config.failoverEnabled ? this.#table : this.#table.slice(0, 1);
    const state = usable.some(({ down }) => down === undefined) ? 'healthy' : 'degraded';
    const message = this.#complaints();
    const lastCheck = new Date(this.#components.runtime.now());
    return { state, lastCheck, failureCount: 0, ...(message !== '' && { message }) };
  }

  async execute(input: A2ADelegation, correlationId: string, terms: ExecuteTerms = {}): Promise<A2AResult> {
    const { runtime, events } = this.#components;
    const began = runtime.stopwatch();
    let route: Route | undefined;
    try {
      const { timeoutMs } = this.#require();
      const delegation = checkDelegation(input);
      const guarded = guardedTerms(terms, this.#about.provider, events.callbackFailed);
      const handOn = (to: Route) => {
        route = to;
        return this.#delegate(to, delegation, correlationId, timeoutMs, guarded);
      };
      const result = await this.#handOn(delegation.requiredCapabilities, handOn);
      const duration = runtime.stopwatch() - began;
      const { id: endpointId } = route!.endpoint;
      const about = { correlationId, agent: terms.caller, duration, success: true, details: { endpointId } };
      events.emit('provider.a2a.delegation.completed', { ...this.#about, ...about });
      return { endpointId, result, correlationId, duration };
    } catch (error) {
      const failure = normalizeError(error, 'a2a', correlationId);
      events.emit('provider.a2a.delegation.failed', {
        ...this.#about,
        correlationId,
        agent: terms.caller,
        duration: runtime.stopwatch() - began,
        success: false,
        code: failure.code,
        reason: failure.message,
        ...(route && { details: { endpointId: route.endpoint.id } }),
      });
      throw failure;
    }
  }

  async terminate(): Promise<void> {
    const reason = new NormalizedProviderError('PROVIDER_TERMINATED', `${this.#id} was ended`, 'a2a');
    for (const flight of this.#inFlight) flight.abort(reason);
    this.#inFlight.clear();
    for (const { transport } of this.#table) transport.close();
    this.#table = [];
    this.#chosen = undefined;
    this.#config = undefined;
  }

  describe(): Readonly<Record<string, unknown>> {
    return { endpoints: this.endpoints };
  }

  get endpoints(): readonly (A2AEndpoint & { readonly down: string | null })[] {
    return this.#table.map(({ endpoint, skills, down }) => ({
      ...endpoint,
      capabilities: [...new Set([...endpoint.capabilities, ...skills])],
      down: down ?? null,
    }));
  }

  get #about() {
    return { provider: this.#id, providerType: 'a2a' } as const;
  }

  #require(): A2AConfig {
    if (this.#config) return this.#config;
    throw new NormalizedProviderError('PROVIDER_UNAVAILABLE', `${this.#id} has not been started`, 'a2a');
  }

  async #delegate(
    route: Route,
    delegation: A2ADelegation,
    correlationId: string,
    timeoutMs: number | undefined,
    terms: ExecuteTerms,
  ): Promise<unknown> {
    const flight = new AbortController();
    this.#inFlight.add(flight);
    const cancel = () => flight.abort(terms.signal?.reason);
    if (terms.signal?.aborted) cancel();
    else terms.signal?.addEventListener('abort', cancel, { once: true });
    const { signal } = flight;
    try {
      return await route.transport.delegate(delegation, correlationId, {
        ...terms,
        signal,
        timeoutMs,
        self: this.#components.self,
      });
    } catch (error) {
      if (signal.aborted) throw normalizeAbort(signal, 'a2a', correlationId);
      const failure = normalizeError(error, 'a2a', correlationId);
      // A failed task says nothing about the endpoint.
      if (DOWN.has(failure.code) && failure.details.taskId === undefined) this.#mark(route, failure.message);
      throw failure;
    } finally {
      this.#inFlight.delete(flight);
      terms.signal?.removeEventListener('abort', cancel);
    }
  }

  /** Work that certainly reached no agent goes to the next endpoint; the endpoint that failed is marked down. */
  async #handOn(required: readonly string[], handOn: (route: Route) => Promise<unknown>): Promise<unknown> {
    for (;;) {
      const route = this.#select(required);
      try {
        return await handOn(route);
      } catch (error) {
        const { details } = error as NormalizedProviderError;
        const another = this.#config?.failoverEnabled && this.#usable(required).length > 0;
        if (details.sent !== false || route.down === undefined || !another) throw error;
      }
    }
  }

  #usable(required: readonly string[]): Route[] {
    return this.#table.filter((route) => route.down === undefined && hasAll(route, required));
  }

  #select(required: readonly string[]): Route {
    const capable = this.#table.filter((route) => hasAll(route, required));
    const usable = this.#require().failoverEnabled ? capable.filter(({ down }) => down === undefined) : capable;
    const [first] = usable;
    if (first && first.down === undefined) return first;
    const details = { required: [...required] };
    if (capable.length === 0) {
      const message = `no endpoint of ${this.#id} can ${required.join(', ') || 'take work'}`;
      throw new NormalizedProviderError('PROVIDER_NO_CAPABLE_ENDPOINT', message, 'a2a', { details });
    }
    const message = `no endpoint of ${this.#id} that could do it is there: ${this.#complaints()}`;
    throw new NormalizedProviderError('PROVIDER_UNAVAILABLE', message, 'a2a', { details });
  }

  /** Adds new endpoints, drops those that are found no more, and probes all. */
  async #refresh(): Promise<void> {
    const probe = new AbortController();
    const { runtime, sources = [] } = this.#components;
    const timer = runtime.setTimer(() => {
      probe.abort(new NormalizedProviderError('PROVIDER_TIMEOUT', `no answer within ${PROBE_MS} ms`, 'a2a'));
    }, PROBE_MS);
    this.#inFlight.add(probe);
    try {
      const found = await Promise.all(sources.map((source) => this.#find(source, probe.signal)));
      if (this.#config && sources.length > 0) this.#merge(found.flat());
      this.#probing++;
      await Promise.all(this.#table.map((route) => this.#probe(route, probe.signal))).finally(() => this.#probing--);
      if (this.#probing === 0) this.#chose();
    } finally {
      timer.cancel();
      this.#inFlight.delete(probe);
    }
  }

  async #find(source: EndpointSource, signal: AbortSignal): Promise<readonly A2AEndpoint[]> {
    try {
      return await source(signal);
    } catch (error) {
      const { code, message } = normalizeError(error, 'a2a');
      this.#components.events.emit('provider.a2a.discovery.failed', { ...this.#about, code, reason: message });
      // Endpoints found earlier stay while they answer.
      return this.#table.filter(({ configured }) => !configured).map(({ endpoint }) => endpoint);
    }
  }

  #merge(found: readonly A2AEndpoint[]): void {
    const kept = this.#table.filter(({ configured }) => configured);
    const known = new Map(this.#table.map((route) => [route.endpoint.url, route]));
    const urls = new Set(kept.map(({ endpoint }) => endpoint.url));
    for (const endpoint of found) {
      if (kept.length >= MAX_ENDPOINTS || urls.has(endpoint.url) || !isEndpoint(endpoint)) continue;
      urls.add(endpoint.url);
      kept.push(known.get(endpoint.url) ?? this.#route(endpoint, false));
    }
    for (const route of this.#table) if (!kept.includes(route)) route.transport.close();
    this.#setTable(kept);
  }

  async #probe(route: Route, signal: AbortSignal): Promise<void> {
    try {
      route.skills = await route.transport.probe(signal);
      this.#mark(route, undefined);
    } catch (error) {
      this.#mark(route, describeError(signal.aborted ? signal.reason : error));
    }
  }

  #mark(route: Route, down: string | undefined): void {
    const changed = (route.down === undefined) !== (down === undefined);
    route.down = down;
    if (!changed || !this.#table.includes(route)) return;
    const { id: endpointId, url } = route.endpoint;
    const details = { endpointId, url, state: down === undefined ? 'up' : 'down' };
    this.#components.events.emit('provider.a2a.endpoint.changed', { ...this.#about, reason: down, details });
    if (!this.#probing) this.#chose();
  }

  /** Emits an event when another endpoint becomes the first choice. */
  #chose(): void {
    const to = this.#config?.failoverEnabled ? this.#usable([])[0]?.endpoint.id : undefined;
    const from = this.#chosen;
    if (to === undefined || to === from) return;
    this.#chosen = to;
    if (from === undefined) return;
    const reason = `work goes to endpoint ${to} instead of ${from} from now on`;
    this.#components.events.emit('provider.failover.activated', { ...this.#about, reason, details: { from, to } });
  }

  #route(endpoint: A2AEndpoint, configured: boolean): Route {
    return {
      endpoint,
      transport: this.#transportTo(endpoint),
      configured,
      skills: [],
      down: 'it has not been asked yet',
    };
  }

  #transportTo(endpoint: A2AEndpoint): EndpointTransport {
    const { runtime, reach, credentials, redactor, meshTransport } = this.#components;
    const { url } = endpoint;
    if (!url.startsWith(MESH)) {
      const shown = credentials && (() => credentials(endpoint));
      return new HttpTransport(runtime, { ...reach, url, credentials: shown, redactor });
    }
    if (meshTransport) return meshTransport(url.slice(MESH.length));
    throw new NormalizedProviderError('PROVIDER_INIT_FAILED', `there is no mesh to reach ${url} in`, 'a2a');
  }

  #setTable(routes: readonly Route[]): void {
    this.#table = [...routes].sort(byPriority);
  }

  #complaints(): string {
    return this.#table
      .flatMap(({ endpoint, down }) => (down === undefined ? [] : [`${endpoint.id}: ${down}`]))
      .join('; ');
  }
}

function hasAll({ endpoint, skills }: Route, required: readonly string[]): boolean {
  return required.every((one) => endpoint.capabilities.includes(one) || skills.includes(one));
}

function byPriority({ endpoint: a }: Route, { endpoint: b }: Route): number {
  return a.priority - b.priority || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}
