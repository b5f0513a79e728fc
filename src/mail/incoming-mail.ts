import { envelopeText, unpackEnvelope } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import { weighJson } from '../mesh/json-value.js';
import { wait } from '../runtime/async.js';
import { backoffMs } from '../runtime/backoff.js';
import { EclipticError } from '../runtime/errors.js';
import type { Write } from '../store/store.js';
import { type Amount, countEarlier, MailQuota, pageSize } from './mail-quota.js';
import { type Prepared, together } from './prepared.js';
import {
  addSteps,
  type Receipt,
  type ReceiptState,
  type ReceiptStep,
  stepOf,
  stepReceipt,
  writeSteps,
} from './receipt.js';
import type { ReceiptOutbound } from './receipt-outbound.js';
import { type MailContext, receiptOf } from './receipts.js';
import { type InboxRow, inbox, type ReceiptRow } from './tables.js';

/** Effects that an agent wants exactly once, in one transaction with the end of the message that caused them. */
export interface Effects {
  /** Values that the agent keeps, by name. `undefined` deletes one. */
  keep?: Readonly<Record<string, unknown>>;
  send?: readonly { to: string; payload: unknown; thread?: string }[];
}

export interface IncomingMailComponents extends MailContext {
  outbound: ReceiptOutbound;
  effects: (agent: string, effects: Effects) => Prepared;
  answer: (answer: ValidEnvelope) => Prepared;
  onArrival: (message: InboxMessage) => void;
}

/** How a message ends, and the changes that go into the same transaction. */
export interface MessageEnd {
  readonly state: ReceiptState;
  readonly reason?: string;
  readonly effects?: Effects;
  readonly answer?: ValidEnvelope | undefined;
}

type PlainEnd = { readonly message: InboxMessage; readonly end: MessageEnd };

/** A message that was not in the inbox before. */
export interface Arrival {
  readonly row: InboxRow;
  readonly envelope: ValidEnvelope;
  readonly receipt: Receipt;
}

/** The last states of a message, and the row of its receipt. */
interface SettledMessage {
  readonly message: InboxMessage;
  readonly steps: readonly ReceiptStep[];
  readonly row: ReceiptRow;
}

/** A message of another node expires after this time at the latest, whatever its sender says. */
const MAX_LIFE_MS = 30 * 86_400_000;
const PAGE = 500;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;

/** A message of the inbox while it is in memory: one object, however often it is delivered. */
export class InboxMessage {
  readonly number: number;
  readonly node: string;
  readonly envelope: ValidEnvelope;
  readonly expiresAt: number | null;
  receipt: Receipt;
  seen: boolean;
  /** Is its end decided, though perhaps not on disk yet? */
  ending = false;
  /** Is its end on disk? */
  ended = false;

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

/** Durable messages for agents of this node: on disk from their arrival until the agent is done with them. */
export class IncomingMail {
  readonly #components: IncomingMailComponents;
  /** Messages that an agent may be working on. */
  readonly #inWork = new Map<number, InboxMessage>();
  readonly #stopping = new AbortController();
  /** Rows below this number may have been delivered by an earlier process. */
  readonly #earlier: number;
  /** Removed nodes: their messages up to this number have ended. */
  readonly #forgotten = new Map<string, number>();
  readonly #quota: MailQuota;
  /** Ends of this turn, to be written together. */
  readonly #ends: PlainEnd[] = [];
  #next: number;

  constructor(components: IncomingMailComponents, start: { next: number; waiting: Amount }) {
    this.#components = components;
    this.#next = start.next;
    this.#earlier = start.next;
    this.#quota = new MailQuota(start.waiting);
  }

  /** Is there room for another message of this sender, and of its node? */
  hasRoom(sender: string): boolean {
    return this.#quota.hasRoom(sender);
  }

