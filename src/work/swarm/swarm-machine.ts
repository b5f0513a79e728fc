import { RaftLog, type RaftMemory } from './raft-log.js';
import { SwarmArbiter } from './swarm-arbiter.js';
import { SwarmBoard } from './swarm-board.js';
import type { SwarmEffect } from './swarm-effects.js';
import type { Member, SwarmOpening, SwarmRecord } from './swarm-records.js';
import type { Finding, SwarmMessage } from './swarm-wire.js';
import { SwarmWorker } from './swarm-worker.js';

export type SwarmEvent =
  | { readonly type: 'tick' }
  | { readonly type: 'message'; readonly from: string; readonly message: SwarmMessage }
  /** What was to be kept is on disk, up to that record. */
  | { readonly type: 'kept'; readonly epoch: number; readonly n: number }
  /** The worker of this member is done. */
  | { readonly type: 'worked'; readonly lease: number; readonly finding: Finding }
  | { readonly type: 'load'; readonly load: number }
  | { readonly type: 'join'; readonly member: Member }
  /** This member, who created the swarm, wants it to end. */
  | { readonly type: 'cancel'; readonly reason: string };

/** What a member kept of a swarm, from before its node stopped. */
export interface SwarmMemory extends RaftMemory {
  /** Of a member without a seat. */
  readonly opening: SwarmOpening | undefined;
  readonly findings: ReadonlyMap<number, { readonly subTask: string; readonly finding: Finding }>;
  readonly ended: boolean;
}

export interface SwarmMachineInit {
  readonly me: string;
  readonly swarmId: string;
  /** Whom to believe about what the swarm is: its creator, or whoever was asked to let this member join. */
  readonly sponsor: string;
  /** May it get a seat? Not who joins later: it may have had one before, and have forgotten what it promised. */
  readonly seat: boolean;
  readonly now: number;
  readonly memory?: SwarmMemory;
  /** With no majority in touch for this long, the swarm counts as stalled. */
  readonly stallMs: number;
}

/** How long an ended swarm is told of to members that do not answer. */
const LINGER_MS = 300_000;

/**
 * One member's part in one swarm: it may be a seat, the arbiter, a worker, or several of these. Events in, effects
 * out; the same events always give the same effects. It changes in place: a swarm may have ten thousand sub-tasks.
 */
export class SwarmMachine {
  readonly me: string;
  /** What is settled, as far as this member knows. Only seats know it from the records. */
  readonly board = new SwarmBoard();
  swarm: SwarmOpening | undefined;
  arbiter: string | undefined;
  epoch = 0;
  /** Why nothing can be settled, if so. */
  stalled: string | undefined;
  endedAs: { readonly status: 'completed' | 'failed'; readonly reason?: string } | undefined;
  readonly #init: SwarmMachineInit;
  #raft: RaftLog | undefined;
  #arbiterRole: SwarmArbiter | undefined;
  #worker: SwarmWorker;
  #applied = 0;
  #load = 0;
  #cancelled: string | undefined;
  #sponsor: string;
  /** What it says of itself until it is taken in. */
  #joining: Member | undefined;
  #late = 0;
  /** When it last heard of an arbiter that a majority follows. */
  #firmAt: number;
  #awakeUntil = Number.NEGATIVE_INFINITY;
  #now: number;
  #effects: SwarmEffect[] = [];

  constructor(init: SwarmMachineInit) {
    this.me = init.me;
    this.#init = init;
    this.#sponsor = init.sponsor;
    this.#now = init.now;
    this.#firmAt = init.now;
    this.#worker = new SwarmWorker(this.#emit, init.memory?.findings);
    if (init.memory) this.#remember(init.memory);
  }

  get isArbiter(): boolean {
    return this.#arbiterRole !== undefined;
  }

  /** Does its word count when records are settled? */
  get seated(): boolean {
    return this.#raft !== undefined;
  }

