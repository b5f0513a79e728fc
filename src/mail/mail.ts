import type { z } from 'zod';
import { unpackEnvelope } from '../a2a/codec.js';
import type { EnvelopeFactory, ValidEnvelope } from '../a2a/envelope.js';
import type { A2AObservability } from '../a2a/observability.js';
import type { Party } from '../a2a/policy.js';
import type { Postbox } from '../a2a/ports.js';
import type { AgentRegistry } from '../a2a/registry.js';
import type { A2ARouter } from '../a2a/router.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';
import type { InboxRow, OutboxRow } from '../store/tables.js';
import { AddressBook } from './address-book.js';
import type { Effects } from './delivery.js';
import { IncomingMail, type MailHandler } from './incoming-mail.js';
import { HeardSchema, MailSchema, NewsSchema } from './mail-wire.js';
import { OutgoingMail } from './outgoing-mail.js';
import { Permits } from './permits.js';
import { isFinal, presentState, type Receipt, type ReceiptState, story } from './receipt.js';
import { type NewsItem, Receipts } from './receipts.js';

export interface MailComponents {
  runtime: Runtime;
  store: Store;
  registry: AgentRegistry;
  observability: A2AObservability;
  factory: EnvelopeFactory;
}

/** The way to other nodes. */
export interface MailCarrier {
  /** Puts an item on its way; throws when there is no conversation with that node. */
  say(node: string, text: string): void;
}

/** Told of a message that was not read in time: once, also across restarts. */
export type UnreadHandler = (notice: { messageId: string; state: string; reason: string }) => void;

/** How long a durable message is kept if it does not say. */
const DEFAULT_TTL_MS = 7 * 86_400_000;
const SWEEP_MS = 1_000;

/**
 * Durable messages: on this node's disk before their sender hears anything, on their way until the other node's disk
 * has them, there until the recipient is done with them, with a receipt that both sides can read.
 */
export class Mail implements Postbox {
  readonly #components: MailComponents;
  readonly #book: AddressBook;
  readonly #permits: Permits;
  readonly #receipts: Receipts;
  readonly #outgoing: OutgoingMail;
  readonly #incoming: IncomingMail;
  /** How far each other store's mail has been taken. */
  readonly #cursors: Map<string, number>;
  /** Nodes whose mail could not be kept: it comes again with the next conversation. */
  readonly #blocked = new Set<string>();
  readonly #unread = new Map<string, UnreadHandler>();
  readonly #stopFollowing: () => void;
  #carrier: MailCarrier | undefined;
  #router: A2ARouter | undefined;
  #sweeper: Timer | undefined;

  private constructor(components: MailComponents, found: Found) {
    const { runtime, store, registry } = components;
    this.#components = components;
    this.#book = found.book;
    this.#permits = found.permits;
    this.#cursors = found.cursors;
    this.#receipts = new Receipts({ ...components, tell: (node, news) => this.#tell(node, ['t', news]) });
    const receipts = this.#receipts;
    const say = (node: string, text: string) => this.#say(node, text);
    this.#outgoing = new OutgoingMail({ runtime, store, receipts, storeId: found.storeId, say }, found.outgoing);
    const effects = (agent: string, wanted: Effects) => this.#prepareEffects(agent, wanted);
    this.#incoming = new IncomingMail({ runtime, store, receipts, effects }, found.incoming);
    const onFailure = (error: unknown) => runtime.logger.error({ err: error }, 'an address was not kept');
    this.#stopFollowing = found.book.follow(registry, () => runtime.now(), onFailure);
  }

  /** Goes on where the store says that it was. */
  static async open(components: MailComponents): Promise<Mail> {
    return new Mail(components, await lookAround(components));
  }

  start(router: A2ARouter, carrier?: MailCarrier): void {
    this.#router = router;
    this.#carrier = carrier;
    this.#sweepLater();
  }

  stop(): void {
    this.#sweeper?.cancel();
    this.#stopFollowing();
  }

  // Postbox

  find(address: string): Party | undefined {
    return this.#book.find(address);
  }

  mayReply(thread: string, responder: string, opener: string): boolean {
    return this.#permits.allows(thread, opener, responder);
  }

  /** The only known address that begins like this: people may shorten a node's key. */
  complete(prefix: string): string | undefined {
    return this.#book.complete(prefix);
  }

  async keep(envelope: ValidEnvelope, target: Party): Promise<void> {
    const { writes, written } = this.#prepare(envelope, target);
    await this.#components.store.write(writes);
    written();
  }

  // For agents

  attach(agent: string, handler: MailHandler): () => void {
    return this.#incoming.attach(agent, handler);
  }

  /** Calls back once for each message of the agent that was not read in the time it gave. */
  onUnread(agent: string, handler: UnreadHandler): void {
    this.#unread.set(agent, handler);
  }

  /** What an agent kept under that name. */
  async kept(agent: string, key: string): Promise<unknown> {
    const [row] = await this.#components.store.read({ from: 'agentState', where: { agent, key } });
    return row && JSON.parse(row.value);
  }

  // For the owner