  /** Throws if this agent of another node has used up its share. */
  assertShare(sender: string): void {
    if (!this.#quota.agentHasRoom(sender)) throw tooMany(sender);
  }

  countEarlier(): Promise<void> {
    return countEarlier(this.#components.store, inbox, this.#quota, ({ number }) => String(number));
  }

  /** Prepares storing a message of an agent of this node. Throws `QUEUE_FULL`. */
  prepareLocal(envelope: ValidEnvelope, storedAt: number, expiresAt: number | null): Prepared {
    const writes: Write[] = [];
    const arrival = this.#insert(envelope, '', storedAt, expiresAt, writes);
    return { writes, written: () => this.arrived(arrival), failed: () => this.discard(arrival) };
  }

  /**
   * Adds the changes that store a message of another node to `writes`. `arrived` must be called once they are written,
   * `discard` if that fails. Throws `QUEUE_FULL`.
   */
  insert(envelope: ValidEnvelope, node: string, storedAt: number, until: number | null, writes: Write[]): Arrival {
    const latest = this.#components.runtime.now() + MAX_LIFE_MS;
    return this.#insert(envelope, node, storedAt, Math.min(until ?? latest, latest), writes);
  }

  /** A message is on disk: reports that and hands it to its agent. */
  arrived({ row, envelope, receipt }: Arrival): void {
    const { receipts, outbound, onArrival } = this.#components;
    const { id, node, recipient, steps } = row;
    if (node === '') receipts.emit(id, receipt, recipient);
    else {
      receipts.emit(id, receipt.slice(1), recipient);
      outbound.add(node, id, steps, 0);
    }
    onArrival(new InboxMessage(row, envelope, receipt, false));
  }

  discard({ row }: Arrival): void {
    this.#quota.remove(String(row.number));
  }

  /** The ids of those of these messages that have arrived from that node before. */
  async known(node: string, ids: readonly string[]): Promise<Set<string>> {
    return new Set((await this.#find(node, ids)).map(({ id }) => id));
  }

  /** Repeats the receipts of messages that a node sends again. */
  async repeatReceipts(node: string, ids: readonly string[]): Promise<void> {
    for (const { id, steps } of await this.#find(node, ids)) this.#components.outbound.add(node, id, steps, 0);
  }

  /** A conversation with that node has begun: reports which of its messages are in work. */
  begin(node: string): void {
    for (const { node: from, envelope, receipt } of this.#inWork.values()) {
      if (from === node && receipt.length > 2) this.#components.outbound.add(node, envelope.id, writeSteps(receipt), 0);
    }
  }

  /** The next messages of an agent, as they are stored. */
  rows(agent: string, above: number, limit: number): Promise<InboxRow[]> {
    const query = { where: { recipient: agent }, above: { number: above }, orderBy: 'number', limit } as const;
    return this.#components.store.read(inbox, query);
  }

  async load(agent: string, above: number): Promise<InboxMessage[]> {
    const rows = await this.rows(agent, above, await pageSize(this.#components.store, inbox));
    return rows.map((row) => this.#inWork.get(row.number) ?? messageOf(row, row.number < this.#earlier));
  }

  /** Has it ended, or is it about to, because its sender's node was removed? */
  isForgotten({ node, number }: InboxMessage): boolean {
    return number <= (this.#forgotten.get(node) ?? -1);
  }

  /** An agent begins to work on it. Returns whether an agent may have seen it before. */
  begun(message: InboxMessage): boolean {
    const { seen } = message;
    message.seen = true;
    this.#inWork.set(message.number, message);
    return seen;
  }

  release(message: InboxMessage): void {
    if (!message.ending) this.#inWork.delete(message.number);
  }

  /** Records a state before the end: held back, surfaced, or read. */
  note(message: InboxMessage, state: 'held' | 'surfaced' | 'read', at: number, reason?: string): void {
    if (message.ending || message.receipt.some((step) => step.state === state)) return;
    const step = stepOf(state, at, reason);
    message.receipt = stepReceipt(message.receipt, step);
    const { writer, receipts, outbound } = this.#components;
    const { number, node, envelope } = message;
    const steps = writeSteps(message.receipt);
    writer.add({
      writes: [inbox.update({ number }, { steps })],
      written: () => {
        receipts.emit(envelope.id, [step], envelope.recipient);
        if (node !== '' && !message.ended) outbound.add(node, envelope.id, steps, 0);
      },
    });
  }

  /** Ends a message, in one transaction with its effects and its answer. */
  async end(message: InboxMessage, end: MessageEnd): Promise<void> {
    if (message.ending) throw new EclipticError('INVALID_TRANSITION', 'this message has ended');
    const prepared = this.#prepareEnd(message, end);
    message.ending = true;
    try {
      await this.#components.writer.write(prepared);
    } catch (error) {
      message.ending = false;
      throw error;
    }
  }

  /** As `end`, but retries until it succeeds or the node stops. */
  endWithRetry(message: InboxMessage, end: MessageEnd): void {
    if (message.ending) return;
    message.ending = true;
    this.#inWork.set(message.number, message);
    if (end.answer || end.effects) this.#endAlone(message, end);
    // No end without an answer can be refused alone, so those of one turn share a transaction.
    else if (this.#ends.push({ message, end }) === 1) queueMicrotask(() => this.#endPlain());
  }

  /** The sender's node reports that the time ran out. Noting its time makes both sides show the same if it does here too. */
  async expiredThere(node: string, id: string, step: ReceiptStep): Promise<void> {
    const { store, writer } = this.#components;
    for (const row of await store.read(inbox, { where: { id, node } })) {
      const message = this.#inWork.get(row.number);
      const receipt = stepReceipt(message?.receipt ?? receiptOf(row), step);
      if (message) message.receipt = receipt;
      const set = { steps: writeSteps(receipt) };
      await writer.write({ writes: [inbox.update({ number: row.number }, set)], written: () => {} });
    }
  }

  /** Ends every message whose time to live has run out, but for those that an agent works on. */
  async expire(): Promise<void> {
    const { store, clock, locks } = this.#components;
    const below = { expiresAt: clock.now() };
    const late = await store.read(inbox, { below, limit: await pageSize(store, inbox) });
    for (const node of new Set(late.map((row) => row.node))) {
      await locks.run(node, async () => {
        const limit = await pageSize(store, inbox);
        const rows = await store.read(inbox, { where: { node }, below, limit });
        for (const row of rows) if (!this.#inWork.has(row.number)) this.#expire(messageOf(row));
      });
    }
  }

  /** Ends every message from a node that is no longer a member, but for those that an agent works on. */
  async forget(node: string): Promise<void> {
    const { store } = this.#components;
    this.#forgotten.set(node, this.#next - 1);
    for (let above = -1; ; ) {
      const query = { where: { node }, above: { number: above }, orderBy: 'number', limit: PAGE } as const;
      const rows = await store.read(inbox, query);
      if (rows.length === 0) return;
      above = rows.at(-1)!.number;
      for (const row of rows) {
        if (this.#inWork.has(row.number)) continue;
        await this.end(messageOf(row), {
          state: 'undeliverable',
          reason: 'the sender’s node was removed from the mesh',
        });
      }
    }
  }

  stop(): void {
    this.#endPlain();
    this.#stopping.abort();
  }

  /** The rows of messages from that node, in the inbox and of the settled ones. */
  async #find(node: string, ids: readonly string[]): Promise<{ readonly id: string; readonly steps: string }[]> {
    const { store, receipts } = this.#components;
    const waiting = await store.read(inbox, { where: { id: ids, node } });
    const settled = await receipts.find(node, ids);
    return [...waiting, ...settled.filter(({ side }) => side === 'received')];
  }

  #expire(message: InboxMessage): void {
    const read = message.receipt.some(({ state }) => state === 'read');
    const reason = `its time to live ran out before it was ${read ? 'done' : 'read'}`;
    this.endWithRetry(message, { state: 'expired', reason });
  }

  #insert(envelope: ValidEnvelope, node: string, storedAt: number, expiresAt: number | null, writes: Write[]): Arrival {
    const { id, sender, recipient } = envelope;
    if (!this.#quota.hasRoom(sender)) throw tooMany(sender);
    const receipt: Receipt = [stepOf('stored', storedAt), stepOf('arrived', this.#components.runtime.now())];
    const text = envelopeText(envelope);
    const number = this.#next++;
    const row = { id, number, node, recipient, envelope: text, steps: writeSteps(receipt), expiresAt };
    writes.push(inbox.insert(row));
    this.#quota.add(String(number), sender, text.length);
    return { row, envelope, receipt };
  }

  #endPlain(): void {
    if (this.#ends.length > 0) this.#endTogether(this.#ends.splice(0));
  }

  #endTogether(ends: readonly PlainEnd[], failures = 0): void {
    const writes: Write[] = [inbox.delete({ number: ends.map(({ message }) => message.number) })];
    const settled = ends.map(({ message, end }) => this.#settle(message, end, writes));
    const written = () => {
      for (const one of settled) this.#ended(one);
    };
    const failed = (error: unknown) => this.#retry(error, failures, () => this.#endTogether(ends, failures + 1));
    this.#components.writer.add({ writes, written, failed });
  }

  #endAlone(message: InboxMessage, end: MessageEnd, failures = 0): void {
    const prepared = this.#prepareOrDropAnswer(message, end);
    if (!prepared) {
      message.ending = false;
      this.release(message);
      return;
    }
    const failed = (error: unknown) => {
      prepared.failed?.(error);
      this.#retry(error, failures, () => this.#endAlone(message, end, failures + 1));
    };
    this.#components.writer.add({ ...prepared, failed });
  }

  #retry(error: unknown, failures: number, again: () => void): void {
    const { runtime } = this.#components;
    const { signal } = this.#stopping;
    runtime.logger.error({ err: error }, 'mail: the end of a message was not stored');
    void wait(runtime, backoffMs(failures, FIRST_RETRY_MS, LONGEST_RETRY_MS), signal).then(() => {
      if (!signal.aborted) again();
    });
  }

  /** Adds the changes that settle the receipt of a message to `writes`. */
  #settle(message: InboxMessage, { state, reason }: MessageEnd, writes: Write[]): SettledMessage {
    const { node, envelope } = message;
    const now = this.#components.runtime.now();
    const last = stepOf(state, now, reason);
    const steps = state === 'undeliverable' || state === 'expired' ? [last] : [stepOf('read', now), last];
    const receipt = addSteps(message.receipt, steps);
    const side = node === '' ? 'local' : 'received';
    return { message, steps, row: this.#components.receipts.settle(envelope.id, node, side, receipt, writes) };
  }

  #ended({ message, steps, row }: SettledMessage): void {
    const { receipts } = this.#components;
    message.ended = true;
    this.#inWork.delete(message.number);
    this.#quota.remove(String(message.number));
    receipts.emit(message.envelope.id, steps, message.envelope.recipient);
    receipts.settled(row);
  }

  #prepareEnd(message: InboxMessage, end: MessageEnd): Prepared {
    const { effects, answer } = end;
    const also = together(
      [inbox.delete({ number: message.number })],
      [
        ...(effects ? [() => this.#components.effects(message.envelope.recipient, effects)] : []),
        ...(answer ? [() => this.#components.answer(answer)] : []),
      ],
    );
    const writes: Write[] = [...also.writes];
    const settled = this.#settle(message, end, writes);
    const written = () => {
      this.#ended(settled);
      also.written();
    };
    return { writes, written, failed: also.failed };
  }

  /**
   * Prepares the end, without the answer if that is refused: a message must be able to end. Undefined while the node stops:
   * the message stays, and is delivered and answered after the next start.
   */
  #prepareOrDropAnswer(message: InboxMessage, end: MessageEnd): Prepared | undefined {
    try {
      return this.#prepareEnd(message, end);
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'NODE_STOPPED') return undefined;
      const { id, recipient } = message.envelope;
      this.#components.runtime.logger.warn({ message: id, agent: recipient, err: error }, 'mail: answer refused');
      const state = end.state === 'replied' ? 'done' : end.state;
      return this.#prepareEnd(message, { ...end, state, answer: undefined });
    }
  }
}

function messageOf(row: InboxRow, seen = true): InboxMessage {
  return new InboxMessage(row, unpackEnvelope(JSON.parse(row.envelope)), receiptOf(row), seen);
}

function tooMany(sender: string): EclipticError {
  return new EclipticError('QUEUE_FULL', `too many durable messages of ${sender} wait in the inboxes of this node`);
}

/** A value of `Effects.keep` as it is stored. */
export function keptText(key: string, value: unknown): string {
  const weight = weighJson(value);
  if (typeof weight === 'number') return JSON.stringify(value);
  throw new EclipticError(
    weight.tooLarge ? 'PAYLOAD_TOO_LARGE' : 'INVALID_ENVELOPE',
    `the value to keep as "${key}" ${weight.path} ${weight.problem}`,
  );
}
