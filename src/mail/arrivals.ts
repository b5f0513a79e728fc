import { splitAddress } from '../mesh/address.js';
import type { StoredAdmission } from '../mesh/durable-routing.js';
import { ValidEnvelope } from '../mesh/envelope.js';
import type { EclipticError } from '../runtime/errors.js';
import { cursors as cursorTable } from '../store/common-tables.js';
import type { Write } from '../store/store.js';
import type { Arrival, IncomingMail } from './incoming-mail.js';
import type { MailItem, SentMessage } from './mail-wire.js';
import type { Permits } from './permits.js';
import { type ReceiptStep, stepOf } from './receipt.js';
import type { MailContext } from './receipts.js';
import { baseOf, isLaterEpoch } from './store-epoch.js';
import { type ReceiptRow, receipts as receiptTable } from './tables.js';

export interface ArrivalsComponents extends MailContext {
  incoming: IncomingMail;
  permits: Permits;
  /** Throws the reason why a message of that node is refused. */
  admit: (wire: ValidEnvelope, node: string) => StoredAdmission;
  /** Reports an admitted message once it is on disk. */
  onStored: (admission: StoredAdmission) => void;
  /** The stored cursors: the last stored number of each other store, and `forgottenOf` it. */
  cursors: ReadonlyMap<string, number>;
  permitMs: number;
  /** That node's store has used a number a second time, for another message. */
  onReused: (node: string, store: string, upTo: number) => void;
  /** That node's store is in an epoch that was not seen before. */
  onNewEpoch: (node: string) => void;
}

/** Stores of one node whose cursors are kept: a node has one, and another after each loss of its disk. */
const MAX_STORES = 64;
/** Unwritten messages of one node in memory, and the size of one write. */
const MAX_WAITING_BYTES = 16 * 1_048_576;
const MAX_WAITING_ITEMS = 4_096;
const WRITE_BYTES = 4 * 1_048_576;
/** Stored receipts of one node's refused messages: above the first number acknowledged ones are deleted, above the second its mail waits. */
const KEPT_REFUSALS = 500;
const MAX_REFUSALS = 1_000;

/**
 * What became of mail that came through a custodian: stored or known; after a gap; no room for it; or it could not be
 * written. Only `taken` mail moves the position in the custodian's store.
 */
export type RelayOutcome = 'taken' | 'gap' | 'full' | 'failed';

/** A refused message of another node. */
interface Refusal {
  readonly id: string;
  readonly store: string;
  readonly storedAt: number;
  /** The number of the receipt update. */
  readonly update: number | null;
}

/** Mail that was not written yet. */
interface Waiting {
  readonly item: MailItem;
  readonly bytes: number;
  readonly relayed?: {
    /** Writes of the position, made in the transaction that stores the mail. */
    readonly position: readonly Write[];
    readonly settle: (outcome: RelayOutcome) => void;
  };
}

class Source {
  readonly waiting: Waiting[] = [];
  bytes = 0;
  busy = false;
  /** Was it logged that its mail waits? */
  stopped = false;
  /** Was it logged that its mail is refused because an agent's share is full? */
  overfull = false;
  /** Its refused messages, oldest first. */
  refused: Refusal[] = [];
}

/** Messages that are written in one transaction. */
interface Batch {
  readonly writes: Write[];
  readonly accepted: { readonly admission: StoredAdmission; readonly arrival: Arrival }[];
  readonly declined: { readonly row: ReceiptRow; readonly end: ReceiptStep; readonly refusal: Refusal }[];
}

/**
 * Takes the mail of other nodes into the inbox: checks new messages, and writes them in one transaction with the cursor of
 * the store that they come from. One write at a time for each node, so that no message overtakes one that failed.
 */
export class Arrivals {
  readonly #components: ArrivalsComponents;
  readonly #cursors: Map<string, number>;
  readonly #sources = new Map<string, Source>();

  constructor(components: ArrivalsComponents) {
    this.#components = components;
    this.#cursors = new Map(components.cursors);
  }

