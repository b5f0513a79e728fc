import type { Store } from './store.js';

export interface TaskLimits {
  readonly maxAgeMs?: number | undefined;
  readonly maxRows?: number | undefined;
}

/** States of tasks that nothing happens to any more. */
const ENDED = ['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'];
const STEP_ROWS = 200;

/** Lets go of the oldest tasks that have ended, with all that belongs to them, in small steps; how many went. */
export async function retainTasks(store: Store, limits: TaskLimits, now: number): Promise<number> {
  const { maxAgeMs = Number.POSITIVE_INFINITY, maxRows = Number.POSITIVE_INFINITY } = limits;
  let total = 0;
  for (;;) {
    const surplus = (await store.count({ from: 'tasks' })) - maxRows;
    const oldest = await store.read({ from: 'tasks', where: { state: ENDED }, orderBy: 'statusAt', limit: STEP_ROWS });
    const gone = oldest.filter(({ statusAt }, index) => index < surplus || statusAt < now - maxAgeMs);
    if (gone.length === 0) return total;
    const task = gone.map(({ id }) => id);
    await store.write([
      { delete: 'tasks', where: { id: task } },
      { delete: 'taskEvents', where: { task } },
      { delete: 'pushConfigs', where: { task } },
      { delete: 'sessions', where: { id: gone.map(({ session }) => session) } },
    ]);
    total += gone.length;
  }
}
