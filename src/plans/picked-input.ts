import { EclipticError } from '../runtime/errors.js';
import type { PlanTask } from './plan-schema.js';

/** A part of a dependency's result: the task, and the fields that lead to it. */
export interface Picked {
  readonly task: string;
  readonly path: readonly string[];
}

/** Reads `task.field.0`. Ids may contain dots, so the longest known one counts; undefined where none is. */
export function readPick(pick: string, dependsOn: readonly string[]): Picked | undefined {
  const [task] = dependsOn.filter((id) => pick === id || pick.startsWith(`${id}.`)).sort((a, b) => b.length - a.length);
  if (task === undefined) return undefined;
  return { task, path: pick === task ? [] : pick.slice(task.length + 1).split('.') };
}

/** The input of a task: its own, with the parts of results that it picks. Throws where a result lacks such a part. */
export function inputOf(
  { id, input, inputFrom, dependsOn = [] }: PlanTask,
  results: Readonly<Record<string, unknown>>,
): unknown {
  if (inputFrom === undefined) return input;
  const picked = Object.entries(inputFrom).map(([name, pick]) => {
    const { task, path } = readPick(pick, dependsOn)!;
    let value = results[task];
    for (const field of path) {
      const isThere = typeof value === 'object' && value !== null && Object.hasOwn(value, field);
      if (!isThere) {
        const message = `inputFrom.${name} of "${id}": the result of "${task}" has no "${path.join('.')}"`;
        throw new EclipticError('INVALID_PLAN', message, { task: id, faults: [message] });
      }
      value = (value as Readonly<Record<string, unknown>>)[field];
    }
    return [name, value] as const;
  });
  return { ...(input as object | undefined), ...Object.fromEntries(picked) };
}
