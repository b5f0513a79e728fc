import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { createJiti } from 'jiti';
import { expect, type TestContext } from 'vitest';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { PrivateDht } from '../../src/network/discovery/private-dht.js';
import type { Network, PeerRow } from '../../src/network/peers/network.js';
import type { PeerStatus } from '../../src/network/peers/peer-state.js';
import { createNode, type EclipticNode, type NodeInit } from '../../src/node/compose.js';
import type { Config } from '../../src/node/config/schema.js';
import { ControlClient } from '../../src/node/control/client.js';
import type { AgentRow, Diagnosis } from '../../src/node/control/rows.js';
import { childEnvironment } from '../child-environment.js';
import { expectJsonOutput } from '../json-output.js';
import { NatsServer } from '../nats-server.js';
import { rawClient } from '../raw-client.js';
import { removeFolder } from '../remove-folder.js';
import { BIN, ROOT } from '../source-files.js';

export const WITNESS = join(ROOT, 'test', 'nodes', 'agents', 'witness.ts');
/** For waits that end early when all is well: a busy machine may need long. */
const LIMIT_MS = 60_000;

/** Long runs with more of everything. */
export const SOAK = process.env.ECLIPTIC_SOAK === '1';

/** How the nodes of a scenario reach each other. */
export type Transport = 'websocket' | 'hyperswarm' | 'nats';

