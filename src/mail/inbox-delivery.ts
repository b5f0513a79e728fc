import { ValidEnvelope } from '../mesh/envelope.js';
import { wait } from '../runtime/async.js';
import { backoffMs } from '../runtime/backoff.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import { CatchUp, type CatchUpInit } from './catch-up.js';
import type { Effects, InboxMessage, IncomingMail, MessageEnd } from './incoming-mail.js';

/** An agent's handler of durable messages. If it throws, the message is delivered again later. */
export type MailHandler = (envelope: ValidEnvelope, delivery: Delivery) => void | Promise<void>;

/** Attempts after which a message whose handler always fails is given up. */
const MAX_ATTEMPTS = 5;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 16_000;
/** Messages of one agent in memory, and about how many bytes; the others wait on disk. */
const MAX_QUEUED = 10_000;
const MAX_QUEUED_BYTES = 32 * 1_048_576;
/** A handler that takes longer than this makes its message `surfaced`. */
const SURFACED_MS = 5;
/** Messages delivered before the event loop gets its turn. */
const RUN_BUDGET = 100;

export interface DeliveryInit {
  readonly redelivered: boolean;
  readonly lastAttempt: boolean;
  readonly commit: (effects: Effects) => Promise<void>;
}

export class Delivery {
  /** May the agent have seen this message before? It always has the same id. */
  readonly redelivered: boolean;
  /** Will the message be given up if its handler fails now? */
  readonly lastAttempt: boolean;
  readonly #commit: DeliveryInit['commit'];
  /** The commit that is under way or has succeeded. */
  #made: Promise<void> | undefined;
  /** The error of the latest commit that failed. */
  failure: unknown;
  /** The envelope that goes back to the sender when the message ends. */
  answer: ValidEnvelope | undefined;
  #replied = false;
  #left = false;

  constructor({ redelivered, lastAttempt, commit }: DeliveryInit) {
    this.redelivered = redelivered;
    this.lastAttempt = lastAttempt;
    this.#commit = commit;
  }

  get replied(): boolean {
    return this.#replied || this.answer?.type === 'response';
  }

  /** Is a commit under way, or has one succeeded? */
  get committed(): boolean {
    return this.#made !== undefined;
  }

  /** Resolves when no commit is under way; true if the one that was under way failed. */
  async settled(): Promise<boolean> {
    if (!this.#made) return false;
    return this.#made.then(
      () => false,
      () => true,
    );
  }

  /** Sends this answer with the end of the message; false if the message has ended, and the answer must go alone. */
  answerWith(answer: ValidEnvelope): boolean {
    if (this.#made) return false;
    this.answer = answer;
    return true;
  }

  /** An answer was sent outside of this delivery. */
  markReplied(): void {
    this.#replied = true;
  }

  /** No handler of the agent takes this message: it waits in the inbox until one does. */
  leave(): void {
    this.#left = true;
  }

  get left(): boolean {
    return this.#left;
  }

  /** Ends the message and makes its effects in one transaction: once this resolves, it is never delivered again. */
  commit(effects: Effects = {}): Promise<void> {
    if (this.#made) {
      return Promise.reject(new EclipticError('INVALID_TRANSITION', 'this message was committed before'));
    }
    const made = this.#commit(effects).catch((error: unknown) => {
      this.#made = undefined;
      this.failure = error;
      throw error;
    });
    this.#made = made;
    // A handler that does not wait for the commit sees the message again.
    made.catch(() => {});
    return made;
  }
}

/** The attached handler of one agent, with its queued messages in one lane per sender. */
class Reader {
  readonly handler: MailHandler;
  readonly lanes = new Map<string, Fifo<InboxMessage>>();
  readonly inbox: CatchUp<InboxMessage>;
  queued = 0;
  bytes = 0;
  /** Messages that have expired only if the clock is right. */
  readonly doubtful: InboxMessage[] = [];
  /** Messages that no handler of the agent takes yet. */
  readonly unhandled: InboxMessage[] = [];
  open = true;

  constructor(handler: MailHandler, init: Pick<CatchUpInit<InboxMessage>, 'read' | 'take' | 'onFailure'>) {
    this.handler = handler;
    this.inbox = new CatchUp({
      ...init,
      hasRoom: () => this.queued < MAX_QUEUED / 2 && this.bytes < MAX_QUEUED_BYTES / 2,
      isFull: () => this.queued >= MAX_QUEUED || this.bytes >= MAX_QUEUED_BYTES,
    });
  }

  close(): void {
    this.open = false;
    this.inbox.close();
  }
}

/** Delivers durable mail to the agents of this node: in order from each sender, one message at a time. */
export class InboxDelivery {
  readonly #runtime: Runtime;
  readonly #clock: SteadyClock;
  readonly #incoming: IncomingMail;
  readonly #readers = new Map<string, Reader>();
  readonly #pauses = new AbortController();
  #running = 0;
  #stopping = false;
  #onIdle: (() => void)[] = [];
  #budget = RUN_BUDGET;

