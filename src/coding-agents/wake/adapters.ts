import { readFileSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { isAbsolute, join } from 'node:path';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { type FetchAnswer, guardedFetch } from '../../system/fetch/guarded-fetch.js';
import type { Children } from '../../system/process/children.js';
import { signalProcess } from '../../system/process/process-table.js';
import { atLeast, type ClientSession, wakeClientOf } from './client-session.js';

/** Whether there is a way in at present, and in words for the owner. */
export interface Probe {
  readonly open: boolean;
  readonly about: string;
}

/**
 * One way to start a turn of an agent that does nothing. It is given a pointer, never the message. That it took the
 * pointer proves nothing: only `read` does.
 */
export interface WakeAdapter {
  /** What the owner knows it by. */
  readonly name: string;
  /** Looks, and changes nothing. */
  probe(): Promise<Probe>;
  surface(pointer: string): Promise<Surfaced>;
  /** Two of the same key lead to the same place. */
  readonly key: string;
}

export type Surfaced = { readonly outcome: 'submitted' } | { readonly outcome: 'refused'; readonly reason: string };

export function refused(reason: string): Surfaced {
  return { outcome: 'refused', reason };
}

export const SUBMITTED: Surfaced = { outcome: 'submitted' };

/** The first versions whose sessions have an inbox of their own. */
const LEAST_VERSION = [2, 1, 224] as const;
const LEAST_VERSION_WINDOWS = [2, 1, 234] as const;
const PATIENCE_MS = 1_000;

/**
 * The inbox of a Claude Code session. Who knows its token speaks as a child of the session. What follows the line with
 * the token is documented nowhere; sessions take in any line without a word, so that nothing here is a receipt.
 */
export class ClaudeSocket implements WakeAdapter {
  readonly name = 'inbox socket';
  readonly key: string;
  readonly #runtime: Runtime;
  readonly #path: string;
  readonly #token: string;
  readonly #version: string | undefined;

  private constructor(runtime: Runtime, path: string, token: string, version: string | undefined) {
    this.#runtime = runtime;
    this.#path = path;
    this.#token = token;
    this.#version = version;
    this.key = JSON.stringify(['claude-code', path, token, version]);
  }

  /** The way in, or what is not known of it. */
  static for(runtime: Runtime, { env, version }: ClientSession): ClaudeSocket | string {
    const { CLAUDE_CODE_MESSAGING_SOCKET: path, CLAUDE_CODE_MESSAGING_TOKEN: token } = env;
    // What is no path would be taken for the number of a port.
    if (path && token && isAbsolute(path)) return new ClaudeSocket(runtime, path, token, version);
    return 'its inbox socket is not known: a SessionStart hook tells it (ecliptic hook --client claude-code --event SessionStart)';
  }

  async probe(): Promise<Probe> {
    const least = process.platform === 'win32' ? LEAST_VERSION_WINDOWS : LEAST_VERSION;
    if (!atLeast(this.#version, least)) {
      return {
        open: false,
        about: `Claude Code ${this.#version ?? 'of unknown version'}: ${least.join('.')} is needed`,
      };
    }
    const socket = await this.#open();
    if (typeof socket === 'string') return { open: false, about: socket };
    socket.destroy();
    return { open: true, about: `Claude Code ${this.#version} listens` };
  }

  async surface(pointer: string): Promise<Surfaced> {
    const socket = await this.#open();
    if (typeof socket === 'string') return refused(socket);
    const auth = { type: 'auth', token: this.#token };
    const frame = { type: 'user', message: { role: 'user', content: pointer } };
    return new Promise((resolve) => {
      const end = (surfaced: Surfaced) => {
        timer.cancel();
        socket.destroy();
        resolve(surfaced);
      };
      const timer = this.#runtime.setTimer(() => end(refused('its inbox socket takes nothing')), PATIENCE_MS);
      socket.once('error', (error) => end(refused(`its inbox socket broke (${error.message})`)));
      socket.once('close', () => end(SUBMITTED));
      // Closed by us once written, and by the session once it has taken it.
      socket.resume();
      socket.end(`${JSON.stringify(auth)}\n${JSON.stringify(frame)}\n`, () => {
        this.#runtime.setTimer(() => end(SUBMITTED), PATIENCE_MS / 10);
      });
    });
  }

  #open(): Promise<Socket | string> {
    return new Promise((resolve) => {
      const socket = connect(this.#path);
      const timer = this.#runtime.setTimer(() => {
        socket.destroy();
        resolve('its inbox socket does not answer');
      }, PATIENCE_MS);
      socket.once('connect', () => {
        timer.cancel();
        socket.removeAllListeners('error');
        resolve(socket);
      });
      socket.once('error', (error: NodeJS.ErrnoException) => {
        timer.cancel();
        resolve(`its inbox socket is closed (${error.code})`);
      });
    });
  }
}

/** The first version that has a queue for each thread. */
const LEAST_CODEX = [0, 149, 0] as const;
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
    if (!atLeast(version, LEAST_CODEX)) {
      return { open: false, about: `Codex ${version ?? 'of unknown version'}: ${LEAST_CODEX.join('.')} is needed` };
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

/** Only what runs on this machine, and only by its number. */
const LOOPBACK = /^http:\/\/(127\.0\.0\.1|\[::1\]):\d{1,5}$/;
const SESSION = /^[0-9a-zA-Z_-]{1,100}$/;
/** The versions whose servers start a turn when asked so. */
const VERSIONS = /^1\./;
const FETCH_MS = 1_500;

/** The server of an opencode session, which takes a prompt for it. */
export class OpencodePrompt implements WakeAdapter {
  readonly name = 'prompt_async';
  readonly key: string;
  readonly #runtime: Runtime;
  readonly #server: string;
  readonly #session: string;
  readonly #headers: Record<string, string>;

  private constructor(runtime: Runtime, server: string, session: string, env: ClientSession['env']) {
    this.#runtime = runtime;
    this.#server = server;
    this.#session = session;
    const { OPENCODE_SERVER_PASSWORD: password, OPENCODE_SERVER_USERNAME: user = 'opencode' } = env;
    const basic = Buffer.from(`${user}:${password}`).toString('base64');
    this.#headers = password ? { authorization: `Basic ${basic}` } : {};
    this.key = JSON.stringify(['opencode', server, session, this.#headers.authorization]);
  }

  /** The way in, or what is not known of it. */
  static for(runtime: Runtime, { server, session, env }: ClientSession): OpencodePrompt | string {
    if (server === undefined || session === undefined) {
      return 'its server and session are not known: a plugin tells them (ecliptic hook --client opencode --event session)';
    }
    const origin = server.replace(/\/$/, '').replace(/^http:\/\/localhost:/, 'http://127.0.0.1:');
    if (!LOOPBACK.test(origin)) return 'its server is not on this machine';
    if (!SESSION.test(session)) return 'its session has a name that is none';
    return new OpencodePrompt(runtime, origin, session, env);
  }

  async probe(): Promise<Probe> {
    try {
      const health = await this.#fetch('/global/health');
      const { version } = JSON.parse(health.body.toString()) as { version?: unknown };
      if (typeof version !== 'string' || !VERSIONS.test(version)) {
        return { open: false, about: `opencode ${String(version).slice(0, 20)}: 1.x is needed` };
      }
      const { status } = await this.#fetch(`/session/${this.#session}`);
      if (status !== 200) return { open: false, about: `its server knows no such session (${status})` };
      return { open: true, about: `opencode ${version} has the session` };
    } catch (error) {
      return { open: false, about: `its server does not answer (${describeError(error)})` };
    }
  }

  async surface(pointer: string): Promise<Surfaced> {
    try {
      const body = JSON.stringify({ parts: [{ type: 'text', text: pointer }] });
      const { status } = await this.#fetch(`/session/${this.#session}/prompt_async`, body);
      return status === 200 || status === 204 ? SUBMITTED : refused(`its server answered ${status}`);
    } catch (error) {
      return refused(`its server does not answer (${describeError(error)})`);
    }
  }

  #fetch(path: string, body?: string): Promise<FetchAnswer> {
    const asked = body === undefined ? {} : { method: 'POST', body };
    return guardedFetch(this.#runtime, `${this.#server}${path}`, {
      ...asked,
      headers: { ...this.#headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      timeoutMs: FETCH_MS,
      redirects: 0,
      allowPrivate: ['127.0.0.0/8', '::1/128'],
    });
  }
}

/** The way in to that session by what is known of it, or why there is none. */
export type AdapterFor = (session: ClientSession) => WakeAdapter | string;

export function clientAdapters(runtime: Runtime, children: Children): AdapterFor {
  return (session) => {
    switch (wakeClientOf(session.client)) {
      case 'claude-code':
        return ClaudeSocket.for(runtime, session);
      case 'codex':
        return CodexQueue.for(runtime, children, session);
      case 'opencode':
        return OpencodePrompt.for(runtime, session);
      case 'gemini':
      case 'cursor':
        return 'nothing starts a turn of it from outside; its hook can prolong one';
      case undefined:
        return 'no way to wake it is known';
    }
  };
}
