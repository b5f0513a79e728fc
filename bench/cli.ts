import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Report } from './compare.js';

const SUITE = 'cli';
const BIN = fileURLToPath(new URL('../../bin/ecliptic', import.meta.url));
const RUNS = 15;

/** How long a command takes from launch to its end, beside a Node process that does nothing. */
export async function run(report: Report): Promise<void> {
  const data = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const up = launch([BIN, 'up', '--data', data, '--json', '--log', 'warn']);
  const started = performance.now();
  try {
    await once(up.stdout!, 'data');
    report.figure(SUITE, 'up, until ready', Math.round(performance.now() - started), 'ms');
    report.figure(SUITE, 'node -e 0', await median(['-e', '0']), 'ms');
    for (const command of [
      ['agents'],
      ['card', 'mars'],
      ['metrics'],
      ['request', '--as', 'sun', '--to', 'mars', '1'],
    ]) {
      report.figure(SUITE, `${command[0]}, whole command`, await median([BIN, ...command, '--data', data]), 'ms');
    }
    report.figure(SUITE, 'mcp, until its tools are listed', await tillListed(['--data', data]), 'ms');
    const nowhere = ['--no-start', '--data', join(data, 'nowhere')];
    report.figure(SUITE, 'mcp, the same where no node can be reached', await tillListed(nowhere), 'ms');
  } finally {
    up.kill('SIGTERM');
    await once(up, 'exit');
    await rm(data, { recursive: true, force: true });
  }
}

async function median(args: string[]): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    const started = performance.now();
    const [code] = await once(launch(args), 'exit');
    if (code !== 0) throw new Error(`${args.join(' ')} exited with ${code}`);
    times.push(performance.now() - started);
  }
  return Math.round(times.sort((a, b) => a - b)[RUNS >> 1]!);
}

/** From the launch of an MCP server to the list of its tools, as a coding agent sees it. */
async function tillListed(args: string[]): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < RUNS; i++) {
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
    times.push(performance.now() - started);
    server.kill('SIGKILL');
  }
  return Math.round(times.sort((a, b) => a - b)[RUNS >> 1]!);
}

function launch(args: string[]): ChildProcess {
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}
