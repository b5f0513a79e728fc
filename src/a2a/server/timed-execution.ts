import { Deadline } from '../../runtime/deadlines.js';
import type { TaskExecutionComponents } from './task-terms.js';

const IDLE_MS = 5 * 60_000;
const QUESTION_MS = 24 * 60 * 60_000;
/** The longest decision that a task waits for. */
export const MAX_HELD_MS = QUESTION_MS;

type TimeComponents = Pick<TaskExecutionComponents, 'runtime' | 'deadlines' | 'limits'>;

/** The time limits of a task's work. */
export abstract class TimedExecution extends Deadline {
  readonly #components: TimeComponents;
  protected idleMs: number;
  protected questionMs: number;
  /** The caller set a limit for the whole task; progress does not extend it. */
  protected fixed = false;
  /** The current time limit and its start. */
  protected limitMs = 0;
  protected since = 0;
  /** Since when the agent has waited for a decision of its owner. */
  protected heldAt: number | undefined;

  constructor(components: TimeComponents) {
    super();
    this.#components = components;
    const { idleMs = IDLE_MS, questionMs = QUESTION_MS } = components.limits ?? {};
    this.idleMs = idleMs;
    this.questionMs = questionMs;
  }

  /** @internal The time that the agent's owner takes for a decision does not count. */
  waiting(decisions: number): void {
    const now = this.#components.runtime.now();
    if (decisions > 0 === (this.heldAt !== undefined)) return;
    if (this.heldAt === undefined) this.heldAt = now;
    else {
      this.limit(this.limitMs, this.fixed ? this.since + now - this.heldAt : now);
      this.heldAt = undefined;
    }
  }

  /** Starts a time limit at `since`. Progress moves `since` without touching the deadline queue. */
  protected limit(limitMs: number, since: number): void {
    this.limitMs = limitMs;
    this.since = since;
    this.rearm(Math.max(0, since + limitMs - this.#components.runtime.now()));
  }

  protected rearm(ms: number): void {
    const { deadlines } = this.#components;
    deadlines.remove(this);
    deadlines.add(this, ms);
  }

  protected setLimits(timeoutMs: number | undefined): void {
    if (timeoutMs === undefined) return;
    this.fixed = true;
    this.idleMs = timeoutMs;
    this.questionMs = timeoutMs;
  }
}