  /** Is there nothing to do until somebody says something? */
  get resting(): boolean {
    return this.endedAs !== undefined && (this.#now > this.#awakeUntil || this.#arbiterRole?.everybodyKnows === true);
  }

  /** Is what the board says what a majority knows? Not while this member is out of touch. */
  get confirmed(): boolean {
    return this.endedAs !== undefined || this.#now - this.#inTouchAt() <= (this.swarm?.rules.leaseMs ?? 0);
  }

  /** Has the arbiter written of this sub-task what is not settled yet? */
  unconfirmed(subTask: string): boolean {
    const written = this.#arbiterRole?.tentative.subTasks.get(subTask);
    const settled = this.board.subTasks.get(subTask);
    return written !== undefined && (written.status !== settled?.status || written.lease !== settled.lease);
  }

  /** Results that this member dropped as arbiter: another one was first, or their lease was over. */
  get late(): number {
    return this.#late + (this.#arbiterRole?.late ?? 0);
  }

  /** Begins a swarm, as its creator. */
  create(swarm: SwarmOpening, plan: readonly SwarmRecord[], now: number): readonly SwarmEffect[] {
    this.#now = now;
    this.#adopt(swarm, { epoch: 0, vote: null, log: [] });
    this.#raft!.create(now);
    this.#becomeArbiter();
    this.#arbiterRole!.propose([{ type: 'open', swarm }, ...plan, { type: 'begin' }]);
    this.#arbiterRole!.decide();
    return this.#finish();
  }

  step(event: SwarmEvent, now: number): readonly SwarmEffect[] {
    this.#now = now;
    switch (event.type) {
      case 'tick':
        this.#tick();
        break;
      case 'message':
        this.#receive(event.from, event.message);
        break;
      case 'kept':
        this.#raft?.kept(event.epoch, event.n);
        break;
      case 'worked':
        this.#worker.worked(event.lease, event.finding, this.arbiter);
        break;
      case 'load':
        this.#load = event.load;
        break;
      case 'join':
        if (this.#arbiterRole) this.#arbiterRole.join(event.member);
        this.#joining = event.member;
        this.#join();
        break;
      case 'cancel':
        this.#cancelled = event.reason;
        this.#cancel();
    }
    return this.#finish();
  }

  #tick(): void {
    this.#raft?.tick(this.#now);
    this.#arbiterRole?.tick(this.#now);
    if (this.#arbiterRole) {
      // As a worker the arbiter follows itself, and sends itself no beats.
      this.#worker.comply(this.me, this.#applied, this.#arbiterRole.leasesOf(this.me));
      this.#arbiterRole.remind(this.me, this.#worker.leases);
    }
    this.#cancel();
    this.#join();
    this.#judgeStall();
  }

  #inTouchAt(): number {
    return this.#arbiterRole ? this.#raft!.heardMajorityAt : this.#firmAt;
  }

