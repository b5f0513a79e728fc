import { type Dirent, type FSWatcher, lstatSync, watch } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Git } from '../../system/git/git.js';
import type { GitPlace } from '../../system/git/known-repositories.js';

/** Folders that a node watches, of all worktrees together. */
export const MAX_WATCHED = 16_384;

/** How many more folders may be watched. */
export interface WatchBudget {
  left: number;
}

interface FolderWatchComponents {
  runtime: Runtime;
  git: Git;
  budget: WatchBudget;
}

export interface FolderWatchInit {
  /** The top of the worktree. */
  readonly root: string;
  readonly place: GitPlace;
  /** A path in the worktree may have changed. */
  readonly onPath: (path: string) => void;
  /** HEAD, the index or the rules of what git ignores may have changed. */
  readonly onGit: () => void;
  /** Not everything is watched any more. */
  readonly onFailure: (error: unknown) => void;
}

/** The operating system watches a whole tree there; on Linux each folder is watched. */
const WATCHES_TREES = process.platform === 'darwin' || process.platform === 'win32';
/** Folders between which other work has its turn. */
const BATCH = 128;
const GIT_FILE = /^(?!.*\.lock$)(?:HEAD|index|ORIG_HEAD|MERGE_HEAD|CHERRY_PICK_HEAD|REBASE_HEAD|packed-refs)$/;

/** Reports changes below the folders of a worktree that git does not ignore. Costs nothing while nothing changes. */
export class FolderWatch {
  readonly #components: FolderWatchComponents;
  readonly #init: FolderWatchInit;
  /** By the path within the worktree; the top is the empty path. */
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #gitWatchers: FSWatcher[] = [];
  #closed = false;

  constructor(components: FolderWatchComponents, init: FolderWatchInit) {
    this.#components = components;
    this.#init = init;
  }

  /** Resolves when every change from then on is reported. */
  async start(): Promise<void> {
    try {
      await this.#watchGit();
      if (WATCHES_TREES) this.#watch('', { recursive: true });
      else await this.#walk(['', ...(await this.#trackedThoughIgnored())]);
    } catch (error) {
      this.#fail(error);
    }
  }

  get folders(): number {
    return this.#watchers.size;
  }

