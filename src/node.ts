import { ChannelManager, type ChannelManagerInit } from './a2a/channel-manager.js';
import { EnvelopeFactory } from './a2a/envelope.js';
import { A2AObservability, type A2AObservabilityInit } from './a2a/observability.js';
import { Policy } from './a2a/policy.js';
import type { Carrier } from './a2a/ports.js';
import { AgentRegistry } from './a2a/registry.js';
import { A2ARouter, type A2ARouterInit } from './a2a/router.js';
import { traceRouting } from './a2a/routing-spans.js';
import type { SandboxRoutingConfig, TierRoutingConfig } from './a2a/schemas.js';
import { ThreadTable, type ThreadTableInit } from './a2a/thread-table.js';
import { Agent, type AgentComponents } from './agent/agent.js';
import type { AgentInit } from './agent/agent-init.js';
import { DeadlineQueue } from './runtime/deadlines.js';
import { EclipticError } from './runtime/errors.js';
import type { Runtime, Timer } from './runtime/runtime.js';
import { systemRuntime } from './runtime/system-runtime.js';

export interface NodeInit {
  /** Clock, timers, ids and randomness. Default: the machine's. */
  runtime?: Runtime;
  /** This node's key. Default: a fresh id. */
  nodeKey?: string;
  tiers?: TierRoutingConfig;
  sandbox?: SandboxRoutingConfig;
  /** The way to other nodes. */
  carrier?: Carrier;
  limits?: A2ARouterInit & {
    channels?: ChannelManagerInit;
    events?: A2AObservabilityInit;
    threads?: ThreadTableInit;
  };
}

/** One node of the mesh: its agents, and the parts that carry messages between them. */
export class EclipticNode {
  readonly key: string;
  readonly registry: AgentRegistry;
  readonly router: A2ARouter;
  readonly channels: ChannelManager;
  readonly threads: ThreadTable;
  readonly observability: A2AObservability;
  readonly envelopes: EnvelopeFactory;
  readonly #runtime: Runtime;
  readonly #deadlines: DeadlineQueue;
  readonly #components: AgentComponents;
  readonly #agents = new Map<string, Agent>();
  readonly #hold: Timer;
  readonly #stopTracing: () => void;
  #stopped = false;

  /** @internal Use `createNode`. */
  constructor(init: NodeInit) {
    const runtime = init.runtime ?? systemRuntime();
    const limits = init.limits ?? {};
    this.#runtime = runtime;
    this.key = init.nodeKey ?? runtime.id();
    const policy = new Policy(this.key);
    this.envelopes = new EnvelopeFactory(runtime);
    this.observability = new A2AObservability({ logger: runtime.logger, ...limits.events });
    this.registry = new AgentRegistry({ policy, nodeKey: this.key });
    this.threads = new ThreadTable(runtime, limits.threads);
    this.#deadlines = new DeadlineQueue(runtime);
    const { registry, observability, threads } = this;
    const mesh = { runtime, registry, observability, factory: this.envelopes };
    const carrier = init.carrier;
    this.router = new A2ARouter({ ...mesh, policy, threads, carrier }, limits);
    this.channels = new ChannelManager({ ...mesh, router: this.router }, limits.channels);
    if (init.tiers) this.router.setTierConfig(init.tiers);
    if (init.sandbox) this.router.setSandboxConfig(init.sandbox);
    const { router, channels, envelopes: factory } = this;
    this.#components = { runtime, deadlines: this.#deadlines, registry, router, channels, threads, factory };
    this.#hold = runtime.hold();
    this.#stopTracing = traceRouting(observability);
  }

  /** Brings an agent to life on this node. */
  agent(init: AgentInit): Agent {
    if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'the node has stopped');
    if (this.#agents.has(init.id)) {
      throw new EclipticError('AGENT_EXISTS', `this node already has an agent "${init.id}"`, { agentId: init.id });
    }
    const agent = new Agent(this.#components, init, this.#onLeave);
    this.#agents.set(agent.id, agent);
    return agent;
  }

  readonly #onLeave = (agent: Agent): void => {
    this.#agents.delete(agent.id);
  };

  /** The node's live agents. */
  get agents(): readonly Agent[] {
    return [...this.#agents.values()];
  }

  /** The live agent of that id. */
  agentById(id: string): Agent {
    const agent = this.#agents.get(id);
    if (agent) return agent;
    throw new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${id}"`, { agentId: id });
  }

  /**
   * Ends every channel and agent. With `drainMs`, what is under way may finish within that time, while nothing new
   * begins; what then still waits is rejected with a typed error. Nothing keeps running.
   */
  async stop({ drainMs = 0 }: { drainMs?: number } = {}): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    if (drainMs > 0) await this.#drain(drainMs);
    await this.channels.closeAll();
    for (const agent of this.agents) agent.leave();
    this.#deadlines.clear();
    this.#stopTracing();
    this.#hold.cancel();
  }

  async #drain(ms: number): Promise<void> {
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      timer = this.#runtime.setTimer(resolve, ms);
    });
    await Promise.race([this.router.drain(), late]);
    timer?.cancel();
  }
}

/** Starts a node. It keeps the process alive until `stop()`, as a listening server would. */
export async function createNode(init: NodeInit = {}): Promise<EclipticNode> {
  return new EclipticNode(init);
}
