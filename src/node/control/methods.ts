import type { Agent } from '../../agent/agent.js';
import type { CodingAgents } from '../../coding-agents/coding-agents.js';
import type { Wakes } from '../../coding-agents/wake/wakes.js';
import type { Documents } from '../../documents/documents.js';
import type { Gateway } from '../../http/gateway.js';
import type { Mail } from '../../mail/mail.js';
import type { McpService } from '../../mcp/service.js';
import type { Upstreams } from '../../mcp/upstream/upstreams.js';
import { joinAddress, splitAddress } from '../../mesh/address.js';
import type { Recipient } from '../../mesh/message-sender.js';
import type { A2AObservability } from '../../mesh/observability.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { A2ARouter } from '../../mesh/router.js';
import {
  type A2AEnvelope,
  type A2ALogEvent,
  A2ALogEventSchema,
  type A2AMessageType,
  A2AMessageTypeSchema,
  type AgentCard,
  type AgentStatus,
  type AgentTier,
} from '../../mesh/schemas.js';
import { NODE_KEY } from '../../network/membership/identity.js';
import { type Finding, MIN_KEY_PREFIX, type Network } from '../../network/peers/network.js';
import type { RalphLoop } from '../../plans/ralph-loop.js';
import type { ProviderEvents } from '../../providers/adapter/events.js';
import type { Lanes } from '../../providers/host/lanes.js';
import type { ProviderRegistry } from '../../providers/registry/registry.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import type { Credentials } from '../../system/secrets/credentials.js';
import type { Swarms } from '../../work/swarm/swarms.js';
import { approvalMethods } from './approval-methods.js';
import { codingAgentMethods } from './coding-agent-methods.js';
import { connectionFindings } from './connection-findings.js';
import { credentialMethods } from './credential-methods.js';
import { laneMethods } from './lane-methods.js';
import { leaseMethods } from './lease-methods.js';
import { mailMethods } from './mail-methods.js';
import { mcpMethods } from './mcp-methods.js';
import { mcpSessionMethods } from './mcp-session-methods.js';
import { negotiationMethods } from './negotiation-methods.js';
import { networkMethods } from './network-methods.js';
import { Params } from './params.js';
import { providerFindings, providerMethods, staffingFindings } from './provider-methods.js';
import { type RecordsOf, recordMethods } from './record-methods.js';
import { runMethods } from './run-methods.js';
import type { CallContext, ControlMethod } from './server.js';
import { stateMethods } from './state-methods.js';
import { swarmMethods } from './swarm-methods.js';
import { taskMethods } from './task-methods.js';
import { threadMethods } from './thread-methods.js';
import { upstreamFindings, upstreamMethods } from './upstream-methods.js';
import { wakeMethods } from './wake-methods.js';

/** What the owner's socket needs of the node it controls. */
interface ControlledNode {
  readonly registry: AgentRegistry;
  readonly router: A2ARouter;
  thread(correlationId: string): Promise<A2AEnvelope[]>;
  readonly observability: A2AObservability;
  readonly network: Network | undefined;
  readonly mail: Mail | undefined;
  readonly mcp: McpService;
  readonly documents: Documents;
  readonly swarms: Swarms;
  readonly records: RecordsOf | undefined;
  readonly providers: ProviderRegistry;
  readonly providerEvents: ProviderEvents;
  readonly agents: readonly Agent[];
  agentById(id: string): Agent;
  operator(): Agent;
  metricsText(): Promise<string>;
}

export interface ControlMethodsComponents {
  node: ControlledNode;
  /** Agents whose modules failed, and why. */
  failures: ReadonlyMap<string, EclipticError>;
  /** The HTTP edge, once there is one. */
  gateway: () => Gateway;
  upstreams: Upstreams;
  approvals: Approvals;
  lanes: Lanes;
  /** What there is to say of coding agents on this machine. */
  agentFindings: () => readonly Promise<Finding>[];
  credentials: Credentials;
  /** Where coding agents come in. */
  codingAgents: () => CodingAgents;
  /** What works through plans, once it is there. */
  loop: () => RalphLoop;
  /** What wakes them. */
  wakes: () => Wakes;
  /** Begins the shutdown. */
  shutDown: () => void;
}

