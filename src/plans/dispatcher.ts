import type { LoopTask } from './loop-state.js';
import type { PlanTask } from './plan-schema.js';
import type { RunRecord } from './run-records.js';

/** What whoever works on a task gets besides its description. */
export interface TaskInput {
  readonly run: string;
  readonly task: string;
  /** From 1 on. A later one is for a task that failed, was to be revised, or was broken off when its node stopped. */
  readonly attempt: number;
  readonly input?: unknown;
  /** What the tasks gave that it depends on, by their ids. */
  readonly results: Readonly<Record<string, unknown>>;
  /** What was said of the attempts before, the latest last. */
  readonly feedback?: readonly string[];
}

/** One attempt at one task. */
export interface Assignment {
  readonly run: RunRecord;
  readonly task: PlanTask;
  readonly settings: LoopTask;
  readonly input: TaskInput;
  /** Earlier attempts, the latest first, that were under way when the node stopped; somebody may still be at them. */
  readonly lost: readonly number[];
  /** Aborted when nobody waits for it any more; with `NODE_STOPPED`, until the node is there again. */
  readonly signal: AbortSignal;
  onProgress(value: unknown, by?: string): void;
}

export interface Dispatched {
  readonly result: unknown;
  /** Who did it. */
  readonly by?: string | undefined;
}

/** Gives a task to whoever shall do it. Rejects typed when it was refused, failed, or took too long. */
export interface Dispatcher {
  dispatch(assignment: Assignment): Promise<Dispatched>;
}
