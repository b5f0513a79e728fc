import type { RemoteAgentsSettings } from '../../providers/a2a/remote-agents.js';
import type { RemoteAgentsConfig } from './schema.js';

/** How many tasks at a time, where the configuration does not say. */
const CONCURRENCY = 10;

/** The remote agents behind one agent's name, with every default filled in. */
export function readRemoteAgents(config: RemoteAgentsConfig): RemoteAgentsSettings {
  const said = Array.isArray(config) ? { endpoints: config } : config;
  const { endpoints = [], catalogues = [], mesh, timeoutMs, failover = true } = said;
  return {
    endpoints: endpoints.map((one, index) => {
      const { url, id = url, priority = index, capabilities = [], headers = {} } = toEndpoint(one);
      const settings = Object.entries(headers).map(([name, value]) => [name, toSetting(value)]);
      return { endpoint: { id, url, priority, capabilities }, headers: Object.fromEntries(settings) };
    }),
    catalogues,
    mesh,
    timeoutMs,
    failoverEnabled: failover,
    concurrencyLimit: said.concurrency ?? CONCURRENCY,
    healthCheckIntervalMs: said.healthMs,
  };
}

type EndpointConfig = Exclude<Extract<RemoteAgentsConfig, readonly unknown[]>[number], string>;

function toEndpoint(one: string | EndpointConfig): EndpointConfig {
  return typeof one === 'string' ? { url: one } : one;
}

function toSetting(value: NonNullable<EndpointConfig['headers']>[string]) {
  return typeof value === 'object' ? value : String(value);
}
