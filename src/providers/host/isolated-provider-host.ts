import { within } from '../../runtime/async.js';
import { DeadlineQueue } from '../../runtime/deadlines.js';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import type { Children, Program } from '../../system/process/children.js';
import { jailText } from '../../system/process/jail-settings.js';
import type { MemoryWatch } from '../../system/process/memory-watch.js';
import type { RestartPolicy, SupervisedState } from '../../system/process/supervision.js';
import { Supervisor } from '../../system/process/supervisor.js';
import type { ProviderCrash } from '../adapter/adapter.js';
import { type Activity, PendingWork, type PendingWorkEvents, type WorkHandle, type WorkTerms } from './pending-work.js';
import {
  crashed,
  HOST_LIMITS,
  type HostLimits,
  type ProcessSession,
  WatchedProcess,
  watchMemory,
} from './watched-process.js';

export interface HostComponents {
  runtime: Runtime;
  children: Children;
  memory: MemoryWatch;
  /** Throws where a program may not be started any more. */
  permit?: (() => void) | undefined;
}

interface HostInit<Session extends ProcessSession> {
  readonly provider: string;
  readonly lane: string;
  /** Called for each start, so that each start uses the latest settings. */
  readonly program: () => Program | Promise<Program>;
  /** Opens the session; resolves when the program is ready for work. */
  readonly connect: (child: Child, signal: AbortSignal) => Promise<Session>;
  readonly limits?: Partial<HostLimits> | undefined;
  readonly restart?: Partial<RestartPolicy> | undefined;
  /** Is a restart pointless after this error? Default: after a protocol mismatch. */
  readonly isFinal?: (reason: EclipticError) => boolean;
  readonly onState?: (state: SupervisedState) => void;
  /** Called at each crash, and when the process is ready again. */
  readonly onCrash?: (crash: ProviderCrash) => void;
  readonly onReady?: () => void;
}

export interface HostStatus {
  readonly provider: string;
  readonly lane: string;
  readonly state: SupervisedState['kind'];
  readonly pid: number | null;
  readonly memoryBytes: number | null;
  readonly inFlight: number;
  readonly crashes: number;
  readonly reason: string | null;
  /** The jail of its process, or why there is none; null where none was asked for. */
  readonly jail: string | null;
}

/** `init` may take 5 s. */
const PATIENCE_MS = 4_500;

/**
 * One provider's process in one lane: supervised, watched, restarted with back-off after a crash, and ended with
 * everything that it started. A failure reaches the callers of this process only.
 */
export class IsolatedProviderHost<Session extends ProcessSession> {
  readonly provider: string;
  readonly lane: string;
  readonly limits: HostLimits;
  readonly #components: HostComponents;
  readonly #init: HostInit<Session>;
  readonly #supervisor: Supervisor<WatchedProcess<Session>>;
  readonly #deadlines: DeadlineQueue;
  readonly #pending = new Set<PendingWork<unknown>>();
  readonly #workEvents: PendingWorkEvents;
  readonly #idle: (() => void)[] = [];
  #crashes = 0;
  #jail: string | undefined;
  #settle: ((failure?: EclipticError) => void) | undefined;

