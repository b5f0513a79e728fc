import { createHash } from 'node:crypto';
import type { Plan, PlanTask } from './plan-schema.js';

/**
 * What tells a task from one that was changed: what is to be done, by whom, how it is judged, and all of that of the
 * tasks it depends on. A result of a task with the same fingerprint need not be made again.
 */
export function fingerprintsOf({ tasks }: Pick<Plan, 'tasks'>): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const inOrder: PlanTask[] = [];
  const seen = new Set<string>();
  // After those that it depends on; a plan has no circles.
  const trail = tasks.toReversed();
  while (trail.length > 0) {
    const task = trail.at(-1)!;
    const missing = (task.dependsOn ?? []).filter((id) => !seen.has(id));
    if (missing.length === 0) {
      trail.pop();
      if (!seen.has(task.id)) inOrder.push(task);
      seen.add(task.id);
    } else for (const id of missing) trail.push(byId.get(id)!);
  }
  for (const { id, description, agent, capabilities, swarm, input, validate, dependsOn = [] } of inOrder) {
    const before = dependsOn.map((other) => [other, found.get(other)!]).sort();
    const parts = { id, description, agent, capabilities, swarm, input, validate, before };
    found.set(id, createHash('sha256').update(inOneForm(parts)).digest('base64url'));
  }
  return found;
}

/** JSON whose keys are in order, whatever order they were written in. */
function inOneForm(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
