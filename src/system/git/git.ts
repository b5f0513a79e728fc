import { within } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText, endOfText } from '../../runtime/text.js';
import type { Child } from '../process/child.js';
import type { Children } from '../process/children.js';
import { GIT_ENVIRONMENT, GIT_FLAGS } from './git-settings.js';
import { LIST_SETTINGS, LISTING_ENVIRONMENT, startsPrograms, withoutPrograms } from './repository-programs.js';

interface GitComponents {
  runtime: Runtime;
  children: Children;
}

/** A repository to run git in: found from a folder, or named, so that nothing in the folder decides which one it is. */
export type GitPlace =
  | { readonly folder: string }
  | { readonly gitDir: string; readonly workTree?: string | undefined };

export interface GitOptions {
  /** Default 60,000. */
  readonly timeoutMs?: number;
  /** Of the output. Default 16 MiB. */
  readonly maxBytes?: number;
  /** The text of its standard input. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface GitResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const GIT_MS = 60_000;
const MAX_BYTES = 16 * 1_048_576;
const MAX_QUOTED_CHARS = 500;

/** The user's git, without a shell, and without any program that the repository names. */
export class Git {
  readonly #components: GitComponents;

  constructor(components: GitComponents) {
    this.#components = components;
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
    const [command] = args;
    if (!startsPrograms(command)) return this.#result(place, args, options);
    const { input: _, ...reading } = options;
    const env = { ...options.env, ...LISTING_ENVIRONMENT };
    const listed = await this.#result(place, LIST_SETTINGS, { ...reading, env });
    // Without knowing its settings, git is not run in the repository.
    if (listed.code !== 0) return listed;
    const without = withoutPrograms(listed.stdout, command);
    return this.#result(place, args, { ...options, env: { ...options.env, ...without } });
  }

  async #result(place: GitPlace, args: readonly string[], options: GitOptions): Promise<GitResult> {
    const { runtime } = this.#components;
    const { timeoutMs = GIT_MS, maxBytes = MAX_BYTES, input } = options;
    const child = await this.#start(place, args, options);
    let failure: EclipticError | undefined;
    const end = (message: string) => {
      failure ??= new EclipticError('GIT_FAILED', message, { command: args[0] });
      void child.stop({ graceMs: 0 });
    };
    const timer = runtime.setTimer(() => end(`git ${args[0]} did not end within ${timeoutMs} ms`), timeoutMs);
    try {
      const output = collect(child, maxBytes, () => end(`git ${args[0]} printed more than ${maxBytes} bytes`));
      if (input !== undefined) child.write(input).catch(() => {});
      child.endInput();
      const exit = await child.exited;
      const stdout = await output;
      if (failure) throw failure;
      const code = exit.kind === 'code' ? exit.code : -1;
      return { code, stdout, stderr: child.stderr.join('\n') };
    } finally {
      timer.cancel();
      // A process that git left behind must not work on in the repository.
      await within(runtime, child.stop({ graceMs: 0 }), timeoutMs, () => {});
    }
  }

  async #start(place: GitPlace, args: readonly string[], { env }: GitOptions): Promise<Child> {
    const where =
      'folder' in place
        ? ['-C', place.folder]
        : [`--git-dir=${place.gitDir}`, ...(place.workTree === undefined ? [] : [`--work-tree=${place.workTree}`])];
    // Where the folder is named, git runs in it: pathspecs begin at its top.
    const cwd = 'folder' in place ? undefined : place.workTree;
    const program = {
      command: 'git',
      args: [...where, ...GIT_FLAGS, ...args],
      name: 'git',
      env: { ...GIT_ENVIRONMENT, ...env },
    };
    try {
      return await this.#components.children.start(cwd === undefined ? program : { ...program, cwd });
    } catch (error) {
      if (!(error instanceof EclipticError) || error.code !== 'PROCESS_START_FAILED') throw error;
      const message = `git cannot be started: ${error.message}. Install git, or put it on the PATH of the node.`;
      throw new EclipticError('GIT_REQUIRED', message, error.details, error);
    }
  }
}

function collect(child: Child, maxBytes: number, tooLong: () => void): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  return new Promise((resolve) => {
    const done = () => resolve(Buffer.concat(chunks).toString());
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) chunks.push(chunk);
      else tooLong();
    });
    child.stdout.once('error', done);
    child.stdout.once('close', done);
    child.stdout.once('end', done);
  });
}