  /** Mail that finds no room is not acknowledged, so its sender keeps it and sends it again, ever less often. */
  take(node: string, item: MailItem): void {
    const source = this.#sources.get(node) ?? new Source();
    this.#sources.set(node, source);
    const bytes = item.messages.reduce((sum, { envelope }) => sum + ValidEnvelope.weightOf(envelope), 0);
    if (source.bytes + bytes > MAX_WAITING_BYTES || source.waiting.length >= MAX_WAITING_ITEMS) {
      this.#stop(node, source, 'it sends faster than this node can write');
      return;
    }
    this.#queue(node, source, { item, bytes });
  }

  /** As `take`, for mail that came through a custodian: resolves with what became of it. */
  takeRelayed(node: string, item: MailItem, position: readonly Write[]): Promise<RelayOutcome> {
    const source = this.#sources.get(node) ?? new Source();
    this.#sources.set(node, source);
    const bytes = item.messages.reduce((sum, { envelope }) => sum + ValidEnvelope.weightOf(envelope), 0);
    return new Promise((settle) => {
      this.#queue(node, source, { item, bytes, relayed: { position, settle } });
    });
  }

  #queue(node: string, source: Source, waiting: Waiting): void {
    source.bytes += waiting.bytes;
    source.waiting.push(waiting);
    if (!source.busy) void this.#run(node, source);
  }

  forget(node: string): void {
    for (const name of this.#cursors.keys()) if (isCursorOf(node, name)) this.#cursors.delete(name);
    this.#sources.delete(node);
  }

  ended(node: string): void {
    const source = this.#sources.get(node);
    if (source && !source.busy && source.refused.length === 0) this.#sources.delete(node);
  }

  async #run(node: string, source: Source): Promise<void> {
    source.busy = true;
    while (source.waiting.length > 0) {
      const taken = this.#next(source);
      try {
        await this.#store(node, source, taken);
        if (source.refused.length > KEPT_REFUSALS) await this.#forgetRefusals(node, source);
      } catch (error) {
        // The messages that follow are refused because of the gap; all of them arrive again.
        this.#components.runtime.logger.error({ node, err: error }, 'mail: durable messages cannot be stored');
        for (const { relayed } of taken) relayed?.settle('failed');
      }
    }
    source.busy = false;
  }

  #next(source: Source): Waiting[] {
    let bytes = 0;
    let count = 0;
    while (count < source.waiting.length && bytes < WRITE_BYTES) bytes += source.waiting[count++]!.bytes;
    source.bytes -= bytes;
    return source.waiting.splice(0, count);
  }

  async #store(node: string, source: Source, waiting: readonly Waiting[]): Promise<void> {
    const { writer, incoming } = this.#components;
    const items = waiting.map(({ item }) => item);
    const outcomes = new Map<Waiting, RelayOutcome>();
    const reached = new Map<string, number>();
    const reused = new Map<string, string>();
    const known: string[] = [];
    const batch: Batch = { writes: [], accepted: [], declined: [] };
    const seen = await this.#seenBefore(node, items);
    for (const one of waiting) {
      const { store, before, messages } = one.item;
      const name = cursorOf(node, store);
      let cursor = reached.get(name) ?? this.#cursors.get(name) ?? 0;
      // After a gap: they arrive again.
      if (before > cursor) {
        outcomes.set(one, 'gap');
        continue;
      }
      let outcome: RelayOutcome = 'taken';
      for (const message of messages) {
        const { id } = message.envelope;
        if (seen.has(id)) {
          known.push(id);
          cursor = Math.max(cursor, message.number);
          continue;
        }
        if (this.#isFull(node, source, message)) {
          outcome = 'full';
          break;
        }
        const again = message.number <= cursor && this.#wasForgotten(node, store, message);
        // One way may still have a message that its sender gave up when it expired, and left out on the other.
        if (message.number <= cursor && !again && !this.#hasExpired(message)) reused.set(name, store);
        this.#add(batch, node, store, message, again);
        seen.add(id);
        cursor = Math.max(cursor, message.number);
      }
      reached.set(name, cursor);
      outcomes.set(one, outcome);
      if (outcome === 'taken' && one.relayed) batch.writes.push(...one.relayed.position);
    }
    const fresh = items.filter(({ store }) => !this.#cursors.has(cursorOf(node, store)));
    const stores = fresh.length === 0 ? [] : this.progress(node);
    const { writes } = batch;
    if (writes.length > 0) {
      for (const [name, value] of reached) writes.push(cursorTable.put({ name, value }));
      const surplus = stores.slice(0, Math.max(0, stores.length + fresh.length - MAX_STORES));
      const forgotten = surplus.flatMap(([store]) => [cursorOf(node, store), forgottenOf(node, store)]);
      if (forgotten.length > 0) writes.push(cursorTable.delete({ name: forgotten }));
      const written = () => {
        for (const name of forgotten) this.#cursors.delete(name);
        for (const [name, value] of reached) this.#cursors.set(name, value);
        this.#stored(batch, source);
      };
      const failed = () => {
        for (const { arrival } of batch.accepted) incoming.discard(arrival);
      };
      await writer.write({ writes, written, failed });
    }
    for (const [{ relayed }, outcome] of outcomes) relayed?.settle(outcome);
    // The sender has missed that these are here.
    if (known.length > 0) await incoming.repeatReceipts(node, known);
    if (stores.length > 0 && fresh.some(({ store }) => isLaterEpoch(store))) this.#components.onNewEpoch(node);
    for (const [name, store] of reused) this.#components.onReused(node, store, this.#cursors.get(name) ?? 0);
  }

  /**
   * The ids of those of these messages that have arrived before. A number above the cursor needs no look-up: only messages
   * that are sent again, or that are older than their store's epoch, are compared by id.
   */
  async #seenBefore(node: string, items: readonly MailItem[]): Promise<Set<string>> {
    const doubtful: string[] = [];
    for (const { store, messages } of items) {
      const reached = Math.max(this.#cursors.get(cursorOf(node, store)) ?? 0, baseOf(store));
      for (const { number, envelope } of messages) if (number <= reached) doubtful.push(envelope.id);
    }
    return doubtful.length === 0 ? new Set() : this.#components.incoming.known(node, doubtful);
  }

  /** The last stored number of each store of that node. */
  progress(node: string): (readonly [store: string, upTo: number])[] {
    const prefix = cursorsOf(node);
    const own = [...this.#cursors].filter(([name]) => name.startsWith(prefix));
    return own.map(([name, upTo]) => [name.slice(prefix.length), upTo] as const);
  }

  #isFull(node: string, source: Source, { envelope }: SentMessage): boolean {
    const room = this.#components.incoming.hasRoom(`${splitAddress(envelope.sender).id}@${node}`);
    if (room && source.refused.length < MAX_REFUSALS) {
      source.stopped = false;
      return false;
    }
    this.#stop(node, source, room ? 'refused messages unacknowledged' : 'its share of the inboxes is full');
    return true;
  }

  #hasExpired({ expiresAt }: SentMessage): boolean {
    return expiresAt !== null && expiresAt < this.#components.clock.now();
  }

  #stop(node: string, source: Source, reason: string): void {
    if (!source.stopped)
      this.#components.runtime.logger.warn({ node, reason }, 'mail: durable messages of a node wait');
    source.stopped = true;
  }

  async #forgetRefusals(node: string, source: Source): Promise<void> {
    const { store, receipts } = this.#components;
    const excess = source.refused.length - KEPT_REFUSALS;
    const gone = source.refused.slice(0, excess).filter(({ update }) => receipts.isAcknowledged(node, update));
    if (gone.length === 0) return;
    const latest = new Map<string, number>();
    for (const { store: from, storedAt } of gone) {
      const name = forgottenOf(node, from);
      const known = latest.get(name) ?? this.#cursors.get(name) ?? Number.MIN_SAFE_INTEGER;
      latest.set(name, Math.max(known, Math.min(Math.ceil(storedAt), Number.MAX_SAFE_INTEGER)));
    }
    await store.write([
      receiptTable.delete({ id: gone.map(({ id }) => id), node, side: 'received' }),
      ...[...latest].map(([name, value]) => cursorTable.put({ name, value })),
    ]);
    for (const [name, value] of latest) this.#cursors.set(name, value);
    const ids = new Set(gone);
    source.refused = source.refused.filter((refusal) => !ids.has(refusal));
  }

  /**
   * Is a message, whose number is not new, older than a refusal that was forgotten? Then it may be that message, which a
   * custodian still had: its sender knows that it was refused. A store that was restored stored its new mail later.
   */
  #wasForgotten(node: string, store: string, { storedAt }: SentMessage): boolean {
    return storedAt <= (this.#cursors.get(forgottenOf(node, store)) ?? Number.NEGATIVE_INFINITY);
  }

  /** Adds the changes that accept or decline a message; `again` if it was declined before. */
  #add({ writes, accepted, declined }: Batch, node: string, store: string, message: SentMessage, again: boolean): void {
    const { runtime, incoming, permits, admit, permitMs, receipts } = this.#components;
    const { envelope: wire, storedAt, expiresAt } = message;
    const now = runtime.now();
    const decline = (end: ReceiptStep) => {
      const receipt = [stepOf('stored', storedAt), end];
      const row = receipts.settle(wire.id, node, 'received', receipt, writes);
      declined.push({ row, end, refusal: { id: wire.id, store, storedAt, update: row.news } });
    };
    if (this.#hasExpired(message)) {
      decline(stepOf('expired', now, 'its time to live ran out on the way'));
      return;
    }
    if (again) {
      decline(stepOf('refused', now, 'it was refused before'));
      return;
    }
    let admission: StoredAdmission;
    try {
      incoming.assertShare(`${splitAddress(wire.sender).id}@${node}`);
      admission = admit(wire, node);
    } catch (error) {
      const { code, message: reason } = error as EclipticError;
      decline(stepOf('refused', now, `${code}: ${reason}`));
      return;
    }
    const { envelope, target } = admission;
    accepted.push({ admission, arrival: incoming.insert(envelope, node, storedAt, expiresAt, writes) });
    const until = Math.min(expiresAt ?? now + permitMs, now + permitMs);
    writes.push(...permits.grant(envelope.correlationId, envelope.sender, target.address, until));
  }

  #stored({ accepted, declined }: Batch, source: Source): void {
    const { runtime, incoming, receipts, onStored } = this.#components;
    const full = declined.find(({ end }) => end.reason?.startsWith('QUEUE_FULL'));
    if (full && !source.overfull) {
      const { row, end } = full;
      runtime.logger.warn({ node: row.node, reason: end.reason }, 'mail: durable messages of an agent are refused');
    }
    source.overfull = full !== undefined;
    for (const { row, end, refusal } of declined) {
      source.refused.push(refusal);
      receipts.emit(row.id, [end]);
      receipts.settled(row);
    }
    for (const { admission, arrival } of accepted) {
      onStored(admission);
      incoming.arrived(arrival);
    }
  }
}

function cursorOf(node: string, store: string): string {
  return `${cursorsOf(node)}${store}`;
}

/** Messages of that store that were stored up to this time were refused here, and their receipts deleted. */
function forgottenOf(node: string, store: string): string {
  return `${forgottenCursors(node)}${store}`;
}

function cursorsOf(node: string): string {
  return `in ${node} `;
}

function forgottenCursors(node: string): string {
  return `refused ${node} `;
}

export function isCursorOf(node: string, name: string): boolean {
  return name.startsWith(cursorsOf(node)) || name.startsWith(forgottenCursors(node));
}
