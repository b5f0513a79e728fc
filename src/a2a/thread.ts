import { ValidEnvelope } from './envelope.js';
import type { A2AMessageType } from './schemas.js';

/** Types that answer; only these can be replies. */
const REPLIES: ReadonlySet<A2AMessageType> = new Set<A2AMessageType>([
  'response',
  'task-accept',
  'task-reject',
  'stream-start',
  'stream-data',
  'stream-end',
  'error',
]);
/** Replies after which the opener waits for nothing more. */
const FINAL: ReadonlySet<A2AMessageType> = new Set<A2AMessageType>(['response', 'task-reject', 'stream-end', 'error']);

/** The right of one agent, or of everyone a broadcast reached, to reply to the one that opened the thread to it. */
interface Permit {
  readonly opener: string;
  readonly responder: string | ReadonlySet<string>;
  readonly openedAt: number;
  waiting: boolean;
  /** Another pair in the same thread. */
  readonly next: Permit | undefined;
}

/** Somebody on this node who waits for an answer in a thread it began. */
export interface Waiter {
  readonly agentId: string;
}

/** Fixed cost of an envelope beyond its payload, for memory bounds. */
const ENVELOPE_OVERHEAD = 256;

/** A remembered envelope and the one before it. */
interface Remembered {
  readonly envelope: ValidEnvelope;
  earlier: Remembered | undefined;
}

/** One conversation: who may reply to whom in it, and, apart from that, the messages it is remembered by. */
export class Thread {
  readonly id: string;
  /** Who began it and waits for the answer, if that is an agent of this node. */
  waiter: Waiter | undefined;
  #permit: Permit | undefined;
  #latest: Remembered | undefined;
  #count = 0;
  #bytes = 0;

  constructor(id: string, waiter?: Waiter) {
    this.id = id;
    this.waiter = waiter;
  }

  /** Is a message of this type from `sender` to `recipient` a reply: did `recipient` open this thread to `sender`? */
  isReply(type: A2AMessageType, sender: string, recipient: string): boolean {
    return REPLIES.has(type) && this.#find(recipient, sender) !== undefined;
  }

  /** Grants the right to reply; true when that adds one more that waits for an answer. */
  open(opener: string, responder: string | ReadonlySet<string>, now: number): boolean {
    const existing = typeof responder === 'string' ? this.#find(opener, responder) : undefined;
    if (existing?.waiting) return false;
    if (existing) existing.waiting = true;
    else this.#permit = { opener, responder, openedAt: now, waiting: true, next: this.#permit };
    return true;
  }

  /** Notes a reply; true when it was the one that the opener waited for. */
  answered(type: A2AMessageType, sender: string, recipient: string): boolean {
    return FINAL.has(type) && this.release(recipient, sender);
  }

  /** The opener waits no longer; true when it did. A late reply is still recognised as one. */
  release(opener: string, responder: string | ReadonlySet<string>): boolean {
    const permit = typeof responder === 'string' ? this.#find(opener, responder) : undefined;
    if (!permit?.waiting) return false;
    permit.waiting = false;
    return true;
  }

  /** Has anybody opened it yet? */
  get begun(): boolean {
    return this.#permit !== undefined;
  }

  /** Lets go of permits opened before `limit` that still wait; returns how many. */
  expire(limit: number): number {
    let expired = 0;
    for (let permit = this.#permit; permit; permit = permit.next) {
      if (!permit.waiting || permit.openedAt >= limit) continue;
      permit.waiting = false;
      expired++;
    }
    return expired;
  }

  get waiting(): boolean {
    for (let permit = this.#permit; permit; permit = permit.next) if (permit.waiting) return true;
    return false;
  }

  /** Approximate memory of what is remembered. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The remembered envelopes, earliest first. */
  envelopes(): ValidEnvelope[] {
    const found: ValidEnvelope[] = [];
    for (let at = this.#latest; at; at = at.earlier) found.push(at.envelope);
    return found.reverse();
  }

  /** Remembers an envelope in timestamp order; past `limit`, the earlier half is forgotten. */
  record(envelope: ValidEnvelope, limit: number): void {
    let later: Remembered | undefined;
    let earlier = this.#latest;
    while (earlier && earlier.envelope.timestamp > envelope.timestamp) {
      later = earlier;
      earlier = earlier.earlier;
    }
    if (later) later.earlier = { envelope, earlier };
    else this.#latest = { envelope, earlier };
    this.#count++;
    this.#bytes += weigh(envelope);
    if (this.#count > limit) this.#keep(this.envelopes().slice(this.#count >> 1));
  }

  /** Forgets what was said, not who may still reply. */
  forget(): void {
    this.#keep([]);
  }

  #keep(envelopes: readonly ValidEnvelope[]): void {
    this.#latest = undefined;
    this.#count = envelopes.length;
    this.#bytes = 0;
    for (const envelope of envelopes) {
      this.#latest = { envelope, earlier: this.#latest };
      this.#bytes += weigh(envelope);
    }
  }

  #find(opener: string, responder: string): Permit | undefined {
    let permit = this.#permit;
    while (permit && !(permit.opener === opener && covers(permit.responder, responder))) permit = permit.next;
    return permit;
  }
}

function covers(responders: string | ReadonlySet<string>, responder: string): boolean {
  return typeof responders === 'string' ? responders === responder : responders.has(responder);
}

function weigh(envelope: ValidEnvelope): number {
  return ValidEnvelope.weightOf(envelope) + ENVELOPE_OVERHEAD;
}
