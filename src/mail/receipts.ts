import type { A2AObservability } from '../mesh/observability.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import { beginningWith, type Store, type Write } from '../store/store.js';
import type { InboxRow, OutboxRow, ReceiptRow } from '../store/tables.js';
import type { News } from './news.js';
import type { Numbers } from './numbers.js';
import { isFinal, presentState, type Receipt, type ReceiptStep, readSteps, stepOf, writeSteps } from './receipt.js';

export interface ReceiptsComponents {
  runtime: Runtime;
  clock: SteadyClock;
  store: Store;
  observability: A2AObservability;
  news: News;
  numbers: Numbers;
}

/** Which end of a message is on this node. */
export type Side = 'sent' | 'received' | 'local';

/** How many finished receipts are kept. What is not given is without limit. */
export interface ReceiptLimits {
  readonly maxAgeMs?: number;
  readonly maxRows?: number;
}

/** What is to be written about one message, and told when it is. */
export interface ReceiptChange {
  readonly write: Write;
  readonly written: () => void;
  /** The number of the news of it. */
  readonly number: number;
}

const PAGE = 500;

/**
 * What became of every durable message, as this node knows it. While a message is in the outbox or the inbox, that row
 * says it all; afterwards it has a row of its own here.
 */
export class Receipts {
  readonly #components: ReceiptsComponents;

  constructor(components: ReceiptsComponents) {
    this.#components = components;
  }

  /** Notes what became of a message; the node at the other end is told until it has heard of it. */
  settle(id: string, node: string, side: Side, receipt: Receipt, extra: Write[]): ReceiptChange {
    const number = side === 'local' ? 0 : this.#components.numbers.take(extra);
    const steps = writeSteps(receipt);
    const write = this.#put(id, node, side, steps, number || null);
    return { write, number, written: () => number > 0 && this.#components.news.add(node, id, steps, number) };
  }

  /** Notes what the other end said. */
  heard(id: string, node: string, side: Side, receipt: Receipt, news: number | null): Write {
    return this.#put(id, node, side, writeSteps(receipt), news);
  }

  /** Has that node heard of the news with this number? */
  isHeard(node: string, number: number): boolean {
    return this.#components.news.isHeard(node, number);
  }

  /** What is kept of these messages with that node. */
  async find(node: string, ids: readonly string[]): Promise<ReceiptRow[]> {
    return this.#components.store.read({ from: 'receipts', where: { id: ids, node } });
  }

  /** Ids of durable messages that begin with this, and are longer. */
  async idsBeginning(prefix: string, limit: number): Promise<string[]> {
    const { store } = this.#components;
    const wanted = { ...beginningWith('id', prefix), orderBy: 'id', limit } as const;
    const found = await Promise.all([
      store.read({ from: 'receipts', ...wanted }),
      store.read({ from: 'outbox', ...wanted }),
      store.read({ from: 'inbox', ...wanted }),
    ]);
    return found.flat().map(({ id }) => id);
  }

  /** The whole story of one message. */
  async read(id: string): Promise<Receipt> {
    const { store } = this.#components;
    const [settled, outgoing, incoming] = await Promise.all([
      store.read({ from: 'receipts', where: { id } }),
      store.read({ from: 'outbox', where: { id } }),
      store.read({ from: 'inbox', where: { id } }),
    ]);
    // Another node may use the id of a message of this one for a message of its own: what was sent here is meant first.
    const ours = [
      ...settled.filter(({ side }) => side !== 'received').map(receiptOf),
      ...outgoing.map(storedReceipt),
      ...incoming.filter(({ node }) => node === '').map(receiptOf),
    ];
    const theirs = [
      ...settled.filter(({ side }) => side === 'received').map(receiptOf),
      ...incoming.filter(({ node }) => node !== '').map(receiptOf),
    ];
    // By this node's own clock: the time of `stored` is what the other node says.
    const [found] = ours.length > 0 ? ours : theirs.toSorted((a, b) => (a[1]?.at ?? 0) - (b[1]?.at ?? 0));
    if (found) return found;
    throw new EclipticError('RECEIPT_NOT_FOUND', `no durable message "${id}" is known`, { id });
  }

  /** Says on the event stream what a message has reached; `recipient` when it did so in an inbox of this node. */
  emit(id: string, steps: readonly ReceiptStep[], recipient?: string): void {
    const { observability, runtime } = this.#components;
    for (const { state, reason } of steps) {
      const about = { envelopeId: id, recipient, receiptState: state, reason: reason ?? undefined };
      observability.emit({ type: 'receipt', ...about, timestamp: runtime.now() });
    }
  }

  /** Forgets finished receipts beyond the limits, oldest first, in small steps. What is not over, or not told, stays. */
  async retain({ maxAgeMs = Number.POSITIVE_INFINITY, maxRows = Number.POSITIVE_INFINITY }: ReceiptLimits) {
    const { store, clock, news } = this.#components;
    let excess = maxRows === Number.POSITIVE_INFINITY ? 0 : (await store.count({ from: 'receipts' })) - maxRows;
    for (let above = -1; ; ) {
      const rows = await store.read({ from: 'receipts', above: { at: above }, orderBy: 'at', limit: PAGE });
      const cutoff = clock.now() - maxAgeMs;
      const writes: Write[] = [];
      for (const { id, node, side, steps, at, news: number } of rows) {
        if (at >= cutoff && excess <= 0) break;
        if (!isFinal(presentState(receiptOf({ steps }))!) || !news.isHeard(node, number)) continue;
        writes.push({ delete: 'receipts', where: { id, node, side } }, { delete: 'watches', where: { id } });
        excess--;
      }
      if (writes.length > 0) await store.write(writes);
      const last = rows.at(-1);
      if (rows.length < PAGE || (last!.at >= cutoff && excess <= 0)) return;
      above = last!.at;
    }
  }

  #put(id: string, node: string, side: Side, steps: string, news: number | null): Write {
    return { put: 'receipts', row: { id, node, side, steps, at: this.#components.runtime.now(), news } };
  }
}

/** What the row of a message says about it. */
export function receiptOf({ steps }: Pick<ReceiptRow | InboxRow, 'steps'>): Receipt {
  return readSteps(JSON.parse(steps)) ?? [];
}

/** Of a message in the outbox, nothing is known but that it is stored. */
export function storedReceipt({ storedAt }: Pick<OutboxRow, 'storedAt'>): Receipt {
  return [stepOf('stored', storedAt)];
}