export interface Finished {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface NodeSettings {
  /** Options of `up`, besides the data folder. */
  args?: readonly string[];
  /** Its `ecliptic.json`. */
  config?: Config;
  env?: Record<string, string>;
  /** How many files and connections it may have open. */
  descriptors?: number;
  /** The command that it is started with, for example to enter a network namespace. */
  within?: readonly string[];
  /** Its data folder, within its home. */
  data?: string;
  /** The program that runs it. Default: the one that was built here. */
  program?: string;
  /** The test writes to its standard input. */
  input?: boolean;
}

/** The output of `up --json`. */
interface Ready {
  readonly node: string;
  readonly control: string;
  readonly pid: number;
  /** Its HTTP edge, the MCP endpoint there, and the owner's token. */
  readonly http: string;
  readonly mcp: string;
  /** A link that opens the page once. */
  readonly page: string;
  readonly token: string;
  readonly agents: number;
  readonly failed: readonly { agent: string; code: string; message: string }[];
}

export type NetworkedNode = EclipticNode & { readonly network: Network };

const running = new Set<ChildProcess>();
// Whatever becomes of the tests, and of the process that runs them: no node outlives it.
const endAll = () => {
  for (const child of running) child.kill('SIGKILL');
};
process.once('exit', endAll);
process.once('disconnect', endAll);
process.once('SIGTERM', () => {
  endAll();
  process.exit(143);
});

/** By file. */
const compiled = new Map<string, string>();

/** Nodes as processes of their own, each with its data folder, and all that a test starts beside them. */
export class Cluster {
  readonly folder: string;
  readonly #children = new Set<ChildProcess>();
  readonly #pids = new Set<number>();
  readonly #nodes: ProcessNode[] = [];
  readonly #others: (() => Promise<void>)[] = [];

  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'ecliptic-nodes-'));
  }

  /** A node that is not started yet. */
  node(name: string, settings: NodeSettings = {}): ProcessNode {
    const node = new ProcessNode(this, name, settings);
    this.#nodes.push(node);
    return node;
  }

  start(name: string, settings: NodeSettings = {}): Promise<ProcessNode> {
    return this.node(name, settings).start();
  }

  /** A private DHT in this process; resolves with the value for `--bootstrap`. */
  async dht(): Promise<string> {
    const dht = await PrivateDht.start(4, '127.0.0.1', 0);
    this.#others.push(() => dht.stop());
    return dht.bootstrap[0]!;
  }

  async natsServer(): Promise<NatsServer> {
    const server = await NatsServer.start();
    this.#others.push(() => server.stop());
    return server;
  }

  /** Options of `up` for a transport; a DHT or a NATS server is started when it needs one. */
  async argsFor(transport: Transport): Promise<string[]> {
    if (transport === 'websocket') return ['--no-dht', '--listen', '127.0.0.1:0'];
    if (transport === 'nats') return ['--nats', (await this.natsServer()).url];
    return ['--bootstrap', await this.dht()];
  }

  /** A node in this process. */
  async inProcess(network: NodeInit['network'], init: Omit<NodeInit, 'network'> = {}): Promise<NetworkedNode> {
    const node = await createNode({ ...init, network });
    this.#others.push(() => node.stop());
    return node as NetworkedNode;
  }

  witness(): string {
    return this.module(WITNESS);
  }

  /** An agent's module as JavaScript: every node that reads TypeScript itself takes twice as long to start. */
  module(filename: string): string {
    const compile = () =>
      createJiti(import.meta.url).transform({ source: readFileSync(filename, 'utf8'), filename, ts: true });
    const source = compiled.get(filename) ?? compile();
    compiled.set(filename, source);
    const file = join(this.folder, `${basename(filename, '.ts')}.cjs`);
    writeFileSync(file, source);
    return file;
  }

  /** Has something ended before the end, in the reverse order of its beginning. */
  onEnd(end: () => Promise<void>): void {
    this.#others.push(end);
  }

  /** Runs a command to its end. */
  async run(args: readonly string[], home = this.folder, env?: Record<string, string>): Promise<Finished> {
    const finished = await finish(this.launch(args, home, env));
    if (args.includes('--json')) await expectJsonOutput(args, finished);
    return finished;
  }

  launch(
    args: readonly string[],
    home = this.folder,
    env: Record<string, string> = {},
    log?: number,
    { descriptors, within = [], input = false, program: bin = BIN }: NodeSettings = {},
  ): ChildProcess {
    const words = [...within, process.execPath, bin, ...args];
    const limited = ['/bin/sh', '-c', `ulimit -n ${descriptors}; exec "$0" "$@"`, ...words];
    const [program, ...rest] = descriptors === undefined ? words : limited;
    const child = spawn(program!, rest, {
      cwd: home,
      env: childEnvironment(home, { TMPDIR: this.folder, PORT: '0', ...env }),
      stdio: [input ? 'pipe' : 'ignore', 'pipe', log ?? 'pipe'],
    });
    running.add(child);
    this.#children.add(child);
    if (child.pid !== undefined) this.#pids.add(child.pid);
    child.once('exit', () => {
      running.delete(child);
      this.#children.delete(child);
    });
    return child;
  }

  /** Ends everything; fails when a process is left. */
  async end(): Promise<void> {
    for (const node of this.#nodes) node.disconnect();
    for (const end of this.#others.splice(0).reverse()) await end();
    for (const child of [...this.#children]) {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    }
    const left = [...this.#pids].filter(isAlive);
    // Uncaught errors are reported there; the agents of these tests throw none.
    const faults = this.#nodes.flatMap((node) =>
      node.log.split('\n').filter((line) => /agent module (threw|left)/.test(line)),
    );
    if (process.env.ECLIPTIC_KEEP !== '1') await removeFolder(this.folder);
    expect(left, 'processes left behind').toEqual([]);
    expect(faults, 'uncaught errors').toEqual([]);
  }
}

/** A test with a cluster of its own, which ends with it, also when it fails or takes too long. */
export function inCluster(test: (cluster: Cluster) => Promise<void>): (context: TestContext) => Promise<void> {
  return ({ onTestFinished }) => {
    const cluster = new Cluster();
    onTestFinished(() => cluster.end());
    return test(cluster);
  };
}

/** One node: a process, its data folder, and a connection to its control socket. */
export class ProcessNode {
  readonly name: string;
  /** Where it is started; its `ecliptic.json` is here. */
  readonly home: string;
  readonly data: string;
  readonly #cluster: Cluster;
  readonly #settings: NodeSettings;
  /** Of its next start. */
  program: string | undefined;
  #child: ChildProcess | undefined;
  #ended: Promise<Pick<Finished, 'code' | 'signal'>> | undefined;
  #ready: Ready | undefined;
  #readyAt = 0;
  #client: Promise<ControlClient> | undefined;

  constructor(cluster: Cluster, name: string, settings: NodeSettings) {
    this.#cluster = cluster;
    this.#settings = settings;
    this.program = settings.program;
    this.name = name;
    this.home = join(cluster.folder, name);
    this.data = join(this.home, settings.data ?? 'data');
    mkdirSync(this.data, { recursive: true });
    if (settings.config) writeFileSync(join(this.home, 'ecliptic.json'), JSON.stringify(settings.config));
  }

  get key(): string {
    return this.ready.node;
  }

  get pid(): number {
    return this.ready.pid;
  }

  get ready(): Ready {
    if (!this.#ready) throw new Error(`${this.name} was never started`);
    return this.#ready;
  }

  /** When it said that it is up, by the wall clock. */
  get readyAt(): number {
    return this.#readyAt;
  }

  get running(): boolean {
    return this.#child !== undefined;
  }

  /** Its standard error of all runs. */
  get log(): string {
    const file = join(this.home, 'log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  /** Starts it, or starts it again on the same data folder; `args` are added for this run. */
  async start(args: readonly string[] = [], env: Record<string, string> = {}): Promise<this> {
    if (this.#child) throw new Error(`${this.name} runs already`);
    const log = openSync(join(this.home, 'log'), 'a');
    const words = ['up', '--data', this.data, '--name', this.name, '--json', ...(this.#settings.args ?? []), ...args];
    const child = this.#cluster.launch(words, this.home, { ...this.#settings.env, ...env }, log, {
      ...this.#settings,
      ...(this.program !== undefined && { program: this.program }),
    });
    closeSync(log);
    this.#child = child;
    const lines = createInterface({ input: child.stdout! });
    const closed = once(child, 'close');
    this.#ended = closed.then(([code, signal]) => {
      this.#child = undefined;
      return { code, signal };
    });
    const line = await Promise.race([once(lines, 'line').then(([text]) => text as string), closed.then(() => '')]);
    if (line === '') throw new Error(`${this.name} did not start: ${this.log}`);
    this.#readyAt = Date.now();
    this.#ready = JSON.parse(line);
    return this;
  }

  /** Calls a method of its control socket. */
  async call<T = unknown>(method: string, params: object = {}): Promise<T> {
    this.#client ??= this.#connect();
    return rawClient(await this.#client).call<T>(method, params);
  }

  /** Follows its events over a connection of its own, until the returned function is called. */
  async follow(onEvent: (event: A2ALogEvent) => void, params: object = {}): Promise<() => void> {
    const client = await ControlClient.connect(this.ready.control);
    client.call('tail', params, (event) => onEvent(event as A2ALogEvent)).catch(() => {});
    // Calls of one connection are taken in order: once this one is answered, events are being followed.
    await client.call('metrics');
    return () => client.close();
  }

  peers(): Promise<PeerRow[]> {
    return this.call<PeerRow[]>('peers');
  }

  agents(): Promise<AgentRow[]> {
    return this.call<AgentRow[]>('agents');
  }

  doctor(): Promise<Diagnosis> {
    return this.call<Diagnosis>('doctor');
  }

  request<T = unknown>(as: string, to: string, payload: unknown, timeoutMs?: number): Promise<T> {
    return this.call<T>('request', { as, to, payload, timeoutMs });
  }

  /** Its view of another node; undefined if unknown. */
  async stateOf(other: { key: string }): Promise<PeerStatus | undefined> {
    return (await this.peers()).find(({ node }) => node === other.key)?.state;
  }

  /** How many other nodes it is connected to. */
  async connected(): Promise<number> {
    return (await this.peers()).filter(({ state }) => state === 'connected').length;
  }

  /** Runs a command on this node. */
  run(...args: readonly string[]): Promise<Finished> {
    return this.#cluster.run([...args, '--data', this.data], this.home);
  }

  /** Runs a command that must succeed, and returns its JSON output. */
  async json<T>(...args: readonly string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run(...args, '--json');
    expect({ code, stderr }, args.join(' ')).toEqual({ code: 0, stderr: '' });
    return JSON.parse(stdout) as T;
  }

  /** Lets another node in, over the control sockets. */
  async admit(other: ProcessNode, invite: object = {}): Promise<void> {
    const { code } = await this.call<{ code: string }>('invite', invite);
    await other.call('join', { code });
  }

  #connect(): Promise<ControlClient> {
    const connection = ControlClient.connect(this.ready.control);
    const forget = () => {
      if (this.#client === connection) this.#client = undefined;
    };
    connection.then((client) => client.closed).then(forget, forget);
    return connection;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Ends it without a word, as a power cut would. */
  async crash(): Promise<void> {
    this.disconnect();
    this.signal('SIGKILL');
    await this.#ended;
  }

  /** Ends it in good order. */
  async stop(): Promise<Pick<Finished, 'code' | 'signal'> | undefined> {
    this.disconnect();
    this.signal('SIGTERM');
    return this.#ended;
  }

  disconnect(): void {
    this.#client?.then(
      (client) => client.close(),
      () => {},
    );
    this.#client = undefined;
  }
}

/** Polls until something is so, and resolves with it. */
export async function until<T>(
  condition: () => T | Promise<T>,
  what: string,
  limitMs = LIMIT_MS,
): Promise<NonNullable<T>> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`);
    await delay(40);
  }
}

/** Waits until each of these nodes is connected to all the others of them. */
export async function untilConnected(nodes: readonly ProcessNode[], limitMs = LIMIT_MS): Promise<void> {
  for (const node of nodes) {
    const others = nodes.filter((other) => other !== node);
    await until(
      async () => {
        const rows = await node.peers();
        return others.every(({ key }) => rows.some((row) => row.node === key && row.state === 'connected'));
      },
      `${node.name} is connected to ${others.map(({ name }) => name).join(', ')}`,
      limitMs,
    );
  }
}

/** The output and the exit code of a process. */
export async function finish(child: ChildProcess): Promise<Finished> {
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout!.on('data', (data) => stdout.push(data));
  child.stderr!.on('data', (data) => stderr.push(data));
  const [code, signal] = await once(child, 'close');
  return { code, signal, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
