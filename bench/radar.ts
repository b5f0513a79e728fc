import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Report } from './compare.js';
import { sized } from './settings.js';

const SUITE = 'radar';
const BIN = fileURLToPath(new URL('../../bin/ecliptic', import.meta.url));
const FILES = sized(50_000, 500);
const PER_FOLDER = 10;
const REST_MS = sized(60_000, 2_000);
const SAVES = sized(25, 3);
/** Between two saves. */
const PAUSE_MS = sized(700, 100);
const IDENTITY = ['-c', 'user.name=bench', '-c', 'user.email=bench@example.com'];

const execute = promisify(execFile);
const git = (folder: string, ...args: string[]) =>
  execute('git', ['-C', folder, ...IDENTITY, ...args], { maxBuffer: 64 * 1_048_576 });

/** A device: a node as a program, and an agent that works in a clone of the repository. */
class Device {
  readonly data: string;
  readonly checkout: string;
  readonly #children: ChildProcess[] = [];
  #pid = 0;

  constructor(folder: string, name: string) {
    this.data = join(folder, `${name}-data`);
    this.checkout = join(folder, name);
  }

  async start(): Promise<void> {
    await mkdir(this.data, { recursive: true });
    const words = ['up', '--no-dht', '--listen', '127.0.0.1:0', '--port', '0', '--log', 'error', '--json'];
    const up = this.#launch(words, this.data);
    const [line] = (await once(createInterface(up.stdout!), 'line')) as [string];
    this.#pid = (JSON.parse(line) as { pid: number }).pid;
  }

  /** Has an agent join. */
  async join(name: string): Promise<void> {
    const server = this.#launch(['mcp', '--as', name, '--no-start'], this.checkout);
    const lines = createInterface(server.stdout!);
    const ask = async (id: number, method: string, params: object) => {
      const answered = once(lines, 'line');
      server.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
      await answered;
    };
    await ask(1, 'initialize', { protocolVersion: '2025-11-25', clientInfo: { name: 'bench', version: '1' } });
    await ask(2, 'tools/call', { name: 'mesh_peers', arguments: {} });
  }

  async json<T>(...words: string[]): Promise<T> {
    const args = [BIN, ...words, '--data', this.data, '--json'];
    const { stdout } = await execute(process.execPath, args, { maxBuffer: 64 * 1_048_576 });
    return JSON.parse(stdout) as T;
  }

  /** Calls back with each overlap, by its files. */
  follow(each: (paths: readonly string[]) => void): void {
    const tail = this.#launch(['tail', '--type', 'radar', '--json'], this.data);
    createInterface(tail.stdout!).on('line', (line) => {
      const { topic, details } = JSON.parse(line) as { topic: string; details: { paths: string[] } };
      if (topic === 'radar.overlap') each(details.paths);
    });
  }

  /** The changed files that this device knows of on any device. */
  async changed(): Promise<string[]> {
    const { places } = await this.json<{ places: { files: string[] }[] }>('radar');
    return places.flatMap(({ files }) => files);
  }

  async isWatching(): Promise<boolean> {
    const { places } = await this.json<{ places: { mode: string }[] }>('radar', '--local');
    return places[0]?.mode === 'watched';
  }

