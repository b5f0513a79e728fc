import { packEnvelope, unpackEnvelope } from '../a2a/codec.js';
import type { ValidEnvelope } from '../a2a/envelope.js';
import { describeError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';
import type { InboxRow } from '../store/tables.js';
import { Delivery, type Effects } from './delivery.js';
import type { ReceiptState } from './receipt.js';
import type { Receipts } from './receipts.js';

/** What an agent does with a durable message. What it throws makes the message come again, later. */
export type MailHandler = (envelope: ValidEnvelope, delivery: Delivery) => void | Promise<void>;

export interface IncomingMailComponents {
  runtime: Runtime;
  store: Store;
  receipts: Receipts;
  /** The writes of an agent's effects, and what to call when they are written. */
  effects: (agent: string, effects: Effects) => { writes: Write[]; written: () => void };
}

/** Attempts after which a message whose handler always fails is given up. */
const MAX_ATTEMPTS = 5;
const FIRST_RETRY_MS = 1_000;

/** One agent that takes mail, and what it has yet to take, by sender. */
interface Reader {
  readonly handler: MailHandler;
  readonly lanes: Map<string, Fifo<InboxRow>>;
  loading: boolean;
  open: boolean;
}

/** Durable messages for agents of this node: on disk when they have arrived, until the agent is done with them. */
export class IncomingMail {
  readonly #components: IncomingMailComponents;
  readonly #readers = new Map<string, Reader>();
  /** Rows that may have been handed over before: by an earlier process, or by an attempt that failed. */
  readonly #earlier: number;
  #next: number;

  constructor(components: IncomingMailComponents, start: { next: number }) {
    this.#components = components;
    this.#next = start.next;
    this.#earlier = start.next;
  }

  /** What to write so that a message has arrived, and what to call when it is written. */
  prepare(envelope: ValidEnvelope, node: string, expiresAt: number | null): { writes: Write[]; written: () => void } {
    const { id, sender, recipient } = envelope;
    const { runtime, receipts } = this.#components;
    const row: InboxRow = {
      id,
      number: this.#next++,
      node,
      sender,
      recipient,
      envelope: `[${packEnvelope(envelope)}]`,
      arrivedAt: runtime.now(),
      expiresAt,
      attempts: 0,
    };
    const arrived = receipts.reached(id, 'arrived', node);
    const written = () => {
      receipts.announce(arrived);
      const reader = this.#readers.get(recipient);
      // Whoever is still loading finds it on the disk.
      if (reader && !reader.loading) this.#enqueue(reader, row);
    };
    return { writes: [{ insert: 'inbox', row }, ...arrived], written };
  }

  /** From now on this agent takes its mail, oldest first, in order from each sender. Returns the way to stop. */
  attach(agent: string, handler: MailHandler): () => void {
    const reader: Reader = { handler, lanes: new Map(), loading: true, open: true };
    this.#readers.set(agent, reader);
    void this.#load(agent, reader);
    return () => {
      reader.open = false;
      if (this.#readers.get(agent) === reader) this.#readers.delete(agent);
    };
  }

  /** Ends every message whose time has run out. */
  async expire(): Promise<void> {
    const { store, runtime, receipts } = this.#components;
    const rows = await store.read({ from: 'inbox', below: { expiresAt: runtime.now() }, limit: 500 });
    if (rows.length === 0) return;
    const reason = 'its time to live ran out before it was read';
    const ends = rows.flatMap(({ id, node }) => receipts.reached(id, 'expired', node, reason));
    await store.write([{ delete: 'inbox', where: { number: rows.map(({ number }) => number) } }, ...ends]);
    receipts.announce(ends);
  }

  async #load(agent: string, reader: Reader): Promise<void> {
    const { store, runtime } = this.#components;
    try {
      for (let number = 0; reader.open; ) {
        const query = { from: 'inbox', where: { recipient: agent }, above: { number }, orderBy: 'number' } as const;
        const rows = await store.read({ ...query, limit: 500 });
        for (const row of rows) this.#enqueue(reader, row);
        if (rows.length === 0) break;
        number = rows.at(-1)!.number;
      }
    } catch (error) {
      runtime.logger.error({ agent, err: error }, 'the inbox cannot be read');
    }
    reader.loading = false;
  }

  #enqueue(reader: Reader, row: InboxRow): void {
    const lane = reader.lanes.get(row.sender);
    if (lane) {
      lane.push(row);
      return;
    }
    const fresh = new Fifo<InboxRow>();
    fresh.push(row);
    reader.lanes.set(row.sender, fresh);
    void this.#run(reader, row.sender, fresh);
  }

  /** Hands over what one sender sent, one after the other. */
  async #run(reader: Reader, sender: string, lane: Fifo<InboxRow>): Promise<void> {
    for (let row = lane.peek(); row && reader.open; row = lane.peek()) {
      await this.#handle(reader, row);
      lane.shift();
    }
    reader.lanes.delete(sender);
  }

  async #handle(reader: Reader, row: InboxRow): Promise<void> {
    const { runtime } = this.#components;
    for (let attempt = row.attempts; reader.open; attempt++) {
      if (row.expiresAt !== null && row.expiresAt < runtime.now()) return;
      const redelivered = attempt > 0 || row.number < this.#earlier;
      const delivery = new Delivery(redelivered, (effects) => this.#finish(row, 'done', null, effects));
      try {
        const envelope = unpackEnvelope(JSON.parse(row.envelope));
        const result = reader.handler(envelope, delivery);
        if (result instanceof Promise) {
          this.#note(row, 'surfaced');
          await result;
        }
        // The next may be handled meanwhile: should this one's end not reach the disk, it comes again, and says so.
        if (!delivery.committed) this.#finish(row, delivery.outcome, null).catch((error) => this.#complain(row, error));
        return;
      } catch (error) {
        if (delivery.committed) return;
        runtime.logger.warn({ message: row.id, agent: row.recipient, err: error }, 'durable mail was not handled');
        if (attempt + 1 >= MAX_ATTEMPTS) {
          await this.#finish(row, 'undeliverable', `its handler failed ${MAX_ATTEMPTS} times: ${describeError(error)}`);
          return;
        }
        await new Promise<void>((resolve) => runtime.setTimer(resolve, FIRST_RETRY_MS * 2 ** attempt));
      }
    }
  }

  /** The end of a message, in one transaction with whatever the agent wants to have done exactly once. */
  async #finish(row: InboxRow, state: ReceiptState, reason: string | null, effects?: Effects): Promise<void> {
    const { store, receipts } = this.#components;
    const { id, node, number, recipient } = row;
    const read = state === 'undeliverable' ? [] : receipts.reached(id, 'read', node);
    const ends = [...read, ...receipts.reached(id, state, node, reason)];
    const extra = effects && this.#components.effects(recipient, effects);
    await store.write([{ delete: 'inbox', where: { number } }, ...ends, ...(extra?.writes ?? [])]);
    receipts.announce(ends);
    extra?.written();
  }

  #note(row: InboxRow, state: ReceiptState): void {
    const { store, receipts } = this.#components;
    const writes = receipts.reached(row.id, state, row.node);
    store.write(writes).then(
      () => receipts.announce(writes),
      (error: unknown) => this.#complain(row, error),
    );
  }

  #complain(row: InboxRow, error: unknown): void {
    this.#components.runtime.logger.error({ message: row.id, err: error }, 'the end of a message was not kept');
  }
}
