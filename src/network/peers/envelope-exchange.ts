import type { ChannelManager } from '../../mesh/channel-manager.js';
import { packEnvelope, unpackEnvelope } from '../../mesh/codec.js';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import type { Carrier, CarryOutcome, ChannelCarrier, ChannelRequest } from '../../mesh/ports.js';
import type { A2ARouter } from '../../mesh/router.js';
import { EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import type { CardExchange } from './card-exchange.js';
import type { Peers } from './peers.js';
import type { PeerProtocol } from './protocol.js';
import { ChannelAnswerSchema, ChannelOpenSchema, ITEM, type Item, malformed, parsed } from './wire.js';

/** Characters of the reason why a channel was not taken. */
const MAX_REASON_CHARS = 1_000;

/** Sends envelopes of this node's agents to other nodes: single messages, and those of channels. */
export class EnvelopeExchange implements Carrier, ChannelCarrier {
  readonly #peers: Peers;
  readonly #cards: CardExchange;

  constructor(peers: Peers, cards: CardExchange) {
    this.#peers = peers;
    this.#cards = cards;
  }

  reachable(node: string): boolean {
    return this.#peers.reachable(node);
  }

  converses(node: string): boolean {
    return this.#peers.get(node)?.conversing === true;
  }

  carry(node: string, envelope: ValidEnvelope, sender: string, recipient: string, outcome: CarryOutcome): void {
    const refusal = this.#cards.whyUnknown(node, sender);
    if (refusal) outcome.refused(refusal);
    else this.#peers.send(node, messageItem(envelope, sender, recipient), outcome);
  }

  transportTo(node: string): 'websocket' | 'hyperswarm' | 'nats' | 'local' {
    const kind = this.#peers.get(node)?.linkKind;
    return kind === 'websocket' || kind === 'hyperswarm' || kind === 'nats' ? kind : 'local';
  }

  open(node: string, { channelId, from, to }: ChannelRequest): Promise<void> {
    const refusal = this.reachable(node)
      ? this.#cards.whyUnknown(node, from)
      : new EclipticError('AGENT_UNAVAILABLE', `there is no link to node ${node}`);
    return refusal ? Promise.reject(refusal) : this.#send(node, [ITEM.channelOpen, channelId, from, to]);
  }

  answer(node: string, channelId: string, refusal: string | undefined): Promise<void> {
    const reason = refusal === undefined ? null : cutText(refusal, MAX_REASON_CHARS);
    return this.#send(node, [ITEM.channelAnswer, channelId, reason]);
  }

  deliver(node: string, channelId: string, envelope: ValidEnvelope): Promise<void> {
    const text = `["${ITEM.channelMessage}",${JSON.stringify(channelId)},${packEnvelope(envelope)}]`;
    return this.#peers.sendConfirmed(node, text);
  }

  close(node: string, channelId: string): Promise<void> {
    return this.#send(node, [ITEM.channelClose, channelId]);
  }

  #send(node: string, item: Item): Promise<void> {
    return this.#peers.sendConfirmed(node, JSON.stringify(item));
  }
}

/**
 * An envelope as an item, with these addresses for its ends. As one array literal: that is the quickest way to write it, and the
 * texts of its parts would be garbage.
 */
function messageItem(envelope: ValidEnvelope, sender: string, recipient: string): string {
  const { schemaVersion: version, id, type, timestamp, payload, correlationId: thread, metadata } = envelope;
  const kind = ITEM.message;
  if (metadata !== undefined) {
    const about = thread ?? null;
    return JSON.stringify([kind, version, id, sender, recipient, type, timestamp, payload, about, metadata]);
  }
  if (thread === undefined) return JSON.stringify([kind, version, id, sender, recipient, type, timestamp, payload]);
  return JSON.stringify([kind, version, id, sender, recipient, type, timestamp, payload, thread]);
}

/** Hands messages from other nodes to the router. */
export function messageProtocol(router: A2ARouter, cards: CardExchange): PeerProtocol {
  return {
    kinds: [ITEM.message],
    // The sender may have left while its message waited.
    whyNot: (node, [, , , sender]) => cards.whyUnknown(node, sender as string),
    take(node, item) {
      const result = router.take(unpackEnvelope(item, 1), node);
      if (!result.delivered) throw new EclipticError(result.error as ErrorCode, result.reason ?? 'it was refused');
    },
  };
}

/** Hands what other nodes say of channels to the channel manager. */
export function channelProtocol({ remote }: ChannelManager, peers: Peers, cards: CardExchange): PeerProtocol {
  return {
    kinds: [ITEM.channelOpen, ITEM.channelAnswer, ITEM.channelMessage, ITEM.channelClose],
    connected: (node) => remote?.peerChanged(node, 'resumed'),
    interrupted: (node) => remote?.peerChanged(node, 'interrupted'),
    ended: (node) => remote?.peerChanged(node, 'lost'),
    busy: (node) => remote?.isOpen(node) === true,
    // The agent that asks for the channel may have left while it waited.
    whyNot: (node, [kind, , from]) => (kind === ITEM.channelOpen ? cards.whyUnknown(node, from as string) : undefined),
    take(node, item) {
      const [kind, channelId] = item;
      if (typeof channelId !== 'string') throw malformed('a channel has no id');
      try {
        if (kind === ITEM.channelMessage) remote!.received(node, channelId, unpackEnvelope(item, 2));
        else if (kind === ITEM.channelOpen) {
          const [, from, to] = parsed(ChannelOpenSchema, item.slice(1));
          void remote!.requested(node, { channelId, from, to });
        } else if (kind === ITEM.channelAnswer) {
          const [, refusal] = parsed(ChannelAnswerSchema, item.slice(1));
          remote!.answered(node, channelId, refusal ?? undefined);
        } else remote!.closed(node, channelId);
      } catch (error) {
        // A message under a name that is not the node's own.
        if (error instanceof EclipticError && error.details.forged) peers.report(node, error.code, error.message);
        throw error;
      }
    },
  };
}
