import { ValidEnvelope } from '../mesh/envelope.js';
import { backoffMs } from '../runtime/backoff.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { SteadyClock } from '../runtime/steady-clock.js';
import { Delivery } from './delivery.js';
import type { HeldMail, IncomingMail } from './incoming-mail.js';

/** What an agent does with a durable message. What it throws makes the message come again, later. */
export type MailHandler = (envelope: ValidEnvelope, delivery: Delivery) => void | Promise<void>;

/** Attempts after which a message whose handler always fails is given up. */
const MAX_ATTEMPTS = 5;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 16_000;
/** Messages of one agent in memory, and about how many bytes of them; the others wait on disk. */
const MAX_QUEUED = 10_000;
const MAX_QUEUED_BYTES = 32 * 1_048_576;
/** A handler that takes longer than this is seen to be at work. */
const SURFACED_MS = 5;
/** Messages handed over before the rest of the event loop has its turn. */
const RUN_BUDGET = 100;

/** One agent that takes mail, and what it has yet to take, by sender. */
class Reader {
  readonly agent: string;
  readonly handler: MailHandler;
  readonly lanes = new Map<string, Fifo<HeldMail>>();
  queued = 0;
  bytes = 0;
  /** Messages that have expired if the clock is right. */
  readonly doubtful: HeldMail[] = [];
  /** Everything up to this number was taken from the inbox. */
  taken = 0;
  loading = false;
  /** Is there something on disk beyond `taken`, and has something arrived while that was read? */
  behind = true;
  more = false;
  open = true;

  constructor(agent: string, handler: MailHandler) {
    this.agent = agent;
    this.handler = handler;
  }

  get isFull(): boolean {
    return this.queued >= MAX_QUEUED || this.bytes >= MAX_QUEUED_BYTES;
  }

  get hasRoom(): boolean {
    return this.queued < MAX_QUEUED / 2 && this.bytes < MAX_QUEUED_BYTES / 2;
  }
}

/** Hands durable mail over to the agents of this node: in order from each sender, one at a time. */
export class Readers {
  readonly #runtime: Runtime;
  readonly #clock: SteadyClock;
  readonly #incoming: IncomingMail;
  readonly #readers = new Map<string, Reader>();
  readonly #pauses = new Map<Timer, () => void>();
  #running = 0;
  #stopping = false;
  #onIdle: (() => void)[] = [];
  #budget = RUN_BUDGET;

  constructor(runtime: Runtime, clock: SteadyClock, incoming: IncomingMail) {
    this.#runtime = runtime;
    this.#clock = clock;
    this.#incoming = incoming;
  }

  /** From now on this agent takes its mail, oldest first, in order from each sender. Returns the way to stop. */
  attach(agent: string, handler: MailHandler): () => void {
    const reader = new Reader(agent, handler);
    this.#readers.set(agent, reader);
    void this.#load(reader);
    return () => {
      reader.open = false;
      if (this.#readers.get(agent) === reader) this.#readers.delete(agent);
    };
  }

  /** A message is on disk. */
  arrived(held: HeldMail): void {
    const reader = this.#readers.get(held.envelope.recipient);
    if (!reader) return;
    if (!reader.behind && !reader.isFull) {
      this.#enqueue(reader, held);
      return;
    }
    reader.behind = true;
    reader.more = true;
    void this.#load(reader);
  }

  /** Tries again to read what could not be read, and to hand over what had expired by a clock that was wrong. */
  sweep(): void {
    const settled = !this.#clock.inDoubt;
    for (const reader of this.#readers.values()) {
      if (reader.behind) void this.#load(reader);
      if (settled) for (const held of reader.doubtful.splice(0)) this.#line(reader, held);
    }
  }

  /** Hands nothing more over; resolves when no handler is at work. */
  drain(): Promise<void> {
    this.stop();
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => void this.#onIdle.push(resolve));
  }

  /** Hands nothing more over. */
  stop(): void {
    this.#stopping = true;
    for (const [timer, resolve] of this.#pauses) {
      timer.cancel();
      resolve();
    }
    this.#pauses.clear();
  }

  async #load(reader: Reader): Promise<void> {
    if (reader.loading) return;
    reader.loading = true;
    try {
      while (reader.behind && reader.open && reader.hasRoom) {
        reader.more = false;
        const page = await this.#incoming.load(reader.agent, reader.taken);
        if (page.length === 0) reader.behind = reader.more;
        for (const held of page) this.#enqueue(reader, held);
      }
    } catch (error) {
      this.#runtime.logger.error({ agent: reader.agent, err: error }, 'the inbox cannot be read');
    }
    reader.loading = false;
  }

