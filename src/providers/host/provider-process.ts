import { Callbacks, logCallback } from '../../runtime/callbacks.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Child } from '../../system/process/child.js';
import type { RestartPolicy } from '../../system/process/supervision.js';
import { type CredentialSource, resolveSettings, type SecretSettings } from '../../system/secrets/credential-source.js';
import { Redactor } from '../../system/secrets/secret.js';
import type { ExecuteTerms, ProviderCrash, ProviderType } from '../adapter/adapter.js';
import { type NormalizedProviderError, normalizeError, redactedError } from '../adapter/errors.js';
import { type HostComponents, type HostStatus, IsolatedProviderHost } from './isolated-provider-host.js';
import type { Lane } from './lanes.js';
import type { Activity, WorkHandle } from './pending-work.js';
import type { HostLimits, ProcessSession } from './watched-process.js';

/** A program, and what it may take. */
export interface ProcessConfig {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** The folder to start it in. Default: its lane's. */
  readonly cwd?: string | undefined;
  /** What it finds in its environment besides the few variables that every child gets. */
  readonly env?: SecretSettings | undefined;
  /** Values that must not be seen in logs and errors. */
  readonly secrets?: readonly string[] | undefined;
  readonly limits?: Partial<HostLimits> | undefined;
  readonly restart?: Partial<RestartPolicy> | undefined;
}

export interface ProcessComponents extends HostComponents {
  lane: Lane;
  /** Where credentials in its settings come from. Default: there are none. */
  credentials?: CredentialSource | undefined;
}

interface ProcessInit<Session> {
  readonly id: string;
  readonly type: ProviderType;
  /** The workspace whose credentials are meant. */
  readonly workspaceId: string;
  readonly connect: (child: Child, signal: AbortSignal) => Promise<Session>;
  /** Told when the process has ended by itself. */
  readonly onEnd?: () => void;
}

/** What the adapters of programs have in common: a process in a lane, and errors in the providers' terms. */
export class ProviderProcess<Session extends ProcessSession> {
  readonly #components: ProcessComponents;
  readonly #init: ProcessInit<Session>;
  readonly #crashed: Callbacks<[crash: ProviderCrash]>;
  readonly #ready: Callbacks<[]>;
  #host: IsolatedProviderHost<Session> | undefined;
  #redactor = new Redactor();
  #config: ProcessConfig | undefined;
  #renewing: Promise<void> = Promise.resolve();
  /** Every process that is not ended yet, with the way out of its lane. */
  readonly #hosts = new Map<IsolatedProviderHost<Session>, () => void>();

  constructor(components: ProcessComponents, init: ProcessInit<Session>) {
    this.#components = components;
    this.#init = init;
    const failed = logCallback(components.runtime.logger);
    this.#crashed = new Callbacks(`onCrash of provider ${init.id}`, failed);
    this.#ready = new Callbacks(`onReady of provider ${init.id}`, failed);
  }

  /** The conversation with the program, while it runs. */
  get session(): Session | undefined {
    return this.#host?.status.state === 'running' ? this.#host.session : undefined;
  }

  /** Is it still being started for the first time? */
  get starting(): boolean {
    return this.#host?.status.state === 'starting';
  }

  /** How the process is. */
  get status(): Partial<HostStatus> {
    return this.#host?.status ?? {};
  }

  /** Starts it, and leaves nothing behind when that fails. */
  async start(config: ProcessConfig): Promise<void> {
    await this.stop();
    this.#redactor = new Redactor(config.secrets);
    this.#config = config;
    const host = this.#make(config);
    try {
      this.#bind(host);
      this.#host = host;
      await host.start();
    } catch (error) {
      await this.stop();
      throw this.#failure(error);
    }
  }

  /**
   * Starts another process, with the credentials as they are now. New work goes there; the old process ends when its work
   * is done. Where the new one cannot be started, the old one goes on.
   */
  renew(): Promise<void> {
    const turn = this.#renewing.then(() => this.#renew());
    this.#renewing = turn.catch(() => {});
    return turn;
  }

