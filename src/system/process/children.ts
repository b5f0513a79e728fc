import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { Child, type StopOptions } from './child.js';
import { ChildRecords } from './child-records.js';
import { childEnvironment } from './environment.js';
import { Guard } from './guard.js';
import { inheritedDescriptors, withoutInherited } from './inherited.js';
import { type Jailed, type JailKeeper, NO_JAILS } from './jail-keeper.js';
import type { JailSettings, JailState } from './jail-settings.js';
import { LeftSearch } from './left-search.js';
import { processStart, withMark } from './process-table.js';
import type { Program } from './program.js';
import { childRecord, namesIn, sweep } from './sweep.js';

export type { Program } from './program.js';

export interface ChildrenInit {
  /**
   * Holds a record of each running child, so that the next node can end those that this one could not. Used by one process
   * at a time. Default: a temporary folder, without a next node.
   */
  folder?: string;
  /** Puts programs into jails. Default: there are none. */
  jails?: JailKeeper;
}

type Starting = Omit<Jailed, 'state'> & { readonly state: JailState | undefined };

/**
 * The child processes of one node. They end with the node, however it ends: each has a record and a mark, by which a guard
 * process, or else the next node on the same folder, finds the ones that are left.
 */
export class Children {
  readonly #runtime: Runtime;
  readonly #init: ChildrenInit;
  /** Unique among nodes. */
  readonly #session: string;
  readonly #running = new Set<Child>();
  readonly #search: LeftSearch;
  readonly #jails: JailKeeper;
  #parent: string | undefined;
  #records: ChildRecords | undefined;
  #guard: Guard | undefined;
  #count = 0;
  #closing: Promise<void> | undefined;

  private constructor(runtime: Runtime, init: ChildrenInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#session = runtime.id();
    this.#search = new LeftSearch(runtime);
    this.#jails = init.jails ?? NO_JAILS;
  }

  /** Ends processes that an earlier node on that folder left behind. */
  static async open(runtime: Runtime, init: ChildrenInit = {}): Promise<Children> {
    if (init.folder !== undefined) {
      for (const session of namesIn(init.folder)) await sweep(runtime, join(init.folder, session));
    }
    return new Children(runtime, init);
  }

  get size(): number {
    return this.#running.size;
  }

  /** Starts a program; rejects with `PROCESS_START_FAILED` when that cannot be done. */
  async start(program: Program): Promise<Child> {
    if (this.#closing) throw new EclipticError('NODE_STOPPED', 'no more programs are started');
    if (!program.jail) return this.#start({ program, state: undefined, release() {} });
    const jailed = await this.#jails.enter(program, program.jail);
    try {
      if (this.#closing) throw new EclipticError('NODE_STOPPED', 'no more programs are started');
      return await this.#start(jailed);
    } catch (error) {
      jailed.release();
      throw error;
    }
  }

  /** The jail that a program with these settings would be in. Rejects with `JAIL_UNAVAILABLE` where it must have one. */
  jailFor(settings: JailSettings): Promise<JailState> {
    return this.#jails.check(settings);
  }

  async #start({ program, state, release }: Starting): Promise<Child> {
    const records = this.#prepare();
    const mark = `${this.#session}.${++this.#count}`;
    const process = launch(program, mark);
    if (process.pid === undefined) throw await failureOf(program, process);
    const { pid } = process;
    const started = processStart(pid);
    this.#attempt('written', () => records.write(pid, childRecord(pid, started)));
    const child = new Child(this.#runtime, {
      name: program.name ?? program.command,
      process,
      left: (group) => this.#search.find({ group, mark, since: Number(started ?? 0) }),
      redact: program.redact,
      onStderr: program.onStderr,
      jail: state,
      isJail: program.isJail ?? false,
      onGone: () => {
        release();
        this.#running.delete(child);
        this.#attempt('removed', () => records.remove(pid));
      },
    });
    this.#running.add(child);
    return child;
  }

  /** Ends all children and refuses new ones. */
  close(options: StopOptions = {}): Promise<void> {
    const stopping = [...this.#running].map((child) => child.stop(options));
    this.#closing ??= Promise.all(stopping).then(() => this.#tidy());
    return this.#closing;
  }

  async #tidy(): Promise<void> {
    if (this.#parent === undefined) return;
    await this.#guard?.dismiss();
    rmSync(join(this.#parent, this.#session), { recursive: true, force: true });
    try {
      rmdirSync(this.#parent);
    } catch {
      // Something else is in it.
    }
  }

  /** Creates the folder of records and the guard with the first child. */
  #prepare(): ChildRecords {
    if (this.#records === undefined) {
      const parent = resolve(this.#init.folder ?? mkdtempSync(join(tmpdir(), 'ecliptic-children-')));
      const folder = join(parent, this.#session);
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 });
      } catch (error) {
        throw new EclipticError(
          'DATA_FOLDER',
          `cannot use ${folder}: ${describeError(error)}`,
          { path: folder },
          error,
        );
      }
      this.#parent = parent;
      this.#records = new ChildRecords(folder);
      // Windows has no shell to run the guard.
      if (process.platform !== 'win32') this.#guard = new Guard(this.#runtime, folder);
    }
    return this.#records;
  }

  /** A failure to keep the record is only logged: where /proc exists, the mark is enough. */
  #attempt(what: string, work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#runtime.logger.warn({ error: describeError(error) }, `child process record could not be ${what}`);
    }
  }
}

/** A process without a pid did not start; its `error` event says why. */
function launch(program: Program, mark: string): ChildProcessWithoutNullStreams {
  const { command, args = [], cwd, env, verbatim = false, isJail } = program;
  // A descriptor of the node's own parent could be a way out of the jail.
  const { stdio, done } = withoutInherited(isJail ? inheritedDescriptors() : []);
  try {
    return spawn(command, args, {
      cwd,
      env: withMark(childEnvironment(process.env, env), mark),
      // An own group and session: it can be ended as a whole, and signals of a terminal do not reach it.
      detached: true,
      windowsHide: true,
      windowsVerbatimArguments: verbatim,
      stdio,
    }) as ChildProcessWithoutNullStreams;
  } catch (error) {
    throw startFailed(program, error);
  } finally {
    done();
  }
}

function failureOf(program: Program, process: ChildProcess): Promise<EclipticError> {
  return new Promise((resolve) => process.once('error', (error) => resolve(startFailed(program, error))));
}

function startFailed(program: Program, error: unknown): EclipticError {
  const { command, cwd } = program;
  const details = { command, ...(cwd !== undefined && { cwd }), reason: (error as NodeJS.ErrnoException).code };
  return new EclipticError(
    'PROCESS_START_FAILED',
    `cannot start ${command}: ${reason(program, error)}`,
    details,
    error,
  );
}

function reason({ cwd }: Program, error: unknown): string {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
      // The system does not say whether the folder or the program is missing.
      return cwd !== undefined && !existsSync(cwd) ? `there is no folder ${cwd}` : 'there is no such program';
    case 'EACCES':
      return 'it may not be executed';
    default:
      return describeError(error);
  }
}
