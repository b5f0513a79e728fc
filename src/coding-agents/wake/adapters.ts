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

/**
 * One way to start a turn of an idle agent. It is given a pointer, never the message. A submitted pointer proves
 * nothing: only the message's state `read` does.
 */
export interface WakeAdapter {
  /** Shown to the owner. */
  readonly name: string;
  /** Two adapters with the same key lead to the same session. */
  readonly key: string;
  /** Finds out, without side effects, whether the session can be reached; `about` explains it to the owner. */
  probe(): Promise<Probe>;
  surface(pointer: string): Promise<Surfaced>;
}

interface Probe {
  readonly open: boolean;
  readonly about: string;
}

export type Surfaced = { readonly outcome: 'submitted' } | { readonly outcome: 'refused'; readonly reason: string };

export const SUBMITTED: Surfaced = { outcome: 'submitted' };

export function refused(reason: string): Surfaced {
  return { outcome: 'refused', reason };
}

/** The adapter for a session, or the reason why there is none. */
export type AdapterFor = (session: ClientSession) => WakeAdapter | string;

export function clientAdapters(runtime: Runtime, children: Children): AdapterFor {
  return (session) => {
    switch (wakeClientOf(session.client)) {
      case 'claude-code':
        return claudeSocket(runtime, session);
      case 'codex':
        return codexQueue(runtime, children, session);
      case 'opencode':
        return opencodePrompt(runtime, session);
      case 'gemini':
      case 'cursor':
        return 'no program can start a turn of it; its hook can prolong one';
      case undefined:
        return 'this client cannot be woken';
    }
  };
}

/** The first versions of Claude Code whose sessions have an inbox. */
const LEAST_CLAUDE = process.platform === 'win32' ? ([2, 1, 234] as const) : ([2, 1, 224] as const);
const SOCKET_MS = 1_000;

/**
 * The inbox of a Claude Code session. The token authenticates the writer as a child of the session. The frame after
 * the auth line is undocumented, and sessions accept any line silently, so nothing here is a receipt.
 */
function claudeSocket(runtime: Runtime, { env, version }: ClientSession): WakeAdapter | string {
  const { CLAUDE_CODE_MESSAGING_SOCKET: path, CLAUDE_CODE_MESSAGING_TOKEN: token } = env;
  // `connect` would take a relative path for a port number.
  if (!path || !token || !isAbsolute(path)) {
    return 'its inbox socket is not known: a SessionStart hook tells it (ecliptic hook --client claude-code --event SessionStart)';
  }
  return {
    name: 'inbox socket',
    key: JSON.stringify(['claude-code', path, token, version]),
    async probe() {
      if (!atLeast(version, LEAST_CLAUDE)) return tooOld('Claude Code', version, LEAST_CLAUDE);
      const socket = await openSocket(runtime, path);
      if (typeof socket === 'string') return { open: false, about: socket };
      socket.destroy();
      return { open: true, about: `Claude Code ${version} listens` };
    },
    async surface(pointer) {
      const socket = await openSocket(runtime, path);
      if (typeof socket === 'string') return refused(socket);
      const auth = { type: 'auth', token };
      const frame = { type: 'user', message: { role: 'user', content: pointer } };
      return new Promise((resolve) => {
        const end = (surfaced: Surfaced) => {
          timer.cancel();
          socket.destroy();
          resolve(surfaced);
        };
        const timer = runtime.setTimer(() => end(refused('its inbox socket takes nothing')), SOCKET_MS);
        socket.once('error', (error) => end(refused(`its inbox socket broke (${error.message})`)));
        socket.once('close', () => end(SUBMITTED));
        socket.resume();
        // The session closes the socket once it has read both lines; a session that does not is given a moment.
        socket.end(`${JSON.stringify(auth)}\n${JSON.stringify(frame)}\n`, () => {
          runtime.setTimer(() => end(SUBMITTED), SOCKET_MS / 10);
        });
      });
    },
  };
}

function openSocket(runtime: Runtime, path: string): Promise<Socket | string> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const timer = runtime.setTimer(() => {
      socket.destroy();
      resolve('its inbox socket does not answer');
    }, SOCKET_MS);
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

function tooOld(client: string, version: string | undefined, least: readonly number[]): Probe {
  return { open: false, about: `${client} ${version ?? 'of unknown version'}: ${least.join('.')} is needed` };
}

/** The first version of Codex that has a queue for each thread. */
const LEAST_CODEX = [0, 149, 0] as const;
/** The thread id becomes part of a path and of a command. */
const THREAD = /^[0-9a-zA-Z-]{1,64}$/;
const COMMAND_MS = 5_000;

/**
 * The queue of a Codex thread. Codex also queues messages for threads that no process runs, so the adapter is open only
 * while a process holds the thread's writer lock.
 */