  async receipt(id: string): Promise<{ state: string; over: boolean; story: Receipt }> {
    const receipt = await this.#receipts.read(id);
    const state = presentState(receipt)!;
    return { state, over: isFinal(state), story: story(receipt) };
  }

  outbox(): Promise<OutboxRow[]> {
    return this.#components.store.read({ from: 'outbox', orderBy: 'number', limit: 1_000 });
  }

  inbox(agent: string): Promise<InboxRow[]> {
    return this.#components.store.read({ from: 'inbox', where: { recipient: agent }, orderBy: 'number', limit: 1_000 });
  }

  // From other nodes

  /** A conversation with that node has begun. */
  began(node: string): void {
    this.#blocked.delete(node);
    this.#outgoing.begin(node);
    this.#receipts.retell(node).catch((error) => this.#complain(node, error));
  }

  /** The conversation with that node is over. */
  ended(node: string): void {
    this.#outgoing.end(node);
  }

  /** Takes an item about durable mail. Throws `INVALID_FRAME` for one that is none. */
  take(node: string, kind: 's' | 't' | 'u', rest: readonly unknown[]): void {
    if (kind === 's') this.#arrive(node, parsed(MailSchema.safeParse(rest)));
    else if (kind === 't') void this.#hear(node, parsed(NewsSchema.safeParse(rest[0])));
    else {
      const heard = parsed(HeardSchema.safeParse(rest[0]));
      this.#receipts.heard(node, heard).catch((error) => this.#complain(node, error));
    }
  }

  #arrive(node: string, [storeId, number, storedAt, expiresAt, packed]: Arrival): void {
    const name = `in ${node} ${storeId}`;
    const before = this.#cursors.get(name) ?? 0;
    const wire = unpackEnvelope(packed);
    if (this.#blocked.has(node)) return;
    if (number <= before) {
      // It was taken before; the other side has not heard so.
      this.#retellOne(node, wire.id);
      return;
    }
    this.#cursors.set(name, number);
    const cursor: Write = { put: 'cursors', row: { name, value: number } };
    const { writes, written } = this.#judge(node, wire, storedAt, expiresAt);
    this.#components.store.write([cursor, ...writes]).then(written, (error: unknown) => {
      // Whatever follows would overtake it: nothing more from there until it comes again.
      this.#blocked.add(node);
      this.#cursors.set(name, Math.min(before, this.#cursors.get(name) ?? before));
      this.#complain(node, error);
    });
  }

  #judge(node: string, wire: ValidEnvelope, at: number, expiresAt: number | null): Prepared {
    const row = { id: wire.id, state: 'stored', at, reason: null, node, tell: null };
    const stored: Write[] = [{ put: 'receipts', row }];
    try {
      const { envelope } = this.#router!.admitStored(wire, node);
      const { writes, written } = this.#incoming.prepare(envelope, node, expiresAt);
      const { correlationId, sender, recipient } = envelope;
      const until = expiresAt ?? this.#components.runtime.now() + DEFAULT_TTL_MS;
      const permit = this.#permits.grant(correlationId, sender, recipient, until);
      return { writes: [...stored, ...writes, ...permit], written };
    } catch (error) {
      const { code, message } = error as EclipticError;
      const refused = this.#receipts.reached(wire.id, 'refused', node, `${code}: ${message}`);
      return { writes: [...stored, ...refused], written: () => this.#receipts.announce(refused) };
    }
  }

  async #hear(node: string, news: readonly NewsItem[]): Promise<void> {
    try {
      await this.#receipts.hear(node, news);
      const settled = news.filter(([, state]) => state === 'arrived' || isFinal(state)).map(([id]) => id);
      if (settled.length > 0) await this.#outgoing.settle(node, [...new Set(settled)]);
      this.#tell(node, ['u', news.map(([id, state]) => [id, state])]);
    } catch (error) {
      this.#complain(node, error);
    }
  }

  #retellOne(node: string, id: string): void {
    const tell = async () => {
      const rows = await this.#components.store.read({ from: 'receipts', where: { id, node } });
      const news = rows
        .filter(({ state }) => state !== 'stored')
        .map(({ state, at, reason }) => [id, state, at, reason]);
      if (news.length > 0) this.#tell(node, ['t', news]);
    };
    tell().catch((error) => this.#complain(node, error));
  }

  #prepare(envelope: ValidEnvelope, target: Party): Prepared {
    const now = this.#components.runtime.now();
    const { id, sender, correlationId, metadata } = envelope;
    const expiresAt = now + (metadata?.ttlMs ?? DEFAULT_TTL_MS);
    const extra = this.#permits.grant(correlationId, sender, target.address, expiresAt);
    if (metadata?.readWithinMs !== undefined) {
      extra.push({ put: 'watches', row: { id, sender, dueAt: now + metadata.readWithinMs } });
    }
    const { writes, written } = this.#prepareFor(envelope, target, expiresAt);
    return { writes: [...writes, ...extra], written };
  }

  #prepareFor(envelope: ValidEnvelope, target: Party, expiresAt: number): Prepared {
    if (target.node !== undefined) return this.#outgoing.prepare(envelope, target.node, expiresAt);
    const stored = this.#receipts.reached(envelope.id, 'stored', '');
    const { writes, written } = this.#incoming.prepare(envelope, '', expiresAt);
    return {
      writes: [...stored, ...writes],
      written: () => {
        this.#receipts.announce(stored);
        written();
      },
    };
  }

  #prepareEffects(agent: string, { keep = {}, send = [] }: Effects): Prepared {
    const state = Object.entries(keep).map(([key, value]): Write => {
      if (value === undefined) return { delete: 'agentState', where: { agent, key } };
      return { put: 'agentState', row: { agent, key, value: JSON.stringify(value) } };
    });
    const messages = send.map(({ to, payload, thread }) => {
      const { factory } = this.#components;
      const metadata = { durable: true };
      const envelope = factory.create({
        sender: agent,
        recipient: to,
        type: 'notification',
        payload,
        correlationId: thread,
        metadata,
      });
      const target = this.#router!.durableTarget(envelope);
      return this.#prepare(envelope.readdress(agent, target.address), target);
    });
    return {
      writes: [...state, ...messages.flatMap(({ writes }) => writes)],
      written: () => {
        for (const { written } of messages) written();
      },
    };
  }

  #sweepLater(): void {
    this.#sweeper = this.#components.runtime.setTimer(() => {
      Promise.all([this.#outgoing.expire(), this.#incoming.expire(), this.#lookAtWatches(), this.#expirePermits()])
        .catch((error: unknown) => this.#components.runtime.logger.error({ err: error }, 'old mail was not swept'))
        .finally(() => this.#sweepLater());
    }, SWEEP_MS);
  }

  /** Tells senders, once, of messages that were to be read by now and are not. */
  async #lookAtWatches(): Promise<void> {
    const { store, runtime, observability } = this.#components;
    for (const { id, sender } of await store.read({ from: 'watches', below: { dueAt: runtime.now() }, limit: 100 })) {
      const { state } = await this.receipt(id).catch(() => ({ state: 'done' }));
      await store.write([{ delete: 'watches', where: { id } }]);
      if (state === 'read' || isFinal(state as ReceiptState)) continue;
      const reason = `it was to be read by now, and is ${state}`;
      const about = { envelopeId: id, sender, receiptState: 'overdue', reason, timestamp: runtime.now() };
      observability.emit({ type: 'receipt', ...about });
      this.#unread.get(sender)?.({ messageId: id, state, reason });
    }
  }

  async #expirePermits(): Promise<void> {
    const writes = this.#permits.expire(this.#components.runtime.now());
    if (writes.length > 0) await this.#components.store.write(writes);
  }

  #say(node: string, text: string): void {
    if (!this.#carrier) throw new EclipticError('AGENT_UNAVAILABLE', 'there is no way to other nodes');
    this.#carrier.say(node, text);
  }

  /** News that cannot be told now is told when the node comes back. */
  #tell(node: string, item: readonly unknown[]): void {
    try {
      this.#say(node, JSON.stringify(item));
    } catch (error) {
      this.#components.runtime.logger.debug({ node, err: error }, 'news waits');
    }
  }

  #complain(node: string, error: unknown): void {
    this.#components.runtime.logger.error({ node, err: error }, 'durable mail cannot be kept');
  }
}

