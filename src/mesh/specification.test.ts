import { describe, expect, it } from 'vitest';
import {
  A2AObservability,
  A2ARouter,
  AgentRegistry,
  ChannelManager,
  CRDTSyncChannel,
  createNode,
  EnvelopeFactory,
} from '../index.js';

/**
 * The interfaces of the specification. Assigning to them is a test that tsc makes. Deviations:
 * - `metadata.tier` is optional: the router takes the tier from the sender's card, and refuses an envelope that contradicts it;
 * - events have further types;
 * - a channel's `transport` may also be `nats`;
 * - `enableHyperswarmDiscovery` takes any discovery of cards, of which the Hyperswarm network is one.
 */
type AgentTier = 0 | 1 | 2 | 3;
type A2AMessageType =
  | 'request'
  | 'response'
  | 'notification'
  | 'task-proposal'
  | 'task-accept'
  | 'task-reject'
  | 'stream-start'
  | 'stream-data'
  | 'stream-end'
  | 'error';

interface AgentCard {
  id: string;
  name: string;
  version: string;
  description: string;
  tier: AgentTier;
  protocols: string[];
  endpoints: { transport: 'local' | 'hyperswarm' | 'websocket'; address?: string }[];
  capabilities: { id: string; name: string; description: string; inputSchema: unknown; outputSchema: unknown }[];
  revision: number;
  sandboxId?: string;
  origin: 'local' | 'remote';
  lastSeenAt: number;
}

interface A2AEnvelope {
  id: string;
  schemaVersion: number;
  sender: string;
  recipient: string;
  correlationId?: string;
  type: A2AMessageType;
  timestamp: number;
  payload: unknown;
  metadata?: { tier?: AgentTier; sandboxId?: string; routingHint?: 'capability' };
}

interface RoutingResult {
  delivered: boolean;
  path: 'local' | 'remote' | 'broadcast';
  targetAgentId: string | '*';
  latencyMs: number;
  error?: string;
}

interface RegistrySpecification {
  register(card: AgentCard): void;
  unregister(agentId: string): boolean;
  getById(agentId: string): AgentCard | undefined;
  findByCapability(capabilityId: string): AgentCard[];
  findByTier(tier: AgentTier): AgentCard[];
  listAll(): AgentCard[];
  getLocalCards(): AgentCard[];
  getRemoteCards(): AgentCard[];
  enableHyperswarmDiscovery(manager: { start(): Promise<void>; stop(): Promise<void> }): Promise<void>;
  disableHyperswarmDiscovery(): Promise<void>;
  serialize(): string;
}

interface RouterSpecification {
  send(envelope: A2AEnvelope): Promise<RoutingResult>;
  onReceive(agentId: string, handler: (envelope: A2AEnvelope) => void): () => void;
  setTierConfig(config: {
    rules: { sourceTier: AgentTier; allowedTargetTiers: AgentTier[]; requiresEscalationJustification: boolean }[];
  }): void;
  setSandboxConfig(config: { enforced: boolean; crossSandboxAllowList: string[] }): void;
}

interface ChannelSpecification {
  readonly id: string;
  readonly localAgentId: string;
  readonly remoteAgentId: string;
  readonly status: 'connecting' | 'open' | 'reconnecting' | 'closed';
  readonly transport: 'local' | 'hyperswarm' | 'websocket' | 'nats';
  send(envelope: A2AEnvelope): Promise<void>;
  onMessage(handler: (envelope: A2AEnvelope) => void): () => void;
  close(): Promise<void>;
}

interface ChannelManagerSpecification {
  openChannel(localAgentId: string, remoteAgentId: string): Promise<ChannelSpecification>;
  getChannel(channelId: string): ChannelSpecification | undefined;
  listChannels(): ChannelSpecification[];
  closeAll(): Promise<void>;
}

interface CRDTSyncMessage {
  sourceAgentId: string;
  vectorClock: Record<string, number>;
  payload: unknown;
  timestamp: number;
}

interface CRDTSyncChannelSpecification {
  broadcast(update: unknown, sourceAgentId: string): Promise<void>;
  onUpdate(handler: (message: CRDTSyncMessage) => void): () => void;
  getVectorClock(): Record<string, number>;
  close(): Promise<void>;
}

interface A2ALogEvent {
  type: 'message-sent' | 'message-received' | 'routing-decision' | 'tool-invocation' | 'error' | (string & {});
  envelopeId?: string;
  sender?: string;
  recipient?: string;
  messageType?: A2AMessageType;
  routingPath?: 'local' | 'remote' | 'broadcast';
  toolName?: string;
  duration?: number;
  success?: boolean;
  timestamp: number;
}

