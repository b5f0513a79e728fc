import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { Children } from '../../system/process/children.js';
import { signalProcess } from '../../system/process/process-table.js';
import { atLeast, type ClientSession } from './client-session.js';
import { type Probe, refused, SUBMITTED, type Surfaced, type WakeAdapter } from './wake-adapter.js';

/** The first version that has a queue for each thread. */
const LEAST_VERSION = [0, 149, 0] as const;
/** A thread's name becomes part of a path and of a command. */
const THREAD = /^[0-9a-zA-Z-]{1,64}$/;
const QUEUE_MS = 5_000;

/**
 * The queue of a Codex thread. Codex takes messages for threads that nobody runs any more as well, so that the way is
 * open only while a process holds the thread's writer lock.
 */
export class CodexQueue implements WakeAdapter {
  readonly name = 'codex queue';
  readonly key: string;
  readonly #runtime: Runtime;
  readonly #children: Children;
  readonly #thread: string;
  readonly #session: ClientSession;

  private constructor(runtime: Runtime, children: Children, thread: string, session: ClientSession) {
    this.#runtime = runtime;
    this.#children = children;
    this.#thread = thread;
    this.#session = session;
    this.key = JSON.stringify(['codex', thread, session.version, session.env.CODEX_HOME]);
  }

  /** The way in, or what is not known of it. */
  static for(runtime: Runtime, children: Children, session: ClientSession): CodexQueue | string {
    if (session.headless) return '"codex exec" loses what is queued for it';
    if (session.session === undefined) return 'its thread is not known before it has called a tool';
    if (!THREAD.test(session.session)) return 'its thread has a name that is none';
    return new CodexQueue(runtime, children, session.session, session);
  }

  async probe(): Promise<Probe> {
    const { version } = this.#session;
    if (!atLeast(version, LEAST_VERSION)) {
      return { open: false, about: `Codex ${version ?? 'of unknown version'}: ${LEAST_VERSION.join('.')} is needed` };
    }
    const dead = await this.#whyDead();
    return dead === undefined
      ? { open: true, about: `Codex ${version} runs the thread` }
      : { open: false, about: dead };
  }

  async surface(pointer: string): Promise<Surfaced> {
    const dead = await this.#whyDead();
    if (dead !== undefined) return refused(dead);
    const { code } = await this.#run('codex', ['queue', '--thread', this.#thread, '--message', pointer]);
    return code === 0 ? SUBMITTED : refused(`"codex queue" ended with ${code ?? 'no code in time'}`);
  }

  /** Why nobody seems to run the thread; undefined when somebody does. */
  async #whyDead(): Promise<string | undefined> {
    const { CODEX_HOME, HOME } = this.#session.env;
    const folder = CODEX_HOME || (HOME && join(HOME, '.codex'));
    if (!folder) return 'where Codex keeps its threads is not known';
    const lock = join(folder, 'thread-writer-locks', `${this.#thread}.lock`);
    const held = process.platform === 'linux' ? isLocked(lock) : await this.#isOpen(lock);
    return held ? undefined : 'no process runs its thread';
  }

  async #isOpen(file: string): Promise<boolean> {
    const { code, said } = await this.#run('lsof', ['-t', '--', file]);
    return code === 0 && /^\d+$/m.test(said);
  }

  async #run(command: string, args: readonly string[]): Promise<{ code: number | undefined; said: string }> {
    const { CODEX_HOME, HOME, PATH } = this.#session.env;
    try {
      const child = await this.#children.start({ command, args, env: { CODEX_HOME, HOME, PATH }, name: command });
      let said = '';
      child.stdout.on('data', (chunk: Buffer) => {
        said = cutText(`${said}${chunk}`, 1_000);
      });
      const timer = this.#runtime.setTimer(() => void child.stop({ graceMs: 0 }), QUEUE_MS);
      const exit = await child.exited;
      timer.cancel();
      return { code: exit.kind === 'code' ? exit.code : undefined, said };
    } catch (error) {
      this.#runtime.logger.debug({ command, error: describeError(error) }, 'a program to wake an agent did not start');
      return { code: undefined, said: '' };
    }
  }
}

/** Does a living process hold a lock on that file? The kernel lists them by inode. */
function isLocked(file: string): boolean {
  try {
    const inode = String(statSync(file).ino);
    return readFileSync('/proc/locks', 'latin1')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .some(([, kind, , access, pid, place]) => {
        const here = kind === 'FLOCK' && access === 'WRITE' && place?.split(':')[2] === inode;
        return here && signalProcess(Number(pid), 0);
      });
  } catch {
    return false;
  }
}
