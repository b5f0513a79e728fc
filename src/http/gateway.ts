import { GrpcBinding, type GrpcInit } from '../a2a/grpc/grpc-binding.js';
import { A2AServer } from '../a2a/server/a2a-server.js';
import type { A2AOfferInit } from '../a2a/server/offer.js';
import type { AgentAbout, Profiles } from '../a2a/server/profiles.js';
import type { TaskTimeLimits } from '../a2a/server/task-execution.js';
import type { A2ATaskDeps } from '../a2a/server/task-handler.js';
import type { TaskRecords } from '../a2a/server/task-records.js';
import type { OperatorTasks } from '../a2a/server/task-service.js';
import type { ServedCard } from '../a2a/v03/card.js';
import type { Agent } from '../agent/agent.js';
import type { McpService } from '../mcp/service.js';
import type { NameStyle } from '../mcp/wire-names.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { AgentCard } from '../mesh/schemas.js';
import type { Identity } from '../network/membership/identity.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import { VERSION } from '../runtime/package.js';
import type { Runtime } from '../runtime/runtime.js';
import { CallerAuth, Principals } from './auth/caller-auth.js';
import { type JwtInit, TokenVerifier } from './auth/token-verifier.js';
import { type TokenRow, Tokens } from './auth/tokens.js';
import { McpEndpoint } from './mcp/mcp-endpoint.js';
import { HttpServer, isLoopback, type Route, sendJson } from './server/http-server.js';
import { frontPage, metricsRoute } from './server/routes.js';

export interface GatewayComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  mcp: McpService;
  identity: Identity;
  deadlines: DeadlineQueue;
  records: TaskRecords;
  profiles: Profiles;
  /** The agent that stands for an outside caller on the mesh. */
  callerAgent: (name: string, sandbox: string | undefined) => Agent;
  /** The node's metrics in Prometheus' text format. */
  metrics?: () => Promise<string>;
}

export interface GatewayInit {
  /** Where tokens are kept. Without one they end with the process. */
  folder?: string | undefined;
  /** Default 3000, or the next free one. */
  port?: number | undefined;
  /** Default 127.0.0.1. */
  host?: string | undefined;
  /** Further names under which this node is reached. */
  hosts?: readonly string[] | undefined;
  /** Callers without a token are guests; on loopback only. */
  open?: boolean | undefined;
  names?: NameStyle | undefined;
  /** How many requests each caller but the owner may make. Default 6,000. */
  requestsPerMinute?: number | undefined;
  /** What else is served. */
  routes?: readonly Route[] | undefined;
  /** What A2A clients are told of agents besides their cards, by id. */
  about?: Readonly<Record<string, AgentAbout>> | undefined;
  /** Private addresses that may be called at others' wish, such as webhooks: host:port, or ranges. Default none. */
  allowPrivate?: readonly string[] | undefined;
  /** Whose JSON Web Tokens are taken besides the node's own. Default: nobody's. */
  jwt?: JwtInit | undefined;
  /** What A2A clients are offered. Default: streams, webhooks, and parts of every media type. */
  a2a?: A2AOfferInit | undefined;
  /** How long tasks may be without progress, or wait for their caller. */
  tasks?: TaskTimeLimits | undefined;
  /** Serve A2A over gRPC too. It needs `@grpc/grpc-js` and `@grpc/proto-loader`, and TLS where it is not on loopback. */
  grpc?: GrpcInit | undefined;
}

const PORT = 3_000;
const HOST = '127.0.0.1';
const REQUESTS_PER_MINUTE = 6_000;

