import type { A2AObservability } from '../mesh/observability.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { AgentCard } from '../mesh/schemas.js';
import type { Grant } from '../network/membership/certificate.js';
import type { Identity } from '../network/membership/identity.js';
import type { Membership } from '../network/membership/membership.js';
import { checkSignedCard, permits, signCard } from '../network/membership/signed-cards.js';
import type { Finding } from '../network/peers/network.js';
import type { Peers } from '../network/peers/peers.js';
import { ITEM } from '../network/peers/wire.js';
import { within } from '../runtime/async.js';
import { describeError } from '../runtime/errors.js';
import type { Timer } from '../runtime/runtime.js';
import type { Write } from '../store/store.js';
import type { AddressBook } from './address-book.js';
import type { Arrivals } from './arrivals.js';
import type { OutgoingMail } from './outgoing-mail.js';
import type { ReceiptInbound } from './receipt-inbound.js';
import type { ReceiptOutbound, RelayedUpdates } from './receipt-outbound.js';
import type { MailContext } from './receipts.js';
import type { MailRelay, RelayedBatch, RelayListener } from './relay.js';
import type { RelayCursors } from './relay-cursors.js';
import { RelayFeed, type RelayFeedComponents } from './relay-feed.js';
import { RelayInbound } from './relay-inbound.js';
import type { StoreEpoch } from './store-epoch.js';
import { type OutboxRow, outbox } from './tables.js';

/** The custodian, and the parts of this node that prove who its mail is from. */
export interface RelayInit {
  readonly relay: MailRelay;
  readonly identity: Identity;
  readonly membership: Membership;
}

export interface RelayedMailComponents extends MailContext, RelayInit {
  observability: A2AObservability;
  registry: AgentRegistry;
  book: AddressBook;
  epoch: StoreEpoch;
  cursors: RelayCursors;
  arrivals: Arrivals;
  inbound: ReceiptInbound;
  outbound: ReceiptOutbound;
  outgoing: OutgoingMail;
  peers: Pick<Peers, 'get'>;
}

/** How long a node must be out of reach before its mail is relayed: most come back, or are only slow to connect. */
const ABSENT_MS = 1_000;
/** Mail is published again on request at most this often to each node. */
const AGAIN_MS = 60_000;
/** Cards in one batch, and the largest of them. */
const MAX_CARDS_CHARS = 32_768;
const MAX_CARD_CHARS = 8_192;
/** How long a node that stops gives its last items to the custodian. */
const STOP_MS = 1_000;

/**
 * Mail through a custodian: what this node has for absent nodes goes there besides staying in the outbox, and what others
 * left there for this node is taken as if it came over a link. Neither needs the other node to be there.
 */
export class RelayedMail implements RelayListener {
  readonly #components: RelayedMailComponents;
  readonly #incoming: RelayInbound;
  readonly #feeds = new Map<string, RelayFeed>();
  readonly #starts = new Map<string, Timer>();
  readonly #againAt = new Map<string, number>();
  /** Receipt updates that were taken without a gap, as they were last acknowledged. */
  readonly #taken = new Map<string, { before: number; last: number }>();
  readonly #signed = new WeakMap<AgentCard, string>();
  readonly #updates: RelayedUpdates;
  #isOpen = false;
  #stopped = false;

