import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Where one server runs: a network namespace with one link to the nodes and another to the other servers. */
export interface ServerPlace {
  /** The command that starts a program there. */
  readonly within: readonly string[];
  readonly host: string;
  readonly routeHost: string;
}

/** The first three bytes of the addresses: of servers for nodes, and of servers for each other. */
const NETWORKS = { clients: '10.77.0', routes: '10.78.0' } as const;
export type ServerLink = keyof typeof NETWORKS;

/**
 * Namespaces for `$1` servers, joined by two bridges in a namespace in which the nodes run. Everything ends with the
 * standard input, which `cat` reads in each namespace, so nothing is left if the test is killed.
 */
const SCRIPT = `
set -e
ip link set lo up
for bridge in clients routes; do ip link add $bridge type bridge; ip link set $bridge up; done
ip addr add ${NETWORKS.clients}.100/24 dev clients
exec 3<&0
echo $$
for at in $(seq $1); do
  unshare --net cat <&3 >/dev/null &
  pid=$!
  while [ "$(readlink /proc/$pid/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do :; done
  for net in clients:${NETWORKS.clients} routes:${NETWORKS.routes}; do
    link=\${net%%:*}
    ip link add $link$at type veth peer name $link netns $pid
    ip link set $link$at master $link up
    nsenter --target $pid --net sh -c "ip link set lo up; ip addr add \${net##*:}.$at/24 dev $link; ip link set $link up"
  done
  echo $pid
done
exec cat >/dev/null
`;

const within = (pid: string) => ['nsenter', '--target', pid, '--user', '--preserve-credentials', '--net', '--'];

/** A network of servers and nodes on this machine in which links can be cut. It needs user namespaces, as Linux has them. */
export class ServerNetwork {
  readonly #child: ChildProcess;
  readonly #hub: string;
  readonly places: readonly ServerPlace[];

  private constructor(child: ChildProcess, hub: string, servers: readonly string[]) {
    this.#child = child;
    this.#hub = hub;
    this.places = servers.map((pid, at) => ({
      within: within(pid),
      host: `${NETWORKS.clients}.${at + 1}`,
      routeHost: `${NETWORKS.routes}.${at + 1}`,
    }));
  }

  static async open(count: number): Promise<ServerNetwork> {
    const child = spawn('unshare', ['--user', '--map-root-user', '--net', 'sh', '-c', SCRIPT, 'sh', String(count)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const pids: string[] = [];
    for await (const line of createInterface({ input: child.stdout! })) {
      pids.push(line);
      if (pids.length === count + 1) break;
    }
    const [hub, ...servers] = pids;
    if (servers.length < count) throw new Error('this machine does not allow network namespaces to its users');
    return new ServerNetwork(child, hub!, servers);
  }

  /** The command that starts a program where nodes run. */
  get within(): readonly string[] {
    return within(this.#hub);
  }

  cut(server: number, links: readonly ServerLink[]): void {
    this.#set(server, links, 'down');
  }

  heal(server: number, links: readonly ServerLink[]): void {
    this.#set(server, links, 'up');
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin!.end();
    await ended;
  }

  #set(server: number, links: readonly ServerLink[], state: 'up' | 'down'): void {
    for (const link of links) {
      const [program, ...args] = [...this.within, 'ip', 'link', 'set', `${link}${server + 1}`, state];
      execFileSync(program!, args);
    }
  }
}
