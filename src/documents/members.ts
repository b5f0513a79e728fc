import type { RoutingResult } from '../mesh/schemas.js';
import { backoffMs } from '../runtime/backoff.js';
import { type CallbackFailed, Callbacks } from '../runtime/callbacks.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Member } from './document.js';
import type { Replica } from './replica.js';
import type { SyncMessage, VectorClock } from './sync-message.js';

export class LiveMember {
  readonly address: string;
  vector: Record<string, number> = {};
  presence: unknown;
  seenAt: number;
  /** Has it reported its vector? */
  heard = false;
  inFlight = 0;
  inFlightBytes = 0;
  /** Does it get no new segments until it has caught up? */
  behind = false;
  /** When it may be asked again, after it sent invalid segments. */
  askAfter = 0;
  mistakes = 0;
  failures = 0;
  retry: Timer | undefined;
  /** Does it have other segments than this replica under the same numbers, or lack a proof? */
  differs = false;
  /** The streams whose claims or proof it was sent since the last heartbeat. */
  readonly told = new Set<string>();

  constructor(address: string, now: number) {
    this.address = address;
    this.seenAt = now;
  }

  get view(): Member {
    return { vector: this.vector as VectorClock, presence: this.presence, seenAt: this.seenAt };
  }
}

export class Members {
  readonly #members = new Map<string, LiveMember>();
  readonly #watchers: Callbacks<[address: string, member: Member | undefined]>;

  constructor(failed: CallbackFailed) {
    this.#watchers = new Callbacks('onMember of a document', failed);
  }

  get(address: string): LiveMember | undefined {
    return this.#members.get(address);
  }

  [Symbol.iterator](): IterableIterator<LiveMember> {
    return this.#members.values();
  }