/** A row of the agents' table. */
export interface AgentRow {
  readonly id: string;
  readonly name: string;
  readonly tier: AgentTier;
  readonly capabilities: readonly string[];
  readonly sandbox: string | null;
  readonly origin: 'local' | 'remote';
  readonly node: string | null;
  readonly description: string;
  readonly state: AgentStatus['state'] | 'failed' | 'unreachable';
  readonly failure: string | null;
  /** Why it is not ready. */
  readonly reason: string | null;
}

/** The operations of the owner, who may act as any agent of this node. */
export function controlMethods(components: ControlMethodsComponents): Readonly<Record<string, ControlMethod>> {
  const { node, failures, gateway, upstreams, credentials, codingAgents, wakes, loop, shutDown } = components;
  const { registry, router, observability } = node;
  return {
    agents(params) {
      const { capability, tier, sandbox } = new Params(params).optional({
        capability: 'string',
        tier: 'number',
        sandbox: 'string',
      });
      const cards = capability === undefined ? registry.listAll() : registry.findByCapability(capability);
      return cards
        .filter((card) => tier === undefined || card.tier === tier)
        .filter((card) => sandbox === undefined || card.sandboxId === sandbox)
        .map((card) => describeAgent(card, failures, node.network));
    },
    card(params) {
      return registry.requireById(inFull(new Params(params).string('id'), node));
    },
    send(params) {
      const read = new Params(params);
      const { type, ...rest } = read.optional({
        type: 'string',
        thread: 'string',
        justification: 'string',
        ttlMs: 'number',
        durable: 'boolean',
      });
      const options = { type: type === undefined ? undefined : messageType(read, type), ...rest };
      return node.agentById(read.string('as')).send(recipient(read, node), read.value('payload'), options);
    },
    request(params, { signal }) {
      const read = new Params(params);
      const { timeoutMs } = read.optional({ timeoutMs: 'number' });
      const options = { timeoutMs, signal };
      return node.agentById(read.string('as')).request(recipient(read, node), read.value('payload'), options);
    },
    broadcast(params) {
      const read = new Params(params);
      return node.agentById(read.string('as')).broadcast(read.value('payload'));
    },
    // With `messages`, one event for each message, with its payload, and whatever is no message.
    tail(params, context) {
      const kinds = { type: 'string', agent: 'string', messages: 'boolean' } as const;
      const { type, agent, messages = false } = new Params(params).optional(kinds);
      if (type !== undefined) requireEventType(type);
      return follow(observability, context, (event) => {
        return (
          (type === undefined || event.type === type || event.topic === type) &&
          (agent === undefined || concerns(event, agent)) &&
          !(messages && isPartOfMessage(event))
        );
      });
    },
    metrics() {
      return observability.getMetrics();
    },
    'metrics.text'() {
      return node.metricsText();
    },
    policy(params) {
      const read = new Params(params);
      const { type, justification } = read.optional({ type: 'string', justification: 'string' });
      const asked = type === undefined ? 'request' : messageType(read, type);
      return router.explain(read.string('from'), inFull(read.string('to'), node), asked, justification);
    },
    ...threadMethods(node),
    ...mailMethods(node),
    ...negotiationMethods({
      agents: () => node.agents,
      agentById: (id) => node.agentById(id),
      operator: () => node.operator(),
      inFull: (address) => inFull(address, node),
    }),
    ...mcpMethods({ mcp: node.mcp, registry, gateway, inFull: (address) => inFull(address, node) }),
    ...mcpSessionMethods({ mcp: node.mcp, registry, gateway }),
    ...taskMethods(node, gateway),
    ...stateMethods(node),
    ...runMethods(loop),
    ...swarmMethods(node),
    ...recordMethods(
      () => node.records,
      (id) => codingAgents().ownerWords(id),
    ),
    ...upstreamMethods(upstreams),
    ...approvalMethods(components.approvals),
    ...laneMethods(components.lanes, node.providers),
    ...providerMethods(node),
    ...credentialMethods(credentials),
    ...codingAgentMethods(codingAgents, wakes, registry),
    ...leaseMethods(codingAgents),
    ...wakeMethods(wakes),
    ...networkMethods(
      () => {
        if (node.network) return node.network;
        throw new EclipticError('NO_MESH', 'this node was started without a network');
      },
      () => [
        ...(node.mail?.diagnose() ?? []),
        ...upstreamFindings(upstreams),
        ...providerFindings(node.providers),
        ...staffingFindings(registry.getLocalCards(), node.providers),
        ...components.agentFindings(),
        ...connectionFindings(gateway().connections),
      ],
    ),
    down() {
      shutDown();
    },
  };
}

