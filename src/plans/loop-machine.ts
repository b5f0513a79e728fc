import { addUsage, NO_USAGE } from '../agent/usage.js';
import type { AgentTier } from '../mesh/schemas.js';
import { backoffMs } from '../runtime/backoff.js';
import type { ErrorCode } from '../runtime/errors.js';
import {
  type Answer,
  ENDS,
  type LoopEffect,
  type LoopEvent,
  type LoopSettings,
  type LoopState,
  type LoopStep,
  type LoopTask,
  type Phase,
  type Reason,
  type RunStatus,
  type TaskState,
  type Verdict,
} from './loop-state.js';

/** Refusals that would be repeated at every attempt. */
const HOPELESS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'TIER_VIOLATION',
  'SANDBOX_VIOLATION',
  'ESCALATION_REQUIRED',
  'AMBIGUOUS_AGENT',
  'SENDER_REFUSED',
  'INVALID_ENVELOPE',
  'PAYLOAD_TOO_LARGE',
  'NOT_HANDLED',
  'NO_WORKER',
  'PROCESS_START_FAILED',
]);
const MAX_PAUSE_MS = 30_000;
/** How often L0 may send one task back to work. */
const MAX_ESCALATIONS = 3;
/** Stored feedback of one task. */
const MAX_FEEDBACK = 20;

const NEW: TaskState = {
  phase: 'waiting',
  attempt: 0,
  failures: 0,
  escalations: 0,
  unjudged: false,
  feedback: [],
  since: 0,
};

interface RetryTerms {
  readonly pauseMs?: number;
  readonly isFeedback?: boolean;
}

/** The state before the first event. */
const NOTHING: LoopState = {
  settings: {
    tasks: [],
    concurrency: 1,
    tierConcurrency: { 0: 1, 1: 1, 2: 1, 3: 1 },
    retryDelayMs: 1,
    escalation: { policy: 'manual', successRate: 0, afterTasks: 1 },
  },
  status: 'stopped',
  startedAt: 0,
  failing: false,
  tasks: new Map(),
};

/** Rebuilds the state of a run from its events. */
export function replay(events: Iterable<LoopEvent>): LoopState {
  let state = NOTHING;
  for (const event of events) state = step(state, event).state;
  return state;
}

/** An event that comes too late changes nothing. */
export function step(state: LoopState | undefined, event: LoopEvent): LoopStep {
  const turn = new Turn(state ?? NOTHING, event.at);
  turn.take(event);
  return turn.end();
}

/** Collects one step's state and effects. */
class Turn {
  readonly #at: number;
  readonly #tasks: Map<string, TaskState>;
  readonly #effects: LoopEffect[] = [];
  readonly #changed: string[] = [];
  #settings: LoopSettings;
  #status: RunStatus;
  #startedAt: number;
  #failing: boolean;

  constructor(state: LoopState, at: number) {
    this.#at = at;
    this.#tasks = new Map(state.tasks);
    this.#settings = state.settings;
    this.#status = state.status;
    this.#startedAt = state.startedAt;
    this.#failing = state.failing;
  }

