import { connect, type Socket } from 'node:net';
import { isAbsolute } from 'node:path';
import type { Runtime } from '../../runtime/runtime.js';
import { atLeast, type ClientSession } from './client-session.js';
import { type Probe, refused, SUBMITTED, type Surfaced, type WakeAdapter } from './wake-adapter.js';

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
