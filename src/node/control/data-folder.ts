import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { describeError, EclipticError } from '../../runtime/errors.js';

/** What the operating system lets a socket's path be, with room to spare (Linux 107 bytes, macOS 103). */
const MAX_SOCKET_PATH_BYTES = 100;

type Environment = Readonly<Record<string, string | undefined>>;

/** Where a node keeps its state unless told otherwise. */
export function defaultDataFolder(env: Environment, platform: NodeJS.Platform = process.platform): string {
  if (platform === 'win32') return join(env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'), 'ecliptic');
  if (platform === 'darwin') return join(homedir(), 'Library', 'Application Support', 'ecliptic');
  return join(env.XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'ecliptic');
}

/** Makes the folder if need be, and makes sure that nobody else can look into it. */
export function prepareDataFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    chmodSync(folder, 0o700);
  } catch (error) {
    throw unusable(folder, error);
  }
}

/**
 * The control socket of a data folder: inside it, or, where that path is too long for a socket, in a private runtime
 * folder under a name made from the data folder's. On Windows, a named pipe.
 */
export function controlPath(folder: string, env: Environment, platform: NodeJS.Platform = process.platform): string {
  const name = createHash('sha256').update(resolve(folder)).digest('hex').slice(0, 24);
  if (platform === 'win32') return `\\\\.\\pipe\\ecliptic-${name}`;
  const inside = join(resolve(folder), 'control.sock');
  if (Buffer.byteLength(inside) <= MAX_SOCKET_PATH_BYTES) return inside;
  return join(runtimeFolder(env), `${name}.sock`);
}

/** A folder for sockets that only this user can enter; one that somebody else prepared is refused. */
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

/** What the system says about a path of the node, as an error of the catalogue. */
export function unusable(path: string, error: unknown): EclipticError {
  return new EclipticError('DATA_FOLDER', `cannot use ${path}: ${describeError(error)}`, { path }, error);
}

const STOPPED = 'stopped-at';

/** Notes that the owner stopped the node, so that programs that were connected to it do not start it again. */
export function noteStopped(folder: string, at: number): void {
  try {
    writeFileSync(join(folder, STOPPED), String(at), { mode: 0o600 });
  } catch {
    // The node stops all the same; at worst it is started again.
  }
}

/** Forgets the owner's stop: the node runs again, and may be started again should it crash. */
export function forgetStopped(folder: string): void {
  rmSync(join(folder, STOPPED), { force: true });
}

/** When the owner stopped the node of that folder; 0 if the node has run since, or was never stopped. */
export function stoppedAt(folder: string): number {
  try {
    return Number(readFileSync(join(folder, STOPPED), 'utf8')) || 0;
  } catch {
    return 0;
  }
}
