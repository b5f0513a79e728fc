import type { Runtime } from '../runtime/runtime.js';
import type { ValidEnvelope } from './envelope.js';
import { ReplyShares, type Share } from './reply-shares.js';
import type { A2AEnvelope, A2AMessageType } from './schemas.js';
import { QUESTIONS, Thread, type Waiter } from './thread.js';

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
  readonly threads: Thread[] = [];
  readonly #index = new Map<string, Thread>();
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

  /**
   * Releases its threads. Otherwise a forgotten generation that is not collected yet would retain, through a thread that
   * moved on, the next generation, and so on.
   */
  dissolve(): Thread[] {
    this.#index.clear();
    return this.threads.splice(0);
  }

  find(id: string): Thread | undefined {
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
  #nextExpiry = 0;
  /** Threads that the young generation began with: it is full only if it has as many others. */
  #carried = 0;

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
    return this.#shares.asked;
  }

  find(id: string): Thread | undefined {
    const thread = this.#latest?.id === id ? this.#latest : this.#lookUp(id);
    if (thread === undefined || this.#runtime.now() - thread.touchedAt < this.#init.maxAgeMs) return thread;
    thread.forget();
    return thread.waiting ? thread : undefined;
  }

  #lookUp(id: string): Thread | undefined {
    const thread = this.#young.find(id) ?? this.#old.find(id);
    if (thread) this.#latest = thread;
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

  forgetNode(node: string): void {
    for (const generation of [this.#old, this.#young]) {
      for (const thread of generation.threads) thread.abandonAll(`@${node}`);
    }
  }

  #record(thread: Thread, envelope: ValidEnvelope): void {
    const before = thread.bytes;
    const { envelopesPerThread, bytes } = this.#init;
    thread.record(envelope, this.#runtime.now(), envelopesPerThread, bytes / 2);
    this.#young.bytes += thread.bytes - before;
    if (this.#young.bytes >= bytes / 2) this.#rotateIfDue();
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
    const full = young.threads.length >= Math.max(threads / 2, this.#carried * 2) || young.bytes >= bytes / 2;
    const age = this.#runtime.now() - young.since;
    if (!full && age < maxAgeMs / 2) return;
    const forgotten = [this.#old, ...(age >= maxAgeMs ? [young] : [])];
    this.#old = age >= maxAgeMs ? this.#generation() : young;
    this.#young = this.#generation();
    this.#latest = undefined;
    for (const generation of forgotten) this.#carryWaiting(generation);
    this.#carried = this.#young.threads.length;
  }

  /** Of a forgotten generation, keeps only the permits of waiting threads. */
  #carryWaiting(generation: Generation): void {
    for (const thread of generation.dissolve()) {
      if (thread.keptIn !== generation || !thread.waiting) continue;
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
      for (const thread of generation.threads) thread.expire(limit);
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
