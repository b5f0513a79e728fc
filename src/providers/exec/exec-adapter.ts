import { logCallback } from '../../runtime/callbacks.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Program } from '../../system/process/children.js';
import { type JailRequest, type JailSettings, jailText } from '../../system/process/jail-settings.js';
import {
  DEFAULT_WORKSPACE,
  parted,
  resolveSettings,
  type SecretSettings,
} from '../../system/secrets/credential-source.js';
import { Redactor } from '../../system/secrets/secret.js';
import {
  type ExecuteTerms,
  guardedTerms,
  type ProviderAdapter,
  type ProviderHealthStatus,
} from '../adapter/adapter.js';
import { type NormalizedProviderError, normalizeAbort, normalizeError, redactedError } from '../adapter/errors.js';
import type { WorkerTask } from '../adapter/worker-task.js';
import type { HostStatus } from '../host/isolated-provider-host.js';
import { NO_CREDENTIALS, type ProcessComponents } from '../host/process-adapter.js';
import { HOST_LIMITS } from '../host/watched-process.js';
import { JailTrial } from './jail-trial.js';
import { ProgramRun } from './program-run.js';
import { ProgressLines } from './progress-lines.js';
import { execFault, shellProgram } from './shell.js';
import { standardInput, type TaskFormat, taskVariables } from './task-input.js';

/** A program that is started once for each piece of work. */
export interface ExecConfig {
  /** The program, or with `shell` a command line. */
  readonly command: string;
  /** None with `shell`. */
  readonly args?: readonly string[] | undefined;
  /** Lets `/bin/sh` (`cmd.exe` on Windows) run `command` as a command line. Default false. */
  readonly shell?: boolean | undefined;
  /** Default: the folder of the lane. */
  readonly cwd?: string | undefined;
  /** Added to the few environment variables that every child process gets. */
  readonly env?: SecretSettings | undefined;
  /** Values to remove from progress, logs and errors. */
  readonly secrets?: readonly string[] | undefined;
  /** Longest duration of one piece of work. Default 600,000. */
  readonly timeoutMs?: number | undefined;
  /** The task as text with its context behind it, or as one JSON document. Default `text`. */
  readonly stdin?: TaskFormat | undefined;
  /** A jail of the operating system for the program. Default: none. */
  readonly jail?: JailSettings | undefined;
  readonly limits?: { readonly memoryMb?: number | undefined } | undefined;
}

const TIMEOUT_MS = 600_000;
/** Timers cannot wait longer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** For work in a folder of its own. */
function withTerms(config: ExecConfig, { folder = config.cwd, opened }: ExecuteTerms): ExecConfig {
  const { jail } = config;
  if (!jail || !opened) return { ...config, cwd: folder };
  const [read, write] = [
    [...(jail.read ?? []), ...opened.read],
    [...(jail.write ?? []), ...opened.write],
  ];
  return { ...config, cwd: folder, jail: { ...jail, read, write } };
}

/**
 * A provider that is any program: the task is on its standard input and in `ECLIPTIC_TASK_…` variables, its standard output
 * is the result, its standard error is progress, and its exit code is the verdict.
 */
export class ExecAdapter implements ProviderAdapter<ExecConfig, WorkerTask, unknown> {
  readonly type = 'exec';
  readonly #id: string;
  readonly #components: ProcessComponents;
  readonly #workspaceId: string;
  /** Until no process of them is left. */
  readonly #runs = new Set<ProgramRun>();
  readonly #trial: JailTrial;
  #redactor = new Redactor();
  #config: ExecConfig | undefined;
  #leaveLane: (() => void) | undefined;
  #crashes = 0;
  #jail: string | null = null;
  /** Incremented by each start and end, so that a start that was overtaken does not take effect. */
  #generation = 0;

  constructor(id: string, components: ProcessComponents, workspaceId = DEFAULT_WORKSPACE) {
    this.#id = id;
    this.#components = components;
    this.#trial = new JailTrial(components);
    this.#workspaceId = workspaceId;
  }

