import type { Entry, SwarmRecord } from './swarm-records.js';

/** What seats say to each other. */
export type RaftMessage =
  /** The arbiter's records behind `prior`, and how far they are settled; without records, that it is there. */
  | {
      readonly type: 'append';
      readonly epoch: number;
      readonly prior: number;
      readonly priorEpoch: number;
      readonly entries: readonly Entry[];
      readonly settled: number;
    }
  /** Has everything up to `n`; or, not taken, at most what is up to `n` can be the same. */
  | { readonly type: 'ack'; readonly epoch: number; readonly n: number; readonly taken: boolean }
  /** May I be the arbiter of that epoch? A trial asks without binding anybody. */
  | {
      readonly type: 'ask';
      readonly epoch: number;
      readonly last: number;
      readonly lastEpoch: number;
      readonly trial: boolean;
    }
  | { readonly type: 'vote'; readonly epoch: number; readonly granted: boolean; readonly trial: boolean };

/** What must be on disk before anything is said that relies on it. */
export interface RaftWrite {
  readonly epoch: number;
  readonly vote: string | null;
  /** Entries from that number on are these; what was there goes. */
  readonly from?: number;
  readonly entries?: readonly Entry[];
}

export interface RaftEffects {
  send(to: string, message: RaftMessage): void;
  keep(keep: RaftWrite): void;
}

/** What a seat knows when it begins, or begins again. */
export interface RaftMemory {
  readonly epoch: number;
  readonly vote: string | null;
  readonly log: Entry[];
}

export interface RaftTiming {
  readonly leaseMs: number;
  readonly beatMs: number;
}

/** Characters of JSON in one message, approximately. */
const APPEND_CHARS = 262_144;

/**
 * How the seats of a swarm agree on one sequence of records, whoever of them dies or is cut off, as long as a majority
 * is in touch: Raft's rules, with a fixed electorate. There is one arbiter an epoch, for a seat gives one vote an
 * epoch and an arbiter needs a majority; nobody becomes arbiter whose log is behind that of its voters; and a record
 * is settled when a majority has it under the epoch of the present arbiter. So a settled record is in every later
 * arbiter's log. Deterministic: time comes in with the events, and what it wants done goes to `effects`.
 */
export class RaftLog {
  readonly me: string;
  readonly seats: readonly string[];
  readonly log: Entry[];
  epoch: number;
  vote: string | null;
  role: 'follower' | 'candidate' | 'arbiter' = 'follower';
  /** Of the present epoch, where it is known. */
  arbiter: string | undefined;
  settled = 0;
  /** Of the arbiter: when a majority was last in touch. */
  heardMajorityAt: number;
  readonly #rules: RaftTiming;
  readonly #effects: RaftEffects;
  readonly #others: readonly string[];
  readonly #followers = new Map<string, Follower>();
  readonly #votes = new Set<string>();
  /** How much of the log is on this seat's disk. */
  #kept: number;
  #heardAt: number;
  #trialAt = Number.NEGATIVE_INFINITY;
  #trial = false;

  constructor(
    me: string,
    seats: readonly string[],
    memory: RaftMemory,
    rules: RaftTiming,
    effects: RaftEffects,
    now: number,
  ) {
    this.me = me;
    this.seats = seats;
    this.log = memory.log;
    this.epoch = memory.epoch;
    this.vote = memory.vote;
    this.#kept = memory.log.length;
    this.#rules = rules;
    this.#effects = effects;
    this.#others = seats.filter((seat) => seat !== me);
    this.#heardAt = now;
    this.heardMajorityAt = now;
  }

  get majority(): number {
    return Math.floor(this.seats.length / 2) + 1;
  }

  /** Takes the first epoch, without asking: only the creator does so, and only when nobody else knows of the swarm. */
  create(now: number): void {
    this.epoch = 1;
    this.vote = this.me;
    this.#effects.keep({ epoch: 1, vote: this.me });
    this.#rule(now);
  }

  /** The arbiter adds records. They leave with the next `flush`. */
  propose(records: readonly SwarmRecord[]): void {
    const from = this.log.length + 1;
    const entries = records.map((record) => ({ epoch: this.epoch, record }));
    this.log.push(...entries);
    this.#effects.keep({ epoch: this.epoch, vote: this.vote, from, entries });
  }

  /** Sends what the other seats have not been sent yet, to those that are not busy with something before it. */
  flush(): void {
    if (this.role !== 'arbiter') return;
    for (const [seat, follower] of this.#followers) {
      if (!follower.busy && follower.has < this.log.length) this.#append(seat, follower);
    }
  }

