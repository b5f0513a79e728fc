import type { EnvelopeFactory, ValidEnvelope } from '../mesh/envelope.js';
import { weighJson } from '../mesh/json-value.js';
import { type A2AObservability, callbackReport } from '../mesh/observability.js';
import type { Party } from '../mesh/policy.js';
import type { Postbox } from '../mesh/ports.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { A2ARouter } from '../mesh/router.js';
import type { AgentCard } from '../mesh/schemas.js';
import type { Finding } from '../network/peers/network.js';
import { guarded } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import type { Store, Write } from '../store/store.js';
import type { InboxRow, OutboxRow } from '../store/tables.js';
import { AddressBook } from './address-book.js';
import { Arrivals, type ArrivalsComponents, cursorsOf } from './arrivals.js';
import type { Effects } from './delivery.js';
import { GroupWriter, type Prepared, together } from './group-writer.js';
import { Hearing } from './hearing.js';
import { type HeldMail, IncomingMail } from './incoming-mail.js';
import { Letterbox } from './letterbox.js';
import type { Amount } from './mail-quota.js';
import { type Progress, readHeard, readMail, readNews, readProgress } from './mail-wire.js';
import { heardBy, News } from './news.js';
import { Numbers } from './numbers.js';
import { OutgoingMail, type OutgoingMailComponents } from './outgoing-mail.js';
import { Permits } from './permits.js';
import { type MailHandler, Readers } from './readers.js';
import { isFinal, presentState, type Receipt, story } from './receipt.js';
import { type ReceiptLimits, Receipts } from './receipts.js';
import { StoreEpoch } from './store-epoch.js';
import { type UnreadHandler, Watches } from './watches.js';

export interface MailComponents {
  runtime: Runtime;
  /** What ends mail. */
  clock: SteadyClock;
  store: Store;
  registry: AgentRegistry;
  observability: A2AObservability;
  factory: EnvelopeFactory;
}

export interface MailInit {
  /** Finished receipts that are kept. */
  receipts?: ReceiptLimits;
}

/** The way to other nodes. */
export interface MailCarrier {
  /** Puts an item on its way; throws when there is no conversation with that node. */
  say(node: string, text: string): void;
  /** Makes an agent that has left known to a node, as long as it takes to say something in its name. */
  introduce(node: string, card: AgentCard): () => void;
  /** Does that node speak this version of the protocol? */
  speaks(node: string, version: number): boolean;
}

/** How long a durable message is kept if it does not say. */
const DEFAULT_TTL_MS = 7 * 86_400_000;
const DEFAULT_RECEIPTS: ReceiptLimits = { maxAgeMs: 30 * 86_400_000, maxRows: 1_000_000 };
/** From this version on, nodes tell each other how far they have the other's mail. */
const PROGRESS_PROTOCOL = 2;
/** Stores of one node that it is told of. */
const MAX_PROGRESS = 8;
const SWEEP_MS = 1_000;
/** The time is noted once in so many sweeps, under this name. */
const CLOCK_SWEEPS = 60;
const CLOCK = 'clock';
/** Old receipts are looked for once in so many sweeps. */
const RETAIN_SWEEPS = 60;

/**
 * Durable messages: on this node's disk before their sender hears anything, on their way until the other node's disk
 * has them, there until the recipient is done with them, with a receipt that both sides can read.
 */
export class Mail implements Postbox {
  readonly #components: MailComponents;
  readonly #limits: ReceiptLimits;
  readonly #book: AddressBook;
  readonly #permits: Permits;
  readonly #writer: GroupWriter;
  readonly #news: News;
  readonly #receipts: Receipts;
  readonly #outgoing: OutgoingMail;
  readonly #incoming: IncomingMail;
  readonly #readers: Readers;
  readonly #letterboxes = new Map<string, Letterbox>();
  readonly #arrivals: Arrivals;
  readonly #hearing: Hearing;
  readonly #watches: Watches;
  readonly #epoch: StoreEpoch;
  /** Nodes whose store gave numbers a second time in this run, and when. */
  readonly #restoredPeers = new Map<string, number>();
  readonly #stopFollowing: () => void;
  #carrier: MailCarrier | undefined;
  #router: A2ARouter | undefined;
  #sweeper: Timer | undefined;
  #sweeps = 0;
  #stopped = false;

