import type { AgentRegistry } from '../../mesh/registry.js';
import type { AgentCard } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Identity } from '../membership/identity.js';
import type { Membership } from '../membership/membership.js';
import { checkSignedCard, permits, signCard } from '../membership/signed-card.js';
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

/** Cards in one item, and one card alone: a frame must hold them, in UTF-8. */
const CHUNK_CHARS = 262_144;
const MAX_CARD_BYTES = 1_048_576;
/** Cards of one conversation that may be refused before the peer counts as hostile. */
const MAX_REFUSED = 32;
/** Cards of one node. */
const MAX_CARDS = 10_000;

/** Tells peers of this node's cards, all of them at first and each change after, and takes theirs. */
export class CardExchange {
  readonly #components: CardExchangeComponents;
  readonly #signed = new WeakMap<AgentCard, string>();
  /** What each peer was told. */
  readonly #told = new Map<Peer, Set<string>>();
  /** What each peer has said since it began to name all its cards. */
  readonly #named = new Map<Peer, Set<string>>();
  readonly #refused = new Map<Peer, number>();

  constructor(components: CardExchangeComponents) {
    this.#components = components;
  }

  /** Tells a peer, with which a conversation begins, of every card that it may know. */
  announceAll(peer: Peer): void {
    const cards = this.#components.registry.getLocalCards().filter((card) => this.#mayKnow(peer, card));
    this.#told.set(peer, new Set(cards.map(({ id }) => id)));
    let chunk: string[] = [];
    let chars = 0;
    for (const card of cards) {
      const text = this.#sign(card);
      if (chars + text.length > CHUNK_CHARS && chunk.length > 0) {
        peer.post(`["c","more",[${chunk.join(',')}]]`);
        chunk = [];
        chars = 0;
      }
      chunk.push(text);
      chars += text.length;
    }
    peer.post(`["c","last",[${chunk.join(',')}]]`);
  }

  /** Tells a peer of one card that is new, changed or gone. */
  announce(peer: Peer, id: string, card: AgentCard | undefined): void {
    const told = this.#told.get(peer);
    if (!told) return;
    if (card && this.#mayKnow(peer, card)) {
      told.add(id);
      peer.post(`["c","change",[${this.#sign(card)}]]`);
    } else if (told.delete(id)) peer.post(JSON.stringify(['g', [id]]));
  }

  /** Was that peer told of this agent? What it does not know, it would take for a forgery. */
  isTold(peer: Peer, id: string): boolean {
    return this.#told.get(peer)?.has(id) === true;
  }

  /** Takes cards from a peer. One that is refused is reported, and the others are taken. */
  take(peer: Peer, phase: unknown, cards: unknown): void {
    if (phase !== 'more' && phase !== 'last' && phase !== 'change') throw malformed('the cards have no phase');
    const { registry, runtime, onRefused } = this.#components;
    const named = phase === 'change' ? undefined : (this.#named.get(peer) ?? new Set<string>());
    let count = named ? named.size : registry.countOf(peer.node);
    // A node that started anew names all its cards before its old ones go; it does so once, not again and again.
    if (named?.size === 0 && registry.countOf(peer.node) > MAX_CARDS) registry.forgetNode(peer.node);
    for (const value of parsed(CardsSchema, cards)) {
      try {
        const card = checkSignedCard(value, peer.node, peer.grant!);
        const known = registry.entry(`${card.id}@${peer.node}`) !== undefined;
        if ((!known || named?.has(card.id) === false) && ++count > MAX_CARDS) {
          throw new EclipticError('CARD_REFUSED', `node ${peer.node} has more than ${MAX_CARDS} cards`);
        }
        registry.mergeRemote({ ...card, lastSeenAt: runtime.now() }, peer.node, named !== undefined);
        named?.add(card.id);
      } catch (error) {
        onRefused(peer, error as EclipticError);
        const refused = (this.#refused.get(peer) ?? 0) + 1;
        this.#refused.set(peer, refused);
        if (refused >= MAX_REFUSED) throw malformed(`${refused} of its cards were refused`);
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
    this.#refused.delete(peer);
  }

  #sign(card: AgentCard): string {
    const signed = this.#signed.get(card) ?? JSON.stringify(signCard(this.#components.identity, card));
    this.#signed.set(card, signed);
    return signed;
  }

  #mayKnow(peer: Peer, card: AgentCard): boolean {
    const { registry, membership } = this.#components;
    if (!permits(membership.grant, card) || Buffer.byteLength(this.#sign(card)) > MAX_CARD_BYTES) return false;
    return registry.mayAnnounce(card, peer.node, peer.grant?.sandboxes);
  }
}
