import type { LogEffects, LogEvent, SeatLog } from './seat-log.js';
import type { MessageOf, RaftMessage } from './swarm-messages.js';
import { type Entry, type SwarmRecord, weighRecord } from './swarm-records.js';

type RaftEffects = Pick<LogEffects, 'send' | 'keep'>;

/** What a seat has on disk when it begins, or begins again. */
export interface RaftMemory {
  readonly term: number;
  readonly votedFor: string | null;
  readonly log: Entry[];
  /** How many records are known to be committed. Default 0: the arbiter says so. */
  readonly settled?: number;
}

export interface RaftTiming {
  readonly leaseMs: number;
  readonly beatMs: number;
}

/** Characters of JSON in one message, approximately. */
const APPEND_CHARS = 262_144;

/**
 * A record log without a broker: Raft with a fixed electorate, the seats, whose leader is called the arbiter. A seat
 * votes once a term, an arbiter needs a majority, and no seat becomes arbiter whose log is behind its voters' logs. An
 * entry is committed when a majority has it in the arbiter's own term; so every later arbiter has every committed entry.
 * Deterministic: time comes in with the events, and sends and writes go out through `effects`.
 */
export class RaftLog implements SeatLog {
  readonly me: string;
  leader: string | undefined;
  readonly #seats: readonly string[];
  readonly #log: Entry[];
  #term: number;
  #votedFor: string | null;
  #role: 'follower' | 'candidate' | 'arbiter' = 'follower';
  #commitIndex: number;
  #heardMajorityAt: number;
  readonly #timing: RaftTiming;
  readonly #effects: RaftEffects;
  readonly #others: readonly string[];
  readonly #followers = new Map<string, Follower>();
  readonly #votes = new Set<string>();
  /** How much of the log is on this seat's disk. */
  #storedIndex: number;
  #heardAt: number;
  #preVoteAt = Number.NEGATIVE_INFINITY;
  #isPreVoting = false;

  constructor(
    me: string,
    seats: readonly string[],
    memory: RaftMemory,
    timing: RaftTiming,
    effects: RaftEffects,
    now: number,
  ) {
    this.me = me;
    this.#seats = seats;
    this.#log = memory.log;
    this.#term = memory.term;
    this.#votedFor = memory.votedFor;
    this.#commitIndex = memory.settled ?? 0;
    this.#storedIndex = memory.log.length;
    this.#timing = timing;
    this.#effects = effects;
    this.#others = seats.filter((seat) => seat !== me);
    this.#heardAt = now;
    this.#heardMajorityAt = now;
  }

  /** The term. */
  get epoch(): number {
    return this.#term;
  }

  get isLeading(): boolean {
    return this.#role === 'arbiter';
  }

  get last(): number {
    return this.#log.length;
  }

  get settled(): number {
    return this.#commitIndex;
  }

  /** When a majority was last in touch with this arbiter. */
  get inTouchAt(): number {
    return this.#heardMajorityAt;
  }

  read(above: number, upTo?: number): readonly Entry[] {
    return this.#log.slice(above, upTo);
  }

  /** The arbiter appends records. They are sent with the next `flush`. */
  append(expectedLast: number, records: readonly SwarmRecord[]): boolean {
    if (!this.isLeading || expectedLast !== this.last) return false;
    this.#propose(records);
    return true;
  }

  get #majority(): number {
    return Math.floor(this.#seats.length / 2) + 1;
  }

  /** Takes the first term without a vote. */
  create(now: number): void {
    this.#term = 1;
    this.#votedFor = this.me;
    this.#effects.keep({ term: 1, votedFor: this.me });
    this.#lead(now);
  }

  #propose(records: readonly SwarmRecord[]): void {
    const [term, votedFor] = [this.#term, this.#votedFor];
    const from = this.#log.length + 1;
    const entries = records.map((record) => ({ epoch: term, record }));
    this.#log.push(...entries);
    this.#effects.keep({ term, votedFor, from, entries });
  }

