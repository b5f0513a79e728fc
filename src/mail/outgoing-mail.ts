import { envelopeText } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import type { Store, Write } from '../store/store.js';
import type { OutboxRow } from '../store/tables.js';
import type { GroupWriter, Prepared } from './group-writer.js';
import { type Amount, MailQuota, pageOf, senderIn } from './mail-quota.js';
import { type Progress, packed } from './mail-wire.js';
import type { Numbers } from './numbers.js';
import { Patience } from './patience.js';
import { type ReceiptStep, stepOf, stepReceipt } from './receipt.js';
import { type Receipts, storedReceipt } from './receipts.js';
import type { StoreEpoch } from './store-epoch.js';

export interface OutgoingMailComponents {
  runtime: Runtime;
  clock: SteadyClock;
  store: Store;
  writer: GroupWriter;
  receipts: Receipts;
  numbers: Numbers;
  /** Names this store, so that another one's numbers are not taken for its own. */
  epoch: StoreEpoch;
  /** Puts an item on its way to a node; throws when that is not possible now. */
  say: (node: string, text: string) => void;
  /** Makes senders known to a node, should they have left before it met them. Returns the way to take that back. */
  introduce: (node: string, senders: ReadonlySet<string>) => () => void;
  /** Runs a task while no news about messages to that node is taken. */
  exclusively: (node: string, task: () => Promise<void>) => Promise<void>;
}

/** Messages on their way to one node whose arrival is not known, and their characters. */
const WINDOW = 4_096;
const WINDOW_CHARS = 4 * 1_048_576;
const PAGE = 500;

/** A message that was sent, and is not known to have arrived. */
export interface OnItsWay {
  readonly number: number;
  readonly storedAt: number;
  readonly chars: number;
}

/** What is on its way to one node, in one conversation. */
class Course {
  readonly underWay = new Map<string, OnItsWay>();
  readonly patience: Patience;
  /** What is to be said at the end of this turn. */
  batch: OutboxRow[] = [];
  chars = 0;
  /** Everything up to this number was taken from the outbox in this conversation, and said. */
  taken = 0;
  said = 0;
  reading = false;
  /** Is there something on disk beyond `taken`, and was something written while that was read? */
  behind = true;
  more = false;
  /** Something could not be said: whatever follows would overtake it, so nothing does until all is sent again. */
  stalled = false;

  constructor(patience = new Patience()) {
    this.patience = patience;
  }

  get full(): boolean {
    return this.underWay.size >= WINDOW || this.chars >= WINDOW_CHARS;
  }

  take(row: OutboxRow): void {
    const { id, number, storedAt, envelope } = row;
    this.taken = number;
    this.chars += envelope.length;
    this.underWay.set(id, { number, storedAt, chars: envelope.length });
    this.batch.push(row);
  }

  settled(id: string): void {
    const found = this.underWay.get(id);
    if (!found) return;
    this.chars -= found.chars;
    this.underWay.delete(id);
  }
}

/** Durable messages for agents of other nodes: kept until their node has them, sent again until it says so. */
export class OutgoingMail {
  readonly #components: OutgoingMailComponents;
  readonly #courses = new Map<string, Course>();
  readonly #quota: MailQuota;

  constructor(components: OutgoingMailComponents, waiting: Amount) {
    this.#components = components;
    this.#quota = new MailQuota(waiting);
  }

