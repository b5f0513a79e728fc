import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { compareCosts, type Report, type Round } from './compare.js';
import { isRepeat, roundsOf, series, sized } from './settings.js';

const SUITE = 'cli';
const BIN = fileURLToPath(new URL('../../bin/ecliptic', import.meta.url));
const RUNS = 15;
/** Processes in a round: the system counts the CPU time of those that have ended in steps of 10 ms. */
const LAUNCHES = 5;

/** After which time a node that does nothing is called idle. */
const IDLE_MS = sized(10_000, 2_000);
const IDLE_NODES = sized(5, 1);

/** What a command costs from its launch to its end, beside a Node process that does nothing. */
export async function run(report: Report): Promise<void> {
  const data = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  // The first process of each kind stores its compiled code.
  await started();
  await idle(report);
  const up = await launchNode(data);
  try {
    const command = [BIN, 'agents', '--data', data];
    await timed(command);
    await besideBareNode(report, 'up/bare-node', started);
    await besideBareNode(report, 'command/bare-node', () => ended(command));
    if (isRepeat()) return;
    for (const words of [['card', 'mars'], ['metrics'], ['peers']]) {
      await median(report, `${words[0]}, whole command`, () => timed([BIN, ...words, '--data', data]));
    }
    await median(report, 'mcp, until its tools are listed', () => tillListed(['--data', data]));
    const nowhere = ['--no-start', '--data', join(data, 'nowhere')];
    await median(report, 'mcp, the same where no node can be reached', () => tillListed(nowhere));
  } finally {
    await stop(up);
    await rm(data, { recursive: true, force: true });
  }
}

/** How many times as much as a Node process that does nothing. */
async function besideBareNode(report: Report, name: string, ours: () => Promise<Round>): Promise<void> {
  const { cpu, clock } = await compareCosts(SUITE, name, ours, () => ended(['-e', '0']), roundsOf(RUNS));
  report.comparison(clock);
  report.comparison({ ...cpu, name: `${name}, CPU time` });
}

/** Several processes, one after the other, until each has ended. */
async function ended(args: string[]): Promise<Round> {
  const before = endedMicros();
  let ms = 0;
  for (let i = 0; i < LAUNCHES; i++) ms += await timed(args);
  return { count: LAUNCHES, micros: endedMicros() - before, ms };
}

/** One start with a fresh data folder, from launch until the node accepts commands. */
async function started(): Promise<Round> {
  const data = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const start = performance.now();
  const up = await launchNode(data);
  const ms = performance.now() - start;
  const micros = runningMicros(up.pid!);
  await stop(up);
  await rm(data, { recursive: true, force: true });
  return { count: 1, micros, ms };
}

async function launchNode(data: string): Promise<ChildProcess> {
  const up = launch([BIN, 'up', '--data', data, '--json', '--log', 'warn', '--port', '0']);
  await once(up.stdout!, 'data');
  return up;
}

async function stop(up: ChildProcess): Promise<void> {
  up.kill('SIGTERM');
  await once(up, 'exit');
}

/** CPU time of the processes that this one has started and that have ended; not a number where there is no `/proc`. */
function endedMicros(): number {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
    return (Number(fields[13]) + Number(fields[14])) * 10_000;
  } catch {
    return Number.NaN;
  }
}

/** CPU time of all threads of a process so far. */
function runningMicros(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`).map((id) =>
      readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'latin1'),
    );
    return threads.reduce((sum, text) => sum + Number(text.split(' ')[0]) / 1_000, 0);
  } catch {
    return Number.NaN;
  }
}

/** Several nodes, one after the other. */
async function idle(report: Report): Promise<void> {
  const values: number[] = [];
  const nodes = series.runs > 1 ? Math.min(2, IDLE_NODES) : IDLE_NODES;
  for (let i = 0; i < nodes; i++) {
    const data = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
    const up = await launchNode(data);
    const memory = await idleMemory(up.pid!);
    await stop(up);
    await rm(data, { recursive: true, force: true });
    if (memory !== undefined) values.push(memory);
  }
  if (values.length > 0) figure(report, 'idle node, resident memory', values, 'MiB');
}

/** In MiB; undefined where the system does not say. */
async function idleMemory(pid: number): Promise<number | undefined> {
  await delay(IDLE_MS);
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const kib = /^VmRSS:\s+(\d+)/m.exec(status)?.[1];
  return kib === undefined ? undefined : Math.round(Number(kib) / 1024);
}

async function median(report: Report, name: string, once: () => Promise<number>): Promise<void> {
  const times: number[] = [];
  for (let i = 0; i < RUNS; i++) times.push(await once());
  figure(report, name, times, 'ms by the clock');
}

function figure(report: Report, name: string, values: readonly number[], unit: string): void {
  const sorted = values.map(Math.round).sort((a, b) => a - b);
  report.figure(SUITE, name, sorted[sorted.length >> 1]!, unit, [sorted[0]!, sorted.at(-1)!]);
}

async function timed(args: string[]): Promise<number> {
  const started = performance.now();
  const [code] = await once(launch(args), 'exit');
  if (code !== 0) throw new Error(`${args.join(' ')} exited with ${code}`);
  return performance.now() - started;
}

/** From the launch of an MCP server to the list of its tools, as a coding agent sees it. */
async function tillListed(args: string[]): Promise<number> {
  const started = performance.now();
  const server = spawn(process.execPath, [BIN, 'mcp', ...args], { stdio: ['pipe', 'pipe', 'ignore'] });
  const hello = { protocolVersion: '2025-11-25', clientInfo: { name: 'bench', version: '1' }, capabilities: {} };
  server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`);
  server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' })}\n`);
  let text = '';
  for await (const part of server.stdout) {
    text += part;
    if (text.includes('"id":2')) break;
  }
  const ms = performance.now() - started;
  server.kill('SIGKILL');
  return ms;
}

function launch(args: string[]): ChildProcess {
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}
