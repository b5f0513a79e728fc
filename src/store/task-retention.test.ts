import { expect, it } from 'vitest';
import { MemoryStore } from './memory-store.js';
import { retainTasks } from './retention.js';
import type { Write } from './store.js';

it('deletes ended tasks that are too old or too many, and never an active one', async () => {
  const store = new MemoryStore();
  const task = (id: string, state: string, statusAt: number): Write[] => [
    {
      put: 'tasks',
      row: {
        id,
        owner: 'alice',
        agent: 'mars',
        session: `s-${id}`,
        context: 'c',
        state: `TASK_STATE_${state}`,
        statusAt,
        createdAt: 0,
        resumable: 0,
        sendKey: id,
        document: '{}',
      },
    },
    { put: 'taskEvents', row: { task: id, sequence: 1, events: '[]' } },
    { put: 'pushConfigs', row: { task: id, id: 'p', config: '{}' } },
    {
      put: 'sessions',
      row: { id: `s-${id}`, project: null, agent: 'mars', name: '', prompt: '', source: 'agent', createdAt: 0 },
    },
  ];
  await store.write([
    ...task('old', 'COMPLETED', 10),
    ...task('stuck', 'WORKING', 11),
    ...task('failed', 'FAILED', 60),
    ...task('canceled', 'CANCELED', 70),
    ...task('new', 'COMPLETED', 80),
  ]);
  expect(await retainTasks(store, { maxAgeMs: 50 }, 100)).toBe(1);
  expect(await retainTasks(store, { maxRows: 2 }, 100)).toBe(2);
  expect(await retainTasks(store, { maxRows: 2, maxAgeMs: 50 }, 100)).toBe(0);
  const left = async (from: 'tasks' | 'sessions') => (await store.read({ from })).map(({ id }) => id).sort();
  expect(await left('tasks')).toEqual(['new', 'stuck']);
  expect(await left('sessions')).toEqual(['s-new', 's-stuck']);
  for (const from of ['taskEvents', 'pushConfigs'] as const) expect(await store.read({ from })).toHaveLength(2);
});
