import { lstatSync, readFileSync, realpathSync } from 'node:fs';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import type { GitOptions, GitProcess, GitResult } from './git-process.js';
import { LIST_SETTINGS, LISTING_ENVIRONMENT } from './repository-settings.js';

/** A repository to run git in: found from a folder, or named, so that nothing in the folder decides which one it is. */
export type GitPlace =
  | { readonly folder: string }
  | { readonly gitDir: string; readonly workTree?: string | undefined };

/** A folder of a repository. */
export interface Checkout {
  /** The data of this checkout. */
  readonly ownDir: string;
  /** The repository's own folder of data, which all of its worktrees share. */
  readonly gitDir: string;
  /** The top of the folder's worktree; a bare repository has none. */
  readonly root: string | undefined;
  /** The folder within its worktree; empty at its top. */
  readonly prefix: string;
}

/** A repository by its folders, so that nothing that changes meanwhile leads git to another one, and its settings. */
export interface KnownRepository {
  readonly gitDir: string;
  readonly commonDir: string;
  readonly workTree?: string | undefined;
  readonly cwd?: string | undefined;
  /** The output of `LIST_SETTINGS`. */
  readonly listing: string;
}

type Located = Omit<KnownRepository, 'listing'>;

interface Remembered {
  readonly repository: KnownRepository;
  readonly at: number;
  /** What the files of its settings looked like. */
  readonly mark: string;
}

/** Changes of files that other settings include count after this time. */
const KNOWN_MS = 30_000;
const MAX_KNOWN = 256;
/** The code with which git itself ends. */
const FATAL = 128;

/** Finds repositories and reads their settings, which starts nothing, whatever they say. Several commands in a row use what was read. */
export class KnownRepositories {
  readonly #process: GitProcess;
  readonly #now: () => number;
  readonly #known = new Map<string, Remembered>();

  constructor(process: GitProcess, now: () => number) {
    this.#process = process;
    this.#now = now;
  }

  /** The repository and its settings, or what git says where there is none. */
  async read(place: GitPlace, { input: _, ...options }: GitOptions): Promise<KnownRepository | GitResult> {
    const key = JSON.stringify([place, options.env]);
    const known = this.#known.get(key);
    if (known && this.#now() - known.at < KNOWN_MS && known.mark === markOf(known.repository, options.env)) {
      return known.repository;
    }
    this.#known.delete(key);
    const at = this.#now();
    const env = { ...options.env, ...LISTING_ENVIRONMENT };
    const [found, listed] = await Promise.all([
      this.#find(place, options),
      this.#process.run(place, LIST_SETTINGS, { ...options, env }),
    ]);
    if ('code' in found) return found;
    // Without knowing its settings, git is not run in the repository.
    if (listed.code !== 0) return listed;
    const repository = { ...found, listing: listed.stdout };
    if (this.#known.size >= MAX_KNOWN) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(key, { repository, at, mark: markOf(repository, options.env) });
    return repository;
  }

  async locate(folder: string, options: GitOptions): Promise<Checkout | GitResult> {
    const ask = (...args: string[]) =>
      this.#process.run({ folder }, ['rev-parse', '--path-format=absolute', ...args], options);
    // One question, unless a path with a newline makes the answer ambiguous, or there is no worktree.
    const all = await ask('--git-dir', '--git-common-dir', '--show-toplevel', '--show-prefix');
    const [ownDir, gitDir, root, within, ...rest] = all.stdout.split('\n');
    if (all.code === 0 && rest.length === 1) {
      return { ownDir: ownDir!, gitDir: gitDir!, root, prefix: noSlash(within!) };
    }
    const own = await ask('--git-dir');
    if (own.code !== 0) return own;
    const common = line((await ask('--git-common-dir')).stdout);
    const top = await ask('--show-toplevel');
    if (top.code !== 0) return { ownDir: line(own.stdout), gitDir: common, root: undefined, prefix: '' };
    const prefix = noSlash(line((await ask('--show-prefix')).stdout));
    return { ownDir: line(own.stdout), gitDir: common, root: line(top.stdout), prefix };
  }

  async #find(place: GitPlace, options: GitOptions): Promise<Located | GitResult> {
    if ('gitDir' in place) return { ...place, commonDir: commonDirOf(place.gitDir), cwd: place.workTree };
    const { folder } = place;
    const found = await this.locate(folder, options);
    if ('code' in found) return found;
    const { ownDir, gitDir, root } = found;
    if (root !== undefined && isOutside(root, folder)) {
      const stderr = `fatal: core.worktree of the repository leads away from ${folder}`;
      return { code: FATAL, stdout: '', stderr };
    }
    return { gitDir: ownDir, commonDir: gitDir, workTree: root, cwd: folder };
  }
}

/** Without the newline at its end: a path may contain others. */
export function line(output: string): string {
  return output.replace(/\r?\n$/, '');
}

/** The user's own settings, where git looks for them. */
function ownFiles(env: Readonly<Record<string, string>>): string[] {
  const { HOME = '' } = { ...process.env, ...env };
  return [join(HOME, '.gitconfig'), join(HOME, '.config', 'git', 'config'), '/etc/gitconfig'];
}

function markOf({ gitDir, commonDir, workTree }: Located, env: Readonly<Record<string, string>> = {}): string {
  const files = [join(commonDir, 'config'), join(gitDir, 'config.worktree'), ...ownFiles(env)];
  if (workTree !== undefined) files.push(join(workTree, '.git'));
  return files.map(signature).join();
}

function signature(path: string): string {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (!found) return '';
  // A folder changes with everything that git does.
  return found.isDirectory() ? `${found.ino}` : `${found.ino} ${found.size} ${found.mtimeNs}`;
}

/** A linked worktree names the folder that it shares with the others. */
function commonDirOf(gitDir: string): string {
  try {
    return resolve(gitDir, line(readFileSync(join(gitDir, 'commondir'), 'utf8')));
  } catch {
    return gitDir;
  }
}

/** The settings of a repository can name a worktree anywhere. */
function isOutside(root: string, folder: string): boolean {
  const within = relative(root, realpathSync(folder));
  return within === '..' || within.startsWith(`..${sep}`) || isAbsolute(within);
}

function noSlash(path: string): string {
  return path.replace(/\/$/, '');
}
