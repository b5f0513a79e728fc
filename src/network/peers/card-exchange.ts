import { STAND_IN_PROTOCOL } from '../../mesh/registry-index.js';
import type { AgentCard } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import {
  type AnnouncedCard,
  announceCard,
  CardReader,
  checkGrant,
  permits,
  signCard,
  signCards,
} from '../membership/signed-cards.js';
import type { Peer } from './peer.js';
import type { ExchangeComponents } from './peers.js';
import type { PeerProtocol } from './protocol.js';
import { CardsSchema, DIRECTORY, IdsSchema, ITEM, type Item, malformed, parsed } from './wire.js';

/** Cards in one item, and one card alone: a frame must hold them, in UTF-8. */
const CHUNK_CHARS = 262_144;
const MAX_CARD_BYTES = 1_048_576;
const MAX_CHUNK = 1_000;
/** Refused cards in one conversation after which the peer counts as hostile. */
const MAX_REFUSED = 32;
const MAX_CARDS = 10_000;

interface CardExchangeComponents extends ExchangeComponents {
  /** A card of this node has changed. */
  changed: () => void;
}

/** The state of one conversation. */
interface Exchanged {
  /** Agents of this node that the peer was told of. */
  readonly told: Set<string>;
  /** Agents that the peer has named in the list of all its cards, until the list is complete. */
  named: Set<string> | undefined;
  refused: number;
}

/** Sends this node's cards to its peers, all of them at first and each change after, and takes theirs. */
export class CardExchange implements PeerProtocol {
  readonly kinds = [ITEM.cards, ITEM.cardsGone];
  readonly #components: CardExchangeComponents;
  readonly #announced = new WeakMap<AgentCard, AnnouncedCard>();
  /** Cards with a signature of their own, for nodes that do not know lists with one. */
  readonly #signed = new WeakMap<AgentCard, string>();
  readonly #readers = new WeakMap<Peer, CardReader>();
  readonly #exchanged = new Map<string, Exchanged>();
  #stopWatching: (() => void) | undefined;

  constructor(components: CardExchangeComponents) {
    this.#components = components;
  }

