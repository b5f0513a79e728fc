import type { AgentCard } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import { checkSignedCard, permits, signCard } from '../membership/announcements.js';
import type { Peer } from './peer.js';
import type { ExchangeComponents } from './peers.js';
import type { PeerProtocol } from './protocol.js';
import { CardsSchema, IdsSchema, ITEM, type Item, malformed, parsed } from './wire.js';

/** Cards in one item, and one card alone: a frame must hold them, in UTF-8. */
const CHUNK_CHARS = 262_144;
const MAX_CARD_BYTES = 1_048_576;
/** Refused cards in one conversation after which the peer counts as hostile. */
const MAX_REFUSED = 32;
const MAX_CARDS = 10_000;

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
  readonly #components: ExchangeComponents;
  readonly #signed = new WeakMap<AgentCard, string>();
  readonly #exchanged = new Map<string, Exchanged>();
  #stopWatching: (() => void) | undefined;

  constructor(components: ExchangeComponents) {
    this.#components = components;
  }

  start(): void {
    const { registry, peers } = this.#components;
    this.#stopWatching ??= registry.onLocalChange((id, card) => {
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
    let chunk: string[] = [];
    let chars = 0;
    for (const card of cards) {
      const text = this.#sign(card);
      if (chars + text.length > CHUNK_CHARS && chunk.length > 0) {
        peer.send(`["${ITEM.cards}","more",[${chunk.join(',')}]]`);
        chunk = [];
        chars = 0;
      }
      chunk.push(text);
      chars += text.length;
    }
    peer.send(`["${ITEM.cards}","last",[${chunk.join(',')}]]`);
  }

  ended(node: string): void {
    this.#exchanged.delete(node);
  }

  take(node: string, [kind, first, second]: Item): void {
    if (kind === ITEM.cards) this.#takeCards(node, first, second);
    else for (const id of parsed(IdsSchema, first)) this.#components.registry.unregister(`${id}@${node}`);
  }

  /** Was that node told of this agent? A node takes messages of an agent that it does not know for forgeries. */
  isTold(node: string, agent: string): boolean {
    return this.#exchanged.get(node)?.told.has(agent) === true;
  }

  /** Why an agent cannot send to a node that it is in touch with: the grant or a sandbox hides the agent from it. */
  whyUnknown(node: string, agent: string): EclipticError | undefined {
    const exchanged = this.#exchanged.get(node);
    if (!exchanged || exchanged.told.has(agent)) return undefined;
    const reason = `node ${node} may not know of "${agent}", so "${agent}" cannot speak to its agents`;
    return new EclipticError('NOT_GRANTED', reason, { outcome: 'not-delivered' });
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
      peer.send(`["${ITEM.cards}","change",[${this.#sign(card)}]]`);
    } else if (told.delete(id)) peer.send(JSON.stringify([ITEM.cardsGone, [id]]));
  }

  /** Takes cards from a peer. A card that is refused is reported, and the others are taken. */
  #takeCards(node: string, phase: unknown, cards: unknown): void {
    if (phase !== 'more' && phase !== 'last' && phase !== 'change') throw malformed('the cards have no phase');
    const { registry, runtime, peers } = this.#components;
    const grant = peers.get(node)?.grant;
    const exchanged = this.#exchanged.get(node);
    if (!grant || !exchanged) return;
    const named = phase === 'change' ? undefined : (exchanged.named ?? new Set<string>());
    let count = named ? named.size : registry.countOf(node);
    // A restarted node names all its cards before its old ones go; it does so once, not again and again.
    if (named?.size === 0 && registry.countOf(node) > MAX_CARDS) registry.forgetNode(node);
    for (const value of parsed(CardsSchema, cards)) {
      try {
        const card = checkSignedCard(value, node, grant);
        const known = registry.entry(`${card.id}@${node}`) !== undefined;
        if ((!known || named?.has(card.id) === false) && ++count > MAX_CARDS) {
          throw new EclipticError('CARD_REFUSED', `node ${node} has more than ${MAX_CARDS} cards`);
        }
        registry.mergeRemote({ ...card, lastSeenAt: runtime.now() }, node, named !== undefined);
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
