import { lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import { isWithin, type Mount } from './mounts.js';

/** Says that a repository's settings are in its own folder, as they are without that file. */
const HERE = '.\n';

/**
 * Keeps what git runs out of the reach of jailed programs: hooks and settings of the repositories at the top of the folders
 * that they may write, and the files that lead git to these. Objects, refs and the index stay writable, so commits work.
 */
export class GitMounts {
  /** Files that are there only while programs are in their jails, with the number of these. */
  readonly #placeholders = new Map<string, number>();

  /** The mounts for one program, until `release` is called. */
  take(writable: readonly string[]): { mounts: Mount[]; release: () => void } {
    const placed: string[] = [];
    const release = () => {
      for (const path of placed.splice(0)) this.#leave(path);
    };
    const inside = (data: string) => this.#protected(data, placed);
    try {
      const mounts = writable.flatMap((folder) => {
        const top = join(folder, '.git');
        return [...atTop(top, writable, inside), ...(isRepository(folder) ? inside(folder) : [])];
      });
      return { mounts, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** What must not change in the folder of a repository's data. */
  #protected(data: string, placed: string[]): Mount[] {
    const [config, hooks, common] = ['config', 'hooks', 'commondir'].map((name) => join(data, name)) as [
      string,
      string,
      string,
    ];
    if (kindOf(hooks) === 'none') mkdirSync(hooks);
    if (kindOf(hooks) !== 'folder') throw replaceable(hooks);
    if (kindOf(config) === 'none') writeFileSync(config, '');
    // With this file, a program could lead git to a folder with settings of its own.
    this.#place(common, placed);
    const trees = foldersIn(join(data, 'worktrees'));
    const perTree = /worktreeconfig/i.test(textOf(config) ?? '');
    const ofTrees = [data, ...trees].map((folder) => join(folder, 'config.worktree'));
    if (perTree) for (const path of ofTrees) if (kindOf(path) === 'none') writeFileSync(path, '');
    const leading = trees.map((tree) => join(tree, 'commondir'));
    const fixed = [config, common, ...[...ofTrees, ...leading].filter((path) => kindOf(path) !== 'none')];
    for (const path of fixed) if (kindOf(path) !== 'file') throw replaceable(path);
    return [
      // What is mounted can be neither moved away nor replaced.
      ...trees.map((path): Mount => ({ path, kind: 'write' })),
      ...[hooks, ...fixed].map((path): Mount => ({ path, kind: 'read' })),
    ];
  }

  #place(path: string, placed: string[]): void {
    const count = this.#placeholders.get(path) ?? 0;
    if (count === 0 && kindOf(path) === 'none') writeFileSync(path, HERE);
    // One that a killed node left behind is removed, too.
    if (count === 0 && textOf(path) !== HERE) return;
    this.#placeholders.set(path, count + 1);
    placed.push(path);
  }

  #leave(path: string): void {
    const count = this.#placeholders.get(path)! - 1;
    if (count > 0) this.#placeholders.set(path, count);
    else {
      this.#placeholders.delete(path);
      rmSync(path, { force: true });
    }
  }
}

function atTop(place: string, writable: readonly string[], inside: (data: string) => Mount[]): Mount[] {
  const kind = kindOf(place);
  if (kind === 'none') return [];
  if (kind === 'folder') return [{ path: place, kind: 'write' }, ...inside(place)];
  if (kind !== 'file') throw replaceable(place);
  const data = dataOf(place);
  const isReachable = data !== undefined && writable.some((folder) => isWithin(data, folder));
  return [{ path: place, kind: 'read' }, ...(isReachable ? inside(data) : [])];
}

/** Where the repository has its settings to which a file named .git leads: that of a worktree or of a submodule. */
function dataOf(file: string): string | undefined {
  const target = /^gitdir: (.+)$/m.exec(readFileSync(file, 'utf8'))?.[1];
  const own = target && real(resolve(file, '..', target.trim()));
  if (!own) return undefined;
  const common = textOf(join(own, 'commondir'));
  return common === undefined ? own : real(resolve(own, common.trim()));
}

/** As git recognises the folder of a repository's data. */
function isRepository(folder: string): boolean {
  return ['HEAD', 'objects', 'refs'].every((name) => kindOf(join(folder, name)) !== 'none');
}

function foldersIn(folder: string): string[] {
  if (kindOf(folder) !== 'folder') return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name));
}

function kindOf(path: string): 'file' | 'folder' | 'none' | 'other' {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return 'none';
  if (found.isDirectory()) return 'folder';
  return found.isFile() ? 'file' : 'other';
}

function textOf(file: string): string | undefined {
  return kindOf(file) === 'file' ? readFileSync(file, 'utf8') : undefined;
}

function real(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function replaceable(path: string): EclipticError {
  const message = `${path} is a link or a special file, which a jailed program could replace by hooks of its own; put a plain one there`;
  return new EclipticError('INVALID_CONFIG', message, { path, faults: [path] });
}