  start(): void {
    const { registry, peers } = this.#components;
    this.#stopWatching ??= registry.onLocalChange((id, card) => {
      this.#components.changed();
      for (const peer of peers.conversing) peers.guard(() => this.#announce(peer, id, card));
    });
  }

  stop(): void {
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }

  began(node: string): void {
    const peer = this.#components.peers.get(node)!;
    const cards = this.#components.registry.getLocalCards().filter((card) => this.#mayKnow(peer, card));
    this.#exchanged.set(node, { told: new Set(cards.map(({ id }) => id)), named: undefined, refused: 0 });
    let chunk: AgentCard[] = [];
    let chars = 0;
    for (const card of cards) {
      const { length } = this.#announcement(card).text;
      if (chunk.length > 0 && (chars + length > CHUNK_CHARS || chunk.length === MAX_CHUNK)) {
        peer.send(this.#item(peer, 'more', chunk));
        chunk = [];
        chars = 0;
      }
      chunk.push(card);
      chars += length;
    }
    peer.send(this.#item(peer, 'last', chunk));
  }

  ended(node: string): void {
    this.#exchanged.delete(node);
  }

  take(node: string, [kind, first, second, third]: Item): void {
    if (kind === ITEM.cards) this.#takeCards(node, first, second, third);
    else for (const id of parsed(IdsSchema, first)) this.#components.registry.unregister(`${id}@${node}`);
  }

  announce(): readonly string[] {
    const { registry, membership } = this.#components;
    const isOpen = (card: AgentCard) =>
      permits(membership.grant, card) &&
      !registry.policy.isConfined(card.id) &&
      !card.protocols.includes(STAND_IN_PROTOCOL);
    const cards = registry.getLocalCards().filter(isOpen);
    return [`["${ITEM.cards}","last",[${cards.map((card) => this.#announcement(card).text).join(',')}]]`];
  }

  learn(node: string, items: readonly Item[]): void {
    const { registry, runtime, peers } = this.#components;
    const peer = peers.get(node);
    const values = items.flatMap(([, , cards]) => parsed(CardsSchema, cards));
    const cardAt = peer && this.#reader(peer).readProven(values);
    const named = new Set<string>();
    for (let index = 0; index < values.length; index++) {
      try {
        const card = cardAt!(index);
        checkGrant(card, node, peer!.grant!);
        registry.mergeChecked({ ...card, lastSeenAt: runtime.now() }, node, true);
        named.add(card.id);
      } catch (error) {
        const { code, message } = error as EclipticError;
        peers.report(node, code, message);
      }
    }
    registry.forgetNode(node, named);
  }

  /** Was that node told of this agent? A node takes messages of an agent that it does not know for forgeries. */
  isTold(node: string, agent: string): boolean {
    return this.#exchanged.get(node)?.told.has(agent) === true;
  }

  /** Why an agent cannot send to a node that it is in touch with: the grant or a sandbox hides the agent from it. */
  whyUnknown(node: string, agent: string): EclipticError | undefined {
    const exchanged = this.#exchanged.get(node);
    if (exchanged ? exchanged.told.has(agent) : this.#willTell(node, agent)) return undefined;
    const reason = `node ${node} may not know of "${agent}", so "${agent}" cannot speak to its agents`;
    return new EclipticError('NOT_GRANTED', reason, { outcome: 'not-delivered' });
  }

  /** Will a conversation with that node, which has not begun, tell it of this agent? */
  #willTell(node: string, agent: string): boolean {
    const peer = this.#components.peers.get(node);
    const card = this.#components.registry.getLocalCards().find(({ id }) => id === agent);
    return !peer || !card || this.#mayKnow(peer, card);
  }

  /** Tells a node of an agent that has left this one, until the returned function is called. */
  introduce(node: string, card: AgentCard): () => void {
    const peer = this.#components.peers.get(node);
    if (!peer?.conversing || this.isTold(node, card.id)) return () => {};
    this.#announce(peer, card.id, card);
    return () => this.#announce(peer, card.id, undefined);
  }

  /** Tells a peer of one card that is new, changed or gone. */
  #announce(peer: Peer, id: string, card: AgentCard | undefined): void {
    const told = this.#exchanged.get(peer.node)?.told;
    if (!told) return;
    if (card && this.#mayKnow(peer, card)) {
      told.add(id);
      peer.send(this.#item(peer, 'change', [card]));
    } else if (told.delete(id)) peer.send(JSON.stringify([ITEM.cardsGone, [id]]));
  }

  /** Takes cards from a peer. A card that is refused is reported, and the others are taken. */
  #takeCards(node: string, phase: unknown, cards: unknown, signature: unknown): void {
    if (phase !== 'more' && phase !== 'last' && phase !== 'change') throw malformed('the cards have no phase');
    const { registry, runtime, peers } = this.#components;
    const peer = peers.get(node);
    const exchanged = this.#exchanged.get(node);
    if (!peer?.grant || !exchanged) return;
    const { grant } = peer;
    const values = parsed(CardsSchema, cards);
    const cardAt = this.#readCards(peer, values, signature);
    const named = phase === 'change' ? undefined : (exchanged.named ?? new Set<string>());
    let count = named ? named.size : registry.countOf(node);
    // A restarted node names all its cards before its old ones go; it does so once, not again and again.
    if (named?.size === 0 && registry.countOf(node) > MAX_CARDS) registry.forgetNode(node);
    for (let index = 0; index < values.length; index++) {
      try {
        const card = cardAt(index);
        checkGrant(card, node, grant);
        const known = registry.entry(`${card.id}@${node}`) !== undefined;
        if ((!known || named?.has(card.id) === false) && ++count > MAX_CARDS) {
          throw new EclipticError('CARD_REFUSED', `node ${node} has more than ${MAX_CARDS} cards`);
        }
        registry.mergeChecked({ ...card, lastSeenAt: runtime.now() }, node, named !== undefined);
        named?.add(card.id);
      } catch (error) {
        const { code, message } = error as EclipticError;
        peers.report(node, code, message);
        if (++exchanged.refused >= MAX_REFUSED) throw malformed(`${exchanged.refused} of its cards were refused`);
      }
    }
    if (named) exchanged.named = named;
    if (phase !== 'last') return;
    exchanged.named = undefined;
    registry.forgetNode(node, named);
  }

  #readCards(peer: Peer, values: readonly unknown[], signature: unknown): (index: number) => AgentCard {
    const reader = this.#reader(peer);
    if (signature !== undefined) return reader.readList(values, signature);
    return (index) => reader.readSigned(values[index]);
  }

  #reader(peer: Peer): CardReader {
    const reader = this.#readers.get(peer) ?? new CardReader(peer.node);
    this.#readers.set(peer, reader);
    return reader;
  }

  #item(peer: Peer, phase: 'more' | 'last' | 'change', cards: readonly AgentCard[]): string {
    const head = `"${ITEM.cards}","${phase}"`;
    if (peer.protocol < DIRECTORY) return `[${head},[${cards.map((card) => this.#sign(card)).join(',')}]]`;
    const announced = cards.map((card) => this.#announcement(card));
    const signature = signCards(
      this.#components.identity,
      announced.map(({ digest }) => digest),
    );
    return `[${head},[${announced.map(({ text }) => text).join(',')}],"${signature}"]`;
  }

  #announcement(card: AgentCard): AnnouncedCard {
    const announced = this.#announced.get(card) ?? announceCard(this.#components.identity, card);
    this.#announced.set(card, announced);
    return announced;
  }

  #sign(card: AgentCard): string {
    const signed = this.#signed.get(card) ?? JSON.stringify(signCard(this.#components.identity, card));
    this.#signed.set(card, signed);
    return signed;
  }

  #mayKnow(peer: Peer, card: AgentCard): boolean {
    const { registry, membership } = this.#components;
    if (card.protocols.includes(STAND_IN_PROTOCOL)) return false;
    if (!permits(membership.grant, card) || Buffer.byteLength(this.#announcement(card).text) > MAX_CARD_BYTES)
      return false;
    return registry.mayAnnounce(card, peer.node, peer.grant?.sandboxes);
  }
}
