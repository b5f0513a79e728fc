import { ITEM } from '../network/peers/wire.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { cursors } from '../store/common-tables.js';
import type { Store, Write } from '../store/store.js';
import { CatchUp, ResendBackoff } from './catch-up.js';
import { packed } from './mail-wire.js';
import { readSteps, writeSteps } from './receipt.js';
import { receipts } from './tables.js';

export interface ReceiptOutboundComponents {
  runtime: Runtime;
  store: Store;
  /** Sends an item to a node; throws when that is not possible now. */
  say: (node: string, text: string) => void;
  /** Begins a conversation with a node that is there. */
  wake: (node: string) => void;
  acknowledged: ReadonlyMap<string, number>;
}

/** The way of updates to an absent node. */
export interface RelayedUpdates {
  /** Updates up to this number are with the custodian. */
  readonly told: (node: string) => number;
  /** Hands an item with updates up to a number to the custodian; throws if too many wait. */
  readonly say: (node: string, text: string, last: number) => void;
}

/** How long a final update waits for more. */
const FINAL_DELAY_MS = 20;
/** This many final updates do not wait. */
const ENOUGH_FINAL = 250;
/**
 * The update of an unfinished message waits between one and two of these periods. Most messages end meanwhile, even on a
 * busy node; then all of their states travel, and are stored there, at once.
 */
const UNFINISHED_PERIOD_MS = 50;
const PAGE = 500;

/** The states of one message, as they are stored. Number 0 marks an update that is repeated on request only. */
interface ReceiptUpdate {
  readonly id: string;
  readonly steps: string;
  readonly number: number;
}

interface FeedInit {
  readonly acknowledged: number;
  /** The feed of the same conversation that this one replaces. */
  readonly previous?: PeerFeed;
  readonly relayed?: RelayedUpdates | undefined;
}

class PeerFeed {
  /** Updates of finished messages, in the order of their numbers. */
  #finals: ReceiptUpdate[] = [];
  /** Updates of unfinished messages by id, those of the present period and of the one before. */
  #unfinished = new Map<string, ReceiptUpdate>();
  #earlier = new Map<string, ReceiptUpdate>();
  #finalTimer: Timer | undefined;
  #unfinishedTimer: Timer | undefined;
  readonly backoff: ResendBackoff;
  readonly catchUp: CatchUp<ReceiptUpdate>;
  /** The last update that this feed has sent, and the highest that was sent in the conversation. */
  sent = 0;
  highest: number;
  acknowledged: number;
  /** An update could not be sent: the following ones wait until all are sent again. */
  stalled = false;
  closed = false;
  /** Of a node that is absent. */
  readonly relayed: RelayedUpdates | undefined;
  readonly #node: string;
  readonly #components: ReceiptOutboundComponents;

  constructor(node: string, components: ReceiptOutboundComponents, { acknowledged, previous, relayed }: FeedInit) {
    const { store, runtime } = components;
    this.#node = node;
    this.#components = components;
    this.acknowledged = acknowledged;
    this.relayed = relayed;
    this.sent = relayed?.told(node) ?? 0;
    this.highest = previous?.highest ?? 0;
    this.backoff = previous?.backoff ?? new ResendBackoff();
    this.catchUp = new CatchUp({
      above: Math.max(acknowledged, this.sent),
      read: async (above) => {
        const query = { where: { node }, above: { news: above }, orderBy: 'news', limit: PAGE } as const;
        const rows = await store.read(receipts, query);
        return rows.map(({ id, steps, news }) => ({ id, steps, number: news! }));
      },
      take: (update) => this.#addFinal(update),
      onFailure: (error) => runtime.logger.error({ node, err: error }, 'mail: receipts cannot be read'),
    });
    this.catchUp.resume();
  }

  get waiting(): boolean {
    return this.catchUp.behind || this.stalled || this.sent > this.acknowledged;
  }

  add(update: ReceiptUpdate): void {
    if (update.number === 0) this.#addUnfinished(update);
    else if (!this.catchUp.offer(update)) this.catchUp.resume();
  }

