import { type Logger, type Runtime, silentLogger, type Timer } from './runtime.js';
import type { Tracer } from './tracing.js';
import { UlidSource } from './ulid.js';

interface Task {
  readonly due: number;
  readonly order: number;
  run: (() => void) | undefined;
}

export interface SimulatedRuntimeInit {
  /** Drives `random`, ids and the order of tasks that are due at the same instant. Default 1. */
  seed?: number;
  /** The virtual clock's first reading, in epoch milliseconds. Default 2020-01-01. */
  start?: number;
  logger?: Logger;
  tracer?: Tracer;
}

/**
 * A runtime whose clock moves only when told to. Tasks run in order of their due time; those due at the same instant
 * run in an order drawn from the seed, so that one seed always gives the same history and many seeds explore many.
 */
export class SimulatedRuntime implements Runtime {
  readonly seed: number;
  readonly logger: Logger;
  readonly tracer: Tracer | undefined;
  readonly #random: () => number;
  readonly #ulids: UlidSource;
  readonly #tasks: Task[] = [];
  #now: number;

  constructor(init: SimulatedRuntimeInit = {}) {
    this.seed = init.seed ?? 1;
    this.logger = init.logger ?? silentLogger;
    this.tracer = init.tracer;
    this.#now = init.start ?? 1_577_836_800_000;
    this.#random = mulberry32(this.seed);
    this.#ulids = new UlidSource(this.#random);
  }

  now(): number {
    return this.#now;
  }

  stopwatch(): number {
    return this.#now;
  }

  setTimer(task: () => void, ms: number): Timer {
    const scheduled: Task = { due: this.#now + Math.max(0, ms), order: this.#random(), run: task };
    this.#push(scheduled);
    return {
      cancel: () => {
        scheduled.run = undefined;
      },
    };
  }

  defer(task: () => void): void {
    this.setTimer(task, 0);
  }

  hold(): Timer {
    return { cancel() {} };
  }

  id(): string {
    return this.#ulids.next(this.#now);
  }

  random(): number {
    return this.#random();
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.#random() * 256);
  }

  /** Number of tasks that wait to run. */
  get pending(): number {
    return this.#tasks.reduce((count, task) => (task.run ? count + 1 : count), 0);
  }

  /** Moves the clock forward by `ms`, running everything that falls due, and lets promises settle in between. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (let task = this.#popDue(end); task; task = this.#popDue(end)) {
      this.#now = Math.max(this.#now, task.due);
      task.run?.();
      await settle();
    }
    this.#now = end;
  }

  /** Runs until nothing is scheduled, or the virtual time limit is reached. Returns the virtual time that passed. */
  async runUntilIdle(limitMs = 3_600_000): Promise<number> {
    const start = this.#now;
    await settle();
    for (let task = this.#popDue(start + limitMs); task; task = this.#popDue(start + limitMs)) {
      this.#now = Math.max(this.#now, task.due);
      task.run?.();
      await settle();
    }
    return this.#now - start;
  }

  #push(task: Task): void {
    const heap = this.#tasks;
    let at = heap.push(task) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(task, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = task;
  }

  #popDue(end: number): Task | undefined {
    while (this.#tasks.length > 0 && this.#tasks[0]!.due <= end) {
      const task = this.#pop();
      if (task.run) return task;
    }
    return undefined;
  }

  #pop(): Task {
    const heap = this.#tasks;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (!before(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function before(a: Task, b: Task): boolean {
  return a.due < b.due || (a.due === b.due && a.order < b.order);
}

/** One turn of the real event loop: every promise that can settle without a task has settled afterwards. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A small seeded generator with a full 32-bit period. */
function mulberry32(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
