import { ValidEnvelope } from './envelope.js';
import type { A2AMessageType } from './schemas.js';

/** Types that answer; only these can be replies. */
export const REPLIES: ReadonlySet<A2AMessageType> = new Set<A2AMessageType>([
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
  openedAt: number;
  /** Does the opener still wait? */
  waiting: boolean;
  /** Of a broadcast's responders, those that have not answered yet. */
  readonly unanswered: Set<string> | undefined;
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
  /** When the latest envelope was remembered. */
  touchedAt: number;
  /** @internal The generation of the table that keeps it. */
  keptIn: object | undefined;
  // Not #private: a thread is made for every request, and private names make that measurably slower.
  private permit: Permit | undefined;
  private latest: Remembered | undefined;
  private count = 0;
  private size = 0;

  constructor(id: string, now: number, waiter?: Waiter) {
    this.id = id;
    this.touchedAt = now;
    this.keptIn = undefined;
    this.waiter = waiter;
    this.permit = undefined;
    this.latest = undefined;
  }

  /** Is a message of this type from `sender` to `recipient` a reply: did `recipient` open this thread to `sender`? */
  isReply(type: A2AMessageType, sender: string, recipient: string): boolean {
    return REPLIES.has(type) && this.#find(recipient, sender) !== undefined;
  }

  /** Does `opener` already wait for an answer of `responder`? */
  awaits(opener: string, responder: string | ReadonlySet<string>): boolean {
    return typeof responder === 'string' && this.#find(opener, responder, true) !== undefined;
  }

  /** Grants the right to reply; true when that adds one more that waits for an answer. */
  open(opener: string, responder: string | ReadonlySet<string>, now: number): boolean {
    if (this.awaits(opener, responder)) return false;
    const existing = typeof responder === 'string' ? this.#find(opener, responder) : undefined;
    if (existing && existing.unanswered === undefined) {
      existing.waiting = true;
      existing.openedAt = now;
    } else {
      const unanswered = typeof responder === 'string' ? undefined : new Set(responder);
      this.permit = { opener, responder, openedAt: now, waiting: true, unanswered, next: this.permit };
    }
    return true;
  }

  /** Notes a reply; true when it was the one that the opener waited for. */
  answered(type: A2AMessageType, sender: string, recipient: string): boolean {
    return FINAL.has(type) && this.release(recipient, sender);
  }

  /** The opener waits no longer for that responder; true when it then waits no longer at all. */
  release(opener: string, responder: string): boolean {
    const permit = this.#find(opener, responder, true);
    if (!permit) return false;
    permit.unanswered?.delete(responder);
    if (permit.unanswered && permit.unanswered.size > 0) return false;
    permit.waiting = false;
    return true;
  }

  /** Has anybody opened it yet? */
  get begun(): boolean {
    return this.permit !== undefined;
  }

  /** The opener waits for nobody any more; returns how many it waited for. */
  abandon(opener: string): number {
    let abandoned = 0;
    for (let permit = this.permit; permit; permit = permit.next) {
      if (!permit.waiting || permit.opener !== opener) continue;
      permit.waiting = false;
      abandoned++;
    }
    return abandoned;
  }

  /** Lets go of permits opened before `limit` that still wait; returns how many. */
  expire(limit: number): number {
    let expired = 0;
    for (let permit = this.permit; permit; permit = permit.next) {
      if (!permit.waiting || permit.openedAt >= limit) continue;
      permit.waiting = false;
      expired++;
    }
    return expired;
  }

  get waiting(): boolean {
    for (let permit = this.permit; permit; permit = permit.next) if (permit.waiting) return true;
    return false;
  }

  /** Approximate memory of what is remembered. */
  get bytes(): number {
    return this.size;
  }

  /** The remembered envelopes, earliest first. */
  envelopes(): ValidEnvelope[] {
    const found: ValidEnvelope[] = [];
    for (let at = this.latest; at; at = at.earlier) found.push(at.envelope);
    return found.reverse();
  }

  /** Remembers an envelope in timestamp order; past either limit, the earlier half is forgotten. */
  record(envelope: ValidEnvelope, now: number, maxCount: number, maxBytes: number): void {
    this.touchedAt = now;
    let later: Remembered | undefined;
    let earlier = this.latest;
    while (earlier && earlier.envelope.timestamp > envelope.timestamp) {
      later = earlier;
      earlier = earlier.earlier;
    }
    if (later) later.earlier = { envelope, earlier };
    else this.latest = { envelope, earlier };
    this.count++;
    this.size += weigh(envelope);
    while (this.count > maxCount || (this.size > maxBytes && this.count > 1)) {
      this.#keep(this.envelopes().slice(this.count >> 1));
    }
  }

  /** Forgets what was said, not who may still reply. */
  forget(): void {
    this.#keep([]);
  }

  #keep(envelopes: readonly ValidEnvelope[]): void {
    this.latest = undefined;
    this.count = envelopes.length;
    this.size = 0;
    for (const envelope of envelopes) {
      this.latest = { envelope, earlier: this.latest };
      this.size += weigh(envelope);
    }
  }

  /** The permit of that pair; with `waiting`, one that still waits for that responder. */
  #find(opener: string, responder: string, waiting = false): Permit | undefined {
    for (let permit = this.permit; permit; permit = permit.next) {
      if (permit.opener !== opener || !covers(permit.responder, responder)) continue;
      if (!waiting || (permit.waiting && permit.unanswered?.has(responder) !== false)) return permit;
    }
    return undefined;
  }
}

function covers(responders: string | ReadonlySet<string>, responder: string): boolean {
  return typeof responders === 'string' ? responders === responder : responders.has(responder);
}

function weigh(envelope: ValidEnvelope): number {
  return ValidEnvelope.weightOf(envelope) + ENVELOPE_OVERHEAD;
}
