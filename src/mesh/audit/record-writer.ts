import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Store, Write } from '../../store/store.js';

/** How long a record may wait for others to be written with it. */
const DELAY_MS = 20;
const BATCH = 500;
/** Records that fail one after the other before the rest of a batch is given up. */
const PATIENCE = 3;
/** Records that may wait; more are dropped, and counted. */
const MAX_WAITING = 20_000;

/** What becomes of a batch of records. */
export interface Batch {
  readonly writes: readonly Write[];
  readonly written?: () => void;
}

export interface RecordWriterInit<Rec> {
  /** What is written, for people. */
  what: string;
  /** The changes that keep these records; asked for when it is their turn, and not before. */
  prepare: (records: readonly Rec[]) => Batch;
}

/** Writes records in the background, in order and many at a time. What a failing store refuses is lost, and counted. */
export class RecordWriter<Rec> {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #init: RecordWriterInit<Rec>;
  #waiting: Rec[] = [];
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  /** Records that were dropped because the store could not keep up, or failed. */
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

  /** Resolves when everything added so far is on disk. */
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

  /** One of them may be at fault, or the store: several in a row say that it is the store. */
  async #writeSingly(batch: readonly Rec[], failure: unknown): Promise<void> {
    let lost = 0;
    let inRow = 0;
    for (const record of batch) {
      const failed = inRow >= PATIENCE || batch.length === 1 || (await this.#attempt([record])) !== undefined;
      inRow = failed ? inRow + 1 : 0;
      if (failed) lost++;
    }
    this.dropped += lost;
    this.#runtime.logger.error({ err: failure, lost }, `the ${this.#init.what} could not be written`);
  }

  /** Why these could not be written, if they could not. */
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
