import { logCallback } from '../../runtime/callbacks.js';
import { DEFAULT_WORKSPACE } from '../../system/secrets/credential-source.js';
import {
  type ExecuteTerms,
  guardedTerms,
  type ProviderAdapter,
  type ProviderCrash,
  type ProviderHealthStatus,
} from '../adapter/adapter.js';
import { normalizeError } from '../adapter/errors.js';
import { type ProcessComponents, type ProcessConfig, ProviderProcess } from '../host/provider-process.js';
import { LineSession } from './line-session.js';

/** A provider that is any program which speaks the line protocol, in a process of its own. */
export class CommandAdapter implements ProviderAdapter<ProcessConfig, unknown, unknown> {
  readonly type = 'command';
  readonly #components: ProcessComponents;
  readonly #process: ProviderProcess<LineSession>;
  readonly #id: string;

  constructor(id: string, components: ProcessComponents, workspaceId = DEFAULT_WORKSPACE) {
    const { runtime, lane } = components;
    this.#id = id;
    this.#components = components;
    this.#process = new ProviderProcess(components, {
      id,
      type: 'command',
      workspaceId,
      connect: (child) => LineSession.open(runtime, child, { agent: id, folder: lane.folder }),
    });
  }

  init(config: ProcessConfig): Promise<void> {
    return this.#process.start(config);
  }

  async health(): Promise<ProviderHealthStatus> {
    try {
      const { state, message } = await this.#process.check((session) => session.health());
      const lastCheck = new Date(this.#components.runtime.now());
      return { state, lastCheck, failureCount: 0, ...(message !== undefined && { message }) };
    } catch (error) {
      throw normalizeError(error, 'command');
    }
  }

  execute(input: unknown, correlationId: string, terms: ExecuteTerms = {}): Promise<unknown> {
    const { onUpdate } = guardedTerms(terms, this.#id, logCallback(this.#components.runtime.logger));
    return this.#process.work(
      (session, activity) =>
        session.execute(input, correlationId, (update) => {
          activity.touch();
          onUpdate?.(update);
        }),
      correlationId,
      terms,
    );
  }

  describe(): Readonly<Record<string, unknown>> {
    const { session, status } = this.#process;
    return { ...status, ...(session && { program: session.ready }) };
  }

  renew(): Promise<void> {
    return this.#process.renew();
  }

  terminate(): Promise<void> {
    return this.#process.stop();
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#process.onCrash(listener);
  }

  get starting(): boolean {
    return this.#process.starting;
  }

  onReady(listener: () => void): () => void {
    return this.#process.onReady(listener);
  }
}