  /** What this seat itself has written is on its disk. */
  kept(epoch: number, n: number): void {
    // What was written under an epoch that is over may have been replaced since.
    if (epoch === this.epoch) this.#kept = Math.max(this.#kept, Math.min(n, this.log.length));
    if (this.role === 'arbiter') this.#settle();
  }

  tick(now: number): void {
    if (this.role === 'arbiter') {
      for (const [seat, follower] of this.#followers) this.#append(seat, follower);
      this.#noteMajority(now);
      this.#heardAt = now;
      return;
    }
    const silent = now - this.#heardAt;
    if (silent < this.#rules.leaseMs + this.#rank() * this.#rules.beatMs) return;
    if (now - this.#trialAt < this.#rules.leaseMs / 2 + this.#rank() * this.#rules.beatMs) return;
    this.#stand(now);
  }

  receive(from: string, message: RaftMessage, now: number): void {
    if (!this.#others.includes(from)) return;
    switch (message.type) {
      case 'append':
        this.#onAppend(from, message, now);
        return;
      case 'ack':
        this.#onAck(from, message, now);
        return;
      case 'ask':
        this.#onAsk(from, message, now);
        return;
      case 'vote':
        this.#onVote(from, message, now);
        return;
    }
  }

  /** How many seats come before this one when the arbiter is gone: they follow each other in the order of the seats. */
  #rank(): number {
    const last = this.arbiter === undefined ? -1 : this.seats.indexOf(this.arbiter);
    const mine = this.seats.indexOf(this.me);
    return (mine - last - 1 + this.seats.length) % this.seats.length;
  }

  /** Asks whether it could win before it takes an epoch: who is cut off would otherwise disturb everyone on its return. */
  #stand(now: number): void {
    this.#trialAt = now;
    this.#trial = true;
    this.#votes.clear();
    this.#votes.add(this.me);
    if (this.#votes.size >= this.majority) {
      this.#campaign(now);
      return;
    }
    this.#ask(this.epoch + 1, true);
  }

  #campaign(now: number): void {
    this.#trial = false;
    this.role = 'candidate';
    this.arbiter = undefined;
    this.epoch++;
    this.vote = this.me;
    this.#votes.clear();
    this.#votes.add(this.me);
    this.#effects.keep({ epoch: this.epoch, vote: this.me });
    if (this.#votes.size >= this.majority) {
      this.#win(now);
      return;
    }
    this.#ask(this.epoch, false);
  }

  #ask(epoch: number, trial: boolean): void {
    const last = this.log.length;
    for (const seat of this.#others)
      this.#effects.send(seat, { type: 'ask', epoch, last, lastEpoch: this.#epochAt(last), trial });
  }

  #onAsk(from: string, { epoch, last, lastEpoch, trial }: Extract<RaftMessage, { type: 'ask' }>, now: number): void {
    const mine = this.log.length;
    const behind = lastEpoch < this.#epochAt(mine) || (lastEpoch === this.#epochAt(mine) && last < mine);
    const content = this.role === 'arbiter' || now - this.#heardAt < this.#rules.leaseMs;
    if (trial) {
      const granted = epoch > this.epoch && !behind && !content;
      this.#effects.send(from, { type: 'vote', epoch, granted, trial });
      return;
    }
    if (epoch > this.epoch) this.#follow(epoch, undefined);
    const granted = epoch === this.epoch && !behind && (this.vote === null || this.vote === from);
    if (granted && this.vote === null) {
      this.vote = from;
      this.#effects.keep({ epoch, vote: from });
      // Whoever got this vote deserves the time to use it.
      this.#heardAt = now;
    }
    this.#effects.send(from, { type: 'vote', epoch: this.epoch, granted, trial });
  }

  #onVote(from: string, { epoch, granted, trial }: Extract<RaftMessage, { type: 'vote' }>, now: number): void {
    if (!trial && epoch > this.epoch) {
      this.#follow(epoch, undefined);
      return;
    }
    if (!granted) return;
    if (trial) {
      if (!this.#trial || this.role === 'arbiter' || epoch !== this.epoch + 1) return;
      this.#votes.add(from);
      if (this.#votes.size >= this.majority) this.#campaign(now);
    } else if (this.role === 'candidate' && epoch === this.epoch) {
      this.#votes.add(from);
      if (this.#votes.size >= this.majority) this.#win(now);
    }
  }

  #win(now: number): void {
    this.#rule(now);
    this.propose([{ type: 'arbiter', address: this.me }]);
    this.flush();
  }

  #rule(now: number): void {
    this.role = 'arbiter';
    this.arbiter = this.me;
    this.heardMajorityAt = now;
    this.#followers.clear();
    for (const seat of this.#others)
      this.#followers.set(seat, { has: this.log.length, match: 0, busy: false, heardAt: now });
  }

  /** The role ends, and perhaps the epoch. */
  #follow(epoch: number, arbiter: string | undefined): void {
    if (epoch > this.epoch) {
      this.epoch = epoch;
      this.vote = null;
      this.#effects.keep({ epoch, vote: null });
    }
    this.role = 'follower';
    this.#trial = false;
    this.arbiter = arbiter;
    this.#followers.clear();
  }

