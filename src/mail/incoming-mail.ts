import { envelopeText, unpackEnvelope } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import { backoffMs } from '../runtime/backoff.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import type { Store, Write } from '../store/store.js';
import type { InboxRow } from '../store/tables.js';
import type { Effects } from './delivery.js';
import { type GroupWriter, type Prepared, together } from './group-writer.js';
import { type Amount, MailQuota, pageOf, senderIn } from './mail-quota.js';
import type { News } from './news.js';
import { type Receipt, type ReceiptState, type ReceiptStep, stepOf, stepReceipt, writeSteps } from './receipt.js';
import { type Receipts, receiptOf } from './receipts.js';

export interface IncomingMailComponents {
  runtime: Runtime;
  clock: SteadyClock;
  store: Store;
  writer: GroupWriter;
  receipts: Receipts;
  news: News;
  /** What an agent wants done together with the end of a message. */
  effects: (agent: string, effects: Effects) => Prepared;
  /** What goes back to the sender of a message together with its end. */
  answer: (answer: ValidEnvelope) => Prepared;
  /** Runs a task while no news about messages from that node is taken. */
  exclusively: (node: string, task: () => Promise<void>) => Promise<void>;
  /** A message is on disk, for whoever reads the mail of its recipient. */
  onArrival: (held: HeldMail) => void;
}

/** How a message ends, and what happens with it. */
export interface End {
  readonly state: ReceiptState;
  readonly reason?: string;
  readonly effects?: Effects;
  readonly answer?: ValidEnvelope | undefined;
}

/** A message of another node waits here for no longer, whatever its sender says. */
const MAX_LIFE_MS = 30 * 86_400_000;
const PAGE = 500;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;

/** A message of the inbox while it is in memory: there is one of these for it, however often it is handed over. */
export class HeldMail {
  readonly number: number;
  readonly node: string;
  readonly envelope: ValidEnvelope;
  readonly expiresAt: number | null;
  receipt: Receipt;
  /** May an agent have seen it? */
  seen: boolean;
  /** Is its end decided, though perhaps not on disk yet? */
  ending = false;
  /** Is its end on disk? */
  over = false;

  constructor(row: Omit<InboxRow, 'envelope' | 'steps'>, envelope: ValidEnvelope, receipt: Receipt, seen: boolean) {
    this.number = row.number;
    this.node = row.node;
    this.expiresAt = row.expiresAt;
    this.envelope = envelope;
    this.receipt = receipt;
    this.seen = seen;
  }

  hasExpired(now: number): boolean {
    return this.expiresAt !== null && this.expiresAt < now;
  }
}

/** Durable messages for agents of this node: on disk when they have arrived, until the agent is done with them. */
export class IncomingMail {
  readonly #components: IncomingMailComponents;
  /** Messages that somebody may be working on. */
  readonly #held = new Map<number, HeldMail>();
  readonly #retries = new Set<Timer>();
  /** Rows below this number may have been handed over by an earlier process. */
  readonly #earlier: number;
  /** Nodes that were removed: messages of theirs up to this number have ended. */
  readonly #forgotten = new Map<string, number>();
  readonly #quota: MailQuota;
  #next: number;

  constructor(components: IncomingMailComponents, start: { next: number; waiting: Amount }) {
    this.#components = components;
    this.#next = start.next;
    this.#earlier = start.next;
    this.#quota = new MailQuota(start.waiting);
  }

  /** Is there room for a message of this sender, and for another one of its node? */
  hasRoom(sender: string): boolean {
    return this.#quota.hasRoom(sender);
  }

