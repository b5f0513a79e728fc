import type { A2AObservability } from '../mesh/observability.js';
import type { Grant } from '../network/membership/certificate.js';
import { CLOCK_SKEW_MS } from '../network/membership/certificate.js';
import { ITEM } from '../network/peers/wire.js';
import { Backoff } from '../runtime/backoff.js';
import { EclipticError, type ErrorCode } from '../runtime/errors.js';
import type { Timer } from '../runtime/runtime.js';
import type { Write } from '../store/store.js';
import type { Arrivals } from './arrivals.js';
import { type MailItem, readMail, readReceiptUpdates } from './mail-wire.js';
import type { ReceiptInbound } from './receipt-inbound.js';
import type { MailContext } from './receipts.js';
import { AGAIN, type BatchBody, type MailRelay, type RelayedBatch, readBody } from './relay.js';
import type { RelayCursors } from './relay-cursors.js';

export interface RelayInboundComponents extends MailContext {
  observability: A2AObservability;
  relay: MailRelay;
  cursors: RelayCursors;
  arrivals: Arrivals;
  inbound: ReceiptInbound;
  /** The grant of a member, by the certificates that are known or shown; undefined if it is none. */
  grantOf: (node: string, chain: unknown) => Grant | undefined;
  /** Takes the cards of agents that are not known yet. */
  introduced: (node: string, cards: readonly unknown[], grant: Grant) => void;
  /** That node uses the custodian, so answers go the same way while it is absent. */
  onBatch: (node: string) => void;
  say: (node: string, text: string) => void;
  /** Receipt updates of that node between two numbers are on disk. */
  onTaken: (node: string, before: number, last: number) => void;
  /** That node has stored receipt updates between two numbers. */
  onAcknowledged: (node: string, before: number, last: number) => void;
  /** That node has missed mail. */
  onAgain: (node: string) => void;
}

/** Pairs of node and code that are reported and counted apart. */
const MAX_REPORTED = 1_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** Nodes whose last request to publish again is remembered. */
const MAX_ASKED = 1_000;

/** Why a batch is refused. */
class Refused extends EclipticError {}

/**
 * Takes the batches that a custodian kept for this node: one after the other, each in one transaction with the position
 * after it. A batch that is refused is passed over. One whose sender's share is full holds back only that sender's.
 */
export class RelayInbound {
  readonly #components: RelayInboundComponents;
  /** The position of the last batch that was taken from each node in this process. */
  readonly #done = new Map<string, number>();
  /** Nodes whose mail finds no room, and the position of the first such batch. */
  readonly #full = new Map<string, number>();
  readonly #refused = new Map<string, number>();
  readonly #asked = new Map<string, string>();
  readonly #pauses = new Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
  /** Where batches begin that have come in part. */
  readonly #begun = new Map<string, number>();
  /** The highest position of this process. */
  #last = 0;
  #pause: Timer | undefined;
  #failed = false;
  #stored = 0;

  constructor(components: RelayInboundComponents) {
    this.#components = components;
  }

  /** The position to read on after. */
  opened(): number {
    const { cursors } = this.#components;
    this.#pause?.cancel();
    this.#pause = undefined;
    this.#failed = false;
    this.#full.clear();
    this.#begun.clear();
    this.#stored = cursors.get('read');
    this.#last = Math.max(this.#last, cursors.get('seen'));
    return cursors.get('read');
  }

  /** The custodian's store is another one: its positions have nothing to do with those of before. */
  reset(): void {
    const { cursors } = this.#components;
    this.#done.clear();
    this.#last = 0;
    cursors.set('read', 0);
    cursors.set('seen', 0);
  }