  async #renew(): Promise<void> {
    const old = this.#host;
    if (!old || !this.#config) return;
    const host = this.#make(this.#config);
    try {
      this.#bind(host);
      await host.start({ patient: true });
    } catch (error) {
      await this.#release(host);
      throw this.#failure(error);
    }
    // It may have been stopped meanwhile.
    if (this.#host !== old) return this.#release(host);
    this.#host = host;
    void old.drained().then(() => this.#release(old));
  }

  /** Ends it, with `PROVIDER_TERMINATED` for what is in flight. */
  async stop(): Promise<void> {
    this.#host = undefined;
    await Promise.all([...this.#hosts.keys()].map((host) => this.#release(host)));
  }

  #make(config: ProcessConfig): IsolatedProviderHost<Session> {
    const { id, connect, onEnd } = this.#init;
    const host = new IsolatedProviderHost<Session>(this.#components, {
      provider: id,
      lane: this.#components.lane.id,
      program: () => this.#program(config),
      connect: (child, signal) => untilOver(connect(child, signal), child, signal),
      limits: config.limits,
      restart: config.restart,
      onCrash: ({ error, ...rest }) => {
        // One that was only there to finish its work is not started again.
        if (this.#host !== host) return void this.#release(host);
        this.#crashed.call({ error: this.#failure(error), ...rest });
        onEnd?.();
      },
      onReady: () => {
        if (this.#host === host) this.#ready.call();
      },
    });
    return host;
  }

  #bind(host: IsolatedProviderHost<Session>): void {
    this.#hosts.set(host, this.#components.lane.bind(host));
  }

  async #release(host: IsolatedProviderHost<Session>): Promise<void> {
    const leaveLane = this.#hosts.get(host);
    this.#hosts.delete(host);
    await host.stop();
    leaveLane?.();
  }

  /** Asks something that is answered soon, or not at all. */
  check<T>(question: (session: Session) => Promise<T>): Promise<T> {
    const host = this.#require();
    return host.run((session) => ({ done: question(session), cancel() {} }), { timeoutMs: host.limits.silenceMs });
  }

  async work<T>(
    begin: (session: Session, activity: Activity) => WorkHandle<T>,
    correlationId: string,
    { signal }: Pick<ExecuteTerms, 'signal'>,
  ): Promise<T> {
    try {
      const host = this.#require();
      return await host.run(begin, { timeoutMs: host.limits.executeMs, signal });
    } catch (error) {
      throw this.#failure(error, correlationId);
    }
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#crashed.add(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#ready.add(listener);
  }

  /** In the providers' terms, and without what the program was given in secret. */
  #failure(error: unknown, correlationId?: string): NormalizedProviderError {
    return redactedError(normalizeError(error, this.#init.type, correlationId), this.#redactor);
  }

  async #program({ command, args = [], cwd, env = {} }: ProcessConfig) {
    const { lane, credentials: source = NO_CREDENTIALS } = this.#components;
    const { id: provider, workspaceId: workspace } = this.#init;
    const redactor = this.#redactor;
    const settings = await resolveSettings({ source, provider, workspace, redactor }, env);
    return {
      command,
      args,
      cwd: cwd ?? lane.folder,
      env: { ...settings, ECLIPTIC_LANE_FOLDER: lane.folder },
      redact: redactor.clean,
    };
  }

  #require(): IsolatedProviderHost<Session> {
    if (this.#host) return this.#host;
    const { id } = this.#init;
    throw new EclipticError('PROVIDER_UNAVAILABLE', `${id} has not been started`, { provider: id });
  }
}

const NO_CREDENTIALS: CredentialSource = {
  resolve: async (provider, workspace, name) => {
    const message = `there are no credentials here, so "${name}" of ${provider} is missing`;
    throw new EclipticError('CREDENTIAL_MISSING', message, { provider, workspace, name });
  },
};

/** What ends before it is ready, or never is, must not be waited for. */
function untilOver<T>(connecting: Promise<T>, child: Child, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    void child.exited.then(() => reject(child.failure()));
    connecting.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
