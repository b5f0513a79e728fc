import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Runtime } from '../../runtime/runtime.js';
import { bootId, killAll, processStart } from './process-table.js';

/** What is on record about a child, in a file named after its process group: whose leader it was. */
export function childRecord(pid: number): string {
  return `${bootId()} ${processStart(pid) ?? ''}`;
}

/**
 * Ends what is left of a node that is gone, and its records. A record may be old and its number be somebody else's by
 * now, so a group counts only while its leader is the very process on record; a mark is never anybody else's.
 */
export async function sweep(runtime: Runtime, folder: string): Promise<void> {
  const groups = namesIn(folder)
    .map(Number)
    .filter((pid) => processStart(pid) !== undefined && recordOf(folder, pid) === childRecord(pid));
  const gone = await killAll(runtime, { groups, mark: { beginsWith: `${basename(folder)}.` } });
  if (!gone) runtime.logger.warn({ folder }, 'some processes of an earlier node would not end');
  rmSync(folder, { recursive: true, force: true });
}

/** What is in a folder; nothing, if it cannot be read. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function recordOf(folder: string, pid: number): string | undefined {
  try {
    return readFileSync(join(folder, String(pid)), 'utf8');
  } catch {
    return undefined;
  }
}