  /** Throws when this agent of another node has taken up its share. */
  assertShare(sender: string): void {
    if (this.#quota.agentHasRoom(sender)) return;
    throw new EclipticError('QUEUE_FULL', `too many durable messages of ${sender} wait in the inboxes of this node`);
  }

  /** Counts what earlier processes left, by its senders. */
  async countEarlier(): Promise<void> {
    const { store } = this.#components;
    for (let above = 0; ; ) {
      const limit = await this.#page();
      const query = { from: 'inbox', above: { number: above }, below: { number: this.#earlier } } as const;
      const rows = await store.read({ ...query, orderBy: 'number', limit });
      this.#quota.found(
        rows.map(({ number, envelope }) => ({
          key: String(number),
          sender: senderIn(envelope),
          chars: envelope.length,
        })),
      );
      if (rows.length < limit) break;
      above = rows.at(-1)!.number;
    }
    this.#quota.complete();
  }

  async #page(): Promise<number> {
    const { rows: messages, bytes } = await this.#components.store.figures('inbox');
    return pageOf({ messages, bytes }, PAGE);
  }

  /** What to do so that a message has arrived. */
  prepare(envelope: ValidEnvelope, node: string, storedAt: number, until: number | null): Prepared {
    const { id, sender, recipient } = envelope;
    if (!this.#quota.hasRoom(sender)) {
      throw new EclipticError('QUEUE_FULL', `too many durable messages of ${sender} wait in the inboxes of this node`);
    }
    const { runtime, receipts, news, onArrival } = this.#components;
    const now = runtime.now();
    const expiresAt = node === '' ? until : Math.min(until ?? Number.POSITIVE_INFINITY, now + MAX_LIFE_MS);
    const arrived = stepOf('arrived', now);
    const receipt: Receipt = [stepOf('stored', storedAt), arrived];
    const steps = writeSteps(receipt);
    const meta = { id, number: this.#next++, node, recipient, expiresAt };
    const row: InboxRow = { ...meta, envelope: envelopeText(envelope), steps };
    const key = String(meta.number);
    this.#quota.add(key, sender, row.envelope.length);
    return {
      writes: [{ insert: 'inbox', row }],
      written: () => {
        if (node === '') receipts.emit(id, receipt, recipient);
        else {
          receipts.emit(id, [arrived], recipient);
          news.add(node, id, steps, 0);
        }
        onArrival(new HeldMail(meta, envelope, receipt, false));
      },
      failed: () => this.#quota.remove(key),
    };
  }

  /** Which of these messages of that node have been here. */
  async known(node: string, ids: readonly string[]): Promise<Set<string>> {
    const { store, receipts } = this.#components;
    const waiting = await store.read({ from: 'inbox', where: { id: ids, node } });
    const ended = (await receipts.find(node, ids)).filter(({ side }) => side === 'received');
    return new Set([...waiting, ...ended].map(({ id }) => id));
  }

  /** Says again what is known of messages that a node sends again. */
  async retell(node: string, ids: readonly string[]): Promise<void> {
    const { store, receipts, news } = this.#components;
    const rows = [
      ...(await store.read({ from: 'inbox', where: { id: ids, node } })),
      ...(await receipts.find(node, ids)).filter(({ side }) => side === 'received'),
    ];
    for (const { id, steps } of rows) news.add(node, id, steps, 0);
  }

  /** A conversation with that node begins: it is told which of its messages are being worked on. */
  begin(node: string): void {
    for (const { node: from, envelope, receipt } of this.#held.values()) {
      if (from === node && receipt.length > 2) this.#components.news.add(node, envelope.id, writeSteps(receipt), 0);
    }
  }

  /** The next messages of an agent behind that number, as they are on disk. */
  async load(agent: string, above: number): Promise<HeldMail[]> {
    const query = { from: 'inbox', where: { recipient: agent }, above: { number: above }, orderBy: 'number' } as const;
    const rows = await this.#components.store.read({ ...query, limit: await this.#page() });
    return rows.map((row) => {
      const envelope = unpackEnvelope(JSON.parse(row.envelope));
      return this.#held.get(row.number) ?? new HeldMail(row, envelope, receiptOf(row), row.number < this.#earlier);
    });
  }

  /** Has it ended, or is it about to, with the membership of its sender's node? */
  isForgotten({ node, number }: HeldMail): boolean {
    return number <= (this.#forgotten.get(node) ?? -1);
  }

  /** Somebody works on it; whether it may have been seen before. */
  hand(held: HeldMail): boolean {
    const { seen } = held;
    held.seen = true;
    this.#held.set(held.number, held);
    return seen;
  }

  /** Nobody works on it any more. */
  letGo(held: HeldMail): void {
    if (!held.ending) this.#held.delete(held.number);
  }

  /** Notes how far it has come, short of its end: held back, handed over, or read. */
  note(held: HeldMail, state: 'held' | 'surfaced' | 'read', at: number, reason?: string): void {
    if (held.ending || held.receipt.some((step) => step.state === state)) return;
    const step = stepOf(state, at, reason);
    held.receipt = stepReceipt(held.receipt, step);
    const { writer, receipts, news } = this.#components;
    const { number, node, envelope } = held;
    const steps = writeSteps(held.receipt);
    writer.add({
      writes: [{ update: 'inbox', where: { number }, set: { steps } }],
      written: () => {
        receipts.emit(envelope.id, [step], envelope.recipient);
        if (node !== '' && !held.over) news.add(node, envelope.id, steps, 0);
      },
    });
  }

  /** Ends a message, in one transaction with whatever is to be done exactly once. */
  async end(held: HeldMail, end: End): Promise<void> {
    if (held.ending) throw new EclipticError('INVALID_TRANSITION', 'this message has ended');
    const prepared = this.#prepareEnd(held, end);
    held.ending = true;
    try {
      await this.#components.writer.write(prepared);
    } catch (error) {
      held.ending = false;
      throw error;
    }
  }

  /** As `end`, but it is tried until it works, or the node stops. */
  endSurely(held: HeldMail, end: End, failures = 0): void {
    if (held.ending) return;
    const { runtime, writer } = this.#components;
    const failed = (error: unknown) => {
      runtime.logger.error({ message: held.envelope.id, err: error }, 'the end of a message was not kept');
      const timer = runtime.setTimer(
        () => {
          this.#retries.delete(timer);
          held.ending = false;
          this.endSurely(held, end, failures + 1);
        },
        backoffMs(failures, FIRST_RETRY_MS, LONGEST_RETRY_MS),
      );
      this.#retries.add(timer);
    };
    const prepared = this.#prepareAnyhow(held, end);
    held.ending = true;
    this.#held.set(held.number, held);
    writer.add({
      ...prepared,
      failed: (error) => {
        prepared.failed?.(error);
        failed(error);
      },
    });
  }

  /** The sender's side says that its time ran out; when it runs out here too, both show the same. */
  async expiredThere(node: string, id: string, step: ReceiptStep): Promise<void> {
    const { store, writer } = this.#components;
    for (const row of await store.read({ from: 'inbox', where: { id, node } })) {
      const held = this.#held.get(row.number);
      const receipt = stepReceipt(held?.receipt ?? receiptOf(row), step);
      if (held) held.receipt = receipt;
      const set = { steps: writeSteps(receipt) };
      await writer.write({ writes: [{ update: 'inbox', where: { number: row.number }, set }], written: () => {} });
    }
  }

  /** Ends every message whose time has run out. */
  async expire(): Promise<void> {
    const { store, clock, exclusively } = this.#components;
    const below = { expiresAt: clock.now() };
    const late = await store.read({ from: 'inbox', below, limit: await this.#page() });
    for (const node of new Set(late.map((row) => row.node))) {
      await exclusively(node, async () => {
        const rows = await store.read({ from: 'inbox', where: { node }, below, limit: await this.#page() });
        for (const row of rows) this.#expire(row);
      });
    }
  }

  /** Ends every message from a node that is no longer a member. What an agent works on may still be done. */
  async forget(node: string): Promise<void> {
    const { store } = this.#components;
    this.#forgotten.set(node, this.#next - 1);
    for (let above = -1; ; ) {
      const query = { from: 'inbox', where: { node }, above: { number: above }, orderBy: 'number' } as const;
      const rows = await store.read({ ...query, limit: PAGE });
      if (rows.length === 0) return;
      above = rows.at(-1)!.number;
      for (const row of rows) {
        const held = this.#held.get(row.number) ?? heldOf(row);
        if (held.ending || this.#held.has(row.number)) continue;
        await this.end(held, { state: 'undeliverable', reason: 'the sender’s node was removed from the mesh' });
      }
    }
  }

  stop(): void {
    for (const timer of this.#retries) timer.cancel();
    this.#retries.clear();
  }

  #expire(row: InboxRow): void {
    const known = this.#held.get(row.number);
    // What is being worked on may still be done.
    if (known) return;
    const held = heldOf(row);
    const read = held.receipt.some(({ state }) => state === 'read');
    this.endSurely(held, {
      state: 'expired',
      reason: `its time to live ran out before it was ${read ? 'done' : 'read'}`,
    });
  }

  #prepareEnd(held: HeldMail, { state, reason, effects, answer }: End): Prepared {
    const { runtime, receipts } = this.#components;
    const { number, node, envelope } = held;
    const now = runtime.now();
    const steps = [stepOf(state, now, reason)];
    if (state !== 'undeliverable' && state !== 'expired') steps.unshift(stepOf('read', now));
    const receipt = steps.reduce(stepReceipt, held.receipt);
    const also = together(
      [{ delete: 'inbox', where: { number } }],
      [
        ...(effects ? [() => this.#components.effects(envelope.recipient, effects)] : []),
        ...(answer ? [() => this.#components.answer(answer)] : []),
      ],
    );
    const writes: Write[] = [...also.writes];
    const change = receipts.settle(envelope.id, node, node === '' ? 'local' : 'received', receipt, writes);
    writes.push(change.write);
    return {
      writes,
      written: () => {
        held.over = true;
        this.#held.delete(number);
        this.#quota.remove(String(number));
        receipts.emit(envelope.id, steps, envelope.recipient);
        change.written();
        also.written();
      },
      failed: also.failed,
    };
  }

  /** An answer that may not go, or has no room, keeps no message from ending. */
  #prepareAnyhow(held: HeldMail, end: End): Prepared {
    try {
      return this.#prepareEnd(held, end);
    } catch (error) {
      const { id, recipient } = held.envelope;
      this.#components.runtime.logger.warn({ message: id, agent: recipient, err: error }, 'an answer cannot go');
      const state = end.state === 'replied' ? 'done' : end.state;
      return this.#prepareEnd(held, { ...end, state, answer: undefined });
    }
  }
}

/** A message of the inbox that an agent may have seen. */
function heldOf(row: InboxRow): HeldMail {
  return new HeldMail(row, unpackEnvelope(JSON.parse(row.envelope)), receiptOf(row), true);
}
