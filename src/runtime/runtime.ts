import type { Tracer } from './tracing.js';

/**
 * Everything nondeterministic that the fabric needs, in one injected object. No other folder touches the clock,
 * timers, randomness or id globals, so a whole fabric can run on a simulated runtime and replay from a seed.
 */
export interface Runtime {
  /**
   * Milliseconds since the epoch. Within one turn of the event loop the system clock is read at most once in 64
   * calls: cheap enough for every message, exact enough for timestamps. Use `stopwatch` to measure durations.
   */
  now(): number;
  /** Milliseconds on a monotonic, high-resolution clock; only differences mean something. */
  stopwatch(): number;
  /**
   * The part of its time that the event loop was busy since `before`, the state that the call before returned. Simulated time
   * passes only while nothing is to be done, so simulated runtimes do not have it.
   */
  loopUse?(before?: unknown): { readonly busy: number; readonly state: unknown };
  /** Runs `task` once after `ms`. A pending timer does not keep the process alive. */
  setTimer(task: () => void, ms: number): Timer;
  /** Runs `task` on a later turn of the event loop, after pending I/O had its chance. */
  defer(task: () => void): void;
  /** Keeps the process alive until cancelled: a running node does, as a listening server would. */
  hold(): Timer;
  /** A unique id (ULID): sorts by time, and strictly increases within one runtime. */
  id(): string;
  /** A number in [0, 1). */
  random(): number;
  /** That many unpredictable bytes: for keys and secrets. */
  bytes(count: number): Uint8Array;
  readonly logger: Logger;
  /** Records spans. Default: none, and no cost. */
  readonly tracer?: Tracer | undefined;
}

export interface Timer {
  cancel(): void;
}

export interface Logger {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

/** One level of a log, for authors of handlers: `log.info('begun')`, or with fields `log.info({ file }, 'read')`. */
export interface LogLine {
  (message: string): void;
  (fields: Record<string, unknown>, message: string): void;
}

export type Log = { readonly [Level in keyof Logger]: LogLine };

/** A log whose lines all carry these fields. */
export function boundLog(logger: Logger, bound: Record<string, unknown>): Log {
  const line =
    (level: keyof Logger): LogLine =>
    (fields: Record<string, unknown> | string, message?: string) => {
      if (typeof fields === 'string') logger[level](bound, fields);
      else logger[level]({ ...fields, ...bound }, message ?? '');
    };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
