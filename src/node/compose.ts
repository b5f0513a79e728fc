import { join } from 'node:path';
import { MeshEdge } from '../a2a/edge/mesh-edge.js';
import { MeshBinding } from '../a2a/mesh/mesh-binding.js';
import { retainTasks, TASK_LIMITS, type TaskLimits } from '../a2a/server/task-retention.js';
import { Documents } from '../documents/documents.js';
import { Mail, type MailInit } from '../mail/mail.js';
import { NO_MAIL } from '../mail/no-mail.js';
import type { MailRelay } from '../mail/relay.js';
import { McpExchange } from '../mcp/exchange.js';
import { McpService } from '../mcp/service.js';
import { ToolTasks } from '../mcp/tool-tasks.js';
import { AuditLog } from '../mesh/audit/audit-log.js';
import { JournalLog, replay } from '../mesh/audit/journal-log.js';
import { Upkeep, type UpkeepLimits } from '../mesh/audit/upkeep.js';
import { ChannelManager, type ChannelManagerInit } from '../mesh/channel-manager.js';
import { EnvelopeFactory } from '../mesh/envelope.js';
import { A2AObservability, type A2AObservabilityInit, callbackReport } from '../mesh/observability.js';
import { Policy } from '../mesh/policy.js';
import type { Carrier } from '../mesh/ports.js';
import { AgentRegistry } from '../mesh/registry.js';
import { A2ARouter, type A2ARouterInit } from '../mesh/router.js';
import type { SandboxRoutingConfig, StateRules, TierRoutingConfig } from '../mesh/schemas.js';
import { ThreadTable, type ThreadTableInit } from '../mesh/thread-table.js';
import type { Broker } from '../nats/broker.js';
import { Identity } from '../network/membership/identity.js';
import { Membership } from '../network/membership/membership.js';
import { MembershipFile } from '../network/membership/membership-file.js';
import { channelProtocol, messageProtocol } from '../network/peers/envelope-exchange.js';
import { Network, type NetworkInit } from '../network/peers/network.js';
import type { ObjectLimits } from '../objects/limits.js';
import { ObjectFiles } from '../objects/object-files.js';
import { Objects } from '../objects/objects.js';
import { ProviderEvents } from '../providers/adapter/events.js';
import { ProviderRegistry, type ProviderRegistryInit } from '../providers/registry/registry.js';
import { DeadlineQueue } from '../runtime/deadlines.js';
import { VERSION } from '../runtime/package.js';
import { Parts } from '../runtime/part.js';
import type { Runtime } from '../runtime/runtime.js';
import { SteadyClock } from '../runtime/steady-clock.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import type { SharedLogs } from '../store/shared/record-log.js';
import type { Registers } from '../store/shared/registers.js';
import type { Store } from '../store/store.js';
import { placeOf } from '../system/files/private-file.js';
import { ProposalRecords } from '../work/proposals/proposal-records.js';
import { Swarms } from '../work/swarm/swarms.js';
import { EclipticNode } from './node.js';

export type { EclipticNode } from './node.js';

export interface NodeInit {
  /** Clock, timers, ids and randomness. Default: the machine's. */
  runtime?: Runtime;
  /** This node's key, if it has no network. Default: a fresh id. */
  nodeKey?: string;
  /** Lets the node join a mesh. Nothing is announced or dialled before it invites or joins. */
  network?: NodeNetworkInit;
  tiers?: TierRoutingConfig;
  sandbox?: SandboxRoutingConfig;
  /** Which tiers may read and write which shared documents, by their names. Default: all. */
  state?: StateRules;
  /** Carries messages to other nodes, if there is no network. */
  carrier?: Carrier;
  /** Stores durable messages. Without one they are refused. */
  store?: Store;
  /** State that nodes share through a broker, by the node's key. Without: leases are decided by the owner's devices. */
  registers?: (node: Identity) => Registers;
  /** Logs that nodes write together at a broker. Without: the seats of a swarm settle its records by Raft. */
  logs?: (node: Identity, runtime: Runtime) => SharedLogs;
  limits?: A2ARouterInit & {
    channels?: ChannelManagerInit;
    events?: A2AObservabilityInit;
    threads?: ThreadTableInit;
    providers?: ProviderRegistryInit;
    objects?: Partial<ObjectLimits>;
    /** How much history the store keeps. */
    retention?: RetentionInit;
  };
}

export interface NatsInit {
  /** `nats://host:port` or `tls://host:port`. */
  readonly servers: readonly string[];
  /** The mesh's name at the broker. Default `main`. */
  readonly mesh?: string;
}

interface RetentionInit extends UpkeepLimits, MailInit {
  readonly tasks?: TaskLimits;
}

export interface NodeNetworkInit extends Omit<NetworkInit, 'software' | 'discoveries'> {
  /** Connects to other nodes over these NATS servers, and uses no DHT unless `dht` is true. Requires the `@nats-io` packages. */
  nats?: NatsInit;
  /** Stores the node's key and membership. Without one they end with the process. */
  folder?: string;
  /** @internal Keeps mail for absent nodes instead of NATS. */
  mailRelay?: (runtime: Runtime, nodeKey: string) => MailRelay;
  /** @internal Identifies the folder instead of its key file, which differs each time that a simulation runs. */
  place?: string;
}

