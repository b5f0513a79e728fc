import type { A2AObservability } from '../a2a/observability.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';
import { isReceiptState, type Receipt, type ReceiptState, type ReceiptStep, stepReceipt } from './receipt.js';

/** One piece of news about a message, on its way to the node at the other end. */
export type NewsItem = readonly [id: string, state: ReceiptState, at: number, reason: string | null];

export interface ReceiptsComponents {
  runtime: Runtime;
  store: Store;
  observability: A2AObservability;
  /** Passes news on to the node at the other end, if it can be reached. */
  tell: (node: string, news: readonly NewsItem[]) => void;
}

/** News in one item between nodes. */
const NEWS_AT_ONCE = 500;

/** What became of every durable message, as this node knows it, and what the other ends have yet to hear. */
export class Receipts {
  readonly #components: ReceiptsComponents;
  readonly #news = new Map<string, NewsItem[]>();

  constructor(components: ReceiptsComponents) {
    this.#components = components;
  }

  /** The writes that note a state which this side brought about; to be made with whatever made it so. */
  reached(id: string, state: ReceiptState, node: string, reason: string | null = null): Write[] {
    const at = this.#components.runtime.now();
    return [{ put: 'receipts', row: { id, state, at, reason, node, tell: node || null } }];
  }

  /** Says what has been written: to whoever watches here, and to the other end. */
  announce(writes: readonly Write[]): void {
    for (const write of writes) {
      if (!('put' in write) || write.put !== 'receipts') continue;
      const { id, state, at, reason, tell } = write.row;
      this.#emit(id, state, reason);
      if (tell === null) continue;
      const waiting = this.#news.get(tell);
      const item: NewsItem = [id, state as ReceiptState, at, reason];
      if (waiting) waiting.push(item);
      else {
        this.#news.set(tell, [item]);
        // What is written in one go is told in one go.
        queueMicrotask(() => this.#flush(tell));
      }
    }
  }

  /** Takes news from the node at the other end; returns what it is told back, and what is new to this side. */
  async hear(node: string, news: readonly NewsItem[]): Promise<NewsItem[]> {
    const ids = [...new Set(news.map(([id]) => id))];
    const known = await this.#components.store.read({ from: 'receipts', where: { id: ids } });
    const ours = new Set(known.filter((row) => row.node === node).map(({ id }) => id));
    const seen = new Set(known.map(({ id, state }) => `${id} ${state}`));
    const fresh = news.filter(([id, state]) => ours.has(id) && !seen.has(`${id} ${state}`));
    if (fresh.length === 0) return [];
    const rows = fresh.map(([id, state, at, reason]) => ({ id, state, at, reason, node, tell: null }));
    await this.#components.store.write(rows.map((row): Write => ({ put: 'receipts', row })));
    for (const { id, state, reason } of rows) this.#emit(id, state, reason);
    return fresh;
  }

  /** The other end has it on its disk. */
  heard(node: string, states: readonly (readonly [string, ReceiptState])[]): Promise<void> {
    const write = ([id, state]: readonly [string, ReceiptState]): Write => ({
      update: 'receipts',
      where: { id, state, node },
      set: { tell: null },
    });
    return this.#components.store.write(states.map(write));
  }

  /** Tells a node that came back everything that it may have missed. */
  async retell(node: string): Promise<void> {
    const rows = await this.#components.store.read({ from: 'receipts', where: { tell: node }, orderBy: 'at' });
    for (let at = 0; at < rows.length; at += NEWS_AT_ONCE) {
      const news = rows.slice(at, at + NEWS_AT_ONCE);
      this.#components.tell(
        node,
        news.map(({ id, state, at: time, reason }) => [id, state as ReceiptState, time, reason]),
      );
    }
  }

  /** The whole story of one message. */
  async read(id: string): Promise<Receipt> {
    const rows = await this.#components.store.read({ from: 'receipts', where: { id } });
    if (rows.length === 0) throw new EclipticError('RECEIPT_NOT_FOUND', `no durable message "${id}" is known`, { id });
    // Another node may have used the same id for a message of its own; the first of that name is meant.
    const [first] = rows.toSorted((a, b) => a.at - b.at);
    return rows
      .filter((row) => row.node === first!.node && isReceiptState(row.state))
      .reduce<Receipt>(
        (receipt, { state, at, reason }) => stepReceipt(receipt, { state, at, reason } as ReceiptStep),
        [],
      );
  }

  #flush(node: string): void {
    const news = this.#news.get(node) ?? [];
    this.#news.delete(node);
    for (let at = 0; at < news.length; at += NEWS_AT_ONCE)
      this.#components.tell(node, news.slice(at, at + NEWS_AT_ONCE));
  }

  #emit(id: string, state: string, reason: string | null): void {
    const { observability, runtime } = this.#components;
    const why = reason === null ? undefined : reason;
    observability.emit({ type: 'receipt', envelopeId: id, receiptState: state, reason: why, timestamp: runtime.now() });
  }
}
