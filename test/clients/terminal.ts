import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Cluster, until } from '../nodes/cluster.js';

/** Clients take a key that follows the text at once for a part of a paste. */
const BEFORE_ENTER_MS = 500;

export interface TerminalInit {
  readonly name: string;
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: Record<string, string>;
}

/** A program in a terminal of its own: a tmux server with one window, which ends with the test. */
export class Terminal {
  readonly #socket: string;

  constructor(cluster: Cluster, { name, command, cwd, env }: TerminalInit) {
    this.#socket = join(cluster.folder, `tmux-${name}`);
    const variables = Object.entries(env).map(([key, value]) => `${key}=${value}`);
    const size = ['-x', '160', '-y', '50'];
    this.#tmux(
      '-f',
      '/dev/null',
      'new-session',
      '-d',
      '-s',
      'client',
      ...size,
      '-c',
      cwd,
      ['exec env -i', ...[...variables, ...command].map(quoted)].join(' '),
    );
    cluster.onEnd(() => this.end());
  }

  /** What the person sees now. */
  get screen(): string {
    return this.#tmux('capture-pane', '-p', '-t', 'client');
  }

  async type(text: string): Promise<void> {
    this.#tmux('send-keys', '-t', 'client', '-l', text);
    await delay(BEFORE_ENTER_MS);
    this.press('Enter');
  }

  press(...keys: readonly string[]): void {
    this.#tmux('send-keys', '-t', 'client', ...keys);
  }

  shows(pattern: RegExp): Promise<boolean> {
    return until(() => pattern.test(this.screen), `the terminal shows ${pattern}`).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.screen}`);
    });
  }

  /** Ends it with everything that it has started: clients put their servers and helpers in groups of their own. */
  async end(): Promise<void> {
    const { stdout } = spawnSync('tmux', ['-S', this.#socket, 'display-message', '-p', '#{pane_pid}']);
    const all = withDescendants(Number(stdout));
    spawnSync('tmux', ['-S', this.#socket, 'kill-server']);
    for (const pid of all) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended with its terminal.
      }
    }
    await until(() => !all.some((pid) => existsSync(`/proc/${pid}`)), 'the programs of the terminal have ended');
  }

  #tmux(...args: readonly string[]): string {
    return execFileSync('tmux', ['-S', this.#socket, ...args], { encoding: 'utf8' });
  }
}

function withDescendants(root: number): number[] {
  const { stdout } = spawnSync('ps', ['-eo', 'pid=,ppid='], { encoding: 'utf8' });
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  const found = Number.isInteger(root) && root > 1 ? [root] : [];
  for (const parent of found) found.push(...rows.filter(([, of]) => of === parent).map(([pid]) => pid!));
  return found;
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
