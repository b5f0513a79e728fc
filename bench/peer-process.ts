import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Role } from './links-peer.js';

const PEER = fileURLToPath(new URL('./links-peer.js', import.meta.url));

/** The other process. */
export class Peer {
  readonly ready: unknown;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, ready: unknown) {
    this.#child = child;
    this.ready = ready;
  }

  static async start(role: Role): Promise<Peer> {
    const child = fork(PEER, [JSON.stringify(role)], { stdio: 'inherit' });
    const [ready] = await once(child, 'message');
    return new Peer(child, ready);
  }

  async stop(): Promise<void> {
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }
}
