import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { ProcessLock } from '../../system/files/process-lock.js';

/** The longest path of a socket, with room to spare (Linux 107 bytes, macOS 103). */
const MAX_SOCKET_PATH_BYTES = 100;

type Environment = Readonly<Record<string, string | undefined>>;

export function defaultDataFolder(env: Environment, platform: NodeJS.Platform = process.platform): string {
  if (platform === 'win32') return join(env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'), 'ecliptic');
  if (platform === 'darwin') return join(homedir(), 'Library', 'Application Support', 'ecliptic');
  return join(env.XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'ecliptic');
}

/**
 * The data folder that a configuration file names, so that commands find the running node. The rest of the file is not
 * checked, and a file that cannot be read names none: `up` and `config check` report its faults.
 */
export async function configuredDataFolder(name: string | undefined, cwd: string): Promise<string | undefined> {
  const file = resolve(cwd, name ?? 'ecliptic.json');
  try {
    const text = readFileSync(file, 'utf8');
    const { parse } = await import('jsonc-parser');
    const config: { data?: unknown } | undefined = parse(text);
    return typeof config?.data === 'string' ? resolve(dirname(file), config.data) : undefined;
  } catch {
    return undefined;
  }
}

/** Creates the folder if needed, and makes it private to this user. */
export function prepareDataFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o700);
  } catch (error) {
    throw unusable(folder, error);
  }
}

/**
 * The control socket of a data folder: inside it, or, if that path is too long for a socket, in a private runtime
 * folder, named by a hash of the data folder. On Windows, a named pipe.
 */
export function controlPath(folder: string, env: Environment, platform: NodeJS.Platform = process.platform): string {
  const name = createHash('sha256').update(resolve(folder)).digest('hex').slice(0, 24);
  if (platform === 'win32') return `\\\\.\\pipe\\ecliptic-${name}`;
  const inside = join(resolve(folder), 'control.sock');
  if (Buffer.byteLength(inside) <= MAX_SOCKET_PATH_BYTES) return inside;
  return join(runtimeFolder(env), `${name}.sock`);
}

/** A folder for sockets that only this user can enter; a folder of another user is refused. */
function runtimeFolder(env: Environment): string {
  const given = env.XDG_RUNTIME_DIR && join(env.XDG_RUNTIME_DIR, 'ecliptic');
  const folder =
    given && Buffer.byteLength(given) < MAX_SOCKET_PATH_BYTES - 32
      ? given
      : join(tmpdir(), `ecliptic-${userInfo().uid}`);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw unusable(folder, error);
  }
  const { uid, mode } = lstatSync(folder);
  if (uid !== userInfo().uid || (mode & 0o077) !== 0) {
    throw new EclipticError('DATA_FOLDER', `${folder} is not private to this user; remove it or set XDG_RUNTIME_DIR`, {
      folder,
    });
  }
  return folder;
}

/** One node per data folder. */
export function lockNode(folder: string, runtime: Runtime): ProcessLock {
  const path = join(folder, 'node.lock');
  try {
    return ProcessLock.acquire(path, runtime, (pid) => {
      return new EclipticError('NODE_EXISTS', `process ${pid} already runs the node of ${folder}`, { pid, folder });
    });
  } catch (error) {
    throw error instanceof EclipticError ? error : unusable(path, error);
  }
}

export function unusable(path: string, error: unknown): EclipticError {
  return new EclipticError('DATA_FOLDER', `cannot use ${path}: ${describeError(error)}`, { path }, error);
}

const STOPPED = 'stopped-at';

/** Records that the owner stopped the node, so that connected programs do not start it again. */
export function noteStopped(folder: string, at: number): void {
  try {
    writeFileSync(join(folder, STOPPED), String(at), { mode: 0o600 });
  } catch {
    // Without the note, a connected client may start the node again; nothing else depends on it.
  }
}

/** Removes that record: the node runs again, and may be restarted after a crash. */
export function forgetStopped(folder: string): void {
  rmSync(join(folder, STOPPED), { force: true });
}

/** When the owner stopped the node; 0 if the node has run since, or was never stopped. */
export function stoppedAt(folder: string): number {
  try {
    return Number(readFileSync(join(folder, STOPPED), 'utf8')) || 0;
  } catch {
    return 0;
  }
}
