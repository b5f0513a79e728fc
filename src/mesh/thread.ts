import { EclipticError } from '../runtime/errors.js';
import { ValidEnvelope } from './envelope.js';
import type { Share } from './reply-shares.js';
import type { A2AMessageType } from './schemas.js';

export const REPLIES: ReadonlySet<A2AMessageType> = new Set<A2AMessageType>([
  'response',
  'task-accept',
  'task-reject',
  'stream-start',
  'stream-data',
  'stream-end',
  'error',
]);
/** The types of opening messages whose sender waits for an answer. */
export const QUESTIONS: ReadonlySet<A2AMessageType> = new Set<A2AMessageType>([
  'request',
  'task-proposal',
  'stream-start',
]);
/** The types of replies that end the opener's wait. */
const FINAL: ReadonlySet<A2AMessageType> = new Set<A2AMessageType>(['response', 'task-reject', 'stream-end', 'error']);

/** The name of a broadcast's permit. No agent has this name. */
const EVERYONE = '*';

/** The right of one agent, or of all recipients of a broadcast, to reply to the agent that opened the thread. */
export class Permit {
  readonly share: Share;
  readonly opener: string;
  /** The responder, or `*` for the recipients of a broadcast. */
  readonly name: string;
  readonly next: Permit | undefined;
  private audience: Audience | undefined;
  openedAt: number;
  /** `asked`: the opener waits for an answer. `noticed`: a reply may come, but the message asked for none. */
  state: 'asked' | 'noticed' | 'settled';
  private kept: boolean;

  constructor(share: Share, opener: string, name: string, next: Permit | undefined) {
    this.share = share;
    this.opener = opener;
    this.name = name;
    this.next = next;
    this.audience = undefined;
    this.openedAt = 0;
    this.state = 'settled';
    this.kept = false;
  }

  get weight(): number {
    return this.audience?.reached.size ?? 1;
  }

  include(reached: ReadonlySet<string>): void {
    this.audience ??= { reached: new Set(), unanswered: new Set() };
    for (const one of reached) {
      this.audience.reached.add(one);
      this.audience.unanswered.add(one);
    }
  }

  includes(responder: string): boolean {
    return this.audience === undefined ? this.name === responder : this.audience.reached.has(responder);
  }

  awaits(responder: string): boolean {
    return this.state !== 'settled' && this.audience?.unanswered.has(responder) !== false;
  }

  open(asked: boolean, now: number): void {
    this.openedAt = now;
    if (this.state === 'asked') return;
    this.state = asked ? 'asked' : 'noticed';
    if (asked) this.share.take();
    else if (!this.kept) {
      this.kept = true;
      this.share.keep(this);
    }
  }

  settle(): void {
    if (this.state === 'asked') this.share.giveBack();
    this.state = 'settled';
  }

  letGo(): false {
    this.kept = false;
    return false;
  }

  /** That responder has answered, or its answer is no longer wanted. */
  release(responder: string): void {
    if (this.audience) {
      this.audience.unanswered.delete(responder);
      if (this.audience.unanswered.size > 0) return;
    }
    this.settle();
  }
}

interface Audience {
  readonly reached: Set<string>;
  readonly unanswered: Set<string>;
}

/** An agent of this node that waits for an answer in a thread that it began. */
export interface Waiter {
  readonly agentId: string;
}

/** A thread, or an exchange that stands for one. */
export interface Conversation {
  waiter: Waiter | undefined;
}

/** A request that waits. */
export interface RequestWaiter extends Waiter {
  conversation: Conversation | undefined;
  /** Ends the wait with that answer. */
  settle(answer: unknown): void;
}

/** A thread with more permits than this has an index of them. */
const UNINDEXED_PERMITS = 16;
/** Fixed cost of an envelope beyond its payload, for memory bounds. */
export const ENVELOPE_OVERHEAD = 256;

interface Remembered {
  readonly envelope: ValidEnvelope;
  earlier: Remembered | undefined;
}

/** One conversation: its reply permits, and, separately, its remembered messages. */
export class Thread {
  readonly id: string;
  /** The agent of this node that began it and waits for the answer. */
  waiter: Waiter | undefined;
  touchedAt: number;
  /** @internal The generation of the table that keeps it. */
  keptIn: object | undefined;
  /** Aborted when that opener gives up; made when a handler asks for it. */
  private wish: { readonly opener: string; readonly controller: AbortController } | undefined;
  // Not #private: a thread is made for every request, and private names make that measurably slower.
  private permit: Permit | undefined;
  private index: Map<string, Permit> | undefined;
  private latest: Remembered | undefined;
  private count = 0;
  private size = 0;

  constructor(id: string, now: number, waiter?: Waiter) {
    this.id = id;
    this.touchedAt = now;
    this.keptIn = undefined;
    this.wish = undefined;
    this.waiter = waiter;
    this.permit = undefined;
    this.index = undefined;
    this.latest = undefined;
  }

