import { constants, existsSync, mkdirSync, rmSync } from 'node:fs';
import { copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { describeError, EclipticError } from '../../runtime/errors.js';

export interface Backup {
  readonly folder: string;
  readonly files: number;
  readonly bytes: number;
}

/** These belong to the process that runs, or are made again. Sockets and links are left out too. */
const PASSING = /^(control\.sock|node\.lock.*|store[/\\]lock.*|.*\.new|stopped-at|node\.log|open-page\.html)$/;

/** Runs a task while the store does not change. */
type Still = (task: () => Promise<void>) => Promise<void>;

/**
 * Copies a data folder into a new one. A first copy is made while the node works; then, while the store stands still, the files
 * that have changed since are copied again. The folder has its name only when it is complete and on disk.
 */
export async function backUp(from: string, to: string, still: Still): Promise<Backup> {
  assertFree(from, to);
  const draft = `${to}.incomplete`;
  try {
    rmSync(draft, { recursive: true, force: true });
    mkdirSync(draft, { mode: 0o700 });
    const copied = new Map<string, string>();
    await copyChanged(from, draft, copied);
    let failure: unknown;
    await still(async () => {
      // Not an error of the store, which would be reported as one.
      await copyChanged(from, draft, copied).catch((error) => {
        failure = error;
      });
    });
    if (failure !== undefined) throw failure;
    const bytes = await syncAll(draft, copied.keys());
    await rename(draft, to);
    await sync(dirname(to));
    return { folder: to, files: copied.size, bytes };
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    throw failed(`the backup could not be written to ${to}`, to, error);
  }
}

/** Puts a backup into a new data folder. No process may use the folder. */
export async function restore(from: string, to: string): Promise<Backup> {
  const key = join(from, 'node.key');
  if (!existsSync(key))
    throw new EclipticError('DATA_FOLDER', `${from} is no backup: it has no node.key`, { folder: from });
  if (!(await isFree(to))) {
    const path = 'name another one with --data DIR';
    throw new EclipticError('DATA_FOLDER', `${to} is not empty, and a restore overwrites nothing; ${path}`, {
      folder: to,
    });
  }
  try {
    await mkdir(to, { recursive: true, mode: 0o700 });
    const copied = new Map<string, string>();
    await copyChanged(from, to, copied);
    return { folder: to, files: copied.size, bytes: await syncAll(to, copied.keys()) };
  } catch (error) {
    // The folder was empty: a second try must find it so.
    rmSync(to, { recursive: true, force: true });
    throw failed(`${from} could not be restored to ${to}`, to, error);
  }
}

function assertFree(from: string, to: string): void {
  if (!isAbsolute(to)) throw new EclipticError('USAGE', `the folder of a backup is an absolute path, not "${to}"`);
  if (existsSync(to)) throw new EclipticError('USAGE', `${to} exists already; a backup is written into a new folder`);
  const inside = relative(resolve(from), resolve(to));
  if (inside !== '' && !inside.startsWith(`..${sep}`) && !isAbsolute(inside)) {
    throw new EclipticError('USAGE', `${to} is inside the data folder; a backup is written elsewhere`);
  }
}

async function isFree(folder: string): Promise<boolean> {
  return !existsSync(folder) || (await readdir(folder)).length === 0;
}

/** Copies what is new or has changed since `copied` was filled, and removes from the copy what is gone. */
async function copyChanged(from: string, to: string, copied: Map<string, string>): Promise<void> {
  const found = new Set<string>();
  for (const name of await filesIn(from)) {
    const version = await copyOne(join(from, name), join(to, name), copied.get(name));
    if (version === undefined) continue;
    found.add(name);
    copied.set(name, version);
  }
  for (const name of [...copied.keys()]) {
    if (found.has(name)) continue;
    copied.delete(name);
    await rm(join(to, name), { force: true });
  }
}

/** The version that was copied, which is `known` if the copy has it already; undefined for a file that has gone meanwhile. */
async function copyOne(from: string, to: string, known: string | undefined): Promise<string | undefined> {
  try {
    const { size, mtimeNs, ino } = await stat(from, { bigint: true });
    const version = `${ino} ${size} ${mtimeNs}`;
    if (version === known) return version;
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    await copyFile(from, to, constants.COPYFILE_FICLONE);
    return version;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((name) => !PASSING.test(name));
}

/** Waits until all files are on disk; returns the sum of their sizes. */
async function syncAll(folder: string, names: Iterable<string>): Promise<number> {
  let bytes = 0;
  for (const name of names) bytes += await sync(join(folder, name));
  return bytes;
}

/** Waits until the file is on disk; returns its size. */
async function sync(path: string): Promise<number> {
  const file = await open(path, 'r');
  try {
    await file.sync();
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}

function failed(what: string, folder: string, error: unknown): EclipticError {
  return error instanceof EclipticError
    ? error
    : new EclipticError('DATA_FOLDER', `${what}: ${describeError(error)}`, { folder }, error);
}
