import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

const NETWORK = '10.79.0';
/** A hardware address that no device has: frames to it are lost without an error. */
const NO_DEVICE = '02:00:00:00:00:fe';

/**
 * `$1` network namespaces, each with one link to a bridge in a namespace of its own. Everything ends with the standard
 * input, which `cat` reads in each namespace, so nothing is left if the test is killed.
 */
const SCRIPT = `
set -e
ip link set lo up
ip link add hub type bridge
ip link set hub up
exec 3<&0
echo $$
for at in $(seq $1); do
  unshare --net cat <&3 >/dev/null &
  pid=$!
  while [ "$(readlink /proc/$pid/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do :; done
  ip link add n$at type veth peer name eth0 netns $pid
  ip link set n$at master hub up
  nsenter --target $pid --net sh -c "ip link set lo up; ip addr add ${NETWORK}.$at/24 dev eth0; ip link set eth0 up"
  echo $pid
done
exec cat >/dev/null
`;

/** Without netem in the kernel: a port that is closed for a while, again and again. A tenth of all packets is lost. */
const BURSTS =
  'while :; do bridge link set dev n$0 state 0; sleep 0.03; bridge link set dev n$0 state 3; sleep 0.27; done';

const enter = (pid: string) => ['nsenter', '--target', pid, '--user', '--preserve-credentials', '--net', '--'];

/** Nodes on this machine, each in a network namespace of its own. */
export class NodeNetwork {
  readonly #child: ChildProcess;
  readonly #hub: string;
  readonly #nodes: readonly string[];
  readonly #bursts = new Map<number, ChildProcess>();

  private constructor(child: ChildProcess, hub: string, nodes: readonly string[]) {
    this.#child = child;
    this.#hub = hub;
    this.#nodes = nodes;
  }

  static async open(count: number): Promise<NodeNetwork> {
    const child = spawn('unshare', ['--user', '--map-root-user', '--net', 'sh', '-c', SCRIPT, 'sh', String(count)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const pids: string[] = [];
    for await (const line of createInterface({ input: child.stdout! })) {
      pids.push(line);
      if (pids.length === count + 1) break;
    }
    const [hub, ...nodes] = pids;
    if (nodes.length < count) throw new Error('this machine does not allow network namespaces to its users');
    return new NodeNetwork(child, hub!, nodes);
  }

  /** The command that starts a program at a place. */
  within(at: number): readonly string[] {
    return enter(this.#nodes[at]!);
  }

  host(at: number): string {
    return `${NETWORK}.${at + 1}`;
  }

  /** No packet enters or leaves. */
  cut(at: number): void {
    this.#inHub('ip', 'link', 'set', `n${at + 1}`, 'down');
  }

  /** Packets from one place to another are lost; those of the other direction arrive. */
  cutOneWay(from: number, to: number): void {
    this.#inNode(from, 'ip', 'neigh', 'replace', this.host(to), 'lladdr', NO_DEVICE, 'dev', 'eth0', 'nud', 'permanent');
  }

  /** A tenth of the packets is lost, and the others are late where the kernel can do that. Returns how it is done. */
  lose(at: number): 'netem' | 'bursts' {
    const netem = ['tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'netem', 'delay', '40ms', '20ms', 'loss', '10%'];
    const [program, ...args] = [...this.within(at), ...netem];
    if (spawnSync(program!, args, { stdio: 'ignore' }).status === 0) return 'netem';
    const [shell, ...rest] = [...enter(this.#hub), 'sh', '-c', BURSTS, String(at + 1)];
    this.#bursts.set(at, spawn(shell!, rest, { stdio: 'ignore', detached: true }));
    return 'bursts';
  }

  /** Ends every fault. */
  async heal(): Promise<void> {
    for (const [at, child] of this.#bursts) {
      const ended = once(child, 'exit');
      process.kill(-child.pid!, 'SIGKILL');
      await ended;
      this.#inHub('bridge', 'link', 'set', 'dev', `n${at + 1}`, 'state', '3');
    }
    this.#bursts.clear();
    for (const at of this.#nodes.keys()) {
      this.#inHub('ip', 'link', 'set', `n${at + 1}`, 'up');
      for (const to of this.#nodes.keys()) {
        if (to === at) continue;
        const [program, ...args] = [...this.within(at), 'ip', 'neigh', 'del', this.host(to), 'dev', 'eth0'];
        spawnSync(program!, args, { stdio: 'ignore' });
      }
      const [program, ...args] = [...this.within(at), 'tc', 'qdisc', 'del', 'dev', 'eth0', 'root'];
      spawnSync(program!, args, { stdio: 'ignore' });
    }
  }

  async close(): Promise<void> {
    await this.heal();
    const ended = once(this.#child, 'exit');
    this.#child.stdin!.end();
    await ended;
  }

  #inHub(...words: string[]): void {
    const [program, ...args] = [...enter(this.#hub), ...words];
    execFileSync(program!, args);
  }

  #inNode(at: number, ...words: string[]): void {
    const [program, ...args] = [...this.within(at), ...words];
    execFileSync(program!, args);
  }
}
