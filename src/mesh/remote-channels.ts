import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { splitAddress } from './address.js';
import type { A2AChannel } from './channel.js';
import type { EnvelopeFactory, ValidEnvelope } from './envelope.js';
import type { ChannelCarrier, ChannelRequest, ChannelTransport } from './ports.js';
import type { AgentRegistry } from './registry.js';
import type { A2ARouter } from './router.js';

export interface RemoteChannelsComponents {
  runtime: Runtime;
  factory: EnvelopeFactory;
  registry: AgentRegistry;
  router: A2ARouter;
  carrier: ChannelCarrier;
  /** Makes this node's end of a channel. */
  makeEnd: (id: string, localAgentId: string, remoteAgentId: string, transport: ChannelTransport) => A2AChannel;
  /** Asks the agent whether it accepts the channel; resolves with the reason of a refusal, or undefined. */
  ask: (channel: A2AChannel) => Promise<string | undefined>;
  acknowledgeMs: number;
}

/** Channels that one node may have open with this one. */
const MAX_PER_NODE = 1_000;

interface RemoteEnd {
  readonly node: string;
  readonly channel: A2AChannel;
  /** Set while the other node's answer is awaited. */
  answered: ((refusal: string | undefined) => void) | undefined;
}

/** This node's ends of channels whose other end is on another node. */
export class RemoteChannels {
  readonly #components: RemoteChannelsComponents;
  /** By node and id, because another node chooses the ids of the channels that it opens. */
  readonly #ends = new Map<string, RemoteEnd>();

  constructor(components: RemoteChannelsComponents) {
    this.#components = components;
  }

