import { type AgentCard, checkCard } from '../../mesh/schemas.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Grant } from './certificate.js';
import { type Identity, isSignedBy } from './identity.js';

/** A card as it travels between nodes, with the signature of the agent's node. */
export type SignedCard = readonly [card: object, signature: string];

/** A revision counts the changes of a card in one process; a higher one is made up. */
const MAX_REVISION = 1_000_000_000;

const CARD_PURPOSE = 'card';
const ADDRESSES_PURPOSE = 'addresses';

/** A node's own addresses with its signature, so that other nodes can pass them on and cannot forge them. */
export interface Announcement {
  readonly addresses: readonly string[];
  /** A later announcement replaces an earlier one. */
  readonly at: number;
  readonly signature: string;
}

export function announce(identity: Identity, addresses: readonly string[], at: number): Announcement {
  return { addresses, at, signature: identity.sign(ADDRESSES_PURPOSE, { node: identity.key, addresses, at }) };
}

export function isAnnouncedBy(node: string, { addresses, at, signature }: Announcement): boolean {
  return isSignedBy(node, ADDRESSES_PURPOSE, { node, addresses, at }, signature);
}

export function signCard(identity: Identity, card: AgentCard): SignedCard {
  const said = { ...card, origin: 'remote', node: identity.key };
  return [said, identity.sign(CARD_PURPOSE, said)];
}

/** Reads a card from another node; throws `CARD_REFUSED` unless that node signed it and its grant allows it. */
export function checkSignedCard(value: unknown, node: string, grant: Grant): AgentCard {
  const [said, signature] = (Array.isArray(value) && value.length === 2 ? value : []) as [unknown, unknown];
  const card = readCard(said, node);
  if (card.node !== node) throw refused(node, `it is for an address of node ${card.node}`);
  if (typeof signature !== 'string' || !isSignedBy(node, CARD_PURPOSE, said, signature)) {
    throw refused(node, 'its signature is missing or wrong');
  }
  if (card.revision > MAX_REVISION) throw refused(node, `no card has been changed ${card.revision} times`);
  if (!permits(grant, card)) {
    const where = card.sandboxId === undefined ? 'outside any sandbox' : `in sandbox "${card.sandboxId}"`;
    throw refused(node, `the node may not have an agent of tier ${card.tier} ${where}`);
  }
  return card;
}

/** May a node with this grant have such an agent? */
export function permits(grant: Grant, card: AgentCard): boolean {
  if (!grant.tiers.includes(card.tier)) return false;
  if (grant.sandboxes === undefined) return true;
  return card.sandboxId !== undefined && grant.sandboxes.includes(card.sandboxId);
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
