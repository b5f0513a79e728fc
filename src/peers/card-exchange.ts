import type { AgentRegistry } from '../a2a/registry.js';
import type { AgentCard } from '../a2a/schemas.js';
import type { Identity } from '../membership/identity.js';
import type { Membership } from '../membership/membership.js';
import { checkSignedCard, permits, type SignedCard, signCard } from '../membership/signed-card.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Peer } from './peer.js';
import { CardsSchema, IdsSchema, malformed, parsed } from './wire.js';

export interface CardExchangeComponents {
  runtime: Runtime;
  identity: Identity;
  registry: AgentRegistry;
  membership: Membership;
  /** Told of a card that is refused. */
  onRefused: (peer: Peer, error: EclipticError) => void;
}

/** Cards in one item. */
const CHUNK = 64;
/** Cards of one node. */
const MAX_CARDS = 10_000;

/** Tells peers of this node's cards, all of them at first and each change after, and takes theirs. */
export class CardExchange {
  readonly #components: CardExchangeComponents;
  readonly #signed = new WeakMap<AgentCard, SignedCard>();
  /** What each peer was told. */
  readonly #told = new Map<Peer, Set<string>>();
  /** What each peer has said since it began to name all its cards. */
  readonly #named = new Map<Peer, Set<string>>();

  constructor(components: CardExchangeComponents) {
    this.#components = components;
  }

  /** Tells a peer, with which a conversation begins, of every card that it may know. */
  announceAll(peer: Peer): void {
    const cards = this.#components.registry.getLocalCards().filter((card) => this.#mayKnow(peer, card));
    this.#told.set(peer, new Set(cards.map(({ id }) => id)));
    for (let at = 0; at === 0 || at < cards.length; at += CHUNK) {
      const chunk = cards.slice(at, at + CHUNK).map((card) => this.#sign(card));
      peer.post(JSON.stringify(['c', at + CHUNK < cards.length ? 'more' : 'last', chunk]));
    }
  }

  /** Tells a peer of one card that is new, changed or gone. */
  announce(peer: Peer, id: string, card: AgentCard | undefined): void {
    const told = this.#told.get(peer);
    if (!told) return;
    if (card && this.#mayKnow(peer, card)) {
      told.add(id);
      peer.post(JSON.stringify(['c', 'change', [this.#sign(card)]]));
    } else if (told.delete(id)) peer.post(JSON.stringify(['g', [id]]));
  }

  /** Takes cards from a peer. One that is refused is reported, and the others are taken. */
  take(peer: Peer, phase: unknown, cards: unknown): void {
    if (phase !== 'more' && phase !== 'last' && phase !== 'change') throw malformed('the cards have no phase');
    const { registry, runtime, onRefused } = this.#components;
    const named = phase === 'change' ? undefined : (this.#named.get(peer) ?? new Set<string>());
    for (const value of parsed(CardsSchema, cards)) {
      try {
        const card = checkSignedCard(value, peer.node, peer.grant!);
        const known = registry.entry(`${card.id}@${peer.node}`) !== undefined;
        if (!known && (named?.size ?? registry.countOf(peer.node)) >= MAX_CARDS) {
          throw new EclipticError('CARD_REFUSED', `node ${peer.node} has more than ${MAX_CARDS} cards`);
        }
        registry.mergeRemote({ ...card, lastSeenAt: runtime.now() }, peer.node, named !== undefined);
        named?.add(card.id);
      } catch (error) {
        onRefused(peer, error as EclipticError);
      }
    }
    if (named) this.#named.set(peer, named);
    if (phase !== 'last') return;
    this.#named.delete(peer);
    registry.forgetNode(peer.node, named);
  }

  /** A peer says that agents of it are gone. */
  takeGone(peer: Peer, ids: unknown): void {
    for (const id of parsed(IdsSchema, ids)) this.#components.registry.unregister(`${id}@${peer.node}`);
  }

  /** The conversation with a peer is over. */
  end(peer: Peer): void {
    this.#told.delete(peer);
    this.#named.delete(peer);
  }

  #sign(card: AgentCard): SignedCard {
    const signed = this.#signed.get(card) ?? signCard(this.#components.identity, card);
    this.#signed.set(card, signed);
    return signed;
  }

  #mayKnow(peer: Peer, card: AgentCard): boolean {
    const { registry, membership } = this.#components;
    return permits(membership.grant, card) && registry.mayAnnounce(card, peer.node, peer.grant?.sandboxes);
  }
}
