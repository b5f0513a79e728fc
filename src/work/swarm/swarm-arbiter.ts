import { cutText } from '../../runtime/text.js';
import type { RecordLog } from '../../store/shared/record-log.js';
import { leases } from './assignment.js';
import { capableOf, SwarmBoard } from './swarm-board.js';
import type { Emit, MessageOf, SwarmMessage } from './swarm-messages.js';
import type { Member, SwarmOpening, SwarmRecord } from './swarm-records.js';

/** Characters of JSON that a worker gets at most; an envelope does not hold much more. */
const WORK_CHARS = 900_000;
/** With at most this many dependencies the work fits, whatever their results are. */
const CLOSE_LOOK = 8;

/** The arbiter of one epoch, which leads the log: it alone writes records, and tells members which were settled. */
export class SwarmArbiter {
  /** All records that it has written, settled or not. */
  readonly tentative = new SwarmBoard();
  /** Results that came after another of the same sub-task, or after the end of their lease. */
  late = 0;
  readonly #me: string;
  readonly #swarm: SwarmOpening;
  readonly #log: RecordLog<SwarmRecord>;
  /** The settled records. */
  readonly #board: SwarmBoard;
  readonly #emit: Emit;
  readonly #heard = new Map<string, number>();
  readonly #pulses = new Map<string, Pulse>();
  /** Since when no member can do the sub-tasks of a group. */
  readonly #unserved = new Map<string, number>();
  #now: number;