  constructor(components: RelayedMailComponents) {
    this.#components = components;
    const { cursors, membership, outbound } = components;
    this.#updates = {
      told: (node) => cursors.of(node, 'told'),
      say: (node, text, last) => this.#feed(node).say(text, last),
    };
    this.#incoming = new RelayInbound({
      ...components,
      grantOf: (node, chain) => membership.grantOf(node, chain),
      introduced: (node, cards, grant) => this.#introduced(node, cards, grant),
      onBatch: (node) => this.#begin(node),
      say: (node, text) => this.#say(node, text),
      onTaken: (node, before, last) => this.#acknowledge(node, before, last),
      onAcknowledged: (node, before, last) => {
        if (last > cursors.of(node, 'told')) return;
        // It has missed some before them: the custodian gets all of them again.
        if (!outbound.acknowledgeRelayed(node, before, last)) this.#publishAgain(node, 'told');
        else this.#feeds.get(node)?.retry();
      },
      onAgain: (node) => this.#publishAgain(node, 'out'),
    });
    components.relay.start(this);
  }

  // Of the custodian

  reached(id: number): number {
    const { cursors } = this.#components;
    return cursors.get('store') === id ? Math.max(cursors.get('seen'), cursors.get('top')) : 0;
  }

  async opened({ id, last }: { id: number; last: number }): Promise<number> {
    const { cursors, store, runtime } = this.#components;
    const known = cursors.get('store');
    const shorter = last < this.reached(id);
    const epoch = epochNumber(this.#components.epoch.name);
    const writes: Write[] = [];
    if (known !== id || shorter) {
      if (known !== 0)
        runtime.logger.warn({ known, id, shorter }, 'mail: the custodian has lost mail; it gets all again');
      this.#incoming.reset();
      writes.push(
        cursors.write('read', 0),
        cursors.write('seen', 0),
        cursors.write('top', 0),
        cursors.write('store', id),
      );
      cursors.set('top', 0);
      cursors.set('store', id);
    }
    // Numbers of another epoch do not continue those that were relayed.
    if (writes.length > 0 || cursors.get('epoch') !== epoch) {
      writes.push(...cursors.reset('out', 'told', 'count'), cursors.write('epoch', epoch));
      cursors.set('epoch', epoch);
      await store.write(writes);
      this.#restart();
    }
    this.#isOpen = true;
    for (const feed of this.#feeds.values()) feed.retry();
    for (const node of this.#components.book.nodes) this.absent(node);
    return this.#incoming.opened();
  }

  begun(batch: Omit<RelayedBatch, 'body'>): void {
    this.#incoming.begun(batch);
  }

  take(batch: RelayedBatch): Promise<void> {
    return this.#incoming.take(batch);
  }

  refuse(batch: Omit<RelayedBatch, 'body'>, reason: string): void {
    this.#incoming.refuse(batch, reason);
  }

  // Of this node

  /** A message for another node is in the outbox. */
  stored(row: OutboxRow): void {
    const feed = this.#feeds.get(row.node);
    if (feed) feed.offer(row);
    else this.absent(row.node);
  }

  /** A link to that node is there: its mail takes that way. */
  present(node: string): void {
    this.#starts.get(node)?.cancel();
    this.#starts.delete(node);
    this.#feeds.get(node)?.close();
    this.#feeds.delete(node);
  }

  /** That node cannot be reached now. If it stays so for a while, its mail is relayed. */
  absent(node: string): void {
    const { runtime } = this.#components;
    if (!this.#isOpen || this.#stopped || this.#starts.has(node) || this.#isLinked(node)) return;
    const timer = runtime.setTimer(() => {
      this.#starts.delete(node);
      this.#beginIfNeeded(node);
    }, ABSENT_MS);
    this.#starts.set(node, timer);
  }

  /** The conversation with that node has ended: receipt updates are relayed as well. */
  ended(node: string): void {
    if (this.#feeds.has(node) && !this.#stopped) this.#beginUpdates(node);
    else this.absent(node);
  }

  /** This node's store is in another epoch: relayed mail gets new numbers. */
  renewed(): void {
    const { cursors, store, runtime, epoch } = this.#components;
    cursors.set('epoch', epochNumber(epoch.name));
    const writes = [...cursors.reset('out'), cursors.write('epoch', cursors.get('epoch'))];
    store.write(writes).catch((error) => runtime.logger.error({ err: error }, 'mail: relayed mail was not reset'));
    this.#restart();
  }

  forget(node: string): Write[] {
    this.present(node);
    this.#taken.delete(node);
    return [...this.#components.cursors.forget(node), ...this.#components.relays.forget(node)];
  }

  /** The writes of upkeep. */
  async sweep(): Promise<Write[]> {
    const { relays, store } = this.#components;
    const writes = this.#incoming.takeUnstored();
    for (const node of relays.nodes) {
      const [lowest] = await store.read(outbox, { where: { node }, orderBy: 'number', limit: 1 });
      writes.push(...relays.forget(node, lowest?.number));
    }
    return writes;
  }

  /** First gives the custodian what waits in memory, so that both nodes never need to be there together. */
  async stop(): Promise<void> {
    const { outbound, runtime } = this.#components;
    this.#stopped = true;
    this.#incoming.stop();
    outbound.flushRelayed();
    const idle = Promise.all([...this.#feeds.values()].map((feed) => feed.idle()));
    await within(runtime, idle, STOP_MS, () => undefined);
    for (const node of [...this.#starts.keys(), ...this.#feeds.keys()]) this.present(node);
    await this.#components.relay.stop();
    await this.#components.store.write(this.#incoming.takeUnstored());
  }

  diagnose(): Finding[] {
    const refused = this.#incoming.refused.map(([about, count]): Finding => {
      const [node = '', code] = about.split(' ');
      const text = `relayed mail: ${count} batches under the name of node ${node.slice(0, 12)} were refused (${code})`;
      return { level: 'warning', text };
    });
    const differences = (this.#components.relay.differences ?? []).map((difference): Finding => {
      return { level: 'warning', text: `relayed mail: the stream has another setting: ${difference}` };
    });
    return [...differences, ...refused];
  }

  /** The directory may list a node that has crashed, so only a link counts. */
  #isLinked(node: string): boolean {
    return this.#components.peers.get(node)?.status === 'connected';
  }

  #restart(): void {
    for (const node of [...this.#feeds.keys()]) {
      this.#feeds.get(node)?.close();
      this.#feeds.delete(node);
      this.#begin(node);
    }
  }

  /** A node that nothing waits for need not be absent: nodes talk on demand. */
  #beginIfNeeded(node: string): void {
    const { outgoing, outbound, runtime } = this.#components;
    Promise.all([outgoing.hasRows(node), outbound.hasNews(node)])
      .then((waits) => waits.includes(true) && this.#begin(node))
      .catch((error: unknown) => runtime.logger.error({ node, err: error }, 'mail: relaying could not begin'));
  }

  /** Begins to relay to a node that is absent. */
  #begin(node: string): void {
    const { membership } = this.#components;
    if (this.#stopped || this.#feeds.has(node) || this.#isLinked(node) || !membership.joined) return;
    this.#feed(node);
    this.#beginUpdates(node);
  }

  #feed(node: string): RelayFeed {
    let feed = this.#feeds.get(node);
    if (!feed) {
      feed = new RelayFeed(node, this.#feedComponents);
      this.#feeds.set(node, feed);
    }
    return feed;
  }

  get #feedComponents(): RelayFeedComponents {
    const { membership, outbound, outgoing } = this.#components;
    return {
      ...this.#components,
      chain: () => (membership.joined ? JSON.stringify(membership.chain) : undefined),
      introduce: (node, senders) => this.#introduce(node, senders),
      isAcknowledged: (node, number) => outbound.isAcknowledged(node, number),
      isWaiting: (id) => outgoing.hasMessage(id),
    };
  }

  #beginUpdates(node: string): void {
    const { peers, outbound } = this.#components;
    // A conversation that is interrupted keeps its updates, and goes on or ends soon.
    if (!peers.get(node)?.conversing) outbound.beginRelayed(node, this.#updates);
  }

  /** Over a link, nothing that the item says is needed: a conversation begins with all of it. */
  #say(node: string, text: string): void {
    if (this.#isLinked(node)) return;
    try {
      this.#feed(node).say(text);
    } catch (error) {
      this.#components.runtime.logger.warn({ node, reason: describeError(error) }, 'mail: an item was not relayed');
    }
  }

  /** Acknowledges updates together with those before them, so that the latest acknowledgement stands for all. */
  #acknowledge(node: string, before: number, last: number): void {
    const known = this.#taken.get(node);
    const joined =
      known && before <= known.last ? { before: known.before, last: Math.max(last, known.last) } : { before, last };
    this.#taken.set(node, joined);
    this.#say(node, `["${ITEM.receiptsStored}",${joined.before},${joined.last}]`);
  }

  /** That node has missed mail or updates: everything that it has not confirmed is published again. */
  #publishAgain(node: string, what: 'out' | 'told'): void {
    const { cursors, runtime } = this.#components;
    const now = runtime.stopwatch();
    const key = `${what} ${node}`;
    if (now - (this.#againAt.get(key) ?? Number.NEGATIVE_INFINITY) < AGAIN_MS) return;
    this.#againAt.set(key, now);
    cursors.setOf(node, what, 0);
    if (!this.#feeds.has(node)) this.absent(node);
    else if (what === 'told') this.#beginUpdates(node);
    else {
      this.#feeds.get(node)?.close();
      this.#feeds.delete(node);
      this.#begin(node);
    }
  }

  #introduce(node: string, senders: ReadonlySet<string>): string[] {
    const { registry, book, membership } = this.#components;
    const { sandboxes } = membership.grantOf(node) ?? {};
    const texts: string[] = [];
    let chars = 0;
    for (const sender of senders) {
      const card = registry.ownEntry(sender)?.card ?? book.cardOf(sender);
      if (!card || !permits(membership.grant, card) || !registry.mayAnnounce(card, node, sandboxes)) continue;
      const text = this.#sign(card);
      if (text.length > MAX_CARD_CHARS || chars + text.length > MAX_CARDS_CHARS) continue;
      chars += text.length;
      texts.push(text);
    }
    return texts;
  }

  #sign(card: AgentCard): string {
    const { identity } = this.#components;
    const signed = this.#signed.get(card) ?? JSON.stringify(signCard(identity, card));
    this.#signed.set(card, signed);
    return signed;
  }

  /** Takes the cards of agents that this node has never heard of; those of others come with their conversation. */
  #introduced(node: string, cards: readonly unknown[], grant: Grant): void {
    const { registry, book, runtime } = this.#components;
    for (const value of cards) {
      const id = (value as readonly { readonly id?: unknown }[] | null)?.[0]?.id;
      if (typeof id !== 'string' || registry.entry(`${id}@${node}`) || book.find(`${id}@${node}`)) continue;
      try {
        book.note(checkSignedCard(value, node, grant));
      } catch (error) {
        runtime.logger.warn({ node, reason: describeError(error) }, 'mail: the card of a sender is refused');
      }
    }
  }
}

/** The number of a store's epoch; 0 for the first. */
function epochNumber(storeName: string): number {
  return Number(storeName.split('.')[1] ?? 0);
}