  get channels(): A2AChannel[] {
    return [...this.#ends.values()].map(({ channel }) => channel);
  }

  /** Opens a channel to an agent of another node. Resolves once that agent has accepted it. */
  async open(local: string, address: string): Promise<A2AChannel> {
    const { runtime, router, factory, carrier, acknowledgeMs } = this.#components;
    const { id: to, node } = splitAddress(address) as { id: string; node: string };
    router.admit(factory.create({ sender: local, recipient: address, type: 'notification', payload: null }));
    const channelId = runtime.id();
    const end = this.#add(node, channelId, local, address);
    const refusal = await new Promise<string | undefined>((resolve) => {
      const giveUp = () => resolve(`no acknowledgement within ${acknowledgeMs} ms`);
      const timer = runtime.setTimer(giveUp, acknowledgeMs);
      end.answered = (why) => {
        timer.cancel();
        resolve(why);
      };
      end.channel.onStatus(() => end.answered?.('it was closed while opening'));
      carrier.open(node, { channelId, from: local, to }).catch((error) => end.answered?.(describeError(error)));
    });
    end.answered = undefined;
    return end.channel.acknowledge(refusal);
  }

  /** Handles another node's request for a channel. Throws if it names an agent that is not its own. */
  requested(node: string, request: ChannelRequest): Promise<void> {
    if (!this.#components.registry.entry(`${request.from}@${node}`)) {
      throw forged(`node ${node} has no announced agent "${request.from}"`);
    }
    return this.#consider(node, request);
  }

  async #consider(node: string, { channelId, from, to }: ChannelRequest): Promise<void> {
    const { router, factory, carrier, registry, ask } = this.#components;
    let refusal: string | undefined;
    let end: RemoteEnd | undefined;
    try {
      const sender = `${from}@${node}`;
      const target = registry.ownEntry(to);
      if (!target) throw new EclipticError('AGENT_NOT_FOUND', `there is no agent "${to}"`);
      if (this.#countOf(node) >= MAX_PER_NODE) throw new EclipticError('QUEUE_FULL', 'too many channels are open');
      if (this.#ends.has(keyOf(node, channelId))) throw new EclipticError('CHANNEL_CLOSED', 'there is such a channel');
      router.admit(factory.create({ sender, recipient: target.address, type: 'notification', payload: null }));
      end = this.#add(node, channelId, target.address, sender);
      refusal = await ask(end.channel);
    } catch (error) {
      refusal = describeError(error);
    }
    // Messages may follow the answer at once, so this end opens first.
    if (refusal === undefined && end?.channel.status === 'connecting') end.channel.report({ type: 'acknowledged' });
    await carrier.answer(node, channelId, refusal).catch(() => {});
    if (refusal !== undefined && end && end.channel.status !== 'closed') end.channel.report({ type: 'closed' });
  }

  answered(node: string, channelId: string, refusal: string | undefined): void {
    this.#ends.get(keyOf(node, channelId))?.answered?.(refusal);
  }

  /** Delivers an envelope from the other end. Throws if it is refused. */
  received(node: string, channelId: string, wire: ValidEnvelope): void {
    const end = this.#ends.get(keyOf(node, channelId));
    if (!end || end.channel.status === 'closed') throw new EclipticError('CHANNEL_CLOSED', 'there is no such channel');
    const { localAgentId, remoteAgentId } = end.channel;
    const claimed = splitAddress(wire.sender);
    const envelope = wire.readdress(`${claimed.id}@${node}`, wire.recipient);
    if (
      (claimed.node !== undefined && claimed.node !== node) ||
      envelope.sender !== remoteAgentId ||
      envelope.recipient !== localAgentId
    ) {
      throw forged(`channel ${channelId} is not between these agents`);
    }
    const onDelivered = this.#components.router.admit(envelope);
    end.channel.accept(envelope);
    onDelivered();
  }

  closed(node: string, channelId: string): void {
    const end = this.#ends.get(keyOf(node, channelId));
    if (end && end.channel.status !== 'closed') end.channel.report({ type: 'closed' });
  }

  /** Is a channel to an agent of that node open? */
  isOpen(node: string): boolean {
    return [...this.#ends.values()].some((end) => end.node === node && end.channel.status !== 'closed');
  }

  peerChanged(node: string, change: 'interrupted' | 'resumed' | 'lost'): void {
    for (const { node: other, channel } of [...this.#ends.values()]) {
      if (other !== node) continue;
      if (change === 'lost' && channel.status !== 'closed') channel.report({ type: 'closed' }, lost(node));
      if (change === 'interrupted' && channel.status === 'open') channel.report({ type: 'disconnected' });
      if (change === 'resumed' && channel.status === 'reconnecting') channel.report({ type: 'reconnected' });
    }
  }

  #countOf(node: string): number {
    return [...this.#ends.values()].reduce((count, end) => (end.node === node ? count + 1 : count), 0);
  }

  #add(node: string, channelId: string, local: string, remote: string): RemoteEnd {
    const { carrier, makeEnd } = this.#components;
    let attempt: { envelope: ValidEnvelope; outcome: Promise<void> } | undefined;
    const { id: remoteId } = splitAddress(remote);
    const channel = makeEnd(channelId, local, remote, {
      kind: carrier.transportTo(node),
      deliver: (envelope) => {
        // A retry while the node is silent joins the attempt that still waits for it.
        if (attempt?.envelope === envelope) return attempt.outcome;
        const outcome = carrier.deliver(node, channelId, envelope.readdress(local, remoteId)).finally(() => {
          if (attempt?.envelope === envelope) attempt = undefined;
        });
        attempt = { envelope, outcome };
        return outcome;
      },
      // This end does not wait until the other end has learned of it.
      close: () => void carrier.close(node, channelId).catch(() => {}),
    });
    const end: RemoteEnd = { node, channel, answered: undefined };
    this.#ends.set(keyOf(node, channelId), end);
    channel.onStatus((status) => {
      if (status === 'closed') this.#ends.delete(keyOf(node, channelId));
    });
    return end;
  }
}

/** Another node used the address of an agent that is not its own, or not of this channel. Not reported yet. */
function forged(reason: string): EclipticError {
  return new EclipticError('SENDER_REFUSED', reason, { forged: true });
}

function lost(node: string): EclipticError {
  return new EclipticError('DELIVERY_FAILED', `node ${node} is lost`);
}

function keyOf(node: string, channelId: string): string {
  return `${node} ${channelId}`;
}
