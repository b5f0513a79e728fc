import { existsSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { findOnPath } from '../process/environment.js';
import { isWithin, type Mount } from './mounts.js';

interface ProgramFilesInit {
  readonly command: string;
  readonly args: readonly string[];
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** Folders that must not be shown as a whole: no package may contain one of them. */
  readonly priv: readonly string[];
}

/**
 * What a program needs to read so that it can start: its own file with its package, files that its arguments name, and the
 * installation of Node.
 */
export function programFiles({ command, args, folder, env, priv }: ProgramFilesInit): Mount[] {
  const program = isAbsolute(command) || command.includes(sep) ? resolve(folder, command) : findOnPath(command, env);
  const files = [process.execPath, ...(program === undefined ? [] : [program]), ...args.filter(isAbsolute)];
  return files.flatMap((file) => filesOf(file, priv));
}

function filesOf(file: string, priv: readonly string[]): Mount[] {
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return [];
  const real = realpathSync(file);
  const mounts: Mount[] = [{ path: real, kind: 'read' }];
  // A link keeps its own path: the program may find its files from there.
  if (real !== file) mounts.push({ path: file, kind: 'read', source: real });
  const isAllowed = (path: string) => !priv.some((one) => isWithin(one, path));
  for (const path of [...installationOf(file), ...installationOf(real), packageOf(real)]) {
    if (path !== undefined && isAllowed(path)) mounts.push({ path, kind: 'read' });
  }
  return mounts;
}

/** The folders beside `bin` that hold what its programs load. */
function installationOf(file: string): string[] {
  const bin = dirname(file);
  if (basename(bin) !== 'bin') return [];
  const modules = join(dirname(bin), 'lib', 'node_modules');
  return existsSync(modules) ? [bin, join(dirname(bin), 'lib')] : [];
}

/** The outermost `node_modules` that the file is in, since packages find each other there; else its own package. */
function packageOf(file: string): string | undefined {
  const parts = file.split(sep);
  const modules = parts.indexOf('node_modules');
  if (modules > 0) return parts.slice(0, modules + 1).join(sep);
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
  }
  return undefined;
}
