import { ITEM } from '../network/peers/wire.js';
import { Deferred, within } from '../runtime/async.js';
import { Backoff } from '../runtime/backoff.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Write } from '../store/store.js';
import { CatchUp } from './catch-up.js';
import { pageSize, senderIn } from './mail-quota.js';
import { stepOf } from './receipt.js';
import type { MailContext } from './receipts.js';
import { type Custody, type MailRelay, writeBody } from './relay.js';
import type { RelayCursors } from './relay-cursors.js';
import type { StoreEpoch } from './store-epoch.js';
import { type OutboxRow, outbox, type RelayRow } from './tables.js';

export interface RelayFeedComponents extends MailContext {
  relay: MailRelay;
  cursors: RelayCursors;
  epoch: StoreEpoch;
  /** This node's certificates as JSON; undefined while it belongs to no mesh. */
  chain: () => string | undefined;
  /** Signed cards of these agents, as JSON texts, as far as that node may know them. */
  introduce: (node: string, senders: ReadonlySet<string>) => string[];
  /** Has that node acknowledged receipt updates up to this number? */
  isAcknowledged: (node: string, number: number) => boolean;
  /** Is that message still in the outbox? */
  isWaiting: (id: string) => boolean;
}

/** Messages of one batch, and their bytes. */
const BATCH_MESSAGES = 500;
const BATCH_BYTES = 262_144;
/** Messages of one node in memory, and their bytes. */
const MAX_ROWS = 4_096;
const MAX_ROW_BYTES = 2 * 1_048_576;
/** Items besides mail that wait for their batch, and their characters. */
const MAX_ITEMS = 1_000;
const MAX_ITEM_CHARS = 1_048_576;
/** A batch is published again unchanged for this long; afterwards the custodian may not recognise it as the same. */
const SAME_BATCH_MS = 60_000;
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 10_000;
/**
 * Once so many batches are there, the next one replaces them if the other node has confirmed them. Until then they stay,
 * for a recipient that is restored from a copy.
 */
const CLEAR_AFTER = 100;

interface Row {
  readonly row: OutboxRow;
  readonly bytes: number;
}

interface Extra {
  readonly text: string;
  /** It has the receipt updates up to this number. */
  readonly told: number;
}

interface Batch {
  readonly rows: readonly Row[];
  readonly extras: readonly Extra[];
  readonly cards: readonly string[];
  readonly items: readonly string[];
}

/** Gives the mail and the receipt updates for one absent node to the custodian: in order, one batch at a time. */
export class RelayFeed {
  readonly #node: string;
  readonly #components: RelayFeedComponents;
  readonly #catchUp: CatchUp<OutboxRow>;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
  #rows: Row[] = [];
  #rowBytes = 0;
  #extras: Extra[] = [];
  #extraChars = 0;
  /** The number of the message that the recipient must have before the next; undefined until it was looked up. */
  #before: number | undefined;
  /** A message that was relayed and not confirmed, when this was last looked up. */
  #unconfirmed: string | undefined;
  #running = false;
  #ran: Deferred<void> | undefined;
  #closed = false;
  #retry: Deferred<void> | undefined;
  /** Was it logged that its mail waits? */
  #waits = false;