interface ObservabilitySpecification {
  emit(event: A2ALogEvent): void;
  getMetrics(): {
    totalMessagesSent: number;
    totalMessagesReceived: number;
    messagesByType: Record<A2AMessageType, number>;
    averageRoutingLatencyMs: number;
    errorCount: number;
    totalToolInvocations: number;
    toolInvocationsByTool: Record<string, number>;
    averageToolDurationMs: number;
    toolErrorCount: number;
  };
  getRecentEvents(limit?: number): A2ALogEvent[];
  resetMetrics(): void;
}

const CARD = {
  version: '1.0.0',
  description: '',
  protocols: ['a2a/1.0'],
  endpoints: [{ transport: 'local' as const }],
  capabilities: [],
  revision: 0,
  origin: 'local' as const,
  lastSeenAt: 0,
};

describe('the classes of the specification', () => {
  it('register agents and route between them without a node', async () => {
    const registry = new AgentRegistry();
    const specified: RegistrySpecification = registry;
    specified.register({ ...CARD, id: 'sun', name: 'SUN', tier: 0 });
    specified.register({ ...CARD, id: 'mars', name: 'MARS', tier: 2 });
    expect(AgentRegistry.deserialize(specified.serialize()).listAll()).toEqual(specified.listAll());
    const observability = new A2AObservability();
    const router: RouterSpecification = new A2ARouter({ registry, observability });
    const received: A2AEnvelope[] = [];
    router.onReceive('mars', (envelope) => received.push(envelope));
    const factory = new EnvelopeFactory();
    const envelope = factory.create({ sender: 'sun', recipient: 'mars', type: 'notification', payload: 1 });
    expect(await router.send(envelope)).toMatchObject({ delivered: true, path: 'local', targetAgentId: 'mars' });
    expect(received).toEqual([envelope]);
    const metrics: ObservabilitySpecification = observability;
    expect(metrics.getMetrics()).toMatchObject({ totalMessagesSent: 1, totalMessagesReceived: 1 });
    expect(metrics.getRecentEvents(1)).toHaveLength(1);
  });

  it('share the rules of the registry and the router', async () => {
    const registry = new AgentRegistry();
    registry.register({ ...CARD, id: 'sun', name: 'SUN', tier: 0 });
    registry.register({ ...CARD, id: 'boxed', name: 'Boxed', tier: 2, sandboxId: 'box' });
    const router: RouterSpecification = new A2ARouter({ registry });
    expect(registry.getById('sun', 'boxed')).toBeUndefined();
    router.setSandboxConfig({ enforced: true, crossSandboxAllowList: ['sun'] });
    expect(registry.getById('sun', 'boxed')).toMatchObject({ id: 'sun' });
  });

  it('open channels without a node', async () => {
    const registry = new AgentRegistry();
    registry.register({ ...CARD, id: 'sun', name: 'SUN', tier: 0 });
    registry.register({ ...CARD, id: 'mars', name: 'MARS', tier: 2 });
    const router = new A2ARouter({ registry });
    const channels = new ChannelManager({ registry, router });
    const specified: ChannelManagerSpecification = channels;
    const received: A2AEnvelope[] = [];
    channels.onChannel('mars', (channel) => {
      channel.onMessage((envelope) => received.push(envelope));
      return true;
    });
    const channel = await specified.openChannel('sun', 'mars');
    const factory = new EnvelopeFactory();
    await channel.send(factory.create({ sender: 'sun', recipient: 'mars', type: 'notification', payload: 'hi' }));
    expect(received).toMatchObject([{ payload: 'hi' }]);
    expect(specified.getChannel(channel.id)).toBe(channel);
    await specified.closeAll();
    expect(specified.listChannels()).toEqual([]);
  });

  it('broadcast the updates of a shared document', async () => {
    const node = await createNode();
    const document = node.agent({ id: 'sun' }).state('plan');
    const channel: CRDTSyncChannelSpecification = new CRDTSyncChannel(document);
    const updates: CRDTSyncMessage[] = [];
    channel.onUpdate((message) => updates.push(message));
    await channel.broadcast({ map: 'tasks', set: { first: 'done' } }, 'sun');
    expect(updates).toHaveLength(1);
    expect(Object.values(channel.getVectorClock())).toEqual([1]);
    await channel.close();
    await node.stop();
  });
});
