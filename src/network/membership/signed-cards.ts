import { createHash } from 'node:crypto';
import { type AgentCard, checkCard } from '../../mesh/schemas.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Grant } from './certificate.js';
import { type Identity, isSignedBy } from './identity.js';
import { canonicalJson } from './statement.js';

/** A card as it travels to a node that speaks version 1 or 2, with the signature of the agent's node. */
export type SignedCard = readonly [card: object, signature: string];

/** A card as its node announces it, with the digest that the node signs. */
export interface AnnouncedCard {
  readonly text: string;
  readonly digest: string;
}

/** A revision counts the changes of a card in one process; a higher one is made up. */
const MAX_REVISION = 1_000_000_000;
/** Checked cards of one node that are remembered, and their characters. */
const MAX_REMEMBERED = 1_000;
const MAX_REMEMBERED_CHARS = 1_048_576;

const CARD_PURPOSE = 'card';
const CARDS_PURPOSE = 'cards';

export function signCard(identity: Identity, card: AgentCard): SignedCard {
  const said = announced(identity, card);
  return [said, identity.sign(CARD_PURPOSE, said)];
}

export function announceCard(identity: Identity, card: AgentCard): AnnouncedCard {
  const said = announced(identity, card);
  return { text: JSON.stringify(said), digest: digestOf(canonicalJson(said)) };
}

/** One signature for a list of cards. It covers their digests, so that a card can be proven without the others. */
export function signCards(identity: Identity, digests: readonly string[]): string {
  return identity.sign(CARDS_PURPOSE, { node: identity.key, cards: digests });
}

/** Reads a card from another node; throws `CARD_REFUSED` unless that node signed it and its grant allows it. */
export function checkSignedCard(value: unknown, node: string, grant: Grant): AgentCard {
  const card = new CardReader(node).readSigned(value);
  checkGrant(card, node, grant);
  return card;
}

/** Throws `CARD_REFUSED` unless a node with this grant may have such an agent. */
export function checkGrant(card: AgentCard, node: string, grant: Grant): void {
  if (permits(grant, card)) return;
  const where = card.sandboxId === undefined ? 'outside any sandbox' : `in sandbox "${card.sandboxId}"`;
  throw refused(node, `the node may not have an agent of tier ${card.tier} ${where}`);
}

/** May a node with this grant have such an agent? */
export function permits(grant: Grant, card: AgentCard): boolean {
  if (!grant.tiers.includes(card.tier)) return false;
  if (grant.sandboxes === undefined) return true;
  return card.sandboxId !== undefined && grant.sandboxes.includes(card.sandboxId);
}

/**
 * Reads the cards of one node. Each card is checked once: one that comes again, as after a lost link, is recognised by
 * its digest. The memory is the node's own: its cards displace only its cards.
 */
export class CardReader {
  readonly #node: string;
  readonly #remembered = new Map<string, { readonly card: AgentCard; readonly chars: number }>();
  #chars = 0;

  constructor(node: string) {
    this.#node = node;
  }

  /** Reads a card with its own signature. Throws `CARD_REFUSED`. */
  readSigned(value: unknown): AgentCard {
    const [said, signature] = (Array.isArray(value) && value.length === 2 ? value : []) as [unknown, unknown];
    const json = jsonOf(said);
    const known = json && this.#recall(digestOf(json));
    if (known) return known;
    return this.#check(said, json, () => isSigned(this.#node, CARD_PURPOSE, said, signature));
  }

  /** Reads a list of cards with one signature: returns a function that gives the card at an index, or throws `CARD_REFUSED`. */
  readList(cards: readonly unknown[], signature: unknown): (index: number) => AgentCard {
    const jsons = cards.map(jsonOf);
    const digests = jsons.map((json) => (json === undefined ? '' : digestOf(json)));
    let genuine: boolean | undefined;
    const isGenuine = () => {
      genuine ??= isSigned(this.#node, CARDS_PURPOSE, { node: this.#node, cards: digests }, signature);
      return genuine;
    };
    return (index) => this.#recall(digests[index]!) ?? this.#check(cards[index], jsons[index], isGenuine);
  }

  /** Reads a list of cards that is part of a larger text, whose signature has been checked. */
  readProven(cards: readonly unknown[]): (index: number) => AgentCard {
    return (index) => {
      const json = jsonOf(cards[index]);
      return (json && this.#recall(digestOf(json))) || this.#check(cards[index], json, () => true);
    };
  }

  #check(said: unknown, json: string | undefined, isGenuine: () => boolean): AgentCard {
    const node = this.#node;
    const card = readCard(said, node);
    if (card.node !== node) throw refused(node, `it is for an address of node ${card.node}`);
    if (json === undefined || !isGenuine()) throw refused(node, 'its signature is missing or wrong');
    if (card.revision > MAX_REVISION) throw refused(node, `no card has been changed ${card.revision} times`);
    this.#remember(digestOf(json), card, json.length);
    return card;
  }

  #recall(digest: string): AgentCard | undefined {
    const found = this.#remembered.get(digest);
    if (!found) return undefined;
    this.#remembered.delete(digest);
    this.#remembered.set(digest, found);
    return found.card;
  }

  #remember(digest: string, card: AgentCard, chars: number): void {
    this.#remembered.set(digest, { card, chars });
    this.#chars += chars;
    for (const [oldest, { chars: freed }] of this.#remembered) {
      if (this.#remembered.size <= MAX_REMEMBERED && this.#chars <= MAX_REMEMBERED_CHARS) return;
      this.#remembered.delete(oldest);
      this.#chars -= freed;
    }
  }
}

function announced(identity: Identity, card: AgentCard): AgentCard {
  return { ...card, origin: 'remote', node: identity.key };
}

function isSigned(node: string, purpose: string, value: unknown, signature: unknown): boolean {
  return typeof signature === 'string' && isSignedBy(node, purpose, value, signature);
}

function digestOf(json: string): string {
  return createHash('sha256').update(json).digest('base64url');
}

/** Canonical JSON of a value; undefined if it cannot be signed, for example because it is nested too deeply. */
function jsonOf(value: unknown): string | undefined {
  try {
    return canonicalJson(value);
  } catch {
    return undefined;
  }
}

function readCard(said: unknown, node: string): AgentCard {
  try {
    return checkCard(said);
  } catch (error) {
    throw refused(node, describeError(error));
  }
}

function refused(node: string, reason: string): EclipticError {
  return new EclipticError('CARD_REFUSED', `a card of node ${node} is refused: ${reason}`, { node, reason });
}