/** Starts a node. It keeps the process alive until `stop()`, as a listening server would. */
export async function createNode(init: NodeInit = {}): Promise<EclipticNode> {
  const parts = new Parts();
  try {
    const node = await composeNode(init, parts);
    await node.start();
    node.markReady();
    return node;
  } catch (error) {
    await parts.stop();
    throw error;
  }
}

/**
 * @internal Builds a node and adds its parts to the list, in the order in which they start; they stop in reverse. The
 * node can have agents at once, and connects to other nodes when the parts start.
 */
export async function composeNode(init: NodeInit, parts: Parts): Promise<EclipticNode> {
  const { runtime = systemRuntime(), limits = {}, store } = init;
  const { folder, nats, mailRelay, place, ...networkInit } = init.network ?? {};
  const hold = runtime.hold();
  const deadlines = new DeadlineQueue(runtime);
  parts.add({ name: 'hold on the process', stop: () => hold.cancel() });
  parts.add({ name: 'deadlines', stop: () => deadlines.clear() });
  parts.add({ name: 'store', stop: () => store?.close() });

  const proven = init.network && (folder === undefined ? Identity.create(runtime) : Identity.keptIn(folder, runtime));
  const key = proven?.key ?? init.nodeKey ?? runtime.id();
  const identity = proven ?? Identity.create(runtime);
  const policy = new Policy(key);
  if (init.tiers) policy.setTierConfig(init.tiers);
  if (init.sandbox) policy.setSandboxConfig(init.sandbox);
  if (init.state) policy.setStateConfig(init.state);
  const envelopes = new EnvelopeFactory(runtime);
  const observability = new A2AObservability({ logger: runtime.logger, ...limits.events });
  parts.add({ name: 'tracing', stop: await tracing(observability) });
  const onCallbackFailed = callbackReport(runtime, observability);
  const registry = new AgentRegistry({ policy, nodeKey: key, onCallbackFailed });
  const threads = new ThreadTable(runtime, limits.threads);
  const mesh = { runtime, registry, policy, observability, threads, factory: envelopes };

  const clock = new SteadyClock(runtime);
  const membershipStore = folder === undefined ? undefined : new MembershipFile(folder);
  const membership = new Membership({ runtime, identity, store: membershipStore, clock });
  const broker = proven && nats && (await openBroker({ runtime, identity, folder, parts }, nats));
  const registers = init.registers?.(identity) ?? broker?.registers(() => membership.sharedState);
  const logs = init.logs?.(identity, runtime) ?? broker?.logs(() => membership.sharedState);
  const network: Network | undefined =
    proven &&
    new Network(
      { ...mesh, identity, membership },
      {
        ...networkInit,
        ...(broker && overBroker(broker, networkInit, () => network)),
        folder,
        software: `ecliptic ${VERSION}`,
      },
    );
  const documents = new Documents({ ...mesh, nodeKey: key, signer: identity, network, store });
  const swarms = await Swarms.open({ ...mesh, documents, nodeKey: key, logs }, store);

  const stored = store && (await openRecords({ ...mesh, clock, store, folder, place, parts }, limits.retention));
  const { mail, journal } = stored ?? {};
  const sharedThreads = {
    admits: (...asked: Parameters<Swarms['admits']>) => swarms.admits(...asked) || documents.admits(...asked),
  };
  const carrier = network?.envelopes ?? init.carrier;
  const router = new A2ARouter({ ...mesh, carrier, postbox: mail, journal, sharedThreads }, limits);
  const channels = new ChannelManager({ ...mesh, router, carrier: network?.envelopes }, limits.channels);
  const mcp = new McpService({ ...mesh, deadlines });
  const toolTasks = await ToolTasks.open({
    runtime,
    service: mcp,
    store: store ?? new MemoryStore(),
    onCallbackFailed,
  });
  const relay = mailRelay?.(runtime, key) ?? broker?.mail(membership);
  mail?.start(router, network, relay && { relay, identity, membership });
  if (network) addProtocols({ ...mesh, network, parts, mail, router, channels, mcp, documents });
  const objects = new Objects({
    ...{ ...mesh, network, nodeKey: key, archive: broker?.objects() },
    files: folder === undefined ? undefined : await ObjectFiles.open(runtime, join(folder, 'objects'), limits.objects),
    findAway: (address) => mail?.find(address) ?? onlyOne(mail?.named(address)),
  });
  parts.add({ name: 'objects', start: () => objects.start(), stop: () => objects.stop() });
  const edge = network && new MeshEdge({ runtime, network, nodeKey: key });
  const a2aMesh = new MeshBinding({ runtime, registry, network, nodeKey: key });
  parts.add({ name: 'edge', stop: () => edge?.close() }, { name: 'A2A over the mesh', stop: () => a2aMesh.close() });
  const providerEvents = new ProviderEvents(runtime, observability);
  const providers = new ProviderRegistry({ runtime, events: providerEvents }, limits.providers);
  const node = new EclipticNode({
    ...{ ...mesh, key, parts, identity, envelopes, deadlines, network, store, mail, edge, a2aMesh, registers },
    brokerAccess: broker,
    ...{ records: stored?.records, proposals: stored?.proposals },
    ...{ router, channels, mcp, toolTasks, documents, objects, swarms, providers, providerEvents },
  });
  parts.add(
    {
      name: 'network',
      start: () => network && registry.enableHyperswarmDiscovery(network),
      stop: async () => {
        await network?.directory.stop();
        // In one turn: other nodes must learn that this node stops, not that its agents have left.
        for (const agent of node.agents) agent.leave();
        return registry.disableHyperswarmDiscovery();
      },
    },
    { name: 'channels', stop: () => channels.closeAll() },
    { name: 'providers', stop: () => providers.close() },
    // Documents and swarms close while their agents are there, so that the last changes still go out.
    { name: 'documents', stop: () => documents.close() },
    { name: 'swarms', stop: () => swarms.close() },
    { name: 'tool tasks', stop: () => toolTasks.stop() },
    { name: 'work under way', stop: () => node.drain() },
  );
  return node;
}