  private constructor(components: MailComponents, init: MailInit, found: Found) {
    const { runtime, clock, store, registry, observability } = components;
    this.#components = components;
    this.#limits = { ...DEFAULT_RECEIPTS, ...init.receipts };
    this.#book = found.book;
    this.#permits = found.permits;
    const { cursors, epoch } = found;
    const writer = new GroupWriter(runtime, store);
    const numbers = (name: string, used = 0) => new Numbers(name, Math.max(used, cursors.get(name) ?? 0), writer);
    const say = (node: string, text: string) => this.#say(node, text);
    const exclusively: Hearing['exclusively'] = (node, task) => this.#hearing.exclusively(node, task);
    const news = new News({ runtime, store, say, heard: found.heard });
    const receipts = new Receipts({ runtime, clock, store, observability, news, numbers: numbers('news') });
    const base = { runtime, clock, store, writer, receipts };
    const introduce: OutgoingMailComponents['introduce'] = (node, senders) => this.#introduce(node, senders);
    this.#outgoing = new OutgoingMail(
      { ...base, numbers: numbers('outbox', found.outgoing.last), epoch, say, introduce, exclusively },
      found.outgoing.waiting,
    );
    this.#incoming = new IncomingMail(
      {
        ...base,
        news,
        effects: (agent, effects) => this.#prepareEffects(agent, effects),
        answer: (answer) => this.#prepareSend(answer),
        exclusively,
        onArrival: (held) => {
          this.#readers.arrived(held);
          this.#letterboxes.get(held.envelope.recipient)?.onArrival(held);
        },
      },
      found.incoming,
    );
    const { incoming, outgoing, permits } = {
      incoming: this.#incoming,
      outgoing: this.#outgoing,
      permits: found.permits,
    };
    this.#readers = new Readers(runtime, clock, incoming);
    const admit: ArrivalsComponents['admit'] = (wire, node) => this.#router!.admitStored(wire, node);
    const onReused: ArrivalsComponents['onReused'] = (node, store, upTo) => this.#reused(node, store, upTo);
    const onNewEpoch: ArrivalsComponents['onNewEpoch'] = (node) => this.#peerRestored(node);
    const fromOthers = { incoming, permits, admit, cursors, onReused, onNewEpoch };
    this.#arrivals = new Arrivals({ ...base, ...fromOthers, permitMs: DEFAULT_TTL_MS });
    this.#epoch = epoch;
    const acknowledge = (node: string, last: number) => this.#tell(node, ['u', last]);
    this.#hearing = new Hearing({ ...base, outgoing, incoming, acknowledge });
    this.#watches = new Watches({ runtime, store, receipts, observability });
    this.#writer = writer;
    this.#news = news;
    this.#receipts = receipts;
    const onFailure = (error: unknown) => runtime.logger.error({ err: error }, 'an address was not kept');
    this.#stopFollowing = found.book.follow(registry, () => runtime.now(), onFailure);
  }

  /** Goes on where the store says that it was; `place` tells its data folder from copies of it. */
  static async open(components: MailComponents, init: MailInit = {}, place?: string): Promise<Mail> {
    return new Mail(components, init, await lookAround(components, place));
  }

  /** `removed` are nodes that are no longer members: an earlier process may not have come to the end of forgetting them. */
  start(router: A2ARouter, carrier?: MailCarrier, removed: readonly string[] = []): void {
    this.#router = router;
    this.#carrier = carrier;
    void this.#countEarlier();
    for (const node of removed) if (this.#book.knows(node)) this.removed(node);
    this.#sweepLater();
  }

  /** Counts by their senders what earlier processes left; until then, mail beyond the limits of all is refused. */
  async #countEarlier(): Promise<void> {
    try {
      await this.#incoming.countEarlier();
      await this.#outgoing.countEarlier();
    } catch (error) {
      this.#components.runtime.logger.error({ err: error }, 'durable mail could not be counted by its senders');
    }
  }

  /** Hands nothing more to agents; resolves when those at work are through. */
  drain(): Promise<void> {
    return this.#readers.drain();
  }

  /** Resolves when nothing runs any more, and everything that was asked for is on disk. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#sweeper?.cancel();
    this.#stopFollowing();
    this.#readers.stop();
    this.#incoming.stop();
    await this.#writer.flush();
    const writes = [...this.#news.takeUnkept(), this.#clockWrite()];
    await this.#components.store.write(writes).catch((error) => this.#complain(error));
  }

  // Postbox

  find(address: string): Party | undefined {
    return this.#book.find(address);
  }

  named(id: string): readonly Party[] {
    return this.#book.named(id);
  }

  mayReply(thread: string, responder: string, opener: string): boolean {
    return this.#permits.allows(thread, opener, responder);
  }

  /** Everyone that mail can be addressed to, present or not. */
  known(): Party[] {
    return this.#book.all;
  }

  /** The only known address that begins like this: people may shorten a node's key. */
  complete(prefix: string): string | undefined {
    return this.#book.complete(prefix);
  }

  async keep(envelope: ValidEnvelope, target: Party): Promise<void> {
    if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'the node has stopped');
    await this.#writer.write(this.#prepare(envelope, target));
  }

  // For agents

  attach(agent: string, handler: MailHandler): () => void {
    return this.#readers.attach(agent, handler);
  }

  /** For an agent that fetches its mail. There is one for each, as long as it is open. */
  letterbox(agent: string, onArrival: (held: HeldMail) => void): Letterbox {
    const onClose = () => this.#letterboxes.delete(agent);
    const { runtime, observability } = this.#components;
    const arrived = guarded(onArrival, `letterbox of ${agent}`, callbackReport(runtime, observability));
    const letterbox = new Letterbox(runtime, this.#incoming, { agent, onArrival: arrived, onClose });
    this.#letterboxes.set(agent, letterbox);
    return letterbox;
  }

  /** Calls back once for each message of the agent that was not read in the time it gave. Returns the way to stop. */
  onUnread(agent: string, handler: UnreadHandler): () => void {
    void this.#watches.attach(agent, handler);
    return () => this.#watches.detach(agent);
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

  receiptIdsBeginning(prefix: string, limit: number): Promise<string[]> {
    return this.#receipts.idsBeginning(prefix, limit);
  }

  /** The envelope of a durable message that waits here or to go out. */
  async waiting(id: string): Promise<string | undefined> {
    const { store } = this.#components;
    const [[incoming], [outgoing]] = await Promise.all([
      store.read({ from: 'inbox', where: { id } }),
      store.read({ from: 'outbox', where: { id } }),
    ]);
    return (incoming ?? outgoing)?.envelope;
  }

  outbox(above: number, limit: number): Promise<OutboxRow[]> {
    return this.#components.store.read({ from: 'outbox', above: { number: above }, orderBy: 'number', limit });
  }

  inbox(agent: string, above: number, limit: number): Promise<InboxRow[]> {
    const query = { from: 'inbox', where: { recipient: agent }, above: { number: above }, orderBy: 'number' } as const;
    return this.#components.store.read({ ...query, limit });
  }

  // From other nodes

  /** A conversation with that node has begun. */
  began(node: string): void {
    this.#hearing.begin(node);
    this.#news.begin(node);
    this.#incoming.begin(node);
    this.#outgoing.begin(node);
    for (const [store, upTo] of this.#arrivals.progress(node).slice(-MAX_PROGRESS))
      this.#tellProgress(node, store, upTo);
  }

  /** The conversation with that node is over. */
  ended(node: string): void {
    this.#outgoing.end(node);
    this.#news.end(node);
    this.#arrivals.ended(node);
  }

  /** That node's membership was taken away: mail to and from it ends, and nothing of it stays but receipts. */
  removed(node: string): void {
    void this.#hearing.exclusively(node, async () => {
      await this.#outgoing.forget(node);
      await this.#incoming.forget(node);
      this.#book.forget(node);
      this.#news.forget(node);
      this.#arrivals.forget(node);
      const { store } = this.#components;
      const names = (await store.read({ from: 'cursors' })).map(({ name }) => name);
      const own = names.filter((name) => name === heardBy(node) || name.startsWith(cursorsOf(node)));
      await store.write([
        ...this.#permits.forget(node),
        { delete: 'addresses', where: { node } },
        { delete: 'cursors', where: { name: own } },
        // The node was removed, so these receipts need not be reported and may expire.
        { update: 'receipts', where: { node }, set: { news: null } },
      ]);
    });
  }

  /** Takes an item about durable mail. Throws `INVALID_FRAME` for one that is none. */
  take(node: string, kind: 's' | 't' | 'u' | 'v', rest: readonly unknown[]): void {
    if (kind === 's') this.#arrivals.take(node, readMail(rest));
    else if (kind === 't') this.#hearing.take(node, readNews(rest));
    else if (kind === 'u') this.#news.heard(node, readHeard(rest));
    else this.#compare(node, readProgress(rest));
  }

  /** What the owner should know about this store and those of other nodes. */
  diagnose(): Finding[] {
    const findings: Finding[] = [];
    const { restored } = this.#epoch;
    if (restored) {
      const day = new Date(restored.at).toISOString().slice(0, 10);
      findings.push({
        level: 'warning',
        text: `store: since ${day}, mail is numbered in a new epoch: ${restored.reason}`,
      });
    }
    for (const node of this.#restoredPeers.keys()) {
      const what = 'sent other mail under numbers that it had used; all of it was taken';
      findings.push({
        level: 'warning',
        text: `store: node ${node.slice(0, 12)} was put back from a copy: it ${what}`,
      });
    }
    return findings;
  }

  #reused(node: string, store: string, upTo: number): void {
    this.#tellProgress(node, store, upTo, true);
    this.#peerRestored(node);
  }

  #peerRestored(node: string): void {
    if (this.#restoredPeers.has(node)) return;
    this.#restoredPeers.set(node, this.#components.runtime.now());
    this.#report(
      node,
      'the node numbers its mail another time: its store was put back from a copy; mail is compared by id',
    );
  }

  #tellProgress(node: string, store: string, upTo: number, reused = false): void {
    if (this.#carrier?.speaks(node, PROGRESS_PROTOCOL)) this.#tell(node, ['v', store, upTo, reused]);
  }

  #compare(node: string, progress: Progress): void {
    this.#outgoing
      .compare(node, progress)
      .then((reason) => reason !== undefined && this.#report(node, reason))
      .catch((error: unknown) => this.#complain(error));
  }

  #report(node: string, reason: string): void {
    const { runtime, observability } = this.#components;
    runtime.logger.warn({ node, reason }, 'store restored from a copy');
    observability.emit({ type: 'security', node, code: 'STORE_RESTORED', reason, timestamp: runtime.now() });
  }

  #prepare(envelope: ValidEnvelope, target: Party): Prepared {
    const now = this.#components.runtime.now();
    const { id, sender, correlationId, metadata } = envelope;
    const expiresAt = now + (metadata?.ttlMs ?? DEFAULT_TTL_MS);
    const { node } = target;
    const { writes, written, failed } =
      node === undefined
        ? this.#incoming.prepare(envelope, '', now, expiresAt)
        : this.#outgoing.prepare(envelope, node, expiresAt);
    const extra = this.#permits.grant(correlationId, sender, target.address, expiresAt);
    if (metadata?.readWithinMs !== undefined) extra.push(this.#watches.set(id, sender, metadata.readWithinMs));
    return { writes: extra.length === 0 ? writes : [...writes, ...extra], written, failed };
  }

  #prepareEffects(agent: string, { keep = {}, send = [] }: Effects): Prepared {
    const state = Object.entries(keep).map(([key, value]): Write => {
      if (value === undefined) return { delete: 'agentState', where: { agent, key } };
      return { put: 'agentState', row: { agent, key, value: toJson(key, value) } };
    });
    const sends = send.map(({ to: recipient, payload, thread: correlationId }) => () => {
      const about = { sender: agent, recipient, type: 'notification', correlationId } as const;
      return this.#prepareSend(this.#components.factory.create({ ...about, payload, metadata: { durable: true } }));
    });
    return together(state, sends);
  }

  #prepareSend(made: ValidEnvelope): Prepared {
    const { envelope, target, report } = this.#router!.admitDurable(made);
    const prepared = this.#prepare(envelope, target);
    return {
      ...prepared,
      written: () => {
        report();
        prepared.written();
      },
    };
  }

  #sweepLater(): void {
    this.#sweeper = this.#components.runtime.setTimer(() => {
      this.#sweep()
        .catch((error: unknown) => this.#complain(error))
        .finally(() => {
          if (!this.#stopped) this.#sweepLater();
        });
    }, SWEEP_MS);
  }

  async #sweep(): Promise<void> {
    this.#outgoing.sweep();
    this.#news.sweep();
    this.#readers.sweep();
    const { store, clock } = this.#components;
    const forgotten = [...this.#permits.expire(clock.now()), ...this.#news.takeUnkept()];
    if (this.#sweeps % CLOCK_SWEEPS === 0) forgotten.push(this.#clockWrite());
    if (forgotten.length > 0) await store.write(forgotten);
    await Promise.all([this.#outgoing.expire(), this.#incoming.expire(), this.#watches.sweep()]);
    if (this.#sweeps++ % RETAIN_SWEEPS === 0) await this.#receipts.retain(this.#limits);
  }

  /** The time that the next process goes on from. */
  #clockWrite(): Write {
    return { put: 'cursors', row: { name: CLOCK, value: Math.floor(this.#components.clock.now()) } };
  }

  #introduce(node: string, senders: ReadonlySet<string>): () => void {
    const withdrawals: (() => void)[] = [];
    for (const sender of senders) {
      if (this.#components.registry.ownEntry(sender)) continue;
      const card = this.#book.cardOf(sender);
      if (card && this.#carrier) withdrawals.push(this.#carrier.introduce(node, card));
    }
    return () => {
      for (const withdraw of withdrawals) withdraw();
    };
  }

  #say(node: string, text: string): void {
    if (!this.#carrier) throw new EclipticError('AGENT_UNAVAILABLE', 'there is no way to other nodes');
    this.#carrier.say(node, text);
  }

  /** What cannot be told now is told when the node comes back. */
  #tell(node: string, item: readonly unknown[]): void {
    try {
      this.#say(node, JSON.stringify(item));
    } catch (error) {
      this.#components.runtime.logger.debug({ node, err: error }, 'an acknowledgement was not sent');
    }
  }

  #complain(error: unknown): void {
    this.#components.runtime.logger.error({ err: error }, 'old mail was not swept');
  }
}

function toJson(key: string, value: unknown): string {
  const weight = weighJson(value);
  if (typeof weight === 'number') return JSON.stringify(value);
  throw new EclipticError(
    weight.tooLarge ? 'PAYLOAD_TOO_LARGE' : 'INVALID_ENVELOPE',
    `what is to be kept as "${key}" ${weight.path} ${weight.problem}`,
  );
}

/** What the store knows at the start. */
interface Found {
  book: AddressBook;
  permits: Permits;
  cursors: Map<string, number>;
  heard: Map<string, number>;
  epoch: StoreEpoch;
  outgoing: { last: number; waiting: Amount };
  incoming: { next: number; waiting: Amount };
}

async function lookAround({ store, runtime, clock }: MailComponents, place?: string): Promise<Found> {
  const rows = await store.read({ from: 'cursors' });
  const cursors = new Map(rows.map(({ name, value }) => [name, value]));
  const [lastIn] = await store.read({ from: 'inbox', orderBy: 'number', descending: true, limit: 1 });
  const [lastOut] = await store.read({ from: 'outbox', orderBy: 'number', descending: true, limit: 1 });
  const time = cursors.get(CLOCK);
  if (time !== undefined) clock.resume(time);
  const last = Math.max(lastOut?.number ?? 0, cursors.get('outbox') ?? 0);
  const heard = [...cursors].filter(([name]) => name.startsWith(heardBy('')));
  return {
    book: await AddressBook.open(store),
    permits: await Permits.open(store),
    cursors,
    heard: new Map(heard.map(([name, value]) => [name.slice(heardBy('').length), value])),
    epoch: await StoreEpoch.open(runtime, store, { last, place }),
    outgoing: { last: lastOut?.number ?? 0, waiting: await amountIn(store, 'outbox') },
    incoming: { next: (lastIn?.number ?? 0) + 1, waiting: await amountIn(store, 'inbox') },
  };
}

async function amountIn(store: Store, name: 'inbox' | 'outbox'): Promise<Amount> {
  const { rows: messages, bytes } = await store.figures(name);
  return { messages, bytes };
}