function describeAgent(
  card: AgentCard,
  failures: ReadonlyMap<string, EclipticError>,
  network: Network | undefined,
): AgentRow {
  const failure = card.origin === 'local' ? failures.get(card.id) : undefined;
  const unreachable = card.node !== undefined && network?.peers.reachable(card.node) === false;
  return {
    id: card.id,
    name: card.name,
    tier: card.tier,
    capabilities: card.capabilities.map(({ id }) => id),
    sandbox: card.sandboxId ?? null,
    origin: card.origin,
    node: card.node ?? null,
    description: card.description,
    state: failure ? 'failed' : unreachable ? 'unreachable' : (card.status?.state ?? 'ready'),
    failure: failure?.message ?? null,
    reason: failure?.message ?? card.status?.reason ?? null,
  };
}

function recipient(params: Params, node: ControlledNode): Recipient {
  const { capability } = params.optional({ capability: 'string' });
  return capability === undefined ? inFull(params.string('to'), node) : { capability };
}

/** Completes `agent@NODE`, where NODE is a node's name or the beginning of its key. */
function inFull(address: string, { network, mail, registry }: ControlledNode): string {
  const { id, node } = splitAddress(address);
  if (node === undefined || NODE_KEY.test(node) || !network) return address;
  const found = network.matching(node);
  if (found.length === 1 && found[0] === registry.nodeKey) return id;
  // A node that is no longer a peer may still have mail addressed to it.
  if (found.length === 0 && node.length >= MIN_KEY_PREFIX) return mail?.complete(address) ?? address;
  return joinAddress(id, network.find(node).node);
}

function messageType(params: Params, type: string): A2AMessageType {
  return params.oneOf('type', type, A2AMessageTypeSchema.options);
}

/** Types as events have them, or a topic of those that have topics. */
function requireEventType(type: string): void {
  const types = A2ALogEventSchema.shape.type.options;
  if (types.some((known) => known === type) || /^(provider|credential|action)\.[\w.-]+$/.test(type)) return;
  const known = [...types, 'provider.health.changed and other topics of provider, credential and action'];
  throw new EclipticError('USAGE', `there are no events of type "${type}"; there are ${known.join(', ')}`, {
    parameter: 'type',
    types,
  });
}

/** Does another event of the same message say it too? `routing-decision` is the one that tells of each message. */
function isPartOfMessage({ type, code, envelopeId }: A2ALogEvent): boolean {
  if (type === 'message-sent' || type === 'message-received' || type === 'tier-audit') return true;
  if (type === 'security') return envelopeId !== undefined;
  return type === 'routing-decision' && code === 'DELIVERY_FAILED';
}

function concerns(event: A2ALogEvent, agent: string): boolean {
  return event.sender === agent || event.recipient === agent;
}

/** Passes events on until the caller goes away. */
function follow(
  observability: A2AObservability,
  { emit, signal }: CallContext,
  wanted: (event: A2ALogEvent) => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    const stop = observability.subscribeWithPayload((event, payload) => {
      if (wanted(event)) emit(payload === undefined ? event : { ...event, payload });
    });
    signal.addEventListener('abort', () => {
      stop();
      resolve();
    });
  });
}
