import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { EclipticError } from '../../runtime/errors.js';
import type { Git } from './git.js';
import { type Checkout, type GitPlace, line } from './known-repositories.js';

export interface Base {
  /** Undefined where it is no branch, such as a detached HEAD. */
  readonly branch: string | undefined;
  readonly commit: string;
}

/** A worktree, named so that nothing in its folder can lead git to another repository. */
export interface LinkedWorktree {
  readonly gitDir: string;
  readonly workTree: string;
}

export interface FileChange {
  readonly path: string;
  readonly insertions: number;
  readonly deletions: number;
  readonly binary?: boolean;
}

/** From the base to the last commit of a branch. */
export interface BranchChanges {
  readonly commit: string;
  readonly commits: readonly { readonly commit: string; readonly author: string; readonly subject: string }[];
  readonly commitCount: number;
  readonly files: readonly FileChange[];
}

export interface Identity {
  readonly name: string;
  readonly email: string;
}

const HEADS = 'refs/heads/';
const CHECKOUT_MS = 300_000;
const MAX_COMMITS = 100;
const MAX_TEXT = 1_000;
const SUBMODULE = '160000';

/** The questions and commands of git that worktrees of tasks need. */
export class WorktreeGit {
  readonly #git: Git;

  constructor(git: Git) {
    this.#git = git;
  }

  async locate(folder: string): Promise<Checkout> {
    const found = await this.#git.locate(folder);
    if (!('code' in found)) return found;
    const said = found.stderr.split('\n')[0] ?? '';
    const message = `${folder} cannot be used for worktrees: ${said}. Set "cwd" to a folder of a git repository (git init), or remove "worktree".`;
    throw new EclipticError('GIT_FAILED', message, { folder });
  }

