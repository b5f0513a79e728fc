import type { Runtime } from '../runtime/runtime.js';
import { ValidEnvelope } from './envelope.js';
import { Exchange } from './exchange.js';
import { ReplyShares, type Share } from './reply-shares.js';
import type { A2AEnvelope, A2AMessageType } from './schemas.js';
import { ENVELOPE_OVERHEAD, QUESTIONS, type RequestWaiter, Thread, type Waiter } from './thread.js';

export interface ThreadTableInit {
  /** Threads whose messages are remembered. Default 512. */
  threads?: number;
  /** Approximate payload bytes remembered over all threads. Default 64 MiB. */
  bytes?: number;
  /** Envelopes remembered of one thread; beyond that its earlier half is forgotten. Default 1,000. */
  envelopesPerThread?: number;
  /** A thread without a new envelope for this long is forgotten. Default 1 hour. */
  maxAgeMs?: number;
  /** Conversations that may wait for an answer at once. Default 100,000. */
  waiting?: number;
  /** A conversation without an answer for this long no longer counts as waiting. Default 1 hour. */
  waitMs?: number;
}

/**
 * The threads that came into use in one period. Most are looked up only while they are the latest, so the index is built
 * when another one is looked up.
 */
class Generation {
  readonly since: number;
  readonly threads: (Thread | Exchange)[] = [];
  readonly #index = new Map<string, Thread | Exchange>();
  #indexed = 0;
  bytes = 0;

  constructor(since: number) {
    this.since = since;
  }

  add(thread: Thread): void {
    this.threads.push(thread);
    thread.keptIn = this;
    this.bytes += thread.bytes;
  }

