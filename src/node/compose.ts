import { join } from 'node:path';
import { type Profiles, SharedProject, StoreProfiles } from '../a2a/server/profiles.js';
import { MemoryTaskRecords, StoreTaskRecords } from '../a2a/server/task-records.js';
import { Agent, type AgentComponents } from '../agent/agent.js';
import type { AgentInit } from '../agent/agent-init.js';
import { CodingAgents, type CodingAgentsInit } from '../coding-agents/coding-agents.js';
import { OWNER } from '../coding-agents/mailbox/human.js';
import { mailProtocol } from '../coding-agents/mailbox/sees-mail.js';
import { Documents } from '../documents/documents.js';
import { Gateway, type GatewayInit } from '../http/gateway.js';
import { gaugesOf } from '../http/server/routes.js';
import { Mail, type MailInit } from '../mail/mail.js';
import type { Entry } from '../mcp/catalogue.js';
import { McpExchange } from '../mcp/exchange.js';
import { McpService } from '../mcp/service.js';
import { AuditLog } from '../mesh/audit/audit-log.js';
import { JournalLog, replay } from '../mesh/audit/journal-log.js';
import { Upkeep, type UpkeepLimits } from '../mesh/audit/upkeep.js';
import { ChannelManager, type ChannelManagerInit } from '../mesh/channel-manager.js';
import { EnvelopeFactory } from '../mesh/envelope.js';
import { A2AObservability, type A2AObservabilityInit, callbackReport } from '../mesh/observability.js';
import { Policy } from '../mesh/policy.js';
import type { Carrier } from '../mesh/ports.js';
import { toPrometheus } from '../mesh/prometheus.js';
import { AgentRegistry } from '../mesh/registry.js';
import { CALLER_PROTOCOL } from '../mesh/registry-index.js';
import { A2ARouter, type A2ARouterInit } from '../mesh/router.js';
import { traceRouting } from '../mesh/routing-spans.js';
import type { A2AEnvelope, SandboxRoutingConfig, StateRules, TierRoutingConfig } from '../mesh/schemas.js';
import { ThreadTable, type ThreadTableInit } from '../mesh/thread-table.js';
import { Identity } from '../network/membership/identity.js';
import { Membership } from '../network/membership/membership.js';
import { MembershipFile, MembershipMemory } from '../network/membership/membership-file.js';
import { Network, type NetworkInit } from '../network/peers/network.js';
import { ProviderEvents } from '../providers/adapter/provider-events.js';
import { reportHealth } from '../providers/registry/provider-agent.js';
import { ProviderRegistry, type ProviderRegistryInit } from '../providers/registry/provider-registry.js';
import { within } from '../runtime/async.js';
import { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import { VERSION } from '../runtime/package.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { SteadyClock } from '../runtime/steady-clock.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { placeOf } from '../store/place.js';
import type { Store } from '../store/store.js';
import { ProposalRecords } from '../work/proposals/proposal-records.js';
import { Swarms } from '../work/swarm/swarms.js';

export interface NodeInit {
  /** Clock, timers, ids and randomness. Default: the machine's. */
  runtime?: Runtime;
  /** This node's key, where it has no identity to prove it with. Default: a fresh id. */
  nodeKey?: string;
  /** Lets the node belong to a mesh with others. Nothing is announced or called before it invites or joins. */
  network?: NodeNetworkInit;
  tiers?: TierRoutingConfig;
  sandbox?: SandboxRoutingConfig;
  /** Which tiers may read and write which shared documents, by their names. Default: all. */
  state?: StateRules;
  /** The way to other nodes, where there is no network. */
  carrier?: Carrier;
  /** Where durable messages are kept. Without one they are refused. */
  store?: Store;
  limits?: A2ARouterInit & {
    channels?: ChannelManagerInit;
    events?: A2AObservabilityInit;
    threads?: ThreadTableInit;
    /** Health, and work that waits while all are down. */
    providers?: ProviderRegistryInit;
    /** What is kept of the past, in the store. */
    retention?: UpkeepLimits & MailInit;
  };
}

export interface NodeNetworkInit extends Omit<NetworkInit, 'software'> {
  /** Where the node's key and membership are kept. Without one they end with the process. */
  folder?: string;
}

/** What a node with a store writes down. */
export interface Records {
  readonly journal: JournalLog;
  readonly audit: AuditLog;
  /** Asks the present rules about recorded decisions. */
  replay(rows: readonly unknown[]): ReturnType<typeof replay>;
}

/** Outside callers that may have an agent here. */
const OWNER_MAIL = { fetchesMail: true, protocols: [mailProtocol('polls'), CALLER_PROTOCOL] };
const MAX_CALLERS = 10_000;

/** One node of the mesh: its agents, and the parts that carry messages between them. */
export class EclipticNode {
  readonly key: string;
  readonly registry: AgentRegistry;
  readonly router: A2ARouter;
  readonly channels: ChannelManager;
  readonly threads: ThreadTable;
  readonly observability: A2AObservability;
  readonly envelopes: EnvelopeFactory;
  /** Other nodes: inviting, joining, who is there. Only if the node was made with a `network`. */
  readonly network: Network | undefined;
  /** What agents offer over MCP, here and on other nodes. */
  readonly mcp: McpService;
  /** Agent processes, tool servers and remote agents that do work for this node's agents. */
  readonly providers: ProviderRegistry;
  readonly providerEvents: ProviderEvents;
  /** The documents that agents of this node share. */
  readonly documents: Documents;
  /** The swarms that agents of this node take part in. */
  readonly swarms: Swarms;
  readonly #exchange: McpExchange | undefined;
  readonly #identity: Identity;
  #gateway: Gateway | undefined;
  #codingAgents: CodingAgents | undefined;
  readonly #store: Store | undefined;
  readonly #upkeep: Upkeep | undefined;
  readonly #retention: MailInit | undefined;
  readonly #folder: string | undefined;
  /** What ends mail and memberships. */
  readonly #clock: SteadyClock;
  readonly #policy: Policy;
  #mail: Mail | undefined;
  #records: Records | undefined;
  #proposals: ProposalRecords | undefined;
  readonly #runtime: Runtime;
  readonly #deadlines: DeadlineQueue;
  readonly #components: AgentComponents;
  readonly #agents = new Map<string, Agent>();
  /** Names of outside callers that have an agent here. */
  readonly #callers = new Set<string>();
  readonly #hold: Timer;
  readonly #stopTracing: () => void;
  #stopped = false;

  /** @internal Use `createNode`; one made here must be started. */
  constructor(init: NodeInit) {
    const runtime = init.runtime ?? systemRuntime();
    const limits = init.limits ?? {};
    this.#runtime = runtime;
    this.#store = init.store;
    this.#retention = limits.retention;
    this.#upkeep = init.store && new Upkeep(runtime, init.store, limits.retention);
    const { folder, ...network } = init.network ?? {};
    this.#folder = folder;
    this.#clock = new SteadyClock(runtime);
    const identity =
      init.network && (folder === undefined ? Identity.create(runtime) : Identity.keptIn(folder, runtime));
    this.#identity = identity ?? Identity.create(runtime);
    this.key = identity?.key ?? init.nodeKey ?? runtime.id();
    const policy = new Policy(this.key);
    this.#policy = policy;
    this.envelopes = new EnvelopeFactory(runtime);
    this.observability = new A2AObservability({ logger: runtime.logger, ...limits.events });
    const onCallbackFailed = callbackReport(runtime, this.observability);
    this.registry = new AgentRegistry({ policy, nodeKey: this.key, onCallbackFailed });
    this.threads = new ThreadTable(runtime, limits.threads);
    this.#deadlines = new DeadlineQueue(runtime);
    const { registry, observability, threads } = this;
    const mesh = { runtime, registry, observability, factory: this.envelopes };
    if (identity) {
      const store = folder === undefined ? new MembershipMemory() : new MembershipFile(folder);
      const membership = new Membership({ runtime, identity, store, clock: this.#clock });
      const software = `ecliptic ${VERSION}`;
      this.network = new Network({ runtime, identity, membership, registry, observability }, { ...network, software });
    }
    const carrier = this.network?.peers ?? init.carrier;
    this.router = new A2ARouter({ ...mesh, policy, threads, carrier }, limits);
    this.channels = new ChannelManager({ ...mesh, router: this.router, carrier: this.network?.peers }, limits.channels);
    this.network?.attach(this);
    if (init.tiers) this.router.setTierConfig(init.tiers);
    if (init.sandbox) this.router.setSandboxConfig(init.sandbox);
    if (init.state) policy.setStateConfig(init.state);
    const deadlines = this.#deadlines;
    const mcp = new McpService({ runtime, registry, policy, observability, deadlines });
    this.mcp = mcp;
    mcp.catalogue.onChange((kind, entries, gone) => {
      const [{ owner, node }] = entries as [Entry];
      if (kind !== 'tool' || node !== undefined) return;
      const left = gone ? mcp.catalogue.of(owner).filter(({ definition }) => definition.kind === 'tool') : entries;
      this.#agents.get(owner)?.toolsChanged(
        left.map(({ key }) => key),
        gone,
      );
    });
    const signer = this.#identity;
    const { peers } = this.network ?? {};
    this.documents = new Documents({ runtime, registry, policy, observability, nodeKey: this.key, signer, peers });
    const { documents } = this;
    this.swarms = new Swarms({ runtime, registry, observability, documents, nodeKey: this.key });
    const { swarms } = this;
    this.router.useSharedThreads({
      admits: (...asked) => swarms.admits(...asked) || documents.admits(...asked),
    });
    if (this.network) {
      this.network.peers.documents = this.documents.meetings;
      this.network.peers.expelled.add((node) => threads.forgetNode(node));
      this.#exchange = new McpExchange({ runtime, service: mcp, registry, peers: this.network.peers });
      this.network.peers.offers = this.#exchange;
    }
    this.providerEvents = new ProviderEvents(runtime, observability);
    this.providers = new ProviderRegistry({ runtime, events: this.providerEvents }, limits.providers);
    reportHealth(this.providers, (id) => this.#agents.get(id));
    const { router, channels, envelopes: factory } = this;
    const mail = () => this.#mail;
    const proposals = () => this.#proposals;
    const parts = { runtime, deadlines, registry, router, channels, threads, factory, observability };
    this.#components = { ...parts, mail, proposals, mcp, documents, swarms };
    this.#hold = runtime.hold();
    this.#stopTracing = traceRouting(observability);
  }

  /** Durable messages: receipts, outbox, inboxes. Only if the node has a store. */
  get mail(): Mail | undefined {
    return this.#mail;
  }

  /** The journal of decisions and the audit log. Only if the node has a store. */
  get records(): Records | undefined {
    return this.#records;
  }

  /** Goes on where the store says that it was. Comes before the first agent; `createNode` does this. */
  async openStore(): Promise<void> {
    const store = this.#store;
    if (!store) return;
    const { registry, observability, envelopes: factory } = this;
    const runtime = this.#runtime;
    const journal = new JournalLog(runtime, store);
    this.router.useJournal(journal);
    const audit = await AuditLog.open(runtime, store, observability);
    this.#records = { journal, audit, replay: (rows) => replay(rows, this.#policy) };
    const place = this.#folder === undefined ? undefined : placeOf(join(this.#folder, 'node.key'));
    const clock = this.#clock;
    this.#mail = await Mail.open({ runtime, clock, store, registry, observability, factory }, this.#retention, place);
    this.#mail.start(this.router, this.network?.peers, this.network?.removed);
    this.router.usePostbox(this.#mail);
    this.documents.useStore(store);
    await this.swarms.useStore(store);
    this.#proposals = await ProposalRecords.open(runtime, store);
    // Whoever runs the node is not there to begin anew what it proposed.
    if (this.#proposals.has('operator')) this.operator();
    this.#upkeep?.start();
    if (this.network) this.network.peers.mail = this.#mail;
  }

  /** Gets in touch with the other nodes of the mesh, if it belongs to one. `createNode` does this. */
  async start(): Promise<void> {
    if (this.network) await this.registry.enableHyperswarmDiscovery(this.network);
  }

  /** Opens the node to the outside over HTTP: its MCP endpoint, for who has a token. */
  async serve(init: GatewayInit = {}): Promise<Gateway> {
    if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'the node has stopped');
    if (this.#gateway)
      throw new EclipticError('ADDRESS_UNUSABLE', `the node is served at ${this.#gateway.url} already`);
    const { registry, mcp } = this;
    const profiles = await this.#profiles(init.about);
    const records = this.#store ? new StoreTaskRecords(this.#store, profiles) : new MemoryTaskRecords();
    const callerAgent = (name: string, sandbox?: string) => this.#callerAgent(name, sandbox);
    const parts = { runtime: this.#runtime, deadlines: this.#deadlines, registry, mcp, identity: this.#identity };
    this.#gateway = await Gateway.start(
      { ...parts, records, profiles, callerAgent, metrics: () => this.metricsText() },
      init,
    );
    return this.#gateway;
  }

  /** Counters, histograms, queues, peers and memory in Prometheus' text format, as `/metrics` serves them. */
  async metricsText(): Promise<string> {
    const { observability } = this;
    const gauges = await gaugesOf(this, this.#store);
    return toPrometheus(observability.getMetrics(), observability.getHistograms(), gauges);
  }

  /** Lets coding agents in, each with a mailbox of its own. Needs a store; the owner's key is in `folder`. */
  async openCodingAgents(folder: string, init: CodingAgentsInit = {}): Promise<CodingAgents> {
    if (!this.#store || !this.#mail) throw new EclipticError('STORE_REQUIRED', 'mailboxes need a node with a store');
    const { registry, network } = this;
    const runtime = this.#runtime;
    const parts = { runtime, registry, network, mail: this.#mail, store: this.#store, identity: this.#identity };
    const person = () => Identity.keptIn(folder, runtime, 'person.key');
    const agent = (about: AgentInit) => this.agent(about);
    const owner = () => this.#callerAgent(OWNER, undefined);
    this.#codingAgents = await CodingAgents.open({ ...parts, person, agent, owner }, init);
    return this.#codingAgents;
  }

  /** Of a node with a store, those it keeps: the first agent gets the project that tasks belong to by default. */
  async #profiles(about: GatewayInit['about'] = {}): Promise<Profiles> {
    if (!this.#store) return new SharedProject(() => this.#ownAgents(), about);
    const profiles = await StoreProfiles.open(this.#runtime, this.#store);
    const [first] = this.#ownAgents();
    if (first !== undefined) await profiles.seed(first);
    await profiles.configure(about);
    return profiles;
  }

  /** Those that stand for nobody outside. */
  *#ownAgents(): Generator<string> {
    for (const id of this.#agents.keys()) if (!this.#callers.has(id)) yield id;
  }

  /** An outside caller is a member like any other, under its own name: it has a card, a tier and perhaps a sandbox. */
  #callerAgent(name: string, sandbox: string | undefined): Agent {
    const known = this.#agents.get(name);
    if (known) return known;
    if (this.#callers.size >= MAX_CALLERS) {
      throw new EclipticError('QUEUE_FULL', `${MAX_CALLERS} outside callers have tasks here already`);
    }
    this.#callers.add(name);
    // Mail to the person waits until the person has read it.
    const about =
      name === OWNER
        ? { description: 'The person who runs this node.', tier: 0 as const, ...OWNER_MAIL }
        : { description: 'An outside caller.', tier: 3 as const, protocols: [CALLER_PROTOCOL] };
    return this.agent({ id: name, ...about, ...(sandbox !== undefined && { sandbox }) }).onMessage(() => {});
  }

  /**
   * Every message of a conversation, by time: those that `threads` remembers, and on a node with a store the earlier
   * ones from the journal.
   */
  async thread(correlationId: string): Promise<A2AEnvelope[]> {
    const messages = new Map<string, A2AEnvelope>();
    const journalled = (await this.#records?.journal.messagesOf(correlationId)) ?? [];
    for (const message of [...journalled, ...this.threads.get(correlationId)]) messages.set(message.id, message);
    return [...messages.values()].sort((a, b) => a.timestamp - b.timestamp);
  }

  /** The owner as a member of the mesh: in whose name the owner proposes work. */
  operator(): Agent {
    return this.#callerAgent('operator', undefined);
  }

  /** The HTTP edge, if the node is served. */
  get gateway(): Gateway | undefined {
    return this.#gateway;
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
    if (this.#gateway) await this.#gateway.close();
    this.#codingAgents?.close();
    if (drainMs > 0) await this.#drain(drainMs);
    // While their agents are there: what they changed last still goes out.
    await this.swarms.close();
    await this.documents.close();
    await this.providers.close();
    await this.channels.closeAll();
    // In one turn: other nodes hear that this one stops, not that its agents are gone for good.
    for (const agent of this.agents) agent.leave();
    await this.registry.disableHyperswarmDiscovery();
    await this.#mail?.stop();
    await this.#proposals?.flush();
    await this.#upkeep?.stop();
    await this.#records?.journal.close();
    await this.#records?.audit.close();
    await this.#store?.close();
    this.#exchange?.close();
    this.#deadlines.clear();
    this.#stopTracing();
    this.#hold.cancel();
  }

  async #drain(ms: number): Promise<void> {
    const drained = Promise.all([this.router.drain(), this.#mail?.drain(), this.mcp.drain()]);
    await within(this.#runtime, drained, ms, () => undefined);
  }
}

/** Starts a node. It keeps the process alive until `stop()`, as a listening server would. */
export async function createNode(init: NodeInit = {}): Promise<EclipticNode> {
  const node = new EclipticNode(init);
  try {
    await node.openStore();
    await node.start();
    return node;
  } catch (error) {
    await node.stop();
    throw error;
  }
}
