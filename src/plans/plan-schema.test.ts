import { describe, expect, it } from 'vitest';
import type { PlanTask } from './plan-schema.js';
import { fingerprintsOf } from './plan-schema.js';

const tasks: PlanTask[] = [
  { id: 'c', description: 'third', agent: 'mars', dependsOn: ['b'] },
  { id: 'a', description: 'first', agent: 'mars', input: { x: 1, y: [2] } },
  { id: 'b', description: 'second', agent: 'mars', dependsOn: ['a'] },
  { id: 'd', description: 'alone', agent: 'mars' },
];

/** The tasks whose fingerprints are others after a change. */
function changedBy(id: string, change: Partial<PlanTask>): string[] {
  const before = fingerprintsOf({ tasks });
  const after = fingerprintsOf({ tasks: tasks.map((task) => (task.id === id ? { ...task, ...change } : task)) });
  return [...after].filter(([task, print]) => before.get(task) !== print).map(([task]) => task);
}

describe('a task’s fingerprint [RL7]', () => {
  it('tells it from one that was changed, and all that depend on it too', () => {
    expect(changedBy('a', { description: 'other' }).sort()).toEqual(['a', 'b', 'c']);
    expect(changedBy('b', { agent: 'venus' }).sort()).toEqual(['b', 'c']);
    expect(changedBy('d', { validate: { command: ['true'] } })).toEqual(['d']);
    expect(changedBy('d', { dependsOn: ['a'] })).toEqual(['d']);
  });

  it('is the same however it is written, and whatever its limits are', () => {
    expect(changedBy('a', { input: { y: [2], x: 1 } })).toEqual([]);
    expect(changedBy('a', { retries: 9, timeoutMs: 5, complexity: 'simple' })).toEqual([]);
    expect(fingerprintsOf({ tasks: tasks.toReversed() })).toEqual(fingerprintsOf({ tasks }));
  });

  it('is found in any order, also of a long chain', () => {
    const chain = Array.from(
      { length: 1_000 },
      (_, n): PlanTask => ({
        id: `t${n}`,
        description: 'x',
        agent: 'mars',
        dependsOn: n === 999 ? [] : [`t${n + 1}`],
      }),
    );
    expect(fingerprintsOf({ tasks: chain }).size).toBe(1_000);
  });
});
