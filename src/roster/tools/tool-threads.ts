import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ToolAnswer, ToolCall, ToolReport } from './tool-report.js';

export interface ToolThreadsInit {
  /** Time of one call. Default 45 s: callers of tools wait 50. */
  readonly timeoutMs?: number;
  /** Calls that may wait for a thread. Default 64. */
  readonly waiting?: number;
  /** Real paths of folders that no tool looks into. */
  readonly hidden?: readonly string[];
}

const TIMEOUT_MS = 45_000;
const MAX_WAITING = 64;
const MAX_THREADS = 4;
const MEMORY_MIB = 1_024;

/** Runs tools in threads of their own: few at once, each within a time and a memory limit. */
export class ToolThreads {
  readonly #runtime: Runtime;
  readonly #timeoutMs: number;
  readonly #maxWaiting: number;
  readonly #hidden: readonly string[];
  readonly #waiting: (() => void)[] = [];
  readonly #running = new Set<Worker>();
  #free = Math.max(1, Math.min(MAX_THREADS, availableParallelism()));
  #closed = false;

  constructor(runtime: Runtime, { timeoutMs = TIMEOUT_MS, waiting = MAX_WAITING, hidden = [] }: ToolThreadsInit = {}) {
    this.#runtime = runtime;
    this.#timeoutMs = timeoutMs;
    this.#maxWaiting = waiting;
    this.#hidden = hidden;
  }

  async run(call: ToolCall, signal?: AbortSignal): Promise<ToolReport> {
    await this.#turn();
    try {
      signal?.throwIfAborted();
      if (this.#closed) throw stopped();
      return await this.#start(call, signal);
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }

  /** Ends all calls. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#running].map((thread) => thread.terminate()));
  }

  async #turn(): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    if (this.#waiting.length >= this.#maxWaiting) {
      throw new EclipticError('QUEUE_FULL', `${this.#maxWaiting} calls of the roster’s tools wait already`);
    }
    // The call that ends hands its place over.
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async #start(call: ToolCall, signal: AbortSignal | undefined): Promise<ToolReport> {
    const thread = new Worker(threadFile(), {
      workerData: { ...call, hidden: this.#hidden },
      // It needs the path to git, and nothing secret.
      env: environment(),
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MIB },
      stdout: true,
      stderr: true,
    });
    this.#running.add(thread);
    let end: (() => void) | undefined;
    try {
      const answer = await new Promise<ToolAnswer>((resolve, reject) => {
        const late = this.#runtime.setTimer(() => reject(timedOut(call, this.#timeoutMs)), this.#timeoutMs);
        const cancel = () => reject(signal?.reason ?? new EclipticError('CANCELLED', 'the call was cancelled'));
        signal?.addEventListener('abort', cancel, { once: true });
        end = () => {
          late.cancel();
          signal?.removeEventListener('abort', cancel);
        };
        thread.once('message', resolve);
        thread.once('error', (error) => reject(failed(call, error.message)));
        thread.once('exit', () => reject(this.#closed ? stopped() : failed(call, 'its thread ended')));
      });
      if ('report' in answer) return answer.report;
      const { code, message } = answer.error;
      throw new EclipticError(Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'HANDLER_FAILED', message);
    } finally {
      end?.();
      this.#running.delete(thread);
      await thread.terminate();
    }
  }
}

function environment(): Record<string, string> {
  const names = ['PATH', 'HOME', 'SYSTEMROOT', 'ECLIPTIC_BUILT_THREADS'];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]!]])),
  );
}

function threadFile(): URL {
  return /\.ts$/.test(import.meta.url)
    ? new URL('./tool-thread-from-source.mjs', import.meta.url)
    : new URL('./tool-thread.cjs', import.meta.url);
}

function timedOut({ tool }: ToolCall, ms: number): EclipticError {
  const message = `${tool} did not finish within ${Math.round(ms / 1_000)} s; give it a smaller folder or a simpler pattern`;
  return new EclipticError('REQUEST_TIMEOUT', message, { tool });
}

function failed({ tool }: ToolCall, reason: string): EclipticError {
  return new EclipticError('HANDLER_FAILED', `${tool} failed: ${reason}`, { tool });
}

function stopped(): EclipticError {
  return new EclipticError('NODE_STOPPED', 'the roster’s tools are closed');
}
