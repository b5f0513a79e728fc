import type { LoopState, Phase, Reason, RunStatus, TaskState } from './loop-state.js';
import type { RunRecord, RunSummary } from './run-records.js';

export interface TaskView {
  readonly id: string;
  readonly phase: Phase;
  readonly attempt: number;
  readonly by: string | null;
  readonly reason: Reason | null;
  readonly since: number;
  /** Of a done task; left out if it is too large. */
  readonly result?: unknown;
}

export interface RunView extends RunSummary {
  readonly tasks: readonly TaskView[];
}

/** What followers of a run get: first the run, then its changes. */
export type RunNews =
  | ({ readonly event: 'run' } & RunView)
  | ({ readonly event: 'task'; readonly run: string } & TaskView)
  | {
      readonly event: 'progress';
      readonly run: string;
      readonly id: string;
      readonly by: string | null;
      readonly value: unknown;
    }
  | {
      readonly event: 'ended';
      readonly run: string;
      readonly status: RunStatus;
      readonly counts: Readonly<Partial<Record<Phase, number>>>;
    };

/** Characters of all results in one view: they must fit in a frame. */
const MAX_RESULT_CHARS = 2 * 1_048_576;

export function viewOf(record: RunRecord, state: LoopState, updatedAt: number): RunView {
  const { plan: _, folder: __, ...rest } = record;
  let chars = 0;
  const tasks = [...state.tasks].map(([id, task]) => {
    const { result, ...view } = taskView(id, task);
    chars += result === undefined ? 0 : JSON.stringify(result).length;
    return result === undefined || chars > MAX_RESULT_CHARS ? view : { ...view, result };
  });
  return { ...rest, status: state.status, updatedAt, tasks };
}

export function taskView(id: string, task: TaskState): TaskView {
  const { phase, attempt, by = null, reason = null, since, result } = task;
  const view = { id, phase, attempt, by, reason, since };
  if (phase !== 'done' || JSON.stringify(result ?? null).length > MAX_RESULT_CHARS) return view;
  return { ...view, result: result ?? null };
}

export function countsOf(tasks: Iterable<{ readonly phase: Phase }>): Partial<Record<Phase, number>> {
  const counts: Partial<Record<Phase, number>> = {};
  for (const { phase } of tasks) counts[phase] = (counts[phase] ?? 0) + 1;
  return counts;
}