  constructor(swarm: SwarmOpening, log: RecordLog<SwarmRecord>, board: SwarmBoard, emit: Emit, now: number) {
    this.#me = log.me;
    this.#swarm = swarm;
    this.#log = log;
    this.#board = board;
    this.#emit = emit;
    this.#now = now;
    for (const [at, { record }] of log.read(0).entries()) this.tentative.apply(at + 1, record);
    for (const address of this.#audience()) this.#heard.set(address, now);
  }

  heard(from: string, now: number): void {
    this.#now = now;
    if (this.#heard.has(from)) this.#heard.set(from, now);
  }

  isLive(address: string): boolean {
    return (
      address === this.#me ||
      this.#now - (this.#heard.get(address) ?? Number.NEGATIVE_INFINITY) <= this.#swarm.rules.leaseMs
    );
  }

  /** Has every member acknowledged the end? */
  get everybodyKnows(): boolean {
    return this.#audience().every((address) => this.#pulses.get(address)?.ended);
  }

  propose(records: readonly SwarmRecord[]): void {
    if (records.length === 0) return;
    const { last } = this.#log;
    if (!this.#log.append(last, records)) return;
    for (const [at, record] of records.entries()) this.tentative.apply(last + at + 1, record);
    if (!records.some(({ type }) => type === 'open' || type === 'join')) return;
    // A new member counts as live to begin with.
    for (const address of this.tentative.members.keys()) {
      if (!this.#heard.has(address)) this.#heard.set(address, this.#now);
    }
  }

  tick(now: number): void {
    this.#now = now;
    this.decide();
    this.beatAll();
  }

  /** Writes the records that are due: lapsed leases, new leases, escalations, and the end. */
  decide(): void {
    const board = this.tentative;
    if (!board.begun || board.end) return;
    this.propose(this.#lapsed());
    this.propose(leases(board, (address) => ({ live: this.isLive(address), load: this.#loadOf(address) })));
    this.propose(this.#unservable());
    const left = board.subTasks.size - board.completed;
    if (left === 0) {
      this.propose([{ type: 'end', status: 'completed' }]);
      return;
    }
    if (board.failed === 0 || board.running > 0 || [...board.ready.values()].some(({ size }) => size > 0)) return;
    const [first] = board.escalations;
    const reason = `${left} of ${board.subTasks.size} sub-tasks have no result; ${first!.subTask}: ${first!.reason}`;
    this.propose([{ type: 'end', status: 'failed', reason: cutText(reason, 4_096) }]);
  }

  join(member: Member): void {
    if (!this.tentative.members.has(member.address)) this.propose([{ type: 'join', member }]);
    this.#heard.set(member.address, this.#now);
    this.decide();
  }

  cancel(reason: string): void {
    if (!this.tentative.end) this.propose([{ type: 'end', status: 'failed', reason }]);
  }

  found(from: string, { lease, subTask: id, finding, usage }: MessageOf<'found'>): void {
    const tentative = this.tentative.subTasks.get(id);
    if (tentative?.status === 'running' && tentative.lease === lease && tentative.assigned === from) {
      const failed = 'error' in finding;
      const about = { subTask: id, lease, ...(usage && { usage }) };
      this.propose([
        failed
          ? { type: 'failure', ...about, reason: finding.error, lapsed: false }
          : { type: 'result', ...about, result: finding.result },
      ]);
      this.decide();
      return;
    }
    const settled = this.#board.subTasks.get(id);
    // Only settled records say that a finding is too late: others may still be replaced.
    if (lease > this.#log.settled || (settled?.status === 'running' && settled.lease === lease)) return;
    if (settled?.status !== 'completed' || settled.lease !== lease) this.late++;
    this.#send(from, { type: 'taken', leases: [lease] });
  }

  pulse(from: string, { load, holding, members, ended }: MessageOf<'pulse'>): void {
    if (!this.#heard.has(from)) return;
    const first = !this.#pulses.has(from);
    this.#pulses.set(from, { load, members, ended });
    this.remind(from, holding);
    if (first) this.decide();
  }

  /** Sends a member its work again where it reports no such lease: it may have restarted, or missed the message. */
  remind(member: string, reported: readonly number[]): void {
    for (const id of this.#board.holds(member)) {
      if (!reported.includes(this.#board.subTasks.get(id)!.lease)) this.#giveWork(id);
    }
  }

  /** The leases of a member, by the settled records. */
  leasesOf(member: string): number[] {
    return [...this.#board.holds(member)].map((id) => this.#board.subTasks.get(id)!.lease);
  }

  beatAll(): void {
    for (const address of this.#audience()) this.#beat(address);
  }

  /** Tells the members concerned of a settled record. */
  tell(record: SwarmRecord): void {
    if (record.type === 'begin' || record.type === 'arbiter' || record.type === 'end') this.beatAll();
    else if (record.type === 'join') this.#beat(record.member.address);
    else if (record.type === 'lease') {
      const { status, assigned } = this.#board.subTasks.get(record.subTask)!;
      if (status === 'running' && assigned === record.holder) this.#giveWork(record.subTask);
    } else if (record.type === 'result' || record.type === 'failure') {
      const lease = this.#log.read(record.lease - 1, record.lease)[0]?.record;
      if (lease?.type === 'lease') this.#send(lease.holder, { type: 'taken', leases: [record.lease] });
    }
  }

  #audience(): string[] {
    const all = new Set([...this.tentative.members.keys(), ...this.#swarm.seats]);
    all.delete(this.#me);
    return [...all];
  }

  #loadOf(address: string): number {
    return this.#pulses.get(address)?.load ?? this.tentative.members.get(address)?.load ?? 0;
  }

  #lapsed(): SwarmRecord[] {
    const { holding, subTasks } = this.tentative;
    const records: SwarmRecord[] = [];
    for (const [holder, held] of holding) {
      if (held.size === 0 || this.isLive(holder)) continue;
      for (const id of held) {
        const { lease } = subTasks.get(id)!;
        records.push({ type: 'failure', subTask: id, lease, reason: `${holder} fell silent`, lapsed: true });
      }
    }
    return records;
  }

  /** Sub-tasks without a capable member for too long. */
  #unservable(): SwarmRecord[] {
    const { ready, subTasks, members } = this.tentative;
    const records: SwarmRecord[] = [];
    for (const [key, group] of ready) {
      const [first] = group;
      const plan = first === undefined ? undefined : subTasks.get(first)!.plan;
      const able = (member: Member) => this.isLive(member.address) && capableOf(member, plan!);
      if (!plan || [...members.values()].some(able)) {
        this.#unserved.delete(key);
        continue;
      }
      const since = this.#unserved.get(key) ?? this.#now;
      this.#unserved.set(key, since);
      if (this.#now - since < this.#swarm.rules.patienceMs) continue;
      const needs = plan.only ?? (plan.requiredCapabilities.join(', ') || 'no capability');
      const reason = `no live member of the swarm can do it (it takes ${needs})`;
      for (const subTask of group) records.push({ type: 'escalation', subTask, reason });
    }
    return records;
  }

  #beat(address: string): void {
    if (address === this.#me) return;
    const { end, members } = this.#board;
    const { epoch, settled, inTouchAt } = this.#log;
    const firm = this.#now - inTouchAt <= this.#swarm.rules.leaseMs;
    const holds = this.leasesOf(address);
    // The swarm is sent along until the member reports that it knows it.
    const known = this.#pulses.get(address)?.members === members.size;
    const swarm = known ? undefined : { ...this.#swarm, members: [...members.values()] };
    const more = { ...(end && { ended: end }), ...(swarm && { swarm }) };
    this.#send(address, { type: 'beat', epoch, settled, holds, firm, ...more });
  }

  #giveWork(id: string): void {
    const { plan, lease, assigned } = this.#board.subTasks.get(id)!;
    const { description, requiredCapabilities, input, dependsOn } = plan;
    const dependencies = this.#board.dependencyResults(plan);
    if (dependsOn.length > CLOSE_LOOK && JSON.stringify(dependencies).length > WORK_CHARS) {
      const reason = 'the results that it needs are too large for one message';
      if (this.tentative.subTasks.get(id)?.lease === lease)
        this.propose([{ type: 'failure', subTask: id, lease, reason, lapsed: false }]);
      this.decide();
      return;
    }
    const about = { subTask: id, description, requiredCapabilities, task: this.#swarm.task, dependencies };
    const work = { ...about, ...(input !== undefined && { input }) };
    this.#send(assigned, { type: 'work', epoch: this.#log.epoch, lease, work });
  }

  #send(to: string, message: SwarmMessage): void {
    this.#emit({ type: 'send', to, message });
  }
}

/** A member's latest report. */
interface Pulse {
  readonly load: number;
  /** How many members it knows. */
  readonly members: number;
  readonly ended: boolean;
}