  /** CPU time so far in ms: of the node's threads, and of the programs that it ran. */
  get cpuMs(): number {
    const threads = readdirSync(`/proc/${this.#pid}/task`).map((id) =>
      Number(readFileSync(`/proc/${this.#pid}/task/${id}/schedstat`, 'latin1').split(' ')[0]),
    );
    const stat = readFileSync(`/proc/${this.#pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
    return threads.reduce((sum, ns) => sum + ns / 1e6, 0) + (Number(fields[13]) + Number(fields[14])) * 10;
  }

  get memoryMiB(): number {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.#pid}/status`, 'latin1'))![1]) / 1_024;
  }

  async stop(): Promise<void> {
    for (const child of this.#children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  }

  #launch(words: readonly string[], cwd: string): ChildProcess {
    const args = [BIN, ...words, '--data', this.data];
    const env = { ...process.env, HOME: this.data };
    const child = spawn(process.execPath, args, { cwd, env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#children.push(child);
    return child;
  }
}

export async function run(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const [desk, laptop] = [new Device(folder, 'desk'), new Device(folder, 'laptop')];
  try {
    await makeRepository(desk.checkout);
    await git(folder, 'clone', '--quiet', '--local', desk.checkout, laptop.checkout);
    // So that both are checkouts of one repository.
    await git(desk.checkout, 'remote', 'add', 'origin', desk.checkout);
    await Promise.all([desk.start(), laptop.start()]);
    const { code } = await desk.json<{ code: string }>('invite', '--owner');
    await laptop.json('join', code);
    if (process.platform === 'linux') await atRest(report, desk);
    else await desk.join('alice');
    await laptop.join('bob');
    await saves(report, desk, laptop);
  } finally {
    await Promise.all([desk.stop(), laptop.stop()]);
    await rm(folder, { recursive: true, force: true });
  }
}

async function makeRepository(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (let at = 0; at < FILES; at += PER_FOLDER) {
    const inside = join(folder, fileOf(at), '..');
    await mkdir(inside, { recursive: true });
    const names = Array.from({ length: Math.min(PER_FOLDER, FILES - at) }, (_, index) => fileOf(at + index));
    await Promise.all(
      names.map((name) => writeFile(join(folder, name), `export const name = '${name}';\n`.repeat(10))),
    );
  }
  await git(folder, 'init', '--quiet');
  await git(folder, 'add', '--all');
  await git(folder, 'commit', '--quiet', '-m', 'all');
}

/** Ten files in a folder, 25 folders in a package. */
function fileOf(index: number): string {
  const folder = Math.floor(index / PER_FOLDER);
  return `packages/p${Math.floor(folder / 25)}/src${folder % 25}/file${index}.ts`;
}

/** The node beside an agent that does nothing, and before that agent was there. */
async function atRest(report: Report, desk: Device): Promise<void> {
  const core = async () => {
    const [before, began] = [desk.cpuMs, performance.now()];
    await delay(REST_MS);
    return (100 * (desk.cpuMs - before)) / (performance.now() - began);
  };
  const figure = (name: string, value: number, unit: string) =>
    report.figure(SUITE, name, Math.round(value * 1_000) / 1_000, unit);
  await delay(2_000);
  const [without, memory, cpu, began] = [await core(), desk.memoryMiB, desk.cpuMs, performance.now()];
  await desk.join('alice');
  while (!(await desk.isWatching())) await delay(50);
  figure(`until ${FILES} files are watched`, performance.now() - began, 'ms');
  figure(`until ${FILES} files are watched, CPU`, desk.cpuMs - cpu, 'ms CPU');
  await delay(2_000);
  const watching = await core();
  figure('at rest, CPU of a core', watching, '%');
  figure('at rest without an agent, CPU of a core', without, '%');
  figure('memory of the watch', desk.memoryMiB - memory, 'MiB');
}

/** Files that one agent has changed already are saved by the other. */
async function saves(report: Report, desk: Device, laptop: Device): Promise<void> {
  while (!(await laptop.isWatching())) await delay(50);
  const files = Array.from({ length: SAVES }, (_, index) => fileOf(Math.floor((index * FILES) / SAVES)));
  for (const file of files) writeFileSync(join(desk.checkout, file), 'desk\n');
  while ((await laptop.changed()).length < SAVES) await delay(50);
  const waiting = new Map<string, () => void>();
  const follow = (paths: readonly string[]) => {
    for (const path of paths) waiting.get(path)?.();
  };
  desk.follow(follow);
  // The first event is not measured: it shows that the command follows.
  const [first, ...rest] = files;
  const followed = new Promise<boolean>((resolve) => waiting.set(first!, () => resolve(true)));
  do {
    await git(laptop.checkout, 'checkout', '--quiet', first!);
    await delay(500);
    writeFileSync(join(laptop.checkout, first!), 'laptop\n');
  } while (!(await Promise.race([followed, delay(1_500, false)])));
  await delay(2_000);
  const times: number[] = [];
  for (const file of rest) {
    await delay(PAUSE_MS);
    const warned = new Promise<void>((resolve) => waiting.set(file, resolve));
    const saved = performance.now();
    writeFileSync(join(laptop.checkout, file), 'laptop\n');
    await warned;
    times.push(performance.now() - saved);
  }
  times.sort((one, other) => one - other);
  const name = 'from a save to the warning on the other device';
  report.figure(SUITE, name, Math.round(times[times.length >> 1]!), 'ms', [
    Math.round(times[0]!),
    Math.round(times.at(-1)!),
  ]);
}
