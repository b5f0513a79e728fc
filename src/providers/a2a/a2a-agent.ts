import type { Agent } from '../../agent/agent.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { AllowPrivate } from '../../system/fetch/allow-list.js';
import {
  type CredentialSource,
  plainSecrets,
  resolveHeaders,
  type SecretSettings,
} from '../../system/secrets/credential-source.js';
import { Redactor } from '../../system/secrets/redactor.js';
import type { ProviderEvents } from '../adapter/provider-events.js';
import { DEFAULT_WORKSPACE } from '../registry/failover.js';
import { agentCapability, serveThroughProvider } from '../registry/provider-agent.js';
import type { ProviderRegistry } from '../registry/provider-registry.js';
import { catalogueAt, remoteCards } from './a2a-discovery.js';
import { MeshWay } from './a2a-mesh-way.js';
import { A2ARouterAdapter, type EndpointSource } from './a2a-router.js';
import type { A2AConfig, A2ADelegation, A2AEndpoint, A2AResult } from './a2a-types.js';

export interface RemoteAgentsComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  providers: ProviderRegistry;
  events: ProviderEvents;
  credentials: CredentialSource;
  /** Is that node reachable at present? */
  reachable: (node: string) => boolean;
  allowPrivate?: readonly string[] | undefined;
}

/** The remote agents behind one name. */
export interface RemoteAgentsSettings {
  readonly endpoints: readonly { readonly endpoint: A2AEndpoint; readonly headers: SecretSettings }[];
  readonly catalogues: readonly string[];
  /** Capabilities of agents of other nodes that are used too. */
  readonly mesh?: readonly string[] | undefined;
  readonly timeoutMs?: number | undefined;
  readonly failoverEnabled: boolean;
  readonly concurrencyLimit: number;
  readonly healthCheckIntervalMs?: number | undefined;
}

/**
 * Lets remote agents do an agent's work, under its name. Nobody waits for them: work that comes before they are there
 * waits. What becomes of that is on the event stream.
 */
export function serveRemoteAgents(
  components: RemoteAgentsComponents,
  agent: Agent,
  settings: RemoteAgentsSettings,
): void {
  const { runtime, providers, events, registry } = components;
  const { endpoints, timeoutMs, failoverEnabled, concurrencyLimit, healthCheckIntervalMs } = settings;
  const workspaceId = DEFAULT_WORKSPACE;
  const capability = agentCapability(agent.id);
  const redactor = new Redactor(endpoints.flatMap(({ headers }) => plainSecrets(headers)));
  const adapter = new A2ARouterAdapter(agent.id, {
    runtime,
    events,
    self: registry.nodeKey === undefined ? agent.id : `${agent.id}@${registry.nodeKey}`,
    reach: { allowPrivate: allowed(components, settings) },
    credentials: (endpoint) => credentialsFor(components, agent.id, settings, endpoint, redactor),
    redactor,
    sources: sourcesOf(components, agent.id, settings),
    meshWay: (address) =>
      new MeshWay({ runtime, agent, look: (wanted) => look(components, agent.id, wanted) }, address),
  });
  const config: A2AConfig = { endpoints: endpoints.map(({ endpoint }) => endpoint), timeoutMs, failoverEnabled };
  const registration = { id: agent.id, type: 'a2a', config, workspaceId, concurrencyLimit } as const;
  const interval = healthCheckIntervalMs === undefined ? {} : { healthCheckIntervalMs };
  providers.register({ ...registration, ...interval, capabilities: [capability] }, adapter).catch((error) => {
    runtime.logger.warn({ agent: agent.id, err: error }, 'the remote agents behind an agent are not there yet');
  });
  serveThroughProvider({ runtime, providers }, agent, {
    route: { type: 'a2a', capabilities: [capability], workspaceId },
    input: ({ text, context }): A2ADelegation => ({ taskDescription: text, requiredCapabilities: [], context }),
    answer: (output) => (output as A2AResult).result,
  });
}

/** Whoever wrote a private address into the configuration means it. */
function allowed({ allowPrivate = [] }: RemoteAgentsComponents, settings: RemoteAgentsSettings): AllowPrivate {
  const written = [...settings.endpoints.map(({ endpoint }) => endpoint.url), ...settings.catalogues];
  return [...allowPrivate, ...written.map(placeOf)];
}

function placeOf(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
}

/** Only what was configured for an endpoint is shown to it; one that was found gets nothing. */
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
  const lists = catalogues.map((url) => catalogueAt(runtime, url, { allowPrivate: [...allowPrivate, placeOf(url)] }));
  return mesh === undefined ? lists : [...lists, remoteCards(registry, agentId, mesh)];
}

/** What an agent of another node can, while it can be reached. */
function look(
  { registry, reachable }: RemoteAgentsComponents,
  viewer: string,
  address: string,
): readonly string[] | undefined {
  const card = registry.getById(address, viewer);
  if (!card || (card.node !== undefined && !reachable(card.node))) return undefined;
  return card.capabilities.map(({ id }) => id);
}