  constructor(components: HostComponents, init: HostInit<Session>) {
    this.provider = init.provider;
    this.lane = init.lane;
    this.limits = { ...HOST_LIMITS, ...init.limits };
    this.#components = components;
    this.#init = init;
    this.#deadlines = new DeadlineQueue(components.runtime);
    this.#workEvents = {
      now: () => components.runtime.now(),
      rearm: (run, ms) => this.#deadlines.add(run, ms),
      onGivenUp: (stopped) => void this.#killUnlessStopped(stopped),
    };
    this.#supervisor = new Supervisor(components.runtime, {
      name: init.provider,
      start: (signal) => this.#launch(signal),
      onState: (state) => this.#changed(state),
      restart: { ...init.restart, startMs: this.limits.startMs },
      isFinal: init.isFinal ?? (({ code }) => code === 'PROVIDER_PROTOCOL_MISMATCH'),
    });
  }

  get status(): HostStatus {
    const { state, subject } = this.#supervisor;
    return {
      provider: this.provider,
      lane: this.lane,
      state: state.kind,
      pid: subject?.pid ?? null,
      memoryBytes: (subject && this.#components.memory.bytesOf(subject.pid)) ?? null,
      inFlight: this.#pending.size,
      crashes: this.#crashes,
      reason: 'reason' in state ? state.reason.message : null,
      jail: this.#jail ?? null,
    };
  }

  get state(): SupervisedState {
    return this.#supervisor.state;
  }

  get session(): Session {
    const { subject, state } = this.#supervisor;
    if (subject) return subject.session;
    const reason = 'reason' in state ? `: ${state.reason.message}` : '';
    const message = `${this.provider} does not run at present (${state.kind}${reason})`;
    throw new EclipticError('PROVIDER_UNAVAILABLE', message, { provider: this.provider, state: state.kind });
  }

  /**
   * Resolves when the program is ready; rejects, with nothing left behind, when it cannot be started. A program whose start
   * may take longer than `init` goes on in the background, and `onReady` or `onCrash` follows; a patient caller waits.
   */
  async start({ patient = false } = {}): Promise<void> {
    if (this.#supervisor.state.kind === 'running') return;
    const alone =
      this.limits.startMs > HOST_LIMITS.startMs && !patient
        ? this.#components.runtime.setTimer(() => this.#ready(), PATIENCE_MS)
        : undefined;
    const failure = await new Promise<EclipticError | undefined>((resolve) => {
      this.#settle = resolve;
      this.#supervisor.start();
    });
    alone?.cancel();
    if (!failure) return;
    await this.#supervisor.stop();
    throw failure;
  }

  /** Starts the process in the background, with as many attempts as the restart policy allows. */
  keep(): void {
    this.#supervisor.start();
  }

  /** Restarts the process without delay, also after the supervisor gave up. */
  restart(): void {
    this.#supervisor.restart();
  }

  /** Gives the program a piece of work, once: where the program fails, the work fails. */
  run<T>(begin: (session: Session, activity: Activity) => WorkHandle<T>, terms: WorkTerms): Promise<T> {
    const { signal, timeoutMs } = terms;
    if (signal?.aborted) return Promise.reject(signal.reason);
    let run: PendingWork<T>;
    try {
      const { session } = this;
      run = new PendingWork((activity) => begin(session, activity), terms, this.#workEvents);
    } catch (error) {
      return Promise.reject(error);
    }
    this.#pending.add(run as PendingWork<unknown>);
    this.#deadlines.add(run, timeoutMs);
    const abort = signal && (() => run.giveUp(signal.reason));
    if (abort) signal.addEventListener('abort', abort);
    const over = () => {
      this.#pending.delete(run as PendingWork<unknown>);
      this.#deadlines.remove(run);
      if (abort) signal.removeEventListener('abort', abort);
      if (this.#pending.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
    };
    run.settled.then(over, over);
    return run.settled;
  }

  async drained(): Promise<void> {
    while (this.#pending.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Ends the process and its work; resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#fail(new EclipticError('PROVIDER_TERMINATED', `${this.provider} was ended`, { provider: this.provider }));
    this.#ready(new EclipticError('PROVIDER_TERMINATED', `${this.provider} was ended while it started`));
    await this.#supervisor.stop();
    this.#deadlines.clear();
  }

  async #launch(signal: AbortSignal): Promise<WatchedProcess<Session>> {
    const { children, permit } = this.#components;
    const { program, connect } = this.#init;
    permit?.();
    const child = await children.start({ name: this.provider, ...(await program()) });
    this.#jail = child.jail && jailText(child.jail);
    let tooLarge: EclipticError | undefined;
    const stopWatching = watchMemory(this.provider, child, this.#components, this.limits, (reason) => {
      tooLarge = reason;
      void child.stop({ graceMs: 0 });
    });
    try {
      const session = await connect(child, signal);
      return new WatchedProcess(this.provider, child, session, this.#components, this.limits);
    } catch (error) {
      await child.stop({ graceMs: 0 });
      throw tooLarge ?? error;
    } finally {
      stopWatching();
    }
  }

  #changed(state: SupervisedState): void {
    this.#init.onState?.(state);
    if (state.kind === 'running') {
      if (this.#settle) this.#ready();
      else this.#init.onReady?.();
    }
    if (state.kind !== 'backing-off' && state.kind !== 'failed') return;
    this.#crashes++;
    if (this.#settle) {
      this.#ready(notReady(this.provider, state.reason));
      return;
    }
    const error = crashed(this.provider, state.reason);
    this.#fail(error);
    this.#init.onCrash?.({ error, looping: state.kind === 'failed' });
  }

  #ready(failure?: EclipticError): void {
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.(failure);
  }

  #fail(error: EclipticError): void {
    for (const run of this.#pending) run.fail(error);
    this.#pending.clear();
  }

  /** Kills a process that does not stop cancelled work in time. */
  async #killUnlessStopped(stopped: Promise<unknown>): Promise<void> {
    const { cancelMs } = this.limits;
    const running = this.#supervisor.subject;
    await within(this.#components.runtime, stopped, cancelMs, () => {
      const message = `${this.provider} did not stop its work within ${cancelMs} ms`;
      running?.kill(new EclipticError('PROVIDER_CRASHED', message, { reason: 'stuck', cancelMs }));
    });
  }
}

function notReady(provider: string, reason: EclipticError): EclipticError {
  const error = toEclipticError(reason, 'PROVIDER_INIT_FAILED');
  if (error.code.startsWith('PROVIDER_') && error.code !== 'PROVIDER_CRASHED') return error;
  const message = `${provider} could not be started: ${error.message}`;
  return new EclipticError('PROVIDER_INIT_FAILED', message, { ...error.details, cause: error.code }, error);
}
