import { within } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../process/child.js';
import type { Children } from '../process/children.js';
import { GIT_ENVIRONMENT, GIT_FLAGS } from './git-settings.js';

export interface GitComponents {
  runtime: Runtime;
  children: Children;
}

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

/** A folder in which git looks for the repository, or the repository, and the folder in which git runs. */
type ProcessPlace =
  | { readonly folder: string }
  | { readonly gitDir: string; readonly workTree?: string | undefined; readonly cwd?: string | undefined };

const GIT_MS = 60_000;
const MAX_BYTES = 16 * 1_048_576;

/** Runs git once, with limits for its time and output. */
export class GitProcess {
  readonly #components: GitComponents;

  constructor(components: GitComponents) {
    this.#components = components;
  }

  /** Throws `GIT_REQUIRED` where there is no git. */
  async run(place: ProcessPlace, args: readonly string[], options: GitOptions): Promise<GitResult> {
    const { runtime } = this.#components;
    const { timeoutMs = GIT_MS, maxBytes = MAX_BYTES, input } = options;
    const child = await this.#open(place, args, options);
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

  async #open(place: ProcessPlace, args: readonly string[], { env }: GitOptions): Promise<Child> {
    const where =
      'folder' in place
        ? ['-C', place.folder]
        : [`--git-dir=${place.gitDir}`, ...(place.workTree === undefined ? [] : [`--work-tree=${place.workTree}`])];
    // Where the folder is named, git runs in it: pathspecs begin there.
    const cwd = 'cwd' in place ? place.cwd : undefined;
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
