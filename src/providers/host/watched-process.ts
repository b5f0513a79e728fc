import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import type { MemoryWatch } from '../../system/process/memory-watch.js';
import type { Running } from '../../system/process/supervisor.js';

/** A conversation with a program, in whatever protocol it speaks. */
export interface ProcessSession {
  /** Resolves when the program has shown that it lives. Where there is no way to ask that, it is not asked. */
  ping?(): Promise<unknown>;
  /** Settles, with the reason, when the program breaks the protocol: there is nothing more to be had from it. */
  readonly broken: Promise<EclipticError>;
  /** Why it is over, where the session knows better than the process's exit tells. */
  failure?(): EclipticError | undefined;
  /** It is over for that reason; whoever waits for an answer is to hear it. */
  end?(reason: EclipticError): void;
}

interface WatchComponents {
  runtime: Runtime;
  memory: MemoryWatch;
}

const MB = 1_048_576;

/** A provider's process while it runs, watched: it may not grow, hang or babble. */
export class WatchedProcess<Session extends ProcessSession> implements Running {
  readonly session: Session;
  readonly exited: Promise<void>;
  readonly #provider: string;
  readonly #child: Child;
  readonly #components: WatchComponents;
  readonly #limits: HostLimits;
  readonly #stopWatching: () => void;
  #verdict: EclipticError | undefined;
  #condemned!: () => void;
  #heartbeat: Timer | undefined;
  #over = false;

  constructor(provider: string, child: Child, session: Session, components: WatchComponents, limits: HostLimits) {
    this.#provider = provider;
    this.#child = child;
    this.session = session;
    this.#components = components;
    this.#limits = limits;
    this.#stopWatching = watchMemory(provider, child, components, limits, (reason) => this.kill(reason));
    const condemned = new Promise<void>((resolve) => {
      this.#condemned = resolve;
    });
    this.exited = Promise.race([child.exited.then(() => this.#end()), condemned]);
    void session.broken.then((reason) => this.kill(reason));
    this.#beat();
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** How it ended, in a provider's terms. */
  failure(): EclipticError {
    return this.#verdict ?? this.session.failure?.() ?? crashed(this.#provider, this.#child.failure());
  }

  /** Ends it at once and without mercy, for that reason. */
  kill(reason: EclipticError): void {
    if (this.#over) return;
    this.#verdict ??= reason;
    this.#end();
    this.session.end?.(reason);
    void this.#child.stop({ graceMs: 0 });
    // From now on it is no use to anybody, however long its end takes.
    this.#condemned();
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
      // One that cannot be asked is broken or gone, and told of as such.
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

/** Tells, once, when a process and what it started take up more than they may. Returns the way to stop. */
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

/** A process's end is a provider's crash. */
export function crashed(provider: string, error: EclipticError): EclipticError {
  if (error.code !== 'PROCESS_ENDED') return error;
  return new EclipticError('PROVIDER_CRASHED', error.message, { ...error.details, provider }, error);
}

/** What one provider's process may take, and how long it may be silent. */
export interface HostLimits {
  /** Memory of the process and everything in its group, where the system tells it. Default 2,048. */
  readonly memoryMb: number;
  /** Until it is ready for work. Default 5,000. */
  readonly startMs: number;
  /** Longest silence of the program about one piece of work; waiting for an approval does not count. Default 600,000. */
  readonly executeMs: number;
  /** Between two questions whether it lives. Default 5,000. */
  readonly heartbeatMs: number;
  /** An answer to that takes no longer, or it hangs. Default 10,000. */
  readonly silenceMs: number;
  /** What was cancelled ends within this, or the process is started anew. Default 5,000. */
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
