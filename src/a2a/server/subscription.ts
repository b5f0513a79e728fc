import { EclipticError } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import { endsStream } from '../protocol/task-states.js';
import type { Task } from '../protocol/types.js';
import type { StoredTask, TaskWatcher } from './stored-task.js';

/** Live events that may wait for one reader. One that falls further behind is cut off, and can go on from where it was. */
const MAX_WAITING = 4_096;

/** One reader of a task's events. However slowly it reads, nobody else waits for it; when it leaves, nothing is left. */
export class Subscription implements AsyncIterator<TaskEvent, undefined>, TaskWatcher {
  readonly #stop: () => void;
  readonly #waiting = new Fifo<TaskEvent>();
  /** Live events that came while the earlier ones were read. */
  #early: TaskEvent[] | undefined = [];
  /** How many may wait: earlier events are there already, and cost nothing more. */
  #room = MAX_WAITING;
  #last = 0;
  #over: boolean;
  #error: EclipticError | undefined;
  #wake: (() => void) | undefined;

  constructor(stored: StoredTask | undefined) {
    this.#over = stored === undefined || stored.told;
    this.#stop = this.#over ? () => {} : stored!.watch(this);
  }

  /** What comes before the live events; those among them that it holds already are left out. */
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

  /** The reader leaves; a step that waits ends. */
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
