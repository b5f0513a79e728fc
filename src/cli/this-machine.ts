import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import type { Machine } from '../coding-agents/setup/clients.js';
import type { Invocation } from './command.js';

type Environment = Invocation['env'];

/** The machine as setup and the survey see it. */
export function thisMachine(env: Environment): Machine {
  const folders = foldersOf(env);
  return {
    home: env.HOME || homedir(),
    env,
    platform: process.platform,
    exists: existsSync,
    has: (program) => folders.some((folder) => isProgram(join(folder, program))),
  };
}

/** The first program of that name on the PATH, if it is this very file. */
export function stableName(name: string, file: string, env: Environment): string | undefined {
  const found = foldersOf(env)
    .map((folder) => join(folder, name))
    .find(isProgram);
  return found !== undefined && isAbsolute(found) && realpathSync(found) === realpathSync(file) ? found : undefined;
}

function foldersOf(env: Environment): string[] {
  return (env.PATH ?? '').split(delimiter).filter(Boolean);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
