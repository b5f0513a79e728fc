import { untilAborted } from '../../runtime/async.js';
import { Callbacks, logCallback } from '../../runtime/callbacks.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Child } from '../../system/process/child.js';
import type { JailRequest, JailSettings } from '../../system/process/jail-settings.js';
import type { RestartPolicy } from '../../system/process/supervision.js';
import {
  type CredentialSource,
  DEFAULT_WORKSPACE,
  resolveSettings,
  type SecretSettings,
} from '../../system/secrets/credential-source.js';
import { Redactor } from '../../system/secrets/secret.js';
import {
  type ExecuteTerms,
  guardedTerms,
  type ProviderAdapter,
  type ProviderCrash,
  type ProviderHealthStatus,
  type ProviderType,
} from '../adapter/adapter.js';
import { type NormalizedProviderError, normalizeError, redactedError } from '../adapter/errors.js';
import { type HostComponents, type HostStatus, IsolatedProviderHost } from './isolated-provider-host.js';
import type { Lane } from './lanes.js';
import type { Activity, WorkHandle } from './pending-work.js';
import type { HostLimits, ProcessSession } from './watched-process.js';

/** The program of a provider and its limits. */
export interface ProcessConfig {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** Default: the folder of the lane. */
  readonly cwd?: string | undefined;
  /** Added to the few environment variables that every child process gets. */
  readonly env?: SecretSettings | undefined;
  /** Values to remove from logs and errors. */
  readonly secrets?: readonly string[] | undefined;
  /** A jail of the operating system for the program. Default: none. */
  readonly jail?: JailSettings | undefined;
  readonly limits?: Partial<HostLimits> | undefined;
  readonly restart?: Partial<RestartPolicy> | undefined;
}

export interface ProcessComponents extends HostComponents {
  lane: Lane;
  /** Resolves credentials in `env`. Default: there are none. */
  credentials?: CredentialSource | undefined;
}

/**
 * An adapter whose provider is a program: one process in a lane, restarted when it crashes. Subclasses speak the
 * program's protocol: `connect` opens a session, `check` and `work` use it.
 */
export abstract class ProcessAdapter<
  Session extends ProcessSession,
  TConfig extends ProcessConfig,
  TInput,
  TOutput,
  Components extends ProcessComponents = ProcessComponents,
