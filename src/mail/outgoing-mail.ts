import { envelopeText } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import { ITEM } from '../network/peers/wire.js';
import { EclipticError } from '../runtime/errors.js';
import type { Write } from '../store/store.js';
import { CatchUp, ResendBackoff } from './catch-up.js';
import { type Amount, countEarlier, MailQuota, pageSize, senderIn } from './mail-quota.js';
import { type Progress, packed } from './mail-wire.js';
import type { Prepared, SequenceAllocator } from './prepared.js';
import { type ReceiptStep, stepOf, stepReceipt } from './receipt.js';
import type { MailContext } from './receipts.js';
import type { StoreEpoch } from './store-epoch.js';
import { type OutboxRow, outbox } from './tables.js';

export interface OutgoingMailComponents extends MailContext {
  numbers: SequenceAllocator;
  /** Names this store, so that the numbers of another store are not mistaken for its own. */
  epoch: StoreEpoch;
  /** Sends an item to a node; throws when that is not possible now. */
  say: (node: string, text: string) => void;
  /** Begins a conversation with a node that is there. */
  wake: (node: string) => void;
  /** Makes senders known to a node, in case they left before it met them. Returns the function that takes that back. */
  introduce: (node: string, senders: ReadonlySet<string>) => () => void;
  /** A message is on disk. */
  onStored: (row: OutboxRow) => void;
}

/** Unacknowledged messages to one node, and their characters. */
const WINDOW = 4_096;
const WINDOW_CHARS = 4 * 1_048_576;
const PAGE = 500;

export interface InFlight {
  readonly number: number;
  readonly storedAt: number;
  readonly chars: number;
}

/** The messages in flight to one node, in one conversation. */
class SendWindow {
  readonly inFlight = new Map<string, InFlight>();
  readonly backoff: ResendBackoff;
  readonly catchUp: CatchUp<OutboxRow>;
  /** A message could not be sent: the following ones wait until all are sent again. */
  stalled = false;
  readonly #node: string;
  readonly #components: OutgoingMailComponents;
  #batch: OutboxRow[] = [];
  #chars = 0;
  #sent = 0;
  #closed = false;

  constructor(node: string, components: OutgoingMailComponents, backoff = new ResendBackoff()) {
    const { store, runtime } = components;
    this.#node = node;
    this.#components = components;
    this.backoff = backoff;
    this.catchUp = new CatchUp({
      read: async (above) => {
        const limit = await pageSize(store, outbox);
        return store.read(outbox, { where: { node }, above: { number: above }, orderBy: 'number', limit });
      },
      take: (row) => this.#take(row),
      hasRoom: () => this.inFlight.size < WINDOW && this.#chars < WINDOW_CHARS && !this.stalled,
      onFailure: (error) => runtime.logger.error({ node, err: error }, 'mail: the outbox cannot be read'),
    });
    this.catchUp.resume();
  }

  get waiting(): boolean {
    return this.inFlight.size > 0 || this.catchUp.behind || this.stalled;
  }

  /** Sends a message that was just written, unless older ones must go before it. */
  offer(row: OutboxRow): void {
    if (!this.catchUp.offer(row)) this.catchUp.resume();
  }