  #append(seat: string, follower: Follower): void {
    const prior = follower.has;
    const entries: Entry[] = [];
    for (let n = prior, chars = 0; n < this.log.length && chars < APPEND_CHARS; n++) {
      entries.push(this.log[n]!);
      chars += weigh(this.log[n]!.record);
    }
    follower.busy = entries.length > 0;
    const { epoch, settled } = this;
    this.#effects.send(seat, { type: 'append', epoch, prior, priorEpoch: this.#epochAt(prior), entries, settled });
  }

  #onAppend(from: string, message: Extract<RaftMessage, { type: 'append' }>, now: number): void {
    const { epoch, prior, priorEpoch, entries, settled } = message;
    if (epoch < this.epoch) {
      this.#effects.send(from, { type: 'ack', epoch: this.epoch, n: 0, taken: false });
      return;
    }
    this.#follow(epoch, from);
    this.#heardAt = now;
    if (prior > this.log.length || this.#epochAt(prior) !== priorEpoch) {
      // Settled records are the same everywhere, so agreement is at or behind them.
      const n = Math.max(this.settled, Math.min(this.log.length, prior - 1));
      this.#effects.send(from, { type: 'ack', epoch, n, taken: false });
      return;
    }
    let at = prior;
    while (at < prior + entries.length && at < this.log.length && this.#epochAt(at + 1) === entries[at - prior]!.epoch)
      at++;
    const fresh = entries.slice(at - prior);
    if (fresh.length > 0) {
      this.log.length = at;
      this.log.push(...fresh);
      this.#kept = Math.min(this.#kept, at);
      this.#effects.keep({ epoch: this.epoch, vote: this.vote, from: at + 1, entries: fresh });
    }
    const n = prior + entries.length;
    this.settled = Math.max(this.settled, Math.min(settled, n));
    this.#effects.send(from, { type: 'ack', epoch, n, taken: true });
  }

  #onAck(from: string, { epoch, n, taken }: Extract<RaftMessage, { type: 'ack' }>, now: number): void {
    if (epoch > this.epoch) {
      this.#follow(epoch, undefined);
      return;
    }
    const follower = this.#followers.get(from);
    if (this.role !== 'arbiter' || epoch !== this.epoch || !follower) return;
    follower.heardAt = now;
    follower.busy = false;
    this.#noteMajority(now);
    if (taken) {
      follower.match = Math.max(follower.match, Math.min(n, this.log.length));
      follower.has = follower.match;
      this.#settle();
    } else follower.has = Math.max(follower.match, Math.min(n, follower.has - 1));
    if (follower.has < this.log.length) this.#append(from, follower);
  }

  #settle(): void {
    const reached = [this.#kept, ...[...this.#followers.values()].map(({ match }) => match)].sort((a, b) => b - a);
    const n = reached[this.majority - 1]!;
    if (n > this.settled && this.#epochAt(n) === this.epoch) this.settled = n;
  }

  #noteMajority(now: number): void {
    const heard = [now, ...[...this.#followers.values()].map(({ heardAt }) => heardAt)].sort((a, b) => b - a);
    this.heardMajorityAt = heard[this.majority - 1]!;
  }

  #epochAt(n: number): number {
    return n === 0 ? 0 : (this.log[n - 1]?.epoch ?? -1);
  }
}

interface Follower {
  /** What it has, as far as is known or hoped. */
  has: number;
  /** What it has for sure. */
  match: number;
  /** Is an append on its way, whose answer says what to send next? */
  busy: boolean;
  heardAt: number;
}

/** About how long a record is as JSON. Only the large ones are looked at closely. */
function weigh(record: SwarmRecord): number {
  if (record.type === 'plan' || record.type === 'result' || record.type === 'open' || record.type === 'failure')
    return JSON.stringify(record).length;
  return 128;
}
