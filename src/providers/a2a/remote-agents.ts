import type { Reach } from '../../a2a/client/remote-endpoint.js';
import type { Agent } from '../../agent/agent.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { AgentCard } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { guardedFetch } from '../../system/fetch/guarded-fetch.js';
import { type AllowPrivate, placesOf } from '../../system/fetch/target.js';
import {
  type CredentialSource,
  plainSecrets,
  resolveHeaders,
  type SecretSettings,
} from '../../system/secrets/credential-source.js';
import { Redactor } from '../../system/secrets/secret.js';
import type { ProviderEvents } from '../adapter/events.js';
import { DEFAULT_WORKSPACE } from '../registry/failover.js';
import { Worker } from '../registry/worker.js';
import { A2ARouterAdapter, type EndpointSource } from './a2a-router.js';
import {
  type A2AConfig,
  type A2ADelegation,
  type A2AEndpoint,
  type A2AResult,
  MAX_ENDPOINTS,
  MESH,
} from './a2a-types.js';
import { MeshTransport } from './mesh-transport.js';

interface RemoteAgentsComponents {
  runtime: Runtime;
  agent: Agent;
  registry: AgentRegistry;
  events: ProviderEvents;
  credentials: CredentialSource;
  reachable: (node: string) => boolean;
  allowPrivate?: readonly string[] | undefined;
}

export interface RemoteAgentsSettings {
  readonly endpoints: readonly { readonly endpoint: A2AEndpoint; readonly headers: SecretSettings }[];
  readonly catalogues: readonly string[];
  /** Also use agents of other nodes with these capabilities. */
  readonly mesh?: readonly string[] | undefined;
  readonly timeoutMs?: number | undefined;
  readonly failoverEnabled: boolean;
}

/** Remote agents that do the work of a local agent. */
export function remoteAgents(
  components: RemoteAgentsComponents,
  settings: RemoteAgentsSettings,
): Worker<A2AConfig, A2ADelegation, A2AResult> {
  const { runtime, events, registry, agent } = components;
  const { endpoints } = settings;
  const redactor = new Redactor(endpoints.flatMap(({ headers }) => plainSecrets(headers)));
  const router = new A2ARouterAdapter(agent.id, {
    runtime,
    events,
    self: registry.nodeKey === undefined ? agent.id : `${agent.id}@${registry.nodeKey}`,
    reach: { allowPrivate: allowed(components, settings) },
    credentials: (endpoint) => credentialsFor(components, agent.id, settings, endpoint, redactor),
    redactor,
    sources: sourcesOf(components, agent.id, settings),
    meshTransport: (address) =>
      new MeshTransport({ runtime, agent, look: (wanted) => look(components, agent.id, wanted) }, address),
  });
  return new Worker(router, {
    input: ({ text, context }) => ({ taskDescription: text, requiredCapabilities: [], context }),
    answer: ({ result }) => result,
  });
}

/** The part of the settings that an adapter is initialised with. */
export function a2aConfig({ endpoints, timeoutMs, failoverEnabled }: RemoteAgentsSettings): A2AConfig {
  return { endpoints: endpoints.map(({ endpoint }) => endpoint), timeoutMs, failoverEnabled };
}

/** A private address in the configuration is intended. */
function allowed({ allowPrivate = [] }: RemoteAgentsComponents, settings: RemoteAgentsSettings): AllowPrivate {
  const written = [...settings.endpoints.map(({ endpoint }) => endpoint.url), ...settings.catalogues];
  return [...allowPrivate, ...written.flatMap(placesOf)];
}

/** Only configured endpoints get credentials, each its own; discovered endpoints get none. */
async function credentialsFor(
  { credentials: source }: RemoteAgentsComponents,
  provider: string,
  { endpoints }: RemoteAgentsSettings,
  { url }: A2AEndpoint,
  redactor: Redactor,
) {
  const headers = endpoints.find(({ endpoint }) => endpoint.url === url)?.headers ?? {};
  return { headers: await resolveHeaders({ source, provider, workspace: DEFAULT_WORKSPACE, redactor }, headers) };
}

