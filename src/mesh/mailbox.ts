import { isThenable } from '../runtime/callbacks.js';
import { Fifo } from '../runtime/fifo.js';
import type { Runtime } from '../runtime/runtime.js';
import type { ValidEnvelope } from './envelope.js';

/** The start time of an envelope whose delivery is not timed. */
export const UNTIMED = -1;

export type EnvelopeHandler = (envelope: ValidEnvelope) => void | Promise<void>;

/** Takes the envelopes of one agent. */
export interface Receiver {
  receive(envelope: ValidEnvelope): void | Promise<void>;
  /** Undefined for a receiver to which messages come only by the general path. */
  readonly responder: Responder | undefined;
}

/** An agent as the direct path sees it. The handler of a request is run first, and its answer is sent afterwards. */
export interface Responder {
  /** Has it a handler for a notification with this payload, and no feature that takes such a notification? */
  hearsDirectly(payload: unknown): boolean;
  /** Runs the handler of notifications. */
  runNotification(envelope: ValidEnvelope): void | Promise<void>;
  /** Has it a handler for a request with this payload, and no feature that takes such a request? */
  answersDirectly(payload: unknown): boolean;
  /** Does an answer with this payload settle its request, and belong to no feature? */
  takesAnswer(payload: unknown): boolean;
  /** Runs the handler of requests. */
  runRequest(envelope: ValidEnvelope): unknown;
  /** Sends the answer of the handler as an envelope. */
  concludeAnswer(envelope: ValidEnvelope, result: unknown): void | Promise<void>;
  /** Sends the error of the handler as an envelope, and throws it. */
  failAnswer(envelope: ValidEnvelope, error: unknown): never;
}

/** The agent of a mailbox, as the registry knows it. */
export interface MailboxOwner {
  readonly address: string;
  mailbox: Mailbox | undefined;
  /** The only receiver, while nothing keeps an envelope from going straight to it. */
  ready: Receiver | undefined;
}

/** The rules of all mailboxes of one router. */
export interface MailboxRules {
  /** Envelopes that may wait in one mailbox. */
  readonly capacity: number;
  /** Handlers of one mailbox that may run at once; further envelopes wait. */
  readonly concurrency: number;
  readonly onHandlerError: (address: string, envelope: ValidEnvelope, error: unknown) => void;
  /** Called instead of the handler for an envelope that waited past its time to live. */
  readonly onExpired: (address: string, envelope: ValidEnvelope) => void;
  /** Called with the time from the send of a timed envelope until its handler was done. */
  readonly onHandled: (ms: number) => void;
}

/** Deliveries before the event loop gets its turn. */
const RUN_BUDGET = 1024;

/**
 * Runs mailboxes. A delivery that is made while no handler runs happens at once, inside the call; a delivery that a
 * running handler makes waits its turn in the same run. So handlers never nest, the stack never grows, and agents that
 * answer each other endlessly do not block the event loop.
 */
export class Dispatcher {
  readonly runtime: Runtime;
  readonly rules: MailboxRules;
  /** The start times of timed envelopes that wait. */
  readonly #timed = new Map<ValidEnvelope, number>();
  /** @internal Its size: reading that of a map costs more. */
  timed = 0;
  readonly #ready = new Fifo<Mailbox>();
  #running = false;
  #deferred = false;
  #open = 0;
  #onIdle: (() => void)[] = [];

  constructor(runtime: Runtime, rules: MailboxRules) {
    this.runtime = runtime;
    this.rules = rules;
  }

  /** Could a delivery happen at once? */
  get idle(): boolean {
    return !this.#running && !this.#deferred;
  }

