import type { A2AClient } from '../a2a/client/a2a-client.js';
import type { MeshEdge } from '../a2a/edge/mesh-edge.js';
import type { MeshBinding } from '../a2a/mesh/mesh-binding.js';
import { connectOverMesh, type MeshClientInit } from '../a2a/mesh/mesh-client.js';
import { type MeshTarget, targetOf } from '../a2a/mesh/mesh-protocol.js';
import { MeshTransport } from '../a2a/mesh/mesh-transport.js';
import { type Profiles, SharedProject, StoreProfiles } from '../a2a/server/profiles.js';
import { MemoryTaskRecords, StoreTaskRecords } from '../a2a/server/task-records.js';
import { Agent, type AgentComponents } from '../agent/agent.js';
import type { AgentInit } from '../agent/agent-init.js';
import { CodingAgents, type CodingAgentsInit } from '../coding-agents/coding-agents.js';
import { OWNER } from '../coding-agents/mailbox/letter.js';
import { mailProtocol } from '../coding-agents/mailbox/member.js';
import { Collections } from '../collections/collections.js';
import type { CollectionShares } from '../collections/entry.js';
import { offerCollections } from '../collections/offers.js';
import type { Documents } from '../documents/documents.js';
import { isKnownCaller } from '../http/auth/caller-auth.js';
import { Gateway, type GatewayInit } from '../http/gateway.js';
import type { Mail } from '../mail/mail.js';
import type { Entry } from '../mcp/catalogue.js';
import type { McpService } from '../mcp/service.js';
import type { ToolTasks } from '../mcp/tool-tasks.js';
import { splitAddress } from '../mesh/address.js';
import type { AuditLog } from '../mesh/audit/audit-log.js';
import type { JournalLog, replay } from '../mesh/audit/journal-log.js';
import type { ChannelManager } from '../mesh/channel-manager.js';
import type { EnvelopeFactory } from '../mesh/envelope.js';
import type { A2AObservability } from '../mesh/observability.js';
import type { Policy } from '../mesh/policy.js';
import { type MetricFamily, messageFamilies, toPrometheus } from '../mesh/prometheus.js';
import type { AgentRegistry } from '../mesh/registry.js';
import { CALLER_PROTOCOL } from '../mesh/registry-index.js';
import type { A2ARouter } from '../mesh/router.js';
import type { A2AEnvelope } from '../mesh/schemas.js';
import type { ThreadTable } from '../mesh/thread-table.js';
import type { BrokerAccess } from '../nats/broker.js';
import { Identity } from '../network/membership/identity.js';
import type { Network } from '../network/peers/network.js';
import type { Objects } from '../objects/objects.js';
import type { ProviderEvents } from '../providers/adapter/events.js';
import { reportHealth, workerTypes } from '../providers/registry/provider-agent.js';
import type { ProviderRegistry } from '../providers/registry/registry.js';
import { within } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import type { Parts } from '../runtime/part.js';
import type { Runtime } from '../runtime/runtime.js';
import { namedSpan } from '../runtime/tracing.js';
import type { Registers } from '../store/shared/registers.js';
import type { Store } from '../store/store.js';
import { nodeFamilies } from '../telemetry/node-metrics.js';
import { type Readiness, ReadinessCheck } from '../telemetry/readiness.js';
import type { Swarms } from '../work/swarm/swarms.js';
import { OwnerDevices } from './devices/owner-devices.js';
import { StandIns } from './stand-ins.js';

export interface Records {
  readonly journal: JournalLog;
  readonly audit: AuditLog;
  /** Puts recorded decisions to the present rules. */
  replay(rows: readonly unknown[]): ReturnType<typeof replay>;
}

type PublicComponents = Pick<
  EclipticNode,
  'key' | 'network' | 'records' | 'providers' | 'providerEvents' | 'envelopes' | 'toolTasks'
>;

export interface NodeComponents extends PublicComponents, AgentComponents {
  policy: Policy;
  brokerAccess: BrokerAccess | undefined;
  parts: Parts;
  identity: Identity;
  store: Store | undefined;
  registers: Registers | undefined;
  /** The tasks of the owner's other nodes, if there is a network. */
  edge: MeshEdge | undefined;
  /** A2A between the agents of the mesh. */
  a2aMesh: MeshBinding;
}

