import type { Program } from '../process/children.js';
import type { RestartPolicy } from '../process/supervision.js';
import { EclipticError } from '../runtime/errors.js';
import { type HostComponents, IsolatedProviderHost } from './host/isolated-provider-host.js';
import type { HostLimits } from './host/limits.js';
import { Listeners } from './host/listeners.js';
import type { Lane } from './lanes.js';
import { LineSession } from './line-session.js';
import type { ExecuteTerms, ProviderAdapter, ProviderCrash, ProviderHealthStatus } from './provider-adapter.js';
import { normalizeError } from './provider-errors.js';

export interface CommandConfig extends Program {
  readonly limits?: Partial<HostLimits> | undefined;
  readonly restart?: Partial<RestartPolicy> | undefined;
}

export interface CommandComponents extends HostComponents {
  lane: Lane;
}

/** A provider that is any program which speaks the line protocol, in a process of its own. */
export class CommandAdapter implements ProviderAdapter<CommandConfig, unknown, unknown> {
  readonly #id: string;
  readonly #components: CommandComponents;
  readonly #crashed = new Listeners<ProviderCrash>();
  readonly #ready = new Listeners<void>();
  #host: IsolatedProviderHost<LineSession> | undefined;
  #leaveLane: (() => void) | undefined;

  constructor(id: string, components: CommandComponents) {
    this.#id = id;
    this.#components = components;
  }

  async init({ limits, restart, ...program }: CommandConfig): Promise<void> {
    await this.terminate();
    const { runtime, lane } = this.#components;
    const env = { ...program.env, ECLIPTIC_LANE_FOLDER: lane.folder };
    const host = new IsolatedProviderHost<LineSession>(this.#components, {
      provider: this.#id,
      lane: lane.id,
      program: { ...program, env },
      connect: (child) => LineSession.open(runtime, child, { agent: this.#id, folder: lane.folder }),
      limits,
      restart,
      onCrash: ({ error, ...rest }) => this.#crashed.tell({ error: normalizeError(error, 'command'), ...rest }),
      onReady: () => this.#ready.tell(),
    });
    this.#host = host;
    try {
      this.#leaveLane = lane.bind(host);
      await host.start();
    } catch (error) {
      await this.terminate();
      throw normalizeError(error, 'command');
    }
  }

  async health(): Promise<ProviderHealthStatus> {
    try {
      const host = this.#require();
      const { silenceMs: timeoutMs } = host.limits;
      const { state, message } = await host.run((session) => ({ done: session.health(), cancel() {} }), { timeoutMs });
      const lastCheck = new Date(this.#components.runtime.now());
      return { state, lastCheck, failureCount: 0, ...(message !== undefined && { message }) };
    } catch (error) {
      throw normalizeError(error, 'command');
    }
  }

  async execute(input: unknown, correlationId: string, { signal, onUpdate }: ExecuteTerms = {}): Promise<unknown> {
    try {
      const host = this.#require();
      const terms = { timeoutMs: host.limits.executeMs, signal };
      return await host.run((session) => session.execute(input, correlationId, onUpdate), terms);
    } catch (error) {
      throw normalizeError(error, 'command', correlationId);
    }
  }

  async terminate(): Promise<void> {
    const host = this.#host;
    this.#host = undefined;
    await host?.stop();
    this.#leaveLane?.();
    this.#leaveLane = undefined;
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#crashed.add(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#ready.add(listener);
  }

  #require(): IsolatedProviderHost<LineSession> {
    if (this.#host) return this.#host;
    throw new EclipticError('PROVIDER_UNAVAILABLE', `${this.#id} has not been started`, { provider: this.#id });
  }
}