  /** Sends new entries to the followers that have no earlier append in flight. */
  flush(): void {
    if (this.#role !== 'arbiter') return;
    for (const [seat, follower] of this.#followers) {
      if (!follower.inFlight && follower.nextIndex <= this.#log.length) this.#append(seat, follower);
    }
  }

  take(event: LogEvent, now: number): void {
    if (event.type === 'kept') this.#stored(event.term, event.n);
    else if (event.type === 'message') this.#receive(event.from, event.message, now);
  }

  /** Followers hear of the arbiter by its appends. */
  heard(): void {}

  #stored(term: number, n: number): void {
    // Entries that were written in an earlier term may have been replaced since.
    if (term === this.#term) this.#storedIndex = Math.max(this.#storedIndex, Math.min(n, this.#log.length));
    if (this.#role === 'arbiter') this.#commit();
  }

  tick(now: number): void {
    if (this.#role === 'arbiter') {
      for (const [seat, follower] of this.#followers) this.#append(seat, follower);
      this.#noteMajority(now);
      this.#heardAt = now;
      return;
    }
    const { leaseMs, beatMs } = this.#timing;
    const turn = this.#rank() * beatMs;
    if (now - this.#heardAt < leaseMs + turn || now - this.#preVoteAt < leaseMs / 2 + turn) return;
    this.#startPreVote(now);
  }

  #receive(from: string, message: RaftMessage, now: number): void {
    if (!this.#others.includes(from)) return;
    switch (message.type) {
      case 'append':
        return void this.#onAppend(from, message, now);
      case 'ack':
        return void this.#onAck(from, message, now);
      case 'ask':
        return void this.#onRequestVote(from, message, now);
      case 'vote':
        return void this.#onVote(from, message, now);
    }
  }

  /** How many seats come before this one when the arbiter is gone: they stand in the order of the seats. */
  #rank(): number {
    const last = this.leader === undefined ? -1 : this.#seats.indexOf(this.leader);
    const mine = this.#seats.indexOf(this.me);
    return (mine - last - 1 + this.#seats.length) % this.#seats.length;
  }

  /** Asks first whether it could win: a seat that was cut off would otherwise disturb all others on its return. */
  #startPreVote(now: number): void {
    this.#preVoteAt = now;
    this.#isPreVoting = true;
    this.#votes.clear();
    this.#votes.add(this.me);
    if (this.#votes.size >= this.#majority) this.#startElection(now);
    else this.#requestVotes(this.#term + 1, true);
  }

  #startElection(now: number): void {
    this.#isPreVoting = false;
    this.#role = 'candidate';
    this.leader = undefined;
    this.#term++;
    this.#votedFor = this.me;
    this.#votes.clear();
    this.#votes.add(this.me);
    this.#effects.keep({ term: this.#term, votedFor: this.me });
    if (this.#votes.size >= this.#majority) this.#win(now);
    else this.#requestVotes(this.#term, false);
  }

  #requestVotes(epoch: number, trial: boolean): void {
    const last = this.#log.length;
    const message = { type: 'ask', epoch, last, lastEpoch: this.#termAt(last), trial } as const;
    for (const seat of this.#others) this.#effects.send(seat, message);
  }

  #onRequestVote(from: string, { epoch, last, lastEpoch, trial }: MessageOf<'ask'>, now: number): void {
    const lastTerm = this.#termAt(this.#log.length);
    const isBehind = lastEpoch < lastTerm || (lastEpoch === lastTerm && last < this.#log.length);
    if (trial) {
      const hasArbiter = this.#role === 'arbiter' || now - this.#heardAt < this.#timing.leaseMs;
      const granted = epoch > this.#term && !isBehind && !hasArbiter;
      this.#effects.send(from, { type: 'vote', epoch, granted, trial });
      return;
    }
    if (epoch > this.#term) this.#stepDown(epoch, undefined);
    const granted = epoch === this.#term && !isBehind && (this.#votedFor === null || this.#votedFor === from);
    if (granted && this.#votedFor === null) {
      this.#votedFor = from;
      this.#effects.keep({ term: epoch, votedFor: from });
      // Gives the candidate the time to win before this seat stands.
      this.#heardAt = now;
    }
    this.#effects.send(from, { type: 'vote', epoch: this.#term, granted, trial });
  }

  #onVote(from: string, { epoch, granted, trial }: MessageOf<'vote'>, now: number): void {
    if (!trial && epoch > this.#term) {
      this.#stepDown(epoch, undefined);
      return;
    }
    if (!granted) return;
    if (trial) {
      if (!this.#isPreVoting || this.#role === 'arbiter' || epoch !== this.#term + 1) return;
      this.#votes.add(from);
      if (this.#votes.size >= this.#majority) this.#startElection(now);
    } else if (this.#role === 'candidate' && epoch === this.#term) {
      this.#votes.add(from);
      if (this.#votes.size >= this.#majority) this.#win(now);
    }
  }

  #win(now: number): void {
    this.#lead(now);
    this.#propose([{ type: 'arbiter', address: this.me }]);
    this.flush();
  }

  #lead(now: number): void {
    this.#role = 'arbiter';
    this.leader = this.me;
    this.#heardMajorityAt = now;
    this.#followers.clear();
    for (const seat of this.#others) {
      this.#followers.set(seat, { nextIndex: this.#log.length + 1, matchIndex: 0, inFlight: false, heardAt: now });
    }
  }

  #stepDown(term: number, arbiter: string | undefined): void {
    if (term > this.#term) {
      this.#term = term;
      this.#votedFor = null;
      this.#effects.keep({ term, votedFor: null });
    }
    this.#role = 'follower';
    this.#isPreVoting = false;
    this.leader = arbiter;
    this.#followers.clear();
  }

  #append(seat: string, follower: Follower): void {
    const prior = follower.nextIndex - 1;
    const entries: Entry[] = [];
    for (let n = prior, chars = 0; n < this.#log.length && chars < APPEND_CHARS; n++) {
      entries.push(this.#log[n]!);
      chars += weighRecord(this.#log[n]!.record);
    }
    follower.inFlight = entries.length > 0;
    const about = { epoch: this.#term, prior, priorEpoch: this.#termAt(prior) };
    this.#effects.send(seat, { type: 'append', ...about, entries, settled: this.#commitIndex });
  }

  #onAppend(from: string, message: MessageOf<'append'>, now: number): void {
    const { epoch, prior, priorEpoch, entries, settled } = message;
    if (epoch < this.#term) {
      this.#effects.send(from, { type: 'ack', epoch: this.#term, n: 0, taken: false });
      return;
    }
    this.#stepDown(epoch, from);
    this.#heardAt = now;
    if (prior > this.#log.length || this.#termAt(prior) !== priorEpoch) {
      // Committed entries are the same everywhere, so the logs agree at least up to the commit index.
      const n = Math.max(this.#commitIndex, Math.min(this.#log.length, prior - 1));
      this.#effects.send(from, { type: 'ack', epoch, n, taken: false });
      return;
    }
    const n = prior + entries.length;
    let at = prior;
    while (at < n && at < this.#log.length && this.#termAt(at + 1) === entries[at - prior]!.epoch) at++;
    const fresh = entries.slice(at - prior);
    if (fresh.length > 0) {
      this.#log.length = at;
      this.#log.push(...fresh);
      this.#storedIndex = Math.min(this.#storedIndex, at);
      this.#effects.keep({ term: this.#term, votedFor: this.#votedFor, from: at + 1, entries: fresh });
    }
    this.#commitIndex = Math.max(this.#commitIndex, Math.min(settled, n));
    this.#effects.send(from, { type: 'ack', epoch, n, taken: true });
  }

  #onAck(from: string, { epoch, n, taken }: MessageOf<'ack'>, now: number): void {
    if (epoch > this.#term) {
      this.#stepDown(epoch, undefined);
      return;
    }
    const follower = this.#followers.get(from);
    if (this.#role !== 'arbiter' || epoch !== this.#term || !follower) return;
    follower.heardAt = now;
    follower.inFlight = false;
    this.#noteMajority(now);
    if (taken) {
      follower.matchIndex = Math.max(follower.matchIndex, Math.min(n, this.#log.length));
      follower.nextIndex = follower.matchIndex + 1;
      this.#commit();
    } else follower.nextIndex = Math.max(follower.matchIndex, Math.min(n, follower.nextIndex - 2)) + 1;
    if (follower.nextIndex <= this.#log.length) this.#append(from, follower);
  }

  /** Only entries of the present term are counted; those before them are committed with them. */
  #commit(): void {
    const stored = [...this.#followers.values()].map(({ matchIndex }) => matchIndex);
    const n = [this.#storedIndex, ...stored].sort((a, b) => b - a)[this.#majority - 1]!;
    if (n > this.#commitIndex && this.#termAt(n) === this.#term) this.#commitIndex = n;
  }

  #noteMajority(now: number): void {
    const heard = [...this.#followers.values()].map(({ heardAt }) => heardAt);
    this.#heardMajorityAt = [now, ...heard].sort((a, b) => b - a)[this.#majority - 1]!;
  }

  #termAt(n: number): number {
    return n === 0 ? 0 : (this.#log[n - 1]?.epoch ?? -1);
  }
}

/** What the arbiter knows of another seat. */
interface Follower {
  /** The next entry to send, optimistically. */
  nextIndex: number;
  matchIndex: number;
  /** An append is on its way, whose answer says what to send next. */
  inFlight: boolean;
  heardAt: number;
}
