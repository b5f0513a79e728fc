import type { EnvelopeFactory, ValidEnvelope } from '../mesh/envelope.js';
import { type A2AObservability, callbackReport } from '../mesh/observability.js';
import type { Party } from '../mesh/policy.js';
import type { Postbox } from '../mesh/ports.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { A2ARouter } from '../mesh/router.js';
import type { Finding, Network } from '../network/peers/network.js';
import type { PeerProtocol } from '../network/peers/protocol.js';
import { ITEM, type Item } from '../network/peers/wire.js';
import { guarded } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import { cursors as cursorTable } from '../store/common-tables.js';
import type { Store, Write } from '../store/store.js';
import { Arrivals, type ArrivalsComponents, isCursorOf } from './arrivals.js';
import { prepareEffects } from './effects.js';
import { InboxCursor, InboxDelivery, type MailHandler } from './inbox-delivery.js';
import { type InboxMessage, IncomingMail } from './incoming-mail.js';
import { CLOCK_CURSOR, loadState, type MailState } from './mail-state.js';
import { readAcknowledgement, readMail, readProgress, readReceiptUpdates } from './mail-wire.js';
import { MAIL_KINDS } from './no-mail.js';
import { OutgoingMail, type OutgoingMailComponents } from './outgoing-mail.js';
import { PeerProgress } from './peer-progress.js';
import { type Prepared, PreparedWriter, SequenceAllocator } from './prepared.js';
import { isFinal, presentState, type Receipt, story } from './receipt.js';
import { ReceiptInbound } from './receipt-inbound.js';
import { ackCursor, ReceiptOutbound } from './receipt-outbound.js';
import {
  type MailContext,
  PeerLocks,
  type PendingMail,
  ReadDeadlines,
  type ReceiptLimits,
  Receipts,
  type UnreadHandler,
} from './receipts.js';
import { RelayCursors } from './relay-cursors.js';
import { RelayedMail, type RelayInit } from './relayed-mail.js';
import { Restorations } from './store-epoch.js';
import { addresses, agentState, type InboxRow, type OutboxRow } from './tables.js';

export interface MailComponents {
  runtime: Runtime;
  /** Decides when mail expires. */
  clock: SteadyClock;
  store: Store;
  registry: AgentRegistry;
  observability: A2AObservability;
  factory: EnvelopeFactory;
}

export interface MailInit {
  receipts?: ReceiptLimits;
}

/** The time to live of a durable message that names none. */
const DEFAULT_TTL_MS = 7 * 86_400_000;
const DEFAULT_RECEIPTS: ReceiptLimits = { maxAgeMs: 30 * 86_400_000, maxRows: 1_000_000 };
const SWEEP_MS = 1_000;
/** Rows of the inbox or outbox in one answer. */
const PAGE = 100;
/** The time is stored, and old receipts are deleted, once in this many sweeps. */
const SLOW_SWEEPS = 60;

/**
 * Durable messages: stored on this node before `send` resolves, sent until the other node has stored them, kept there
 * until the recipient is done with them, with a receipt that both sides can read.
 */
export class Mail implements Postbox, PeerProtocol {
  readonly kinds = MAIL_KINDS;
  readonly #components: MailComponents;
  readonly #limits: ReceiptLimits;
  readonly #state: MailState;
  readonly #context: MailContext;
  readonly #outgoing: OutgoingMail;
  readonly #incoming: IncomingMail;
  readonly #arrivals: Arrivals;
  readonly #outbound: ReceiptOutbound;
  readonly #inbound: ReceiptInbound;
  readonly #delivery: InboxDelivery;
  readonly #cursors = new Map<string, InboxCursor>();
  readonly #deadlines: ReadDeadlines;
  readonly #restorations: Restorations;
  readonly #progress: PeerProgress;
  readonly #stopFollowing: () => void;
  #network: Network | undefined;
  #relayed: RelayedMail | undefined;
  #router: A2ARouter | undefined;
  #sweeper: Timer | undefined;
  #sweeps = 0;
  #stopped = false;

