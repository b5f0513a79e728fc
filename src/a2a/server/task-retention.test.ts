import { expect, it } from 'vitest';
import { MemoryStore } from '../../store/memory-store.js';
import type { Write } from '../../store/store.js';
import { pushConfigs, sessions, taskEvents, tasks } from './tables.js';
import { retainTasks } from './task-retention.js';

it('deletes ended tasks that are too old or too many, and never an active one', async () => {
  const store = new MemoryStore();
  const task = (id: string, state: string, statusAt: number): Write[] => [
    tasks.put({
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
    }),
    taskEvents.put({ task: id, sequence: 1, events: '[]' }),
    pushConfigs.put({ task: id, id: 'p', config: '{}' }),
    sessions.put({ id: `s-${id}`, project: null, agent: 'mars', name: '', prompt: '', source: 'agent', createdAt: 0 }),
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
  expect((await store.read(tasks)).map(({ id }) => id).sort()).toEqual(['new', 'stuck']);
  expect((await store.read(sessions)).map(({ id }) => id).sort()).toEqual(['s-new', 's-stuck']);
  for (const table of [taskEvents, pushConfigs]) expect(await store.count(table)).toBe(2);
});
