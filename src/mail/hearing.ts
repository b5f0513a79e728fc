import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';
import type { GroupWriter } from './group-writer.js';
import type { IncomingMail } from './incoming-mail.js';
import type { NewsItem } from './mail-wire.js';
import type { OutgoingMail } from './outgoing-mail.js';
import { isFinal, presentState, type Receipt, type ReceiptStep, stepReceipt } from './receipt.js';
import { type Receipts, receiptOf, type Side, storedReceipt } from './receipts.js';

export interface HearingComponents {
  runtime: Runtime;
  store: Store;
  writer: GroupWriter;
  receipts: Receipts;
  outgoing: OutgoingMail;
  incoming: IncomingMail;
  /** Tells a node that its news up to this number is on disk. */
  acknowledge: (node: string, last: number) => void;
}

/** Receipts of messages that are on their way or being handled over there, so that they need not be read again. */
const MAX_OPEN = 20_000;
/** Pieces of news of one node that wait to be written. */
const MAX_WAITING = 20_000;

/** One node that says what became of messages. */
interface Ear {
  /** News up to this number was kept, in this conversation. */
  upTo: number;
  waiting: NewsItem[];
  /** Pieces of news in them. */
  pieces: number;
  /** What is done about this node's messages, one after the other. */
  tail: Promise<void>;
}

/** What this side knows of a message that the other side has news of. */
interface Known {
  readonly side: Side;
  readonly receipt: Receipt;
  /** Its number in the outbox, while it is there. */
  readonly number?: number;
  readonly news: number | null;
}

/** Takes the news that other nodes have of messages to and from them. */
export class Hearing {
  readonly #components: HearingComponents;
  readonly #ears = new Map<string, Ear>();
  readonly #open = new Map<string, Receipt>();

  constructor(components: HearingComponents) {
    this.#components = components;
  }

  /** A conversation with that node has begun. */
  begin(node: string): void {
    const { tail = Promise.resolve() } = this.#ears.get(node) ?? {};
    this.#ears.set(node, { upTo: 0, waiting: [], pieces: 0, tail });
  }

  take(node: string, item: NewsItem): void {
    const ear = this.#ear(node);
    // Updates that are not taken are not acknowledged, so the other node sends them again.
    if (ear.pieces > 0 && ear.pieces + item.news.length > MAX_WAITING) return;
    ear.pieces += item.news.length;
    // What comes while something is written is written with the next.
    if (ear.waiting.push(item) === 1) void this.exclusively(node, () => this.#hear(node, ear));
  }

  /** Runs a task while nothing else is done about messages with that node. */
  exclusively(node: string, task: () => Promise<void>): Promise<void> {
    const ear = this.#ear(node);
    ear.tail = ear.tail.then(task).catch((error: unknown) => {
      this.#components.runtime.logger.error({ node, err: error }, 'what became of durable mail could not be kept');
    });
    return ear.tail;
  }

  #ear(node: string): Ear {
    const known = this.#ears.get(node);
    if (known) return known;
    const ear: Ear = { upTo: 0, waiting: [], pieces: 0, tail: Promise.resolve() };
    this.#ears.set(node, ear);
    return ear;
  }

  async #hear(node: string, ear: Ear): Promise<void> {
    const { upTo, news } = merge(ear.waiting.splice(0), ear.upTo);
    ear.pieces = 0;
    if (news.size > 0) await this.#keep(node, news);
    if (upTo === ear.upTo) return;
    ear.upTo = upTo;
    if (this.#ears.get(node) === ear) this.#components.acknowledge(node, upTo);
  }