  async init(config: ExecConfig): Promise<void> {
    await this.terminate();
    const generation = ++this.#generation;
    this.#redactor = new Redactor(config.secrets);
    try {
      await this.#check(config);
      if (generation !== this.#generation) {
        throw new EclipticError('PROVIDER_TERMINATED', `${this.#id} was ended while it started`);
      }
      this.#leaveLane = this.#components.lane.bind(new Membership(this));
      this.#config = config;
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Starts no program: only the work itself can tell more than whether the program is there. */
  async health(): Promise<ProviderHealthStatus> {
    const lastCheck = () => new Date(this.#components.runtime.now());
    try {
      await this.#check(this.#require());
      return { state: 'healthy', lastCheck: lastCheck(), failureCount: 0 };
    } catch (error) {
      const failure = this.#failed(error);
      if (failure.code === 'PROVIDER_UNAVAILABLE') throw failure;
      const { message } = failure;
      return { state: 'unavailable', lastCheck: lastCheck(), failureCount: 1, message, needsOwner: true };
    }
  }

  async execute(task: WorkerTask, correlationId: string, terms: ExecuteTerms = {}): Promise<unknown> {
    const { signal } = terms;
    const cancel = () => run?.end(normalizeAbort(signal!, 'exec', correlationId));
    let run: ProgramRun | undefined;
    try {
      const config = this.#require();
      if (signal?.aborted) throw normalizeAbort(signal, 'exec', correlationId);
      run = this.#start(config, task, correlationId, terms);
      signal?.addEventListener('abort', cancel);
      return await run.result;
    } catch (error) {
      const failure = this.#failed(error, correlationId);
      if (failure.code === 'PROVIDER_CRASHED') this.#crashes++;
      throw failure;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  async terminate(): Promise<void> {
    this.#generation++;
    this.#config = undefined;
    const leaveLane = this.#leaveLane;
    this.#leaveLane = undefined;
    const message = `${this.#id} was ended`;
    for (const run of this.#runs) run.end(new EclipticError('PROVIDER_TERMINATED', message, { provider: this.#id }));
    await Promise.all([...this.#runs].map(({ gone }) => gone));
    leaveLane?.();
  }

  describe(): Readonly<Record<string, unknown>> {
    return this.#config ? { ...this.status, folder: this.#folderOf(this.#config) } : {};
  }

  /** @internal For the lane. Of several programs, the process of the first. */
  get status(): HostStatus {
    const { memory, lane } = this.#components;
    const active = [...this.#runs].filter(({ over }) => !over);
    const pids = active.flatMap(({ pid }) => pid ?? []);
    const bytes = pids.flatMap((pid) => memory.bytesOf(pid) ?? []);
    return {
      provider: this.#id,
      lane: lane.id,
      state: this.#config ? 'running' : 'idle',
      pid: pids[0] ?? null,
      memoryBytes: bytes.length === 0 ? null : bytes.reduce((sum, one) => sum + one, 0),
      inFlight: active.length,
      crashes: this.#crashes,
      reason: null,
      jail: this.#jail,
    };
  }

  #start(config: ExecConfig, task: WorkerTask, correlationId: string, terms: ExecuteTerms): ProgramRun {
    checkTask(task);
    const { runtime } = this.#components;
    const { timeoutMs = TIMEOUT_MS, stdin = 'text', limits } = config;
    const { clean } = this.#redactor;
    const { onUpdate } = guardedTerms(terms, this.#id, logCallback(runtime.logger));
    const progress = new ProgressLines(runtime, clean, onUpdate);
    const run = new ProgramRun(this.#components, {
      provider: this.#id,
      program: () => this.#program(withTerms(config, terms), taskVariables(task, correlationId), progress),
      input: standardInput(task, stdin),
      timeoutMs: Math.min(timeoutMs, MAX_TIMEOUT_MS),
      memoryMb: limits?.memoryMb ?? HOST_LIMITS.memoryMb,
      progress,
      clean,
    });
    this.#runs.add(run);
    void run.gone.then(() => this.#runs.delete(run));
    return run;
  }

  async #program(config: ExecConfig, task: Record<string, string>, { take }: ProgressLines): Promise<Program> {
    const { command, args = [], shell = false, jail } = config;
    const folder = this.#folderOf(config);
    const settings = await this.#settings(config);
    return {
      ...(shell ? shellProgram(command) : { command, args }),
      name: this.#id,
      cwd: folder,
      env: { ...settings, ...task, ECLIPTIC_LANE_FOLDER: this.#components.lane.folder },
      redact: this.#redactor.clean,
      onStderr: take,
      jail: jail && this.#jailOf(jail, folder),
    };
  }

  /** Throws where the program cannot be run. */
  async #check(config: ExecConfig): Promise<void> {
    const { command, args = [], shell, env = {}, jail } = config;
    this.#jail = null;
    const state = jail && (await this.#components.children.jailFor(jail));
    const fault =
      shell && args.length > 0
        ? 'the arguments of a command line belong into the command line'
        : execFault({ command, shell, cwd: this.#folderOf(config), env: parted(env).plain }, process.env);
    if (fault !== undefined) {
      const message = `${this.#id} cannot be run: ${fault}`;
      throw new EclipticError('PROVIDER_INIT_FAILED', message, { provider: this.#id });
    }
    await this.#settings(config);
    if (!jail || !state) return;
    if (state.kind !== 'none') await this.#trial.check(this.#jailOf(jail, this.#folderOf(config)));
    this.#jail = jailText(state);
  }

  #jailOf(jail: JailSettings, workspace: string): JailRequest {
    return { ...jail, name: this.#id, workspace, own: this.#components.lane.folder };
  }

  #settings({ env = {} }: ExecConfig): Promise<Record<string, string>> {
    const { credentials: source = NO_CREDENTIALS } = this.#components;
    return resolveSettings({ source, provider: this.#id, workspace: this.#workspaceId, redactor: this.#redactor }, env);
  }

  #folderOf({ cwd }: ExecConfig): string {
    return cwd ?? this.#components.lane.folder;
  }

  #failed(error: unknown, correlationId?: string): NormalizedProviderError {
    return redactedError(normalizeError(error, 'exec', correlationId), this.#redactor);
  }

  #require(): ExecConfig {
    if (this.#config) return this.#config;
    throw new EclipticError('PROVIDER_UNAVAILABLE', `${this.#id} has not been started`, { provider: this.#id });
  }
}

/** The adapter as a member of its lane. */
class Membership {
  readonly #adapter: ExecAdapter;

  constructor(adapter: ExecAdapter) {
    this.#adapter = adapter;
  }

  get status(): HostStatus {
    return this.#adapter.status;
  }

  stop(): Promise<void> {
    return this.#adapter.terminate();
  }
}

function checkTask(task: Partial<WorkerTask> | undefined): void {
  if (typeof task?.text === 'string' && typeof task.context === 'object' && task.context !== null) return;
  throw new EclipticError('PROVIDER_INVALID_INPUT', 'a task must have a text and a context');
}