  acknowledged(ids: readonly string[]): void {
    for (const id of ids) {
      const found = this.inFlight.get(id);
      if (found && this.inFlight.delete(id)) this.#chars -= found.chars;
    }
    this.backoff.acknowledged(this.#components.runtime.stopwatch());
    if (this.catchUp.behind && this.inFlight.size <= WINDOW / 2) this.catchUp.resume();
  }

  close(): void {
    this.#closed = true;
    this.catchUp.close();
  }

  #take(row: OutboxRow): void {
    const { id, number, storedAt, envelope } = row;
    this.#chars += envelope.length;
    this.inFlight.set(id, { number, storedAt, chars: envelope.length });
    if (this.#batch.push(row) === 1) queueMicrotask(() => this.#send());
  }

  /** Sends all messages that were taken in this turn in as few items as possible. */
  #send(): void {
    const { say, epoch, runtime, introduce } = this.#components;
    const rows = this.#batch;
    this.#batch = [];
    if (this.#closed || this.stalled) return;
    const texts = rows.map(({ number, storedAt, expiresAt, envelope }) => {
      return `[${number},${storedAt},${expiresAt},${envelope}]`;
    });
    try {
      const withdraw = introduce(this.#node, new Set(rows.map(({ envelope }) => senderIn(envelope))));
      for (const { list, to } of packed(texts)) {
        say(this.#node, `["${ITEM.mail}",${JSON.stringify(epoch.name)},${this.#sent},${list}]`);
        this.#sent = rows[to - 1]!.number;
      }
      withdraw();
    } catch (error) {
      this.stalled = true;
      runtime.logger.debug({ node: this.#node, err: error }, 'mail: durable messages queued');
    }
  }
}

/** Durable messages for agents of other nodes: stored until their node acknowledges them, and sent until then. */
export class OutgoingMail {
  readonly #components: OutgoingMailComponents;
  readonly #windows = new Map<string, SendWindow>();
  readonly #quota: MailQuota;

  constructor(components: OutgoingMailComponents, waiting: Amount) {
    this.#components = components;
    this.#quota = new MailQuota(waiting);
  }

  countEarlier(): Promise<void> {
    return countEarlier(this.#components.store, outbox, this.#quota, ({ id }) => id);
  }

  /** Is that message in the outbox? False also for one of an earlier process that was not counted yet. */
  hasMessage(id: string): boolean {
    return this.#quota.has(id);
  }

  /** The next messages for any node, as they are stored. */
  rows(above: number, limit: number): Promise<OutboxRow[]> {
    return this.#components.store.read(outbox, { above: { number: above }, orderBy: 'number', limit });
  }

  /** Prepares storing and sending a message. Throws `QUEUE_FULL`. */
  prepare(envelope: ValidEnvelope, node: string, expiresAt: number | null): Prepared {
    const { id, sender } = envelope;
    if (!this.#quota.hasRoom(sender)) {
      throw new EclipticError('QUEUE_FULL', `too many durable messages of ${sender} wait for other nodes`);
    }
    const { runtime, receipts, relays, numbers, onStored } = this.#components;
    const writes: Write[] = [];
    const number = numbers.take(writes);
    const row: OutboxRow = { id, number, node, envelope: envelopeText(envelope), storedAt: runtime.now(), expiresAt };
    writes.push(outbox.insert(row));
    this.#quota.add(id, sender, row.envelope.length);
    return {
      writes,
      written: () => {
        receipts.emit(id, relays.receiptOf(row));
        const window = this.#windows.get(node);
        if (window) window.offer(row);
        else this.#components.wake(node);
        onStored(row);
      },
      failed: () => this.#quota.remove(id),
    };
  }

  /** Does a message for that node wait on disk? */
  async hasRows(node: string): Promise<boolean> {
    const rows = await this.#components.store.read(outbox, { where: { node }, limit: 1 });
    return rows.length > 0;
  }

  isWaiting(node: string): boolean {
    return this.#windows.get(node)?.waiting === true;
  }

  /** A conversation with that node begins, or is continued with `backoff`: sends every unacknowledged message, in order. */
  begin(node: string, backoff?: ResendBackoff): void {
    this.#windows.get(node)?.close();
    this.#windows.set(node, new SendWindow(node, this.#components, backoff));
  }

  /**
   * Compares the other node's progress with this store. A number that this store has not given out, or gave to another
   * message, means that this store was restored from a copy: it continues in a new epoch. Returns the reason for that.
   */
  async compare(node: string, { store, upTo, reused }: Progress): Promise<string | undefined> {
    const { epoch, numbers } = this.#components;
    if (store !== epoch.name || (upTo <= numbers.last && !reused)) return undefined;
    const why = reused
      ? 'it has other mail under the same numbers'
      : `it has mail up to number ${upTo}, and this store has given ${numbers.last} only`;
    const reason = `this store was put back from a copy, or a copy of it runs elsewhere: node ${node} says that ${why}`;
    if (!(await epoch.renew(numbers.last, reason))) return undefined;
    // Messages in flight are sent again under the new name.
    for (const other of [...this.#windows.keys()]) this.begin(other);
    return reason;
  }

  end(node: string): void {
    this.#windows.get(node)?.close();
    this.#windows.delete(node);
  }

  inFlight(node: string, id: string): InFlight | undefined {
    return this.#windows.get(node)?.inFlight.get(id);
  }

  removed(node: string, ids: readonly string[]): void {
    for (const id of ids) this.#quota.remove(id);
    this.#windows.get(node)?.acknowledged(ids);
  }

  /** Sends messages again that were not acknowledged for a while. */
  sweep(): void {
    const now = this.#components.runtime.stopwatch();
    for (const [node, window] of this.#windows) {
      if (window.backoff.isDue(now, window.waiting)) this.begin(node, window.backoff);
    }
  }

  /** Ends every message whose time to live has run out. */
  async expire(): Promise<void> {
    const { store, clock, locks, runtime } = this.#components;
    const reason = 'its time to live ran out before its node could be reached';
    for (;;) {
      const below = { expiresAt: clock.now() };
      const late = await store.read(outbox, { below, limit: PAGE });
      for (const node of new Set(late.map((row) => row.node))) {
        await locks.run(node, async () => {
          // Read again under the lock: some of them may have been acknowledged meanwhile.
          const rows = await store.read(outbox, { where: { node }, below, limit: PAGE });
          if (rows.length > 0) await this.#finish(node, rows, stepOf('expired', runtime.now(), reason));
        });
      }
      if (late.length < PAGE) return;
    }
  }

  async forget(node: string): Promise<void> {
    this.end(node);
    const { store, runtime } = this.#components;
    const reason = 'the recipient’s node was removed from the mesh';
    for (let above = 0; ; ) {
      const rows = await store.read(outbox, {
        where: { node },
        above: { number: above },
        orderBy: 'number',
        limit: PAGE,
      });
      if (rows.length === 0) return;
      above = rows.at(-1)!.number;
      await this.#finish(node, rows, stepOf('undeliverable', runtime.now(), reason));
    }
  }

  async #finish(node: string, rows: readonly OutboxRow[], end: ReceiptStep): Promise<void> {
    const { receipts, relays, writer } = this.#components;
    const writes: Write[] = [outbox.delete({ number: rows.map(({ number }) => number) })];
    const settled = rows.map((row) => {
      return receipts.settle(row.id, node, 'sent', stepReceipt(relays.receiptOf(row), end), writes);
    });
    const written = () => {
      const ids = rows.map(({ id }) => id);
      this.removed(node, ids);
      for (const id of ids) receipts.emit(id, [end]);
      for (const row of settled) receipts.settled(row);
    };
    await writer.write({ writes, written });
  }
}
