import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Logger } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Child } from './child.js';
import { Children } from './children.js';
import { readLines } from './lines.js';
import { findProcesses, processStart } from './process-table.js';

const SOAK = process.env.ECLIPTIC_SOAK === '1';

/** Runs until it is killed: it heeds neither SIGTERM nor the end of its input. */
const STUBBORN = `for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT']) process.on(signal, () => {});
process.stdin.on('error', () => {}).resume(); setInterval(() => {}, 1000);`;

/** Leaves when its input ends. */
const LEAVING = 'process.stdin.on("end", process.exit).resume()';

/** Says its own and its child's number; `detached` puts that in a session of its own. */
const family = (grandchild: string, detached: boolean, rest: string, options = '') =>
  `const inner = require('child_process').spawn(process.execPath, ['-e', ${JSON.stringify(`${grandchild};console.log('up')`)}],
    { stdio: ['ignore', 'pipe', 'inherit'], detached: ${detached}, ${options} });
  inner.stdout.once('data', () => console.log(JSON.stringify([process.pid, inner.pid])));
  ${rest}`;

const runtime = systemRuntime();
let folder: string;
let children: Children;
let nodes: ChildProcess[];
/** What a node that is killed might leave behind, should a test fail. */
let strays: number[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-process-'));
  children = await Children.open(runtime, { folder: join(folder, 'children') });
  nodes = [];
  strays = [];
});