  add(address: string, now: number): LiveMember | undefined {
    if (this.#members.has(address)) return undefined;
    const member = new LiveMember(address, now);
    this.#members.set(address, member);
    this.notify(member);
    return member;
  }

  remove(address: string): boolean {
    if (!this.#members.delete(address)) return false;
    this.#watchers.call(address, undefined);
    return true;
  }

  /** Calls the watchers with a member that has reported something. */
  notify(member: LiveMember): void {
    if (this.#watchers.size > 0) this.#watchers.call(member.address, member.view);
  }

  watch(watcher: (address: string, member: Member | undefined) => void): () => void {
    return this.#watchers.add(watcher);
  }

  get view(): ReadonlyMap<string, Member> {
    return new Map([...this.#members.values()].map((member) => [member.address, member.view]));
  }
}

export interface SegmentSenderComponents {
  runtime: Runtime;
  members: Members;
  post: (to: string, message: SyncMessage) => RoutingResult | Promise<RoutingResult>;
  /** Reports this replica's vector to a member that has nothing in flight, or could not be reached. */
  report: (member: LiveMember) => void;
  onSettled: () => void;
}

/** New segments in flight to one member; beyond that it gets none until it has caught up. */
const MAX_IN_FLIGHT = 64;
const MAX_IN_FLIGHT_BYTES = 1_048_576;
const RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

/** Limits the segments in flight to each member. A member that misses some learns it from a report, and asks for them. */
export class SegmentSender {
  readonly #components: SegmentSenderComponents;
  #closed = false;

  constructor(components: SegmentSenderComponents) {
    this.#components = components;
  }

  close(): void {
    this.#closed = true;
    for (const { retry } of this.#components.members) retry?.cancel();
  }

  /** May it be sent new segments now? If not, it is behind from now on. */
  hasRoom(member: LiveMember): boolean {
    if (member.inFlight >= MAX_IN_FLIGHT || member.inFlightBytes > MAX_IN_FLIGHT_BYTES) member.behind = true;
    return !member.behind;
  }

  send(member: LiveMember, message: SyncMessage, bytes = 0): void {
    member.inFlight++;
    member.inFlightBytes += bytes;
    const settle = (delivered: boolean) => {
      member.inFlight--;
      member.inFlightBytes -= bytes;
      if (this.#closed || this.#components.members.get(member.address) !== member) return;
      if (!delivered) this.#retryLater(member);
      else if (member.behind && member.inFlight === 0) this.#resume(member);
      else member.failures = 0;
      this.#components.onSettled();
    };
    const result = this.#components.post(member.address, message);
    if (result instanceof Promise) {
      result.then(
        ({ delivered }) => settle(delivered),
        () => settle(false),
      );
    } else settle(result.delivered);
  }

  /** From now on it gets new segments again; it asks for those it missed. */
  #resume(member: LiveMember): void {
    member.behind = false;
    this.#components.report(member);
  }

  #retryLater(member: LiveMember): void {
    member.behind = true;
    if (member.retry) return;
    const resume = () => {
      member.retry = undefined;
      this.#resume(member);
    };
    member.retry = this.#components.runtime.setTimer(resume, backoffMs(member.failures++, RETRY_MS, MAX_RETRY_MS));
  }
}

export interface SegmentRequestsComponents {
  runtime: Runtime;
  replica: Replica;
  members: Members;
  isLocal: (address: string) => boolean;
  ask: (member: LiveMember) => void;
}

/** A missing segment may be in flight: wait this long before asking for it. */
const PAUSE_MS = 50;
/** After this time another member is asked. */
const ANSWER_MS = 5_000;

/** Asks for missing segments: one member at a time, and ever less often a member that sends invalid ones. */
export class SegmentRequests {
  readonly #components: SegmentRequestsComponents;
  #asked: { readonly member: LiveMember; readonly timer: Timer } | undefined;
  #timer: Timer | undefined;
  #open = false;

  constructor(components: SegmentRequestsComponents) {
    this.#components = components;
  }

  /** Members may have reported their vectors before this replica was loaded. */
  start(): void {
    this.#open = true;
    this.soon();
  }

  close(): void {
    this.#open = false;
    this.#timer?.cancel();
    this.#asked?.timer.cancel();
  }

  /** Asks if segments are still missing after a pause. */
  soon(): void {
    if (this.#timer || !this.#open || !this.#source(false)) return;
    this.#timer = this.#components.runtime.setTimer(() => {
      this.#timer = undefined;
      this.now();
    }, PAUSE_MS);
  }

  /** Asks a member that has missing segments, unless an answer is awaited. */
  now(): void {
    if (this.#asked || !this.#open) return;
    const member = this.#source(true);
    if (!member) {
      this.soon();
      return;
    }
    const timer = this.#components.runtime.setTimer(() => {
      this.#asked = undefined;
      this.mistake(member);
      this.now();
    }, ANSWER_MS);
    this.#asked = { member, timer };
    this.#components.ask(member);
  }

  /** A member answered; `gained` of its segments were applied. */
  answered(member: LiveMember, gained: number): void {
    if (this.#asked?.member !== member) return;
    this.#end();
    // A member that withholds segments is not asked again at once.
    if (gained === 0 && this.#components.replica.lacks(member.vector)) this.mistake(member);
    this.now();
  }

  forget(member: LiveMember): void {
    if (this.#asked?.member !== member) return;
    this.#end();
    this.soon();
  }

  mistake(member: LiveMember): void {
    member.askAfter = this.#components.runtime.stopwatch() + backoffMs(member.mistakes++, RETRY_MS, MAX_RETRY_MS);
  }

  #end(): void {
    this.#asked?.timer.cancel();
    this.#asked = undefined;
  }

  /** A member that has missing segments, preferably of this node; with `now`, one that may be asked now. */
  #source(now: boolean): LiveMember | undefined {
    const { replica, runtime, members, isLocal } = this.#components;
    const sources: LiveMember[] = [];
    for (const member of members) if (replica.lacks(member.vector)) sources.push(member);
    if (sources.length === 0) return undefined;
    if (now) {
      const time = runtime.stopwatch();
      sources.splice(0, sources.length, ...sources.filter(({ askAfter }) => askAfter <= time));
    }
    return sources.find(({ address }) => isLocal(address)) ?? sources[Math.floor(runtime.random() * sources.length)];
  }
}
