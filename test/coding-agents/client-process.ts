import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { childEnvironment } from '../child-environment.js';
import type { Cluster, ProcessNode } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';

const SCRIPT = fileURLToPath(new URL('client-process.mjs', import.meta.url));

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A client as a process of its own, in a checkout of its own. */
export class ClientProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (result: unknown) => void>();
  #n = 0;

  constructor(cluster: Cluster, node: ProcessNode, name: string, client: string, checkout: string) {
    const { folder } = cluster;
    this.#child = spawn(process.execPath, [SCRIPT, BIN, node.data, name, client], {
      cwd: checkout,
      env: childEnvironment(folder, { TMPDIR: folder }),
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    cluster.onEnd(() => this.kill());
    createInterface({ input: this.#child.stdout! }).on('line', (line) => {
      const { n, result } = JSON.parse(line) as { n: number; result: unknown };
      this.#waiting.get(n)?.(result);
    });
  }

  lease(args: object): Promise<string> {
    return this.#do('call', { tool: 'mesh_lease', args }) as Promise<string>;
  }

  call(tool: string, args: object = {}): Promise<string> {
    return this.#do('call', { tool, args }) as Promise<string>;
  }

  run(args: readonly string[], input = '', shell = false): Promise<Finished> {
    return this.#do('run', { args, input, shell }) as Promise<Finished>;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const closed = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await closed;
  }

  #do(action: string, rest: object): Promise<unknown> {
    return new Promise((resolve) => {
      const n = ++this.#n;
      this.#waiting.set(n, resolve);
      this.#child.stdin!.write(`${JSON.stringify({ n, action, ...rest })}\n`);
    });
  }
}
