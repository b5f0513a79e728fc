import { stepTask, type TaskEvent, type TaskInput, type TaskModel } from '../../a2a-protocol/task-machine.js';
import { isTerminal, settlesSend } from '../../a2a-protocol/task-states.js';
import type { Task, TaskState } from '../../a2a-protocol/types.js';
import { EclipticError } from '../../runtime/errors.js';
import type { TaskRecord, TaskRecords } from './task-records.js';

/** Told of events once they are kept. */
export type TaskWatcher = (events: readonly TaskEvent[], task: Task) => void;

/**
 * A task in the hands of this process. Whatever happens to it goes through its machine, is kept, and is only then told
 * to anyone: what somebody has seen is never lost, and comes in the order in which it is kept.
 */
export class LiveTask {
  readonly #records: TaskRecords;
  readonly #watchers = new Set<TaskWatcher>();
  readonly #stopAgent: () => void;
  #record: TaskRecord;
  /** The task as far as it is kept; what is shown. */
  #shown: TaskModel;
  #unsaved: TaskEvent[] = [];
  #saving: Promise<void> | undefined;
  #broken: EclipticError | undefined;

  constructor(records: TaskRecords, record: TaskRecord, events: readonly TaskEvent[], stopAgent: () => void) {
    this.#records = records;
    this.#record = record;
    this.#shown = record.model;
    this.#unsaved = [...events];
    this.#stopAgent = stopAgent;
  }

  get id(): string {
    return this.#record.model.task.id;
  }

  get record(): TaskRecord {
    return { ...this.#record, model: this.#shown };
  }

  /** The task as it is kept. */
  get task(): Task {
    return this.#shown.task;
  }

  get sequence(): number {
    return this.#shown.sequence;
  }

  /** Has it ended, be it kept already or not? */
  get over(): boolean {
    return isTerminal(this.state);
  }

  /** The state it is in, be it kept already or not. */
  get state(): TaskState {
    return this.#record.model.task.status.state;
  }

  /** Resolves once it has ended and that is kept. */
  get ended(): Promise<void> {
    if (isTerminal(this.task.status.state)) return Promise.resolve();
    return new Promise((resolve) => {
      const stop = this.watch((_events, task) => {
        if (!isTerminal(task.status.state)) return;
        stop();
        resolve();
      });
    });
  }

  setResumable(resumable: boolean): void {
    this.#record = { ...this.#record, resumable };
  }

  /** Something happens to the task. Throws why it may not; resolves when what came of it is kept. */
  take(input: TaskInput): Promise<void> {
    const step = stepTask(this.#record.model, input);
    if (step.outcome === 'refused') throw new EclipticError(step.code, step.reason, { taskId: this.id });
    if (step.outcome === 'applied') {
      this.#record = { ...this.#record, model: step.model };
      this.#unsaved.push(...step.events);
      if (step.effects.includes('stop-agent')) this.#stopAgent();
    }
    return this.saved();
  }

  /** Resolves when everything so far is kept. */
  saved(): Promise<void> {
    if (this.#broken) return Promise.reject(this.#broken);
    if (this.#unsaved.length === 0 && this.#record.model === this.#shown) return this.#saving ?? Promise.resolve();
    this.#saving ??= this.#save().finally(() => {
      this.#saving = undefined;
    });
    return this.#saving.then(() => this.saved());
  }

  /** Calls back with every event that is kept from now on. Returns the way to stop. */
  watch(watcher: TaskWatcher): () => void {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  /** Resolves when a blocking caller may have it: it has ended, or cannot go on without its caller. */
  settled(signal?: AbortSignal): Promise<Task> {
    if (settlesSend(this.task.status.state)) return Promise.resolve(this.task);
    return new Promise((resolve, reject) => {
      const end = () => {
        stop();
        signal?.removeEventListener('abort', cancel);
      };
      const cancel = () => {
        end();
        reject(new EclipticError('CANCELLED', 'the caller went away'));
      };
      const stop = this.watch((_events, task) => {
        if (!settlesSend(task.status.state)) return;
        end();
        resolve(task);
      });
      signal?.addEventListener('abort', cancel);
    });
  }

  /** What happens while this is written is written next, all at once. */
  async #save(): Promise<void> {
    const events = this.#unsaved;
    const record = this.#record;
    this.#unsaved = [];
    try {
      await this.#records.save(record, events);
    } catch (error) {
      this.#broken = error as EclipticError;
      this.#stopAgent();
      throw error;
    }
    this.#shown = record.model;
    for (const watcher of [...this.#watchers]) watcher(events, record.model.task);
  }
}
