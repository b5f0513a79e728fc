import type { Runtime, Timer } from '../../runtime/runtime.js';
import { type RetentionLimits, retain, retainTasks, type TaskLimits } from '../../store/retention.js';
import type { Store } from '../../store/store.js';

export interface UpkeepLimits {
  readonly journal?: RetentionLimits;
  readonly audit?: RetentionLimits;
  readonly tasks?: TaskLimits;
}

const DAY_MS = 86_400_000;
const DEFAULTS = {
  journal: { maxAgeMs: 30 * DAY_MS, maxRows: 1_000_000, maxBytes: 1_073_741_824 },
  audit: { maxAgeMs: 365 * DAY_MS, maxRows: 1_000_000, maxBytes: 1_073_741_824 },
  tasks: { maxAgeMs: 30 * DAY_MS, maxRows: 100_000 },
} as const;
const EVERY_MS = 60_000;

/** Deletes old rows of the journal, the audit log and ended tasks, regularly and in small steps. */
export class Upkeep {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #limits: Required<UpkeepLimits>;
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(runtime: Runtime, store: Store, limits: UpkeepLimits = {}) {
    this.#runtime = runtime;
    this.#store = store;
    this.#limits = {
      journal: { ...DEFAULTS.journal, ...limits.journal },
      audit: { ...DEFAULTS.audit, ...limits.audit },
      tasks: { ...DEFAULTS.tasks, ...limits.tasks },
    };
  }

  start(): void {
    this.#timer = this.#runtime.setTimer(() => {
      this.#running = this.#cut().finally(() => {
        if (!this.#stopped) this.start();
      });
    }, EVERY_MS);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#running;
  }

  async #cut(): Promise<void> {
    try {
      for (const log of ['journal', 'audit'] as const) {
        await retain(this.#store, log, this.#limits[log], this.#runtime.now());
      }
      await retainTasks(this.#store, this.#limits.tasks, this.#runtime.now());
    } catch (error) {
      this.#runtime.logger.error({ err: error }, 'store: old records could not be deleted');
    }
  }
}
