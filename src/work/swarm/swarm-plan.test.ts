import { describe, expect, it } from 'vitest';
import { planByCapability, planRecords, readPlan } from './swarm-plan.js';

describe('a plan', () => {
  it('is a list of sub-tasks, of which only the id must be given', () => {
    const empty = { description: 'one: all', requiredCapabilities: [], dependsOn: [] };
    expect(readPlan({ subTasks: [{ id: 'one' }] }, 'all')).toEqual([{ id: 'one', ...empty }]);
    expect(readPlan([{ id: 'one', input: { n: 1 } }], 'all')).toEqual([{ id: 'one', ...empty, input: { n: 1 } }]);
  });

  it.each([
    ['nothing', undefined, 'the plan'],
    ['no sub-tasks', [], 'subTasks'],
    ['one without an id', [{ description: 'x' }], 'subTasks.0.id'],
    ['two of one id', [{ id: 'a' }, { id: 'a' }], 'called "a"'],
    ['one that depends on none of them', [{ id: 'a', dependsOn: ['b'] }], '"a" depends on "b"'],
    ['one that depends on another twice', [{ id: 'a' }, { id: 'b', dependsOn: ['a', 'a'] }], '"b" names'],
    ['one that depends on itself', [{ id: 'a', dependsOn: ['a'] }], 'a → a'],
    [
      'a circle',
      [
        { id: 'a', dependsOn: ['c'] },
        { id: 'b', dependsOn: ['a'] },
        { id: 'c', dependsOn: ['b'] },
        { id: 'd', dependsOn: ['a'] },
      ],
      /→/,
    ],
    ['an input that is too large', [{ id: 'a', input: 'x'.repeat(200_000) }], '"a" is longer'],
  ])('is refused with %s [SW6]', (_, plan, said) => {
    expect(() => readPlan(plan, 'all')).toThrow(expect.objectContaining({ code: 'INVALID_PLAN' }));
    expect(() => readPlan(plan, 'all')).toThrow(said);
  });

  it('is one sub-task for each capability by default', () => {
    expect(
      planByCapability('all', ['x', 'y']).map(({ id, requiredCapabilities }) => [id, requiredCapabilities]),
    ).toEqual([
      ['x', ['x']],
      ['y', ['y']],
    ]);
  });

  it('goes into as many records as it needs, in its order', () => {
    const plan = Array.from({ length: 3_000 }, (_, at) => ({ id: `t${at}`, description: 'x'.repeat(200) }));
    const records = planRecords(readPlan(plan, 'all').map((subTask) => ({ ...subTask, assigned: 'somebody' })));
    expect(records.length).toBeGreaterThan(4);
    for (const record of records) expect(JSON.stringify(record).length).toBeLessThan(140_000);
    const ids = records.flatMap((record) => (record.type === 'plan' ? record.subTasks.map(({ id }) => id) : []));
    expect(ids).toEqual(plan.map(({ id }) => id));
  });
});