/** What the node shows to the outside over HTTP. */
export class Gateway {
  readonly tokens: Tokens;
  readonly style: NameStyle;
  readonly #callerAuth: CallerAuth;
  readonly #host: string;
  #grpc: GrpcBinding | undefined;
  readonly #edge: HttpServer;
  readonly #mcp: McpEndpoint;
  readonly #a2a: A2AServer;

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
    this.#mcp = new McpEndpoint({ service: mcp, runtime, style: names, name: 'ecliptic', version: VERSION });
    const jwt = init.jwt && new TokenVerifier(runtime, init.jwt);
    const principals = new Principals({ tokens: this.tokens, registry, open, jwt });
    const health: Route = {
      path: '/health',
      exact: true,
      public: true,
      serve: ({ response }) => sendJson(response, 200, healthOf(registry.getLocalCards())),
    };
    const callerAgent = (name: string) => components.callerAgent(name, this.tokens.sandboxOf(name));
    this.#a2a = new A2AServer(
      { ...components, callerAgent },
      {
        baseUrl: () => this.url,
        grpcAddress: () => this.#grpc?.address,
        allowPrivate: init.allowPrivate,
        issuer: init.jwt?.issuer,
        limits: init.tasks,
        offer: init.a2a,
      },
    );
    const metrics = components.metrics ? [metricsRoute(components.metrics)] : [];
    const routes = [
      this.#mcp,
      ...this.#a2a.routes,
      ...(init.routes ?? []),
      health,
      ...metrics,
      frontPage(() => this.url),
    ];
    this.#callerAuth = new CallerAuth({ runtime, principals }, init.requestsPerMinute ?? REQUESTS_PER_MINUTE);
    this.#edge = new HttpServer({ runtime, callerAuth: this.#callerAuth }, { port, host, hosts }, routes);
  }

  static async start(components: GatewayComponents, init: GatewayInit): Promise<Gateway> {
    const gateway = new Gateway(components, init);
    try {
      // What was under way goes on before anyone can ask for it.
      await gateway.#a2a.recover();
      // The card tells of both.
      if (init.grpc) await gateway.#serveGrpc(init.grpc);
      await gateway.#edge.listen();
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

  /** `host:port` of gRPC, where it is served. */
  get grpcAddress(): string | undefined {
    return this.#grpc?.address;
  }

  get url(): string {
    return this.#edge.url;
  }

  /** What `handleTaskSend` needs to give tasks to this node's agents. */
  get taskDeps(): A2ATaskDeps {
    return this.#a2a.taskDeps;
  }

  /** Ends a token, and whatever its bearer has open. */
  revoke(idOrName: string): TokenRow {
    const row = this.tokens.revoke(idOrName);
    this.#callerAuth.dismiss(row.id);
    return row;
  }

  /** Replaces the owner's token; what its bearer has open ends. */
  rotateOwners(): string {
    this.#callerAuth.dismiss(this.tokens.rotateOwners());
    return this.tokens.owners;
  }

  /** Every caller's tasks, for the owner. */
  get tasks(): OperatorTasks {
    return this.#a2a.operatorTasks;
  }

  /** The node's card, as anyone gets it. */
  get card(): ServedCard {
    return this.#a2a.cards.ofNode(this.url).merged;
  }

  /** The port that was asked for, where another program has it and the node serves at a later one. */
  get takenPort(): number | undefined {
    return this.#edge.takenPort;
  }

  /** How many HTTP connections may be open at once, and how many were refused because as many were. */
  get connections(): HttpServer['connections'] {
    return this.#edge.connections;
  }

  get mcpUrl(): string {
    return `${this.url}/mcp`;
  }

  async close(): Promise<void> {
    // Nobody comes in any more while what is open ends.
    this.#grpc?.close();
    await this.#edge.close();
    this.#a2a.close();
    await this.#mcp.close();
  }
}

/** Anyone may ask: it tells how many agents are in which state, and names none. */
function healthOf(cards: readonly AgentCard[]): { status: 'ok' | 'degraded'; agents: Record<string, number> } {
  const agents: Record<string, number> = {};
  for (const { status } of cards) {
    const state = status?.state ?? 'ready';
    agents[state] = (agents[state] ?? 0) + 1;
  }
  const unwell = (agents.degraded ?? 0) + (agents.unavailable ?? 0);
  return { status: unwell > 0 ? 'degraded' : 'ok', agents };
}
