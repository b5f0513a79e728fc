import { addUsage, type Usage, usageIn } from '../agent/usage.js';
import { wait } from '../runtime/async.js';
import { backoffMs } from '../runtime/backoff.js';
import { Callbacks, logCallback } from '../runtime/callbacks.js';
import { describeError, EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { cutText } from '../runtime/text.js';
import { namedSpan, type Span } from '../runtime/tracing.js';
import { WorkTimer } from '../runtime/work-timer.js';
import { type BranchReport, branchIn } from '../work/branch-report.js';
import { waitingIn } from '../work/waiting-report.js';
import type { AgentById, Assignment, Dispatcher, TaskInput } from './dispatcher.js';
import type { Judge } from './judge.js';
import { askAdviser } from './judge.js';
import { step } from './loop-machine.js';
import type { LoopEffect, LoopEvent, LoopState, LoopStep, Reason } from './loop-state.js';
import { inputOf } from './picked-input.js';
import type { PlanTask } from './plan-schema.js';
import { endOf, type RunNews, type RunView, taskView, viewOf } from './run-news.js';
import type { RunRecord, RunRecords } from './run-records.js';
import { type ReportPiece, reportPieces } from './run-report.js';

export interface RalphRunComponents {
  readonly runtime: Runtime;
  readonly records: RunRecords;
  readonly dispatcher: Dispatcher;
  readonly judge: Judge;
  readonly agent: AgentById;
  /** The agent to ask about failed tasks, and how long to wait. */
  readonly adviser: { readonly agent: string | undefined; readonly timeoutMs: number };
  /** The run has ended, or was stopped. */
  readonly onEnd: (run: RalphRun) => void;
}

/** Characters of a stored reason or feedback. */
const MAX_REASON_CHARS = 8_192;
const MIN_WRITE_PAUSE_MS = 1_000;
const MAX_WRITE_PAUSE_MS = 30_000;
/** Usage reports within this time are stored as one event. */
const USAGE_PAUSE_MS = 1_000;

/** An attempt, a judgement, a pause or a question under way. */
interface Work {
  readonly controller: AbortController;
  timer?: Timer;
  /** Called with the number of its owner's decisions that the work waits for. */
  onWaiting?: (decisions: number) => void;
  /** The agent that accepted it. */
  by?: string;
  /** Reported and not stored yet. */
  usage?: Usage | undefined;
  usageTimer?: Timer;
}

/**
 * One run: the shell of the loop's machine. Its decisions are stored as events, in batches, before they are published
 * and performed; the state is rebuilt from the events after a restart.
 */
export class RalphRun {
  readonly record: RunRecord;
  readonly #components: RalphRunComponents;
  readonly #followers: Callbacks<[news: RunNews]>;
  readonly #work = new Map<string, Work>();
  #waiting: LoopEvent[] = [];
  #writing = false;
  #written: Promise<void> = Promise.resolve();
  #state: LoopState;
  #sequence: number;
  #updatedAt: number;
  readonly #closed = new AbortController();
  readonly #span: Span | undefined;

  constructor(
    components: RalphRunComponents,
    record: RunRecord,
    at: { state: LoopState; sequence: number; updatedAt: number },
  ) {
    this.#components = components;
    this.record = record;
    this.#followers = new Callbacks(`follow of run ${record.id}`, logCallback(components.runtime.logger));
    this.#state = at.state;
    this.#sequence = at.sequence;
    this.#updatedAt = at.updatedAt;
    const { tracer } = components.runtime;
    if (!tracer || this.over) return;
    const { name, attributes } = namedSpan(tracer, 'plan', 'invoke_workflow', record.name);
    const own = { 'ecliptic.run': record.id, 'ecliptic.agent': record.agent };
    this.#span = tracer.start(name, { attributes: { ...own, ...attributes } });
  }

  get view(): RunView {
    return viewOf(this.record, this.#state, this.#updatedAt);
  }

  /** The run with all results, as of now. */
  get report(): Iterable<ReportPiece> {
    return reportPieces(this.record, this.#state, this.#updatedAt);
  }

  get over(): boolean {
    return this.#state.status !== 'running';
  }

  /** Reports changes from now on. Returns the function that unsubscribes. */
  follow(follower: (news: RunNews) => void): () => void {
    return this.#followers.add(follower);
  }

  /** Begins with a step that is on disk already. */
  begin({ state, effects }: LoopStep): void {
    this.#state = state;
    this.#perform(effects);
    if (this.over) this.#end();
  }

  /** Takes an event; resolves when it is on disk. */
  take(event: LoopEvent): Promise<void> {
    if (this.#closed.signal.aborted) return Promise.resolve();
    this.#waiting.push(event);
    if (!this.#writing) this.#written = this.#write();
    return this.#written;
  }

  /** Ends all work because the node stops. The run resumes when the node starts again. */
  async close(): Promise<void> {
    this.#closed.abort();
    this.#waiting = [];
    this.#cancelAll(new EclipticError('NODE_STOPPED', 'the node stops'));
    await this.#written;
  }

  async #write(): Promise<void> {
    this.#writing = true;
    while (this.#waiting.length > 0 && !this.#closed.signal.aborted) await this.#writeWaiting();
    this.#writing = false;
  }

  async #writeWaiting(): Promise<void> {
    const steps: { event: LoopEvent; step: LoopStep }[] = [];
    let state = this.#state;
    for (const event of this.#waiting.splice(0)) {
      const taken = step(state, event);
      // A late event changes nothing, and is not stored.
      if (event.type !== 'spent' && taken.changed.length === 0 && taken.effects.length === 0) continue;
      steps.push({ event, step: taken });
      state = taken.state;
    }
    const events = steps.map(({ event }) => event);
    if (events.length === 0 || !(await this.#keep(events, state))) return;
    this.#sequence += events.length;
    this.#updatedAt = events.at(-1)!.at;
    this.#state = state;
    for (const { step: taken } of steps) this.#tellOf(taken);
    for (const { step: taken } of steps) this.#perform(taken.effects);
    if (this.over) this.#end();
  }

  /** Waits for a failing disk: nothing happens that is not stored. */
  async #keep(events: readonly LoopEvent[], { status }: LoopState): Promise<boolean> {
    const { records, runtime } = this.#components;
    for (let failures = 0; !this.#closed.signal.aborted; failures++) {
      try {
        await records.append(this.record.id, this.#sequence, events, status);
        return true;
      } catch (error) {
        runtime.logger.error({ run: this.record.id, err: error }, 'run event not stored; trying again');
        await wait(runtime, backoffMs(failures, MIN_WRITE_PAUSE_MS, MAX_WRITE_PAUSE_MS), this.#closed.signal);
      }
    }
    return false;
  }

  #tellOf({ state, changed }: LoopStep): void {
    for (const id of new Set(changed)) {
      this.#tell({ event: 'task', run: this.record.id, ...taskView(id, state.tasks.get(id)!) });
    }
  }

  #end(): void {
    this.#cancelAll();
    this.#tell(endOf(this.view));
    this.#span?.end(this.#state.status === 'done' ? undefined : { code: this.#state.status });
    this.#components.onEnd(this);
  }

  #tell(news: RunNews): void {
    this.#followers.call(news);
  }

  #perform(effects: readonly LoopEffect[]): void {
    for (const effect of effects) {
      if (this.#closed.signal.aborted) return;
      if (effect.type === 'cancel') this.#cancelAll();
      else if (effect.type === 'pause') this.#pause(effect);
      else this.#begin(effect);
    }
  }

  #pause({ task, attempt, ms }: Extract<LoopEffect, { type: 'pause' }>): void {
    const work = this.#newWork(task);
    work.timer = this.#components.runtime.setTimer(() => {
      void this.take({ type: 'due', at: this.#components.runtime.now(), task, attempt });
    }, ms);
  }

  /** Begins work that ends with an event, within the task's time. */
  #begin({ type: what, task, attempt }: Extract<LoopEffect, { type: 'dispatch' | 'validate' | 'escalate' }>): void {
    const { runtime, adviser } = this.#components;
    const work = this.#newWork(task);
    const { signal } = work.controller;
    const settings = this.#state.settings.tasks.find(({ id }) => id === task)!;
    const timeoutMs = what === 'escalate' ? adviser.timeoutMs : settings.timeoutMs;
    const over = (outcome: object) => {
      if (this.#work.get(task) !== work) return;
      this.#work.delete(task);
      work.timer?.cancel();
      this.#storeUsage(work, task, attempt);
      void this.take({ at: runtime.now(), task, attempt, ...outcome } as LoopEvent);
    };
    const failed = (error: unknown) => {
      const { by } = work;
      over({ ...this.#failure(what, error), ...(what === 'dispatch' && by !== undefined && { by }) });
    };
    const timer = new WorkTimer(runtime, timeoutMs, () => {
      const late = new EclipticError('REQUEST_TIMEOUT', `it was not done within ${timeoutMs} ms`);
      failed(late);
      work.controller.abort(late);
    });
    work.timer = timer;
    work.onWaiting = (decisions) => timer.hold(decisions);
    const { plan } = this.record;
    const planned = plan.tasks.find(({ id }) => id === task)!;
    const { lostFrom = attempt, by } = this.#state.tasks.get(task)!;
    const lost = Array.from({ length: attempt - lostFrom }, (_, index) => attempt - 1 - index);
    const about = { run: this.record, task: planned, settings, lost, signal, before: by };
    this.#do(what, work, about).then(over, failed);
  }

  /** Does the work, and returns the event that it ends with. */
  async #do(
    what: 'dispatch' | 'validate' | 'escalate',
    work: Work,
    about: Omit<Assignment, 'input' | 'onProgress' | 'onAccepted'>,
  ): Promise<object> {
    const { dispatcher, judge, agent, adviser } = this.#components;
    const { run, task, signal } = about;
    const { id } = task;
    const state = this.#state.tasks.get(id)!;
    switch (what) {
      case 'dispatch': {
        let branch: BranchReport | undefined;
        const onProgress = (value: unknown, by?: string) => {
          if (signal.aborted) return;
          const decisions = waitingIn(value);
          if (decisions !== undefined) return work.onWaiting?.(decisions);
          const usage = usageIn(value);
          const found = branchIn(value);
          if (found) branch = found;
          if (usage) this.#addUsage(work, usage, id, state.attempt);
          else this.#tell({ event: 'progress', run: run.id, id, by: by ?? null, value });
        };
        const onAccepted = (by: string) => {
          work.by = by;
        };
        const assignment = { ...about, input: this.#input(task), onProgress, onAccepted };
        const { result, by } = await dispatcher.dispatch(assignment);
        return { type: 'finished', result: result ?? null, ...(by !== undefined && { by }), ...(branch && { branch }) };
      }
      case 'validate': {
        const assignment = { ...about, input: this.#input(task) };
        const { feedback, ...judgement } = await judge.judge(assignment, state.result);
        return { type: 'judged', ...judgement, ...(feedback && { feedback: cutText(feedback, MAX_REASON_CHARS) }) };
      }
      case 'escalate': {
        const answer = await askAdviser(agent, { run, task, state, signal, ...adviser });
        return { type: 'answered', answer, ...(adviser.agent !== undefined && { adviser: adviser.agent }) };
      }
    }
  }

  #failure(what: 'dispatch' | 'validate' | 'escalate', error: unknown): object {
    if (what === 'escalate') {
      this.#components.runtime.logger.warn(
        { run: this.record.id, err: error },
        'adviser could not be asked about a task',
      );
      return { type: 'answered', answer: { action: 'operator' } };
    }
    const { code, message } = toEclipticError(error, 'HANDLER_FAILED');
    const reason: Reason = { code, message: cutText(describeError(message), MAX_REASON_CHARS) };
    return { type: what === 'dispatch' ? 'failed' : 'unjudged', error: reason };
  }

  #input(task: PlanTask): TaskInput {
    const { id, dependsOn = [], validate: { schema, criteria } = {} } = task;
    const { attempt, feedback } = this.#state.tasks.get(id)!;
    const results = Object.fromEntries(dependsOn.map((other) => [other, this.#state.tasks.get(other)!.result ?? null]));
    const input = inputOf(task, results);
    return {
      run: this.record.id,
      task: id,
      attempt,
      ...(input !== undefined && { input }),
      results,
      ...(feedback.length > 0 && { feedback }),
      ...(schema !== undefined && { outputSchema: schema }),
      ...(criteria !== undefined && { criteria }),
    };
  }

  #addUsage(work: Work, usage: Usage, task: string, attempt: number): void {
    work.usage = work.usage ? addUsage(work.usage, usage) : usage;
    work.usageTimer ??= this.#components.runtime.setTimer(() => {
      this.#storeUsage(work, task, attempt);
    }, USAGE_PAUSE_MS);
  }

  #storeUsage(work: Work, task: string, attempt: number): void {
    const { usage } = work;
    work.usageTimer?.cancel();
    delete work.usageTimer;
    delete work.usage;
    if (usage) void this.take({ type: 'spent', at: this.#components.runtime.now(), task, attempt, usage });
  }

  /** A task has one work under way at a time. */
  #newWork(task: string): Work {
    this.#cancel(task);
    const work: Work = { controller: new AbortController() };
    this.#work.set(task, work);
    return work;
  }

  #cancel(task: string, reason = new EclipticError('CANCELLED', 'the result is not wanted any more')): void {
    const work = this.#work.get(task);
    this.#work.delete(task);
    work?.timer?.cancel();
    work?.usageTimer?.cancel();
    work?.controller.abort(reason);
  }

  #cancelAll(reason?: EclipticError): void {
    for (const task of [...this.#work.keys()]) this.#cancel(task, reason);
  }
}
