import type { AgentTier } from '../mesh/schemas.js';
import type { ErrorCode } from '../runtime/errors.js';
import type { Step } from '../runtime/machine.js';

/** What the loop knows of one task before it begins. */
export interface LoopTask {
  readonly id: string;
  readonly dependsOn: readonly string[];
  readonly tier: AgentTier;
  readonly retries: number;
  /** For one attempt. */
  readonly timeoutMs: number;
  /** Is its result judged before it counts? */
  readonly validated: boolean;
}

export interface LoopSettings {
  /** In the order of the plan, which is the order in which those that are ready begin. */
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
 * Where a task is. `waiting` for its dependencies or for room, `pausing` before another attempt, `escalating` while an
 * L0 agent is asked about it; the last four are ends, of which `escalated` waits for the operator.
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
  /** How often it was handed out. */
  readonly attempt: number;
  /** The first of its attempts, up to this one, whose ends nobody knows: the node stopped while they were under way. */
  readonly lostFrom?: number | undefined;
  /** Attempts since the beginning, or since somebody decided about it, that came to nothing. */
  readonly failures: number;
  /** How often L0 was asked about it. */
  readonly escalations: number;
  /** What it gave, in the end or to be judged. */
  readonly result?: unknown;
  /** Is there a result that nobody has judged yet? */
  readonly unjudged: boolean;
  /** What was said of its attempts, the latest last. */
  readonly feedback: readonly string[];
  /** Who did it. */
  readonly by?: string | undefined;
  /** Why it is where it is, if that is not where it should be. */
  readonly reason?: Reason | undefined;
  /** When it came into this phase. */
  readonly since: number;
}

/** `running`; `stopped` by the operator; `done` when every task is; else `escalated` if one waits for the operator. */
export type RunStatus = 'running' | 'stopped' | 'done' | 'failed' | 'escalated';

export interface LoopState {
  readonly settings: LoopSettings;
  readonly status: RunStatus;
  /** Too few tasks succeed: nothing more is begun. */
  readonly failing: boolean;
  readonly tasks: ReadonlyMap<string, TaskState>;
}

export type Verdict = 'approved' | 'needs-revision' | 'rejected';

/** What a validator says of a result. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly feedback?: string | undefined;
}

/** What L0 says of a task that nobody managed. `operator` where it says nothing of use. */
export type Answer =
  | { readonly action: 'retry'; readonly feedback?: string }
  | { readonly action: 'accept'; readonly result: unknown }
  | { readonly action: 'fail'; readonly reason: string }
  | { readonly action: 'operator' };

/** What happens to a run. Each is on disk before anything follows from it; all of them together are the run. */
export type LoopEvent =
  /** It begins; some tasks may be done already. */
  | {
      readonly type: 'opened';
      readonly at: number;
      readonly settings: LoopSettings;
      readonly carried: readonly Carried[];
    }
  /** It is run again: what did not get done has another go. */
  | { readonly type: 'reopened'; readonly at: number; readonly settings: LoopSettings }
  /** Its node began again: what was under way is lost. */
  | { readonly type: 'resumed'; readonly at: number }
  | { readonly type: 'stopped'; readonly at: number }
  | (OfAttempt & { readonly type: 'finished'; readonly result: unknown; readonly by?: string | undefined })
  | (OfAttempt & { readonly type: 'failed'; readonly error: Reason })
  | (OfAttempt & { readonly type: 'judged'; readonly verdict: Verdict; readonly feedback?: string | undefined })
  /** Nobody could judge it. */
  | (OfAttempt & { readonly type: 'unjudged'; readonly error: Reason })
  | (OfAttempt & { readonly type: 'due' })
  | (OfAttempt & { readonly type: 'answered'; readonly answer: Answer });

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

/** What is to be done now. */
export type LoopEffect =
  | { readonly type: 'dispatch' | 'validate' | 'escalate'; readonly task: string; readonly attempt: number }
  | { readonly type: 'pause'; readonly task: string; readonly attempt: number; readonly ms: number }
  /** Whatever is under way is not waited for any more. */
  | { readonly type: 'cancel' };

export interface LoopStep extends Step<LoopState, LoopEffect> {
  /** The tasks that are in another phase or attempt than before, in the order in which they came there. */
  readonly changed: readonly string[];
}

export const ENDS: ReadonlySet<Phase> = new Set<Phase>(['done', 'failed', 'blocked', 'escalated']);
