import { lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import { includedFiles } from './git-includes.js';
import { isWithin, type Mount } from './mounts.js';

/** Says that a repository's settings are in its own folder, as they are without that file. */
const HERE = '.\n';
/** A file of settings that has none is as good as no file. */
const NO_SETTINGS = '';

/**
 * Keeps what git runs out of the reach of jailed programs: hooks and settings of the repositories at the top of the folders
 * that they may write, and the files that lead git to these. Objects, refs and the index stay writable, so commits work.
 */
export class GitMounts {
  /** Files that are there only while programs are in their jails, with the number of these. */
  readonly #placeholders = new Map<string, { readonly content: string; readonly count: number }>();

  /** The mounts for one program, until `release` is called. In the closed folders, it can write nothing. */
  take(writable: readonly string[], closed: readonly string[] = []): { mounts: Mount[]; release: () => void } {
    const placed: string[] = [];
    const release = () => {
      for (const path of placed.splice(0)) this.#leave(path);
    };
    const inside = (data: string) => this.#protected(data, placed);
    const ofTree = (tree: string) => this.#protectedTree(tree, placed);
    try {
      const mounts = writable.flatMap((folder) => [
        ...atTop(join(folder, '.git'), writable, inside),
        ...(isRepository(folder) ? inside(folder) : []),
        ...(isTree(folder) ? ofTree(folder) : []),
      ]);
      const repositories = new Set(writable.flatMap((folder) => repositoryOf(folder) ?? []));
      for (const data of repositories) mounts.push(...this.#included(data, { writable, closed }, placed));
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
    this.#place(common, HERE, placed);
    const own = join(data, 'config.worktree');
    // It counts as soon as the owner uses a command such as git sparse-checkout, which turns the extension on.
    this.#place(own, NO_SETTINGS, placed);
    const trees = foldersIn(join(data, 'worktrees'));
    return [
      // What is mounted can be neither moved away nor replaced.
      ...trees.map((path): Mount => ({ path, kind: 'write' })),
      { path: hooks, kind: 'read' },
      ...[config, common, own].map(fixed),
      ...trees.flatMap((tree) => this.#protectedTree(tree, placed)),
    ];
  }

  /** What must not change in the folder of a linked worktree's data. */
  #protectedTree(tree: string, placed: string[]): Mount[] {
    const own = join(tree, 'config.worktree');
    this.#place(own, NO_SETTINGS, placed);
    const leading = ['commondir', 'gitdir'].map((name) => join(tree, name)).filter((path) => kindOf(path) !== 'none');
    return [own, ...leading].map(fixed);
  }

  /** Files in writable folders that the settings of a repository include. */
  #included(data: string, { writable, closed }: Folders, placed: string[]): Mount[] {
    const hooks = join(data, 'hooks');
    const settings = [data, ...foldersIn(join(data, 'worktrees'))].map((folder) => join(folder, 'config.worktree'));
    const named = includedFiles([join(data, 'config'), ...settings]);
    const paths = named.flatMap((path) => [path, join(real(dirname(path)) ?? dirname(path), basename(path))]);
    return [...new Set(paths)].flatMap((path) => {
      const folder = nearest(path, [...closed, hooks, ...writable]);
      if (folder === undefined || folder === path || closed.includes(folder) || folder === hooks) return [];
      // A folder above it could be replaced by another one.
      const above: string[] = [];
      for (let at = dirname(path); at !== folder; at = dirname(at)) above.unshift(at);
      for (const one of above) {
        if (kindOf(one) === 'none') mkdirSync(one);
        if (kindOf(one) !== 'folder') throw replaceable(one);
      }
      if (kindOf(path) === 'none') this.#place(path, NO_SETTINGS, placed);
      return [...above.map((one): Mount => ({ path: one, kind: 'write' })), fixed(path)];
    });
  }

  #place(path: string, content: string, placed: string[]): void {
    const known = this.#placeholders.get(path);
    if (!known && kindOf(path) === 'none') writeFileSync(path, content);
    // One that a killed node left behind is removed, too.
    if (!known && textOf(path) !== content) return;
    this.#placeholders.set(path, { content, count: (known?.count ?? 0) + 1 });
    placed.push(path);
  }

  #leave(path: string): void {
    const { content, count } = this.#placeholders.get(path)!;
    if (count > 1) this.#placeholders.set(path, { content, count: count - 1 });
    else {
      this.#placeholders.delete(path);
      // The owner may have written settings into it meanwhile.
      if (textOf(path) === content) rmSync(path, { force: true });
    }
  }
}

/** A file that can be neither written nor replaced. */
function fixed(path: string): Mount {
  if (kindOf(path) !== 'file') throw replaceable(path);
  return { path, kind: 'read' };
}

interface Folders {
  readonly writable: readonly string[];
  readonly closed: readonly string[];
}

/** The innermost of the folders that the path is in. */
function nearest(path: string, folders: readonly string[]): string | undefined {
  const around = folders.filter((folder) => isWithin(path, folder));
  return around.sort((one, other) => other.length - one.length)[0];
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

/** Is it the data of a linked worktree? */
function isTree(folder: string): boolean {
  return ['commondir', 'gitdir'].every((name) => kindOf(join(folder, name)) === 'file');
}

/** The data of the repository that git finds from a folder. */
function repositoryOf(folder: string): string | undefined {
  if (isRepository(folder)) return folder;
  for (let at = folder; ; at = dirname(at)) {
    const place = join(at, '.git');
    const kind = kindOf(place);
    if (kind === 'folder') return place;
    if (kind === 'file') return dataOf(place);
    if (at === dirname(at)) return undefined;
  }
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
