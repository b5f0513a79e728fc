import { type A2AObservability, callbackReport } from '../mesh/observability.js';
import { callGuarded } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import { beginningWith, type Store, type Write } from '../store/store.js';
import type { PreparedWriter, SequenceAllocator } from './prepared.js';
import { isFinal, presentState, type Receipt, type ReceiptStep, readSteps, writeSteps } from './receipt.js';
import type { ReceiptOutbound } from './receipt-outbound.js';
import type { Relays } from './relays.js';
import {
  type InboxRow,
  inbox,
  outbox,
  type ReceiptRow,
  receipts as receiptTable,
  type WatchRow,
  watches,
} from './tables.js';

/** The collaborators that all parts of durable mail share. */
export interface MailContext {
  runtime: Runtime;
  /** Decides when mail expires. */
  clock: SteadyClock;
  store: Store;
  writer: PreparedWriter;
  /** Serializes the changes of the messages with one node. */
  locks: PeerLocks;
  receipts: Receipts;
  relays: Relays;
}

/** Runs the tasks that concern one node's mail one after the other. */
export class PeerLocks {
  readonly #runtime: Runtime;
  readonly #tails = new Map<string, Promise<void>>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Resolves when the task has ended. A failure is logged. */
  run(node: string, task: () => Promise<void>): Promise<void> {
    const tail = (this.#tails.get(node) ?? Promise.resolve()).then(task).catch((error: unknown) => {
      this.#runtime.logger.error({ node, err: error }, 'mail: receipts of a node could not be updated');
    });
    this.#tails.set(node, tail);
    return tail;
  }
}

export interface ReceiptsComponents extends Pick<MailContext, 'runtime' | 'clock' | 'store'> {
  observability: A2AObservability;
  outbound: ReceiptOutbound;
  numbers: SequenceAllocator;
  relays: Relays;
}

/** A durable message that has not ended: in an inbox of this node, or on its way to another node. */
export type PendingMail =
  | { readonly place: 'inbox'; readonly recipient: string; readonly expiresAt: number | null }
  | { readonly place: 'outbox'; readonly node: string; readonly expiresAt: number | null };

export type Side = 'sent' | 'received' | 'local';

/** How many finished receipts are kept; unlimited where not given. */
export interface ReceiptLimits {
  readonly maxAgeMs?: number;
  readonly maxRows?: number;
}

/** Told once, also across restarts, of a message that was not read in time. */
export type UnreadHandler = (notice: { messageId: string; state: string; reason: string }) => void;

const PAGE = 500;
/** Pages of receipts that are looked at for deletion at a time. */
const RETAINED_PAGES = 20;
const DEADLINES_PAGE = 100;
/** The due time of a missed deadline whose sender is not attached. */
const REPORT_LATER = Number.MAX_SAFE_INTEGER;

/**
 * The receipts of durable messages. While a message is in the outbox or the inbox, that row is its receipt; afterwards it
 * has a row of its own here.
 */
export class Receipts {
  readonly #components: ReceiptsComponents;
  /** The id up to which receipts were last looked at for deletion. */
  #retained = '';

  constructor(components: ReceiptsComponents) {
    this.#components = components;
  }

  /** Adds the changes that settle a message to `writes`. Once they are written, `settled` must be called with the row. */
  settle(id: string, node: string, side: Side, receipt: Receipt, writes: Write[]): ReceiptRow {
    const news = side === 'local' ? null : this.#components.numbers.take(writes);
    return this.update(id, node, side, receipt, news, writes);
  }

  /** Sends the update of a settled message to the node at the other end, until that acknowledges it. */
  settled({ id, node, steps, news }: ReceiptRow): void {
    if (news !== null) this.#components.outbound.add(node, id, steps, news);
  }

