import { EclipticError } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import { stepTask, type TaskEvent, type TaskInput, type TaskModel } from '../protocol/task-machine.js';
import { endsStream, isTerminal, settlesSend } from '../protocol/task-rules.js';
import type { Message, Task, TaskState } from '../protocol/types.js';
import type { TaskOrigin, TaskRecord, TaskRecords, TaskSteps } from './task-records.js';

/** Notified of events after they are stored, or of the error that ended storing. */
export interface TaskWatcher {
  happened(events: readonly TaskEvent[], task: Task): void;
  broke?(error: EclipticError): void;
}

/** Returned if everything is stored already. */
export const STORED: Promise<void> = Promise.resolve();

/**
 * A task of this process. Every input goes through the state machine, its result is stored, and only then shown: a
 * reader never sees an event that could be lost, and sees events in stored order.
 */
export class StoredTask {
  readonly #records: TaskRecords;
  /** Made with the first watcher: most tasks end before there is one. */
  #watchers: Set<TaskWatcher> | undefined;
  readonly #stopAgent: () => void;
  #record: TaskRecord;
  /** The stored state, which readers see. */
  #shown: TaskModel;
  #unsaved: readonly TaskEvent[];
  #dirty: boolean;
  /** The write in progress, and the one after it. */
  #saving: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #broken: EclipticError | undefined;
  /** Until the first input or write. */
  #origin: TaskOrigin | undefined;
  /** With the first input, until the write that follows. */
  #steps: TaskSteps | undefined;

  constructor(
    records: TaskRecords,
    record: TaskRecord,
    events: readonly TaskEvent[],
    stopAgent: () => void,
    origin?: TaskOrigin,
  ) {
    this.#records = records;
    this.#origin = origin;
    this.#record = record;
    this.#shown = record.model;
    this.#unsaved = events;
    this.#dirty = events.length > 0;
    this.#stopAgent = stopAgent;
  }

  get id(): string {
    return this.#record.model.task.id;
  }

  get record(): TaskRecord {
    return this.#record.model === this.#shown ? this.#record : { ...this.#record, model: this.#shown };
  }

  /** The stored state. */
  get task(): Task {
    return this.#shown.task;
  }

  /** The current state, stored or not. */
  get state(): TaskState {
    return this.#record.model.task.status.state;
  }

  /** The task has ended, stored or not, or cannot be stored. */
  get over(): boolean {
    return this.#broken !== undefined || isTerminal(this.state);
  }

  /** All watchers have seen the end. */
  get told(): boolean {
    return this.#broken !== undefined || isTerminal(this.#shown.task.status.state);
  }

  knows(key: string): boolean {
    return this.#record.model.seen.includes(key);
  }

  messageOf(id: string): Message | undefined {
    return this.#record.model.task.history?.find(({ messageId, role }) => messageId === id && role === 'ROLE_USER');
  }

  /** The agent can resume the task after a restart. Stored with the next write. */
  setResumable(): void {
    this.#record = { ...this.#record, resumable: true };
    this.#dirty = true;
    this.#origin = undefined;
  }