afterEach(async () => {
  for (const node of nodes) node.kill('SIGKILL');
  for (const pid of strays.filter(lives)) process.kill(pid, 'SIGKILL');
  await children.close({ graceMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

function startNode(code: string, program: { name?: string; env?: Record<string, string> } = {}): Promise<Child> {
  return children.start({ command: process.execPath, args: ['-e', code], ...program });
}

/** A child whose pipes and exit the test controls. No process has its number. */
function fakeChild() {
  const pipes = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const fake = Object.assign(new EventEmitter(), { pid: 2 ** 31 - 1, ...pipes });
  const process = fake as unknown as ChildProcessWithoutNullStreams;
  return { fake, child: new Child(runtime, { name: 'crashy', process, left: async () => [], onGone: () => {} }) };
}

/** The next line that a child writes, read as JSON. */
function firstLine(child: Pick<Child, 'stdout'>): Promise<never> {
  return new Promise((resolve, reject) => {
    readLines(child.stdout, (line) => resolve(JSON.parse(line) as never)).then(
      () => reject(new Error('no line')),
      reject,
    );
  });
}

function lives(pid: number): boolean {
  return processStart(pid) !== undefined;
}

function openFiles(): number {
  return readdirSync('/proc/self/fd').length;
}

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

describe('a child process', () => {
  it('is written to and read from by lines', async () => {
    const child = await startNode('process.stdin.pipe(process.stdout)');
    const lines: string[] = [];
    const reading = readLines(child.stdout, (line) => void lines.push(line));
    const sent = Array.from({ length: 1_000 }, (_, n) => JSON.stringify({ n, text: 'ä'.repeat(n) }));
    for (const line of sent) await child.write(`${line}\n`);
    await vi.waitFor(() => expect(lines).toHaveLength(1_000), 20_000);
    expect(lines).toEqual(sent);
    expect(await child.stop()).toEqual({ kind: 'code', code: 0 });
    await reading;
  });

  it('gets a minimal environment, its additions, and its own session', async () => {
    vi.stubEnv('ECLIPTIC_TOKEN', 'secret');
    const child = await startNode('console.log(JSON.stringify(process.env)); process.stdin.resume()', {
      env: { API_KEY: 'given', ECLIPTIC_CHILD: 'forged' },
    });
    vi.unstubAllEnvs();
    const env: Record<string, string> = await firstLine(child);
    expect(env).toMatchObject({ PATH: process.env.PATH, API_KEY: 'given' });
    expect(env).not.toHaveProperty('ECLIPTIC_TOKEN');
    expect(env.ECLIPTIC_CHILD).not.toBe('forged');
    expect(await findProcesses(runtime, { groups: [child.pid] })).toEqual([child.pid]);
  });

  it('reports how it ended', async () => {
    const failing = await startNode('console.error("first"); console.error("no such table"); process.exitCode = 3');
    expect(await failing.exited).toEqual({ kind: 'code', code: 3 });
    expect(failing.stderr).toEqual(['first', 'no such table']);
    expect(failing.failure()).toMatchObject({
      code: 'PROCESS_ENDED',
      message: expect.stringMatching(/ended with code 3; it said: no such table$/),
      details: { exit: { kind: 'code', code: 3 } },
    });
    const killed = await startNode('process.stdin.resume()', { name: 'weather' });
    process.kill(killed.pid, 'SIGKILL');
    expect(await killed.exited).toEqual({ kind: 'signal', signal: 'SIGKILL' });
    expect(killed.failure().message).toBe('weather was ended by SIGKILL');
    await expect(killed.write('x')).rejects.toMatchObject({ code: 'PROCESS_ENDED' });
  });

  it('says why it ended, also when its input closes before its exit is noticed [T-E12]', async () => {
    const { child, fake } = fakeChild();
    const full = child.write('x'.repeat(100_000));
    fake.stdin.destroy();
    const reasons = Promise.all(
      [child.write('x'), full].map((one) =>
        one.then(
          () => '',
          ({ message }) => message,
        ),
      ),
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    fake.emit('exit', 1, null);
    fake.stderr.end('the config file is broken\n');
    fake.stdout.destroy();
    const why = 'crashy ended with code 1; it said: the config file is broken';
    expect(await reasons).toEqual([why, why]);
    fake.emit('close');
    await child.stop();
  });

  it('says why it ended, also when this process was too busy to read its last words in time [T-E12]', async () => {
    const { child, fake } = fakeChild();
    // From here on, due timers come before the next immediates, as they come before input that is ready.
    await new Promise((resolve) => setImmediate(resolve));
    fake.emit('exit', 1, null);
    setImmediate(() => fake.stderr.write('the config file is broken\n'));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    await child.exited;
    expect(child.failure().message).toBe('crashy ended with code 1; it said: the config file is broken');
    fake.emit('close');
    await child.stop();
  });

  it.each([
    ['a command that does not exist', { command: 'no-such-program' }, /no-such-program: there is no such program/],
    ['a folder that does not exist', { command: 'cat', cwd: '/no/such' }, /cat: there is no folder \/no\/such/],
    ['a file that is no program', { command: '/etc/passwd' }, /\/etc\/passwd: it may not be executed/],
    ['an impossible argument', { command: 'cat', args: ['a\0b'] }, /cat: .*null bytes/],
    ['too many arguments', { command: 'cat', args: ['x'.repeat(4_000_000)] }, /cat: .*E2BIG/],
  ])('that cannot be started says why: %s', async (_, program, message) => {
    const files = openFiles();
    await expect(children.start(program)).rejects.toMatchObject({
      code: 'PROCESS_START_FAILED',
      message: expect.stringMatching(message),
      details: { command: program.command },
    });
    expect(children.size).toBe(0);
    // The guard's pipe is all that may be new.
    await vi.waitFor(() => expect(openFiles()).toBeLessThanOrEqual(files + 1), 20_000);
  });

  it('never blocks on stderr, and its last lines are quoted', async () => {
    const logged: unknown[] = [];
    const log = (fields: Record<string, unknown>) => void logged.push(fields);
    const logger: Logger = { debug: log, info: log, warn: log, error: log };
    const noisy = await Children.open(systemRuntime({ logger }));
    const child = await noisy.start({
      command: process.execPath,
      args: [
        '-e',
        `const { writeSync } = require('fs');
         for (let n = 0; n < 50; n++) writeSync(2, 'x'.repeat(1e6));
         for (let n = 0; n < 100000; n++) writeSync(2, 'line ' + n + '\\n');
         writeSync(2, 'the end');`,
      ],
      name: 'noisy',
    });
    expect(await child.exited).toEqual({ kind: 'code', code: 0 });
    await noisy.close();
    expect(child.stderr).toHaveLength(20);
    expect(child.stderr.slice(-2)).toEqual(['line 99999', 'the end']);
    expect(logged.length).toBeLessThan(5_000);
    expect(logged).toContainEqual({ child: 'noisy', line: 'x'.repeat(1_024) });
  });

  it('waits for its reader when it floods its output, and is cut off at an endless line', async () => {
    const child = await startNode(`const write = () => { while (process.stdout.write('x'.repeat(65536))); };
      process.stdout.on('drain', write); write();`);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(child.stdout.readableLength).toBeLessThan(1_000_000);
    await expect(readLines(child.stdout, () => {}, 10_000_000)).rejects.toMatchObject({ code: 'INVALID_FRAME' });
    await child.stop();
    expect(lives(child.pid)).toBe(false);
  });

  it('that does not read makes writers wait, then refuses', async () => {
    const child = await startNode('setInterval(() => {}, 1000)');
    const first = child.write('x'.repeat(20_000_000)).catch((error) => error);
    await expect(child.write('y')).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    await child.stop({ graceMs: 100 });
    expect(await first).toMatchObject({ code: 'PROCESS_ENDED' });
  });

  it('has its last lines read after its exit', async () => {
    const child = await startNode('process.stdout.write("x\\n".repeat(20000)); process.exitCode = 1');
    let lines = 0;
    await Promise.all([readLines(child.stdout, () => void lines++), child.exited.then(() => child.stop())]);
    expect(lines).toBe(20_000);
  });
});

describe('stopping a child', () => {
  it('lets a child exit at the end of its input, or on SIGTERM', async () => {
    const polite = await startNode('process.stdin.on("end", () => process.exit(7)).resume(); console.log(1)');
    await firstLine(polite);
    expect(await polite.stop()).toEqual({ kind: 'code', code: 7 });
    const deaf = await startNode(
      'process.on("SIGTERM", () => process.exit(8)); setInterval(() => {}, 1000); console.log(1)',
    );
    await firstLine(deaf);
    expect(await deaf.stop()).toEqual({ kind: 'code', code: 8 });
  });

  it('kills a child that ignores both after the grace period', async () => {
    const child = await startNode(`${STUBBORN} console.log(1)`);
    await firstLine(child);
    const files = openFiles();
    const ms = await elapsed(async () => {
      expect(await child.stop({ graceMs: 300 })).toEqual({ kind: 'signal', signal: 'SIGKILL' });
    });
    expect(ms).toBeGreaterThan(290);
    expect(ms).toBeLessThan(3_000);
    await vi.waitFor(() => expect(openFiles()).toBe(files - 3), 20_000);
  });

  it('may be requested again with a shorter grace period', async () => {
    const child = await startNode(`${STUBBORN} console.log(1)`);
    await firstLine(child);
    const stops = [child.stop({ graceMs: 60_000 }), child.stop({ graceMs: 60_000 }), child.stop({ graceMs: 50 })];
    expect(new Set(await Promise.all(stops)).size).toBe(1);
    await child.stop();
    expect(lives(child.pid)).toBe(false);
  });

  it('continues a stopped child, and kills it if that does not help', async () => {
    for (const code of ['setInterval(() => {}, 1000);', STUBBORN]) {
      const child = await startNode(`${code} console.log(1)`);
      await firstLine(child);
      process.kill(child.pid, 'SIGSTOP');
      expect(await child.stop({ graceMs: 400 })).toEqual({
        kind: 'signal',
        signal: code === STUBBORN ? 'SIGKILL' : 'SIGTERM',
      });
    }
  });

  it.each([false, true])(
    'ends what it started too, also when that heeds nothing (own session: %s)',
    async (detached) => {
      const child = await startNode(family(STUBBORN, detached, 'process.stdin.resume()'));
      const pids: number[] = await firstLine(child);
      expect(pids.map(lives)).toEqual([true, true]);
      await child.stop({ graceMs: 200 });
      expect(pids.map(lives)).toEqual([false, false]);
    },
  );

  it('also ends the descendants of a child that crashed', async () => {
    for (const detached of [false, true]) {
      const child = await startNode(family(STUBBORN, detached, ''));
      const [leader, inner]: [number, number] = await firstLine(child);
      process.kill(leader, 'SIGKILL');
      expect(await elapsed(() => child.exited)).toBeLessThan(1_000);
      expect(await child.stop({ graceMs: 100 })).toEqual({ kind: 'signal', signal: 'SIGKILL' });
      expect(lives(inner)).toBe(false);
    }
  });

  it('gives grandchildren the same grace period when their parent exits first', async () => {
    const flag = join(folder, 'flushed');
    const flushing = `process.on('SIGTERM', () => setTimeout(() => {
      require('fs').writeFileSync(${JSON.stringify(flag)}, ''); process.exit(); }, 200)); setInterval(() => {}, 1000);`;
    const child = await startNode(
      family(flushing, false, 'process.stdin.resume(); process.on("SIGTERM", process.exit)'),
    );
    await firstLine(child);
    await child.stop();
    expect(existsSync(flag)).toBe(true);
  });

  it('does not wait for a pipe that an unknown process holds open', async () => {
    const code = `require('child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 3000)'],
      { stdio: 'inherit', detached: true, env: {} }); process.stdin.resume(); console.log(1)`;
    const child = await startNode(code);
    await firstLine(child);
    expect(await elapsed(() => child.stop())).toBeLessThan(2_500);
  });
});

describe('the children of a node', () => {
  it('start and stop many times, and leave no process, file, handle or record', { timeout: 600_000 }, async () => {
    const cycle = async (round: number) => {
      const child = await startNode(
        round % 5 === 0
          ? family('setInterval(() => {}, 1000)', round % 2 === 0, 'process.stdin.resume()')
          : 'process.stdin.resume(); console.log(JSON.stringify([process.pid]))',
      );
      const pids: number[] = await firstLine(child);
      await child.stop();
      expect(pids.filter(lives)).toEqual([]);
      expect(await findProcesses(runtime, { groups: pids })).toEqual([]);
    };
    await cycle(0);
    const files = openFiles();
    const handles = process.getActiveResourcesInfo().toSorted();
    const cycles = SOAK ? 1_000 : 25;
    for (let round = 1; round <= cycles; round += 4) {
      await Promise.all([round, round + 1, round + 2, round + 3].map(cycle));
    }
    await vi.waitFor(() => expect(openFiles()).toBe(files), 20_000);
    // vi.waitFor() is no help here: its own timers count as active resources while it polls.
    const deadline = performance.now() + 5_000;
    const active = () => process.getActiveResourcesInfo().toSorted();
    while (!isDeepStrictEqual(active(), handles) && performance.now() < deadline) await delay(10);
    expect(active()).toEqual(handles);
    const [session] = readdirSync(join(folder, 'children'));
    const records = readdirSync(join(folder, 'children', session!));
    // A few empty places for further records.
    expect(records.filter((name) => !name.startsWith('.spare-'))).toEqual([]);
    expect(records.length).toBeLessThanOrEqual(16);
  });

  it('end when they are closed, with their guard and their folder', async () => {
    const some = await Promise.all(Array.from({ length: 5 }, () => startNode(`${STUBBORN} console.log(1)`)));
    await Promise.all(some.map(firstLine));
    await Promise.all([children.close({ graceMs: 200 }), children.close()]);
    expect(some.map((child) => lives(child.pid))).toEqual(some.map(() => false));
    expect(children.size).toBe(0);
    expect(readdirSync(folder)).toEqual([]);
    await expect(startNode('')).rejects.toMatchObject({ code: 'NODE_STOPPED' });
  });

  it('include a child that is starting when they are closed', async () => {
    const starting = startNode(STUBBORN);
    await children.close({ graceMs: 0 });
    expect(lives((await starting).pid)).toBe(false);
  });

  it('create no folder and no guard before the first child', async () => {
    const files = openFiles();
    await children.close();
    expect(readdirSync(folder)).toEqual([]);
    expect(openFiles()).toBe(files);
  });

  it('have a record each while they run', async () => {
    const child = await startNode('process.stdin.resume()');
    const [session] = readdirSync(join(folder, 'children'));
    const record = readFileSync(join(folder, 'children', session!, String(child.pid)), 'utf8');
    expect(record.split(' ')[1]).toBe(processStart(child.pid));
    await child.stop();
    const next = await startNode('process.stdin.resume()');
    const files = readdirSync(join(folder, 'children', session!));
    expect(files).toEqual([String(next.pid)]);
    const renewed = readFileSync(join(folder, 'children', session!, files[0]!), 'utf8');
    expect(renewed.split(' ')[1]).toBe(processStart(next.pid));
  });
});

describe('a node that is killed', () => {
  /** A node in a process of its own, with children; the numbers of its guard and of all that it started. */
  async function startFamilies(
    data: string,
    ...more: string[]
  ): Promise<{ node: ChildProcess; guard: number; pids: number[] }> {
    const programs = [
      `${STUBBORN} console.log(JSON.stringify([process.pid]))`,
      family(STUBBORN, false, STUBBORN),
      family(STUBBORN, true, STUBBORN),
      // This one leaves when its input ends, but not so its child.
      family(STUBBORN, false, LEAVING),
      ...more,
    ];
    const url = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
    const code = `
      import { Children } from ${url('./children.ts')};
      import { readLines } from ${url('./lines.ts')};
      import { systemRuntime } from ${url('../../runtime/system-runtime.ts')};
      const children = await Children.open(systemRuntime(), { folder: ${JSON.stringify(data)} });
      const pids = [];
      for (const program of ${JSON.stringify(programs)}) {
        const child = await children.start({ command: process.execPath, args: ['-e', program] });
        await new Promise((resolve) => readLines(child.stdout, (line) => resolve(pids.push(...JSON.parse(line)))));
      }
      console.log(JSON.stringify(pids));`;
    const node = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    nodes.push(node);
    const pids: number[] = await firstLine(node as never);
    strays.push(...pids);
    expect(pids).toHaveLength(7 + 2 * more.length);
    expect(pids.filter(lives)).toEqual(pids);
    return { node, guard: guardOf(node.pid!), pids };
  }

  /** The guard of a node, other than one that is known. */
  function guardOf(node: number, known = 0): number {
    const guard = readFileSync(`/proc/${node}/task/${node}/children`, 'utf8')
      .trim()
      .split(' ')
      .filter((pid) => pid !== String(known))
      .find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('ecliptic-guard'));
    return Number(guard);
  }

  it('ends its children and grandchildren', { timeout: 60_000 }, async () => {
    const data = join(folder, 'other');
    // Nothing tells whose child it is but its group.
    const { node, guard, pids } = await startFamilies(data, family(STUBBORN, false, LEAVING, 'env: {}'));
    node.kill('SIGKILL');
    await vi.waitFor(() => expect(pids.filter(lives)).toEqual([]), { timeout: 20_000, interval: 20 });
    await vi.waitFor(() => expect(lives(guard)).toBe(false), { timeout: 20_000 });
    expect(readdirSync(data)).toEqual([]);
  });

  it('replaces a guard that was killed before', { timeout: 60_000 }, async () => {
    const { node, guard, pids } = await startFamilies(join(folder, 'other'));
    process.kill(guard, 'SIGKILL');
    await vi.waitFor(() => expect(guardOf(node.pid!, guard)).toBeGreaterThan(0), { timeout: 20_000 });
    node.kill('SIGKILL');
    await vi.waitFor(() => expect(pids.filter(lives)).toEqual([]), { timeout: 20_000, interval: 20 });
  });

  it('leaves the cleanup to the next node when its guard was killed too', { timeout: 60_000 }, async () => {
    const data = join(folder, 'other');
    const { node, guard, pids } = await startFamilies(data);
    // A number on record that is another process's by now.
    const [session] = readdirSync(data);
    const stranger = await startNode('process.stdin.resume()');
    writeFileSync(join(data, session!, String(stranger.pid)), 'another-boot 1');
    for (const pid of [guard, node.pid!]) process.kill(pid, 'SIGKILL');
    await new Promise((resolve) => node.once('exit', resolve));
    expect(pids.filter(lives).length).toBeGreaterThan(4);
    const next = await Children.open(runtime, { folder: data });
    expect(pids.filter(lives)).toEqual([]);
    expect(lives(stranger.pid)).toBe(true);
    expect(readdirSync(data)).toEqual([]);
    await next.close();
  });

  it('ends its children at whatever moment it is killed', { timeout: 600_000 }, async () => {
    const data = join(folder, 'other');
    const url = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
    const busy = `
      import { Children } from ${url('./children.ts')};
      import { systemRuntime } from ${url('../../runtime/system-runtime.ts')};
      const children = await Children.open(systemRuntime(), { folder: ${JSON.stringify(data)} });
      const turn = async () => {
        const child = await children.start({ command: '/bin/sh', args: ['-c', 'trap "" TERM; sleep 60 & sleep 60'] });
        console.log(child.pid);
        setTimeout(() => child.stop({ graceMs: 5 }).then(turn), 10 * Math.random());
      };
      for (let n = 0; n < 5; n++) turn();`;
    const rounds = SOAK ? 50 : 5;
    for (let round = 0; round < rounds; round++) {
      const node = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', busy], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      nodes.push(node);
      const groups: number[] = [];
      const reading = readLines(node.stdout, (line) => void groups.push(Number(line)));
      await vi.waitFor(() => expect(groups.length).toBeGreaterThan(10), { timeout: 20_000 });
      const [session] = readdirSync(data);
      await new Promise((resolve) => setTimeout(resolve, 50 * Math.random()));
      node.kill('SIGKILL');
      await reading;
      const mark = { beginsWith: `${session}.` };
      const left = () => findProcesses(runtime, { groups, mark });
      await vi.waitFor(async () => expect(await left()).toEqual([]), { timeout: 20_000, interval: 50 });
      await vi.waitFor(() => expect(readdirSync(data)).toEqual([]), { timeout: 20_000 });
    }
  });
});
