import { addUsage, NO_USAGE, type Usage } from '../usage.js';
import type {
  Member,
  SubTaskPlan,
  SwarmEnd,
  SwarmEscalation,
  SwarmOpening,
  SwarmOutcome,
  SwarmRecord,
  SwarmStatus,
} from './swarm-records.js';

type RecordOf<Type extends SwarmRecord['type']> = Extract<SwarmRecord, { readonly type: Type }>;

/** The state of a sub-task by the records so far. */
export interface SubTask {
  readonly plan: SubTaskPlan;
  /** Sub-tasks of one group have the same requirements. */
  readonly group: string;
  /** The present or latest holder. */
  assigned: string;
  status: 'pending' | 'running' | 'completed' | 'failed';
  /** The index of the lease record; 0 before the first. */
  lease: number;
  attempts: number;
  /** Members that held it and did not finish it. */
  readonly failedBy: Set<string>;
  /** Why the latest attempt, or the sub-task, failed. */
  reason: string | undefined;
  result: unknown;
  /** What all attempts cost. */
  usage: Usage | undefined;
  /** The number of dependencies without a result. */
  missing: number;
}

/**
 * The state of a swarm: the same records always make the same board. It changes in place, because a swarm may have ten
 * thousand sub-tasks and each record touches one.
 */
export class SwarmBoard {
  swarm: SwarmOpening | undefined;
  readonly subTasks = new Map<string, SubTask>();
  readonly members = new Map<string, Member>();
  /** Sub-tasks that can be leased now, by group: the same members can do all of one group. */
  readonly ready = new Map<string, Set<string>>();
  /** Leased sub-tasks by holder. */
  readonly holding = new Map<string, Set<string>>();
  readonly escalations: SwarmEscalation[] = [];
  arbiter = '';
  begun = false;
  end: SwarmEnd | undefined;
  completed = 0;
  failed = 0;
  running = 0;
  readonly #dependents = new Map<string, string[]>();
  /** How many sub-tasks, done ones included, are assigned to each member. */
  readonly #assigned = new Map<string, number>();

  get status(): SwarmStatus {
    if (this.end) return this.end.status;
    if (!this.begun) return 'recruiting';
    const joining = this.#aggregate !== undefined && this.#aggregate.status !== 'completed';
    return this.subTasks.size - this.completed === (joining ? 1 : 0) ? 'completing' : 'active';
  }

  /** Members with a sub-task; the others stand by. */
  get participants(): string[] {
    return [...this.members.keys()].filter((address) => this.assignedTo(address) > 0);
  }

  get standby(): string[] {
    return [...this.members.keys()].filter((address) => this.assignedTo(address) === 0);
  }

  assignedTo(address: string): number {
    return this.#assigned.get(address) ?? 0;
  }

  holds(address: string): ReadonlySet<string> {
    return this.holding.get(address) ?? NONE;
  }

  dependencyResults({ id, dependsOn }: SubTaskPlan): Record<string, unknown> {
    const needed = id === this.swarm!.aggregate ? [...this.subTasks.keys()].filter((other) => other !== id) : dependsOn;
    return Object.fromEntries(needed.map((other) => [other, this.subTasks.get(other)!.result]));
  }

  outcome(): SwarmOutcome | undefined {
    if (!this.end || !this.swarm) return undefined;
    const { id: swarmId, aggregate } = this.swarm;
    const done = [...this.subTasks.values()].filter(({ status }) => status === 'completed');
    const results = Object.fromEntries(
      done.filter(({ plan }) => plan.id !== aggregate).map(({ plan, result }) => [plan.id, result]),
    );
    const joined = aggregate === undefined ? undefined : this.subTasks.get(aggregate);
    return {
      swarmId,
      ...this.end,
      results,
      ...(joined?.status === 'completed' && { aggregate: joined.result }),
      escalations: this.escalations,
    };
  }

