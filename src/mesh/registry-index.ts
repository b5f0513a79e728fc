import { joinAddress } from './address.js';
import type { Mailbox, Receiver } from './mailbox.js';
import type { Party } from './policy.js';
import type { AgentCard, AgentTier } from './schemas.js';

/** On the card of an agent that stands for a caller from outside: the operator, or an A2A client. */
export const CALLER_PROTOCOL = 'ecliptic/caller';
/** On the card of a caller that stands for an agent of another node. Other nodes are not told of it. */
export const STAND_IN_PROTOCOL = 'ecliptic/stand-in';

/** A registered agent: its card, the fields that policy needs, and the mailbox of a local agent that listens. */
export class RegistryEntry implements Party {
  // First what every message needs: among many agents each cache line counts.
  readonly address: string;
  tier: AgentTier;
  sandboxId: string | undefined;
  /** The only receiver of a local agent, while nothing keeps a message from going straight to it. Set by the mailbox. */
  ready: Receiver | undefined;
  /** Earlier registrations have lower numbers. */
  readonly order: number;
  /** False once the agent is unregistered. */
  registered: boolean;
  /** Do this agent's messages go where the one before them went? Otherwise `latest` is not worth a look. */
  repeats: boolean;
  /** A recent recipient of this agent's messages. */
  latest: RegistryEntry | undefined;
  readonly node: string | undefined;
  card: AgentCard;
  mailbox: Mailbox | undefined;
  /** As on the card: undefined for an agent that takes every kind of work. */
  status: AgentCard['status'];
  /** Stands for a caller from outside, which broadcasts do not reach. */
  isCaller: boolean;
  /** Of an agent of another node: messages on their way, and requests and streams that it has not answered to the end. More of its load is not known here. */
  sending: number;

  constructor(card: AgentCard, order: number) {
    this.address = joinAddress(card.id, card.node);
    this.tier = card.tier;
    this.sandboxId = card.sandboxId;
    this.ready = undefined;
    this.order = order;
    this.registered = true;
    this.repeats = false;
    this.latest = undefined;
    this.node = card.node;
    this.card = card;
    this.mailbox = undefined;
    this.status = card.status;
    this.isCaller = card.protocols.includes(CALLER_PROTOCOL);
    this.sending = 0;
  }

  replaceCard(card: AgentCard): void {
    this.card = card;
    this.tier = card.tier;
    this.sandboxId = card.sandboxId;
    this.status = card.status;
    this.isCaller = card.protocols.includes(CALLER_PROTOCOL);
  }
}

/** Entries in the order in which they are preferred: local before remote, then earliest registered. */
export type EntryList = readonly RegistryEntry[];

const NONE: EntryList = [];

/** A multi-map from a key to its entries, each list kept in order of preference. */
export class EntryIndex<K> {
  readonly #lists = new Map<K, RegistryEntry[]>();

  get(key: K): EntryList {
    return this.#lists.get(key) ?? NONE;
  }

  first(key: K): RegistryEntry | undefined {
    return this.#lists.get(key)?.[0];
  }

  add(key: K, entry: RegistryEntry): void {
    const list = this.#lists.get(key);
    if (!list) this.#lists.set(key, [entry]);
    else list.splice(position(list, entry), 0, entry);
  }

  remove(key: K, entry: RegistryEntry): void {
    const list = this.#lists.get(key);
    if (!list) return;
    if (list.length === 1) this.#lists.delete(key);
    else list.splice(position(list, entry), 1);
  }
}

/** The index of the entry in a list in order of preference, or the index where it belongs. */
function position(list: EntryList, entry: RegistryEntry): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (preferred(list[middle]!, entry)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function preferred(a: RegistryEntry, b: RegistryEntry): boolean {
  if ((a.node === undefined) !== (b.node === undefined)) return a.node === undefined;
  return a.order < b.order;
}