  /** Is a message of this type from `sender` to `recipient` a reply: did `recipient` open this thread to `sender`? */
  isReply(type: A2AMessageType, sender: string, recipient: string): boolean {
    return REPLIES.has(type) && this.#find(recipient, sender) !== undefined;
  }

  /** Does `opener` already wait for an answer of `responder`? */
  awaits(opener: string, responder: string | ReadonlySet<string>): boolean {
    return typeof responder === 'string' && this.#find(opener, responder, true)?.state === 'asked';
  }

  /** Grants a permit to reply. All broadcasts of one opener in a thread share one. */
  open(share: Share, opener: string, responder: string | ReadonlySet<string>, asked: boolean, now: number): void {
    const name = typeof responder === 'string' ? responder : EVERYONE;
    let permit = this.permit === undefined ? undefined : this.#granted(opener, name);
    if (!permit) {
      permit = new Permit(share, opener, name, this.permit);
      this.permit = permit;
      this.index?.set(keyOf(opener, name), permit);
    }
    if (typeof responder !== 'string') permit.include(responder);
    permit.open(asked, now);
  }

  answered(type: A2AMessageType, sender: string, recipient: string): void {
    if (FINAL.has(type)) this.release(recipient, sender);
  }

  release(opener: string, responder: string): void {
    this.#find(opener, responder, true)?.release(responder);
  }

  get begun(): boolean {
    return this.permit !== undefined;
  }

  /** Aborted when the opener gives up its wait. */
  signalOf(opener: string): AbortSignal {
    if (this.wish?.opener !== opener) this.wish = { opener, controller: new AbortController() };
    return this.wish.controller.signal;
  }

  abandon(opener: string): void {
    for (let permit = this.permit; permit; permit = permit.next) if (permit.opener === opener) permit.settle();
    if (this.wish?.opener === opener) this.wish.controller.abort(givenUp(opener));
  }

  /** Ends every wait of the openers whose address has this ending. */
  abandonAll(ending: string): void {
    for (let permit = this.permit; permit; permit = permit.next) if (permit.opener.endsWith(ending)) permit.settle();
    if (this.wish?.opener.endsWith(ending)) this.wish.controller.abort(givenUp(this.wish.opener));
  }

  expire(limit: number): void {
    for (let permit = this.permit; permit; permit = permit.next) if (permit.openedAt < limit) permit.settle();
  }

  get waiting(): boolean {
    for (let permit = this.permit; permit; permit = permit.next) if (permit.state !== 'settled') return true;
    return false;
  }

  get bytes(): number {
    return this.size;
  }

  envelopes(): ValidEnvelope[] {
    const found: ValidEnvelope[] = [];
    for (let at = this.latest; at; at = at.earlier) found.push(at.envelope);
    return found.reverse();
  }

  /** Remembers an envelope in timestamp order; beyond either limit, the earlier half is forgotten. */
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
    this.size += rememberedBytes(envelope);
    while (this.count > maxCount || (this.size > maxBytes && this.count > 1)) {
      this.#keep(this.envelopes().slice(this.count >> 1));
    }
  }

  /** Forgets the messages, not the permits. */
  forget(): void {
    this.#keep([]);
  }

  #keep(envelopes: readonly ValidEnvelope[]): void {
    this.latest = undefined;
    this.count = envelopes.length;
    this.size = 0;
    for (const envelope of envelopes) {
      this.latest = { envelope, earlier: this.latest };
      this.size += rememberedBytes(envelope);
    }
  }

  /** The permit by which that responder may reply; with `waiting`, only if it still awaits that responder. */
  #find(opener: string, responder: string, waiting = false): Permit | undefined {
    if (this.index) {
      const own = this.index.get(keyOf(opener, responder));
      if (own && (!waiting || own.awaits(responder))) return own;
      const broadcast = this.index.get(keyOf(opener, EVERYONE));
      return broadcast?.includes(responder) && (!waiting || broadcast.awaits(responder)) ? broadcast : undefined;
    }
    for (let permit = this.permit; permit; permit = permit.next) {
      if (permit.opener === opener && permit.includes(responder) && (!waiting || permit.awaits(responder))) {
        return permit;
      }
    }
    return undefined;
  }

  #granted(opener: string, name: string): Permit | undefined {
    if (this.index) return this.index.get(keyOf(opener, name));
    let passed = 0;
    for (let permit = this.permit; permit; permit = permit.next) {
      if (permit.opener === opener && permit.name === name) return permit;
      passed++;
    }
    if (passed >= UNINDEXED_PERMITS) this.#makeIndex();
    return undefined;
  }

  #makeIndex(): void {
    this.index = new Map();
    for (let permit = this.permit; permit; permit = permit.next) {
      this.index.set(keyOf(permit.opener, permit.name), permit);
    }
  }
}

function givenUp(opener: string): EclipticError {
  return new EclipticError('CANCELLED', `${opener} does not wait for the answer any more`);
}

function keyOf(opener: string, responder: string): string {
  return `${opener} ${responder}`;
}

function rememberedBytes(envelope: ValidEnvelope): number {
  return ValidEnvelope.weightOf(envelope) + ENVELOPE_OVERHEAD;
}