  /** Throws if the machine refuses the input; resolves when the result is stored. */
  take(input: TaskInput): Promise<void> {
    const step = stepTask(this.#record.model, input);
    if (step.outcome === 'refused') throw new EclipticError(step.code, step.reason, { taskId: this.id });
    if (step.outcome === 'applied') {
      this.#record = { ...this.#record, model: step.model };
      this.#unsaved = this.#unsaved.length === 0 ? step.events : [...this.#unsaved, ...step.events];
      this.#dirty = true;
      this.#steps = this.#origin && { ...this.#origin, input };
      this.#origin = undefined;
      if (step.effects.includes('stop-agent')) this.#stopAgent();
    }
    return this.saved();
  }

  /** Resolves when everything up to now is stored. */
  saved(): Promise<void> {
    if (this.#broken) return Promise.reject(this.#broken);
    if (!this.#dirty) return this.#saving ?? STORED;
    if (!this.#saving) {
      this.#saving = this.#save();
      return this.#saving ?? STORED;
    }
    this.#next ??= this.#saving.then(() => {
      this.#saving = this.#next;
      this.#next = undefined;
      return this.#save();
    });
    return this.#next;
  }

  /** Notifies of every event stored from now on. Returns a function that ends the subscription. */
  watch(watcher: TaskWatcher): () => void {
    const watchers = this.#watchers ?? new Set();
    this.#watchers = watchers.add(watcher);
    return () => {
      watchers.delete(watcher);
    };
  }

  /** The task when a blocking send may return, or a promise of it: the task has ended or waits for its caller. */
  settled(onGone?: (callback: () => void) => () => void): Task | Promise<Task> {
    if (settlesSend(this.task.status.state)) return this.task;
    return new Promise((resolve, reject) => {
      if (this.#broken) return reject(this.#broken);
      const end = () => {
        stop();
        stay?.();
      };
      const stay = onGone?.(() => {
        end();
        reject(new EclipticError('CANCELLED', 'the caller disconnected'));
      });
      const stop = this.watch({
        happened: (_events, task) => {
          if (!settlesSend(task.status.state)) return;
          end();
          resolve(task);
        },
        broke: (error) => {
          end();
          reject(error);
        },
      });
    });
  }

  /** Changes during a write are written together by the next one. */
  #save(): Promise<void> | undefined {
    const events = this.#unsaved;
    const record = this.#record;
    const steps = this.#steps;
    this.#unsaved = [];
    this.#dirty = false;
    this.#steps = undefined;
    this.#origin = undefined;
    const kept = this.#records.save(record, events, steps);
    if (!kept) {
      this.#show(record, events);
      return undefined;
    }
    return kept.then(
      () => {
        if (!this.#next) this.#saving = undefined;
        this.#show(record, events);
      },
      (error: EclipticError) => {
        this.#break(error);
        throw error;
      },
    );
  }

  #show({ model }: TaskRecord, events: readonly TaskEvent[]): void {
    this.#shown = model;
    if (this.#watchers) for (const watcher of [...this.#watchers]) watcher.happened(events, model.task);
  }

  #break(error: EclipticError): void {
    this.#broken = error;
    this.#stopAgent();
    for (const watcher of [...(this.#watchers ?? [])]) watcher.broke?.(error);
    this.#watchers?.clear();
  }
}

/** A reader that falls further behind is cut off, and can resume from its last event. */
const MAX_WAITING = 4_096;

/** One reader of a task's events. A slow reader delays no other, and leaves nothing behind when it goes. */
export class Subscription implements AsyncIterator<TaskEvent, undefined>, TaskWatcher {
  readonly #stop: () => void;
  readonly #waiting = new Fifo<TaskEvent>();
  /** Live events that arrived while the stored ones were loaded. */
  #early: TaskEvent[] | undefined = [];
  /** Loaded events do not count against the limit. */
  #room = MAX_WAITING;
  #last = 0;
  #over: boolean;
  #error: EclipticError | undefined;
  #wake: (() => void) | undefined;

  constructor(stored: StoredTask | undefined) {
    this.#over = stored === undefined || stored.told;
    this.#stop = this.#over ? () => {} : stored!.watch(this);
  }

  /** Queues the stored events before the live ones, without duplicates. */
  begin(events: readonly TaskEvent[]): void {
    const early = this.#early ?? [];
    this.#early = undefined;
    this.#room += events.length;
    this.#add(events);
    this.#add(early);
  }

  happened(events: readonly TaskEvent[], task: Task): void {
    if (this.#early) this.#early.push(...events);
    else this.#add(events);
    if (endsStream(task.status.state)) this.#end();
  }

  broke(error: EclipticError): void {
    this.#error = error;
    this.#end();
  }

  async next(): Promise<IteratorResult<TaskEvent, undefined>> {
    for (;;) {
      const event = this.#waiting.shift();
      if (event) return { value: event, done: false };
      if (this.#error) throw this.#error;
      if (this.#over) return { value: undefined, done: true };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The reader leaves; a pending `next` ends. */
  async return(): Promise<IteratorResult<TaskEvent, undefined>> {
    this.#waiting.drain();
    this.#error = undefined;
    this.#end();
    return { value: undefined, done: true };
  }

  #end(): void {
    this.#stop();
    this.#over = true;
    this.#wake?.();
  }

  #add(events: readonly TaskEvent[]): void {
    for (const event of events) {
      if (event.sequence <= this.#last) continue;
      this.#last = event.sequence;
      this.#waiting.push(event);
    }
    if (this.#waiting.length > this.#room) {
      this.#waiting.drain();
      this.broke(new EclipticError('QUEUE_FULL', 'the reader fell too far behind'));
    }
    this.#wake?.();
  }
}