  /** Counts what earlier processes left, by its senders. */
  async countEarlier(): Promise<void> {
    for (let above = 0; ; ) {
      const limit = await this.#page();
      const query = { from: 'outbox', above: { number: above }, orderBy: 'number' } as const;
      const rows = await this.#components.store.read({ ...query, limit });
      this.#quota.found(
        rows.map(({ id, envelope }) => ({ key: id, sender: senderIn(envelope), chars: envelope.length })),
      );
      if (rows.length < limit) break;
      above = rows.at(-1)!.number;
    }
    this.#quota.complete();
  }

  async #page(): Promise<number> {
    const { rows: messages, bytes } = await this.#components.store.figures('outbox');
    return pageOf({ messages, bytes }, PAGE);
  }

  /** What to do so that a message is kept, and goes out. */
  prepare(envelope: ValidEnvelope, node: string, expiresAt: number | null, extra: Write[] = []): Prepared {
    const { id, sender } = envelope;
    if (!this.#quota.hasRoom(sender)) {
      throw new EclipticError('QUEUE_FULL', `too many durable messages of ${sender} wait for other nodes`);
    }
    const { runtime, receipts, numbers } = this.#components;
    const writes: Write[] = [];
    const number = numbers.take(writes);
    const row: OutboxRow = { id, number, node, envelope: envelopeText(envelope), storedAt: runtime.now(), expiresAt };
    writes.push({ insert: 'outbox', row }, ...extra);
    this.#quota.add(id, sender, row.envelope.length);
    return {
      writes,
      written: () => {
        receipts.emit(id, storedReceipt(row));
        this.#offer(row);
      },
      failed: () => this.#quota.remove(id),
    };
  }

  /** A conversation with that node has begun: everything that it is not known to have goes there, in order. */
  begin(node: string): void {
    this.#courses.set(node, new Course());
    void this.#proceed(node);
  }

  /**
   * A node says how far it has this store's mail. A number that this store has not given yet, or gave to another message,
   * means that this store was put back from a copy: it goes on in a new epoch. Returns what happened, if anything did.
   */
  async compare(node: string, { store, upTo, reused }: Progress): Promise<string | undefined> {
    const { epoch, numbers } = this.#components;
    if (store !== epoch.name || (upTo <= numbers.last && !reused)) return undefined;
    const why = reused
      ? 'it has other mail under the same numbers'
      : `it has mail up to number ${upTo}, and this store has given ${numbers.last} only`;
    const reason = `this store was put back from a copy, or a copy of it runs elsewhere: node ${node} says that ${why}`;
    if (!(await epoch.renew(numbers.last, reason))) return undefined;
    // What is under way goes again under the new name.
    for (const other of [...this.#courses.keys()]) this.begin(other);
    return reason;
  }

  /** The conversation with that node is over. */
  end(node: string): void {
    this.#courses.delete(node);
  }

  /** A message that was sent in this conversation and is not known to have arrived. */
  underWay(node: string, id: string): OnItsWay | undefined {
    return this.#courses.get(node)?.underWay.get(id);
  }

  /** Messages that were in the outbox are not in it any more. */
  removed(node: string, ids: readonly string[]): void {
    for (const id of ids) this.#quota.remove(id);
    const course = this.#courses.get(node);
    if (!course) return;
    for (const id of ids) course.settled(id);
    course.patience.reward(this.#components.runtime.stopwatch());
    if (course.behind && course.underWay.size <= WINDOW / 2) void this.#proceed(node);
  }

  /** Sends again what nobody has acknowledged for a while. */
  sweep(): void {
    const now = this.#components.runtime.stopwatch();
    for (const [node, course] of this.#courses) {
      if (!course.patience.isOver(now, course.underWay.size > 0 || course.behind || course.stalled)) continue;
      this.#courses.set(node, new Course(course.patience));
      void this.#proceed(node);
    }
  }

  /** Ends every message whose time has run out. */
  async expire(): Promise<void> {
    const { store, clock, exclusively } = this.#components;
    for (;;) {
      const below = { expiresAt: clock.now() };
      const late = await store.read({ from: 'outbox', below, limit: PAGE });
      for (const node of new Set(late.map((row) => row.node))) {
        // Once more, for some of them may have arrived while others were taken care of.
        await exclusively(node, async () => {
          await this.#expire(node, await store.read({ from: 'outbox', where: { node }, below, limit: PAGE }));
        });
      }
      if (late.length < PAGE) return;
    }
  }

  /** Ends every message to a node that is no longer a member. */
  async forget(node: string): Promise<void> {
    this.end(node);
    const { store, runtime } = this.#components;
    for (;;) {
      const rows = await store.read({ from: 'outbox', where: { node }, limit: PAGE });
      if (rows.length === 0) return;
      await this.#end(
        node,
        rows,
        stepOf('undeliverable', runtime.now(), 'the recipient’s node was removed from the mesh'),
      );
    }
  }

  async #expire(node: string, rows: readonly OutboxRow[]): Promise<void> {
    const { runtime } = this.#components;
    const reason = 'its time to live ran out before its node could be reached';
    if (rows.length > 0) await this.#end(node, rows, stepOf('expired', runtime.now(), reason));
  }

  async #end(node: string, rows: readonly OutboxRow[], end: ReceiptStep): Promise<void> {
    const { receipts, writer } = this.#components;
    const writes: Write[] = [{ delete: 'outbox', where: { number: rows.map(({ number }) => number) } }];
    const changes = rows.map((row) => {
      return receipts.settle(row.id, node, 'sent', stepReceipt(storedReceipt(row), end), writes);
    });
    writes.push(...changes.map(({ write }) => write));
    const written = () => {
      const ids = rows.map(({ id }) => id);
      this.removed(node, ids);
      for (const id of ids) receipts.emit(id, [end]);
      for (const change of changes) change.written();
    };
    await writer.write({ writes, written });
  }

  /** A message that was just written goes out at once, unless others must go before it. */
  #offer(row: OutboxRow): void {
    const course = this.#courses.get(row.node);
    if (!course) return;
    if (course.behind || course.full) {
      course.behind = true;
      course.more = true;
      if (!course.full) void this.#proceed(row.node);
      return;
    }
    if (course.batch.length === 0) queueMicrotask(() => this.#say(row.node, course));
    course.take(row);
  }

  async #proceed(node: string): Promise<void> {
    const course = this.#courses.get(node);
    if (!course || course.reading || course.stalled) return;
    const { store, runtime } = this.#components;
    course.reading = true;
    try {
      while (course.behind && !course.full && !course.stalled && this.#courses.get(node) === course) {
        course.more = false;
        const query = { from: 'outbox', where: { node }, above: { number: course.taken }, orderBy: 'number' } as const;
        const rows = await store.read({ ...query, limit: await this.#page() });
        if (this.#courses.get(node) !== course) break;
        if (rows.length === 0) course.behind = course.more;
        for (const row of rows) course.take(row);
        this.#say(node, course);
      }
    } catch (error) {
      runtime.logger.error({ node, err: error }, 'the outbox cannot be read');
    }
    course.reading = false;
  }

  /** Says everything that was taken in this turn, in as few items as may be. */
  #say(node: string, course: Course): void {
    const { say, epoch, runtime, introduce } = this.#components;
    const rows = course.batch;
    course.batch = [];
    if (this.#courses.get(node) !== course || course.stalled || rows.length === 0) return;
    const texts = rows.map(({ number, storedAt, expiresAt, envelope }) => {
      return `[${number},${storedAt},${expiresAt},${envelope}]`;
    });
    try {
      const withdraw = introduce(node, new Set(rows.map(({ envelope }) => senderIn(envelope))));
      for (const { list, to } of packed(texts)) {
        say(node, `["s",${JSON.stringify(epoch.name)},${course.said},${list}]`);
        course.said = rows[to - 1]!.number;
      }
      withdraw();
    } catch (error) {
      course.stalled = true;
      runtime.logger.debug({ node, err: error }, 'durable mail waits');
    }
  }
}
