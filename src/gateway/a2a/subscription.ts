import type { TaskEvent } from '../../a2a-protocol/task-machine.js';
import { endsStream } from '../../a2a-protocol/task-states.js';
import type { Task } from '../../a2a-protocol/types.js';
import { EclipticError } from '../../runtime/errors.js';
import type { LiveTask } from './live-task.js';

/** Events that may wait for one reader. One that falls further behind is cut off, and can go on from where it was. */
const MAX_WAITING = 4_096;

/** One reader of a task's events. However slowly it reads, nobody else waits for it. */
export class Subscription implements AsyncIterable<TaskEvent> {
  readonly #stop: () => void;
  #waiting: TaskEvent[] = [];
  /** Live events that came while the earlier ones were read. */
  #early: TaskEvent[] | undefined = [];
  #last = 0;
  #over: boolean;
  #error: EclipticError | undefined;
  #wake: (() => void) | undefined;

  constructor(live: LiveTask | undefined) {
    this.#over = live === undefined;
    this.#stop = live?.watch((events, task) => this.#hear(events, task)) ?? (() => {});
  }

  /** What comes before the live events; those among them that it holds already are left out. */
  begin(events: readonly TaskEvent[]): void {
    const early = this.#early ?? [];
    this.#early = undefined;
    this.#add(events);
    this.#add(early);
  }

  close(): void {
    this.#stop();
    this.#over = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TaskEvent> {
    try {
      for (;;) {
        const [next] = this.#waiting;
        if (next) {
          this.#waiting.shift();
          yield next;
        } else if (this.#error) throw this.#error;
        else if (this.#over) return;
        else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      this.close();
    }
  }

  #hear(events: readonly TaskEvent[], task: Task): void {
    if (this.#early) this.#early.push(...events);
    else this.#add(events);
    if (!endsStream(task.status.state)) return;
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
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting = [];
      this.#error = new EclipticError('QUEUE_FULL', 'the reader fell too far behind');
      this.#stop();
    }
    this.#wake?.();
  }
}
