import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Runtime } from '../../runtime/runtime.js';
import { bootId, findProcesses, killAll, processStart } from './process-table.js';

/** The record of a child, in a file named after its process group: it identifies the leader of the group. */
export function childRecord(pid: number, started = processStart(pid)): string {
  return `${bootId()} ${started ?? ''}`;
}

/**
 * Ends the processes that are left of a node, and removes its records. A pid on record may have been reused, so a group
 * counts only while its leader is the process on record; marks are unique.
 */
export async function sweep(runtime: Runtime, folder: string): Promise<void> {
  const groups = namesIn(folder)
    .map(Number)
    .filter((pid) => processStart(pid) !== undefined && recordOf(folder, pid) === childRecord(pid));
  const wanted = { groups, mark: { beginsWith: `${basename(folder)}.` } };
  const gone = await killAll(runtime, () => findProcesses(runtime, wanted));
  if (!gone) runtime.logger.warn({ folder }, 'processes of an earlier node could not be killed');
  rmSync(folder, { recursive: true, force: true });
}

/** Empty where the folder cannot be read. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function recordOf(folder: string, pid: number): string | undefined {
  try {
    return readFileSync(join(folder, String(pid)), 'utf8').trimEnd();
  } catch {
    return undefined;
  }
}