type Arrival = z.infer<typeof MailSchema>;

/** What to write, and what to call when it is written. */
interface Prepared {
  readonly writes: Write[];
  readonly written: () => void;
}

/** What the store knows at the start. */
interface Found {
  book: AddressBook;
  permits: Permits;
  cursors: Map<string, number>;
  storeId: string;
  outgoing: { next: number; waiting: number };
  incoming: { next: number };
}

async function lookAround({ store, runtime }: MailComponents): Promise<Found> {
  const rows = await store.read({ from: 'cursors' });
  const cursors = new Map(rows.map(({ name, value }) => [name, value]));
  if (!cursors.has('store')) {
    const value = Math.floor(runtime.random() * Number.MAX_SAFE_INTEGER);
    cursors.set('store', value);
    await store.write([{ put: 'cursors', row: { name: 'store', value } }]);
  }
  const [lastOut] = await store.read({ from: 'outbox', orderBy: 'number', descending: true, limit: 1 });
  const [lastIn] = await store.read({ from: 'inbox', orderBy: 'number', descending: true, limit: 1 });
  return {
    book: await AddressBook.open(store),
    permits: await Permits.open(store),
    cursors,
    storeId: String(cursors.get('store')),
    outgoing: {
      next: Math.max(lastOut?.number ?? 0, cursors.get('outbox') ?? 0) + 1,
      waiting: await store.count({ from: 'outbox' }),
    },
    incoming: { next: (lastIn?.number ?? 0) + 1 },
  };
}

function parsed<T>(result: { success: true; data: T } | { success: false; error: unknown }): T {
  if (result.success) return result.data;
  throw new EclipticError('INVALID_FRAME', 'an item about durable mail is malformed');
}
