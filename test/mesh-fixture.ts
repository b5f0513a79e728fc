import { buildCard } from '../src/agent/agent-init.js';
import { deserializeEnvelope, serializeEnvelope } from '../src/mesh/codec.js';
import type { ValidEnvelope } from '../src/mesh/envelope.js';
import type { EnvelopeHandler } from '../src/mesh/mailbox.js';
import type { Carrier, CarryOutcome } from '../src/mesh/ports.js';
import type { A2ARouter } from '../src/mesh/router.js';
import type {
  A2AEnvelope,
  A2ALogEvent,
  A2AMessageType,
  AgentCard,
  AgentTier,
  EnvelopeMetadata,
  RoutingResult,
} from '../src/mesh/schemas.js';
import { createNode, type EclipticNode, type NodeInit } from '../src/node/compose.js';
import { EclipticError, toEclipticError } from '../src/runtime/errors.js';
import { SimulatedRuntime } from '../src/runtime/simulated-runtime.js';

export interface MeshInit extends Pick<NodeInit, 'tiers' | 'sandbox' | 'limits'> {
  runtime?: SimulatedRuntime;
  /** Default 'here'. */
  key?: string;
}

export interface MemberInit {
  /** Default 3: L3 may open a conversation with every tier. */
  tier?: AgentTier;
  sandbox?: string;
  capabilities?: readonly string[];
  /** Called after the envelope was written down. */
  handler?: EnvelopeHandler;
  /** With `false` the agent is registered, but nothing listens for it. Default true. */
  listens?: boolean;
}

export interface MessageInit {
  /** Default 'notification'. */
  type?: A2AMessageType;
  payload?: unknown;
  thread?: string;
  metadata?: EnvelopeMetadata;
}

/** A node on a simulated clock that records all events and all messages of its agents. */
export class Mesh {
  readonly runtime: SimulatedRuntime;
  readonly node: EclipticNode;
  readonly carrier: MemoryCarrier;
  readonly events: A2ALogEvent[] = [];
  readonly #inboxes = new Map<string, A2AEnvelope[]>();

  constructor(runtime: SimulatedRuntime, node: EclipticNode, carrier: MemoryCarrier) {
    this.runtime = runtime;
    this.node = node;
    this.carrier = carrier;
    node.observability.subscribe((event) => this.events.push(event));
  }

  get router(): A2ARouter {
    return this.node.router;
  }

  join(id: string, init: MemberInit = {}): AgentCard {
    const { tier = 3, sandbox, capabilities } = init;
    const card = this.node.registry.register(buildCard({ id, tier, sandbox, capabilities }, this.runtime.now()));
    if (init.listens !== false) this.listen(id, init.handler);
    return card;
  }

  listen(id: string, handler?: EnvelopeHandler): () => void {
    return this.router.onReceive(id, (envelope) => {
      this.inbox(id).push(envelope);
      return handler?.(envelope);
    });
  }

  send(sender: string, recipient: string, init: MessageInit = {}): Promise<RoutingResult> {
    return this.router.send(this.envelope(sender, recipient, init));
  }

  envelope(sender: string, recipient: string, init: MessageInit = {}): ValidEnvelope {
    const { type = 'notification', payload = null, thread, metadata } = init;
    return this.node.envelopes.create({ sender, recipient, type, payload, correlationId: thread, metadata });
  }

  /** The received messages, in order. */
  inbox(id: string): A2AEnvelope[] {
    const inbox = this.#inboxes.get(id) ?? [];
    this.#inboxes.set(id, inbox);
    return inbox;
  }

  /** How many envelopes handlers of this node got. */
  get handled(): number {
    return [...this.#inboxes.values()].reduce((total, inbox) => total + inbox.length, 0);
  }

  eventsOf(type: A2ALogEvent['type']): A2ALogEvent[] {
    return this.events.filter((event) => event.type === type);
  }
}

/** Carries envelopes as text to the routers of other nodes in this process. */
export class MemoryCarrier implements Carrier {
  readonly #from: string;
  readonly #peers = new Map<string, A2ARouter>();
  /** Called before an envelope is sent; an error that it throws is the reason for the failure. */
  interfere: (envelope: ValidEnvelope) => void | Promise<void> = () => {};

  constructor(from: string) {
    this.#from = from;
  }

  connect(node: string, router: A2ARouter): void {
    this.#peers.set(node, router);
  }

  disconnect(node: string): void {
    this.#peers.delete(node);
  }

  reachable(node: string): boolean {
    return this.#peers.has(node);
  }

  converses(node: string): boolean {
    return this.#peers.has(node);
  }

  carry(node: string, envelope: ValidEnvelope, sender: string, recipient: string, outcome: CarryOutcome): void {
    this.#carry(node, envelope.readdress(sender, recipient)).then(
      () => outcome.taken(),
      (error: unknown) => outcome.refused(toEclipticError(error, 'DELIVERY_FAILED')),
    );
  }

  async #carry(node: string, envelope: ValidEnvelope): Promise<void> {
    await this.interfere(envelope);
    const result = await this.#peers.get(node)!.receive(deserializeEnvelope(serializeEnvelope(envelope)), this.#from);
    if (!result.delivered) throw new EclipticError('DELIVERY_FAILED', `${node} refused it: ${result.error}`);
  }
}

export async function startMesh(init: MeshInit = {}): Promise<Mesh> {
  const { runtime = new SimulatedRuntime(), key = 'here', tiers, sandbox, limits } = init;
  const carrier = new MemoryCarrier(key);
  const node = await createNode({ runtime, nodeKey: key, tiers, sandbox, limits, carrier });
  return new Mesh(runtime, node, carrier);
}

/** Two nodes on one clock, `here` and `there`, that can reach each other. Their agents are still to be announced. */
export async function startPair(init: Omit<MeshInit, 'runtime' | 'key'> = {}): Promise<{ here: Mesh; there: Mesh }> {
  const runtime = new SimulatedRuntime();
  const here = await startMesh({ ...init, runtime, key: 'here' });
  const there = await startMesh({ ...init, runtime, key: 'there' });
  here.carrier.connect('there', there.router);
  there.carrier.connect('here', here.router);
  return { here, there };
}

/** Tells each node about the agents of the other. */
export function introduce(one: Mesh, other: Mesh): void {
  for (const card of one.node.registry.getLocalCards()) other.node.registry.mergeRemote(card, one.node.key);
  for (const card of other.node.registry.getLocalCards()) one.node.registry.mergeRemote(card, other.node.key);
}
