import type { Usage } from '../agent/usage.js';
import type { AgentTier } from '../mesh/schemas.js';
import type { ErrorCode } from '../runtime/errors.js';
import type { Step } from '../runtime/machine.js';
import type { BranchReport } from '../work/branch-report.js';

/** A task as the machine sees it. */
export interface LoopTask {
  readonly id: string;
  readonly dependsOn: readonly string[];
  readonly tier: AgentTier;
  readonly retries: number;
  /** For one attempt. */
  readonly timeoutMs: number;
  /** Is its result judged? */
  readonly validated: boolean;
}

export interface LoopSettings {
  /** In the order of the plan: ready tasks begin in this order. */
  readonly tasks: readonly LoopTask[];
  readonly concurrency: number;
  readonly tierConcurrency: Readonly<Record<AgentTier, number>>;
  readonly retryDelayMs: number;
  readonly escalation: {
    readonly policy: 'auto' | 'manual' | 'threshold';
    readonly successRate: number;
    readonly afterTasks: number;
  };
}

/**
 * `waiting` for dependencies or for room, `pausing` before another attempt, `escalating` while an L0 agent is asked. The
 * last four are ends, of which `escalated` waits for the operator.
 */
export type Phase =
  | 'waiting'
  | 'running'
  | 'validating'
  | 'pausing'
  | 'escalating'
  | 'done'
  | 'failed'
  | 'blocked'
  | 'escalated';

export interface Reason {
  readonly code: ErrorCode;
  readonly message: string;
}

export interface TaskState {
  readonly phase: Phase;
  readonly attempt: number;
  /** The first of the attempts, up to this one, that were under way when the node stopped; their ends are unknown. */
  readonly lostFrom?: number | undefined;
  /** Failed attempts since the beginning, or since the latest decision about the task. */
  readonly failures: number;
  /** How often L0 was asked. */
  readonly escalations: number;
  readonly result?: unknown;
  /** Does its result still have to be judged? */
  readonly unjudged: boolean;
  /** On its attempts, the latest last. */
  readonly feedback: readonly string[];
  /** The agents that did it, or took the latest attempt. */
  readonly by?: string | undefined;
  /** Of all attempts, as far as the workers reported it. */
  readonly usage?: Usage | undefined;
  /** What the latest attempt left in its git worktree. */
  readonly branch?: BranchReport | undefined;
  /** When its first attempt in this run began. */
  readonly startedAt?: number | undefined;
  /** Why it failed, waits for another attempt, or is blocked. */
  readonly reason?: Reason | undefined;
  /** When this phase began. */
  readonly since: number;
}

/** `running`; `stopped` by the operator; `done` when every task is; else `escalated` if one waits for the operator. */
export type RunStatus = 'running' | 'stopped' | 'done' | 'failed' | 'escalated';

export interface LoopState {
  readonly settings: LoopSettings;
  readonly status: RunStatus;
  /** When the plan was run, or run again. */
  readonly startedAt: number;
  /** Too few tasks succeed: no task begins any more. */
  readonly failing: boolean;
  readonly tasks: ReadonlyMap<string, TaskState>;
}

export type Verdict = 'approved' | 'needs-revision' | 'rejected';

export interface Judgement {
  readonly verdict: Verdict;
  readonly feedback?: string | undefined;
  /** The approved value, where a validator read it from a text. */
  readonly result?: unknown;
}

/** The decision of L0 about a failed task; `operator` leaves it to the operator. */
export type Answer =
  | { readonly action: 'retry'; readonly feedback?: string }
  | { readonly action: 'accept'; readonly result: unknown }
  | { readonly action: 'fail'; readonly reason: string }
  | { readonly action: 'operator' };

/** Each event is on disk before anything follows from it. All events of a run rebuild its state. */
export type LoopEvent =
  /** `carried`: tasks that an earlier run has done. */
  | {
      readonly type: 'opened';
      readonly at: number;
      readonly settings: LoopSettings;
      readonly carried: readonly Carried[];
    }
  /** The plan is run again: tasks that are not done start over. */
  | { readonly type: 'reopened'; readonly at: number; readonly settings: LoopSettings }
  /** The node restarted: work under way is lost. */
  | { readonly type: 'resumed'; readonly at: number }
  | { readonly type: 'stopped'; readonly at: number }
  | (OfAttempt & {
      readonly type: 'finished';
      readonly result: unknown;
      readonly by?: string | undefined;
      readonly branch?: BranchReport | undefined;
    })
  /** `by`: the agent that had accepted it. */
  | (OfAttempt & { readonly type: 'failed'; readonly error: Reason; readonly by?: string | undefined })
  | (OfAttempt & Judgement & { readonly type: 'judged' })
  /** No validator could judge it. */
  | (OfAttempt & { readonly type: 'unjudged'; readonly error: Reason })
  | (OfAttempt & { readonly type: 'due' })
  /** `adviser`: the agent that gave the answer; undefined where none was asked. */
  | (OfAttempt & { readonly type: 'answered'; readonly answer: Answer; readonly adviser?: string | undefined })
  /** The worker reported usage; it counts whatever becomes of the attempt. */
  | (OfAttempt & { readonly type: 'spent'; readonly usage: Usage });

interface OfAttempt {
  readonly at: number;
  readonly task: string;
  readonly attempt: number;
}

export interface Carried {
  readonly task: string;
  readonly result: unknown;
  readonly by?: string | undefined;
}

export type LoopEffect =
  | { readonly type: 'dispatch' | 'validate' | 'escalate'; readonly task: string; readonly attempt: number }
  | { readonly type: 'pause'; readonly task: string; readonly attempt: number; readonly ms: number }
  /** Ends all work under way. */
  | { readonly type: 'cancel' };

export interface LoopStep extends Step<LoopState, LoopEffect> {
  /** Tasks with a new phase or attempt, in the order of the changes. */
  readonly changed: readonly string[];
}

export const ENDS: ReadonlySet<Phase> = new Set<Phase>(['done', 'failed', 'blocked', 'escalated']);
