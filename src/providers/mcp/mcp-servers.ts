import type { Agent } from '../../agent/agent.js';
import { markFailure } from '../../mcp/failure.js';
import type { CallRoute } from '../../mcp/upstream/relay.js';
import type { UpstreamInit } from '../../mcp/upstream/upstream.js';
import type { Upstreams } from '../../mcp/upstream/upstreams.js';
import { LIMITS } from '../../mesh/limits.js';
import { describeError, EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { NormalizedProviderError, normalizeError } from '../adapter/errors.js';
import type { ProviderEvents } from '../adapter/events.js';
import type { HostComponents } from '../host/isolated-provider-host.js';
import type { Lanes } from '../host/lanes.js';
import type { CredentialConsent } from '../registry/credentials.js';
import { DEFAULT_WORKSPACE } from '../registry/failover.js';
import type { ProviderRegistry } from '../registry/registry.js';
import { MCPBridgeAdapter, ToolFailure } from './mcp-bridge.js';
import { MCPProcess, type MCPProcessInit } from './mcp-process.js';

interface MCPServersComponents extends HostComponents {
  providers: ProviderRegistry;
  events: ProviderEvents;
  lanes: Lanes;
  upstreams: Upstreams;
  /** The agent that owns the tools of a server. */
  agent: (id: string) => Agent | undefined;
  /** Consulted before another person's agent uses the credentials of a server. */
  consent: CredentialConsent;
}

export interface MCPServerInit extends UpstreamInit {
  /** Default: a lane named after the server. */
  readonly lane?: string | undefined;
  readonly limits?: MCPProcessInit['limits'];
}

/** Calls in flight at one server. */
const CONCURRENCY = 100;

/**
 * The upstream MCP servers of a node, each a provider: its program runs in a lane, and every call goes through the
 * provider registry.
 */
export class MCPServers {
  readonly #components: MCPServersComponents;
  readonly #ids = new Set<string>();
  /** By provider id, the agent that owns the server's tools. */
  readonly #owners = new Map<string, string>();

  constructor(components: MCPServersComponents) {
    this.#components = components;
    const { providers, agent } = components;
    providers.onChange(({ id, capabilities }) => {
      const owner = this.#owners.get(id);
      const health = owner && providers.healthOf(capabilities[0]!);
      if (health) agent(owner)?.setServerHealth(id, health);
    });
  }

  add({ lane: laneId, limits, ...init }: MCPServerInit): void {
    const { lanes, upstreams } = this.#components;
    const { name: server } = init;
    const id = this.#idFor(server);
    this.#owners.set(id, init.agent);
    const lane = init.endpoint.kind === 'stdio' ? lanes.open(laneId ?? laneFor(id)).id : undefined;
    upstreams.add({
      ...init,
      route: this.#route(id, server, lane),
      ...(lane !== undefined && {
        supervise: (kept) => new MCPProcess(this.#components, { provider: id, lane: lanes.open(lane), limits }, kept),
      }),
    });
    this.#register(id, server, lane);
    if (lane === undefined) return;
    lanes.onReopen(lane, async () => {
      await upstreams.get(server).revive();
      this.#register(id, server, lane);
    });
  }

  #register(id: string, server: string, laneId: string | undefined): void {
    const { providers, events, upstreams, runtime } = this.#components;
    const adapter = new MCPBridgeAdapter(id, { runtime, events, open: (name) => upstreams.get(name) });
    const about = { type: 'mcp', workspaceId: DEFAULT_WORKSPACE, concurrencyLimit: CONCURRENCY } as const;
    const config = { server, keepTrying: true };
    const capabilities = [capabilityOf(server)];
    providers
      .register({ id, config, ...about, capabilities, ...(laneId !== undefined && { laneId }) }, adapter)
      .catch((error) =>
        runtime.logger.warn({ server, error: describeError(error) }, 'MCP server is not available yet'),
      );
  }

  #idFor(server: string): string {
    const plain = `mcp/${server.replace(/[^\w./-]+/g, '-')}`.slice(0, MAX_ID_CHARS);
    let id = plain;
    for (let number = 2; this.#ids.has(id); number++) id = `${plain}-${number}`;
    this.#ids.add(id);
    return id;
  }

  /** Gives calls to the server's provider. Resolves with the server's answer. */
  #route(id: string, server: string, laneId: string | undefined): CallRoute {
    const { providers, runtime, upstreams, consent } = this.#components;
    const route = { type: 'mcp', capabilities: [capabilityOf(server)] };
    return async (call) => {
      const { caller, signal, thread = runtime.id() } = call.terms;
      if (caller.node !== undefined) consent.require(caller, server, upstreams.get(server).credentials);
      try {
        return await providers.execute(route, call, thread, { caller: caller.address, signal, wait: false, laneId });
      } catch (error) {
        if (error instanceof ToolFailure) return markFailure(error.result, error);
        throw this.#explain(id, server, error as NormalizedProviderError);
      }
    };
  }

  /** The error for a call without a result: errors of the request itself stay as they are. */
  #explain(id: string, server: string, error: NormalizedProviderError): EclipticError {
    const { originalError: original, code, message } = error;
    if (original instanceof EclipticError && !(original instanceof NormalizedProviderError)) {
      return PASSED_ON.has(original.code) ? original : error;
    }
    if (code !== 'PROVIDER_UNAVAILABLE' && code !== 'PROVIDER_NO_CAPABLE_ENDPOINT') return error;
    const absence = this.#components.upstreams.get(server).absence;
    if (absence) return normalizeError(absence, 'mcp', error.correlationId);
    const away = `MCP server "${server}" takes no calls at present: ${message}. See: ecliptic provider show ${id}`;
    const { correlationId } = error;
    const details = { server, outcome: 'not-delivered' };
    return new NormalizedProviderError('PROVIDER_UNAVAILABLE', away, 'mcp', {
      correlationId,
      details,
      originalError: error,
    });
  }
}

/** Errors about the request or its answer, which the providers' codes would express less exactly. */
const PASSED_ON: ReadonlySet<string> = new Set<ErrorCode>([
  'CANCELLED',
  'CAPABILITY_REQUIRED',
  'INVALID_REQUEST_STATE',
  'PAYLOAD_TOO_LARGE',
  'RESOURCE_NOT_FOUND',
]);

/** The registry allows 128; a number may follow. */
const MAX_ID_CHARS = 120;

function capabilityOf(server: string): string {
  return `server:${server}`;
}

function laneFor(id: string): string {
  return id.replaceAll('/', '-').slice(0, LIMITS.agentIdChars);
}