  /** The commit that a task begins with: a named branch, tag or commit, or HEAD. */
  async base(folder: string, name = 'HEAD'): Promise<Base> {
    const place = { folder };
    const commit = await this.#commitOf(place, name);
    if (commit === undefined) {
      const message =
        name === 'HEAD'
          ? `the repository of ${folder} has no commits; make a first one: git commit --allow-empty -m start`
          : `the repository of ${folder} has no branch or commit "${name}"`;
      throw new EclipticError('GIT_FAILED', message, { folder, base: name });
    }
    const { stdout } =
      name === 'HEAD'
        ? await this.#git.result(place, ['symbolic-ref', '--quiet', 'HEAD'])
        : await this.#git.result(place, [
            'rev-parse',
            '--verify',
            '--symbolic-full-name',
            '--quiet',
            '--end-of-options',
            name,
          ]);
    const ref = line(stdout);
    return { commit, branch: ref.startsWith(HEADS) ? ref.slice(HEADS.length) : undefined };
  }

  /** Tracked files of a folder's worktree with changes that are not committed. */
  async changedFiles(place: GitPlace, untracked = false): Promise<number> {
    const args = [
      ...['status', '--porcelain', '-z', '--no-renames', '--ignore-submodules=all'],
      `--untracked-files=${untracked ? 'normal' : 'no'}`,
    ];
    return items(await this.#git.run(place, args, { env: { GIT_OPTIONAL_LOCKS: '0' } })).length;
  }

  async branchExists(gitDir: string, branch: string): Promise<boolean> {
    return (await this.tip(gitDir, branch)) !== undefined;
  }

  tip(gitDir: string, branch: string): Promise<string | undefined> {
    return this.#commitOf({ gitDir }, `${HEADS}${branch}`);
  }

  /** Makes a worktree with a new branch, or with `commit` undefined one with a branch that exists. */
  async add(repository: string, folder: string, branch: string, commit?: string): Promise<LinkedWorktree> {
    const what = commit === undefined ? ['--', folder, branch] : ['--no-track', '-b', branch, '--', folder, commit];
    mkdirSync(join(repository, 'worktrees'), { recursive: true });
    await this.#git.run({ gitDir: repository }, ['worktree', 'add', '--quiet', ...what], { timeoutMs: CHECKOUT_MS });
    // Git named the folder that it was given for the repository's. No agent has been in it yet.
    const link = join(folder, '.git');
    const gitDir = join(repository, 'worktrees', basename(line(readFileSync(link, 'utf8'))));
    writeFileSync(link, `gitdir: ${gitDir}\n`);
    return { gitDir, workTree: folder };
  }

  /** Why the branch cannot be committed to as it is; undefined where it can. */
  async fault(worktree: LinkedWorktree, branch: string): Promise<string | undefined> {
    const head = line((await this.#git.result(worktree, ['symbolic-ref', '--quiet', 'HEAD'])).stdout);
    if (head !== `${HEADS}${branch}`) {
      const where = head === '' ? 'a detached HEAD' : head.replace(HEADS, '');
      return `its worktree is no longer on the branch ${branch}, but on ${where}`;
    }
    const unmerged = await this.#git.run(worktree, ['ls-files', '--unmerged', '-z']);
    return unmerged === '' ? undefined : 'its worktree has unresolved conflicts';
  }

  /** Commits everything that is not ignored; returns the repositories in the folder, which it leaves out. */
  async commitAll(worktree: LinkedWorktree, message: string, { name, email }: Identity): Promise<string[]> {
    const nested = await this.#nested(worktree);
    const paths = [':(top)', ...nested.map((path) => `:(top,exclude,literal)${path}`)];
    const add = ['add', '--all', '--pathspec-from-file=-', '--pathspec-file-nul'];
    await this.#git.run(worktree, add, { input: paths.join('\0'), timeoutMs: CHECKOUT_MS });
    const staged = await this.#git.result(worktree, ['diff', '--cached', '--quiet', '--no-ext-diff']);
    if (staged.code === 0) return nested;
    const env = {
      ...{ GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email },
      ...{ GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email },
    };
    await this.#git.run(worktree, ['commit', '--quiet', '--no-verify', '--file=-'], { input: message, env });
    return nested;
  }

  /** The changes of a branch since its base. */
  async changes(gitDir: string, base: string, branch: string): Promise<BranchChanges> {
    const place = { gitDir };
    const commit = await this.tip(gitDir, branch);
    if (commit === undefined) throw new EclipticError('GIT_FAILED', `the branch ${branch} is gone`, { branch });
    const range = `${base}..${commit}`;
    const [logged, counted, from] = await Promise.all([
      this.#git.run(place, ['log', '-z', `--max-count=${MAX_COMMITS}`, '--format=%H%x1f%an%x1f%s', range]),
      this.#git.run(place, ['rev-list', '--count', range]),
      this.#git.result(place, ['merge-base', base, commit]),
    ]);
    const start = line(from.stdout) || base;
    const diff = ['diff', '--numstat', '-z', '--no-renames', '--no-ext-diff', '--no-textconv', start, commit];
    const commits = items(logged).map((one) => {
      const [hash = '', author = '', subject = ''] = one.split('\x1f');
      return { commit: hash, author: author.slice(0, MAX_TEXT), subject: subject.slice(0, MAX_TEXT) };
    });
    return {
      commit,
      commits,
      commitCount: Number(counted),
      files: items(await this.#git.run(place, diff)).map(changeOf),
    };
  }

  /** The commits of a branch for `git am`. */
  patch(gitDir: string, base: string, commit: string, maxBytes: number): Promise<string> {
    const args = ['format-patch', '--stdout', '--binary', '--no-signature', '--no-ext-diff', `${base}..${commit}`];
    return this.#git.run({ gitDir }, args, { maxBytes });
  }

  /** A diff that people read, from the base to the commit. */
  diff(gitDir: string, base: string, commit: string, maxBytes: number): Promise<string> {
    const args = ['diff', '--no-ext-diff', '--no-textconv', '--merge-base', base, commit];
    return this.#git.run({ gitDir }, args, { maxBytes });
  }

  /** Is the commit in another branch, or in a branch of a remote? */
  async isElsewhere(gitDir: string, commit: string, except: string): Promise<boolean> {
    const args = ['for-each-ref', `--contains=${commit}`, '--format=%(refname)', 'refs/heads', 'refs/remotes'];
    const refs = (await this.#git.run({ gitDir }, args)).split('\n').filter((ref) => ref !== '');
    return refs.some((ref) => ref !== `${HEADS}${except}`);
  }

  /**
   * Merges a commit into a branch, all or nothing: the result is computed beside every worktree, and a worktree that has
   * the branch moves forward only where that overwrites nothing. Returns the commit that the branch has then.
   */
  async merge(gitDir: string, into: string, commit: string, message: string, who: Identity): Promise<string> {
    const place = { gitDir };
    const old = await this.tip(gitDir, into);
    if (old === undefined) throw new EclipticError('GIT_FAILED', `there is no branch ${into}`, { branch: into });
    if (await this.#isAncestor(place, commit, old)) return old;
    const next = (await this.#isAncestor(place, old, commit))
      ? commit
      : await this.#mergeCommit(place, [old, commit], into, message, who);
    const checkout = await this.#worktreeOf(gitDir, into);
    if (checkout === undefined) {
      await this.#git.run(place, ['update-ref', '-m', 'merge', `${HEADS}${into}`, next, old]);
      return next;
    }
    const forward = ['merge', '--no-autostash', '--ff-only', '--quiet', '--no-stat', next];
    const { code, stderr } = await this.#git.result({ folder: checkout }, forward, { timeoutMs: CHECKOUT_MS });
    if (code === 0) return next;
    const said = stderr.split('\n').slice(0, 10).join(' ').trim();
    const text = `${into} is checked out in ${checkout}, and git does not move it forward: ${said}`;
    throw new EclipticError('MERGE_CONFLICT', text, { branch: into, folder: checkout });
  }

  /** Removes a worktree and its branch, with everything in them. The folder is gone already. */
  async remove(repository: string, folder: string, branch: string): Promise<void> {
    const place = { gitDir: repository };
    // Fails where git has forgotten the worktree, and that is as good.
    await this.#git.result(place, ['worktree', 'remove', '--force', '--force', '--', folder]);
    if (await this.branchExists(repository, branch))
      await this.#git.run(place, ['branch', '-D', '--quiet', '--', branch]);
  }

  async #mergeCommit(
    place: GitPlace,
    [old, commit]: readonly [string, string],
    into: string,
    message: string,
    { name, email }: Identity,
  ): Promise<string> {
    const merged = await this.#git.result(place, ['merge-tree', '--write-tree', '--name-only', '-z', old, commit]);
    const [tree = '', ...rest] = merged.stdout.split('\0');
    if (merged.code === 1) {
      const end = rest.indexOf('');
      const files = rest.slice(0, end < 0 ? undefined : end);
      const named = files
        .slice(0, 10)
        .map((file) => JSON.stringify(file))
        .join(', ');
      const text = `the branch conflicts with ${into} in ${named}${files.length > 10 ? ` and ${files.length - 10} more` : ''}`;
      throw new EclipticError('MERGE_CONFLICT', text, { branch: into, files: files.slice(0, 100) });
    }
    if (merged.code !== 0) {
      const text = `git merge-tree failed: ${merged.stderr.split('\n')[0]}. A merge needs git 2.38 or later.`;
      throw new EclipticError('GIT_FAILED', text, { code: merged.code });
    }
    const env = {
      ...{ GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email },
      ...{ GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email },
    };
    const args = ['commit-tree', '-p', old, '-p', commit, '-F', '-', tree];
    return line(await this.#git.run(place, args, { input: message, env }));
  }

  /** The folder of the worktree that has the branch checked out. */
  async #worktreeOf(gitDir: string, branch: string): Promise<string | undefined> {
    const listed = await this.#git.run({ gitDir }, ['worktree', 'list', '--porcelain', '-z']);
    // The first one is that of the repository itself, which git takes from the folder that it was given.
    const [, ...rest] = listed.split('\0');
    let folder: string | undefined = basename(gitDir) === '.git' ? dirname(gitDir) : gitDir;
    for (const one of rest) {
      if (one.startsWith('worktree ')) folder = one.slice('worktree '.length);
      if (one === `branch ${HEADS}${branch}`) return folder;
      // A bare repository has a HEAD and no files.
      if (one === 'bare') folder = undefined;
    }
    return undefined;
  }

  /** Submodules, and repositories that were made in the folder: git would run in them, by their own settings. */
  async #nested(worktree: LinkedWorktree): Promise<string[]> {
    const known = items(await this.#git.run(worktree, ['ls-files', '--stage', '-z']))
      .filter((one) => one.startsWith(SUBMODULE))
      .map((one) => one.slice(one.indexOf('\t') + 1));
    const others = items(await this.#git.run(worktree, ['ls-files', '--others', '--exclude-standard', '-z']));
    return [...known, ...others.filter((path) => path.endsWith('/')).map((path) => path.slice(0, -1))];
  }

  async #isAncestor(place: GitPlace, older: string, newer: string): Promise<boolean> {
    return (await this.#git.result(place, ['merge-base', '--is-ancestor', older, newer])).code === 0;
  }

  async #commitOf(place: GitPlace, name: string): Promise<string | undefined> {
    const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`];
    const { code, stdout } = await this.#git.result(place, args);
    return code === 0 ? line(stdout) : undefined;
  }
}

function items(output: string): string[] {
  return output.split('\0').filter((one) => one !== '');
}

function changeOf(one: string): FileChange {
  const [insertions = '', deletions = '', ...path] = one.split('\t');
  const binary = insertions === '-';
  return {
    path: path.join('\t').slice(0, 4_096),
    insertions: binary ? 0 : Number(insertions),
    deletions: binary ? 0 : Number(deletions),
    ...(binary && { binary }),
  };
}
