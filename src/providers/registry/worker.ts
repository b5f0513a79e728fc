import type { ExecuteTerms, ProviderAdapter, ProviderCrash, ProviderHealthStatus } from '../adapter/adapter.js';
import type { WorkerTask } from '../adapter/worker-task.js';

/** How an adapter is asked to do the work of an agent, and what of its output is the answer. */
export interface WorkerLanguage<TInput, TOutput> {
  readonly input: (task: WorkerTask) => TInput;
  readonly answer: (output: TOutput, task: WorkerTask) => unknown;
}

/**
 * A provider that does an agent's work. All workers of an agent take the same tasks, so that one can stand in for another
 * of a different type.
 */
export class Worker<TConfig, TInput, TOutput> implements ProviderAdapter<TConfig, WorkerTask, unknown> {
  readonly #adapter: ProviderAdapter<TConfig, TInput, TOutput>;
  readonly #language: WorkerLanguage<TInput, TOutput>;

  constructor(adapter: ProviderAdapter<TConfig, TInput, TOutput>, language: WorkerLanguage<TInput, TOutput>) {
    this.#adapter = adapter;
    this.#language = language;
  }

  get type() {
    return this.#adapter.type!;
  }

  init(config: TConfig): Promise<void> {
    return this.#adapter.init(config);
  }

  health(): Promise<ProviderHealthStatus> {
    return this.#adapter.health();
  }

  async execute(task: WorkerTask, correlationId: string, terms?: ExecuteTerms): Promise<unknown> {
    const { input, answer } = this.#language;
    return answer(await this.#adapter.execute(input(task), correlationId, terms), task);
  }

  terminate(): Promise<void> {
    return this.#adapter.terminate();
  }

  async renew(): Promise<void> {
    await this.#adapter.renew?.();
  }

  describe(): Readonly<Record<string, unknown>> {
    return this.#adapter.describe?.() ?? {};
  }

  get starting(): boolean {
    return this.#adapter.starting ?? false;
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#adapter.onCrash?.(listener) ?? NOTHING;
  }

  onReady(listener: () => void): () => void {
    return this.#adapter.onReady?.(listener) ?? NOTHING;
  }
}

const NOTHING = () => {};
