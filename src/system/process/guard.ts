import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { childEnvironment } from './environment.js';

/**
 * Waits for a word from the node. When the pipe closes without one, the node died: its children's groups, which the
 * files in the folder are named after, get half a second, and then the sweep finds what left its group. A shell waits,
 * because it costs next to nothing; it also ends the groups, so that this happens even if Node cannot start. Signals
 * that are meant for the node do not end it: it leaves when the node has.
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

/** One that is gone sooner than this after its start is replaced only then; any other, at once. */
const MIN_LIFE_MS = 1_000;

/**
 * A process of its own that outlives the node, however that ends, to end the node's children. It is in no group or
 * session of the node, so that what kills the node from a terminal spares it.
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

  /** Lets it go in peace, and resolves when it is gone. */
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
      : new URL('./sweep-main.js', import.meta.url);
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
    this.#runtime.logger.warn({ reason }, 'the guard of this node’s child processes is gone; another is started');
    const ms = Math.max(0, this.#started + MIN_LIFE_MS - this.#runtime.stopwatch());
    this.#restart?.cancel();
    this.#restart = this.#runtime.setTimer(() => {
      this.#process = this.#start();
    }, ms);
  }
}
