import { realpathSync, statSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { EclipticError } from '../runtime/errors.js';
import { isInside } from './tools/workspace-files.js';

export interface WorkspacesInit {
  /** The folders that a caller may name, by its address; the first is meant if it names none. */
  readonly foldersFor: (caller: string) => readonly string[];
}

/** Which folders the roster's tools may read for whom. */
export class Workspaces {
  readonly #foldersFor: WorkspacesInit['foldersFor'];

  constructor({ foldersFor }: WorkspacesInit) {
    this.#foldersFor = foldersFor;
  }

  /** The real path of the folder that the caller asks for, if it is one of its own or within one. */
  locate(asked: string | undefined, caller: string): string {
    const own = this.#foldersFor(caller).flatMap((folder) => realFolder(folder) ?? []);
    const [first] = own;
    if (first === undefined) {
      const message = `${caller} has no workspace here; the owner adds a folder to "workspaces" in ecliptic.json`;
      throw new EclipticError('WORKSPACE_REFUSED', message, { caller });
    }
    if (asked === undefined || asked === '.') return first;
    if (asked.includes('\0')) throw new EclipticError('INVALID_ARGUMENTS', 'the name of the workspace is no path');
    for (const base of own) {
      const real = realFolder(isAbsolute(asked) ? asked : resolve(base, asked));
      if (real !== undefined && own.some((folder) => isInside(folder, real))) return real;
    }
    const message = `${asked} is no folder in a workspace of ${caller}; the owner adds it to "workspaces" in ecliptic.json`;
    throw new EclipticError('WORKSPACE_REFUSED', message, { caller, workspace: asked });
  }
}

function realFolder(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined;
  }
}
