import { ITEM } from '../network/peers/wire.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { cursors } from '../store/common-tables.js';
import type { Store, Write } from '../store/store.js';
import { CatchUp, ResendBackoff } from './catch-up.js';
import { packed } from './mail-wire.js';
import { receipts } from './tables.js';

export interface ReceiptOutboundComponents {
  runtime: Runtime;
  store: Store;
  /** Sends an item to a node; throws when that is not possible now. */
  say: (node: string, text: string) => void;
  acknowledged: ReadonlyMap<string, number>;
}

/** How long an update waits for more, so that the states of one message travel, and are stored there, together. */
const DELAY_MS = 20;
/** This many updates do not wait. */
const ENOUGH = 250;
const PAGE = 500;

/** The states of one message as text. Number 0 marks an update that is repeated on request only. */
interface ReceiptUpdate {
  readonly id: string;
  readonly text: string;
  readonly number: number;
}

class PeerFeed {
  readonly queue = new Map<string, ReceiptUpdate>();
  readonly backoff: ResendBackoff;
  readonly catchUp: CatchUp<ReceiptUpdate>;
  timer: Timer | undefined;
  /** The last update that this feed has sent, and the highest that was sent in the conversation. */
  sent = 0;
  highest: number;
  acknowledged: number;
  /** An update could not be sent: the following ones wait until all are sent again. */
  stalled = false;
  closed = false;
  readonly #node: string;
  readonly #components: ReceiptOutboundComponents;

  /** `previous` is the feed of the same conversation that this one replaces. */
  constructor(node: string, components: ReceiptOutboundComponents, acknowledged: number, previous?: PeerFeed) {
    const { store, runtime } = components;
    this.#node = node;
    this.#components = components;
    this.acknowledged = acknowledged;
    this.highest = previous?.highest ?? 0;
    this.backoff = previous?.backoff ?? new ResendBackoff();
    this.catchUp = new CatchUp({
      above: acknowledged,
      read: async (above) => {
        const query = { where: { node }, above: { news: above }, orderBy: 'news', limit: PAGE } as const;
        const rows = await store.read(receipts, query);
        return rows.map(({ id, steps, news }) => updateOf(id, steps, news!));
      },
      take: (update) => this.enqueue(update),
      onFailure: (error) => runtime.logger.error({ node, err: error }, 'mail: receipts cannot be read'),
    });
    this.catchUp.resume();
  }

  get waiting(): boolean {
    return this.catchUp.behind || this.stalled || this.sent > this.acknowledged;
  }

  add(update: ReceiptUpdate): void {
    if (update.number === 0) this.enqueue(update);
    else if (!this.catchUp.offer(update)) this.catchUp.resume();
  }

  enqueue(update: ReceiptUpdate): void {
    // A numbered update is final, so an unnumbered one adds nothing to it.
    if (update.number === 0 && (this.queue.get(update.id)?.number ?? 0) > 0) return;
    // Numbers are sent in order: an entry that is replaced goes to the end.
    this.queue.delete(update.id);
    this.queue.set(update.id, update);
    if (this.queue.size >= ENOUGH) this.#flush();
    else this.timer ??= this.#components.runtime.setTimer(() => this.#flush(), DELAY_MS);
  }

  close(): void {
    this.closed = true;
    this.timer?.cancel();
    this.catchUp.close();
  }

  #flush(): void {
    this.timer?.cancel();
    this.timer = undefined;
    if (this.closed || this.stalled) return;
    const updates = [...this.queue.values()];
    this.queue.clear();
    const { say, runtime } = this.#components;
    try {
      for (const { list, from, to } of packed(updates.map(({ text }) => text))) {
        const last = updates.slice(from, to).reduce((highest, { number }) => Math.max(highest, number), 0);
        say(this.#node, `["${ITEM.receipts}",${this.sent},${last},${list}]`);
        this.sent = Math.max(this.sent, last);
        this.highest = Math.max(this.highest, last);
      }
    } catch (error) {
      this.stalled = true;
      runtime.logger.debug({ node: this.#node, err: error }, 'mail: receipt updates queued');
    }
  }
}

/**
 * Tells other nodes the states of their messages. The final update of a message has a number and is sent until the other
 * node acknowledges it; the updates before are sent once, and again when the message itself arrives again.
 */
export class ReceiptOutbound {
  readonly #components: ReceiptOutboundComponents;
  readonly #acknowledged: Map<string, number>;
  readonly #feeds = new Map<string, PeerFeed>();
  /** Nodes whose acknowledgement is not stored yet. */
  readonly #unstored = new Set<string>();

  constructor(components: ReceiptOutboundComponents) {
    this.#components = components;
    this.#acknowledged = new Map(components.acknowledged);
  }

  /** A conversation with that node has begun: sends every update that it has not acknowledged. */
  begin(node: string): void {
    this.end(node);
    this.#feeds.set(node, new PeerFeed(node, this.#components, this.#acknowledged.get(node) ?? 0));
  }

  end(node: string): void {
    this.#feeds.get(node)?.close();
    this.#feeds.delete(node);
  }

  forget(node: string): void {
    this.end(node);
    this.#acknowledged.delete(node);
    this.#unstored.delete(node);
  }

  add(node: string, id: string, steps: string, number: number): void {
    this.#feeds.get(node)?.add(updateOf(id, steps, number));
  }

  /** That node has stored every update up to this number. */
  acknowledge(node: string, last: number): void {
    const feed = this.#feeds.get(node);
    if (!feed || last <= feed.acknowledged || last > feed.highest) return;
    feed.acknowledged = last;
    feed.backoff.acknowledged(this.#components.runtime.stopwatch());
    this.#acknowledged.set(node, last);
    this.#unstored.add(node);
  }

  isAcknowledged(node: string, number: number | null): boolean {
    return number === null || number <= (this.#acknowledged.get(node) ?? 0);
  }

  /** The writes that store the latest acknowledgements, so that a restart does not repeat acknowledged updates. */
  takeUnstored(): Write[] {
    const nodes = [...this.#unstored];
    this.#unstored.clear();
    return nodes.map((node) => cursors.put({ name: ackCursor(node), value: this.#acknowledged.get(node)! }));
  }

  /** Sends updates again that were not acknowledged for a while. */
  sweep(): void {
    const now = this.#components.runtime.stopwatch();
    for (const [node, feed] of this.#feeds) {
      if (!feed.backoff.isDue(now, feed.waiting)) continue;
      feed.close();
      this.#feeds.set(node, new PeerFeed(node, this.#components, feed.acknowledged, feed));
    }
  }
}

function updateOf(id: string, steps: string, number: number): ReceiptUpdate {
  return { id, text: `[${JSON.stringify(id)},${steps}]`, number };
}

export function ackCursor(node: string): string {
  return `heard ${node}`;
}