function onlyOne<T>(found: readonly T[] = []): T | undefined {
  return found.length === 1 ? found[0] : undefined;
}

/** Loads NATS, which only a node with a broker needs. It stops after everything that uses it. */
async function openBroker(
  components: { runtime: Runtime; identity: Identity; folder: string | undefined; parts: Parts },
  nats: NatsInit,
) {
  const { Broker } = await import('../nats/broker.js');
  const broker = new Broker(components, nats);
  components.parts.add({ name: 'nats', start: () => broker.start(), stop: () => broker.stop() });
  return broker;
}

function overBroker(
  broker: Broker,
  { dht = false }: Pick<NetworkInit, 'dht'>,
  network: () => Network | undefined,
): Partial<NetworkInit> {
  return {
    dht,
    discoveries: (seeker) => [broker.discovery(seeker)],
    brokerStatus: () => broker.status(),
    directories: () => [broker.directory(() => network()?.directoryKey.bytes)],
  };
}

interface Mesh {
  runtime: Runtime;
  registry: AgentRegistry;
  policy: Policy;
  observability: A2AObservability;
  threads: ThreadTable;
  factory: EnvelopeFactory;
  parts: Parts;
}

/** Everything that a node with a store records: decisions, events, proposals and durable mail. */
async function openRecords(
  components: Mesh & { store: Store; clock: SteadyClock; folder: string | undefined; place: string | undefined },
  retention: RetentionInit = {},
) {
  const { runtime, store, observability, policy, folder, parts } = components;
  const audit = await AuditLog.open(runtime, store, observability);
  const journal = new JournalLog(runtime, store);
  const taskLimits = { ...TASK_LIMITS, ...retention.tasks };
  const upkeep = new Upkeep(runtime, store, retention, (now) => retainTasks(store, taskLimits, now));
  parts.add({ name: 'audit log', stop: () => audit.close() });
  parts.add({ name: 'journal', stop: () => journal.close() });
  parts.add({ name: 'upkeep', start: () => upkeep.start(), stop: () => upkeep.stop() });
  const proposals = await ProposalRecords.open(runtime, store);
  parts.add({ name: 'proposals', stop: () => proposals.flush() });
  const place = folder === undefined ? undefined : placeOf(join(folder, 'node.key'));
  const mail = await Mail.open(components, retention, components.place ?? place);
  parts.add({ name: 'mail', stop: () => mail.stop() });
  const records = { journal, audit, replay: (rows: readonly unknown[]) => replay(rows, policy) };
  return { mail, journal, proposals, records };
}

interface Spoken extends Mesh {
  network: Network;
  mail: Mail | undefined;
  router: A2ARouter;
  channels: ChannelManager;
  mcp: McpService;
  documents: Documents;
}

/** The protocols that a node speaks with others, besides cards and membership. Coding agents add theirs, leases, later. */
function addProtocols(components: Spoken): void {
  const { runtime, registry, threads, network, mail, router, channels, mcp, documents, parts } = components;
  const tools = new McpExchange({ runtime, registry, service: mcp, network });
  parts.add({ name: 'MCP exchange', stop: () => tools.close() });
  network.handle(mail ?? NO_MAIL);
  network.handle(messageProtocol(router, network.cards));
  network.handle(channelProtocol(channels, network.peers, network.cards));
  network.handle(tools);
  network.handle(documents.directory);
  network.peers.onRemoved((node) => threads.forgetNode(node));
}

/** Loads the OpenTelemetry API only where the embedding program has: an SDK is registered with it before the node starts. */
async function tracing(observability: A2AObservability): Promise<(() => void) | undefined> {
  if (!(Symbol.for('opentelemetry.js.api.1') in globalThis)) return undefined;
  const { traceRouting } = await import('../mesh/routing-spans.js');
  return traceRouting(observability);
}