  #enqueue(reader: Reader, held: HeldMail): void {
    reader.taken = held.number;
    this.#line(reader, held);
  }

  #line(reader: Reader, held: HeldMail): void {
    if (held.ending) return;
    reader.queued++;
    reader.bytes += ValidEnvelope.weightOf(held.envelope);
    const { sender } = held.envelope;
    const lane = reader.lanes.get(sender);
    if (lane) {
      lane.push(held);
      return;
    }
    const fresh = new Fifo<HeldMail>();
    fresh.push(held);
    reader.lanes.set(sender, fresh);
    void this.#run(reader, sender, fresh);
  }

  /** Hands over what one sender sent, one after the other. */
  async #run(reader: Reader, sender: string, lane: Fifo<HeldMail>): Promise<void> {
    this.#running++;
    for (let held = lane.peek(); held && reader.open && !this.#stopping; held = lane.peek()) {
      if (--this.#budget <= 0) await this.#yield();
      const pending = this.#handle(reader, held);
      if (pending) await pending;
      lane.shift();
      reader.queued--;
      reader.bytes -= ValidEnvelope.weightOf(held.envelope);
      if (reader.behind && reader.hasRoom) void this.#load(reader);
    }
    reader.lanes.delete(sender);
    this.#running--;
    if (this.#running === 0) for (const tell of this.#onIdle.splice(0)) tell();
  }

  #yield(): Promise<void> {
    return new Promise((resolve) => {
      this.#runtime.defer(() => {
        this.#budget = RUN_BUDGET;
        resolve();
      });
    });
  }

  /** Hands a message over. A promise comes back only where it must be waited for. */
  #handle(reader: Reader, held: HeldMail): Promise<void> | undefined {
    if (held.ending || this.#incoming.isForgotten(held)) return undefined;
    if (held.hasExpired(this.#runtime.now())) {
      // Not handed over, but not over either, unless the clock is right.
      if (!held.hasExpired(this.#clock.now())) reader.doubtful.push(held);
      return undefined;
    }
    const delivery = this.#deliver(held, false);
    try {
      const result = reader.handler(held.envelope, delivery);
      if (result instanceof Promise) return this.#follow(reader, held, delivery, result);
    } catch (error) {
      return this.#follow(reader, held, delivery, Promise.reject(error));
    }
    if (delivery.committed) return this.#follow(reader, held, delivery, Promise.resolve());
    this.#finish(held, delivery);
    return undefined;
  }

  /** Waits for a handler, and calls it again where it fails. */
  async #follow(reader: Reader, held: HeldMail, first: Delivery, result: Promise<void>): Promise<void> {
    if (await this.#attempt(held, first, result)) return;
    let failures = isStoreFault(first.failure) ? 0 : 1;
    for (let pauses = 0; ; pauses++) {
      await this.#pause(backoffMs(pauses, FIRST_RETRY_MS, LONGEST_RETRY_MS));
      if (!reader.open || this.#stopping || held.ending || held.hasExpired(this.#runtime.now())) break;
      const delivery = this.#deliver(held, failures + 1 >= MAX_ATTEMPTS);
      const again = new Promise<void>((resolve) => resolve(reader.handler(held.envelope, delivery)));
      if (await this.#attempt(held, delivery, again)) return;
      // A disk that fails is no fault of the handler.
      if (!isStoreFault(delivery.failure)) failures++;
    }
    this.#incoming.letGo(held);
  }

  #deliver(held: HeldMail, lastAttempt: boolean): Delivery {
    const redelivered = this.#incoming.hand(held);
    const commit: Delivery['commit'] = (effects = {}) => this.#incoming.end(held, { state: 'done', effects });
    return new Delivery({ redelivered, lastAttempt, commit });
  }

  /** Is the message over? If not, it is to be handed over again. */
  async #attempt(held: HeldMail, delivery: Delivery, result: Promise<void>): Promise<boolean> {
    const since = this.#runtime.now();
    const surfaced = this.#runtime.setTimer(() => this.#incoming.note(held, 'surfaced', since), SURFACED_MS);
    try {
      await result;
      // A commit that nobody waits for decides nevertheless.
      if (await delivery.settled()) throw delivery.failure;
      if (!held.ending) this.#finish(held, delivery);
      return true;
    } catch (error) {
      await delivery.settled();
      if (held.ending) return true;
      const { id, recipient } = held.envelope;
      this.#runtime.logger.warn({ message: id, agent: recipient, err: error }, 'durable mail was not handled');
      if (!delivery.lastAttempt || isStoreFault(delivery.failure)) return false;
      const reason = `its handler failed ${MAX_ATTEMPTS} times: ${describeError(error)}`;
      this.#incoming.endSurely(held, { state: 'undeliverable', reason, answer: delivery.answer });
      return true;
    } finally {
      surfaced.cancel();
    }
  }

  /** The next may be handled meanwhile: should this one's end not reach the disk, it comes again, and says so. */
  #finish(held: HeldMail, { replied, answer }: Delivery): void {
    this.#incoming.endSurely(held, { state: replied ? 'replied' : 'done', answer });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#runtime.setTimer(() => {
        this.#pauses.delete(timer);
        resolve();
      }, ms);
      this.#pauses.set(timer, resolve);
    });
  }
}

function isStoreFault(error: unknown): boolean {
  return error instanceof EclipticError && error.code === 'STORE_FAILED';
}
