import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import type { SubTaskPlan, SwarmRecord } from './swarm-records.js';

export const PLAN_LIMITS = {
  subTasks: 20_000,
  /** Characters of one sub-task as JSON, with its input and its dependencies. */
  subTaskChars: 131_072,
} as const;

const MAX_DESCRIPTION_CHARS = 4_096;
const id = z.string().min(1).max(128);
const capability = z.string().min(1).max(128);
const planSchema = z.object({
  subTasks: z
    .array(
      z.object({
        id,
        description: z.string().max(MAX_DESCRIPTION_CHARS).default(''),
        requiredCapabilities: z.array(capability).max(64).default([]),
        dependsOn: z.array(id).max(PLAN_LIMITS.subTasks).default([]),
        input: z.unknown().optional(),
      }),
    )
    .min(1)
    .max(PLAN_LIMITS.subTasks),
});

/** A plan as its author writes it: omitted parts are empty. */
export type SwarmPlan = z.input<typeof planSchema> | z.input<typeof planSchema>['subTasks'];

/**
 * Reads a plan of a user or a planner agent, and refuses one that cannot be carried out. A sub-task without a description
 * gets its id and the task of the swarm as its description.
 */
export function readPlan(said: unknown, task: string): SubTaskPlan[] {
  const read = planSchema.safeParse(Array.isArray(said) ? { subTasks: said } : said);
  if (!read.success) {
    const faults = read.error.issues
      .slice(0, 5)
      .map(({ path, message }) => `${path.join('.') || 'the plan'}: ${message}`);
    throw new EclipticError('INVALID_PLAN', `the plan cannot be read: ${faults.join('; ')}`, { faults });
  }
  const { subTasks } = read.data;
  assertSound(subTasks);
  return subTasks.map(({ input, description, ...rest }) => ({
    ...rest,
    description: description || cutText(`${rest.id}: ${task}`, MAX_DESCRIPTION_CHARS),
    ...(input !== undefined && { input }),
  }));
}

/** The default plan: one sub-task for each capability. */
export function planByCapability(task: string, capabilities: readonly string[]): SubTaskPlan[] {
  return capabilities.map((id) => ({ id, description: task, requiredCapabilities: [id], dependsOn: [] }));
}

export function capabilitiesOf(plan: readonly SubTaskPlan[]): string[] {
  return [...new Set(plan.flatMap(({ requiredCapabilities }) => requiredCapabilities))];
}

/** Approximate characters of JSON in one record. */
const RECORD_CHARS = 131_072;

/** A long plan takes several records. */
export function planRecords(subTasks: readonly (SubTaskPlan & { readonly assigned: string })[]): SwarmRecord[] {
  const parts: (SubTaskPlan & { readonly assigned: string })[][] = [];
  let chars = Number.POSITIVE_INFINITY;
  for (const subTask of subTasks) {
    if (chars > RECORD_CHARS) {
      parts.push([]);
      chars = 0;
    }
    parts.at(-1)!.push(subTask);
    chars += JSON.stringify(subTask).length;
  }
  return parts.map((part) => ({ type: 'plan', subTasks: part }));
}

function assertSound(subTasks: readonly (SubTaskPlan & { input?: unknown })[]): void {
  const known = new Map(subTasks.map((subTask) => [subTask.id, subTask]));
  if (known.size < subTasks.length) {
    const seen = new Set<string>();
    const twice = subTasks.find(({ id }) => seen.size === seen.add(id).size)!;
    throw new EclipticError('INVALID_PLAN', `two sub-tasks are called "${twice.id}"`, { subTask: twice.id });
  }
  for (const { id, dependsOn, input } of subTasks) {
    const missing = dependsOn.find((other) => !known.has(other));
    if (missing !== undefined)
      throw new EclipticError('INVALID_PLAN', `"${id}" depends on "${missing}", which is not in the plan`, {
        subTask: id,
      });
    if (new Set(dependsOn).size < dependsOn.length)
      throw new EclipticError('INVALID_PLAN', `"${id}" names a dependency twice`, { subTask: id });
    if (dependsOn.length > 100 || input !== undefined) {
      const { length } = JSON.stringify([id, dependsOn, input]);
      const most = PLAN_LIMITS.subTaskChars;
      if (length > most)
        throw new EclipticError('INVALID_PLAN', `"${id}" is longer than ${most} characters`, { subTask: id });
    }
  }
  const cycle = findCycle(known);
  if (cycle) throw new EclipticError('INVALID_PLAN', `sub-tasks wait for each other: ${cycle.join(' → ')}`, { cycle });
}

/** A cycle of dependencies, if there is one: removes sub-tasks without dependencies until none is left, or a cycle. */
function findCycle(known: ReadonlyMap<string, SubTaskPlan>): string[] | undefined {
  const missing = new Map([...known].map(([id, { dependsOn }]) => [id, dependsOn.length]));
  const dependents = new Map<string, string[]>();
  for (const [id, { dependsOn }] of known) {
    for (const other of dependsOn) {
      const list = dependents.get(other);
      if (list) list.push(id);
      else dependents.set(other, [id]);
    }
  }
  const free = [...missing].filter(([, count]) => count === 0).map(([id]) => id);
  for (let id = free.pop(); id !== undefined; id = free.pop()) {
    missing.delete(id);
    for (const next of dependents.get(id) ?? []) {
      const left = missing.get(next)! - 1;
      missing.set(next, left);
      if (left === 0) free.push(next);
    }
  }
  const [first] = missing.keys();
  if (first === undefined) return undefined;
  const path: string[] = [];
  for (let at = first; !path.includes(at); at = known.get(at)!.dependsOn.find((id) => missing.has(id))!) path.push(at);
  const next = known.get(path.at(-1)!)!.dependsOn.find((id) => missing.has(id))!;
  return [...path.slice(path.indexOf(next)), next];
}
