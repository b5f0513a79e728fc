import type { MeshEdge } from '../a2a/edge/mesh-edge.js';
import { GrpcBinding, type GrpcInit } from '../a2a/grpc/grpc-binding.js';
import type { MeshBinding } from '../a2a/mesh/mesh-binding.js';
import { MESH_BINDING, meshUrl } from '../a2a/mesh/mesh-protocol.js';
import type { AgentInterface } from '../a2a/protocol/types.js';
import { A2AServer } from '../a2a/server/a2a-server.js';
import type { A2AOffersInit } from '../a2a/server/offer.js';
import type { OperatorTasks } from '../a2a/server/operator-tasks.js';
import type { AgentAbout, Profiles } from '../a2a/server/profiles.js';
import type { A2ATaskDeps } from '../a2a/server/task-handler.js';
import type { TaskRecords } from '../a2a/server/task-records.js';
import type { TaskTimeLimits } from '../a2a/server/task-terms.js';
import type { ServedCard } from '../a2a/v03/card.js';
import type { Agent } from '../agent/agent.js';
import type { McpService } from '../mcp/service.js';
import type { ToolTasks } from '../mcp/tool-tasks.js';
import type { NameStyle } from '../mcp/wire-names.js';
import { fullAddress } from '../mesh/address.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { AgentCard } from '../mesh/schemas.js';
import type { Identity } from '../network/membership/identity.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import { VERSION } from '../runtime/package.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Readiness } from '../telemetry/readiness.js';
import { CallerAuth } from './auth/caller-auth.js';
import { type JwtInit, TokenVerifier } from './auth/token-verifier.js';
import { type TokenRow, Tokens } from './auth/tokens.js';
import { AgUiRoute } from './chat/agui-route.js';
import { ChatAgents } from './chat/chat-agents.js';
import { OpenAiRoutes } from './chat/openai-routes.js';
import { McpEndpoint } from './mcp/mcp-endpoint.js';
import { HttpServer, isLoopback, type Route, sendJson } from './server/http-server.js';
import { frontPage, healthRoutes, metricsRoute, RESOURCE_METADATA, resourceMetadata } from './server/routes.js';

export interface GatewayComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  mcp: McpService;
  toolTasks: ToolTasks;
  identity: Identity;
  deadlines: DeadlineQueue;
  records: TaskRecords;
  profiles: Profiles;
  /** The agent that represents an outside caller on the mesh. */
  callerAgent: (name: string, sandbox: string | undefined) => Agent;
  /** The tasks of the owner's other nodes. */
  edge?: MeshEdge | undefined;
  /** A2A between the agents of the mesh. */
  a2aMesh?: MeshBinding | undefined;
  /** Is it an agent of this node, and no outside caller? */
  isAgent?: (name: string) => boolean;
  /** The types of the workers of an agent of this node; none for an agent in code. */
  workerTypes: (agentId: string) => readonly string[];
  /** In Prometheus' text format. */
  metrics?: () => Promise<string>;
  /** Whether the node can take work. */
  readiness?: () => Promise<Readiness>;
}

export interface GatewayInit {
  /** The folder of tokens. Without it they end with the process. */
  folder?: string;
  /** Default 3000, or the next free port. */
  port?: number;
  /** Default 127.0.0.1. */
  host?: string;
  /** Further host names of this node. */
  hosts?: readonly string[];
  /** Callers without a token are guests. Loopback only. */
  open?: boolean;
  names?: NameStyle;
  /** For each caller except the owner. Default 6,000. */
  requestsPerMinute?: number;
  /** Further routes. */
  routes?: readonly Route[];
  /** Additions to the A2A cards of agents, by id. */
  about?: Readonly<Record<string, AgentAbout>>;
  /** Private addresses that clients may make the node call, such as webhooks: host:port, or ranges. Default none. */
  allowPrivate?: readonly string[];
  /** The issuer whose JSON Web Tokens are accepted. Default none. */
  jwt?: JwtInit;
  /** Default: streams, webhooks, an extended card, and parts of every media type. */
  a2a?: A2AOffersInit;
  /** Time limits of tasks. */
  tasks?: TaskTimeLimits;
  /**
   * Create tasks at the nodes of their agents, so that this node keeps none of them and can be replaced. Only for agents
   * of the owner's devices. Default false.
   */
  gateway?: boolean;
  /** Serve A2A over gRPC too. Requires `@grpc/grpc-js` and `@grpc/proto-loader`, and TLS unless on loopback. */
  grpc?: GrpcInit;
}