  /** Sends what waits for more. */
  flush(): void {
    this.#sendFinals();
    const due = [...this.#earlier.values(), ...this.#unfinished.values()];
    this.#earlier.clear();
    this.#unfinished.clear();
    this.#send(due);
  }

  close(): void {
    this.closed = true;
    this.#finalTimer?.cancel();
    this.#unfinishedTimer?.cancel();
    this.catchUp.close();
  }

  #addFinal(update: ReceiptUpdate): void {
    // It has all states of its message.
    if (!this.#unfinished.delete(update.id)) this.#earlier.delete(update.id);
    this.#finals.push(update);
    if (this.#finals.length >= ENOUGH_FINAL) this.#sendFinals();
    else this.#finalTimer ??= this.#components.runtime.setTimer(() => this.#sendFinals(), FINAL_DELAY_MS);
  }

  #addUnfinished(update: ReceiptUpdate): void {
    // A later update of a message waits no longer than the first would have.
    const waiting = this.#earlier.has(update.id) ? this.#earlier : this.#unfinished;
    waiting.set(update.id, update);
    this.#unfinishedTimer ??= this.#nextPeriod();
  }

  #sendFinals(): void {
    this.#finalTimer?.cancel();
    this.#finalTimer = undefined;
    const updates = this.#finals;
    this.#finals = [];
    this.#send(updates);
  }

  #nextPeriod(): Timer {
    return this.#components.runtime.setTimer(() => {
      const due = this.#earlier;
      this.#earlier = this.#unfinished;
      this.#unfinished = new Map();
      this.#unfinishedTimer = this.#earlier.size > 0 ? this.#nextPeriod() : undefined;
      this.#send([...due.values()]);
    }, UNFINISHED_PERIOD_MS);
  }

  #send(updates: readonly ReceiptUpdate[]): void {
    if (this.closed || this.stalled) return;
    const { say, runtime } = this.#components;
    const texts = updates.map(({ id, steps }) => `[${JSON.stringify(id)},${withoutRelayed(steps)}]`);
    try {
      for (const { list, from, to } of packed(texts)) {
        const last = updates.slice(from, to).reduce((highest, { number }) => Math.max(highest, number), 0);
        const item = `["${ITEM.receipts}",${this.sent},${last},${list}]`;
        if (this.relayed) this.relayed.say(this.#node, item, last);
        else say(this.#node, item);
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
    this.#feeds.set(node, new PeerFeed(node, this.#components, { acknowledged: this.#upTo(node) }));
  }

  /** That node is absent: hands the custodian every update that it does not have yet. */
  beginRelayed(node: string, relayed: RelayedUpdates): void {
    this.end(node);
    this.#feeds.set(node, new PeerFeed(node, this.#components, { acknowledged: this.#upTo(node), relayed }));
  }

  end(node: string): void {
    this.#feeds.get(node)?.close();
    this.#feeds.delete(node);
  }

  /** Gives the custodian at once whatever waits for more. */
  flushRelayed(): void {
    for (const feed of this.#feeds.values()) if (feed.relayed) feed.flush();
  }

  forget(node: string): void {
    this.end(node);
    this.#acknowledged.delete(node);
    this.#unstored.delete(node);
  }

  add(node: string, id: string, steps: string, number: number): void {
    const feed = this.#feeds.get(node);
    if (feed) feed.add({ id, steps, number });
    else this.#components.wake(node);
  }

  /** Does an update for that node wait on disk? */
  async hasNews(node: string): Promise<boolean> {
    const above = { news: this.#acknowledged.get(node) ?? 0 };
    const rows = await this.#components.store.read(receipts, { where: { node }, above, orderBy: 'news', limit: 1 });
    return rows.length > 0;
  }

  isWaiting(node: string): boolean {
    return this.#feeds.get(node)?.waiting === true;
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

  /**
   * That node has stored the updates above `before` and up to `last`, which came through a custodian. False if it has
   * missed some before them.
   */
  acknowledgeRelayed(node: string, before: number, last: number): boolean {
    const known = this.#upTo(node);
    if (before > known) return false;
    if (last <= known) return true;
    const feed = this.#feeds.get(node);
    if (feed) feed.acknowledged = last;
    this.#acknowledged.set(node, last);
    this.#unstored.add(node);
    return true;
  }

  isAcknowledged(node: string, number: number | null): boolean {
    return number === null || number <= this.#upTo(node);
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
      // A custodian's copy is not lost: only updates that it could not be given are tried again.
      if (feed.relayed) {
        if (feed.stalled) this.beginRelayed(node, feed.relayed);
        continue;
      }
      if (!feed.backoff.isDue(now, feed.waiting)) continue;
      feed.close();
      const { acknowledged } = feed;
      this.#feeds.set(node, new PeerFeed(node, this.#components, { acknowledged, previous: feed }));
    }
  }

  #upTo(node: string): number {
    return this.#acknowledged.get(node) ?? 0;
  }
}

/** The custodian of a message concerns the sender alone; nodes of earlier versions do not know that state. */
function withoutRelayed(steps: string): string {
  if (!steps.includes('"relayed"')) return steps;
  return writeSteps((readSteps(JSON.parse(steps)) ?? []).filter(({ state }) => state !== 'relayed'));
}

export function ackCursor(node: string): string {
  return `heard ${node}`;
}
