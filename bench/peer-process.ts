import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Role } from './links-peer.js';

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

  /** Sends a request, and waits for the answer. */
  async ask<T>(question = 'cpu'): Promise<T> {
    this.#child.send(question);
    const [answer] = await once(this.#child, 'message');
    return answer as T;
  }

  async stop(): Promise<void> {
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }
}
