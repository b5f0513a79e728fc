import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { childEnvironment } from './environment.js';

/**
 * Waits for a line from the node. When the pipe closes without one, the node died: its children's groups, which the files
 * in the folder are named after, get half a second, and then the sweep finds processes that left their group. A shell
 * waits, because it costs next to nothing; it also ends the groups, so that this works even if Node cannot start. Signals
 * meant for the node do not end it.
 */
const SCRIPT = `
trap '' HUP INT TERM
read -r word && exit
signal() { for file in "$1"/*; do kill -s "$2" -- "-\${file##*/}"; done; }
signal "$1" TERM
sleep 0.5 || sleep 1
signal "$1" KILL
exec "$2" "$3" "$1"
`;

/** Shortest time between two starts. */
const MIN_LIFE_MS = 1_000;

/**
 * A process that outlives the node to end its children, however the node ends. It has its own group and session, so that
 * signals of a terminal do not reach it.
 */
export class Guard {
  readonly #runtime: Runtime;
  readonly #folder: string;
  #process: ChildProcess;
  #restart: Timer | undefined;
  #started = 0;
  #dismissed = false;

  /** The folder holds one file per child, named after its process group. */
  constructor(runtime: Runtime, folder: string) {
    this.#runtime = runtime;
    this.#folder = folder;
    this.#process = this.#start();
  }

  /** Ends the guard; resolves when it has exited. */
  async dismiss(): Promise<void> {
    this.#dismissed = true;
    this.#restart?.cancel();
    const guard = this.#process;
    if (guard.pid === undefined || guard.exitCode !== null || guard.signalCode !== null) return;
    guard.ref();
    await new Promise<void>((resolve) => {
      guard.once('close', () => resolve());
      guard.stdin!.end('done\n');
    });
  }

  #start(): ChildProcess {
    this.#started = this.#runtime.stopwatch();
    const sweep = /\.ts$/.test(import.meta.url)
      ? new URL('./sweep-from-source.mjs', import.meta.url)
      : new URL('./sweep-main.cjs', import.meta.url);
    const guard = spawn(
      '/bin/sh',
      ['-c', SCRIPT, 'ecliptic-guard', this.#folder, process.execPath, fileURLToPath(sweep)],
      {
        cwd: '/',
        detached: true,
        env: childEnvironment(process.env),
        stdio: ['pipe', 'ignore', 'ignore'],
      },
    );
    guard.unref();
    guard.stdin?.on('error', () => {});
    (guard.stdin as { unref?: () => void } | null)?.unref?.();
    guard.on('error', (error) => this.#lost(describeError(error)));
    guard.on('exit', (code, signal) => this.#lost(signal ?? `code ${code}`));
    return guard;
  }

  #lost(reason: string): void {
    if (this.#dismissed) return;
    this.#runtime.logger.warn({ reason }, 'guard process exited; starting another');
    const ms = Math.max(0, this.#started + MIN_LIFE_MS - this.#runtime.stopwatch());
    this.#restart?.cancel();
    this.#restart = this.#runtime.setTimer(() => {
      this.#process = this.#start();
    }, ms);
  }
}
