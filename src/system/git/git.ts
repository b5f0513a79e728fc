import { EclipticError } from '../../runtime/errors.js';
import { cutText, endOfText } from '../../runtime/text.js';
import { type GitComponents, type GitOptions, GitProcess, type GitResult } from './git-process.js';
import { type Checkout, type GitPlace, KnownRepositories } from './known-repositories.js';
import { PinnedRepositories } from './pinned-repository.js';
import { harmlessSettings } from './repository-settings.js';

const MAX_QUOTED_CHARS = 500;

/**
 * The user's git, without a shell, and without any program that the repository names. A command reads the settings of its
 * repository in a copy that holds only harmless ones, so it does not matter who writes to the repository meanwhile.
 */
export class Git {
  readonly #process: GitProcess;
  readonly #known: KnownRepositories;
  readonly #pinned: PinnedRepositories;

  /** The folder is for files of its own, which it loses; no jailed program may reach it. */
  constructor(components: GitComponents, { folder }: { folder: string }) {
    const { runtime } = components;
    this.#process = new GitProcess(components);
    this.#known = new KnownRepositories(this.#process, () => runtime.stopwatch());
    this.#pinned = new PinnedRepositories(runtime, folder);
  }

  /** The output of a command; throws `GIT_FAILED` with what git said where it fails. */
  async run(place: GitPlace, args: readonly string[], options: GitOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.result(place, args, options);
    if (code === 0) return stdout;
    const said = cutText(stderr.trim() || endOfText(stdout.trim(), MAX_QUOTED_CHARS), MAX_QUOTED_CHARS);
    const locked = /\.lock': File exists/.test(stderr);
    const unfiltered = /(clean|smudge) filter '.*' failed/s.test(stderr);
    const advice = locked
      ? ' Another git runs in the repository, or left its lock behind: see the file it names.'
      : unfiltered
        ? ' A node runs no filter from the settings of a repository; define it in your own: git config --global.'
        : '';
    const message = `git ${args[0]} failed: ${said || `it ended with code ${code}`}${advice}`;
    throw new EclipticError('GIT_FAILED', message, { command: args[0], code });
  }

  /** Of a command whose failure is an answer. Throws `GIT_REQUIRED` where there is no git. */
  async result(place: GitPlace, args: readonly string[], options: GitOptions = {}): Promise<GitResult> {
    const found = await this.#known.read(place, options);
    if ('code' in found) return found;
    const { commonDir, workTree, listing } = found;
    const { text, env, bare } = harmlessSettings(listing, args[0]);
    const pinned = this.#pinned.pin(commonDir, text);
    const settings = {
      ...env,
      // Git does not ask the pinned settings whether the repository has a worktree.
      ...(bare && workTree === undefined && { GIT_IMPLICIT_WORK_TREE: '0' }),
      GIT_COMMON_DIR: pinned.folder,
    };
    try {
      const result = await this.#process.run(found, args, { ...options, env: { ...options.env, ...settings } });
      return { ...result, stderr: result.stderr.replaceAll(pinned.folder, commonDir) };
    } finally {
      pinned.release();
    }
  }

  /** The repository of a folder, or what git says where there is none. */
  locate(folder: string): Promise<Checkout | GitResult> {
    return this.#known.locate(folder, {});
  }
}