  #judgeStall(): void {
    if (this.endedAs) return;
    const stalled = this.#now - this.#inTouchAt() > this.#init.stallMs;
    if (stalled === (this.stalled !== undefined)) return;
    this.stalled = stalled ? this.#whyStalled() : undefined;
    this.#emit(this.stalled === undefined ? { type: 'resumed' } : { type: 'stalled', reason: this.stalled });
  }

  #whyStalled(): string {
    if (!this.swarm) return 'nothing was heard of the swarm';
    if (this.#arbiterRole) return `no majority of the swarm’s ${this.swarm.seats.length} seats can be reached`;
    return 'the swarm’s arbiter cannot be reached, and no other has been agreed on';
  }

  #receive(from: string, message: SwarmMessage): void {
    this.#arbiterRole?.heard(from, this.#now);
    switch (message.type) {
      case 'append':
        this.#onAppend(from, message);
        return;
      case 'ask':
        // Somebody was away when the swarm ended, and must hear of it.
        if (this.endedAs) this.#awakeUntil = this.#now + LINGER_MS;
        this.#raft?.receive(from, message, this.#now);
        return;
      case 'ack':
      case 'vote':
        this.#raft?.receive(from, message, this.#now);
        return;
      case 'beat':
        this.#onBeat(from, message);
        return;
      case 'work':
        if (!this.#obeys(from, message.epoch) || this.endedAs) return;
        this.#follow(from, message.epoch);
        this.#worker.begin(message.lease, message.work);
        return;
      case 'taken':
        if (this.swarm?.seats.includes(from)) this.#worker.letGo(message.leases);
        return;
      case 'pulse':
        this.#arbiterRole?.pulse(from, message);
        return;
      case 'found':
        this.#arbiterRole?.found(from, message);
        return;
      case 'join':
        if (message.member.address !== from) return;
        if (this.#arbiterRole) this.#arbiterRole.join(message.member);
        else if (this.arbiter !== undefined)
          this.#emit({ type: 'send', to: from, message: { type: 'refer', arbiter: this.arbiter } });
        return;
      case 'refer':
        // Only who is asked may point to another, and only before this member knows better.
        if (from !== this.#sponsor || this.swarm) return;
        this.#sponsor = message.arbiter;
        this.#join();
        return;
      case 'cancel':
        if (from === this.swarm?.creator) this.#arbiterRole?.cancel(message.reason);
    }
  }

  /** A seat learns what the swarm is from the first record, and that from nobody but the creator. */
  #onAppend(from: string, message: Extract<SwarmMessage, { type: 'append' }>): void {
    const first = message.prior === 0 ? message.entries[0]?.record : undefined;
    if (!this.#raft && this.#init.seat && first?.type === 'open' && this.#believes(from, first.swarm))
      this.#adopt(first.swarm, { epoch: 0, vote: null, log: [] });
    if (!this.#raft) return;
    this.#raft.receive(from, message, this.#now);
    if (this.#raft.arbiter === from) this.#follow(from, this.#raft.epoch);
  }

  #onBeat(from: string, { epoch, settled, holds, firm, ended, swarm }: Extract<SwarmMessage, { type: 'beat' }>): void {
    if (swarm && !this.#raft && this.#believes(from, swarm)) {
      this.swarm = swarm;
      this.#emit({ type: 'keep-opening', swarm });
      this.#emit({ type: 'changed', subTasks: [] });
    }
    if (!this.#obeys(from, epoch)) return;
    this.#follow(from, epoch);
    if (firm) this.#firmAt = this.#now;
    this.#worker.comply(from, settled, holds);
    // A seat hears of the end by the records, so that it has the results too.
    if (ended && !this.#raft) this.#end(ended);
    const members = this.#raft ? this.board.members.size : (this.swarm?.members.length ?? 0);
    const about = { epoch, load: this.#load, holding: this.#worker.leases, members };
    this.#emit({ type: 'send', to: from, message: { type: 'pulse', ...about, ended: this.endedAs !== undefined } });
  }

  /** Whoever knows the swarm's id and says that it has a seat in it, by the word of the one who invited. */
  #believes(from: string, swarm: SwarmOpening): boolean {
    const { swarmId } = this.#init;
    const sponsor = this.#sponsor;
    if (swarm.id !== swarmId) return false;
    const seated = (swarm.creator === sponsor ? swarm.seats : this.swarm?.seats)?.includes(from);
    return from === sponsor || seated === true;
  }

  #obeys(from: string, epoch: number): boolean {
    if (!this.swarm?.seats.includes(from)) return false;
    return epoch > this.epoch || (epoch === this.epoch && (this.arbiter === undefined || this.arbiter === from));
  }

  #follow(arbiter: string, epoch: number): void {
    this.arbiter = arbiter;
    this.epoch = epoch;
  }

  /** Said again with each beat until it is taken in. */
  #join(): void {
    const member = this.#joining;
    const known = this.swarm?.members.some(({ address }) => address === this.me) || this.board.members.has(this.me);
    if (!member || known || this.#arbiterRole || this.endedAs) return;
    this.#emit({ type: 'send', to: this.arbiter ?? this.#sponsor, message: { type: 'join', member } });
  }

  /** Said again with each beat until it has ended: the arbiter may be another by then. */
  #cancel(): void {
    if (this.#cancelled === undefined || this.endedAs) return;
    const reason = this.#cancelled;
    if (this.#arbiterRole) this.#arbiterRole.cancel(reason);
    else if (this.arbiter) this.#emit({ type: 'send', to: this.arbiter, message: { type: 'cancel', reason } });
  }

  #adopt(swarm: SwarmOpening, memory: RaftMemory): void {
    this.swarm = swarm;
    if (!swarm.seats.includes(this.me)) return;
    const { leaseMs } = swarm.rules;
    this.#raft = new RaftLog(
      this.me,
      swarm.seats,
      memory,
      { leaseMs, beatMs: beatMs(swarm) },
      {
        send: (to, message) => this.#emit({ type: 'send', to, message }),
        keep: (keep) => this.#emit({ type: 'keep', keep }),
      },
      this.#now,
    );
  }

  #remember({ epoch, vote, log, opening, ended }: SwarmMemory): void {
    const first = log[0]?.record;
    // A seat without its log has forgotten what it promised, and is a seat no more.
    if (first?.type === 'open') this.#adopt(first.swarm, { epoch, vote, log });
    else this.swarm = opening;
    if (!ended) return;
    if (this.#raft) this.#raft.settled = log.length;
    this.#apply();
    this.endedAs ??= this.board.end ?? { status: 'failed', reason: 'nothing is known of its end' };
    this.#effects = [];
  }

  #end(ended: { readonly status: 'completed' | 'failed'; readonly reason?: string }): void {
    if (this.endedAs) return;
    this.endedAs = ended;
    if (this.#arbiterRole) this.#awakeUntil = this.#now + LINGER_MS;
    this.#worker.end();
    this.#emit({ type: 'ended' });
  }

  #becomeArbiter(): void {
    const raft = this.#raft!;
    this.#arbiterRole = new SwarmArbiter(this.swarm!, raft, this.board, this.#emit, this.#now);
    this.#follow(this.me, raft.epoch);
  }

  /** Takes and leaves office as the seats decided, sends what was written, and applies what was settled. */
  #finish(): readonly SwarmEffect[] {
    const raft = this.#raft;
    if (raft) {
      if (raft.role !== 'arbiter') this.#resignAsArbiter();
      else if (!this.#arbiterRole) this.#becomeArbiter();
      this.#apply();
      raft.flush();
    }
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #resignAsArbiter(): void {
    this.#late = this.late;
    this.#arbiterRole = undefined;
  }

  #apply(): void {
    const raft = this.#raft;
    if (!raft || this.#applied >= raft.settled) return;
    const changed = new Set<string>();
    const escalated = this.board.escalations.length;
    const from = this.#applied;
    while (this.#applied < raft.settled) {
      const { record } = raft.log[this.#applied]!;
      this.board.apply(++this.#applied, record);
      if ('subTask' in record) changed.add(record.subTask);
      else if (record.type === 'plan') for (const { id } of record.subTasks) changed.add(id);
    }
    for (let at = from; this.#arbiterRole && at < this.#applied; at++) this.#arbiterRole.tell(raft.log[at]!.record);
    this.#emit({ type: 'changed', subTasks: [...changed] });
    for (const escalation of this.board.escalations.slice(escalated)) this.#emit({ type: 'escalated', escalation });
    if (this.board.end) this.#end(this.board.end);
  }

  readonly #emit = (effect: SwarmEffect): void => {
    this.#effects.push(effect);
  };
}

/** How often an arbiter says that it is there. */
export function beatMs({ rules }: SwarmOpening): number {
  return rules.leaseMs / 4;
}
