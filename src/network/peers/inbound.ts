import type { ChannelManager } from '../../mesh/channel-manager.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import type { A2ARouter } from '../../mesh/router.js';
import { EclipticError, type ErrorCode } from '../../runtime/errors.js';
import { type Removal, RemovalSchema } from '../membership/removal.js';
import type { CardExchange } from './card-exchange.js';
import type { Peer } from './peer.js';
import {
  ChannelAnswerSchema,
  ChannelOpenSchema,
  type Item,
  type Known,
  KnownSchema,
  malformed,
  parsed,
} from './wire.js';

/** Who takes items of certain kinds, and is told when a conversation begins and ends. */
export interface PeerService<Kind extends string> {
  began(node: string): void;
  ended(node: string): void;
  take(node: string, kind: Kind, rest: readonly unknown[]): void;
}

/** Durable mail. */
export interface PeerMail extends PeerService<'s' | 't' | 'u' | 'v'> {
  /** That node is no longer a member. */
  removed(node: string): void;
}
/** What agents offer over MCP, and calls of it. */
export type PeerOffers = PeerService<'e'>;
/** Who shares which documents. */
export type PeerDocuments = PeerService<'w'>;
/** Who has reserved which files. */
export type PeerLeases = PeerService<'l'>;

export interface InboundComponents {
  router: A2ARouter;
  channels: ChannelManager;
  cards: CardExchange;
  mail: () => PeerMail | undefined;
  offers: () => PeerOffers | undefined;
  documents: () => PeerDocuments | undefined;
  leases: () => PeerLeases | undefined;
  onRemoval: (peer: Peer, removal: Removal) => void;
  onKnown: (peer: Peer, known: Known) => void;
  onRenewal: (peer: Peer, chain: unknown) => void;
  /** A peer says that two processes run with this node's key. */
  onDoubled: (peer: Peer) => void;
  /** A channel message under a name that is not the peer's own. */
  onForgery: (peer: Peer, error: EclipticError) => void;
}

/** Takes each item that a peer sent to where it belongs. What it throws is why the item is refused. */
export class Inbound {
  readonly #components: InboundComponents;

  constructor(components: InboundComponents) {
    this.#components = components;
  }

  take(peer: Peer, item: Item): void {
    const { cards, onRemoval, onKnown, onRenewal } = this.#components;
    switch (item[0]) {
      case 'm':
        this.#message(peer, item);
        break;
      case 'c':
        cards.take(peer, item[1], item[2]);
        break;
      case 'g':
        cards.takeGone(peer, item[1]);
        break;
      case 'o':
      case 'y':
      case 'x':
      case 'z':
        try {
          this.#channel(peer, item);
        } catch (error) {
          if (error instanceof EclipticError && error.details.forged) this.#components.onForgery(peer, error);
          throw error;
        }
        break;
      case 'r':
        onRemoval(peer, parsed(RemovalSchema, item[1]));
        break;
      case 'k':
        onKnown(peer, parsed(KnownSchema, item[1]));
        break;
      case 's':
      case 't':
      case 'u':
      case 'v':
        this.#mail(peer, item[0], item.slice(1));
        break;
      case 'e':
        this.#offers(peer, item.slice(1));
        break;
      case 'w':
        this.#components.documents()?.take(peer.node, 'w', item.slice(1));
        break;
      case 'l':
        this.#leases(peer, item.slice(1));
        break;
      case 'i':
        this.#components.onDoubled(peer);
        break;
      case 'n':
        onRenewal(peer, item[1]);
        break;
      default:
        throw malformed(`there is no item "${item[0].slice(0, 20)}"`);
    }
  }

  #mail({ node }: Peer, kind: 's' | 't' | 'u' | 'v', rest: readonly unknown[]): void {
    const mail = this.#components.mail();
    if (!mail) throw new EclipticError('STORE_REQUIRED', 'this node keeps no durable mail');
    mail.take(node, kind, rest);
  }

  #offers({ node }: Peer, rest: readonly unknown[]): void {
    const offers = this.#components.offers();
    if (!offers) throw new EclipticError('METHOD_NOT_FOUND', 'this node takes no part in sharing tools');
    offers.take(node, 'e', rest);
  }

  #leases({ node }: Peer, rest: readonly unknown[]): void {
    const leases = this.#components.leases();
    if (!leases) throw new EclipticError('METHOD_NOT_FOUND', 'this node takes no part in leases');
    leases.take(node, 'l', rest);
  }

  #message({ node }: Peer, item: Item): void {
    const result = this.#components.router.take(unpackEnvelope(item, 1), node);
    if (!result.delivered) throw new EclipticError(result.error as ErrorCode, result.reason ?? 'it was refused');
  }

  #channel({ node }: Peer, item: Item): void {
    const remote = this.#components.channels.remote!;
    const channelId = item[1];
    if (typeof channelId !== 'string') throw malformed('a channel has no id');
    switch (item[0]) {
      case 'x':
        remote.received(node, channelId, unpackEnvelope(item, 2));
        break;
      case 'o': {
        const [, from, to] = parsed(ChannelOpenSchema, item.slice(1));
        void remote.requested(node, { channelId, from, to });
        break;
      }
      case 'y': {
        const [, refusal] = parsed(ChannelAnswerSchema, item.slice(1));
        remote.answered(node, channelId, refusal ?? undefined);
        break;
      }
      default:
        remote.closed(node, channelId);
    }
  }
}
