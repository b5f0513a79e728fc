import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { wait } from '../../runtime/async.js';
import type { Runtime } from '../../runtime/runtime.js';

/** The environment variable that every child carries, and passes on to whatever it starts. */
const MARK = 'ECLIPTIC_CHILD';

/**
 * Marks name the child they were made for, as `session.number`. A descendant that left its process group still carries
 * its mark; one that is meant to live on must remove it.
 */
export function withMark(environment: Record<string, string>, mark: string): Record<string, string> {
  return { ...environment, [MARK]: mark };
}

/** Which processes: the members of some groups, and those whose mark is, or begins with, the given one. */
interface Wanted {
  readonly groups: readonly number[];
  readonly mark?: { readonly is: string } | { readonly beginsWith: string };
}

/** How long processes are looked at before others get their turn. */
const SLICE_MS = 1;

/** The living processes among those wanted. On systems without /proc, none is found. */
export async function findProcesses(runtime: Runtime, wanted: Wanted): Promise<number[]> {
  const { groups, mark } = wanted;
  const text = mark && `\0${MARK}=${'is' in mark ? `${mark.is}\0` : mark.beginsWith}`;
  const found: number[] = [];
  await eachProcess(runtime, (pid, { group, isKernel }) => {
    if (pid === process.pid || isKernel) return;
    if (groups.includes(group) || (text && `\0${read(`/proc/${pid}/environ`)}`.includes(text))) found.push(pid);
  });
  return found;
}

/** The living members of some groups, by group; unknown on systems without /proc. */
export async function groupMembers(runtime: Runtime, groups: ReadonlySet<number>): Promise<Map<number, number[]>> {
  const members = new Map<number, number[]>();
  await eachProcess(runtime, (pid, { group }) => {
    if (!groups.has(group)) return;
    const own = members.get(group);
    if (own) own.push(pid);
    else members.set(group, [pid]);
  });
  return members;
}

/** The children of a process that its first thread started. */
export function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

/** What a process takes up in memory; undefined when it is no living member of that group. */
export function memoryOf(pid: number, group: number): number | undefined {
  if (readStat(pid)?.group !== group) return undefined;
  const [, kib] = /^VmRSS:\s*(\d+)/m.exec(read(`/proc/${pid}/status`)) ?? [];
  return Number(kib ?? 0) * 1_024;
}

async function eachProcess(runtime: Runtime, look: (pid: number, stat: Stat) => void): Promise<void> {
  let began = runtime.stopwatch();
  for (const pid of listPids()) {
    if (runtime.stopwatch() - began > SLICE_MS) {
      await new Promise<void>((resolve) => runtime.defer(resolve));
      began = runtime.stopwatch();
    }
    const stat = readStat(pid);
    if (stat) look(pid, stat);
  }
}

/** When a living process started, by the kernel's own count: a later process with the same number is another. */
export function processStart(pid: number): string | undefined {
  return readStat(pid)?.started;
}

/** Which start of the system this is; the kernel counts from there. */
export function bootId(): string {
  return read('/proc/sys/kernel/random/boot_id').trim();
}

/** Sends a signal to all processes of a group; false when there are none. Signal 0 only asks. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  // Windows has no groups: there the child alone is reached.
  return signalProcess(process.platform === 'win32' ? group : -group, signal);
}

export function signalProcess(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

function listPids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

interface Stat {
  readonly group: number;
  readonly started: string;
  /** Is it a thread of the kernel, which nobody here has started? */
  readonly isKernel: boolean;
}

const KERNEL_THREAD = 0x200000;

/** Undefined for a process that has ended, even if its parent has not noticed. */
function readStat(pid: number): Stat | undefined {
  const stat = read(`/proc/${pid}/stat`);
  // The name, in brackets, may itself hold brackets and spaces.
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  const [state, , group, , , , flags] = fields;
  if (group === undefined || state === 'Z' || state === 'X') return undefined;
  return { group: Number(group), started: fields[19]!, isKernel: (Number(flags) & KERNEL_THREAD) !== 0 };
}

/** Such files tell no size, and are read often: into one place, without asking for it. */
const ROOM = Buffer.alloc(65_536);

/** What a process of another user, or one that is gone, does not tell is empty. */
function read(path: string): string {
  let file: number | undefined;
  try {
    file = openSync(path, 'r');
    let text = '';
    for (let bytes = readSync(file, ROOM); bytes > 0; bytes = readSync(file, ROOM)) {
      text += ROOM.toString('latin1', 0, bytes);
    }
    return text;
  } catch {
    return '';
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Rounds and pauses come to about a second: only a process that hangs in the kernel lives longer. */
const ROUNDS = 50;
const PAUSE_MS = 20;

/**
 * Kills the wanted processes, and looks again until none is left: one may have started another meanwhile. False when
 * some would not go.
 */
export async function killAll(runtime: Runtime, wanted: Wanted): Promise<boolean> {
  for (let round = 0; round < ROUNDS; round++) {
    const pids = await findProcesses(runtime, wanted);
    if (pids.length === 0) return true;
    for (const pid of pids) signalProcess(pid, 'SIGKILL');
    await wait(runtime, PAUSE_MS);
  }
  return false;
}
