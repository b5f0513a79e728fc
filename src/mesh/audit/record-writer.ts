import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Store, Write } from '../../store/store.js';

const DELAY_MS = 20;
const BATCH = 500;
/** Failures in a row after which the rest of a batch is given up. */
const MAX_FAILURES = 3;
/** Waiting records; further ones are dropped and counted. */
const MAX_WAITING = 20_000;

export interface Batch {
  readonly writes: readonly Write[];
  readonly written?: () => void;
}

export interface RecordWriterInit<Rec> {
  name: string;
  /** The changes that store these records. Called just before they are written. */
  prepare: (records: readonly Rec[]) => Batch;
}

/** Writes records in the background, in order and in batches. Records that a failing store refuses are lost and counted. */
export class RecordWriter<Rec> {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #init: RecordWriterInit<Rec>;
  #waiting: Rec[] = [];
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  /** Records that were lost because the store was too slow or failed. */
  dropped = 0;

  constructor(runtime: Runtime, store: Store, init: RecordWriterInit<Rec>) {
    this.#runtime = runtime;
    this.#store = store;
    this.#init = init;
  }

  add(record: Rec): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.dropped++;
      return;
    }
    this.#waiting.push(record);
    if (this.#waiting.length >= BATCH) this.#start();
    else this.#timer ??= this.#runtime.setTimer(() => this.#start(), DELAY_MS);
  }

  /** Resolves when all records added so far are on disk. */
  async flush(): Promise<void> {
    this.#start();
    while (this.#writing) await this.#writing;
  }

  #start(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#writing || this.#waiting.length === 0) return;
    this.#writing = this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      const failure = await this.#attempt(batch);
      if (failure !== undefined) await this.#writeSingly(batch, failure);
    }
  }

  /** Finds the faulty record of a batch. Several failures in a row mean that the store is at fault. */
  async #writeSingly(batch: readonly Rec[], failure: unknown): Promise<void> {
    let lost = 0;
    let inRow = 0;
    for (const record of batch) {
      const failed = inRow >= MAX_FAILURES || batch.length === 1 || (await this.#attempt([record])) !== undefined;
      inRow = failed ? inRow + 1 : 0;
      if (failed) lost++;
    }
    this.dropped += lost;
    this.#runtime.logger.error({ err: failure, lost }, `${this.#init.name}: records could not be written`);
  }

  async #attempt(records: readonly Rec[]): Promise<unknown> {
    try {
      const { writes, written } = this.#init.prepare(records);
      await this.#store.write(writes);
      written?.();
      return undefined;
    } catch (error) {
      return error;
    }
  }
}
