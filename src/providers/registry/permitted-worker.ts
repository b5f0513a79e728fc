import type { ExecuteTerms, ProviderAdapter } from '../adapter/adapter.js';
import { normalizeError } from '../adapter/errors.js';
import type { WorkerTask } from '../adapter/worker-task.js';
import { Worker } from './worker.js';

const PLAIN = { input: (task: WorkerTask) => task, answer: (output: unknown) => output };

/** A worker that asks before each start and each task whether it still may; `permit` throws where it may not. */
export class PermittedWorker<TConfig> extends Worker<TConfig, WorkerTask, unknown> {
  readonly #permit: () => void;

  constructor(adapter: ProviderAdapter<TConfig, WorkerTask, unknown>, permit: () => void) {
    super(adapter, PLAIN);
    this.#permit = permit;
  }

  override async init(config: TConfig): Promise<void> {
    this.#check();
    await super.init(config);
  }

  override async execute(task: WorkerTask, correlationId: string, terms?: ExecuteTerms): Promise<unknown> {
    this.#check(correlationId);
    return super.execute(task, correlationId, terms);
  }

  #check(correlationId?: string): void {
    try {
      this.#permit();
    } catch (error) {
      throw normalizeError(error, this.type, correlationId);
    }
  }
}