  constructor(runtime: Runtime, clock: SteadyClock, incoming: IncomingMail) {
    this.#runtime = runtime;
    this.#clock = clock;
    this.#incoming = incoming;
  }

  /** Delivers the agent's mail to `handler`, oldest first. Returns the function that stops this. */
  attach(agent: string, handler: MailHandler): () => void {
    const reader: Reader = new Reader(handler, {
      read: (above) => this.#incoming.load(agent, above),
      take: (message) => this.#queue(reader, message),
      onFailure: (error) => this.#runtime.logger.error({ agent, err: error }, 'mail: the inbox cannot be read'),
    });
    this.#readers.set(agent, reader);
    reader.inbox.resume();
    return () => {
      reader.close();
      if (this.#readers.get(agent) === reader) this.#readers.delete(agent);
    };
  }

  /** The agent has a further handler: offers it the messages that the others left. */
  offerAgain(agent: string): void {
    const reader = this.#readers.get(agent);
    for (const message of reader?.unhandled.splice(0) ?? []) this.#queue(reader!, message);
  }

  /** Does this message wait because no handler of the agent takes it? */
  isUnhandled(agent: string, id: string): boolean {
    return this.#readers.get(agent)?.unhandled.some(({ envelope }) => envelope.id === id) ?? false;
  }

  arrived(message: InboxMessage): void {
    const inbox = this.#readers.get(message.envelope.recipient)?.inbox;
    if (inbox && !inbox.offer(message)) inbox.resume();
  }

  /** Retries failed reads, and delivers messages that had expired only by a clock that was wrong. */
  sweep(): void {
    const settled = !this.#clock.inDoubt;
    for (const reader of this.#readers.values()) {
      reader.inbox.resume();
      if (settled) for (const message of reader.doubtful.splice(0)) this.#queue(reader, message);
    }
  }

  /** Delivers nothing more; resolves when no handler is running. */
  drain(): Promise<void> {
    this.stop();
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => void this.#onIdle.push(resolve));
  }

  stop(): void {
    this.#stopping = true;
    this.#pauses.abort();
  }

  #queue(reader: Reader, message: InboxMessage): void {
    if (message.ending) return;
    reader.queued++;
    reader.bytes += ValidEnvelope.weightOf(message.envelope);
    const { sender } = message.envelope;
    const lane = reader.lanes.get(sender);
    if (lane) {
      lane.push(message);
      return;
    }
    const fresh = new Fifo<InboxMessage>();
    fresh.push(message);
    reader.lanes.set(sender, fresh);
    void this.#run(reader, sender, fresh);
  }