  async #keep(node: string, news: ReadonlyMap<string, Receipt>): Promise<void> {
    const { receipts, writer, outgoing, incoming } = this.#components;
    const known = await this.#lookUp(node, [...news.keys()]);
    for (const [id, receipt] of news) {
      const expired = receipt.find((step) => mayTell('received', step));
      if (expired && !known.has(id)) await incoming.expiredThere(node, id, expired);
    }
    const puts: Write[] = [];
    const corrections: (() => void)[] = [];
    const gone: { id: string; number: number }[] = [];
    const told: { id: string; steps: ReceiptStep[]; receipt: Receipt; side: Side }[] = [];
    for (const [id, before] of known) {
      const { side, number } = before;
      const steps = news.get(id)!.filter((step) => mayTell(side, step));
      const receipt = steps.reduce(stepReceipt, before.receipt);
      const late = side === 'sent' && isLate(steps, receipt);
      if (steps.length === 0 || (receipt === before.receipt && number === undefined && !late)) continue;
      if (late) {
        const change = receipts.settle(id, node, side, receipt, puts);
        puts.push(change.write);
        corrections.push(change.written);
      } else puts.push(receipts.heard(id, node, side, receipt, before.news));
      if (number !== undefined) gone.push({ id, number });
      told.push({ id, steps: receipt.filter((step) => !before.receipt.includes(step)), receipt, side });
    }
    if (puts.length === 0) return;
    const removal: Write[] = [{ delete: 'outbox', where: { number: gone.map(({ number }) => number) } }];
    const written = () => {
      if (gone.length > 0) {
        outgoing.removed(
          node,
          gone.map(({ id }) => id),
        );
      }
      for (const { id, steps, receipt, side } of told) {
        receipts.emit(id, steps);
        if (side === 'sent') this.#remember(`${node} ${id}`, receipt);
      }
      for (const tell of corrections) tell();
    };
    await writer.write({ writes: gone.length > 0 ? [...removal, ...puts] : puts, written });
  }

  /** What is known of these messages with that node. What is not known at all is not its business. */
  async #lookUp(node: string, ids: readonly string[]): Promise<Map<string, Known>> {
    const { outgoing, receipts, store } = this.#components;
    const found = new Map<string, Known>();
    const missing: string[] = [];
    for (const id of ids) {
      const way = outgoing.underWay(node, id);
      const open = this.#open.get(`${node} ${id}`);
      if (way) found.set(id, { side: 'sent', receipt: storedReceipt(way), number: way.number, news: null });
      else if (open) found.set(id, { side: 'sent', receipt: open, news: null });
      else missing.push(id);
    }
    if (missing.length === 0) return found;
    const [settled, waiting] = await Promise.all([
      receipts.find(node, missing),
      store.read({ from: 'outbox', where: { id: missing, node } }),
    ]);
    // What was sent from here is meant first: the other side may use the same id.
    for (const row of settled.toSorted((a, b) => Number(a.side === 'sent') - Number(b.side === 'sent'))) {
      found.set(row.id, { side: row.side as Side, receipt: receiptOf(row), news: row.news });
    }
    for (const row of waiting) {
      found.set(row.id, { side: 'sent', receipt: storedReceipt(row), number: row.number, news: null });
    }
    return found;
  }

  #remember(key: string, receipt: Receipt): void {
    this.#open.delete(key);
    if (isFinal(presentState(receipt)!)) return;
    this.#open.set(key, receipt);
    if (this.#open.size <= MAX_OPEN) return;
    for (const oldest of this.#open.keys()) {
      this.#open.delete(oldest);
      return;
    }
  }
}

/** All news of several items, but for those before which something is missing: that is told again. */
function merge(items: readonly NewsItem[], from: number): { upTo: number; news: Map<string, Receipt> } {
  let upTo = from;
  const news = new Map<string, Receipt>();
  for (const { before, last, news: told } of items) {
    if (before > upTo) continue;
    upTo = Math.max(upTo, last);
    for (const [id, receipt] of told) news.set(id, receipt.reduce(stepReceipt, news.get(id) ?? []));
  }
  return { upTo, news };
}

/** Did the message expire on the other side later than on this one? Then that side must hear of the earlier time. */
function isLate(told: readonly ReceiptStep[], receipt: Receipt): boolean {
  return told.some((step) => step.state === 'expired' && !receipt.includes(step));
}

/** The recipient's side knows everything but when a message was stored; the sender's, only that its time ran out. */
function mayTell(side: Side, { state }: ReceiptStep): boolean {
  return side === 'sent' ? state !== 'stored' : state === 'expired';
}
