import { capableOf, type SubTask, type SwarmBoard } from './swarm-board.js';
import type { Member, SubTaskPlan, SwarmRecord } from './swarm-records.js';

/** What the arbiter knows of a member besides the records. */
export interface Presence {
  readonly live: boolean;
  /** Its work outside the swarm. */
  readonly load: number;
}

/** Assigns each sub-task to the capable member with the fewest, then the least load; undefined if there is none. */
export function assignPlan(
  plan: readonly SubTaskPlan[],
  members: readonly Member[],
): Map<SubTaskPlan, string | undefined> {
  const given = new Map<string, number>();
  const burden = ({ address, load, capacity }: Member) => ((given.get(address) ?? 0) + load) / capacity;
  const assigned = new Map<SubTaskPlan, string | undefined>();
  const capable = new Map<string, readonly Member[]>();
  for (const subTask of plan) {
    const key = JSON.stringify([subTask.only ?? null, subTask.requiredCapabilities]);
    const able = capable.get(key) ?? members.filter((member) => capableOf(member, subTask));
    capable.set(key, able);
    const best = least(able, burden);
    if (best) given.set(best.address, (given.get(best.address) ?? 0) + 1);
    assigned.set(subTask, best?.address);
  }
  return assigned;
}

/** Lease records for the ready sub-tasks. Looks at each group only while a member is free. */
export function leases(board: SwarmBoard, presence: (address: string) => Presence): SwarmRecord[] {
  const records: SwarmRecord[] = [];
  const taken = new Map<string, number>();
  const held = ({ address }: Member) => board.holds(address).size + (taken.get(address) ?? 0);
  for (const group of board.ready.values()) {
    if (group.size === 0) continue;
    const [first] = group;
    const sample = board.subTasks.get(first!)!.plan;
    const able = [...board.members.values()].filter(
      (member) => presence(member.address).live && capableOf(member, sample),
    );
    for (const id of group) {
      const free = able.filter((member) => held(member) < member.capacity);
      if (free.length === 0) break;
      const subTask = board.subTasks.get(id)!;
      const holder = choose(board, subTask, free, able, (member) => held(member) + presence(member.address).load);
      if (!holder) continue;
      taken.set(holder, (taken.get(holder) ?? 0) + 1);
      records.push({ type: 'lease', subTask: id, holder });
    }
  }
  return records;
}

/** Prefers a member that has not failed at it, then the assigned one, then the least burdened. */
function choose(
  board: SwarmBoard,
  { assigned, failedBy }: SubTask,
  free: readonly Member[],
  able: readonly Member[],
  burden: (member: Member) => number,
): string | undefined {
  const untried = (member: Member) => !failedBy.has(member.address);
  const better = failedBy.size > 0 && able.some(untried) ? free.filter(untried) : free;
  const own = better.find(({ address }) => address === assigned);
  // A participant keeps its last own sub-task: each has at least one.
  if (own && board.assignedTo(assigned) === 1) return assigned;
  const best = least(better, (member) => burden(member) / member.capacity);
  if (!best) return undefined;
  return own && burden(own) / own.capacity <= burden(best) / best.capacity ? assigned : best.address;
}

function least<T>(from: readonly T[], by: (item: T) => number): T | undefined {
  let best: T | undefined;
  let lowest = Number.POSITIVE_INFINITY;
  for (const item of from) {
    const value = by(item);
    if (value >= lowest) continue;
    best = item;
    lowest = value;
  }
  return best;
}
