import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { wait, within } from '../../runtime/async.js';
import { backoffMs } from '../../runtime/backoff.js';
import { guarded, logCallback } from '../../runtime/callbacks.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { JailState } from './jail-settings.js';
import { findProcesses, killAll, signalGroup, signalProcess } from './process-table.js';

type ChildExit =
  | { readonly kind: 'code'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: NodeJS.Signals };

export interface StopOptions {
  /** Time to exit before everything is killed. Default 2,000. */
  graceMs?: number;
}

interface ChildInit {
  readonly name: string;
  /** A running process that leads its own process group. */
  readonly process: ChildProcessWithoutNullStreams;
  /** Finds its descendants, and the members of that process group. */
  readonly left: (group: number | undefined) => Promise<readonly number[]>;
  readonly redact?: ((line: string) => string) | undefined;
  readonly onStderr?: ((lines: readonly string[]) => void) | undefined;
  /** Absent where none was asked for. */
  readonly jail?: JailState | undefined;
  /** Is the process the jail of the program? */
  readonly isJail?: boolean;
  /** Called when the child and everything that it started are gone. */
  readonly onGone: () => void;
}

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name as NodeJS.Signals]));

const GRACE_MS = 2_000;
/** The part of the grace period in which only the end of its input asks the child to exit. */
const QUIET_PART = 1 / 8;
/** How long to wait for the last stderr output of a child that has exited. */
const LAST_WORDS_MS = 100;
/** How long a reader may take for the rest of the output. */
const DRAIN_MS = 500;
const FIRST_PAUSE_MS = 2;
const MAX_PAUSE_MS = 25;
const MAX_UNREAD_BYTES = 16 * 1_048_576;

/** A child process and everything that it starts: they end together. */
export class Child {
  readonly pid: number;
  /** Output with back-pressure. A reader must attach at the start. */
  readonly stdout: Readable;
  /** The exit of the child; never rejects. Its descendants may still be ending. */
  readonly exited: Promise<ChildExit>;
  /** Resolves when the child has exited or closed its input. */
  readonly inputClosed: Promise<void>;
  readonly #runtime: Runtime;
  readonly #init: ChildInit;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #stderr: StderrTail;
  readonly #closed: Promise<void>;
  #exit: ChildExit | undefined;
  #drained: Promise<void> | undefined;
  #killAt = Number.POSITIVE_INFINITY;
  #stopping: Promise<ChildExit> | undefined;

  constructor(runtime: Runtime, init: ChildInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#process = init.process;
    this.pid = init.process.pid!;
    this.stdout = init.process.stdout;
    this.#stderr = new StderrTail(runtime, init);
    // The child stopped reading or has exited; its exit is reported.
    init.process.stdin.on('error', () => {});
    this.inputClosed = new Promise((resolve) => init.process.stdin.once('close', () => resolve()));
    this.#closed = new Promise((resolve) => init.process.once('close', () => resolve()));
    this.exited = new Promise((resolve) => {
      init.process.once('exit', (code, signal) => {
        const exit = exitOf(code, signal, init.isJail);
        this.#exit = exit;
        void this.stop();
        void this.#lastWords().then(() => resolve(exit));
      });
    });
  }

  /** The jail that it is in; undefined where none was asked for. */
  get jail(): JailState | undefined {
    return this.#init.jail;
  }

  get stderr(): readonly string[] {
    return this.#stderr.lines;
  }

  /**
   * Writes to its input; resolves when there is room for more. Rejects with `PROCESS_ENDED` when the child has ended or is
   * ending, and with `QUEUE_FULL` when too much waits unread.
   */
  async write(data: string | Uint8Array): Promise<void> {
    const { stdin } = this.#process;
    if (!stdin.writable || stdin.destroyed) throw await this.explained();
    if (stdin.writableLength > MAX_UNREAD_BYTES) {
      throw new EclipticError('QUEUE_FULL', `${this.#init.name} does not read its standard input`, {
        process: this.#init.name,
        waitingBytes: stdin.writableLength,
      });
    }
    if (stdin.write(data)) return;
    this.#drained ??= this.#drain();
    await this.#drained;
  }

