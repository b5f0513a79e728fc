import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { wait } from '../../runtime/async.js';
import type { Runtime } from '../../runtime/runtime.js';

/** The environment variable that every child has, and its descendants inherit. */
const MARK = 'ECLIPTIC_CHILD';

/**
 * A mark names a child as `session.number`. A descendant that left the process group still has it; a descendant that is
 * meant to outlive the child must remove it.
 */
export function withMark(environment: Record<string, string>, mark: string): Record<string, string> {
  return { ...environment, [MARK]: mark };
}

/** Members of these process groups, and processes whose mark begins with the given text. */
interface Wanted {
  readonly groups: readonly number[];
  readonly mark?: { readonly beginsWith: string };
}

/** Time after which the scan yields to the event loop. */
const SLICE_MS = 1;

/** Living processes only. Finds none on systems without /proc. */
export async function findProcesses(runtime: Runtime, wanted: Wanted): Promise<number[]> {
  const { groups, mark } = wanted;
  const text = mark && `\0${MARK}=${mark.beginsWith}`;
  const found: number[] = [];
  await eachProcess(runtime, (pid, { group, isKernel }) => {
    if (pid === process.pid || isKernel) return;
    if (groups.includes(group) || (text && `\0${read(`/proc/${pid}/environ`)}`.includes(text))) found.push(pid);
  });
  return found;
}

/** The remaining processes of one child: those of its process group, if one is given, and those with its mark. */
export interface Left {
  readonly group?: number | undefined;
  readonly mark: string;
  /** Start of the child in the kernel's clock: older processes cannot be its descendants. */
  readonly since: number;
}

/** Several children in one scan, in the order given. */
export async function findLeft(runtime: Runtime, children: readonly Left[]): Promise<number[][]> {
  const found = children.map((): number[] => []);
  const byGroup = new Map(children.flatMap(({ group }, index) => (group === undefined ? [] : [[group, index]])));
  const byMark = new Map(children.map(({ mark }, index) => [mark, index]));
  const oldest = Math.min(...children.map(({ since }) => since));
  await eachProcess(runtime, (pid, { group, started, isKernel }) => {
    if (pid === process.pid || isKernel) return;
    const owner = byGroup.get(group) ?? (Number(started) < oldest ? undefined : byMark.get(markOf(pid) ?? ''));
    if (owner !== undefined) found[owner]!.push(pid);
  });
  return found;
}

function markOf(pid: number): string | undefined {
  const [, rest] = `\0${read(`/proc/${pid}/environ`)}`.split(`\0${MARK}=`, 2);
  return rest?.split('\0', 1)[0];
}

/** Living members by process group; empty on systems without /proc. */
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

/** The children that the first thread of a process started. */
export function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

/** Resident memory of a process; undefined where it is not a living member of the group. */
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

/** Start time of a living process in the kernel's clock: it tells a process from a later one with the same pid. */
export function processStart(pid: number): string | undefined {
  return readStat(pid)?.started;
}

let knownBoot: string | undefined;

/** Identifies the boot that the kernel's clock counts from. */
export function bootId(): string {
  knownBoot ??= read('/proc/sys/kernel/random/boot_id').trim();
  return knownBoot;
}

/** Sends a signal to all processes of a group; false where there are none. Signal 0 only tests. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  // Windows has no process groups: only the child is signalled there.
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
  readonly isKernel: boolean;
}

const KERNEL_THREAD = 0x200000;

/** Undefined for a process that has ended, zombies included. */
function readStat(pid: number): Stat | undefined {
  const stat = read(`/proc/${pid}/stat`);
  // The name, in brackets, may contain brackets and spaces.
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  const [state, , group, , , , flags] = fields;
  if (group === undefined || state === 'Z' || state === 'X') return undefined;
  return { group: Number(group), started: fields[19]!, isKernel: (Number(flags) & KERNEL_THREAD) !== 0 };
}

/** Files of /proc have no size and are read often, so one buffer is reused. */
const ROOM = Buffer.alloc(65_536);

/** Empty where the process is gone or belongs to another user. */
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

/** Only a process that hangs in the kernel lives longer. */
const KILL_MS = 1_000;
const PAUSE_MS = 20;

/**
 * Kills the processes that `find` finds until it finds none: a process may have started another meanwhile. False where
 * some remain.
 */
export async function killAll(runtime: Runtime, find: () => Promise<readonly number[]>): Promise<boolean> {
  const began = runtime.stopwatch();
  for (;;) {
    const pids = await find();
    if (pids.length === 0) return true;
    if (runtime.stopwatch() - began > KILL_MS) return false;
    for (const pid of pids) signalProcess(pid, 'SIGKILL');
    await wait(runtime, PAUSE_MS);
  }
}
