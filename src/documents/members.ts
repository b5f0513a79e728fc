import { type CallbackFailed, Callbacks } from '../runtime/callbacks.js';
import type { Member } from './document.js';
import type { VectorClock } from './sync-message.js';

/** A live other replica, and what is on its way to it. */
export interface LiveMember {
  readonly address: string;
  vector: Record<string, number>;
  presence: unknown;
  seenAt: number;
  /** Did it say how far it is? */
  heard: boolean;
  /** Messages on their way to it, and their bytes. */
  inFlight: number;
  inFlightBytes: number;
  /** Does it get no new segments until it has caught up? */
  behind: boolean;
  /** When it may be asked again, after it gave what is no good. */
  askAfter: number;
  mistakes: number;
  /** How often in a row it could not be reached. */
  failures: number;
  /** Has it, at the same numbers, other segments than this replica, or lacks it a proof? */
  differs: boolean;
  /** The streams that it was sent claims or a proof of since the last heartbeat. */
  readonly told: Set<string>;
}

/** The live others of one document. */
export class Members {
  readonly #members = new Map<string, LiveMember>();
  readonly #watchers: Callbacks<[address: string, member: Member | undefined]>;

  constructor(failed: CallbackFailed) {
    this.#watchers = new Callbacks('onMember of a document', failed);
  }

  get size(): number {
    return this.#members.size;
  }

  get(address: string): LiveMember | undefined {
    return this.#members.get(address);
  }

  [Symbol.iterator](): IterableIterator<LiveMember> {
    return this.#members.values();
  }

  add(address: string, now: number): LiveMember | undefined {
    if (this.#members.has(address)) return undefined;
    const idle = { inFlight: 0, inFlightBytes: 0, behind: false, askAfter: 0, mistakes: 0, failures: 0 };
    const alike = { differs: false, told: new Set<string>() };
    const member: LiveMember = {
      address,
      vector: {},
      presence: undefined,
      seenAt: now,
      heard: false,
      ...idle,
      ...alike,
    };
    this.#members.set(address, member);
    this.tell(member);
    return member;
  }

  remove(address: string): boolean {
    if (!this.#members.delete(address)) return false;
    this.#watchers.call(address, undefined);
    return true;
  }

  /** Tells whoever watches that this member said something new. */
  tell(member: LiveMember): void {
    if (this.#watchers.size > 0) this.#watchers.call(member.address, view(member));
  }

  watch(watcher: (address: string, member: Member | undefined) => void): () => void {
    return this.#watchers.add(watcher);
  }

  get view(): ReadonlyMap<string, Member> {
    return new Map([...this.#members.values()].map((member) => [member.address, view(member)]));
  }
}

function view({ vector, presence, seenAt }: LiveMember): Member {
  return { vector: vector as VectorClock, presence, seenAt };
}
