import { type Logger, type Runtime, silentLogger, type Timer } from './runtime.js';
import type { Tracer } from './tracing.js';
import { UlidSource } from './ulid.js';

const READS_PER_CLOCK_READ = 64;
const MAX_TIMER_MS = 2 ** 31 - 1;
const RANDOM_RANGE = 2 ** 47;
/** Random bytes drawn at once: a small draw costs as much as a large one. */
const POOL_BYTES = 4_096;

interface SystemRuntimeInit {
  /** Default: no logging. */
  logger?: Logger | undefined;
  /** Default: no spans. */
  tracer?: Tracer | undefined;
}

/** Node loads it with its first use: most commands draw nothing, and it would be a fourth of their start. */
const crypto = () => process.getBuiltinModule('node:crypto');

/** The system's clock, timers and randomness. */
export function systemRuntime(init: SystemRuntimeInit = {}): Runtime {
  return new SystemRuntime(init.logger ?? silentLogger, init.tracer);
}

class SystemRuntime implements Runtime {
  readonly logger: Logger;
  readonly tracer: Tracer | undefined;
  readonly #ulids = new UlidSource(() => this.random());
  #now = 0;
  #readsLeft = 0;
  /** Was the clock read since the last id was made? */
  #clockMoved = true;
  #refreshScheduled = false;
  readonly #pool = new Uint8Array(POOL_BYTES);
  #poolLeft = 0;

  constructor(logger: Logger, tracer: Tracer | undefined) {
    this.logger = logger;
    this.tracer = tracer;
  }

  now(): number {
    if (this.#readsLeft-- > 0) return this.#now;
    return this.#readClock();
  }

  stopwatch(): number {
    return performance.now();
  }

  loopUse(before?: unknown): { readonly busy: number; readonly state: unknown } {
    const { performance: hooks } = process.getBuiltinModule('node:perf_hooks');
    const state = hooks.eventLoopUtilization();
    const since = before === undefined ? state : hooks.eventLoopUtilization(state, before as typeof state);
    return { busy: since.utilization, state };
  }

  setTimer(task: () => void, ms: number): Timer {
    // Node fires a timer beyond its range at once; a longer wait is made of several.
    let handle: NodeJS.Timeout;
    const arm = (left: number) => {
      handle = left > MAX_TIMER_MS ? setTimeout(() => arm(left - MAX_TIMER_MS), MAX_TIMER_MS) : setTimeout(task, left);
      handle.unref();
    };
    arm(ms);
    return { cancel: () => clearTimeout(handle) };
  }

  defer(task: () => void): void {
    setImmediate(task);
  }

  hold(): Timer {
    const handle = setInterval(() => {}, MAX_TIMER_MS);
    return { cancel: () => clearInterval(handle) };
  }

  id(): string {
    if (this.#readsLeft-- <= 0) this.#readClock();
    if (!this.#clockMoved) return this.#ulids.again();
    this.#clockMoved = false;
    return this.#ulids.next(this.#now);
  }

  random(): number {
    return crypto().randomInt(RANDOM_RANGE) / RANDOM_RANGE;
  }

  bytes(count: number): Uint8Array {
    if (count > POOL_BYTES) return crypto().randomBytes(count);
    if (this.#poolLeft < count) {
      crypto().randomFillSync(this.#pool);
      this.#poolLeft = POOL_BYTES;
    }
    const end = this.#poolLeft;
    this.#poolLeft -= count;
    const drawn = this.#pool.slice(end - count, end);
    // Random bytes are used once: the pool must not keep a copy.
    this.#pool.fill(0, end - count, end);
    return drawn;
  }

  #readClock(): number {
    this.#now = Date.now();
    this.#clockMoved = true;
    this.#readsLeft = READS_PER_CLOCK_READ;
    if (!this.#refreshScheduled) {
      this.#refreshScheduled = true;
      // The cached value must not outlive this turn of the event loop.
      setImmediate(() => {
        this.#refreshScheduled = false;
        this.#readsLeft = 0;
      });
    }
    return this.#now;
  }
}