function codexQueue(runtime: Runtime, children: Children, session: ClientSession): WakeAdapter | string {
  const { version, env, session: thread } = session;
  if (session.headless) return '"codex exec" loses what is queued for it';
  if (thread === undefined) return 'its thread is not known before it has called a tool';
  if (!THREAD.test(thread)) return 'its thread id is not valid';
  const run = (command: string, args: readonly string[]) => runCommand(runtime, children, env, command, args);
  const whyDead = async () => {
    const folder = env.CODEX_HOME || (env.HOME && join(env.HOME, '.codex'));
    if (!folder) return 'where Codex keeps its threads is not known';
    const lock = join(folder, 'thread-writer-locks', `${thread}.lock`);
    const held = process.platform === 'linux' ? isLocked(lock) : isOpen(await run('lsof', ['-t', '--', lock]));
    return held ? undefined : 'no process runs its thread';
  };
  return {
    name: 'codex queue',
    key: JSON.stringify(['codex', thread, version, env.CODEX_HOME]),
    async probe() {
      if (!atLeast(version, LEAST_CODEX)) return tooOld('Codex', version, LEAST_CODEX);
      const dead = await whyDead();
      return { open: dead === undefined, about: dead ?? `Codex ${version} runs the thread` };
    },
    async surface(pointer) {
      const dead = await whyDead();
      if (dead !== undefined) return refused(dead);
      const { code } = await run('codex', ['queue', '--thread', thread, '--message', pointer]);
      return code === 0 ? SUBMITTED : refused(`"codex queue" ended with ${code ?? 'no code in time'}`);
    },
  };
}

async function runCommand(
  runtime: Runtime,
  children: Children,
  { CODEX_HOME, HOME, PATH }: ClientSession['env'],
  command: string,
  args: readonly string[],
): Promise<{ code: number | undefined; stdout: string }> {
  try {
    const child = await children.start({ command, args, env: { CODEX_HOME, HOME, PATH }, name: command });
    let stdout = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout = cutText(`${stdout}${chunk}`, 1_000);
    });
    const timer = runtime.setTimer(() => void child.stop({ graceMs: 0 }), COMMAND_MS);
    const exit = await child.exited;
    timer.cancel();
    return { code: exit.kind === 'code' ? exit.code : undefined, stdout };
  } catch (error) {
    runtime.logger.debug({ command, error: describeError(error) }, 'wake command not started');
    return { code: undefined, stdout: '' };
  }
}

function isOpen({ code, stdout }: { code: number | undefined; stdout: string }): boolean {
  return code === 0 && /^\d+$/m.test(stdout);
}

/** Does a living process hold a lock on the file? The kernel lists locks by inode. */
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

/** Only servers of this machine, and only by number. */
const LOOPBACK = /^http:\/\/(127\.0\.0\.1|\[::1\]):\d{1,5}$/;
const SESSION = /^[0-9a-zA-Z_-]{1,100}$/;
const FETCH_MS = 1_500;

/** The server of an opencode session, which accepts a prompt for it. */
function opencodePrompt(runtime: Runtime, { server, session, env }: ClientSession): WakeAdapter | string {
  if (server === undefined || session === undefined) {
    return 'its server and session are not known: a plugin tells them (ecliptic hook --client opencode --event session)';
  }
  const origin = server.replace(/\/$/, '').replace(/^http:\/\/localhost:/, 'http://127.0.0.1:');
  if (!LOOPBACK.test(origin)) return 'its server is not on this machine';
  if (!SESSION.test(session)) return 'its session id is not valid';
  const { OPENCODE_SERVER_PASSWORD: password, OPENCODE_SERVER_USERNAME: user = 'opencode' } = env;
  const authorization = password ? `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` : undefined;
  const request = (path: string, body?: string): Promise<FetchAnswer> =>
    guardedFetch(runtime, `${origin}${path}`, {
      ...(body !== undefined && { method: 'POST', body }),
      headers: {
        ...(authorization !== undefined && { authorization }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      timeoutMs: FETCH_MS,
      redirects: 0,
      allowPrivate: ['127.0.0.0/8', '::1/128'],
    });
  return {
    name: 'prompt_async',
    key: JSON.stringify(['opencode', origin, session, authorization]),
    async probe() {
      try {
        const health = await request('/global/health');
        const { version } = JSON.parse(health.body.toString()) as { version?: unknown };
        if (typeof version !== 'string' || !version.startsWith('1.')) {
          return { open: false, about: `opencode ${String(version).slice(0, 20)}: 1.x is needed` };
        }
        const { status } = await request(`/session/${session}`);
        if (status !== 200) return { open: false, about: `its server knows no such session (${status})` };
        return { open: true, about: `opencode ${version} has the session` };
      } catch (error) {
        return { open: false, about: `its server does not answer (${describeError(error)})` };
      }
    },
    async surface(pointer) {
      try {
        const body = JSON.stringify({ parts: [{ type: 'text', text: pointer }] });
        const { status } = await request(`/session/${session}/prompt_async`, body);
        return status === 200 || status === 204 ? SUBMITTED : refused(`its server answered ${status}`);
      } catch (error) {
        return refused(`its server does not answer (${describeError(error)})`);
      }
    },
  };
}