  close(): void {
    this.#closed = true;
    for (const watcher of this.#gitWatchers) watcher.close();
    for (const path of [...this.#watchers.keys()]) this.#unwatch(path);
  }

  /** Watches these folders and those in them. Each is watched before it is listed, so nothing is missed between. */
  async #walk(folders: readonly string[]): Promise<void> {
    let level = folders;
    while (level.length > 0 && !this.#closed) {
      const found: string[] = [];
      for (let at = 0; at < level.length && !this.#closed; at += BATCH) {
        const batch = level.slice(at, at + BATCH).filter((path) => !this.#watchers.has(path) && this.#watch(path));
        found.push(...(await Promise.all(batch.map((path) => this.#foldersIn(path)))).flat());
      }
      level = await this.#notIgnored(found);
    }
  }

  async #foldersIn(path: string): Promise<string[]> {
    let entries: Dirent[];
    try {
      entries = await readdir(join(this.#init.root, path), { withFileTypes: true });
    } catch {
      // It is gone again.
      return [];
    }
    if (path !== '' && entries.some(({ name }) => name === '.git')) {
      // Another repository, or another worktree.
      this.#unwatch(path);
      return [];
    }
    const folders = entries.filter((entry) => entry.isDirectory() && entry.name !== '.git');
    return folders.map(({ name }) => (path === '' ? name : `${path}/${name}`));
  }

  async #notIgnored(folders: readonly string[]): Promise<string[]> {
    if (folders.length === 0) return [];
    // With the dot no path is a pattern.
    const input = folders.map((path) => `./${path}\0`).join('');
    const { code, stdout, stderr } = await this.#git(['check-ignore', '--no-index', '-z', '--stdin'], input);
    // 1: none of them is ignored.
    if (code > 1) throw new EclipticError('GIT_FAILED', `git check-ignore failed: ${stderr.split('\n')[0]}`, { code });
    const ignored = new Set(stdout.split('\0'));
    return folders.filter((path) => !ignored.has(`./${path}`));
  }

  /** Folders that git ignores, with files that were added nevertheless. */
  async #trackedThoughIgnored(): Promise<string[]> {
    const { stdout } = await this.#git(['ls-files', '--cached', '--ignored', '--exclude-standard', '-z']);
    return [...new Set(stdout.split('\0').flatMap((file) => file.match(/^(.+)\/[^/]+$/)?.[1] ?? []))];
  }

  #watch(path: string, { recursive = false } = {}): boolean {
    const { budget } = this.#components;
    if (budget.left <= 0) throw new EclipticError('QUEUE_FULL', `more than ${MAX_WATCHED} folders`, {});
    try {
      const options = { persistent: false, recursive };
      const watcher = watch(join(this.#init.root, path), options, (type, name) => this.#heard(path, type, name));
      watcher.on('error', (error) => {
        if (path === '') this.#fail(error);
        else this.#unwatch(path);
      });
      budget.left--;
      this.#watchers.set(path, watcher);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' && path !== '') return false;
      throw error;
    }
  }

  #unwatch(path: string): void {
    const watcher = this.#watchers.get(path);
    if (!watcher) return;
    this.#watchers.delete(path);
    this.#components.budget.left++;
    watcher.close();
  }

  #heard(folder: string, type: 'rename' | 'change', name: string | null): void {
    if (this.#closed) return;
    if (name === null) {
      // The event does not say what has changed.
      this.#init.onGit();
      return;
    }
    const path = [...(folder === '' ? [] : [folder]), ...name.split(/[/\\]/)].join('/');
    if (path === '.git' || path.startsWith('.git/')) return;
    if (path === '.gitignore' || path.endsWith('/.gitignore')) this.#init.onGit();
    if (type === 'rename' && !WATCHES_TREES && this.#appeared(path)) return;
    this.#init.onPath(path);
  }

  /** Watches a folder that has appeared. False if it is none, or none any more. */
  #appeared(path: string): boolean {
    // A folder that was moved away or replaced is watched under its new name.
    if (this.#watchers.has(path)) {
      for (const below of [...this.#watchers.keys()]) {
        if (below === path || below.startsWith(`${path}/`)) this.#unwatch(below);
      }
    }
    if (!this.#isFolder(path)) return false;
    const work = this.#notIgnored([path]).then(async (folders) => {
      await this.#walk(folders);
      // What was written into it before it was watched.
      if (folders.length > 0 && !this.#closed) this.#init.onPath(path);
    });
    work.catch((error: unknown) => this.#fail(error));
    return true;
  }

  #isFolder(path: string): boolean {
    try {
      return lstatSync(join(this.#init.root, path)).isDirectory();
    } catch {
      return false;
    }
  }

  async #watchGit(): Promise<void> {
    const { stdout } = await this.#git(['rev-parse', '--absolute-git-dir']);
    const folder = stdout.replace(/\r?\n$/, '');
    const options = { persistent: false };
    const onHead = (_type: string, name: string | null) => {
      if (!this.#closed && (name === null || GIT_FILE.test(name))) this.#init.onGit();
    };
    for (const path of [folder, join(folder, 'logs')]) {
      try {
        const watcher = watch(path, options, onHead);
        watcher.on('error', () => watcher.close());
        this.#gitWatchers.push(watcher);
      } catch (error) {
        // A repository without a log of HEAD.
        if (path === folder) throw error;
      }
    }
  }

  #git(args: readonly string[], input?: string) {
    const { git } = this.#components;
    return git.result(this.#init.place, args, {
      env: { GIT_OPTIONAL_LOCKS: '0' },
      ...(input !== undefined && { input }),
    });
  }

  #fail(error: unknown): void {
    if (this.#closed) return;
    this.close();
    this.#components.runtime.logger.info(
      { folder: this.#init.root, reason: describeError(error) },
      'worktree not watched, but read from time to time',
    );
    this.#init.onFailure(error);
  }
}