  constructor(node: string, components: RelayFeedComponents) {
    this.#node = node;
    this.#components = components;
    const { store, runtime, cursors } = components;
    this.#catchUp = new CatchUp({
      above: cursors.of(node, 'out'),
      read: async (above) => {
        const limit = await pageSize(store, outbox);
        return store.read(outbox, { where: { node }, above: { number: above }, orderBy: 'number', limit });
      },
      take: (row) => this.#take(row),
      hasRoom: () => this.#rows.length < MAX_ROWS / 2 && this.#rowBytes < MAX_ROW_BYTES / 2,
      isFull: () => this.#rows.length >= MAX_ROWS || this.#rowBytes >= MAX_ROW_BYTES,
      onFailure: (error) => runtime.logger.error({ node, err: error }, 'mail: the outbox cannot be read'),
    });
    this.#catchUp.resume();
  }

  /** A message was just written to the outbox. */
  offer(row: OutboxRow): void {
    if (!this.#catchUp.offer(row)) this.#catchUp.resume();
  }

  /** Sends an item besides mail. Throws `QUEUE_FULL`. */
  say(text: string, told = 0): void {
    if (this.#extras.length >= MAX_ITEMS || this.#extraChars + text.length > MAX_ITEM_CHARS)
      throw new EclipticError('QUEUE_FULL', `too many items wait to be relayed to node ${this.#node}`);
    this.#extras.push({ text, told });
    this.#extraChars += text.length;
    this.#runSoon();
  }

  /** The custodian can be reached, or has room again. */
  retry(): void {
    this.#backoff.reset();
    this.#retry?.resolve();
    this.#catchUp.resume();
    this.#runSoon();
  }

  /** Resolves when everything that waits in memory is with the custodian, or cannot be given to it now. */
  async idle(): Promise<void> {
    while (this.#running && !this.#waits && !this.#closed) await this.#ran?.promise;
  }

  close(): void {
    this.#closed = true;
    this.#catchUp.close();
    this.#retry?.resolve();
  }

  #take(row: OutboxRow): void {
    const bytes = Buffer.byteLength(row.envelope);
    this.#rows.push({ row, bytes });
    this.#rowBytes += bytes;
    this.#runSoon();
  }

  #runSoon(): void {
    if (this.#running || this.#closed) return;
    this.#running = true;
    this.#ran = new Deferred();
    queueMicrotask(() => void this.#run());
  }

  async #run(): Promise<void> {
    const { runtime } = this.#components;
    try {
      while (!this.#closed) {
        const batch = await this.#next();
        if (!batch) break;
        const custody = await this.#publish(batch);
        if (!custody) break;
        this.#record(batch, custody);
        this.#drop(batch);
      }
    } catch (error) {
      runtime.logger.error({ node: this.#node, err: error }, 'mail: relayed mail waits');
    }
    this.#running = false;
    this.#ran?.resolve();
    if (this.#catchUp.behind) this.#catchUp.resume();
  }

  /** The next batch; it stays queued until it is published. Undefined if nothing can be sent now. */
  async #next(): Promise<Batch | undefined> {
    const { relay, epoch, introduce } = this.#components;
    if (this.#rows.length === 0 && this.#extras.length === 0) return undefined;
    const room = relay.maxBytes - RESERVED_BYTES;
    let [count, bytes] = [0, 0];
    for (const { bytes: size } of this.#rows) {
      const more = bytes + size + ROW_BYTES;
      if (count === BATCH_MESSAGES || more > (count === 0 ? room : Math.min(BATCH_BYTES, room))) break;
      bytes = more;
      count++;
    }
    if (count === 0 && this.#rows.length > 0) this.#note('the next message is larger than the custodian takes');
    const rows = this.#rows.slice(0, count);
    const extras: Extra[] = [];
    for (const extra of this.#extras) {
      bytes += 3 * extra.text.length;
      if (bytes > Math.min(BATCH_BYTES, room) && (rows.length > 0 || extras.length > 0)) break;
      extras.push(extra);
    }
    if (rows.length === 0 && extras.length === 0) return undefined;
    const items = extras.map(({ text }) => text);
    if (rows.length > 0) {
      this.#before ??= await this.#preceding(rows[0]!.row.number);
      const list = rows.map(({ row: { number, storedAt, expiresAt, envelope } }) => {
        return `[${number},${storedAt},${expiresAt},${envelope}]`;
      });
      items.push(`["${ITEM.mail}",${JSON.stringify(epoch.name)},${this.#before},[${list.join()}]]`);
    }
    const cards = introduce(this.#node, new Set(rows.map(({ row }) => senderIn(row.envelope))));
    return { rows, extras, cards, items };
  }

  /** The message before that number that this node still has to deliver; 0 if there is none. */
  async #preceding(number: number): Promise<number> {
    const query = {
      where: { node: this.#node },
      below: { number },
      orderBy: 'number',
      descending: true,
      limit: 1,
    } as const;
    const [row] = await this.#components.store.read(outbox, query);
    return row?.number ?? 0;
  }

  /** Publishes a batch until the custodian has it; undefined if this feed is closed before. */
  async #publish({ cards, items }: Batch): Promise<Custody | undefined> {
    const { relay, runtime, cursors, chain } = this.#components;
    let sealed: ReturnType<MailRelay['seal']> | undefined;
    let sealedAt = 0;
    while (!this.#closed) {
      try {
        const replace = await this.#mayReplace();
        const own = chain();
        if (own === undefined) return undefined;
        if (!sealed || runtime.stopwatch() - sealedAt > SAME_BATCH_MS) {
          const at = Math.max(cursors.get('at') + 1, Math.floor(runtime.now()));
          cursors.set('at', at);
          sealed = relay.seal(this.#node, writeBody(at, own, cards, items));
          sealedAt = runtime.stopwatch();
        }
        const custody = await relay.publish(sealed, { replace });
        this.#backoff.reset();
        this.#waits = false;
        const { messages = 1 } = custody;
        cursors.setOf(this.#node, 'count', replace ? messages : cursors.of(this.#node, 'count') + messages);
        // Another feed may have begun from further back: nothing counts that may stand before its batches.
        return this.#closed ? undefined : custody;
      } catch (error) {
        this.#note(describeError(error));
        this.#retry = new Deferred();
        await within(runtime, this.#retry.promise, this.#backoff.next(), () => undefined);
      }
    }
    return undefined;
  }

  /** May the next batch delete those before it? Throws `QUEUE_FULL` if it must, and may not. */
  async #mayReplace(): Promise<boolean> {
    const { relay, cursors, store, isAcknowledged, isWaiting } = this.#components;
    const node = this.#node;
    const count = cursors.of(node, 'count');
    if (count < Math.min(CLEAR_AFTER, relay.maxBatches - 1)) return false;
    const [told, out] = [cursors.of(node, 'told'), cursors.of(node, 'out')];
    if (this.#unconfirmed === undefined || !isWaiting(this.#unconfirmed)) {
      const [first] = await store.read(outbox, { where: { node }, orderBy: 'number', limit: 1 });
      this.#unconfirmed = first && first.number <= out ? first.id : undefined;
    }
    if (this.#unconfirmed === undefined && isAcknowledged(node, told)) return true;
    // One place is left for the batch that replaces the others.
    if (count < relay.maxBatches - 1) return false;
    throw new EclipticError('QUEUE_FULL', `the custodian keeps ${count} batches for node ${node} already`);
  }

  /** The custodian has the batch: the receipts say so as soon as that is on disk. */
  #record({ rows, extras }: Batch, { custodian, position }: Custody): void {
    const { cursors, relays, receipts, writer, runtime } = this.#components;
    const node = this.#node;
    const [out, told] = [rows.at(-1)?.row.number ?? 0, extras.reduce((most, extra) => Math.max(most, extra.told), 0)];
    if (out > 0) cursors.setOf(node, 'out', Math.max(out, cursors.of(node, 'out')));
    if (told > 0) cursors.setOf(node, 'told', Math.max(told, cursors.of(node, 'told')));
    cursors.set('top', Math.max(position, cursors.get('top')));
    const writes: Write[] = [
      cursors.writeOf(node, 'out', cursors.of(node, 'out')),
      cursors.writeOf(node, 'told', cursors.of(node, 'told')),
      cursors.writeOf(node, 'count', cursors.of(node, 'count')),
      cursors.write('top', cursors.get('top')),
      cursors.write('at', cursors.get('at')),
    ];
    const numbers = rows.map(({ row }) => row.number);
    const first = relays.firstNew(node, numbers);
    const at = runtime.now();
    const record: RelayRow | undefined = first === undefined ? undefined : { node, number: out, first, at, custodian };
    if (record) writes.push(relays.add(record));
    const written = () => {
      if (!record) return;
      relays.added(record);
      const step = stepOf('relayed', at, custodian);
      for (const { row } of rows) if (row.number >= record.first) receipts.emit(row.id, [step]);
    };
    writer.add({ writes, written });
  }

  #drop({ rows, extras }: Batch): void {
    if (rows.length > 0) this.#before = rows.at(-1)!.row.number;
    this.#rows = this.#rows.slice(rows.length);
    for (const { bytes } of rows) this.#rowBytes -= bytes;
    this.#extras = this.#extras.slice(extras.length);
    for (const { text } of extras) this.#extraChars -= text.length;
    if (this.#catchUp.behind) this.#catchUp.resume();
  }

  #note(reason: string): void {
    if (!this.#waits) this.#components.runtime.logger.warn({ node: this.#node, reason }, 'mail: relayed mail waits');
    this.#waits = true;
  }
}

/** Room for the certificates and cards of a batch, and for what JSON adds to a message. */
const RESERVED_BYTES = 65_536;
const ROW_BYTES = 128;
