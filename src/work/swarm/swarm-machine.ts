import type { Usage } from '../usage.js';
import { ClaimedLog } from './claimed-log.js';
import { RaftLog, type RaftMemory } from './raft-log.js';
import { logEffects, type SeatLog, type SharedLogEvent } from './seat-log.js';
import { SwarmArbiter } from './swarm-arbiter.js';
import { SwarmBoard } from './swarm-board.js';
import type { Finding, Found, MessageOf, SwarmEffect, SwarmMessage } from './swarm-messages.js';
import type { Entry, Member, SwarmEnd, SwarmOpening, SwarmRecord } from './swarm-records.js';
import { SwarmWorker } from './swarm-worker.js';

export type SwarmEvent =
  | { readonly type: 'tick' }
  | { readonly type: 'message'; readonly from: string; readonly message: SwarmMessage }
  /** The log is on disk up to that record. */
  | { readonly type: 'kept'; readonly term: number; readonly n: number }
  | { readonly type: 'broker'; readonly event: SharedLogEvent }
  /** The worker of this member is done. */
  | { readonly type: 'worked'; readonly lease: number; readonly finding: Finding; readonly usage?: Usage | undefined }
  | { readonly type: 'load'; readonly load: number }
  | { readonly type: 'join'; readonly member: Member }
  /** This member created the swarm, and ends it. */
  | { readonly type: 'cancel'; readonly reason: string };

/** What a member has on disk of a swarm. */
export interface SwarmMemory extends RaftMemory {
  /** Stored by members without a seat. */
  readonly opening: SwarmOpening | undefined;
  readonly findings: ReadonlyMap<number, Found>;
  readonly ended: boolean;
  /** When this member learnt that it has ended. */
  readonly endedAt?: number | undefined;
}

export interface SwarmMachineInit {
  readonly me: string;
  readonly swarmId: string;
  /** The member to believe about what the swarm is: its creator, or the one that was asked to let this member join. */
  readonly sponsor: string;
  /** May it get a seat? Not if it joins later: it may have had one before, and have lost its votes. */
  readonly seat: boolean;
  readonly now: number;
  readonly memory?: SwarmMemory;
  /** Unique to this process, if it can use a log at the broker. */
  readonly run?: string | undefined;
  /** If nothing can be settled for this long, the swarm counts as stalled. */
  readonly stallMs: number;
}

/** How long members that do not answer are told that the swarm has ended. */
const LINGER_MS = 300_000;

/**
 * One member's part in one swarm: it may be a seat, the arbiter, a worker, or several of these. Events in, effects
 * out; the same events always give the same effects. It returns no new state but changes in place, other than machines
 * with `Step`: a swarm may have ten thousand sub-tasks, and an event touches one.
 */