> implements ProviderAdapter<TConfig, TInput, TOutput>
{
  abstract readonly type: ProviderType;
  protected readonly id: string;
  protected readonly components: Components;
  readonly #workspaceId: string;
  readonly #crashed: Callbacks<[crash: ProviderCrash]>;
  readonly #ready: Callbacks<[]>;
  #host: IsolatedProviderHost<Session> | undefined;
  #redactor = new Redactor();
  #config: ProcessConfig | undefined;
  #renewing: Promise<void> = Promise.resolve();
  /** Every process that has not ended, with the function that takes it out of the lane. */
  readonly #hosts = new Map<IsolatedProviderHost<Session>, () => void>();

  constructor(id: string, components: Components, workspaceId = DEFAULT_WORKSPACE) {
    this.id = id;
    this.components = components;
    this.#workspaceId = workspaceId;
    const failed = logCallback(components.runtime.logger);
    this.#crashed = new Callbacks(`onCrash of provider ${id}`, failed);
    this.#ready = new Callbacks(`onReady of provider ${id}`, failed);
  }

  abstract init(config: TConfig): Promise<void>;
  abstract health(): Promise<ProviderHealthStatus>;
  abstract execute(input: TInput, correlationId: string, terms?: ExecuteTerms): Promise<TOutput>;
  abstract describe(): Readonly<Record<string, unknown>>;
  protected abstract connect(child: Child): Promise<Session>;

  get starting(): boolean {
    return this.#host?.status.state === 'starting';
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#crashed.add(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#ready.add(listener);
  }

  /**
   * Starts another process with the present credentials. New work goes there; the old process ends when its work is
   * done. Where the new process cannot be started, the old one stays.
   */
  renew(): Promise<void> {
    const turn = this.#renewing.then(() => this.#renew());
    this.#renewing = turn.catch(() => {});
    return turn;
  }

  /** Work in flight fails with `PROVIDER_TERMINATED`. */
  async terminate(): Promise<void> {
    this.#host = undefined;
    await Promise.all([...this.#hosts.keys()].map((host) => this.#release(host)));
  }

  protected get session(): Session | undefined {
    return this.#host?.status.state === 'running' ? this.#host.session : undefined;
  }

  protected get status(): Partial<HostStatus> {
    return this.#host?.status ?? {};
  }

  /** Leaves nothing behind where the program cannot be started. */
  protected async start(config: ProcessConfig): Promise<void> {
    await this.terminate();
    this.#redactor = new Redactor(config.secrets);
    this.#config = config;
    const host = this.#make(config);
    try {
      this.#bind(host);
      this.#host = host;
      await host.start();
    } catch (error) {
      await this.terminate();
      throw this.#failure(error);
    }
  }

  /** Asks the program for an answer within `silenceMs`. */
  protected check<T>(question: (session: Session) => Promise<T>): Promise<T> {
    const host = this.#require();
    return host.run((session) => ({ done: question(session), cancel() {} }), { timeoutMs: host.limits.silenceMs });
  }

  protected async work<T>(
    begin: (session: Session, activity: Activity, onUpdate: ExecuteTerms['onUpdate']) => WorkHandle<T>,
    correlationId: string,
    terms: ExecuteTerms,
  ): Promise<T> {
    const { onUpdate } = guardedTerms(terms, this.id, logCallback(this.components.runtime.logger));
    try {
      const host = this.#require();
      return await host.run((session, activity) => begin(session, activity, onUpdate), {
        timeoutMs: host.limits.executeMs,
        signal: terms.signal,
      });
    } catch (error) {
      throw this.#failure(error, correlationId);
    }
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
    // The adapter may have been terminated meanwhile.
    if (this.#host !== old) return this.#release(host);
    this.#host = host;
    void old.drained().then(() => this.#release(old));
  }

  #make(config: ProcessConfig): IsolatedProviderHost<Session> {
    const host = new IsolatedProviderHost<Session>(this.components, {
      provider: this.id,
      lane: this.components.lane.id,
      program: () => this.#program(config),
      connect: (child, signal) => untilAborted(untilExited(this.connect(child), child), signal),
      limits: config.limits,
      restart: config.restart,
      onCrash: ({ error, ...rest }) => {
        // A replaced process that only finished its work is not started again.
        if (this.#host !== host) return void this.#release(host);
        this.#crashed.call({ error: this.#failure(error), ...rest });
      },
      onReady: () => {
        if (this.#host === host) this.#ready.call();
      },
    });
    return host;
  }

  #bind(host: IsolatedProviderHost<Session>): void {
    this.#hosts.set(host, this.components.lane.bind(host));
  }

  async #release(host: IsolatedProviderHost<Session>): Promise<void> {
    const leaveLane = this.#hosts.get(host);
    this.#hosts.delete(host);
    await host.stop();
    leaveLane?.();
  }

  #failure(error: unknown, correlationId?: string): NormalizedProviderError {
    return redactedError(normalizeError(error, this.type, correlationId), this.#redactor);
  }

  async #program({ command, args = [], cwd, env = {}, jail }: ProcessConfig) {
    const { lane, credentials: source = NO_CREDENTIALS } = this.components;
    const redactor = this.#redactor;
    const owner = { source, provider: this.id, workspace: this.#workspaceId, redactor };
    const settings = await resolveSettings(owner, env);
    return {
      command,
      args,
      cwd: cwd ?? lane.folder,
      env: { ...settings, ECLIPTIC_LANE_FOLDER: lane.folder },
      redact: redactor.clean,
      jail: this.jailOf({ jail, cwd }),
    };
  }

  /** The jail of this provider's programs. */
  protected jailOf({ jail, cwd }: Pick<ProcessConfig, 'cwd' | 'jail'>): JailRequest | undefined {
    const { folder } = this.components.lane;
    return jail && { ...jail, name: this.id, workspace: cwd ?? folder, own: folder, mesh: this.type === 'acp' };
  }

  #require(): IsolatedProviderHost<Session> {
    if (this.#host) return this.#host;
    throw new EclipticError('PROVIDER_UNAVAILABLE', `${this.id} has not been started`, { provider: this.id });
  }
}

/** The source of a node without credentials. */
export const NO_CREDENTIALS: CredentialSource = {
  resolve: async (provider, workspace, name) => {
    const message = `there are no credentials here, so "${name}" of ${provider} is missing`;
    throw new EclipticError('CREDENTIAL_MISSING', message, { provider, workspace, name });
  },
};

/** Settles as `connecting` does, and rejects when the program ends first. */
async function untilExited<T>(connecting: Promise<T>, child: Child): Promise<T> {
  const ended = child.exited.then(() => {
    throw child.failure();
  });
  return Promise.race([connecting, ended]);
}
