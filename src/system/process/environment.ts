import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

/** A process's environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Variables that programs need and that reveal nothing about this node. */
const POSIX = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'LANG', 'LANGUAGE'];
const WINDOWS = [
  ...['PATH', 'PATHEXT', 'COMSPEC', 'SYSTEMROOT', 'SYSTEMDRIVE', 'PROGRAMFILES', 'PROCESSOR_ARCHITECTURE'],
  ...['USERNAME', 'USERPROFILE', 'HOMEDRIVE', 'HOMEPATH', 'APPDATA', 'LOCALAPPDATA', 'TEMP', 'TMP'],
];

/**
 * The environment of a child: a short list of harmless variables, and the additions of its owner. Nothing else is
 * inherited, because a node's environment may contain tokens.
 */
export function childEnvironment(
  inherited: Environment,
  additions: Environment = {},
  platform: NodeJS.Platform = process.platform,
): Record<string, string> {
  const windows = platform === 'win32';
  const names = new Set(windows ? WINDOWS : POSIX);
  const environment: Record<string, string> = {};
  // Each value of `process.env` that is read is a call into the system.
  for (const name of Object.keys(inherited)) {
    const known = windows ? names.has(name.toUpperCase()) : names.has(name) || name.startsWith('LC_');
    const value = known ? inherited[name] : undefined;
    if (value !== undefined) environment[name] = value;
  }
  for (const [name, value] of Object.entries(additions)) {
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}

/** Where POSIX systems look for programs when PATH is not set. */
const DEFAULT_PATH = '/usr/bin:/bin';

interface FindProgram {
  readonly command: string;
  readonly cwd: string;
  readonly env: Environment;
}

/** Why a program cannot be started, found out without starting it; undefined where it can. */
export function programFault({ command, cwd, env }: FindProgram, inherited: Environment): string | undefined {
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) return `there is no folder ${cwd}`;
  const isPath = /[\\/]/.test(command);
  const places = isPath ? [resolve(cwd, command)] : onPath(command, childEnvironment(inherited, env));
  const found = places.flatMap(withExtensions).filter(isFile);
  if (found.some((file) => isAccessible(file, constants.X_OK))) return undefined;
  if (found[0] !== undefined) return `${found[0]} may not be executed`;
  return isPath ? `there is no program ${places[0]}` : `there is no program "${command}" on the PATH`;
}

/** Why a file cannot be read; undefined where it can. */
export function fileFault(file: string): string | undefined {
  if (!isFile(file)) return `there is no file ${file}`;
  return isAccessible(file, constants.R_OK) ? undefined : `${file} may not be read`;
}

/** The file of a program that is searched on the PATH; undefined where there is none. */
export function findOnPath(command: string, environment: Environment): string | undefined {
  return onPath(command, environment).find((file) => isFile(file) && isAccessible(file, constants.X_OK));
}

function onPath(command: string, environment: Environment): string[] {
  const path = Object.entries(environment).find(([name]) => name.toUpperCase() === 'PATH')?.[1] ?? DEFAULT_PATH;
  return path.split(delimiter).map((folder) => resolve(folder, command));
}

/** Windows finds programs without their extension, too. */
function withExtensions(file: string): string[] {
  return process.platform === 'win32' ? [file, `${file}.exe`, `${file}.com`] : [file];
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function isAccessible(file: string, mode: number): boolean {
  try {
    accessSync(file, mode);
    return true;
  } catch {
    return false;
  }
}
