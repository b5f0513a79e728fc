import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';

interface Holder {
  readonly pid: number;
  /** When that process started, where the system tells: a later process with the same number is another. */
  readonly started: string | undefined;
}

/**
 * One process per data folder. The lock file names its holder; a holder that is gone, even by `kill -9` or a power
 * cut, does not stand in the way.
 */
export class NodeLock {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  static acquire(folder: string, runtime: Runtime): NodeLock {
    const path = join(folder, 'node.lock');
    const own = `${path}.${runtime.id()}`;
    const holder: Holder = { pid: process.pid, started: startOf(process.pid) };
    writeFileSync(own, JSON.stringify(holder), { mode: 0o600 });
    try {
      for (;;) {
        if (tryLink(own, path)) return new NodeLock(path);
        const other = readHolder(path);
        if (other && isAlive(other)) throw held(other, folder);
        setAside(path, `${own}.stale`);
      }
    } finally {
      rmSync(own, { force: true });
    }
  }

  release(): void {
    rmSync(this.#path, { force: true });
  }
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw new EclipticError('DATA_FOLDER', `cannot lock ${to}: ${(error as Error).message}`, { path: to }, error);
  }
}

/**
 * Clears a dead holder's lock. Moving it away is atomic, so of several that see it one clears it; and whoever moved a
 * lock that a quicker one had just taken puts it back.
 */
function setAside(path: string, aside: string): void {
  try {
    renameSync(path, aside);
    const moved = readHolder(aside);
    if (moved && isAlive(moved)) tryLink(aside, path);
    rmSync(aside, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

function readHolder(path: string): Holder | undefined {
  try {
    const { pid, started } = JSON.parse(readFileSync(path, 'utf8'));
    return Number.isInteger(pid) ? { pid, started } : undefined;
  } catch {
    return undefined;
  }
}

function isAlive(holder: Holder): boolean {
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  const started = startOf(holder.pid);
  return started === undefined || holder.started === undefined || started === holder.started;
}

/** The kernel's start time of a process, on systems with /proc. */
function startOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19];
  } catch {
    return undefined;
  }
}

function held(holder: Holder, folder: string): EclipticError {
  return new EclipticError('NODE_EXISTS', `process ${holder.pid} already runs the node of ${folder}`, {
    pid: holder.pid,
    folder,
  });
}
