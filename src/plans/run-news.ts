import { addUsage, type Usage } from '../agent/usage.js';
import type { BranchReport } from '../work/branch-report.js';
import type { LoopState, Phase, Reason, RunStatus, TaskState } from './loop-state.js';
import type { RunRecord, RunSummary } from './run-records.js';

export interface TaskView {
  readonly id: string;
  readonly phase: Phase;
  readonly attempt: number;
  readonly by: string | null;
  readonly reason: Reason | null;
  readonly since: number;
  /** When its first attempt began, in this run. */
  readonly startedAt?: number | undefined;
  /** Of all attempts, as far as the workers reported it. */
  readonly usage?: Usage | undefined;
  /** What its latest attempt left in a git worktree. */
  readonly branch?: BranchReport | undefined;
  /** Of a done task; left out if it is too large. */
  readonly result?: unknown;
}

export interface RunView extends RunSummary {
  /** When the plan was run, or run again. */
  readonly startedAt: number;
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
      readonly durationMs: number;
      /** Of all tasks, as far as their workers reported it. */
      readonly usage?: Usage;
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
  return { ...rest, status: state.status, startedAt: state.startedAt, updatedAt, tasks };
}

export function taskView(id: string, task: TaskState): TaskView {
  const { phase, attempt, by = null, reason = null, since, startedAt, usage, branch, result } = task;
  const about = { id, phase, attempt, by, reason, since };
  const view = {
    ...about,
    ...(startedAt !== undefined && { startedAt }),
    ...(usage && { usage }),
    ...(branch && { branch }),
  };
  if (phase !== 'done' || JSON.stringify(result ?? null).length > MAX_RESULT_CHARS) return view;
  return { ...view, result: result ?? null };
}

export function countsOf(tasks: Iterable<{ readonly phase: Phase }>): Partial<Record<Phase, number>> {
  const counts: Partial<Record<Phase, number>> = {};
  for (const { phase } of tasks) counts[phase] = (counts[phase] ?? 0) + 1;
  return counts;
}

/** The parts of a view that its end follows from. */
type Ending = Pick<RunView, 'id' | 'status' | 'startedAt' | 'updatedAt'> & {
  readonly tasks: Iterable<Pick<TaskView, 'phase' | 'usage'>>;
};

/** The end of a run. */
export function endOf({ id, status, startedAt, updatedAt, tasks }: Ending): Extract<RunNews, { event: 'ended' }> {
  const usage = usageOf(tasks);
  const durationMs = Math.max(0, updatedAt - startedAt);
  return { event: 'ended', run: id, status, counts: countsOf(tasks), durationMs, ...(usage && { usage }) };
}

export function usageOf(tasks: Iterable<{ readonly usage?: Usage | undefined }>): Usage | undefined {
  let sum: Usage | undefined;
  for (const { usage } of tasks) if (usage) sum = sum ? addUsage(sum, usage) : usage;
  return sum;
}
