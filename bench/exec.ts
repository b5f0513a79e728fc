import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createNode, type EclipticNode, systemRuntime } from 'ecliptic';
import { Children, ExecAdapter, Lanes, MemoryWatch } from 'ecliptic/providers';
import { compareCpu, type Report, type Round } from './compare.js';

const TEXT = 'x'.repeat(256);
const TASK = { text: TEXT, context: {}, payload: TEXT, conversation: 'bench', from: 'sun' };
/** Programs at once. */
const WINDOW = 4;

interface Subject {
  readonly command: string;
  readonly args: readonly string[];
  /** Programs in a round: a second or so, because the system counts CPU time in steps of 10 ms. */
  readonly count: number;
}

/** Prints its input, as a small script of an agent's owner might. */
const SCRIPT: Subject = {
  command: process.execPath,
  args: ['-e', 'process.stdin.pipe(process.stdout)'],
  count: 40,
};
/** The same with next to no time of its own. */
const CAT: Subject = { command: '/bin/cat', args: [], count: 400 };

/** The variables that ours get: some programs take long over others, and `LANG` costs time, too. */
const VARIABLES = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'LANG', 'LANGUAGE'];
const ENVIRONMENT = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => VARIABLES.includes(name) || name.startsWith('LC_')),
);

/** A program for each piece of work, through the registry, beside a bare `spawn` of the same program with the same input. */
export async function exec(report: Report, suite: string, folder: string): Promise<void> {
  const children = await Children.open(systemRuntime());
  const lanes = new Lanes(join(folder, 'exec-lanes'));
  const node = await createNode();
  try {
    const compared = async (subject: Subject, name: string) => {
      const work = await registered(node, children, lanes, subject);
      const [ours, theirs] = [() => round(subject.count, work), () => round(subject.count, () => bare(subject))];
      await ours();
      await theirs();
      return compareCpu(suite, name, ours, theirs);
    };
    report.comparison(await compared(SCRIPT, 'exec/bare-spawn'));
    const { ours, theirs } = await compared(CAT, 'exec/cat');
    report.figure(suite, 'CPU for an exec beyond a bare spawn', Math.round(ours - theirs), 'µs');
  } finally {
    await node.stop();
    await lanes.closeAll();
    await children.close();
  }
}

async function registered(node: EclipticNode, children: Children, lanes: Lanes, subject: Subject) {
  const id = `exec-${lanes.rows.length}`;
  const runtime = systemRuntime();
  const parts = { runtime, children, memory: new MemoryWatch(runtime), lane: lanes.open(id) };
  const config = { command: subject.command, args: subject.args };
  const about = { workspaceId: 'default', concurrencyLimit: 100, capabilities: [id], laneId: id };
  await node.providers.register({ id, type: 'exec', config, ...about }, new ExecAdapter(id, parts));
  return async () => {
    const result = await node.providers.execute({ type: 'exec', capabilities: [id] }, TASK, 'c');
    if (result !== TEXT) throw new Error(`it printed ${JSON.stringify(result)}`);
  };
}

function bare({ command, args }: Subject): Promise<void> {
  return new Promise((resolve, reject) => {
    // As ours: a session of its own is scheduled differently.
    const child = spawn(command, args, { detached: true, env: ENVIRONMENT });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0 && Buffer.concat(chunks).toString() === `${TEXT}\n`) resolve();
      else reject(new Error(`${command} ended with code ${code}`));
    });
    child.stdin.end(`${TEXT}\n`);
  });
}

async function round(count: number, one: () => Promise<unknown>): Promise<Round> {
  const [cpu, start] = [cpuMicros(), performance.now()];
  let left = count;
  const stream = async () => {
    while (left-- > 0) await one();
  };
  await Promise.all(Array.from({ length: WINDOW }, stream));
  const ms = performance.now() - start;
  // What is left to do about a program that has ended counts, too.
  await new Promise((resolve) => setTimeout(resolve, 300));
  return { count, micros: cpuMicros() - cpu, ms };
}

/** CPU time of this process and of its children that have ended. */
function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  const stat = readFileSync('/proc/self/stat', 'latin1');
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  const ticks = Number(fields[13]) + Number(fields[14]);
  return user + system + ticks * 10_000;
}
