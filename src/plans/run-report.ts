import type { LoopState } from './loop-state.js';
import { type RunView, type TaskView, taskView, viewOf } from './run-news.js';
import type { RunRecord } from './run-records.js';

/** Everything about a run in pieces that fit into frames: the run, then each task, a done one followed by its result. */
export type ReportPiece =
  | ({ readonly event: 'run'; readonly description?: string } & Omit<RunView, 'tasks'>)
  | ({ readonly event: 'task' } & TaskDetail)
  /** A part of the result as JSON. */
  | { readonly event: 'result'; readonly id: string; readonly json: string; readonly last: boolean };

export interface TaskDetail extends Omit<TaskView, 'result'> {
  readonly description?: string;
  /** On its attempts, the latest last. */
  readonly feedback: readonly string[];
}

/** Characters of one part of a result. Each may take six in a frame. */
const PART_CHARS = 1_048_576;

export function* reportPieces(record: RunRecord, state: LoopState, updatedAt: number): Generator<ReportPiece> {
  const { description, tasks: planned } = record.plan;
  const { tasks: _, ...run } = viewOf(record, { ...state, tasks: new Map() }, updatedAt);
  yield { event: 'run', ...(description !== undefined && { description }), ...run };
  const descriptions = new Map(planned.map((task) => [task.id, task.description]));
  for (const [id, task] of state.tasks) {
    const { result: __, ...view } = taskView(id, task);
    const said = descriptions.get(id);
    yield { event: 'task', ...view, ...(said !== undefined && { description: said }), feedback: task.feedback };
    if (task.phase !== 'done') continue;
    const json = JSON.stringify(task.result ?? null);
    for (let at = 0; at < json.length; at += PART_CHARS) {
      yield { event: 'result', id, json: json.slice(at, at + PART_CHARS), last: at + PART_CHARS >= json.length };
    }
  }
}
