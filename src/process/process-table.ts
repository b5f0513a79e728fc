import { readdirSync, readFileSync } from 'node:fs';
import type { Runtime } from '../runtime/runtime.js';

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
export interface Wanted {
  readonly groups: readonly number[];
  readonly mark?: { readonly is: string } | { readonly beginsWith: string };
}

/** How many processes are looked at before others get their turn: a millisecond or so. */
const SLICE = 50;

/** The living processes among those wanted. On systems without /proc, none is found. */
export async function findProcesses(runtime: Runtime, wanted: Wanted): Promise<number[]> {
  const { groups, mark } = wanted;
  const text = mark && `\0${MARK}=${'is' in mark ? `${mark.is}\0` : mark.beginsWith}`;
  const found: number[] = [];
  for (const [at, pid] of listPids().entries()) {
    if (at % SLICE === SLICE - 1) await new Promise<void>((resolve) => runtime.defer(resolve));
    const stat = pid === process.pid ? undefined : readStat(pid);
    if (!stat) continue;
    if (groups.includes(stat.group) || (text && `\0${read(`/proc/${pid}/environ`)}`.includes(text))) found.push(pid);
  }
  return found;
}

/** What the living members of some groups take up in memory together, by group; unknown on systems without /proc. */
export async function groupMemory(runtime: Runtime, groups: ReadonlySet<number>): Promise<Map<number, number>> {
  const bytes = new Map<number, number>();
  for (const [at, pid] of listPids().entries()) {
    if (at % SLICE === SLICE - 1) await new Promise<void>((resolve) => runtime.defer(resolve));
    const group = readStat(pid)?.group;
    if (group === undefined || !groups.has(group)) continue;
    const [, kib] = /^VmRSS:\s*(\d+)/m.exec(read(`/proc/${pid}/status`)) ?? [];
    bytes.set(group, (bytes.get(group) ?? 0) + Number(kib ?? 0) * 1_024);
  }
  return bytes;
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

/** Undefined for a process that has ended, even if its parent has not noticed. */
function readStat(pid: number): { group: number; started: string } | undefined {
  const stat = read(`/proc/${pid}/stat`);
  // The name, in brackets, may itself hold brackets and spaces.
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
  const [state, , group] = fields;
  if (group === undefined || state === 'Z' || state === 'X') return undefined;
  return { group: Number(group), started: fields[19]! };
}

/** What a process of another user, or one that is gone, does not tell is empty. */
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