  private constructor(components: MailComponents, init: MailInit, state: MailState) {
    const { runtime, clock, store, registry, observability } = components;
    const { book, permits, cursors, epoch } = state;
    this.#components = components;
    this.#limits = { ...DEFAULT_RECEIPTS, ...init.receipts };
    this.#state = state;
    const writer = new PreparedWriter(runtime, store);
    const sequence = (name: string, used = 0) =>
      new SequenceAllocator(name, Math.max(used, cursors.get(name) ?? 0), writer);
    const say = (node: string, text: string) => this.#say(node, text);
    const wake = (node: string) => this.#network?.peers.open(node);
    const outbound = new ReceiptOutbound({ runtime, store, say, wake, acknowledged: state.acknowledged });
    const base = { runtime, clock, store, relays: state.relays };
    const receipts = new Receipts({ ...base, observability, outbound, numbers: sequence('news') });
    const context = { ...base, writer, locks: new PeerLocks(runtime), receipts };
    const introduce: OutgoingMailComponents['introduce'] = (node, senders) => {
      const withdrawals = book.absent(senders, registry).map((card) => this.#network?.cards.introduce(node, card));
      return () => void withdrawals.map((withdraw) => withdraw?.());
    };
    const numbers = sequence('outbox', state.outgoing.last);
    const onOutgoing: OutgoingMailComponents['onStored'] = (row) => this.#relayed?.stored(row);
    const sending = { ...context, numbers, epoch, say, wake, introduce, onStored: onOutgoing };
    const outgoing = new OutgoingMail(sending, state.outgoing.waiting);
    const incoming = new IncomingMail(
      {
        ...context,
        outbound,
        effects: (agent, effects) =>
          prepareEffects(agent, effects, components.factory, (made) => this.#prepareSend(made)),
        answer: (answer) => this.#prepareSend(answer),
        onArrival: (message) => {
          this.#delivery.arrived(message);
          this.#cursors.get(message.envelope.recipient)?.onArrival(message);
        },
      },
      state.incoming,
    );
    this.#restorations = new Restorations(runtime, observability, epoch);
    const admit: ArrivalsComponents['admit'] = (wire, node) => this.#router!.durable.admitReceived(wire, node);
    const onReused: ArrivalsComponents['onReused'] = (...reuse) => this.#progress.reused(...reuse);
    const onNewEpoch: ArrivalsComponents['onNewEpoch'] = (node) => this.#restorations.reportPeer(node);
    const onStored: ArrivalsComponents['onStored'] = (admission) => this.#router!.durable.stored(admission);
    const policy = { permits, permitMs: DEFAULT_TTL_MS, admit, onStored };
    this.#arrivals = new Arrivals({ ...context, ...policy, incoming, cursors, onReused, onNewEpoch });
    this.#progress = new PeerProgress({
      ...{ runtime, outgoing, restorations: this.#restorations, network: () => this.#network },
      say: (node, item) => this.#trySay(node, item),
      onRenewed: () => this.#relayed?.renewed(),
    });
    const acknowledge = (node: string, last: number) => this.#trySay(node, [ITEM.receiptsStored, last]);
    this.#inbound = new ReceiptInbound({ ...context, outgoing, incoming, acknowledge });
    this.#delivery = new InboxDelivery(runtime, clock, incoming);
    this.#deadlines = new ReadDeadlines({ runtime, store, receipts, observability });
    this.#context = context;
    this.#outbound = outbound;
    this.#outgoing = outgoing;
    this.#incoming = incoming;
    const onFailure = (error: unknown) => runtime.logger.error({ err: error }, 'mail: an address was not stored');
    this.#stopFollowing = book.follow(registry, () => runtime.now(), onFailure);
  }

  /** Continues from the stored state; `place` distinguishes the data folder from copies of it. */
  static async open(components: MailComponents, init: MailInit = {}, place?: string): Promise<Mail> {
    return new Mail(components, init, await loadState(components, place));
  }

  /** With `relay`, mail for absent nodes also goes to a custodian. */
  start(router: A2ARouter, network?: Network, relay?: RelayInit): void {
    this.#router = router;
    this.#network = network;
    if (network && relay) this.#relayed = this.#openRelay(network.peers, relay);
    network?.peers.onRemoved((node) => this.removed(node));
    void this.#countEarlier();
    // An earlier process may have stopped while it deleted the mail of a removed node.
    for (const node of network?.removed ?? []) if (this.#state.book.knows(node)) this.removed(node);
    this.#sweepLater();
  }

  /** Counts stored mail by sender; until then, mail beyond the common limits is refused. */
  async #countEarlier(): Promise<void> {
    try {
      await this.#incoming.countEarlier();
      await this.#outgoing.countEarlier();
    } catch (error) {
      this.#components.runtime.logger.error({ err: error }, 'mail: stored messages could not be counted by sender');
    }
  }

  drain(): Promise<void> {
    return this.#delivery.drain();
  }

  /** Resolves when all requested changes are on disk. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#sweeper?.cancel();
    this.#stopFollowing();
    this.#delivery.stop();
    this.#incoming.stop();
    await this.#context.writer.flush();
    await this.#relayed?.stop();
    const writes = [...this.#outbound.takeUnstored(), this.#clockWrite()];
    await this.#components.store.write(writes).catch((error) => this.#logFailure(error));
  }

  // Postbox

  find(address: string): Party | undefined {
    return this.#state.book.find(address);
  }

  named(id: string): readonly Party[] {
    return this.#state.book.named(id);
  }

  mayReply(thread: string, responder: string, opener: string): boolean {
    return this.#state.permits.allows(thread, opener, responder);
  }

  /** Every agent that mail can be addressed to, present or not. */
  known(): Party[] {
    return this.#state.book.all;
  }

  /** The only known address with this prefix: people may shorten a node's key. */
  complete(prefix: string): string | undefined {
    return this.#state.book.complete(prefix);
  }

  keep(envelope: ValidEnvelope, target: Party): Promise<void> {
    try {
      if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'the node has stopped');
      return this.#context.writer.write(this.#prepare(envelope, target));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  // For agents

  attach(agent: string, handler: MailHandler): () => void {
    return this.#delivery.attach(agent, handler);
  }

  /** The agent has a further handler. */
  offerAgain(agent: string): void {
    this.#delivery.offerAgain(agent);
  }

  /** Does this message wait because no handler of that agent of this node takes it? */
  isUnhandled(agent: string, id: string): boolean {
    return this.#delivery.isUnhandled(agent, id);
  }

  /** The inbox of an agent that fetches its mail. Each agent has at most one open. */
  openInbox(agent: string, onArrival: (message: InboxMessage) => void): InboxCursor {
    const onClose = () => this.#cursors.delete(agent);
    const { runtime, observability } = this.#components;
    const arrived = guarded(onArrival, `inbox of ${agent}`, callbackReport(runtime, observability));
    const cursor = new InboxCursor(runtime, this.#incoming, { agent, onArrival: arrived, onClose });
    this.#cursors.set(agent, cursor);
    return cursor;
  }

  /** Calls `handler` once for each message of the agent that missed its read deadline. Returns the function that stops this. */
  onUnread(agent: string, handler: UnreadHandler): () => void {
    void this.#deadlines.attach(agent, handler);
    return () => this.#deadlines.detach(agent);
  }

  async kept(agent: string, key: string): Promise<unknown> {
    const [row] = await this.#components.store.read(agentState, { where: { agent, key } });
    return row && JSON.parse(row.value);
  }

  // For the owner

  async receipt(id: string): Promise<{ state: string; over: boolean; story: Receipt }> {
    const receipt = await this.#context.receipts.read(id);
    const state = presentState(receipt)!;
    return { state, over: isFinal(state), story: story(receipt) };
  }

  receiptIdsBeginning(prefix: string, limit: number): Promise<string[]> {
    return this.#context.receipts.idsBeginning(prefix, limit);
  }

  /** The envelope of a durable message in the inbox or the outbox. */
  waiting(id: string): Promise<string | undefined> {
    return this.#context.receipts.waiting(id);
  }

  /** Where a durable message waits, and until when; undefined once it has ended. */
  pending(id: string): Promise<PendingMail | undefined> {
    return this.#context.receipts.pending(id);
  }

  /** The state of a message in the outbox. */
  stateOf(row: OutboxRow): string {
    return presentState(this.#state.relays.receiptOf(row))!;
  }

  outbox(above = 0, limit = PAGE): Promise<OutboxRow[]> {
    return this.#outgoing.rows(above, limit);
  }

  inbox(agent: string, above = 0, limit = PAGE): Promise<InboxRow[]> {
    return this.#incoming.rows(agent, above, limit);
  }

  // From other nodes

  began(node: string): void {
    this.#inbound.begin(node);
    this.#outbound.begin(node);
    this.#incoming.begin(node);
    this.#outgoing.begin(node);
    this.#progress.report(node, this.#arrivals.progress(node));
  }

  connected(node: string): void {
    this.#relayed?.present(node);
  }

  interrupted(node: string): void {
    this.#relayed?.absent(node);
  }

  ended(node: string): void {
    this.#outgoing.end(node);
    this.#outbound.end(node);
    this.#arrivals.ended(node);
    this.#relayed?.ended(node);
  }

  /** The node is there, and not talked to: mail or receipts that wait for it are a reason to begin. */
  listed(node: string): void {
    const open = (has: boolean[]) => has.includes(true) && this.#network?.peers.open(node);
    const waits = [this.#outgoing.hasRows(node), this.#outbound.hasNews(node)];
    Promise.all(waits).then(open, (error: unknown) => this.#logFailure(error));
  }

  busy(node: string): boolean {
    return this.#outgoing.isWaiting(node) || this.#outbound.isWaiting(node);
  }

  /** That node is no longer a member: mail to and from it ends, and only receipts remain. */
  removed(node: string): void {
    void this.#context.locks.run(node, async () => {
      await this.#outgoing.forget(node);
      await this.#incoming.forget(node);
      this.#state.book.forget(node);
      this.#outbound.forget(node);
      this.#arrivals.forget(node);
      await this.#context.receipts.forget(node);
      const { store } = this.#components;
      const names = (await store.read(cursorTable)).map(({ name }) => name);
      const own = names.filter((name) => name === ackCursor(node) || isCursorOf(node, name));
      await store.write([
        ...this.#state.permits.forget(node),
        ...(this.#relayed?.forget(node) ?? []),
        addresses.delete({ node }),
        cursorTable.delete({ name: own }),
      ]);
    });
  }

  /** Takes an item about durable mail. Throws `INVALID_FRAME` if it is malformed. */
  take(node: string, [kind, ...rest]: Item): void {
    if (kind === ITEM.mail) this.#arrivals.take(node, readMail(rest));
    else if (kind === ITEM.receipts) this.#inbound.take(node, readReceiptUpdates(rest));
    else if (kind === ITEM.receiptsStored) this.#outbound.acknowledge(node, readAcknowledgement(rest));
    else this.#progress.take(node, readProgress(rest));
  }

  diagnose(): Finding[] {
    return [...this.#restorations.diagnose(), ...(this.#relayed?.diagnose() ?? [])];
  }

  #openRelay(peers: Network['peers'], relay: RelayInit): RelayedMail {
    const parts = { arrivals: this.#arrivals, inbound: this.#inbound, outbound: this.#outbound };
    const own = { ...this.#components, ...this.#context, ...this.#state, ...parts, outgoing: this.#outgoing };
    return new RelayedMail({ ...own, ...relay, peers, cursors: new RelayCursors(this.#state.cursors) });
  }

  #prepare(envelope: ValidEnvelope, target: Party): Prepared {
    const now = this.#components.runtime.now();
    const { id, sender, correlationId, metadata } = envelope;
    const expiresAt = now + (metadata?.ttlMs ?? DEFAULT_TTL_MS);
    const { node } = target;
    const { writes, written, failed } =
      node === undefined
        ? this.#incoming.prepareLocal(envelope, now, expiresAt)
        : this.#outgoing.prepare(envelope, node, expiresAt);
    const extra = this.#state.permits.grant(correlationId, sender, target.address, expiresAt);
    if (metadata?.readWithinMs !== undefined) extra.push(this.#deadlines.set(id, sender, metadata.readWithinMs));
    return { writes: extra.length === 0 ? writes : [...writes, ...extra], written, failed };
  }

  #prepareSend(made: ValidEnvelope): Prepared {
    const { durable } = this.#router!;
    const admission = durable.admitSent(made);
    const prepared = this.#prepare(admission.envelope, admission.target);
    return {
      ...prepared,
      written: () => {
        durable.stored(admission);
        prepared.written();
      },
    };
  }

  #sweepLater(): void {
    this.#sweeper = this.#components.runtime.setTimer(() => {
      this.#sweep()
        .catch((error: unknown) => this.#logFailure(error))
        .finally(() => (this.#stopped ? undefined : this.#sweepLater()));
    }, SWEEP_MS);
  }

  async #sweep(): Promise<void> {
    this.#outgoing.sweep();
    this.#outbound.sweep();
    this.#delivery.sweep();
    const { store, clock } = this.#components;
    const slow = this.#sweeps++ % SLOW_SWEEPS === 0;
    const writes = [...this.#state.permits.expire(clock.now()), ...this.#outbound.takeUnstored()];
    if (slow) writes.push(this.#clockWrite(), ...((await this.#relayed?.sweep()) ?? []));
    if (writes.length > 0) await store.write(writes);
    await Promise.all([this.#outgoing.expire(), this.#incoming.expire(), this.#deadlines.sweep()]);
    if (slow) await this.#context.receipts.retain(this.#limits);
  }

  #clockWrite(): Write {
    return cursorTable.put({ name: CLOCK_CURSOR, value: Math.floor(this.#components.clock.now()) });
  }

  #say(node: string, text: string): void {
    if (!this.#network) throw new EclipticError('AGENT_UNAVAILABLE', 'there is no way to other nodes');
    this.#network.peers.sendUnconfirmed(node, text);
  }

  /** An item that cannot be sent now is sent again when the node is back. */
  #trySay(node: string, item: readonly unknown[]): void {
    try {
      this.#say(node, JSON.stringify(item));
    } catch (error) {
      this.#components.runtime.logger.debug({ node, err: error }, 'mail: an acknowledgement was not sent');
    }
  }

  #logFailure(error: unknown): void {
    this.#components.runtime.logger.error({ err: error }, 'mail: upkeep failed');
  }
}
