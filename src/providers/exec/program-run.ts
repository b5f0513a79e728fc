import type { Readable } from 'node:stream';
import { Deferred, within } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText, endOfText } from '../../runtime/text.js';
import type { Child } from '../../system/process/child.js';
import type { Program } from '../../system/process/children.js';
import type { HostComponents } from '../host/isolated-provider-host.js';
import { crashed, HOST_LIMITS, watchMemory } from '../host/watched-process.js';
import type { ProgressLines } from './progress-lines.js';

interface RunInit {
  readonly provider: string;
  /** Resolves the credentials of this run. */
  readonly program: () => Promise<Program>;
  /** The text of its standard input. */
  readonly input: string;
  readonly timeoutMs: number;
  readonly memoryMb: number;
  readonly progress: ProgressLines;
  /** Removes secrets. */
  readonly clean: (text: string) => string;
}

/** The result must fit into a message. */
export const MAX_OUTPUT_BYTES = 1_048_576;
/** The end of the output and of the errors that a failure quotes, each. */
const MAX_QUOTED_CHARS = 4_096;
const MAX_LAST_CHARS = 200;
/** How long to read on after the exit: a process that the program left behind may hold its output open. */
const DRAIN_MS = 500;
/** Stopping takes less; only a process that hangs in the kernel takes longer, and is not waited for. */
const STOP_MS = 6_000;

/** One program from its start to its end, for one piece of work. */
export class ProgramRun {
  /** Resolves when no process of it is left; never rejects. */
  readonly gone: Promise<void>;
  readonly result: Promise<unknown>;
  readonly #components: HostComponents;
  readonly #init: RunInit;
  readonly #ended = new Deferred<undefined>();
  #failure: EclipticError | undefined;
  #child: Child | undefined;
  #over = false;

  constructor(components: HostComponents, init: RunInit) {
    this.#components = components;
    this.#init = init;
    this.result = this.#run();
    this.gone = this.#leave();
  }

  get over(): boolean {
    return this.#over;
  }

  /** The process, while the work is not over. */
  get pid(): number | undefined {
    return this.#over ? undefined : this.#child?.pid;
  }

  /** Fails the work, and ends the program with everything that it started. */
  end(failure: EclipticError, graceMs?: number): void {
    if (this.#over || this.#failure) return;
    this.#failure = failure;
    void this.#child?.stop(graceMs === undefined ? {} : { graceMs });
    this.#ended.resolve(undefined);
  }

  async #run(): Promise<unknown> {
    const { provider, program, timeoutMs, progress } = this.#init;
    const timer = this.#components.runtime.setTimer(() => {
      const message = `${provider} did not end within ${timeoutMs} ms`;
      this.end(new EclipticError('PROVIDER_TIMEOUT', message, { reason: 'deadline', timeoutMs }));
    }, timeoutMs);
    try {
      const ready = await Promise.race([program(), this.#ended.promise]);
      if (!ready || this.#failure) throw this.#failure;
      return await this.#follow(await this.#components.children.start(ready));
    } finally {
      timer.cancel();
      progress.end();
      this.#over = true;
    }
  }

  async #follow(child: Child): Promise<unknown> {
    const { runtime } = this.#components;
    const { provider, input, memoryMb } = this.#init;
    this.#child = child;
    // The work may have been given up in the moment of the start: the program must not get its task any more.
    if (this.#failure) void child.stop({ graceMs: 0 });
    const output = new Output(child.stdout, () => {
      const message = `${provider} printed more than ${MAX_OUTPUT_BYTES} bytes`;
      const details = { provider, reason: 'output', maxBytes: MAX_OUTPUT_BYTES };
      this.end(new EclipticError('PROVIDER_EXECUTE_FAILED', message, details), 0);
    });
    const limits = { ...HOST_LIMITS, memoryMb };
    const unwatch = watchMemory(provider, child, this.#components, limits, (reason) => this.end(reason, 0));
    try {
      // A program may end well without having read its input.
      child.write(input).catch(() => {});
      child.endInput();
      const exit = this.#failure ? undefined : await Promise.race([child.exited, this.#ended.promise]);
      // After a busy time, timers fire before pending output is read.
      const readPending = () => new Promise<void>((resolve) => runtime.defer(resolve));
      if (!this.#failure) await within(runtime, output.closed, DRAIN_MS, readPending);
      if (!exit || this.#failure) {
        // The same work may be given again at once: two programs must not run for it.
        await within(runtime, child.stop(), STOP_MS, () => {});
        throw this.#failure;
      }
      if (exit.kind === 'signal') throw crashed(provider, child.failure());
      if (exit.code !== 0) throw this.#failed(exit.code, output.text, child.stderr);
      return resultOf(output.text);
    } finally {
      unwatch();
    }
  }

  /** The message has what the program said, so that a second attempt can do better. */
  #failed(code: number, printed: string, stderr: readonly string[]): EclipticError {
    const { provider, clean } = this.#init;
    // Cleaned before it is cut: a cut must not leave a part of a secret.
    const output = endOfText(clean(endOfText(printed, 16 * MAX_QUOTED_CHARS)).trim(), MAX_QUOTED_CHARS);
    const errors = endOfText(stderr.join('\n'), MAX_QUOTED_CHARS);
    const said = [output, errors].filter((part) => part !== '').join('\n');
    // Lists show the first line only, and most programs say at the end what is wrong.
    const last = cutText((output || errors).split('\n').at(-1)!.trim(), MAX_LAST_CHARS);
    const message = `${provider} ended with code ${code}${said && `: ${said.includes('\n') ? `${last}\n` : ''}${said}`}`;
    return new EclipticError('PROVIDER_EXECUTE_FAILED', message, { provider, exit: { kind: 'code', code } });
  }

  async #leave(): Promise<void> {
    await this.result.catch(() => {});
    await this.#child?.stop();
  }
}

/** Collects a program's standard output. */
class Output {
  readonly closed: Promise<void>;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(stream: Readable, onTooLarge: () => void) {
    stream.on('data', (chunk: Buffer) => {
      this.#bytes += chunk.length;
      if (this.#bytes <= MAX_OUTPUT_BYTES) this.#chunks.push(chunk);
      else onTooLarge();
    });
    // A broken pipe ends the output; the exit tells the rest.
    stream.on('error', () => {});
    this.closed = new Promise((resolve) => {
      stream.once('end', () => resolve());
      stream.once('close', () => resolve());
    });
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString();
  }
}

/** The output without its last newline, or its value where all of it is a JSON object or array. */
function resultOf(output: string): unknown {
  const text = output.replace(/\r?\n$/, '');
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