const PORT = 3_000;
const HOST = '127.0.0.1';
const REQUESTS_PER_MINUTE = 6_000;

/** The node's HTTP interface: MCP, A2A, health and metrics. */
export class Gateway {
  readonly tokens: Tokens;
  readonly style: NameStyle;
  readonly #callerAuth: CallerAuth;
  readonly #host: string;
  #grpc: GrpcBinding | undefined;
  readonly #server: HttpServer;
  readonly #mcp: McpEndpoint;
  readonly #a2a: A2AServer;
  readonly #edge: MeshEdge | undefined;
  readonly #a2aMesh: MeshBinding | undefined;

  private constructor(components: GatewayComponents, init: GatewayInit) {
    const { runtime, registry, mcp } = components;
    const { port = PORT, host = HOST, hosts = [], open = false, names = 'safe', folder } = init;
    if (open && !isLoopback(host)) {
      throw new EclipticError('INVALID_CONFIG', `an open node listens on loopback only, not at ${host}`, {
        faults: ['http.open'],
      });
    }
    if (init.grpc && !init.grpc.tls && !isLoopback(host)) {
      throw new EclipticError('INVALID_CONFIG', `gRPC without TLS is served on loopback only, not at ${host}`, {
        faults: ['http.grpcPort'],
      });
    }
    this.#host = host;
    this.style = names;
    this.tokens = new Tokens({ runtime, folder });
    this.#mcp = new McpEndpoint({
      ...{ service: mcp, tasks: components.toolTasks, runtime, style: names, name: 'ecliptic', version: VERSION },
      resourceMetadata: () => (init.jwt ? `${this.url}${RESOURCE_METADATA}/mcp` : undefined),
    });
    const jwt = init.jwt && new TokenVerifier(runtime, init.jwt);
    const health: Route = {
      path: '/health',
      exact: true,
      public: true,
      serve: ({ response }) => sendJson(response, 200, healthOf(registry.getLocalCards())),
    };
    const callerAgent = (name: string, sandbox?: string) =>
      components.callerAgent(name, sandbox ?? this.tokens.sandboxOf(name));
    this.#edge = components.edge;
    this.#a2a = new A2AServer(
      { ...components, callerAgent, otherNodes: this.#edge },
      {
        baseUrl: () => this.url,
        grpcAddress: () => this.#grpc?.address,
        allowPrivate: init.allowPrivate,
        issuer: init.jwt?.issuer,
        limits: init.tasks,
        offer: init.a2a,
      },
    );
    const { operations, agentsFor } = this.#a2a;
    this.#edge?.serve({
      performHere: (operation, params, terms) => operations.performHere(operation, params, terms),
      requireOffered: (operation, params) => operations.requireOffered(operation, params),
      agentsFor,
      addressOf: (agent) => addressOf(registry, agent),
      isAgent: components.isAgent ?? (() => false),
      sandboxOf: (caller) => sandboxOf(registry, this.tokens, caller),
      stateless: init.gateway === true,
    });
    this.#a2aMesh = components.a2aMesh;
    const { nodeKey } = registry;
    this.#a2aMesh?.serve({
      performHere: (operation, params, terms) => operations.performHere(operation, params, terms),
      extensionsOf: this.#a2a.binding.extensionsOf,
      requestsPerMinute: init.requestsPerMinute ?? REQUESTS_PER_MINUTE,
      card: (agent, viewer) => this.#a2a.cards.presented(agent, viewer, meshInterfaces(nodeKey, agent)),
    });
    const chat = { runtime, operations, agents: new ChatAgents(components) };
    const metrics = components.metrics ? [metricsRoute(components.metrics)] : [];
    const routes = [
      this.#mcp,
      ...(init.routes ?? []),
      ...this.#a2a.routes,
      new OpenAiRoutes(chat),
      new AgUiRoute(chat),
      health,
      ...resourceMetadata(() => this.url, init.jwt?.issuer),
      ...healthRoutes(components.readiness),
      ...metrics,
      frontPage(() => this.url),
    ];
    this.#callerAuth = new CallerAuth(
      { runtime, tokens: this.tokens, registry, jwt },
      { open, requestsPerMinute: init.requestsPerMinute ?? REQUESTS_PER_MINUTE },
    );
    this.#server = new HttpServer({ runtime, callerAuth: this.#callerAuth }, { port, host, hosts }, routes);
  }

  static async start(components: GatewayComponents, init: GatewayInit): Promise<Gateway> {
    const gateway = new Gateway(components, init);
    try {
      // Resume tasks before clients can ask for them.
      await gateway.#a2a.recover();
      // The card names both addresses.
      if (init.grpc) await gateway.#serveGrpc(init.grpc);
      await gateway.#server.listen();
      return gateway;
    } catch (error) {
      await gateway.close();
      throw error;
    }
  }

  async #serveGrpc(init: GrpcInit): Promise<void> {
    const components = { ...this.#a2a.binding, callerAuth: this.#callerAuth };
    this.#grpc = await GrpcBinding.serve(components, this.#host, init);
  }

  /** `host:port`. */
  get grpcAddress(): string | undefined {
    return this.#grpc?.address;
  }

  get url(): string {
    return this.#server.url;
  }

  /** For `handleTaskSend` with this node's agents. */
  get taskDeps(): A2ATaskDeps {
    return this.#a2a.taskDeps;
  }

  /** Revokes a token and ends the open work of its bearer. */
  revoke(idOrName: string): TokenRow {
    const row = this.tokens.revoke(idOrName);
    this.#callerAuth.dismiss(row.id);
    return row;
  }

  /** Ends the open work of a page session. */
  dismiss(session: string): void {
    this.#callerAuth.dismiss(session);
  }

  /** Replaces the owner's token and ends the open work of its bearer. */
  rotateOwners(): string {
    this.#callerAuth.dismiss(this.tokens.rotateOwners());
    return this.tokens.owners;
  }

  /** The tasks of every caller, for the owner. */
  get tasks(): OperatorTasks {
    return this.#a2a.operatorTasks;
  }

  get card(): ServedCard {
    return this.#a2a.cards.ofNode(this.url).merged;
  }

  /** The configured port, if another program has it and the node listens at a later one. */
  get takenPort(): number | undefined {
    return this.#server.takenPort;
  }

  get connections(): HttpServer['connections'] {
    return this.#server.connections;
  }

  openConnections(): Promise<number> {
    return this.#server.openConnections();
  }

  get mcpUrl(): string {
    return `${this.url}/mcp`;
  }

  async close(): Promise<void> {
    // Stop accepting first, then close what is open.
    this.#edge?.unserve();
    this.#a2aMesh?.unserve();
    this.#grpc?.close();
    await this.#server.close();
    this.#a2a.close();
    await this.#mcp.close();
  }
}