  /** Applies the record with that index. A record that contradicts the board changes nothing. */
  apply(n: number, record: SwarmRecord): void {
    if (this.end) return;
    switch (record.type) {
      case 'open':
        if (this.swarm) return;
        this.swarm = record.swarm;
        this.arbiter = record.swarm.seats[0]!;
        for (const member of record.swarm.members) this.members.set(member.address, member);
        return;
      case 'plan':
        for (const { assigned, ...plan } of record.subTasks) this.#plan(plan, assigned);
        return;
      case 'begin':
        this.begun = true;
        if (this.#aggregate) this.#aggregate.missing = this.subTasks.size - 1;
        for (const subTask of this.subTasks.values()) if (subTask.missing === 0) this.#makeReady(subTask);
        return;
      case 'arbiter':
        this.arbiter = record.address;
        return;
      case 'join':
        this.members.set(record.member.address, record.member);
        return;
      case 'lease':
        this.#lease(n, record.subTask, record.holder);
        return;
      case 'result':
        this.#result(record);
        return;
      case 'failure':
        this.#failure(record);
        return;
      case 'escalation':
        this.#giveUp(this.subTasks.get(record.subTask), 'no-capable-agent', record.reason);
        return;
      case 'end':
        this.end = { status: record.status, ...(record.reason !== undefined && { reason: record.reason }) };
    }
  }

  #plan(plan: SubTaskPlan, assigned: string): void {
    const missing = plan.dependsOn.length;
    const failedBy = new Set<string>();
    const group = JSON.stringify([plan.only ?? null, ...[...plan.requiredCapabilities].sort()]);
    const fresh = { plan, group, assigned: '', status: 'pending', lease: 0, attempts: 0, failedBy, missing } as const;
    const subTask: SubTask = { ...fresh, reason: undefined, result: undefined, usage: undefined };
    this.subTasks.set(plan.id, subTask);
    this.#assign(subTask, assigned);
    for (const id of plan.dependsOn) {
      const dependents = this.#dependents.get(id);
      if (dependents) dependents.push(plan.id);
      else this.#dependents.set(id, [plan.id]);
    }
  }

  #lease(n: number, id: string, holder: string): void {
    const subTask = this.subTasks.get(id);
    if (subTask?.status !== 'pending' || subTask.missing > 0 || !this.members.has(holder)) return;
    this.#group(subTask).delete(id);
    this.#assign(subTask, holder);
    subTask.status = 'running';
    subTask.lease = n;
    subTask.attempts++;
    this.running++;
    const held = this.holding.get(holder);
    if (held) held.add(id);
    else this.holding.set(holder, new Set([id]));
  }

  #result({ subTask: id, lease, result, usage }: RecordOf<'result'>): void {
    const subTask = this.#held(id, lease);
    if (!subTask) return;
    if (usage) subTask.usage = addUsage(subTask.usage ?? NO_USAGE, usage);
    this.#release(subTask, 'completed');
    subTask.result = result;
    this.completed++;
    for (const dependent of this.#dependents.get(id) ?? []) this.#supply(this.subTasks.get(dependent)!);
    if (this.#aggregate) this.#supply(this.#aggregate);
  }

  #supply(subTask: SubTask): void {
    if (--subTask.missing === 0 && subTask.status === 'pending') this.#makeReady(subTask);
  }

  /** It needs the results of all other sub-tasks. */
  get #aggregate(): SubTask | undefined {
    const id = this.swarm?.aggregate;
    return id === undefined ? undefined : this.subTasks.get(id);
  }

  #failure({ subTask: id, lease, reason, usage }: RecordOf<'failure'>): void {
    const subTask = this.#held(id, lease);
    if (!subTask) return;
    if (usage) subTask.usage = addUsage(subTask.usage ?? NO_USAGE, usage);
    subTask.failedBy.add(subTask.assigned);
    subTask.reason = reason;
    this.#release(subTask, 'pending');
    if (subTask.attempts < this.swarm!.rules.attempts) {
      this.#makeReady(subTask);
      return;
    }
    this.#giveUp(subTask, 'attempts-exhausted', `${subTask.attempts} attempts failed, the last: ${reason}`);
  }

  #giveUp(subTask: SubTask | undefined, kind: SwarmEscalation['kind'], reason: string): void {
    if (subTask?.status !== 'pending') return;
    this.#group(subTask).delete(subTask.plan.id);
    subTask.status = 'failed';
    subTask.reason = reason;
    this.failed++;
    this.escalations.push({ swarmId: this.swarm!.id, kind, subTask: subTask.plan.id, reason });
  }

  /** The sub-task, if that lease is the present one. */
  #held(id: string, lease: number): SubTask | undefined {
    const subTask = this.subTasks.get(id);
    return subTask?.status === 'running' && subTask.lease === lease ? subTask : undefined;
  }

  #release(subTask: SubTask, status: 'completed' | 'pending'): void {
    this.holding.get(subTask.assigned)?.delete(subTask.plan.id);
    subTask.status = status;
    this.running--;
  }

  #assign(subTask: SubTask, to: string): void {
    if (subTask.assigned !== '') this.#assigned.set(subTask.assigned, this.assignedTo(subTask.assigned) - 1);
    subTask.assigned = to;
    this.#assigned.set(to, this.assignedTo(to) + 1);
  }

  #makeReady(subTask: SubTask): void {
    this.#group(subTask).add(subTask.plan.id);
  }

  #group({ group: key }: SubTask): Set<string> {
    let group = this.ready.get(key);
    if (!group) {
      group = new Set();
      this.ready.set(key, group);
    }
    return group;
  }
}

const NONE: ReadonlySet<string> = new Set();

export function capableOf(member: Member, { requiredCapabilities, only }: SubTaskPlan): boolean {
  if (only !== undefined) return member.address === only;
  return requiredCapabilities.every((capability) => member.capabilities.includes(capability));
}
