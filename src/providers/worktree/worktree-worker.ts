import { describeError } from '../../runtime/errors.js';
import { describeBranch } from '../../work/branch-report.js';
import type { BranchUpdate, ExecuteTerms, ProviderAdapter } from '../adapter/adapter.js';
import { normalizeAbort, normalizeError } from '../adapter/errors.js';
import type { WorkerTask } from '../adapter/worker-task.js';
import { Worker } from '../registry/worker.js';
import type { OpenWorktree, WorktreeSettings, Worktrees } from './worktrees.js';

interface WorktreeWorkerInit {
  readonly agent: string;
  /** The worker's folder, in the repository. */
  readonly cwd: string;
  readonly settings: WorktreeSettings;
  readonly worktrees: Worktrees;
}

const PLAIN = { input: (task: WorkerTask) => task, answer: (output: unknown) => output };

/** A worker whose every task runs in a git worktree of its own, and ends with a report on the task's branch. */
export class WorktreeWorker<TConfig> extends Worker<TConfig, WorkerTask, unknown> {
  readonly #init: WorktreeWorkerInit;

  constructor(adapter: ProviderAdapter<TConfig, WorkerTask, unknown>, init: WorktreeWorkerInit) {
    super(adapter, PLAIN);
    this.#init = init;
  }

  override async init(config: TConfig): Promise<void> {
    const { worktrees, cwd, settings } = this.#init;
    try {
      await worktrees.check(cwd, settings);
    } catch (error) {
      throw normalizeError(error, this.type);
    }
    await super.init(config);
  }

  override async execute(task: WorkerTask, correlationId: string, terms: ExecuteTerms = {}): Promise<unknown> {
    const worktree = await this.#open(task, correlationId, terms);
    try {
      const output = await super.execute(task, correlationId, {
        ...terms,
        folder: worktree.folder,
        opened: worktree.opened,
      });
      await this.#finish(worktree, terms);
      return output;
    } catch (error) {
      await this.#finish(worktree, terms, describeError(error));
      throw error;
    }
  }

  override describe(): Readonly<Record<string, unknown>> {
    return { ...super.describe(), worktree: true };
  }

  async #open(task: WorkerTask, correlationId: string, { signal }: ExecuteTerms): Promise<OpenWorktree> {
    const { worktrees, agent, cwd, settings } = this.#init;
    const { conversation, text: title } = task;
    try {
      return await worktrees.open({ agent, cwd, settings, conversation, thread: correlationId, title, signal });
    } catch (error) {
      if (signal?.aborted) throw normalizeAbort(signal, this.type, correlationId);
      throw normalizeError(error, this.type, correlationId);
    }
  }

  async #finish(worktree: OpenWorktree, { onUpdate }: ExecuteTerms, failure?: string): Promise<void> {
    const report = await worktree.finish(failure);
    const data: BranchUpdate = { report, patch: await worktree.patch() };
    onUpdate?.({ kind: 'branch', text: describeBranch(report), data });
  }
}
