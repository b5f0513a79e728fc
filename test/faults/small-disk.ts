import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Cluster, NodeSettings, ProcessNode } from '../nodes/cluster.js';

/** A file system in memory, in a mount namespace that ends with the standard input. */
const SCRIPT = 'mount -t tmpfs -o size=$2 tmpfs "$1" && echo $$ && exec cat >/dev/null';
/** Too long for a socket, so that the control socket is outside, where the test can reach it. */
const DATA = `data-on-a-small-disk-${'x'.repeat(90)}`;

/** A disk of its own for a node's data folder, which can be filled and made read-only. */
export class SmallDisk {
  readonly #child: ChildProcess;
  readonly #pid: string;
  readonly #folder: string;

  private constructor(child: ChildProcess, pid: string, folder: string) {
    this.#child = child;
    this.#pid = pid;
    this.#folder = folder;
  }

  /** A node that is not started yet, whose data folder is a disk of that size. */
  static async nodeOn(
    cluster: Cluster,
    name: string,
    size: string,
    settings: NodeSettings,
  ): Promise<{ node: ProcessNode; disk: SmallDisk }> {
    const within: string[] = [];
    const env = { ...settings.env, XDG_RUNTIME_DIR: cluster.folder };
    const node = cluster.node(name, { ...settings, env, data: DATA, within });
    const args = ['--user', '--map-root-user', '--mount', 'sh', '-c', SCRIPT, 'sh', node.data, size];
    const child = spawn('unshare', args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const [pid] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    const disk = new SmallDisk(child, pid, node.data);
    within.push(...disk.#enter, 'sh', '-c', 'cd "$0" && exec "$@"', node.home);
    cluster.onEnd(() => disk.close());
    return { node, disk };
  }

  get #enter(): string[] {
    return ['nsenter', '--target', this.#pid, '--user', '--preserve-credentials', '--mount', '--'];
  }

  /** Until no byte is left. */
  fill(): void {
    this.#run(`cat /dev/zero > "$0/filler" 2>/dev/null || true`);
  }

  free(): void {
    this.#run('rm "$0/filler"');
  }

  /** Only while no file is open for writing. */
  remount(how: 'ro' | 'rw'): void {
    this.#run(`mount -o remount,${how} "$0"`);
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin!.end();
    await ended;
  }

  #run(command: string): void {
    const [program, ...args] = [...this.#enter, 'sh', '-c', command, this.#folder];
    execFileSync(program!, args);
  }
}
