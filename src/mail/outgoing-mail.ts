import { packEnvelope } from '../a2a/codec.js';
import type { ValidEnvelope } from '../a2a/envelope.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';
import type { OutboxRow } from '../store/tables.js';
import type { Receipts } from './receipts.js';

export interface OutgoingMailComponents {
  runtime: Runtime;
  store: Store;
  receipts: Receipts;
  /** Names this store, so that another one's numbers are not taken for its own. */
  storeId: string;
  /** Puts an item on its way to a node; throws when that is not possible now. */
  say: (node: string, text: string) => void;
}

/** Messages that may wait in the outbox. */
const MAX_WAITING = 100_000;
/** Messages on their way to one node whose arrival is not known. */
const WINDOW = 1_000;
const PAGE = 500;

/** What is on its way to one node. */
interface Course {
  /** Everything up to this number was sent in this conversation. */
  sent: number;
  /** Sent, and not known to have arrived. */
  underWay: Set<string>;
  reading: boolean;
  /** Is there nothing on disk beyond `sent`? */
  caughtUp: boolean;
}

/** Durable messages for agents of other nodes: kept until their node has them, sent again until it says so. */
export class OutgoingMail {
  readonly #components: OutgoingMailComponents;
  readonly #courses = new Map<string, Course>();
  #next: number;
  #waiting: number;

  constructor(components: OutgoingMailComponents, start: { next: number; waiting: number }) {
    this.#components = components;
    this.#next = start.next;
    this.#waiting = start.waiting;
  }

  /** What to write so that a message is kept, and what to call when it is written. */
  prepare(envelope: ValidEnvelope, node: string, expiresAt: number | null): { writes: Write[]; written: () => void } {
    if (this.#waiting >= MAX_WAITING) {
      throw new EclipticError('QUEUE_FULL', `${MAX_WAITING} durable messages wait for other nodes already`);
    }
    const { id, sender, recipient } = envelope;
    const { runtime, receipts } = this.#components;
    const row: OutboxRow = {
      id,
      number: this.#next++,
      node,
      sender,
      recipient,
      envelope: `[${packEnvelope(envelope)}]`,
      storedAt: runtime.now(),
      expiresAt,
    };
    this.#waiting++;
    const stored: Write = {
      put: 'receipts',
      row: { id, state: 'stored', at: row.storedAt, reason: null, node, tell: null },
    };
    const counted: Write = { put: 'cursors', row: { name: 'outbox', value: row.number } };
    const writes: Write[] = [{ insert: 'outbox', row }, stored, counted];
    const written = () => {
      receipts.announce([stored]);
      this.#offer(row);
    };
    return { writes, written };
  }

  /** A conversation with that node has begun: everything that it is not known to have goes there, in order. */
  begin(node: string): void {
    this.#courses.set(node, { sent: 0, underWay: new Set(), reading: false, caughtUp: false });
    void this.#proceed(node);
  }

  /** The conversation with that node is over. */
  end(node: string): void {
    this.#courses.delete(node);
  }

  /** Its node has it, or it came to an end: it need not be sent again. */
  async settle(node: string, ids: readonly string[]): Promise<void> {
    await this.#components.store.write([{ delete: 'outbox', where: { id: ids, node } }]);
    this.#waiting -= ids.length;
    const course = this.#courses.get(node);
    if (!course) return;
    for (const id of ids) course.underWay.delete(id);
    if (!course.caughtUp) void this.#proceed(node);
  }

  /** Ends every message whose time has run out. */
  async expire(): Promise<void> {
    const { store, runtime, receipts } = this.#components;
    const rows = await store.read({ from: 'outbox', below: { expiresAt: runtime.now() }, limit: PAGE });
    if (rows.length === 0) return;
    const reason = 'its time to live ran out before its node could be reached';
    const ends = rows.flatMap(({ id, node }) => receipts.reached(id, 'expired', node, reason));
    await store.write([{ delete: 'outbox', where: { id: rows.map(({ id }) => id) } }, ...ends]);
    this.#waiting -= rows.length;
    receipts.announce(ends);
  }

  /** A message that was just written goes out at once, unless others must go before it. */
  #offer(row: OutboxRow): void {
    const course = this.#courses.get(row.node);
    if (!course) return;
    if (course.caughtUp && course.underWay.size < WINDOW && this.#send(course, row)) return;
    course.caughtUp = false;
    void this.#proceed(row.node);
  }

  async #proceed(node: string): Promise<void> {
    const course = this.#courses.get(node);
    if (!course || course.reading) return;
    course.reading = true;
    try {
      while (this.#courses.get(node) === course && course.underWay.size < WINDOW) {
        const query = { from: 'outbox', where: { node }, above: { number: course.sent }, orderBy: 'number' } as const;
        const rows = await this.#components.store.read({ ...query, limit: PAGE });
        if (rows.length === 0) {
          course.caughtUp = true;
          break;
        }
        if (!rows.every((row) => this.#send(course, row))) break;
      }
    } catch (error) {
      this.#components.runtime.logger.error({ node, err: error }, 'the outbox cannot be read');
    }
    course.reading = false;
  }

  #send(course: Course, row: OutboxRow): boolean {
    const { say, storeId, runtime } = this.#components;
    const { id, node, number, storedAt, expiresAt, envelope } = row;
    try {
      say(node, `["s",${JSON.stringify(storeId)},${number},${storedAt},${expiresAt},${envelope}]`);
    } catch (error) {
      runtime.logger.debug({ node, err: error }, 'durable mail waits');
      return false;
    }
    course.sent = number;
    course.underWay.add(id);
    return true;
  }
}
