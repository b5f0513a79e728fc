import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

interface Holder {
  readonly pid: number;
  /** When that process started, if the system tells: a later process may have the same number. */
  readonly started: string | undefined;
  /** Unique to this holder. */
  readonly token: string;
  /** Distinguishes the lock from a copy of it. */
  readonly file: number | undefined;
}

/** The error for a lock that a living process holds. */
type Held = (pid: number) => EclipticError;

/**
 * Gives one process the use of something. The lock file names its holder; the lock of a dead holder is replaced, even
 * after `kill -9` or a power cut.
 */
export class ProcessLock {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  static acquire(path: string, runtime: Runtime, held: Held): ProcessLock {
    const token = runtime.id();
    const own = `${path}.${token}`;
    try {
      writeFileSync(own, '', { mode: 0o600 });
      const file = statSync(own).ino;
      const holder: Holder = { pid: process.pid, started: processStart(process.pid), token, file };
      writeFileSync(own, JSON.stringify(holder));
      for (;;) {
        if (tryLink(own, path)) return new ProcessLock(path);
        const other = readHolder(path);
        if (other && isAlive(other)) throw held(other.pid);
        if (takeOver(own, path, other, held)) return new ProcessLock(path);
      }
    } finally {
      rmSync(own, { force: true });
    }
  }

  release(): void {
    rmSync(this.#path, { force: true });
  }
}

/**
 * Replaces a dead holder's lock. The process must first get the claim on exactly that holder, which only one process
 * can, and must then still see that holder in the lock: so a lock that another process has just taken is never replaced.
 */
function takeOver(own: string, path: string, dead: Holder | undefined, held: Held): boolean {
  const claim = `${path}.after-${dead?.token ?? 'damage'}`;
  if (!tryLink(own, claim)) {
    const claimant = readHolder(claim);
    if (claimant && isAlive(claimant)) throw held(claimant.pid);
    rmSync(claim, { force: true });
    return false;
  }
  try {
    if (readHolder(path)?.token !== dead?.token) return false;
    renameSync(own, path);
    return true;
  } finally {
    rmSync(claim, { force: true });
  }
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function readHolder(path: string): Holder | undefined {
  try {
    const { pid, started, token, file } = JSON.parse(readFileSync(path, 'utf8'));
    // A copy of a lock is held by no process.
    const isCopy = file !== undefined && file !== statSync(path).ino;
    if (isCopy || !Number.isInteger(pid) || pid <= 0) return undefined;
    return { pid, started, token: String(token ?? ''), file };
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
  const started = processStart(holder.pid);
  if (started === DEAD) return false;
  return started === undefined || holder.started === undefined || started === holder.started;
}

/** The start time of a process that has ended but is not reaped yet. */
const DEAD = 'dead';

/** The kernel's start time of a process, on systems with /proc. */
function processStart(pid: number): string | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? DEAD : fields[19];
  } catch {
    return undefined;
  }
}