  /** Batches that were refused, by the node under whose name they came, and the code. */
  get refused(): readonly (readonly [about: string, count: number])[] {
    return [...this.#refused];
  }

  /** After a restart, this node reads again from there. */
  begun({ node, position }: Omit<RelayedBatch, 'body'>): void {
    this.#begun.set(node, position);
  }

  async take(batch: RelayedBatch): Promise<void> {
    const { node, position } = batch;
    this.#begun.delete(node);
    if (this.#failed || position <= (this.#done.get(node) ?? 0)) return;
    if (this.#full.has(node)) {
      this.#last = Math.max(this.#last, position);
      return;
    }
    try {
      await this.#take(batch);
      this.#pauses.reset();
    } catch (error) {
      if (error instanceof EclipticError && (error instanceof Refused || isMalformed(error))) {
        this.refuse(batch, error.message, error.code);
      } else {
        this.#components.runtime.logger.error({ node, err: error }, 'mail: relayed mail cannot be stored');
        this.#failed = true;
        this.#readAgainLater();
      }
    }
  }

  refuse({ node, position }: Omit<RelayedBatch, 'body'>, reason: string, code: ErrorCode = 'INVALID_FRAME'): void {
    this.#begun.delete(node);
    this.#pass(position);
    const about = `${node} ${code}`;
    const count = this.#refused.get(about);
    if (count === undefined && this.#refused.size >= MAX_REPORTED) return;
    this.#refused.set(about, (count ?? 0) + 1);
    if (count !== undefined) return;
    const { runtime, observability } = this.#components;
    const text = `relayed mail under the name of node ${node} is refused: ${reason}`;
    runtime.logger.warn({ node, code, reason }, 'relayed mail refused');
    observability.emit({ type: 'security', node, code, reason: text, timestamp: runtime.now() });
  }

  /** The write that stores how far this node has read, if it is not on disk yet. */
  takeUnstored(): Write[] {
    const { cursors } = this.#components;
    if (cursors.get('read') === this.#stored) return [];
    this.#stored = cursors.get('read');
    return [cursors.write('read', this.#stored), cursors.write('seen', cursors.get('seen'))];
  }

  stop(): void {
    this.#pause?.cancel();
    this.#failed = true;
  }

  async #take({ node, position, body }: RelayedBatch): Promise<void> {
    const { cursors, runtime, grantOf, introduced, onBatch, store } = this.#components;
    const batch = readBody(body);
    const grant = grantOf(node, batch.chain);
    if (!grant) throw new Refused('MEMBERSHIP_REFUSED', 'the node is not a member of this mesh');
    if (batch.at > runtime.now() + CLOCK_SKEW_MS)
      throw new Refused('INVALID_FRAME', 'the batch is from the future; check the clocks of both nodes');
    if (batch.at <= cursors.of(node, 'from')) {
      // After a restart, batches are read again; any other repetition is not this node's doing.
      if (position > cursors.get('seen')) throw new Refused('INVALID_FRAME', 'the batch was taken before');
      this.#pass(position);
      return;
    }
    const mail = this.#read(batch);
    introduced(node, batch.cards, grant);
    onBatch(node);
    await this.#takeOthers(node, batch);
    const writes = this.#positionAfter(node, position, batch.at);
    const outcome = mail ? await this.#components.arrivals.takeRelayed(node, mail, writes) : 'taken';
    if (outcome === 'failed') throw new EclipticError('STORE_FAILED', 'relayed mail was not stored');
    if (outcome === 'full') {
      this.#full.set(node, position);
      this.#last = Math.max(this.#last, position);
      this.#readAgainLater();
      return;
    }
    if (outcome === 'gap') this.#askAgain(node, mail!);
    if (!mail || outcome === 'gap') await store.write(writes);
    cursors.setOf(node, 'from', batch.at);
    this.#done.set(node, position);
    this.#pass(position);
    this.#stored = cursors.get('read');
  }

  /** The mail of a batch, which is in one item; all items are checked before any is taken. */
  #read({ items }: BatchBody): MailItem | undefined {
    let mail: MailItem | undefined;
    for (const [kind, ...rest] of items) {
      if (kind === ITEM.mail && !mail) mail = readMail(rest);
      else if (kind === ITEM.receipts) readReceiptUpdates(rest);
      else if (kind === ITEM.receiptsStored) readInterval(rest);
      else if (kind !== AGAIN) throw new Refused('INVALID_FRAME', 'the batch has an item of no known kind');
    }
    return mail;
  }

  async #takeOthers(node: string, { items }: BatchBody): Promise<void> {
    const { inbound, onTaken, onAcknowledged, onAgain } = this.#components;
    for (const [kind, ...rest] of items) {
      if (kind === ITEM.receipts) {
        const updates = readReceiptUpdates(rest);
        await inbound.takeRelayed(node, updates);
        if (updates.last > 0) onTaken(node, updates.before, updates.last);
      } else if (kind === ITEM.receiptsStored) {
        const [before, last] = readInterval(rest);
        onAcknowledged(node, before, last);
      } else if (kind === AGAIN) onAgain(node);
    }
  }

  /** Mail before this batch never arrived: its sender still has it. */
  #askAgain(node: string, { store, before }: MailItem): void {
    const missing = `${store} ${before}`;
    if (this.#asked.get(node) === missing) return;
    if (this.#asked.size >= MAX_ASKED) this.#asked.clear();
    this.#asked.set(node, missing);
    this.#components.runtime.logger.warn({ node }, 'mail: a batch of relayed mail is missing; asked for it again');
    this.#components.say(node, `["${AGAIN}",${JSON.stringify(store)},${before}]`);
  }

  #positionAfter(node: string, position: number, at: number): Write[] {
    const { cursors } = this.#components;
    return [
      cursors.writeOf(node, 'from', at),
      cursors.write('read', this.#lowest(Math.max(this.#last, position))),
      cursors.write('seen', Math.max(cursors.get('seen'), position)),
    ];
  }

  /** This batch is done with. */
  #pass(position: number): void {
    const { cursors } = this.#components;
    this.#last = Math.max(this.#last, position);
    cursors.set('read', this.#lowest(this.#last));
    cursors.set('seen', Math.max(cursors.get('seen'), position));
  }

  /** Everything up to this position is done with, if everything up to `last` was read. */
  #lowest(last: number): number {
    return Math.min(last, ...[...this.#full.values(), ...this.#begun.values()].map((position) => position - 1));
  }

  #readAgainLater(): void {
    const { runtime, relay } = this.#components;
    this.#pause ??= runtime.setTimer(() => relay.read(this.opened()), this.#pauses.next());
  }
}

function readInterval([before, last, ...rest]: readonly unknown[]): [before: number, last: number] {
  const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
  if (rest.length > 0 || !isCount(before) || !isCount(last))
    throw new Refused('INVALID_FRAME', 'an acknowledgement in the batch is malformed');
  return [before as number, last as number];
}

function isMalformed({ code }: EclipticError): boolean {
  return code === 'INVALID_FRAME' || code === 'INVALID_ENVELOPE' || code === 'PAYLOAD_TOO_LARGE';
}