  async #run(reader: Reader, sender: string, lane: Fifo<InboxMessage>): Promise<void> {
    this.#running++;
    for (let message = lane.peek(); message && reader.open && !this.#stopping; message = lane.peek()) {
      if (--this.#budget <= 0) await this.#yield();
      const pending = this.#handle(reader, message);
      if (pending) await pending;
      lane.shift();
      reader.queued--;
      reader.bytes -= ValidEnvelope.weightOf(message.envelope);
      if (reader.inbox.behind) reader.inbox.resume();
    }
    reader.lanes.delete(sender);
    this.#running--;
    if (this.#running === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  #yield(): Promise<void> {
    return new Promise((resolve) => {
      this.#runtime.defer(() => {
        this.#budget = RUN_BUDGET;
        resolve();
      });
    });
  }

  /** Delivers a message. Returns a promise only if the run must wait for it. */
  #handle(reader: Reader, message: InboxMessage): Promise<void> | undefined {
    if (message.ending || this.#incoming.isForgotten(message)) return undefined;
    if (message.hasExpired(this.#runtime.now())) {
      // Neither delivered nor ended until the clock is known to be right.
      if (!message.hasExpired(this.#clock.now())) reader.doubtful.push(message);
      return undefined;
    }
    const delivery = this.#deliver(message, false);
    try {
      const result = reader.handler(message.envelope, delivery);
      if (result instanceof Promise) return this.#follow(reader, message, delivery, result);
    } catch (error) {
      return this.#follow(reader, message, delivery, Promise.reject(error));
    }
    if (delivery.left) {
      message.seen = delivery.redelivered;
      this.#incoming.release(message);
      reader.unhandled.push(message);
      return undefined;
    }
    if (delivery.committed) return this.#follow(reader, message, delivery, Promise.resolve());
    this.#finish(message, delivery);
    return undefined;
  }

  /** Waits for a handler, and calls it again while it fails. */
  async #follow(reader: Reader, message: InboxMessage, first: Delivery, result: Promise<void>): Promise<void> {
    if (await this.#attempt(message, first, result)) return;
    let failures = isStoreFault(first.failure) ? 0 : 1;
    for (let pauses = 0; ; pauses++) {
      await wait(this.#runtime, backoffMs(pauses, FIRST_RETRY_MS, LONGEST_RETRY_MS), this.#pauses.signal);
      if (!reader.open || this.#stopping || message.ending || message.hasExpired(this.#runtime.now())) break;
      const delivery = this.#deliver(message, failures + 1 >= MAX_ATTEMPTS);
      const again = new Promise<void>((resolve) => resolve(reader.handler(message.envelope, delivery)));
      if (await this.#attempt(message, delivery, again)) return;
      // A failing disk does not count against the handler.
      if (!isStoreFault(delivery.failure)) failures++;
    }
    this.#incoming.release(message);
  }

  #deliver(message: InboxMessage, lastAttempt: boolean): Delivery {
    const redelivered = this.#incoming.begun(message);
    const commit: Delivery['commit'] = (effects = {}) => this.#incoming.end(message, { state: 'done', effects });
    return new Delivery({ redelivered, lastAttempt, commit });
  }

  /** Resolves with true when the message has ended, and with false when it must be delivered again. */
  async #attempt(message: InboxMessage, delivery: Delivery, result: Promise<void>): Promise<boolean> {
    const since = this.#runtime.now();
    const surfaced = this.#runtime.setTimer(() => this.#incoming.note(message, 'surfaced', since), SURFACED_MS);
    try {
      await result;
      // A failed commit decides, also if the handler did not wait for it.
      if (await delivery.settled()) throw delivery.failure;
      if (!message.ending) this.#finish(message, delivery);
      return true;
    } catch (error) {
      await delivery.settled();
      if (message.ending) return true;
      const { id, recipient } = message.envelope;
      this.#runtime.logger.warn({ message: id, agent: recipient, err: error }, 'mail: handler failed');
      if (!delivery.lastAttempt || isStoreFault(delivery.failure)) return false;
      const reason = `its handler failed ${MAX_ATTEMPTS} times: ${describeError(error)}`;
      this.#incoming.endWithRetry(message, { state: 'undeliverable', reason, answer: delivery.answer });
      return true;
    } finally {
      surfaced.cancel();
    }
  }

  /** The next message may be handled meanwhile: if this end does not reach the disk, the message is redelivered. */
  #finish(message: InboxMessage, { replied, answer }: Delivery): void {
    this.#incoming.endWithRetry(message, { state: replied ? 'replied' : 'done', answer });
  }
}

/** How an agent ends a message that it has fetched. */
export type FetchedEnd = Pick<MessageEnd, 'reason' | 'answer'> & { readonly state: 'done' | 'declined' | 'replied' };

interface InboxCursorInit {
  readonly agent: string;
  readonly onArrival: (message: InboxMessage) => void;
  readonly onClose: () => void;
}

/**
 * The inbox of an agent that fetches its mail. Fetching proves nothing: a message counts as read when its agent shows
 * that it has seen it. A message that was shown to an agent that then left is there again for the next one.
 */
export class InboxCursor {
  readonly #runtime: Runtime;
  readonly #incoming: IncomingMail;
  readonly #agent: string;
  readonly #onClose: () => void;
  readonly onArrival: (message: InboxMessage) => void;
  /** Shown messages that have not ended, by number. */
  readonly #shown = new Map<number, InboxMessage>();

  constructor(runtime: Runtime, incoming: IncomingMail, { agent, onArrival, onClose }: InboxCursorInit) {
    this.#runtime = runtime;
    this.#incoming = incoming;
    this.#agent = agent;
    this.onArrival = onArrival;
    this.#onClose = onClose;
  }

  page(above: number): Promise<InboxMessage[]> {
    return this.#incoming.load(this.#agent, above);
  }

  /** Withholds a message from the agent until a person decides; its sender is told why. */
  hold(message: InboxMessage, reason: string): void {
    this.#incoming.note(message, 'held', this.#runtime.now(), reason);
  }

  /** Shows a message to the agent. Returns whether an agent may have seen it before. */
  show(message: InboxMessage): boolean {
    const redelivered = this.#incoming.begun(message);
    this.#shown.set(message.number, message);
    this.#incoming.note(message, 'surfaced', this.#runtime.now());
    return redelivered;
  }

  read(message: InboxMessage): void {
    this.#incoming.note(message, 'read', this.#runtime.now());
  }

  async end(message: InboxMessage, end: FetchedEnd): Promise<void> {
    await this.#incoming.end(message, end);
    this.#shown.delete(message.number);
  }

  /** The agent has left: the messages that it was shown are available again. */
  putBack(): void {
    for (const message of this.#shown.values()) this.#incoming.release(message);
    this.#shown.clear();
  }

  close(): void {
    this.putBack();
    this.#onClose();
  }
}

function isStoreFault(error: unknown): boolean {
  return error instanceof EclipticError && error.code === 'STORE_FAILED';
}
