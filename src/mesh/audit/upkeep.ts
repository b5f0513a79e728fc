import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import { type RetentionLimits, retain } from './retention.js';
import { audit, journal } from './tables.js';

export interface UpkeepLimits {
  readonly journal?: RetentionLimits;
  readonly audit?: RetentionLimits;
}

const DAY_MS = 86_400_000;
const DEFAULTS = {
  journal: { maxAgeMs: 30 * DAY_MS, maxRows: 1_000_000, maxBytes: 1_073_741_824 },
  audit: { maxAgeMs: 365 * DAY_MS, maxRows: 1_000_000, maxBytes: 1_073_741_824 },
} as const;
const EVERY_MS = 60_000;

/** Deletes old rows, such as those of a table of another room. */
type Cut = (now: number) => Promise<unknown>;

/** Deletes old rows of the journal and the audit log, and then those of `cutOthers`, regularly and in small steps. */
export class Upkeep {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #limits: Required<UpkeepLimits>;
  readonly #cutOthers: Cut;
  readonly #cursors = { journal: { seq: 0 }, audit: { seq: 0 } };
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(runtime: Runtime, store: Store, limits: UpkeepLimits = {}, cutOthers: Cut = async () => {}) {
    this.#runtime = runtime;
    this.#store = store;
    this.#limits = {
      journal: { ...DEFAULTS.journal, ...limits.journal },
      audit: { ...DEFAULTS.audit, ...limits.audit },
    };
    this.#cutOthers = cutOthers;
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
      const now = this.#runtime.now();
      await retain(this.#store, journal, this.#limits.journal, now, this.#cursors.journal);
      await retain(this.#store, audit, this.#limits.audit, now, this.#cursors.audit);
      await this.#cutOthers(this.#runtime.now());
    } catch (error) {
      this.#runtime.logger.error({ err: error }, 'store: old records could not be deleted');
    }
  }
}
