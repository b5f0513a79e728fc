import type { Store } from '../../store/store.js';
import { pushConfigs, sessions, taskEvents, tasks } from './tables.js';

/** Limits of the tasks. Default: none. */
export interface TaskLimits {
  readonly maxAgeMs?: number | undefined;
  readonly maxRows?: number | undefined;
}

const DAY_MS = 86_400_000;
/** The limits of a node whose owner set none. */
export const TASK_LIMITS: TaskLimits = { maxAgeMs: 30 * DAY_MS, maxRows: 100_000 };

const ENDED = ['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'];
const TASKS_PER_STEP = 200;

/** Deletes the oldest ended tasks, with everything that belongs to them, in small steps. Returns their number. */
export async function retainTasks(store: Store, limits: TaskLimits, now: number): Promise<number> {
  const { maxAgeMs = Number.POSITIVE_INFINITY, maxRows = Number.POSITIVE_INFINITY } = limits;
  let total = 0;
  for (;;) {
    const surplus = (await store.count(tasks)) - maxRows;
    const oldest = await store.read(tasks, {
      where: { state: ENDED },
      orderBy: 'statusAt',
      limit: TASKS_PER_STEP,
    });
    const gone = oldest.filter(({ statusAt }, index) => index < surplus || statusAt < now - maxAgeMs);
    if (gone.length === 0) return total;
    const task = gone.map(({ id }) => id);
    await store.write([
      tasks.delete({ id: task }),
      taskEvents.delete({ task }),
      pushConfigs.delete({ task }),
      sessions.delete({ id: gone.map(({ session }) => session) }),
    ]);
    total += gone.length;
  }
}