  /** Puts a thread in the place of the exchange that stands for it. */
  replace(exchange: Exchange, thread: Thread): void {
    this.threads[exchange.place] = thread;
    thread.keptIn = this;
    if (exchange.place < this.#indexed) this.#index.set(thread.id, thread);
  }

  /**
   * Releases its threads. Otherwise a forgotten generation that is not collected yet would retain, through a thread that
   * moved on, the next generation, and so on.
   */
  dissolve(): (Thread | Exchange)[] {
    this.#index.clear();
    return this.threads.splice(0);
  }

  find(id: string): Thread | Exchange | undefined {
    for (; this.#indexed < this.threads.length; this.#indexed++) {
      const thread = this.threads[this.#indexed]!;
      this.#index.set(thread.id, thread);
    }
    return this.#index.get(id);
  }
}

/**
 * The conversations of the mesh, in two generations: a message moves its thread to the young one, and when that has half
 * of the limit, the old one is forgotten as a whole. A thread in which an agent waits for an answer keeps its permits,
 * however old it is: forgetting messages never turns an honest reply into a violation. When too many wait, the owners
 * that opened the most of them are refused further ones.
 */
export class ThreadTable {
  readonly #runtime: Runtime;
  readonly #init: Required<ThreadTableInit>;
  #young: Generation;
  #old: Generation;
  /** The thread that was looked up last: the next look-up is often the same. */
  #latest: Thread | undefined;
  readonly #shares: ReplyShares;
  /** The exchange whose handler runs now. */
  #current: Exchange | undefined;
  #nextExpiry = 0;
  /** Threads that the young generation began with: it is full only if it has as many others. */
  #carried = 0;
  /** The young generation is not full below this many threads, nor old before this time. */
  #fullAt = 0;
  #oldAt = 0;

  constructor(runtime: Runtime, init: ThreadTableInit = {}) {
    this.#runtime = runtime;
    this.#init = {
      threads: init.threads ?? 512,
      bytes: init.bytes ?? 64 * 1_048_576,
      envelopesPerThread: init.envelopesPerThread ?? 1_000,
      maxAgeMs: init.maxAgeMs ?? 3_600_000,
      waiting: init.waiting ?? 100_000,
      waitMs: init.waitMs ?? 3_600_000,
    };
    this.#shares = new ReplyShares(this.#init.waiting);
    this.#young = this.#generation();
    this.#old = this.#generation();
  }

  get waiting(): number {
    return this.#shares.asked + (this.#current && !this.#current.expanded ? 1 : 0);
  }

  /** May every agent open one more conversation that waits? */
  get hasRoom(): boolean {
    return this.#shares.asked < this.#init.waiting;
  }

  find(id: string): Thread | undefined {
    const thread = this.#latest?.id === id ? this.#latest : this.#lookUp(id);
    if (thread === undefined || this.#runtime.now() - thread.touchedAt < this.#init.maxAgeMs) return thread;
    thread.forget();
    return thread.waiting ? thread : undefined;
  }

  #lookUp(id: string): Thread | undefined {
    const found = this.#young.find(id) ?? this.#old.find(id);
    if (found === undefined) return undefined;
    const thread = found instanceof Exchange ? this.#expand(found) : found;
    this.#latest = thread;
    return thread;
  }

  /** The envelopes of a thread, earliest first; none for a thread that is unknown or forgotten. */
  get(correlationId: string): readonly A2AEnvelope[] {
    this.#rotateIfDue();
    return this.find(correlationId)?.envelopes() ?? [];
  }

  /** Begins a thread for an agent that will wait for its answer. */
  begin(id: string, waiter: Waiter): Thread {
    this.#rotateIfDue();
    return this.#keep(new Thread(id, this.#runtime.now(), waiter));
  }

  /** Adds a request on the direct path, whose handler runs next. There is room for it. */
  beginExchange(exchange: Exchange, now: number, weight: number): void {
    const young = this.#young;
    // A generation is full or old only now and then.
    if (young.threads.length >= this.#fullAt || now >= this.#oldAt) this.#rotateIfDue();
    this.#current = exchange;
    this.#addExchange(exchange, weight + ENVELOPE_OVERHEAD);
  }

  /** The handler of an exchange has returned without its answer: from now on it waits like any other. */
  holdExchange(exchange: Exchange, waiter: RequestWaiter): void {
    this.#current = undefined;
    const conversation = exchange.expanded ? this.find(exchange.id) : exchange;
    waiter.conversation = conversation;
    if (conversation) conversation.waiter = waiter;
    if (exchange.expanded) return;
    exchange.share = this.#shares.of(exchange.source.address);
    exchange.share.take();
  }

  /** The handler of an exchange has returned, and its opener, whose exchange was abandoned, does not wait. */
  endExchange(): void {
    this.#current = undefined;
  }

  /** An exchange was answered. Nothing has looked for its thread yet. */
  answerExchange(exchange: Exchange, weight: number): void {
    this.#current = undefined;
    if (exchange.share !== undefined) exchange.stopWaiting();
    const bytes = weight + ENVELOPE_OVERHEAD;
    if (exchange.keptIn === this.#young) this.#addBytes(bytes);
    else this.#addExchange(exchange, bytes + ValidEnvelope.weightOf(exchange.request) + ENVELOPE_OVERHEAD);
  }

  isReply(type: A2AMessageType, id: string | undefined, sender: string, recipient: string): boolean {
    return id !== undefined && this.find(id)?.isReply(type, sender, recipient) === true;
  }

  /** Adds a message that opens a conversation, or opens it further. Returns false if its opener has no room for one more. */
  opened(
    thread: Thread | undefined,
    envelope: ValidEnvelope,
    opener: string,
    responder: string | ReadonlySet<string>,
  ): boolean {
    const asked = typeof responder === 'string' && QUESTIONS.has(envelope.type);
    const awaited = thread?.awaits(opener, responder) === true;
    // It counts as waiting, too.
    if (asked && this.#current) this.#threadOf(this.#current);
    const share = this.#shares.of(opener);
    if (asked && !awaited && !this.#shares.hasRoom(share) && !this.#expireWaiting(share)) return false;
    const young = this.#keepYoung(thread, envelope.correlationId!);
    if (awaited && endsOwnStream(envelope.type)) young.release(opener, responder as string);
    else if (!awaited) young.open(share, opener, responder, asked, this.#runtime.now());
    this.#record(young, envelope);
    return true;
  }

  replied(thread: Thread, envelope: ValidEnvelope, sender: string, recipient: string): void {
    thread.answered(envelope.type, sender, recipient);
    this.#record(this.#keepYoung(thread, thread.id), envelope);
  }

  release(id: string, opener: string, responder: string): void {
    this.find(id)?.release(opener, responder);
  }

  /** Ends the waits of an opener that gave up. A late reply is still recognised while the thread is remembered. */
  abandon(id: string, opener: string): void {
    this.find(id)?.abandon(opener);
  }

  /** As `abandon`, for the exchange whose handler runs now, if it is that opener's. */
  abandonExchange(opener: string): void {
    if (this.#current?.source.address === opener) this.#threadOf(this.#current)?.abandon(opener);
  }

  forgetNode(node: string): void {
    for (const generation of [this.#old, this.#young]) {
      // An exchange is between agents of this node.
      for (const kept of generation.threads) if (kept instanceof Thread) kept.abandonAll(`@${node}`);
    }
  }

  #record(thread: Thread, envelope: ValidEnvelope): void {
    const before = thread.bytes;
    const { envelopesPerThread, bytes } = this.#init;
    thread.record(envelope, this.#runtime.now(), envelopesPerThread, bytes / 2);
    this.#addBytes(thread.bytes - before);
  }

  #addExchange(exchange: Exchange, bytes: number): void {
    const young = this.#young;
    exchange.place = young.threads.push(exchange) - 1;
    exchange.keptIn = young;
    this.#addBytes(bytes);
  }

  #addBytes(bytes: number): void {
    this.#young.bytes += bytes;
    if (this.#young.bytes >= this.#init.bytes / 2) this.#rotateIfDue();
  }

  #threadOf(exchange: Exchange): Thread | undefined {
    return exchange.expanded ? this.find(exchange.id) : this.#expand(exchange);
  }

  #waitingThread(exchange: Exchange): Thread | undefined {
    const waits = !exchange.expanded && (exchange.share !== undefined || exchange === this.#current);
    return waits ? this.#expand(exchange) : undefined;
  }

  /** Puts the thread that an exchange stands for in its place: its permit, its messages and its waiter. */
  #expand(exchange: Exchange): Thread {
    const { request, response, share, waiter } = exchange;
    const { envelopesPerThread, bytes } = this.#init;
    const [opener, responder] = [exchange.source.address, exchange.target.address];
    const waits = share !== undefined || exchange === this.#current;
    const thread = new Thread(request.id, request.timestamp, waiter);
    // A generation that was dissolved must not retain it.
    for (const generation of [this.#young, this.#old]) {
      if (exchange.keptIn === generation) generation.replace(exchange, thread);
    }
    if (waiter) waiter.conversation = thread;
    share?.giveBack();
    thread.open(share ?? this.#shares.of(opener), opener, responder, true, request.timestamp);
    if (!waits) thread.release(opener, responder);
    thread.record(request, request.timestamp, envelopesPerThread, bytes / 2);
    if (response) thread.record(response, response.timestamp, envelopesPerThread, bytes / 2);
    exchange.expanded = true;
    exchange.share = undefined;
    exchange.waiter = undefined;
    return thread;
  }

  #keepYoung(known: Thread | undefined, id: string): Thread {
    if (known?.keptIn === this.#young) return known;
    this.#rotateIfDue();
    return this.#keep(known ?? new Thread(id, this.#runtime.now()));
  }

  #keep(thread: Thread): Thread {
    this.#young.add(thread);
    this.#latest = thread;
    return thread;
  }

  #rotateIfDue(): void {
    const { threads, bytes, maxAgeMs } = this.#init;
    const young = this.#young;
    this.#fullAt = Math.max(threads / 2, this.#carried * 2);
    this.#oldAt = young.since + maxAgeMs / 2;
    const full = young.threads.length >= this.#fullAt || young.bytes >= bytes / 2;
    const age = this.#runtime.now() - young.since;
    if (!full && age < maxAgeMs / 2) return;
    const forgotten = [this.#old, ...(age >= maxAgeMs ? [young] : [])];
    this.#old = age >= maxAgeMs ? this.#generation() : young;
    this.#young = this.#generation();
    this.#latest = undefined;
    for (const generation of forgotten) this.#carryWaiting(generation);
    this.#carried = this.#young.threads.length;
    this.#fullAt = 0;
  }

  /** Of a forgotten generation, keeps only the permits of waiting threads. */
  #carryWaiting(generation: Generation): void {
    for (const kept of generation.dissolve()) {
      if (kept.keptIn !== generation) continue;
      const thread = kept instanceof Exchange ? this.#waitingThread(kept) : kept;
      if (!thread?.waiting) continue;
      thread.forget();
      this.#keep(thread);
    }
  }

  /** Expires conversations that waited too long. At most once a second, because it visits all threads. */
  #expireWaiting(share: Share): boolean {
    const now = this.#runtime.now();
    if (now < this.#nextExpiry) return false;
    this.#nextExpiry = now + 1_000;
    const limit = now - this.#init.waitMs;
    for (const generation of [this.#old, this.#young]) {
      for (const kept of generation.threads) kept.expire(limit);
    }
    return this.#shares.hasRoom(share);
  }

  #generation(): Generation {
    return new Generation(this.#runtime.now());
  }
}

/** Does this end the opener's own stream, after which it waits for no answer? */
function endsOwnStream(type: A2AMessageType): boolean {
  return type === 'stream-end' || type === 'error';
}