  /** Adds the change of a receipt whose number stays the same to `writes`. */
  update(id: string, node: string, side: Side, receipt: Receipt, news: number | null, writes: Write[]): ReceiptRow {
    const row = { id, node, side, steps: writeSteps(receipt), at: this.#components.runtime.now(), news };
    writes.push(receiptTable.put(row));
    return row;
  }

  isAcknowledged(node: string, number: number | null): boolean {
    return this.#components.outbound.isAcknowledged(node, number);
  }

  async find(node: string, ids: readonly string[]): Promise<ReceiptRow[]> {
    return this.#components.store.read(receiptTable, { where: { id: ids, node } });
  }

  /** Ids of durable messages that begin with a prefix and are longer. */
  async idsBeginning(prefix: string, limit: number): Promise<string[]> {
    const { store } = this.#components;
    const wanted = { ...beginningWith('id', prefix), orderBy: 'id', limit } as const;
    const found = await Promise.all([
      store.read(receiptTable, wanted),
      store.read(outbox, wanted),
      store.read(inbox, wanted),
    ]);
    return found.flat().map(({ id }) => id);
  }

  /** The envelope of a durable message that is still in the inbox or the outbox. */
  async waiting(id: string): Promise<string | undefined> {
    const { store } = this.#components;
    const [[incoming], [outgoing]] = await Promise.all([
      store.read(inbox, { where: { id } }),
      store.read(outbox, { where: { id } }),
    ]);
    return (incoming ?? outgoing)?.envelope;
  }

  async pending(id: string): Promise<PendingMail | undefined> {
    const { store } = this.#components;
    const [[incoming], [outgoing]] = await Promise.all([
      store.read(inbox, { where: { id } }),
      store.read(outbox, { where: { id } }),
    ]);
    if (incoming) return { place: 'inbox', recipient: incoming.recipient, expiresAt: incoming.expiresAt };
    return outgoing && { place: 'outbox', node: outgoing.node, expiresAt: outgoing.expiresAt };
  }

  async read(id: string): Promise<Receipt> {
    const { store } = this.#components;
    const [settled, outgoing, incoming] = await Promise.all([
      store.read(receiptTable, { where: { id } }),
      store.read(outbox, { where: { id } }),
      store.read(inbox, { where: { id } }),
    ]);
    // Another node may use the same id for a message of its own: the message sent here comes first.
    const ours = [
      ...settled.filter(({ side }) => side !== 'received').map(receiptOf),
      ...outgoing.map((row) => this.#components.relays.receiptOf(row)),
      ...incoming.filter(({ node }) => node === '').map(receiptOf),
    ];
    const theirs = [
      ...settled.filter(({ side }) => side === 'received').map(receiptOf),
      ...incoming.filter(({ node }) => node !== '').map(receiptOf),
    ];
    // Sort by this node's own clock: the other node chooses the time of `stored`.
    const [found] = ours.length > 0 ? ours : theirs.toSorted((a, b) => (a[1]?.at ?? 0) - (b[1]?.at ?? 0));
    if (found) return found;
    throw new EclipticError('RECEIPT_NOT_FOUND', `no durable message "${id}" is known`, { id });
  }

  /** Emits the states that a message has reached; with `recipient` if it is in an inbox of this node. */
  emit(id: string, steps: readonly ReceiptStep[], recipient?: string): void {
    const { observability, runtime } = this.#components;
    for (const { state, reason } of steps) {
      const about = { envelopeId: id, recipient, receiptState: state, reason: reason ?? undefined };
      observability.emit({ type: 'receipt', ...about, timestamp: runtime.now() });
    }
  }

  /**
   * Deletes finished and acknowledged receipts beyond the limits: looks at some pages each time, in the order of the ids,
   * which begin with the time of the message.
   */
  async retain({ maxAgeMs = Number.POSITIVE_INFINITY, maxRows = Number.POSITIVE_INFINITY }: ReceiptLimits) {
    const { store, clock, outbound } = this.#components;
    let excess = maxRows === Number.POSITIVE_INFINITY ? 0 : (await store.count(receiptTable)) - maxRows;
    if (excess > 0) this.#retained = '';
    for (let page = 0; page < RETAINED_PAGES || excess > 0; page++) {
      const rows = await store.read(receiptTable, { above: { id: this.#retained }, orderBy: 'id', limit: PAGE });
      const cutoff = clock.now() - maxAgeMs;
      const writes: Write[] = [];
      for (const { id, node, side, steps, at, news: number } of rows) {
        if (at >= cutoff && excess <= 0) continue;
        if (!isFinal(presentState(receiptOf({ steps }))!) || !outbound.isAcknowledged(node, number)) continue;
        writes.push(receiptTable.delete({ id, node, side }), watches.delete({ id }));
        excess--;
      }
      if (writes.length > 0) await store.write(writes);
      this.#retained = rows.length < PAGE ? '' : rows.at(-1)!.id;
      if (this.#retained === '') return;
    }
  }

  /** That node was removed: its receipts need not be reported any more, and may expire. */
  async forget(node: string): Promise<void> {
    const { store } = this.#components;
    for (;;) {
      const rows = await store.read(receiptTable, {
        where: { node },
        above: { news: -1 },
        orderBy: 'news',
        limit: PAGE,
      });
      if (rows.length === 0) return;
      await store.write(rows.map((row) => receiptTable.put({ ...row, news: null })));
    }
  }
}

export interface ReadDeadlinesComponents extends Pick<MailContext, 'runtime' | 'store' | 'receipts'> {
  observability: A2AObservability;
}

/** Reports messages that were not read within the time that their senders gave. */
export class ReadDeadlines {
  readonly #components: ReadDeadlinesComponents;
  readonly #handlers = new Map<string, UnreadHandler>();

  constructor(components: ReadDeadlinesComponents) {
    this.#components = components;
  }

  /** The write that sets a deadline. */
  set(id: string, sender: string, withinMs: number): Write {
    return watches.put({ id, sender, dueAt: this.#components.runtime.now() + withinMs });
  }

  /** Reports the missed deadlines of an agent's messages to `handler`, first those missed while it was detached. */
  async attach(agent: string, handler: UnreadHandler): Promise<void> {
    this.#handlers.set(agent, handler);
    const { store, runtime } = this.#components;
    try {
      const missed = await store.read(watches, { where: { sender: agent, dueAt: REPORT_LATER } });
      for (const row of missed) await this.#check(row);
    } catch (error) {
      runtime.logger.error({ agent, err: error }, 'mail: read deadlines cannot be read');
    }
  }

  detach(agent: string): void {
    this.#handlers.delete(agent);
  }

  async sweep(): Promise<void> {
    const { store, runtime } = this.#components;
    const due = await store.read(watches, { below: { dueAt: runtime.now() }, limit: DEADLINES_PAGE });
    for (const row of due) await this.#check(row);
  }

  async #check({ id, sender, dueAt }: WatchRow): Promise<void> {
    const { store, runtime, receipts, observability } = this.#components;
    const receipt = await receipts.read(id).catch(() => undefined);
    const state = receipt && presentState(receipt)!;
    const overdue = state !== undefined && state !== 'read' && !isFinal(state);
    const handler = this.#handlers.get(sender);
    if (overdue && !handler) await store.write([watches.update({ id }, { dueAt: REPORT_LATER })]);
    else await store.write([watches.delete({ id })]);
    if (!overdue) return;
    const reason = `the read deadline has passed, and the message is ${state}`;
    if (dueAt !== REPORT_LATER) {
      const about = { envelopeId: id, sender, receiptState: 'overdue', reason, timestamp: runtime.now() };
      observability.emit({ type: 'receipt', ...about });
    }
    const failed = (error: unknown) => callbackReport(runtime, observability)(`onUnread of ${sender}`, error);
    if (handler) callGuarded(handler, [{ messageId: id, state, reason }], failed);
  }
}

export function receiptOf({ steps }: Pick<ReceiptRow | InboxRow, 'steps'>): Receipt {
  return readSteps(JSON.parse(steps)) ?? [];
}
