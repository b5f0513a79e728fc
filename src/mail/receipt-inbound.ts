import type { Write } from '../store/store.js';
import type { IncomingMail } from './incoming-mail.js';
import type { ReceiptUpdates } from './mail-wire.js';
import type { OutgoingMail } from './outgoing-mail.js';
import { addSteps, isFinal, presentState, type Receipt, type ReceiptStep } from './receipt.js';
import { type MailContext, receiptOf, type Side } from './receipts.js';
import { outbox, type ReceiptRow } from './tables.js';

export interface ReceiptInboundComponents extends MailContext {
  outgoing: OutgoingMail;
  incoming: IncomingMail;
  /** Tells a node that its updates up to this number are on disk. */
  acknowledge: (node: string, last: number) => void;
}

/** Receipts of unfinished messages that are kept in memory, so that they need not be read again. */
const MAX_OPEN = 20_000;
const MAX_WAITING = 20_000;
/** Updates that are written at once, so that no write keeps the event loop for long. */
const WRITE_UPDATES = 128;

/** The updates that one node sent in one conversation. */
interface PeerUpdates {
  /** Updates up to this number are on disk. */
  upTo: number;
  waiting: ReceiptUpdates[];
  count: number;
}

/** The state of a message before its updates. */
interface Known {
  readonly id: string;
  readonly side: Side;
  readonly receipt: Receipt;
  /** Its number in the outbox, while it is there. */
  readonly number?: number;
  readonly news: number | null;
}

interface Changed {
  readonly id: string;
  readonly side: Side;
  readonly receipt: Receipt;
  /** The states that are new. */
  readonly steps: readonly ReceiptStep[];
}

/** Stores the receipt updates that other nodes send about messages to and from them. */
export class ReceiptInbound {
  readonly #components: ReceiptInboundComponents;
  readonly #peers = new Map<string, PeerUpdates>();
  readonly #open = new Map<string, Receipt>();

  constructor(components: ReceiptInboundComponents) {
    this.#components = components;
  }

  begin(node: string): PeerUpdates {
    const peer: PeerUpdates = { upTo: 0, waiting: [], count: 0 };
    this.#peers.set(node, peer);
    return peer;
  }

  take(node: string, item: ReceiptUpdates): void {
    const peer = this.#peers.get(node) ?? this.begin(node);
    // Updates that are not taken are not acknowledged, so the other node sends them again.
    if (peer.count > 0 && peer.count + item.updates.length > MAX_WAITING) return;
    peer.count += item.updates.length;
    // Updates that arrive during a write go with the next one.
    if (peer.waiting.push(item) === 1) this.#processLater(node, peer);
  }

  /**
   * As `take`, for updates that came through a custodian. Resolves when they are on disk. They follow no gap: updates are
   * complete in themselves, and each item is acknowledged alone.
   */
  takeRelayed(node: string, { updates }: ReceiptUpdates): Promise<void> {
    const merged = new Map<string, Receipt>();
    for (const [id, receipt] of updates) merged.set(id, addSteps(merged.get(id) ?? [], receipt));
    return new Promise((resolve, reject) => {
      void this.#components.locks.run(node, () => this.#store(node, merged).then(resolve, reject));
    });
  }