  take(event: LoopEvent): void {
    switch (event.type) {
      case 'opened':
        this.#begin(event.settings);
        for (const { id } of event.settings.tasks) this.#tasks.set(id, { ...NEW, since: this.#at });
        for (const { task, result, by } of event.carried) {
          if (this.#tasks.has(task)) this.#set(task, { phase: 'done', result, by });
        }
        return;
      case 'reopened':
        this.#begin(event.settings);
        for (const [id, { phase }] of this.#tasks) if (phase !== 'done') this.#again(id);
        return;
      case 'resumed':
        if (this.#status !== 'running') return;
        for (const [id, task] of this.#tasks) {
          if (task.phase === 'escalating') this.#do('escalate', id, task);
          else if (task.phase === 'running') {
            this.#set(id, { phase: 'waiting', lostFrom: task.lostFrom ?? task.attempt });
          } else if (!ENDS.has(task.phase)) this.#set(id, { phase: 'waiting' });
        }
        return;
      case 'stopped':
        if (this.#status !== 'running') return;
        this.#status = 'stopped';
        this.#effects.push({ type: 'cancel' });
        for (const [id, { phase }] of this.#tasks) {
          if (!ENDS.has(phase)) this.#set(id, { phase: 'waiting', lostFrom: undefined });
        }
        return;
      case 'spent': {
        const task = this.#tasks.get(event.task);
        if (task) this.#set(event.task, { usage: addUsage(task.usage ?? NO_USAGE, event.usage) });
        return;
      }
      default:
        this.#ofAttempt(event);
    }
  }

  /** Starts ready tasks, blocks those that can never start, and ends the run if nothing is left. */
  end(): LoopStep {
    if (this.#status === 'running') {
      this.#block();
      this.#start();
      this.#finish();
    }
    const state: LoopState = {
      settings: this.#settings,
      status: this.#status,
      startedAt: this.#startedAt,
      failing: this.#failing,
      tasks: this.#tasks,
    };
    return { state, effects: this.#effects, changed: this.#changed };
  }

  #begin(settings: LoopSettings): void {
    this.#settings = settings;
    this.#status = 'running';
    this.#startedAt = this.#at;
    this.#failing = false;
  }

  #again(id: string): void {
    this.#set(id, { phase: 'waiting', failures: 0, escalations: 0, reason: undefined, startedAt: undefined });
  }

  #ofAttempt(event: OfAttempt): void {
    const { task: id, attempt } = event;
    const task = this.#tasks.get(id);
    if (this.#status !== 'running' || task?.attempt !== attempt || task.phase !== AWAITED[event.type]) return;
    if (task.phase === 'running') this.#set(id, { lostFrom: undefined });
    switch (event.type) {
      case 'finished':
        this.#set(id, { result: event.result, by: event.by, branch: event.branch });
        if (this.#plan(id).validated) {
          this.#set(id, { phase: 'validating', unjudged: true });
          this.#do('validate', id, task);
        } else this.#set(id, { phase: 'done', reason: undefined });
        break;
      case 'judged':
        if ('result' in event) this.#set(id, { result: event.result });
        this.#judge(id, event.verdict, event.feedback);
        break;
      case 'failed':
        this.#set(id, { by: event.by });
        this.#retry(id, event.error, !HOPELESS.has(event.error.code));
        break;
      case 'unjudged':
        // The fault of a validator is no feedback for the worker.
        this.#retry(id, event.error, !HOPELESS.has(event.error.code), { isFeedback: false });
        break;
      case 'due':
        this.#set(id, { phase: 'waiting' });
        break;
      case 'answered':
        this.#set(id, this.#decide(id, task, event.answer));
    }
  }

  #judge(id: string, verdict: Verdict, feedback = ''): void {
    this.#set(id, { unjudged: false });
    const message = feedback === '' ? `the result was judged as ${verdict}` : feedback;
    const reason: Reason = { code: 'RESULT_REFUSED', message };
    if (verdict === 'approved') this.#set(id, { phase: 'done', reason: undefined });
    else if (verdict === 'rejected') this.#settle(id, reason);
    else this.#retry(id, reason, true, { pauseMs: 0 });
  }

  #retry(id: string, reason: Reason, hopeful: boolean, { pauseMs, isFeedback = true }: RetryTerms = {}): void {
    const before = this.#tasks.get(id)!;
    const failures = before.failures + 1;
    const feedback = isFeedback ? withMore(before.feedback, reason.message) : before.feedback;
    this.#set(id, { failures, reason, feedback });
    if (!hopeful || this.#failing || failures > this.#plan(id).retries) this.#settle(id, reason);
    else if (pauseMs === 0) this.#set(id, { phase: 'waiting' });
    else {
      const ms = backoffMs(failures - 1, this.#settings.retryDelayMs, MAX_PAUSE_MS);
      this.#set(id, { phase: 'pausing' });
      this.#effects.push({ type: 'pause', task: id, attempt: before.attempt, ms });
    }
  }

  /** The task has failed: applies the escalation policy. */
  #settle(id: string, reason: Reason): void {
    const task = this.#tasks.get(id)!;
    const { policy } = this.#settings.escalation;
    if (policy === 'threshold' && (this.#failing || this.#tooFewSucceed())) {
      this.#failing = true;
      this.#set(id, { phase: 'failed', reason });
    } else if (policy === 'manual' || task.escalations >= MAX_ESCALATIONS) {
      this.#set(id, { phase: 'escalated', reason });
    } else {
      this.#set(id, { phase: 'escalating', escalations: task.escalations + 1, reason });
      this.#do('escalate', id, task);
    }
  }

  /** Counts the task that just failed. */
  #tooFewSucceed(): boolean {
    const { successRate, afterTasks } = this.#settings.escalation;
    const phases = [...this.#tasks.values()].map(({ phase }) => phase);
    const done = phases.filter((phase) => phase === 'done').length;
    const lost = phases.filter((phase) => phase === 'failed' || phase === 'escalated' || phase === 'escalating').length;
    const ended = done + lost + 1;
    return ended >= afterTasks && done / ended < successRate;
  }

  #decide(id: string, { feedback, reason }: TaskState, answer: Answer): Partial<TaskState> {
    switch (answer.action) {
      case 'retry': {
        const said = answer.feedback === undefined ? feedback : withMore(feedback, answer.feedback);
        // One more attempt before L0 is asked again.
        return { phase: 'waiting', failures: this.#plan(id).retries, unjudged: false, feedback: said };
      }
      case 'accept':
        return { phase: 'done', result: answer.result, unjudged: false, reason: undefined };
      case 'fail':
        return { phase: 'failed', reason: { code: reason!.code, message: answer.reason } };
      case 'operator':
        return { phase: 'escalated' };
    }
  }

  /** Repeats until nothing changes, since a plan may list a task before its dependencies. */
  #block(): void {
    for (let more = true; more; ) {
      more = false;
      for (const { id, dependsOn } of this.#settings.tasks) {
        if (this.#tasks.get(id)!.phase !== 'waiting') continue;
        const lost = dependsOn.find((other) => LOST.has(this.#tasks.get(other)!.phase));
        if (lost === undefined && !this.#failing) continue;
        const message = lost === undefined ? 'too few tasks succeed' : `"${lost}" did not get done`;
        this.#set(id, { phase: 'blocked', reason: { code: 'RUN_INCOMPLETE', message } });
        more = true;
      }
    }
  }

  #start(): void {
    const active = { all: 0, 0: 0, 1: 0, 2: 0, 3: 0 };
    const count = (tier: AgentTier) => {
      active.all++;
      active[tier]++;
    };
    for (const { id, tier } of this.#settings.tasks) if (ACTIVE.has(this.#tasks.get(id)!.phase)) count(tier);
    const { concurrency, tierConcurrency } = this.#settings;
    for (const { id, tier, dependsOn } of this.#settings.tasks) {
      const task = this.#tasks.get(id)!;
      if (active.all >= concurrency) return;
      if (task.phase !== 'waiting' || active[tier] >= tierConcurrency[tier]) continue;
      if (!dependsOn.every((other) => this.#tasks.get(other)!.phase === 'done')) continue;
      count(tier);
      if (task.unjudged) {
        this.#set(id, { phase: 'validating' });
        this.#do('validate', id, task);
      } else {
        const attempt = task.attempt + 1;
        this.#set(id, { phase: 'running', attempt, startedAt: task.startedAt ?? this.#at });
        this.#effects.push({ type: 'dispatch', task: id, attempt });
      }
    }
  }

  #finish(): void {
    const phases = [...this.#tasks.values()].map(({ phase }) => phase);
    if (!phases.every((phase) => ENDS.has(phase))) return;
    if (phases.every((phase) => phase === 'done')) this.#status = 'done';
    else this.#status = phases.includes('escalated') && !this.#failing ? 'escalated' : 'failed';
  }

  #do(what: 'dispatch' | 'validate' | 'escalate', task: string, { attempt }: TaskState): void {
    this.#effects.push({ type: what, task, attempt });
  }

  #plan(id: string): LoopTask {
    return this.#settings.tasks.find((task) => task.id === id)!;
  }

  #set(id: string, change: Partial<TaskState>): void {
    const before = this.#tasks.get(id)!;
    const moved = change.phase !== undefined && change.phase !== before.phase;
    this.#tasks.set(id, { ...before, ...change, ...(moved && { since: this.#at }) });
    if (moved) this.#changed.push(id);
  }
}

function withMore(feedback: readonly string[], said: string): readonly string[] {
  return [...feedback, said].slice(-MAX_FEEDBACK);
}

/** An event that ends something which the machine waits for. */
type OfAttempt = Exclude<Extract<LoopEvent, { readonly task: string }>, { type: 'spent' }>;

/** The phase in which an event is expected. */
const AWAITED: Readonly<Record<OfAttempt['type'], Phase>> = {
  finished: 'running',
  failed: 'running',
  judged: 'validating',
  unjudged: 'validating',
  due: 'pausing',
  answered: 'escalating',
};

const ACTIVE: ReadonlySet<Phase> = new Set<Phase>(['running', 'validating']);
const LOST: ReadonlySet<Phase> = new Set<Phase>(['failed', 'blocked', 'escalated']);