  /** Does the process run although one of its pipes closed? Mostly it has ended, and its exit says why. */
  async runsOn(): Promise<boolean> {
    await within(this.#runtime, this.exited, LAST_WORDS_MS + 50, () => {});
    await this.#readPending();
    if (!this.#exit) return true;
    await this.exited;
    return false;
  }

  /** The failure after a pipe closed: the exit and the last words, which say why, are noticed later than that. */
  async explained(): Promise<EclipticError> {
    await this.runsOn();
    return this.failure();
  }

  endInput(): void {
    this.#process.stdin.end();
  }

  /** The exit as an error, with the last line of stderr. */
  failure(): EclipticError {
    const { name } = this.#init;
    const said = lastWords(this.stderr);
    const how = this.#exit ? describeExit(this.#exit) : 'is being stopped, or has closed its input';
    return new EclipticError('PROCESS_ENDED', `${name} ${how}${said ? `; it said: ${said}` : ''}`, {
      process: name,
      ...(this.#exit && { exit: this.#exit }),
      stderr: this.stderr,
    });
  }

  /**
   * Ends the child and all that it started: closes its input, then terminates its process group, then kills everything.
   * Resolves when they are gone and the pipes closed. May be called again to shorten the grace period.
   */
  stop(options: StopOptions = {}): Promise<ChildExit> {
    const graceMs = options.graceMs ?? GRACE_MS;
    const now = this.#runtime.stopwatch();
    this.#killAt = Math.min(this.#killAt, now + graceMs);
    this.#stopping ??= this.#end(now + graceMs * QUIET_PART);
    return this.#stopping;
  }

  async #end(terminateAt: number): Promise<ChildExit> {
    // Timers do not keep this process alive, and it must not exit before its children.
    const hold = this.#runtime.hold();
    if (!this.#process.stdin.writableEnded) this.#process.stdin.end();
    const left = !this.#exit && (await this.#emptyBy(() => Math.min(terminateAt, this.#killAt)));
    if (!left && (await this.#terminate())) {
      if (!(await this.#emptyBy(() => this.#killAt))) signalGroup(this.pid, 'SIGKILL');
    }
    // The number of a child that has exited may be reused.
    const group = this.#exit ? undefined : this.pid;
    if (!(await killAll(this.#runtime, () => this.#init.left(group)))) {
      this.#runtime.logger.warn({ child: this.#init.name }, 'descendants of a child process could not be killed');
    }
    const exit = await this.exited;
    await this.#closePipes();
    hold.cancel();
    this.#init.onGone();
    return exit;
  }

  /** Asks the process group to exit; false where nothing is left of it. */
  async #terminate(): Promise<boolean> {
    // A stopped process receives the signal only when it continues.
    const ask = (send: (signal: NodeJS.Signals) => boolean) => {
      const isThere = send('SIGTERM');
      send('SIGCONT');
      return isThere;
    };
    // The kernel ends what is left of a jail that has exited.
    if (!this.#init.isJail || this.#exit) return ask((signal) => signalGroup(this.pid, signal));
    // A jail that is asked itself kills its program at once.
    const group = await findProcesses(this.#runtime, { groups: [this.pid] });
    for (const pid of group) if (pid !== this.pid) ask((signal) => signalProcess(pid, signal));
    return group.length > 0;
  }

  /** Is the process group empty before that time? */
  async #emptyBy(deadline: () => number): Promise<boolean> {
    for (let round = 0; ; round++) {
      if (!(await this.#groupLives())) return true;
      const left = deadline() - this.#runtime.stopwatch();
      if (left <= 0) return false;
      await wait(this.#runtime, backoffMs(round, FIRST_PAUSE_MS, Math.min(MAX_PAUSE_MS, left)));
    }
  }

  async #groupLives(): Promise<boolean> {
    if (!this.#exit) return true;
    if (!signalGroup(this.pid, 0)) return false;
    // Without an init process that reaps orphans, dead processes stay in their group.
    return process.platform !== 'linux' || (await findProcesses(this.#runtime, { groups: [this.pid] })).length > 0;
  }

  async #closePipes(): Promise<void> {
    const { stdin, stdout, stderr } = this.#process;
    if (stdout.readableFlowing === null) stdout.resume();
    const timer = this.#runtime.setTimer(() => {
      for (const pipe of [stdin, stdout, stderr]) pipe.destroy();
    }, DRAIN_MS);
    await this.#closed;
    timer.cancel();
  }

  async #lastWords(): Promise<void> {
    const { stderr } = this.#process;
    if (stderr.closed) return;
    const closed = new Promise<void>((resolve) => stderr.once('close', () => resolve()));
    await within(this.#runtime, closed, LAST_WORDS_MS, () => this.#readPending());
  }

  /** After a busy time of this process, timers fire before the output and the exit that came meanwhile are read. */
  #readPending(): Promise<void> {
    return new Promise((resolve) => this.#runtime.defer(resolve));
  }

  #drain(): Promise<void> {
    const { stdin } = this.#process;
    return new Promise((resolve, reject) => {
      const settle = () => {
        stdin.off('drain', settle);
        stdin.off('close', settle);
        this.#drained = undefined;
        if (stdin.destroyed) void this.explained().then(reject);
        else resolve();
      };
      stdin.on('drain', settle);
      stdin.on('close', settle);
    });
  }
}

/** A jail ends with the code that a shell would give: 128 and the number of the program's signal. */
function exitOf(code: number | null, given: NodeJS.Signals | null, isJail = false): ChildExit {
  const signal = given ?? (isJail && code !== null && code > 128 ? SIGNALS.get(code - 128) : undefined);
  return signal ? { kind: 'signal', signal } : { kind: 'code', code: code ?? 0 };
}

function describeExit(exit: ChildExit): string {
  return exit.kind === 'code' ? `ended with code ${exit.code}` : `was ended by ${exit.signal}`;
}

const KEPT_LINES = 20;
const MAX_LINE_CHARS = 1_024;
/** Lines are kept longer until their secrets are removed: a cut must not leave a part of one. */
const MAX_RAW_LINE_CHARS = 4 * MAX_LINE_CHARS;
const LOGGED_LINES_PER_SECOND = 100;

/**
 * Reads a child's stderr as fast as it comes, so that the child never blocks on it, and keeps the last lines for error
 * messages. Lines are logged, up to a rate limit.
 */
class StderrTail {
  readonly #runtime: Runtime;
  readonly #name: string;
  readonly #redact: (line: string) => string;
  readonly #onLines: (lines: readonly string[]) => void;
  #lines: string[] = [];
  #partial = '';
  #second = 0;
  #logged = 0;

  constructor(runtime: Runtime, { name, process, redact = (line) => line, onStderr = () => {} }: ChildInit) {
    this.#runtime = runtime;
    this.#name = name;
    this.#redact = (line) => cutText(redact(line), MAX_LINE_CHARS);
    this.#onLines = guarded(onStderr, `onStderr of ${name}`, logCallback(runtime.logger));
    const stream = process.stderr;
    stream.setEncoding('utf8');
    stream.on('data', (chunk: string) => this.#take(chunk));
    // A socket counts as closed before it emits `close`; one that is destroyed emits no `end`.
    stream.on('end', () => this.#take('\n'));
    stream.on('close', () => this.#take('\n'));
  }

  /** The last lines, oldest first; long ones are cut. */
  get lines(): readonly string[] {
    return (this.#partial === '' ? this.#lines : [...this.#lines, this.#partial]).map(this.#redact);
  }

  #take(chunk: string): void {
    const lines = (this.#partial + chunk).split('\n').map((line) => cutText(line, MAX_RAW_LINE_CHARS).trimEnd());
    this.#partial = lines.pop()!;
    const said = lines.filter((line) => line !== '');
    if (said.length === 0) return;
    this.#log(said);
    this.#onLines(said);
    this.#lines = [...this.#lines, ...said.slice(-KEPT_LINES)].slice(-KEPT_LINES);
  }

  #log(lines: readonly string[]): void {
    const second = Math.floor(this.#runtime.now() / 1_000);
    if (second !== this.#second) {
      const skipped = this.#logged - LOGGED_LINES_PER_SECOND;
      if (skipped > 0) this.#runtime.logger.debug({ child: this.#name, skipped }, 'more lines on stderr');
      this.#second = second;
      this.#logged = 0;
    }
    const room = Math.max(0, LOGGED_LINES_PER_SECOND - this.#logged);
    for (const line of lines.slice(0, room).map(this.#redact)) {
      this.#runtime.logger.debug({ child: this.#name, line }, 'stderr');
    }
    this.#logged += lines.length;
  }
}

/** The last line of Node's report of an uncaught error. */
const NODE_VERSION = /^Node\.js v\d/;
/** Such as `TypeError: x is not a function`, in several languages. */
const ERROR = /^(?:Uncaught )?(?:[\w.]*(?:Error|Exception)\b|panic:|fatal:|error:)/i;
const TRACE = /^\s+at |^\s*[}\]),;]*\s*$/;

/** The line that best explains an exit: the message of an uncaught error in Node, else the last line. */
function lastWords(lines: readonly string[]): string | undefined {
  const said = lines.filter((line) => !NODE_VERSION.test(line));
  if (said.length === lines.length) return said.at(-1);
  return said.findLast((line) => ERROR.test(line)) ?? said.findLast((line) => !TRACE.test(line)) ?? said.at(-1);
}