  #processLater(node: string, peer: PeerUpdates): void {
    void this.#components.locks.run(node, () => this.#process(node, peer));
  }

  async #process(node: string, peer: PeerUpdates): Promise<void> {
    const { upTo, updates } = merge(this.#next(peer), peer.upTo);
    if (peer.waiting.length > 0) this.#processLater(node, peer);
    if (updates.size > 0) await this.#store(node, updates);
    if (upTo === peer.upTo) return;
    peer.upTo = upTo;
    if (this.#peers.get(node) === peer) this.#components.acknowledge(node, upTo);
  }

  /** As many waiting items as one write takes. */
  #next(peer: PeerUpdates): ReceiptUpdates[] {
    let [items, updates] = [0, 0];
    while (items < peer.waiting.length && updates < WRITE_UPDATES) updates += peer.waiting[items++]!.updates.length;
    peer.count -= updates;
    return peer.waiting.splice(0, items);
  }

  async #store(node: string, updates: ReadonlyMap<string, Receipt>): Promise<void> {
    const { receipts, writer, outgoing, incoming } = this.#components;
    const { known, unknown } = await this.#lookUp(node, updates.keys());
    for (const id of unknown) {
      const expired = updates.get(id)!.find((step) => mayReport('received', step));
      if (expired) await incoming.expiredThere(node, id, expired);
    }
    const writes: Write[] = [];
    const corrections: ReceiptRow[] = [];
    const numbers: number[] = [];
    const gone: string[] = [];
    const changed: Changed[] = [];
    for (const { id, side, receipt: before, number, news } of known) {
      const steps = updates.get(id)!.filter((step) => mayReport(side, step));
      const receipt = addSteps(before, steps);
      const late = side === 'sent' && isLate(steps, receipt);
      if (steps.length === 0 || (receipt === before && number === undefined && !late)) continue;
      if (late) corrections.push(receipts.settle(id, node, side, receipt, writes));
      else receipts.update(id, node, side, receipt, news, writes);
      if (number !== undefined) {
        numbers.push(number);
        gone.push(id);
      }
      const isAllNew = receipt.length === before.length + steps.length;
      changed.push({ id, side, receipt, steps: isAllNew ? steps : receipt.filter((step) => !before.includes(step)) });
    }
    if (writes.length === 0) return;
    if (gone.length > 0) writes.push(outbox.delete({ number: numbers }));
    const written = () => {
      if (gone.length > 0) outgoing.removed(node, gone);
      for (const { id, side, receipt, steps } of changed) {
        receipts.emit(id, steps);
        if (side === 'sent') this.#remember(node, id, receipt);
      }
      for (const row of corrections) receipts.settled(row);
    };
    await writer.write({ writes, written });
  }

  /** The state of these messages with that node. An unknown id is none of its messages. */
  async #lookUp(node: string, ids: Iterable<string>): Promise<{ known: Known[]; unknown: string[] }> {
    const { outgoing, receipts, relays, store } = this.#components;
    const known: Known[] = [];
    const missing: string[] = [];
    for (const id of ids) {
      const sent = outgoing.inFlight(node, id);
      const open = sent || this.#open.size === 0 ? undefined : this.#open.get(keyOf(node, id));
      if (sent)
        known.push({ id, side: 'sent', receipt: relays.receiptOf({ ...sent, node }), number: sent.number, news: null });
      else if (open) known.push({ id, side: 'sent', receipt: open, news: null });
      else missing.push(id);
    }
    if (missing.length === 0) return { known, unknown: missing };
    const [settled, waiting] = await Promise.all([
      receipts.find(node, missing),
      store.read(outbox, { where: { id: missing, node } }),
    ]);
    const found = new Map<string, Known>();
    // The other node may use the same id for a message of its own: the message sent from here comes first.
    for (const row of settled.toSorted((a, b) => Number(a.side === 'sent') - Number(b.side === 'sent'))) {
      const { id, side, news } = row;
      found.set(id, { id, side: side as Side, receipt: receiptOf(row), news });
    }
    for (const row of waiting) {
      const { id, number } = row;
      found.set(id, { id, side: 'sent', receipt: relays.receiptOf(row), number, news: null });
    }
    return { known: [...known, ...found.values()], unknown: missing.filter((id) => !found.has(id)) };
  }

  #remember(node: string, id: string, receipt: Receipt): void {
    const isOver = isFinal(presentState(receipt)!);
    if (isOver && this.#open.size === 0) return;
    const key = keyOf(node, id);
    this.#open.delete(key);
    if (isOver) return;
    this.#open.set(key, receipt);
    if (this.#open.size <= MAX_OPEN) return;
    const [oldest] = this.#open.keys();
    this.#open.delete(oldest!);
  }
}

function keyOf(node: string, id: string): string {
  return `${node} ${id}`;
}

/** The updates of several items, without the items that follow a gap: the other node sends those again. */
function merge(items: readonly ReceiptUpdates[], from: number): { upTo: number; updates: Map<string, Receipt> } {
  let upTo = from;
  const merged = new Map<string, Receipt>();
  for (const { before, last, updates } of items) {
    if (before > upTo) continue;
    upTo = Math.max(upTo, last);
    for (const [id, receipt] of updates) merged.set(id, addSteps(merged.get(id) ?? [], receipt));
  }
  return { upTo, updates: merged };
}

/** Did the message expire on the other side later than on this one? Then that side must learn the earlier time. */
function isLate(steps: readonly ReceiptStep[], receipt: Receipt): boolean {
  return steps.some((step) => step.state === 'expired' && !receipt.includes(step));
}

/** The recipient's node reports every state but `stored` and `relayed`; the sender's node reports only that the time ran out. */
function mayReport(side: Side, { state }: ReceiptStep): boolean {
  return side === 'sent' ? state !== 'stored' && state !== 'relayed' : state === 'expired';
}