const OWNER_MAIL = { fetchesMail: true, protocols: [mailProtocol('polls'), CALLER_PROTOCOL] };
/** Outside callers that may have an agent here. */
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
  /** Other nodes: inviting, joining, the peers. Only if the node was made with a `network`. */
  readonly network: Network | undefined;
  /** The tools, resources and prompts that agents offer over MCP, here and on other nodes. */
  readonly mcp: McpService;
  /** Tool calls that their callers follow as tasks. */
  readonly toolTasks: ToolTasks;
  /** Agent processes, tool servers and remote agents that do work for this node's agents. */
  readonly providers: ProviderRegistry;
  readonly providerEvents: ProviderEvents;
  readonly documents: Documents;
  /** Files that agents have attached to messages. */
  readonly objects: Objects;
  readonly swarms: Swarms;
  /** Durable messages: receipts, outbox, inboxes. Only if the node has a store. */
  readonly mail: Mail | undefined;
  /** The journal of decisions and the audit log. Only if the node has a store. */
  readonly records: Records | undefined;
  readonly #components: NodeComponents;
  #gateway: Gateway | undefined;
  readonly #agents = new Map<string, Agent>();
  readonly #callers = new Set<string>();
  readonly #standIns = new StandIns((init) => this.#caller(init));
  readonly #metricSources: (() => readonly MetricFamily[])[] = [];
  readonly #readiness: ReadinessCheck;
  #collections: Collections | undefined;
  #drainMs = 0;
  #stopped = false;

  /** @internal Use `createNode`. */
  constructor(components: NodeComponents) {
    this.#components = components;
    this.key = components.key;
    this.registry = components.registry;
    this.router = components.router;
    this.channels = components.channels;
    this.threads = components.threads;
    this.observability = components.observability;
    this.envelopes = components.envelopes;
    this.network = components.network;
    this.mcp = components.mcp;
    this.toolTasks = components.toolTasks;
    this.providers = components.providers;
    this.providerEvents = components.providerEvents;
    this.documents = components.documents;
    this.objects = components.objects;
    this.swarms = components.swarms;
    this.mail = components.mail;
    this.records = components.records;
    this.#readiness = new ReadinessCheck(components);
    reportHealth(this.providers, (id) => this.#agents.get(id));
    const { catalogue } = this.mcp;
    catalogue.onChange((kind, entries, gone) => {
      const [{ owner, node }] = entries as [Entry];
      if (kind !== 'tool' || node !== undefined) return;
      const left = gone ? catalogue.of(owner).filter(({ definition }) => definition.kind === 'tool') : entries;
      this.#agents.get(owner)?.toolsChanged(
        left.map(({ key }) => key),
        gone,
      );
    });
    // The operator has no agent process, so its durable proposals are resumed here.
    if (components.proposals?.has('operator')) this.operator();
  }

  /** @internal For `ecliptic nats`. Only if the node uses NATS. */
  get brokerAccess(): BrokerAccess | undefined {
    return this.#components.brokerAccess;
  }

  /** Whether the node can take work, and why not. */
  readiness(): Promise<Readiness> {
    return this.#readiness.check();
  }

  /** @internal Everything has started. */
  markReady(): void {
    if (!this.#stopped) this.#readiness.phase = 'running';
  }

  /** @internal Starts the parts: the node connects to the other members of its mesh. `createNode` does this. */
  start(): Promise<void> {
    return this.#components.parts.start();
  }

  /** Opens the node to the outside over HTTP, for callers with a token. */
  async serve(init: GatewayInit = {}): Promise<Gateway> {
    if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'the node has stopped');
    if (this.#gateway)
      throw new EclipticError('ADDRESS_UNUSABLE', `the node is served at ${this.#gateway.url} already`);
    const { store, parts, ...components } = this.#components;
    const { providers } = components;
    const profiles = await this.#profiles(init.about);
    const records = store ? new StoreTaskRecords(store, profiles) : new MemoryTaskRecords();
    const callerAgent = (name: string, sandbox?: string) => this.#callerAgent(name, sandbox);
    const gateway = await Gateway.start(
      {
        ...components,
        records,
        profiles,
        callerAgent,
        isAgent: (name) => this.#agents.has(name) && !this.#callers.has(name),
        workerTypes: (agent) => workerTypes(providers, agent),
        metrics: () => this.metricsText(),
        readiness: () => this.readiness(),
      },
      init,
    );
    this.#gateway = gateway;
    parts.add({ name: 'gateway', stop: () => gateway.close() });
    return gateway;
  }

  /**
   * An A2A client of an agent of any node, over the mesh: `mars@desktop`, or by key. `as` is the agent of this node that
   * asks. Default: the owner.
   */
  async a2a(
    agent: string,
    { as, awayMs, ...init }: MeshClientInit & { readonly as?: string } = {},
  ): Promise<A2AClient> {
    const { runtime, a2aMesh: binding } = this.#components;
    const caller = (as === undefined ? this.operator() : this.agentById(as)).id;
    return connectOverMesh({ runtime, binding }, { target: this.meshTarget(agent), caller, awayMs }, init);
  }

  /** @internal For `ecliptic/a2a-sdk`. */
  a2aTransport(target: MeshTarget, as?: string, awayMs?: number): MeshTransport {
    const { runtime, a2aMesh: binding } = this.#components;
    const caller = (as === undefined ? this.operator() : this.agentById(as)).id;
    return new MeshTransport(runtime, binding, { target, caller, awayMs });
  }

  /** @internal */
  get runtime(): Runtime {
    return this.#components.runtime;
  }

  /** @internal The node and the agent that a name or an address means. */
  meshTarget(address: string): MeshTarget {
    const { id, node } = splitAddress(address);
    if (node === undefined) return targetOf(this.registry.candidate(id).address, this.key);
    const isOwn = this.key === node;
    const agent = id === '' ? undefined : id;
    return { node: isOwn || !this.network ? node : this.network.find(node).node, agent };
  }

  /** Counters, histograms, queues, peers and memory in Prometheus' text format, as `/metrics` serves them. */
  async metricsText(): Promise<string> {
    const { observability } = this;
    return toPrometheus(observability.getMetrics(), observability.getHistograms(), await this.#otherMetrics());
  }

  /** @internal The same metrics, for other formats. */
  async metricFamilies(): Promise<MetricFamily[]> {
    const { observability } = this;
    const messages = messageFamilies(observability.getMetrics(), observability.getHistograms());
    return [...messages, ...(await this.#otherMetrics())];
  }

  /** @internal Adds metrics of parts that are no part of the node. */
  addMetrics(source: () => readonly MetricFamily[]): void {
    this.#metricSources.push(source);
  }

  async #otherMetrics(): Promise<MetricFamily[]> {
    const own = await nodeFamilies(this, this.#components.store);
    return [...own, ...this.#metricSources.flatMap((source) => source())];
  }

  /** Admits coding agents, each with a mailbox of its own. Needs a store; the owner's key is in `folder`. */
  async openCodingAgents(folder: string, init: CodingAgentsInit = {}): Promise<CodingAgents> {
    const { mail, store, parts, ...components } = this.#components;
    if (!store || !mail) throw new EclipticError('STORE_REQUIRED', 'mailboxes need a node with a store');
    const person = () => Identity.keptIn(folder, components.runtime, 'person.key');
    const agent = (about: AgentInit) => this.agent(about);
    const owner = () => this.#callerAgent(OWNER, undefined);
    const codingAgents = await CodingAgents.open({ ...components, mail, store, person, agent, owner }, init);
    parts.add({ name: 'coding agents', stop: () => codingAgents.close() });
    return codingAgents;
  }

  /**
   * Opens memory, house rules and taste: shared by all nodes whose agents may read them, offered as resources. The agent
   * `keeper` has this node's replicas. Default: the owner's agent, which nodes of other owners refuse.
   */
  async openCollections(keeper?: string, shares: Partial<CollectionShares> = {}): Promise<Collections> {
    const { parts, key: nodeKey, ...components } = this.#components;
    const { mcp, network } = components;
    const collections = new Collections(
      {
        ...{ ...components, nodeKey },
        keeper: { id: keeper ?? OWNER, agent: () => (keeper === undefined ? this.operator() : this.agentById(keeper)) },
        agentById: (id) => this.#agents.get(id),
        owner: () => this.operator(),
        isOwnersNode: (node) => network?.isOwnerDevice(node) === true,
      },
      shares,
    );
    const withdraw = offerCollections({ runtime: this.#components.runtime, mcp, nodeKey, collections }, isKnownCaller);
    parts.add({
      name: 'collections',
      stop: () => {
        withdraw();
        collections.close();
      },
    });
    await collections.start();
    this.#collections = collections;
    return collections;
  }

  /** Memory, house rules and taste, once they are open. */
  get collections(): Collections | undefined {
    return this.#collections;
  }

  /** @internal The owner's other devices, if the node has a network. */
  openDevices(): OwnerDevices | undefined {
    const { network, identity, runtime, parts } = this.#components;
    if (!network) return undefined;
    const devices = new OwnerDevices({ runtime, network, identity });
    parts.add({ name: 'owner devices', stop: () => devices.close() });
    return devices;
  }

  /** With a store, the profiles in it: the first agent gets the project that tasks belong to by default. */
  async #profiles(about: GatewayInit['about'] = {}): Promise<Profiles> {
    const { store, runtime } = this.#components;
    if (!store) return new SharedProject(() => this.#ownAgents(), about);
    const profiles = await StoreProfiles.open(runtime, store, () => this.#ownAgents());
    const [first] = this.#ownAgents();
    if (first !== undefined) await profiles.seed(first);
    await profiles.configure(about);
    return profiles;
  }

  /** The agents that do not stand for an outside caller. */
  *#ownAgents(): Generator<string> {
    for (const id of this.#agents.keys()) if (!this.#callers.has(id)) yield id;
  }

  /** The agent that stands for an outside caller, under the caller's name, with a card, a tier and perhaps a sandbox. */
  #callerAgent(name: string, sandbox: string | undefined): Agent {
    const known = this.#agents.get(name);
    if (known) return known;
    if (name.includes('@')) return this.#standIns.of(name, sandbox);
    if (this.#callers.size >= MAX_CALLERS) {
      throw new EclipticError('QUEUE_FULL', `${MAX_CALLERS} outside callers have tasks here already`);
    }
    if (name === OWNER) {
      this.#callers.add(name);
      return this.#ownersAgent();
    }
    const about = { description: 'An outside caller.', tier: 3 as const, protocols: [CALLER_PROTOCOL] };
    return this.#caller({ id: name, ...about, ...(sandbox !== undefined && { sandbox }) }).onMessage(() => {});
  }

  #caller(init: AgentInit): Agent {
    this.#callers.add(init.id);
    return this.agent(init);
  }

  /** Every message to the person waits until the person has read it, also one that is not durable. */
  #ownersAgent(): Agent {
    const about = { description: 'The person who runs this node.', tier: 0 as const, ...OWNER_MAIL };
    return this.agent({ id: OWNER, ...about }).onMessage(async ({ envelope }) => {
      await this.mail?.keep(envelope, this.registry.entry(OWNER)!);
    });
  }

  /**
   * Every message of a conversation, by time: those that `threads` remembers, and on a node with a store the earlier
   * ones from the journal.
   */
  async thread(correlationId: string): Promise<A2AEnvelope[]> {
    const messages = new Map<string, A2AEnvelope>();
    const journalled = (await this.records?.journal.messagesOf(correlationId)) ?? [];
    for (const message of [...journalled, ...this.threads.get(correlationId)]) messages.set(message.id, message);
    return [...messages.values()].sort((a, b) => a.timestamp - b.timestamp);
  }

  /** The agent that acts for the owner: proposals of the owner come from it. */
  operator(): Agent {
    return this.#callerAgent('operator', undefined);
  }

  get gateway(): Gateway | undefined {
    return this.#gateway;
  }

  /** Makes an agent on this node. */
  agent(init: AgentInit): Agent {
    if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'the node has stopped');
    if (this.#agents.has(init.id)) {
      throw new EclipticError('AGENT_EXISTS', `this node already has an agent "${init.id}"`, { agentId: init.id });
    }
    const agent = new Agent(this.#components, init, this.#onLeave);
    this.#agents.set(agent.id, agent);
    const { tracer } = this.#components.runtime;
    // A step of the conventions for generative AI only.
    if (tracer?.genAi) {
      const { name, attributes } = namedSpan(tracer, '', 'create_agent', agent.id);
      tracer.start(name, { attributes: { ...attributes, 'gen_ai.agent.id': agent.id }, parent: null }).end();
    }
    return agent;
  }

  readonly #onLeave = (agent: { readonly id: string }): void => {
    this.#agents.delete(agent.id);
  };

  get agents(): readonly Agent[] {
    return [...this.#agents.values()];
  }

  agentById(id: string): Agent {
    const agent = this.#agents.get(id);
    if (agent) return agent;
    throw new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${id}"`, { agentId: id });
  }

  /**
   * Ends every channel and agent. With `drainMs`, work under way may finish within that time, while nothing new
   * begins; work that is then still waiting is rejected with a typed error. Nothing keeps running.
   */
  async stop({ drainMs = 0 }: { drainMs?: number } = {}): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#readiness.phase = 'stopping';
    this.#drainMs = drainMs;
    await this.#components.parts.stop();
  }

  /** @internal Lets work under way finish, if `stop` was given time for that. */
  async drain(): Promise<void> {
    if (this.#drainMs <= 0) return;
    const drained = Promise.all([this.router.drain(), this.mail?.drain(), this.mcp.drain()]);
    await within(this.#components.runtime, drained, this.#drainMs, () => undefined);
  }
}
