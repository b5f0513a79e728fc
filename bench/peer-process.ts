import { type ChildProcess, fork, type Serializable } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Role } from './links-peer.js';

const STOP_MS = 10_000;

/** The other process. */
export class Peer {
  readonly ready: unknown;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, ready: unknown) {
    this.#child = child;
    this.ready = ready;
  }

  static async start<R = Role>(role: R, program = './links-peer.js'): Promise<Peer> {
    const path = fileURLToPath(new URL(program, import.meta.url));
    const child = fork(path, [JSON.stringify(role)], { stdio: 'inherit' });
    const [ready] = await once(child, 'message');
    return new Peer(child, ready);
  }

  /** Sends a request, and waits for the answer. Rejects if the process ends first. */
  ask<T>(question: Serializable = 'cpu'): Promise<T> {
    const child = this.#child;
    return new Promise((resolve, reject) => {
      const onExit = () => reject(new Error(`process ${child.pid} ended before it answered`));
      child.once('exit', onExit);
      child.once('message', (answer) => {
        child.off('exit', onExit);
        resolve(answer as T);
      });
      child.send(question);
    });
  }

  /** Sends what has no answer. */
  tell(order: Serializable): void {
    this.#child.send(order);
  }

  /** Ends the process: its program exits when the channel closes, and is killed if it does not. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.disconnect();
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(kill);
  }
}
