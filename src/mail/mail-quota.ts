import { splitAddress } from '../mesh/address.js';
import type { Store, Table } from '../store/store.js';
import type { InboxRow, OutboxRow } from './tables.js';

export interface Amount {
  readonly messages: number;
  readonly bytes: number;
}

export interface MailQuotaLimits {
  readonly all: Amount;
  /** Of another node. */
  readonly node: Amount;
  /** Of one agent of another node. */
  readonly agent: Amount;
}

class Holding {
  messages = 0;
  bytes = 0;

  exceeds({ messages, bytes }: Amount, parts = 1): boolean {
    return this.messages >= messages / parts || this.bytes >= bytes / parts;
  }
}

interface Entry {
  readonly sender: string;
  readonly bytes: number;
}

const MIB = 1_048_576;
export const MAIL_LIMITS: MailQuotaLimits = {
  all: { messages: 100_000, bytes: 1_024 * MIB },
  node: { messages: 40_000, bytes: 256 * MIB },
  agent: { messages: 20_000, bytes: 128 * MIB },
};
const ROW_BYTES = 512;
/** Rows, and about how many bytes, that are read at once. */
const PAGE = 500;
const PAGE_BYTES = 8 * MIB;

/**
 * Limits the share of each owner in the inboxes, or in the outbox. An owner is an agent of this node, or another node with
 * all of its agents. An owner may use all free room. Once there is none, an owner with less than an equal part may still
 * add to it, so no owner can shut out the others.
 */
export class MailQuota {
  readonly #limits: MailQuotaLimits;
  readonly #entries = new Map<string, Entry>();
  readonly #owners = new Map<string, Holding>();
  readonly #agents = new Map<string, Holding>();
  readonly #total = new Holding();
  /** Messages that were removed before they were counted; undefined when all are counted. */
  #removed: Set<string> | undefined = new Set();

  /** `found` is the amount that earlier processes left. */
  constructor(found: Amount, limits = MAIL_LIMITS) {
    this.#limits = limits;
    this.#total.messages = found.messages;
    this.#total.bytes = found.bytes;
  }

  hasRoom(sender: string): boolean {
    const owner = ownerOf(sender);
    const holding = this.#owners.get(owner);
    if (holding && owner !== sender && holding.exceeds(this.#limits.node)) return false;
    if (!this.#total.exceeds(this.#limits.all)) return true;
    if (this.#removed) return false;
    return !holding?.exceeds(this.#limits.all, this.#owners.size + (holding ? 0 : 1));
  }

  /** Has an agent of another node room within its own limit? */
  agentHasRoom(sender: string): boolean {
    return this.#agents.get(sender)?.exceeds(this.#limits.agent) !== true;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  add(key: string, sender: string, chars: number): void {
    this.#count(key, { sender, bytes: chars + ROW_BYTES });
    this.#total.messages++;
    this.#total.bytes += chars + ROW_BYTES;
  }

  remove(key: string): void {
    const entry = this.#entries.get(key);
    this.#removed?.add(key);
    this.#total.messages--;
    if (!entry) return;
    this.#entries.delete(key);
    this.#total.bytes -= entry.bytes;
    const owner = ownerOf(entry.sender);
    take(this.#owners, owner, entry.bytes);
    if (owner !== entry.sender) take(this.#agents, entry.sender, entry.bytes);
  }

  /** Counts messages that were there before this process. */
  found(rows: readonly { readonly key: string; readonly sender: string; readonly chars: number }[]): void {
    for (const { key, sender, chars } of rows) {
      if (!this.#entries.has(key) && !this.#removed?.has(key)) this.#count(key, { sender, bytes: chars + ROW_BYTES });
    }
  }

  /** All messages of earlier processes are counted. */
  complete(): void {
    this.#removed = undefined;
    this.#total.messages = this.#entries.size;
    this.#total.bytes = [...this.#owners.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #count(key: string, entry: Entry): void {
    this.#entries.set(key, entry);
    const owner = ownerOf(entry.sender);
    give(this.#owners, owner, entry.bytes);
    if (owner !== entry.sender) give(this.#agents, entry.sender, entry.bytes);
  }
}

/** The owner of an agent's messages: the agent itself, or the other node that it belongs to. */
export function ownerOf(sender: string): string {
  const { node } = splitAddress(sender);
  return node === undefined ? sender : `@${node}`;
}

function give(holdings: Map<string, Holding>, owner: string, bytes: number): void {
  const holding = holdings.get(owner) ?? new Holding();
  holdings.set(owner, holding);
  holding.messages++;
  holding.bytes += bytes;
}

function take(holdings: Map<string, Holding>, owner: string, bytes: number): void {
  const holding = holdings.get(owner);
  if (!holding) return;
  holding.bytes -= bytes;
  if (--holding.messages === 0) holdings.delete(owner);
}

/** The sender in the text of an envelope: it is the third field, and never needs escaping. */
export function senderIn(envelopeText: string): string {
  const [, sender] = /^\[\d+,(?:"(?:[^"\\]|\\.)*"),"([^"]*)"/.exec(envelopeText) ?? [];
  return sender ?? '';
}

/** Rows to read at once, so that a page of large messages fits in memory as well. */
export async function pageSize(store: Store, table: Table): Promise<number> {
  const { rows, bytes } = await store.figures(table);
  const each = rows === 0 ? 0 : bytes / rows;
  return Math.max(1, Math.min(PAGE, Math.floor(PAGE_BYTES / Math.max(each, 1))));
}

/** Counts, by sender, the messages that earlier processes left. */
export async function countEarlier<Row extends InboxRow | OutboxRow>(
  store: Store,
  table: Table<Row>,
  quota: MailQuota,
  keyOf: (row: Row) => string,
): Promise<void> {
  for (let above = 0; ; ) {
    const limit = await pageSize(store, table);
    const rest = { number: above } as Partial<Row>;
    const rows: Row[] = await store.read(table, { above: rest, orderBy: 'number', limit });
    const found = rows.map((row) => ({ key: keyOf(row), sender: senderIn(row.envelope), chars: row.envelope.length }));
    quota.found(found);
    if (rows.length < limit) break;
    above = rows.at(-1)!.number;
  }
  quota.complete();
}