function sourcesOf(
  { runtime, registry, allowPrivate = [] }: RemoteAgentsComponents,
  agentId: string,
  { catalogues, mesh }: RemoteAgentsSettings,
): EndpointSource[] {
  const lists = catalogues.map((url) =>
    catalogueAt(runtime, url, { allowPrivate: [...allowPrivate, ...placesOf(url)] }),
  );
  return mesh === undefined ? lists : [...lists, remoteCards(registry, agentId, mesh)];
}

/** The capabilities of an agent of another node, while it is reachable. */
function look(
  { registry, reachable }: RemoteAgentsComponents,
  viewer: string,
  address: string,
): readonly string[] | undefined {
  const card = registry.getById(address, viewer);
  if (!card || (card.node !== undefined && !reachable(card.node))) return undefined;
  return card.capabilities.map(({ id }) => id);
}

/** Discovered endpoints come after configured ones. */
const FOUND_PRIORITY = 100;
const CATALOGUE_MS = 4_000;
const CATALOGUE_BYTES = 1_048_576;
/** Marks the entries of a catalogue that are A2A agents. */
const CARD_TYPE = 'application/a2a-agent-card+json';

interface Found {
  readonly priority?: number | undefined;
}

/** The registry's agents of other nodes that have all these capabilities. */
function remoteCards(
  registry: AgentRegistry,
  viewer: string,
  required: readonly string[],
  { priority = FOUND_PRIORITY }: Found = {},
): EndpointSource {
  return () =>
    registry
      .getRemoteCards(viewer)
      .filter((card) => required.every((one) => capabilitiesOf(card).includes(one)))
      .map((card) => {
        const address = `${card.id}@${card.node}`;
        return { id: address, url: `${MESH}${address}`, priority, capabilities: capabilitiesOf(card) };
      });
}

/** The agents in a catalogue on the web. */
export function catalogueAt(
  runtime: Runtime,
  url: string,
  { allowPrivate, ca, resolve }: Reach = {},
  { priority = FOUND_PRIORITY }: Found = {},
): EndpointSource {
  return async () => {
    const { status, body } = await guardedFetch(runtime, url, {
      headers: { accept: 'application/json' },
      timeoutMs: CATALOGUE_MS,
      maxBytes: CATALOGUE_BYTES,
      ...(allowPrivate === undefined ? {} : { allowPrivate }),
      ...(ca === undefined ? {} : { ca }),
      ...(resolve === undefined ? {} : { resolve }),
    });
    if (status !== 200) {
      throw new EclipticError('REMOTE_FAILED', `the catalogue at ${url} answered with HTTP ${status}`, { status });
    }
    return entriesOf(body.toString(), url).map((place) => ({ id: place, url: place, priority, capabilities: [] }));
  };
}

/** Reads a list, or the `entries` or `agents` of an object; each entry is a URL or has one. */
function entriesOf(text: string, url: string): string[] {
  const list = listIn(text);
  if (!list) throw new EclipticError('INVALID_AGENT_RESPONSE', `there is no catalogue of agents at ${url}`);
  return list.slice(0, MAX_ENDPOINTS).flatMap((entry) => {
    if (typeof entry === 'string') return absolute(entry, url);
    const { url: place, mediaType, type } = (entry ?? {}) as Record<string, unknown>;
    if ((mediaType ?? type ?? CARD_TYPE) !== CARD_TYPE || typeof place !== 'string') return [];
    return absolute(place, url);
  });
}

function listIn(text: string): readonly unknown[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { entries, agents } = (value ?? {}) as Record<string, unknown>;
  return [value, entries, agents].find((one): one is unknown[] => Array.isArray(one));
}

function absolute(place: string, base: string): string[] {
  return URL.canParse(place, base) ? [new URL(place, base).href] : [];
}

function capabilitiesOf({ capabilities }: AgentCard): A2AEndpoint['capabilities'] {
  return capabilities.map(({ id }) => id);
}
