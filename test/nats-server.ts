import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { natsServer } from '../scripts/need-nats-server.mjs';
import type { ServerPlace } from './nats/server-network.js';
import { stablePorts } from './ports.js';

export interface NatsServerOptions {
  /** Write every acknowledged message to the disk first. Default false. */
  readonly syncAlways?: boolean;
  /** More lines of the server's configuration, for example accounts and permissions. */
  readonly extra?: string;
  readonly jetstream?: boolean;
  /** The whole configuration, instead of all of these. */
  readonly config?: WholeConfig;
}

/** Makes a configuration for a server at an address and with a folder. */
export type WholeConfig = (place: { listen: string; store: string }) => string;

interface ClusterPlace {
  readonly name: string;
  /** Where the other servers reach it, `host:port`. */
  readonly route: string;
  readonly routes: readonly string[];
  /** Its network namespace; without one it is on loopback. */
  readonly place?: ServerPlace | undefined;
}

/** Leaders are elected in this order. */
let elections = 0;

/** A real NATS server on loopback, with a JetStream folder of its own that a restart keeps. */
export class NatsServer {
  readonly port: number;
  readonly name: string;
  readonly #folder: string;
  #options: NatsServerOptions;
  readonly #place: ClusterPlace | undefined;
  #process: ChildProcess | undefined;
  /** The streams that it was elected the leader of, and when. */
  readonly #leads = new Map<string, number>();

  private constructor(port: number, folder: string, options: NatsServerOptions, place?: ClusterPlace) {
    this.port = port;
    this.name = place?.name ?? 'alone';
    this.#folder = folder;
    this.#options = options;
    this.#place = place;
  }

  static async start(options: NatsServerOptions = {}): Promise<NatsServer> {
    const [port] = await stablePorts(1);
    const server = new NatsServer(port!, await mkdtemp(join(tmpdir(), 'ecliptic-nats-')), options);
    await server.start();
    return server;
  }

  /** Servers that replicate their streams; ready when a leader of the cluster's metadata is elected. */
  static async cluster(
    count = 3,
    options: NatsServerOptions = {},
    places: readonly ServerPlace[] = [],
  ): Promise<NatsServer[]> {
    const ports = await stablePorts(2 * count);
    const routes = ports.slice(count).map((port, at) => `${places[at]?.routeHost ?? '127.0.0.1'}:${port}`);
    const servers = await Promise.all(
      routes.map(async (route, at) => {
        const folder = await mkdtemp(join(tmpdir(), 'ecliptic-nats-'));
        return new NatsServer(ports[at]!, folder, options, { name: `n${at + 1}`, route, routes, place: places[at] });
      }),
    );
    await Promise.all(servers.map((server) => server.start()));
    return servers;
  }

  /** The server that was last elected the leader of a stream. */
  static leaderOf(servers: readonly NatsServer[], stream: string): NatsServer | undefined {
    const elected = (server: NatsServer) => server.#leads.get(stream) ?? 0;
    const [latest] = servers.toSorted((one, other) => elected(other) - elected(one));
    return latest && elected(latest) > 0 ? latest : undefined;
  }

  get url(): string {
    return `nats://${this.#listen}`;
  }

  get #listen(): string {
    return `${this.#place?.place?.host ?? '127.0.0.1'}:${this.port}`;
  }

  get pid(): number {
    return this.#process!.pid!;
  }

  /** Starts it, the first time or again, with the data that it had. */
  async start(): Promise<void> {
    const file = join(this.#folder, 'server.conf');
    await writeFile(file, this.#configuration());
    const within = this.#place?.place?.within ?? [];
    const [program, ...args] = [...within, natsServer(), '-c', file];
    const child = spawn(program!, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#process = child;
    // A test process that ends early must leave no server behind.
    const orphan = () => child.kill('SIGKILL');
    process.once('exit', orphan);
    child.once('exit', () => process.off('exit', orphan));
    let log = '';
    child.stderr!.on('data', (text) => {
      log = (log + text).slice(-4_000);
      for (const [, stream] of String(text).matchAll(/new stream leader for '\S+ > (\S+)'/g))
        this.#leads.set(stream!, ++elections);
    });
    for (let tries = 0; tries < 500; tries++) {
      if (child.exitCode !== null) throw new Error(`nats-server ended: ${log}`);
      if (log.includes('Server is ready') && (within.length > 0 || (await answers(this.port)))) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`nats-server is not ready: ${log}`);
  }

  /** Changes the further lines of the configuration and makes the server read them. */
  async reload(extra: string): Promise<void> {
    this.#options = { ...this.#options, extra };
    await writeFile(join(this.#folder, 'server.conf'), this.#configuration());
    this.#process!.kill('SIGHUP');
  }

  /** Replaces the whole configuration. The server restarts: it refuses to reload other accounts than it began with. */
  async configure(config: WholeConfig): Promise<void> {
    this.#options = { ...this.#options, config };
    await this.#end('SIGTERM');
    await this.start();
  }

  /** Kills it without warning (kill -9). */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Deletes the data of a server that is not running. */
  async forget(): Promise<void> {
    await rm(join(this.#folder, 'jetstream'), { recursive: true, force: true });
  }

  async stop(): Promise<void> {
    await this.#end('SIGTERM');
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Halts the process without closing its connections, as a machine that hangs would. */
  pause(): void {
    this.#process!.kill('SIGSTOP');
  }

  resume(): void {
    this.#process!.kill('SIGCONT');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  #configuration(): string {
    const { syncAlways = false, jetstream = true, extra, config } = this.#options;
    if (config) return withoutMissing(config({ listen: this.#listen, store: this.#folder }));
    const store = [`store_dir: "${this.#folder}"`, ...(syncAlways && hasSync() ? ['sync_interval: always'] : [])];
    const lines = [`server_name: ${this.name}`, `listen: "${this.#listen}"`];
    if (jetstream) lines.push(`jetstream { ${store.join(', ')} }`);
    if (this.#place) {
      const { route, routes } = this.#place;
      const others = routes.filter((other) => other !== route).map((other) => `"nats://${other}"`);
      lines.push(`cluster { name: test, listen: "${route}", routes: [${others.join(', ')}] }`);
    }
    return [...lines, extra ?? '', ''].join('\n');
  }
}

/** Servers before 2.10 have no `sync_interval`, and refuse a configuration with it. */
export function hasSync(): boolean {
  const [, major, minor] = /v(\d+)\.(\d+)/.exec(execFileSync(natsServer(), ['--version']).toString()) ?? [];
  return Number(major) > 2 || Number(minor) >= 10;
}

/** A configuration as `ecliptic nats config --no-sync` prints it, where the server needs that. */
function withoutMissing(config: string): string {
  return hasSync() ? config : config.replace(/^ *sync_interval: always\n/m, '');
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('data', () => end(true));
    socket.on('error', () => end(false));
  });
}