  /** Resolves when no envelope waits and no handler runs. */
  whenIdle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle.push(resolve);
      this.settled(0);
    });
  }

  /** @internal Counts an envelope that waits or a handler that runs. */
  began(): void {
    this.#open++;
  }

  /** @internal */
  settled(count: number): void {
    this.#open -= count;
    if (this.#open > 0 || this.#onIdle.length === 0) return;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** @internal A mailbox has envelopes to deliver. */
  enqueue(mailbox: Mailbox): void {
    this.#ready.push(mailbox);
  }

  /** Delivers all envelopes that can be delivered now, unless a run is under way. */
  run(): void {
    if (this.#running) return;
    this.#running = true;
    let budget = RUN_BUDGET;
    while (this.#ready.length > 0 && budget > 0) budget = this.#ready.shift()!.drain(budget);
    this.#running = false;
    if (this.#ready.length > 0) this.#continueLater();
  }

  /** @internal Delivers one envelope in a run of its own, then those that its handler has sent. */
  runOne(mailbox: Mailbox, envelope: ValidEnvelope, started: number): void {
    this.#running = true;
    mailbox.handle(envelope, started);
    this.#running = false;
    if (this.#ready.length > 0) this.run();
  }

  /** @internal A run of one delivery begins, which its caller makes. */
  beginRun(): void {
    this.#running = true;
  }

  /** @internal Has a delivery of the run under way caused others? */
  get hasMore(): boolean {
    return this.#ready.length > 0;
  }

  /** @internal The delivery is made; those that it caused follow. */
  endRun(): void {
    this.#running = false;
    if (this.#ready.length > 0) this.run();
  }

  /** @internal The start time of an envelope that waited. */
  startOf(envelope: ValidEnvelope): number {
    const started = this.#timed.get(envelope) ?? UNTIMED;
    this.#timed.delete(envelope);
    this.timed = this.#timed.size;
    return started;
  }

  /** @internal A timed envelope waits. */
  waits(envelope: ValidEnvelope, started: number): void {
    this.#timed.set(envelope, started);
    this.timed = this.#timed.size;
  }

  /** @internal */
  handled(started: number): void {
    this.rules.onHandled(this.runtime.stopwatch() - started);
  }

  #continueLater(): void {
    if (this.#deferred) return;
    this.#deferred = true;
    this.runtime.defer(() => {
      this.#deferred = false;
      this.run();
    });
  }
}

/** The envelopes of one agent, in order, until its receivers take them. */
export class Mailbox {
  readonly #dispatcher: Dispatcher;
  readonly #owner: MailboxOwner;
  #attached: readonly Receiver[] = [];
  #waiting: Fifo<ValidEnvelope> | undefined;
  #inFlight = 0;
  #queued = false;

  constructor(dispatcher: Dispatcher, owner: MailboxOwner) {
    this.#dispatcher = dispatcher;
    this.#owner = owner;
  }

  get attached(): boolean {
    return this.#attached.length > 0;
  }

  get full(): boolean {
    return this.#waiting !== undefined && this.#waiting.length >= this.#dispatcher.rules.capacity;
  }

  /** Envelopes waiting plus handlers running. */
  get load(): number {
    return this.waiting + this.#inFlight;
  }

  /** Envelopes that no handler has taken yet. */
  get waiting(): number {
    return this.#waiting?.length ?? 0;
  }

  /** Handlers running. */
  get inHand(): number {
    return this.#inFlight;
  }

  attach(receiver: Receiver): () => void {
    this.#attached = [...this.#attached, receiver];
    this.#noteReady();
    this.#resume();
    return () => {
      this.#attached = this.#attached.filter((other) => other !== receiver);
      this.#noteReady();
    };
  }

  /** Adds an envelope. The caller has checked that the mailbox is not full, and calls `dispatcher.run()` afterwards. */
  put(envelope: ValidEnvelope): void {
    this.#waiting ??= new Fifo();
    this.#waiting.push(envelope);
    this.#owner.ready = undefined;
    this.#dispatcher.began();
    this.#wake();
  }

  /** Delivers an envelope: at once if that keeps the order, otherwise in the run under way. */
  deliver(envelope: ValidEnvelope, started = UNTIMED): void {
    if (this.#dispatcher.idle && this.#canHandle() && !this.#waiting?.length) {
      this.#dispatcher.runOne(this, envelope, started);
    } else {
      if (started !== UNTIMED) this.#dispatcher.waits(envelope, started);
      this.put(envelope);
      this.#dispatcher.run();
    }
  }

  /** Closes the mailbox; returns the envelopes that were not taken. */
  close(): ValidEnvelope[] {
    this.#attached = [];
    const left = this.#waiting?.drain() ?? [];
    this.#noteReady();
    for (const envelope of left) this.#dispatcher.startOf(envelope);
    this.#dispatcher.settled(left.length);
    return left;
  }

  /** @internal Delivers waiting envelopes within the budget and the concurrency. Returns the budget left. */
  drain(budget: number): number {
    this.#queued = false;
    const waiting = this.#waiting!;
    while (waiting.length > 0 && this.#canHandle()) {
      if (budget === 0) {
        this.#wake();
        return 0;
      }
      budget--;
      const envelope = waiting.shift()!;
      this.handle(envelope, this.#dispatcher.timed === 0 ? UNTIMED : this.#dispatcher.startOf(envelope));
      this.#dispatcher.settled(1);
    }
    this.#noteReady();
    return budget;
  }

  /** @internal */
  handle(envelope: ValidEnvelope, started: number): void {
    const ttl = envelope.metadata?.ttlMs;
    if (ttl !== undefined && envelope.timestamp + ttl < this.#dispatcher.runtime.now()) {
      this.#dispatcher.rules.onExpired(this.#owner.address, envelope);
      return;
    }
    const attached = this.#attached;
    for (let i = 0; i < attached.length; i++) {
      try {
        const pending = attached[i]!.receive(envelope);
        if (isThenable(pending)) this.track(envelope, pending, started);
        else if (started !== UNTIMED) this.#dispatcher.handled(started);
      } catch (error) {
        this.#dispatcher.rules.onHandlerError(this.#owner.address, envelope, error);
      }
    }
  }

  /** @internal Runs the rest of a handler's work on an envelope. */
  guard(envelope: ValidEnvelope, started: number, work: () => void | Promise<void>): void {
    try {
      const pending = work();
      if (isThenable(pending)) this.track(envelope, pending, started);
      else if (started !== UNTIMED) this.#dispatcher.handled(started);
    } catch (error) {
      this.#dispatcher.rules.onHandlerError(this.#owner.address, envelope, error);
    }
  }

  /** @internal Counts a handler that goes on, until its promise settles. */
  track(envelope: ValidEnvelope, pending: PromiseLike<unknown>, started: number): void {
    this.began();
    const failed = (error: unknown) => this.failed(envelope, error, started);
    // A foreign promise may throw or settle twice; a native one does neither.
    Promise.resolve(pending).then(() => this.finished(started), failed);
  }

  /** @internal A handler goes on. */
  began(): void {
    this.#inFlight++;
    if (this.#inFlight === this.#dispatcher.rules.concurrency) this.#owner.ready = undefined;
    this.#dispatcher.began();
  }

  /** @internal A handler that went on has failed. */
  failed(envelope: ValidEnvelope, error: unknown, started: number): void {
    this.#dispatcher.rules.onHandlerError(this.#owner.address, envelope, error);
    this.finished(started);
  }

  /** @internal A handler that went on is done. */
  finished(started: number): void {
    if (started !== UNTIMED) this.#dispatcher.handled(started);
    this.#inFlight--;
    if (this.#owner.ready === undefined) this.#noteReady();
    this.#resume();
    this.#dispatcher.settled(1);
  }

  #resume(): void {
    if (!this.#waiting?.length) return;
    this.#wake();
    this.#dispatcher.run();
  }

  #canHandle(): boolean {
    return this.#attached.length > 0 && this.#inFlight < this.#dispatcher.rules.concurrency;
  }

  /** Notes for the registry whether an envelope could go straight to the only receiver. */
  #noteReady(): void {
    const isReady = this.#attached.length === 1 && this.#canHandle() && !this.#waiting?.length;
    this.#owner.ready = isReady ? this.#attached[0] : undefined;
  }

  #wake(): void {
    if (this.#queued) return;
    this.#queued = true;
    this.#dispatcher.enqueue(this);
  }
}