function meshInterfaces(nodeKey: string | undefined, tenant: string | undefined): readonly AgentInterface[] {
  if (nodeKey === undefined) return [];
  const mesh = { url: meshUrl(nodeKey), protocolBinding: MESH_BINDING, protocolVersion: '1.0' };
  return [tenant === undefined ? mesh : { ...mesh, tenant }];
}

/** An agent that is not known may still have tasks under that name. */
function addressOf(registry: AgentRegistry, agent: string): string {
  try {
    return fullAddress(registry.candidate(agent).address, registry.nodeKey);
  } catch {
    return agent;
  }
}

/** Undefined for a caller in no sandbox, null for one that is not known here. */
function sandboxOf(registry: AgentRegistry, tokens: Tokens, caller: string): string | undefined | null {
  const known = registry.entry(caller) ?? tokens.list.find(({ name }) => name === caller);
  if (!known) return null;
  return 'sandboxId' in known ? known.sandboxId : tokens.sandboxOf(caller);
}

/** Public: counts agents by state, and names none. */
function healthOf(cards: readonly AgentCard[]): { status: 'ok' | 'degraded'; agents: Record<string, number> } {
  const agents: Record<string, number> = {};
  for (const { status } of cards) {
    const state = status?.state ?? 'ready';
    agents[state] = (agents[state] ?? 0) + 1;
  }
  const unwell = (agents.degraded ?? 0) + (agents.unavailable ?? 0);
  return { status: unwell > 0 ? 'degraded' : 'ok', agents };
}
