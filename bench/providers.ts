import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createNode, type EclipticNode, systemRuntime } from 'ecliptic';
import { Children, CommandAdapter, Lanes, MemoryWatch } from 'ecliptic/providers';
import { compareCpu, type Report, type Round } from './compare.js';
import { exec } from './exec.js';
import { model } from './model.js';
import { isRepeat, sized } from './settings.js';

const SUITE = 'providers';
const PROGRAM = fileURLToPath(new URL('providers-peer.js', import.meta.url));
/** 256 bytes of JSON. */
const INPUT = { text: 'x'.repeat(245) };
/** Work items in progress at once. */
const WINDOW = 32;
/** A round: a second or so, because the system counts the CPU time of a program in steps of 10 ms. */
const EXECUTIONS = sized(10_000, 1_000);
const LANES = sized(50, 5);
const CRASHES = sized(30, 5);
const TIMED = sized(2_000, 200);

/** Work for a program in a lane, with health, failover and its accounts, beside a bare child and the same lines. */
export async function run(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const fleet = await Fleet.start(folder);
  try {
    await execute(report, fleet);
    if (isRepeat()) return;
    await crashes(report, fleet);
    await idleLanes(report, fleet);
    await exec(report, SUITE, folder);
    await model(report, SUITE, folder);
  } finally {
    await fleet.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function execute(report: Report, fleet: Fleet): Promise<void> {
  await fleet.add('worker');
  const bare = new BareChild();
  const { providers } = fleet.node;
  const route = { type: 'command', capabilities: ['worker'] };
  const pid = await fleet.running('worker');
  const ours = () => round(pid, () => providers.execute(route, INPUT, 'c'));
  const theirs = () => round(bare.pid, () => bare.execute(INPUT));
  await ours();
  await theirs();
  report.comparison(await compareCpu(SUITE, 'execute/bare-child', ours, theirs));
  const times: number[] = [];
  for (let n = 0; n < TIMED; n++) {
    const began = performance.now();
    await providers.execute(route, INPUT, 'c');
    times.push(performance.now() - began);
  }
  report.figure(SUITE, 'execute p95 with its program', quantile(times, 0.95), 'ms');
  bare.stop();
}

/** From the kill to the error that the waiting caller gets. */
async function crashes(report: Report, fleet: Fleet): Promise<void> {
  const adapter = await fleet.add('victim');
  const times: number[] = [];
  for (let crash = 0; crash < CRASHES; crash++) {
    const pid = await fleet.running('victim');
    // It answers at once; stopped, it cannot.
    process.kill(pid, 'SIGSTOP');
    const stuck = adapter.execute(INPUT, 'c').catch((error: { code: string }) => error.code);
    const began = performance.now();
    process.kill(pid, 'SIGKILL');
    if ((await stuck) !== 'PROVIDER_CRASHED') throw new Error(`it ended with ${await stuck}`);
    times.push(performance.now() - began);
  }
  report.figure(SUITE, 'crash seen, median', quantile(times, 0.5), 'ms');
  report.figure(SUITE, 'crash seen, p95', quantile(times, 0.95), 'ms');
}

async function idleLanes(report: Report, fleet: Fleet): Promise<void> {
  const before = await memory();
  for (let lane = 0; lane < LANES; lane++) await fleet.add(`idle-${lane}`);
  const each = ((await memory()) - before) / LANES / 1_024;
  report.figure(SUITE, `our memory a lane, of ${LANES} idle`, Math.round(each), 'KiB');
}

/** A node whose providers are programs. */
class Fleet {
  readonly node: EclipticNode;
  readonly #children: Children;
  readonly #lanes: Lanes;
  readonly #runtime = systemRuntime();
  readonly #memory = new MemoryWatch(this.#runtime);

  private constructor(node: EclipticNode, children: Children, folder: string) {
    this.node = node;
    this.#children = children;
    this.#lanes = new Lanes(join(folder, 'lanes'));
  }

  static async start(folder: string): Promise<Fleet> {
    return new Fleet(await createNode(), await Children.open(systemRuntime()), folder);
  }

  async add(id: string): Promise<CommandAdapter> {
    const credentials = { resolve: () => Promise.reject(new Error('there are none')) };
    const lane = this.#lanes.open(id);
    const parts = { runtime: this.#runtime, children: this.#children, memory: this.#memory, credentials, lane };
    const adapter = new CommandAdapter(id, parts, 'default');
    const restart = { firstDelayMs: 1, maxDelayMs: 1, maxCrashes: Number.POSITIVE_INFINITY };
    const config = { command: process.execPath, args: [PROGRAM], restart };
    const about = { workspaceId: 'default', concurrencyLimit: 100, capabilities: [id], laneId: id };
    await this.node.providers.register({ id, type: 'command', config, ...about }, adapter);
    return adapter;
  }

  /** The process of a provider, once it runs. */
  async running(id: string): Promise<number> {
    for (;;) {
      const status = this.#lanes.rows.find(({ lane }) => lane === id)?.providers[0];
      if (status?.state === 'running' && status.pid !== null) return status.pid;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async stop(): Promise<void> {
    await this.node.stop();
    await this.#lanes.closeAll();
    await this.#children.close();
  }
}

/** A child and the same lines, with nothing else. */
class BareChild {
  readonly #child: ChildProcessWithoutNullStreams = spawn(process.execPath, [PROGRAM], {
    // As ours: a session of its own is scheduled differently.
    detached: true,
  });
  readonly #waiting = new Map<number, (result: unknown) => void>();
  #last = 0;

  constructor() {
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      const { id, result } = JSON.parse(line) as { id: number; result: unknown };
      this.#waiting.get(id)?.(result);
      this.#waiting.delete(id);
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  execute(input: unknown): Promise<unknown> {
    const id = ++this.#last;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.stdin.write(`${JSON.stringify({ type: 'execute', id, correlationId: 'c', input })}\n`);
    });
  }

  stop(): void {
    this.#child.kill();
  }
}

/** The CPU time of this process and of the program that does the work. */
async function round(pid: number, one: () => Promise<unknown>): Promise<Round> {
  const [own, other, started] = [process.cpuUsage(), cpuMicros(pid), performance.now()];
  await windowed(EXECUTIONS, WINDOW, one);
  const ms = performance.now() - started;
  const { user, system } = process.cpuUsage(own);
  return { count: EXECUTIONS, micros: user + system + cpuMicros(pid) - other, ms };
}

function cpuMicros(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

/** Repeats an operation that often, with a fixed number in progress. */
async function windowed(count: number, window: number, one: () => Promise<unknown>): Promise<void> {
  let left = count;
  const stream = async () => {
    while (left-- > 0) await one();
  };
  await Promise.all(Array.from({ length: window }, stream));
}

/** When everything that can go has gone. */
async function memory(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    (globalThis as { gc?: () => void }).gc?.();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function quantile(times: readonly number[], part: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return Math.round(sorted[Math.floor(sorted.length * part)]! * 100) / 100;
}