export class SwarmMachine {
  readonly me: string;
  /** The settled records, as far as this member has them. Only seats do. */
  readonly board = new SwarmBoard();
  swarm: SwarmOpening | undefined;
  arbiter: string | undefined;
  term = 0;
  /** Why nothing can be settled, if so. */
  stalled: string | undefined;
  endedAs: SwarmEnd | undefined;
  readonly #init: SwarmMachineInit;
  #log: SeatLog | undefined;
  /** The log that the swarm may have at the broker, until the swarm is known. */
  #awaited: ClaimedLog | undefined;
  #arbiterRole: SwarmArbiter | undefined;
  #worker: SwarmWorker;
  #applied = 0;
  #load = 0;
  #cancelled: string | undefined;
  #sponsor: string;
  /** Sent again until the swarm has taken this member in. */
  #joining: Member | undefined;
  #late = 0;
  /** When it last heard from an arbiter that can settle records. */
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
    if (!this.swarm && init.seat) this.#awaited = this.#claimedLog([]);
  }

  get isArbiter(): boolean {
    return this.#arbiterRole !== undefined;
  }

  get seated(): boolean {
    return this.#log !== undefined;
  }

  /** Does it want to know when the log at the broker grows? */
  get usesBroker(): boolean {
    return this.endedAs === undefined && (this.#awaited ?? this.#log) instanceof ClaimedLog;
  }

  /** The committed records, oldest first; empty for a member without a seat, which has no log. */
  get settled(): readonly Entry[] {
    return this.#log?.read(0, this.#log.settled) ?? [];
  }

  /** How many records are committed. */
  get settledCount(): number {
    return this.#log?.settled ?? 0;
  }

  /** Is there nothing to do until a message comes? */
  get resting(): boolean {
    return this.endedAs !== undefined && (this.#now > this.#awakeUntil || this.#arbiterRole?.everybodyKnows === true);
  }

  /** Is the board up to date? Not while this member is out of touch with an arbiter that can settle records. */
  get confirmed(): boolean {
    return this.endedAs !== undefined || this.#now - this.#inTouchAt() <= (this.swarm?.rules.leaseMs ?? 0);
  }

  /** Has the arbiter written records of this sub-task that are not settled yet? */
  unconfirmed(subTask: string): boolean {
    const written = this.#arbiterRole?.tentative.subTasks.get(subTask);
    const settled = this.board.subTasks.get(subTask);
    return written !== undefined && (written.status !== settled?.status || written.lease !== settled.lease);
  }

  /** Results that this member refused as arbiter: another came first, or their lease was over. */
  get late(): number {
    return this.#late + (this.#arbiterRole?.late ?? 0);
  }

  /** Begins the swarm, as its creator. */
  create(swarm: SwarmOpening, plan: readonly SwarmRecord[], now: number): readonly SwarmEffect[] {
    this.#now = now;
    this.#adopt(swarm, NO_MEMORY());
    this.#log!.create(now);
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
        this.#log?.take(event, now);
        break;
      case 'broker':
        this.#onBroker(event.event);
        break;
      case 'worked':
        this.#worker.worked(event.lease, event.finding, event.usage, this.arbiter);
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
    (this.#awaited ?? this.#log)?.tick(this.#now);
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
    return this.#arbiterRole ? this.#log!.inTouchAt : this.#firmAt;
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
    if (this.swarm.log && this.#arbiterRole) return 'the broker with the swarm’s records cannot be reached';
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
        // A seat was away when the swarm ended, and must hear of the end.
        if (this.endedAs) this.#awakeUntil = this.#now + LINGER_MS;
        this.#log?.take({ type: 'message', from, message }, this.#now);
        return;
      case 'ack':
      case 'vote':
        this.#log?.take({ type: 'message', from, message }, this.#now);
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
        // Only the sponsor may refer to another, and only before this member knows the swarm.
        if (from !== this.#sponsor || this.swarm) return;
        this.#sponsor = message.arbiter;
        this.#join();
        return;
      case 'cancel':
        if (from === this.swarm?.creator) this.#arbiterRole?.cancel(message.reason);
    }
  }

  /** A seat learns what the swarm is from the first record, which only the creator may send. */
  #onAppend(from: string, message: MessageOf<'append'>): void {
    const first = message.prior === 0 ? message.entries[0]?.record : undefined;
    const opened = !this.#log && this.#init.seat && first?.type === 'open' ? first.swarm : undefined;
    if (opened && opened.log === undefined && this.#believes(from, opened)) this.#adopt(opened, NO_MEMORY());
    if (!this.#log) return;
    this.#log.take({ type: 'message', from, message }, this.#now);
    if (this.#log.leader === from) this.#follow(from, this.#log.epoch);
  }

  /** A seat learns what the swarm is from the first record at the broker, or from a beat that came before. */
  #onBroker(event: SharedLogEvent): void {
    const log = this.#awaited ?? this.#log;
    log?.take(event, this.#now);
    const first = this.#awaited?.read(0, 1)[0]?.record;
    if (first?.type === 'open') this.#adopt(first.swarm, NO_MEMORY());
    if (first?.type === 'open' && !this.#log) this.#learn(first.swarm);
    if (log?.leader !== undefined && log.epoch > this.term) this.#follow(log.leader, log.epoch);
  }

  #onBeat(from: string, { epoch, settled, holds, firm, ended, swarm }: MessageOf<'beat'>): void {
    if (swarm && !this.#log && this.#believes(from, swarm)) {
      if (!swarm.log || !swarm.seats.includes(this.me)) this.#awaited = undefined;
      this.#learn(swarm);
    }
    if (!this.#obeys(from, epoch)) return;
    this.#follow(from, epoch);
    if (firm) this.#firmAt = this.#now;
    this.#log?.heard(from, { epoch, settled }, this.#now);
    this.#worker.comply(from, settled, holds);
    // A seat learns the end from the records, so that it has the results too.
    if (ended && !this.#log) this.#end(ended);
    const members = this.#log ? this.board.members.size : (this.swarm?.members.length ?? 0);
    const about = { epoch, load: this.#load, holding: this.#worker.leases, members };
    this.#emit({ type: 'send', to: from, message: { type: 'pulse', ...about, ended: this.endedAs !== undefined } });
  }

  /** A member without a seat has no log, and so stores what the swarm is. */
  #learn(swarm: SwarmOpening): void {
    this.swarm = swarm;
    this.#emit({ type: 'keep-opening', swarm });
    this.#emit({ type: 'changed', subTasks: [] });
  }

  /** Believes the sponsor, and seats of a swarm that the sponsor vouches for. */
  #believes(from: string, swarm: SwarmOpening): boolean {
    const { swarmId } = this.#init;
    const sponsor = this.#sponsor;
    if (swarm.id !== swarmId) return false;
    const seated = (swarm.creator === sponsor ? swarm.seats : this.swarm?.seats)?.includes(from);
    return from === sponsor || seated === true;
  }

  #obeys(from: string, term: number): boolean {
    if (!this.swarm?.seats.includes(from)) return false;
    return term > this.term || (term === this.term && (this.arbiter === undefined || this.arbiter === from));
  }

  #follow(arbiter: string, term: number): void {
    this.arbiter = arbiter;
    this.term = term;
  }

  /** Sent again with each beat until the member is taken in. */
  #join(): void {
    const member = this.#joining;
    const known = this.swarm?.members.some(({ address }) => address === this.me) || this.board.members.has(this.me);
    if (!member || known || this.#arbiterRole || this.endedAs) return;
    this.#emit({ type: 'send', to: this.arbiter ?? this.#sponsor, message: { type: 'join', member } });
  }

  /** Sent again with each beat until the swarm has ended: the arbiter may change. */
  #cancel(): void {
    if (this.#cancelled === undefined || this.endedAs) return;
    const reason = this.#cancelled;
    if (this.#arbiterRole) this.#arbiterRole.cancel(reason);
    else if (this.arbiter) this.#emit({ type: 'send', to: this.arbiter, message: { type: 'cancel', reason } });
  }

  #adopt(swarm: SwarmOpening, memory: RaftMemory): void {
    this.swarm = swarm;
    const awaited = this.#awaited;
    this.#awaited = undefined;
    if (!swarm.seats.includes(this.me)) return;
    if (swarm.log) {
      this.#log = awaited ?? this.#claimedLog(memory.log);
      return;
    }
    const timing = { leaseMs: swarm.rules.leaseMs, beatMs: beatMs(swarm) };
    this.#log = new RaftLog(this.me, swarm.seats, memory, timing, logEffects(this.#emit), this.#now);
  }

  /** Undefined on a node that has no broker. */
  #claimedLog(log: readonly Entry[]): ClaimedLog | undefined {
    const { me, swarmId, sponsor, run } = this.#init;
    if (run === undefined) return undefined;
    return new ClaimedLog({ me, swarmId, creator: sponsor, run, log }, logEffects(this.#emit), this.#now);
  }

  #remember({ term, votedFor, log, opening, ended }: SwarmMemory): void {
    const first = log[0]?.record;
    const swarm = first?.type === 'open' ? first.swarm : opening;
    this.swarm = swarm;
    // Without its log, a seat of Raft has lost its votes, and is a seat no more.
    if (swarm && (first || swarm.log)) this.#adopt(swarm, { term, votedFor, log, settled: ended ? log.length : 0 });
    this.#apply();
    if (!ended) return;
    this.endedAs ??= this.board.end ?? { status: 'failed', reason: 'how it ended is unknown' };
    this.#effects = [];
  }

  #end(ended: SwarmEnd): void {
    if (this.endedAs) return;
    this.endedAs = ended;
    if (this.#arbiterRole) this.#awakeUntil = this.#now + LINGER_MS;
    this.#worker.end();
    this.#emit({ type: 'ended' });
  }

  #becomeArbiter(): void {
    const log = this.#log!;
    this.#arbiterRole = new SwarmArbiter(this.swarm!, log, this.board, this.#emit, this.#now);
    this.#follow(this.me, log.epoch);
  }

  /** Becomes or resigns as arbiter as the log says, applies settled records, and has new ones settled. */
  #finish(): readonly SwarmEffect[] {
    if (this.#log) {
      if (!this.#log.isLeading) this.#resignAsArbiter();
      else if (!this.#arbiterRole) this.#becomeArbiter();
      this.#apply();
    }
    (this.#awaited ?? this.#log)?.flush();
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #resignAsArbiter(): void {
    this.#late = this.late;
    this.#arbiterRole = undefined;
  }

  #apply(): void {
    const log = this.#log;
    if (!log || this.#applied >= log.settled) return;
    const changed = new Set<string>();
    const escalated = this.board.escalations.length;
    const settled = log.read(this.#applied, log.settled);
    for (const { record } of settled) {
      this.board.apply(++this.#applied, record);
      if ('subTask' in record) changed.add(record.subTask);
      else if (record.type === 'plan') for (const { id } of record.subTasks) changed.add(id);
    }
    for (const { record } of settled) this.#arbiterRole?.tell(record);
    this.#emit({ type: 'changed', subTasks: [...changed] });
    for (const escalation of this.board.escalations.slice(escalated)) this.#emit({ type: 'escalated', escalation });
    if (this.board.end) this.#end(this.board.end);
  }

  readonly #emit = (effect: SwarmEffect): void => {
    this.#effects.push(effect);
  };
}

const NO_MEMORY = (): RaftMemory => ({ term: 0, votedFor: null, log: [] });

/** The interval of an arbiter's heartbeats. */
export function beatMs({ rules }: SwarmOpening): number {
  return rules.leaseMs / 4;
}
