import { Deferred } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import type { MemoryWatch } from '../../system/process/memory-watch.js';
import type { Running } from '../../system/process/supervisor.js';

/** A session with a program, in any protocol. */
export interface ProcessSession {
  /** Resolves when the program has shown that it lives. Absent where the protocol has no way to ask. */
  ping?(): Promise<unknown>;
  /** Resolves, with the reason, when the program breaks the protocol; the session is over then. */
  readonly broken: Promise<EclipticError>;
  /** Why the session is over, where that says more than the process's exit. */
  failure?(): EclipticError | undefined;
  /** Ends the session, and fails pending requests with this reason. */
  end?(reason: EclipticError): void;
}

interface WatchComponents {
  runtime: Runtime;
  memory: MemoryWatch;
}

const MB = 1_048_576;

/** A provider's running process, killed when it exceeds its memory, hangs or breaks its protocol. */
export class WatchedProcess<Session extends ProcessSession> implements Running {
  readonly session: Session;
  readonly exited: Promise<void>;
  readonly #provider: string;
  readonly #child: Child;
  readonly #components: WatchComponents;
  readonly #limits: HostLimits;
  readonly #stopWatching: () => void;
  #verdict: EclipticError | undefined;
  readonly #killed = new Deferred<void>();
  #heartbeat: Timer | undefined;
  #over = false;

  constructor(provider: string, child: Child, session: Session, components: WatchComponents, limits: HostLimits) {
    this.#provider = provider;
    this.#child = child;
    this.session = session;
    this.#components = components;
    this.#limits = limits;
    this.#stopWatching = watchMemory(provider, child, components, limits, (reason) => this.kill(reason));
    this.exited = Promise.race([child.exited.then(() => this.#end()), this.#killed.promise]);
    void session.broken.then((reason) => this.kill(reason));
    this.#beat();
  }

  get pid(): number {
    return this.#child.pid;
  }

  failure(): EclipticError {
    return this.#verdict ?? this.session.failure?.() ?? crashed(this.#provider, this.#child.failure());
  }

  kill(reason: EclipticError): void {
    if (this.#over) return;
    this.#verdict ??= reason;
    this.#end();
    this.session.end?.(reason);
    void this.#child.stop({ graceMs: 0 });
    // The process counts as exited from now on, however long its end takes.
    this.#killed.resolve();
  }

  async stop(): Promise<void> {
    this.#end();
    this.session.end?.(new EclipticError('PROVIDER_TERMINATED', `${this.#provider} is being stopped`));
    await this.#child.stop();
  }

  #end(): void {
    this.#over = true;
    this.#heartbeat?.cancel();
    this.#stopWatching();
  }

  #beat(): void {
    const { session } = this;
    if (!session.ping) return;
    const ping = session.ping.bind(session);
    this.#heartbeat = this.#components.runtime.setTimer(() => {
      const { silenceMs } = this.#limits;
      const message = `${this.#provider} gave no sign of life for ${silenceMs} ms`;
      this.#heartbeat = this.#components.runtime.setTimer(
        () => this.kill(new EclipticError('PROVIDER_TIMEOUT', message, { reason: 'silence', silenceMs })),
        silenceMs,
      );
      // A failed ping is reported as a broken session or an exit.
      ping().then(
        () => this.#heard(),
        () => {},
      );
    }, this.#limits.heartbeatMs);
  }

  #heard(): void {
    this.#heartbeat?.cancel();
    if (!this.#over) this.#beat();
  }
}

/** Calls back once when a process group exceeds its memory limit. Returns the function that stops watching. */
export function watchMemory(
  provider: string,
  { pid }: Child,
  { memory }: WatchComponents,
  { memoryMb }: HostLimits,
  onExceeded: (reason: EclipticError) => void,
): () => void {
  return memory.watch(pid, memoryMb * MB, (bytes) => {
    const message = `${provider} took ${Math.round(bytes / MB)} MB of memory; ${memoryMb} are allowed`;
    onExceeded(new EclipticError('PROVIDER_CRASHED', message, { reason: 'memory', bytes, memoryMb }));
  });
}

/** The exit of a process as a provider's crash. */
export function crashed(provider: string, error: EclipticError): EclipticError {
  if (error.code !== 'PROCESS_ENDED') return error;
  return new EclipticError('PROVIDER_CRASHED', error.message, { ...error.details, provider }, error);
}

/** Limits of one provider's process. */
export interface HostLimits {
  /** Memory of the whole process group, where the system reports it. Default 2,048. */
  readonly memoryMb: number;
  /** Time until the program is ready. Default 5,000. */
  readonly startMs: number;
  /** Longest silence about one piece of work; waiting for an approval does not count. Default 600,000. */
  readonly executeMs: number;
  /** Interval between pings. Default 5,000. */
  readonly heartbeatMs: number;
  /** A program that leaves a ping unanswered for this long hangs. Default 10,000. */
  readonly silenceMs: number;
  /** Cancelled work ends within this time, or the process is restarted. Default 5,000. */
  readonly cancelMs: number;
}

export const HOST_LIMITS: HostLimits = {
  memoryMb: 2_048,
  startMs: 5_000,
  executeMs: 600_000,
  heartbeatMs: 5_000,
  silenceMs: 10_000,
  cancelMs: 5_000,
};
