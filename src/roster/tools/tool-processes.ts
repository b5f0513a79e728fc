import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import type { Children } from '../../system/process/children.js';
import type { ToolAnswer, ToolCall, ToolReport } from './tool-report.js';

export interface ToolProcessesInit {
  readonly runtime: Runtime;
  readonly children: Children;
  /** Time of one call. Default 45 s: callers of tools wait 50. */
  readonly timeoutMs?: number;
  /** Calls that run at once. Default: as many as there are processors, at most 4. */
  readonly atOnce?: number;
  /** Calls that may wait for a process. Default 64. */
  readonly waiting?: number;
  /** Real paths of folders that no tool looks into. */
  readonly hidden?: readonly string[];
}

const TIMEOUT_MS = 45_000;
const MAX_WAITING = 64;
const MAX_AT_ONCE = 4;
const MEMORY_MIB = 1_024;
const MAX_ANSWER_CHARS = 64 * 1_048_576;

/**
 * Runs each call of a tool in a process of its own, within a time and a memory limit: a file can exhaust the stack of a
 * parser in a way that ends the whole process, and a thread would take the node with it.
 */
export class ToolProcesses {
  readonly #init: ToolProcessesInit;
  readonly #waiting: (() => void)[] = [];
  readonly #running = new Set<Child>();
  #free: number;
  #closed = false;

  constructor(init: ToolProcessesInit) {
    this.#init = init;
    this.#free = init.atOnce ?? Math.max(1, Math.min(MAX_AT_ONCE, availableParallelism()));
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
    await Promise.all([...this.#running].map((child) => child.stop({ graceMs: 0 })));
  }

  async #turn(): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    const { waiting = MAX_WAITING } = this.#init;
    if (this.#waiting.length >= waiting) {
      throw new EclipticError('QUEUE_FULL', `${waiting} calls of the roster’s tools wait already`);
    }
    // The call that ends hands its place over.
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async #start(call: ToolCall, signal: AbortSignal | undefined): Promise<ToolReport> {
    const { runtime, children, timeoutMs = TIMEOUT_MS, hidden = [] } = this.#init;
    let fatal: string | undefined;
    const child = await children.start({
      command: process.execPath,
      args: [`--max-old-space-size=${MEMORY_MIB}`, programFile()],
      env: { ECLIPTIC_BUILT_THREADS: process.env.ECLIPTIC_BUILT_THREADS },
      name: call.tool,
      onStderr: (lines) => {
        fatal ??= lines.find((line) => line.startsWith('FATAL ERROR: '));
      },
    });
    this.#running.add(child);
    let end: (() => void) | undefined;
    try {
      const line = await new Promise<string>((resolve, reject) => {
        const late = runtime.setTimer(() => reject(timedOut(call, timeoutMs)), timeoutMs);
        const cancel = () => reject(signal?.reason ?? new EclipticError('CANCELLED', 'the call was cancelled'));
        signal?.addEventListener('abort', cancel, { once: true });
        end = () => {
          late.cancel();
          signal?.removeEventListener('abort', cancel);
        };
        if (this.#closed) reject(stopped());
        if (signal?.aborted) cancel();
        const without = async () => {
          const { message } = await child.explained();
          reject(this.#closed ? stopped() : failed(call, fatal ?? message));
        };
        readLine(child, resolve, () => void without());
        // A child that ended without reading says why itself.
        child.write(`${JSON.stringify({ ...call, hidden })}`).catch(() => {});
        child.endInput();
      });
      const answer = JSON.parse(line) as ToolAnswer;
      if ('report' in answer) return answer.report;
      const { code, message } = answer.error;
      throw new EclipticError(Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'HANDLER_FAILED', message);
    } finally {
      end?.();
      await child.stop({ graceMs: 0 });
      this.#running.delete(child);
    }
  }
}

/** The one line that the process writes; `without` is called where it ends before that. */
function readLine(child: Child, take: (line: string) => void, without: () => void): void {
  const parts: string[] = [];
  let chars = 0;
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', (text: string) => {
    chars += text.length;
    if (chars > MAX_ANSWER_CHARS) return without();
    parts.push(text);
    if (text.endsWith('\n')) take(parts.join(''));
  });
  child.stdout.once('error', without);
  child.stdout.once('close', without);
}

function programFile(): string {
  const file = import.meta.url.endsWith('.ts')
    ? new URL('./tool-process-from-source.mjs', import.meta.url)
    : new URL('./tool-process.cjs', import.meta.url);
  return fileURLToPath(file);
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
