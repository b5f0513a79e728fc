import { ByteWriter } from '../runtime/bytes.js';
import { callGuarded, warnOfCallback } from '../runtime/callbacks.js';
import { Database } from './database.js';
import { storeClosed, storeFailed } from './faults.js';
import { allSteps } from './query.js';
import type { Condition, Figures, Query, Store } from './store.js';
import type { AnyRow, RowOf, Table, Write } from './table.js';

/** The content of a store, from which another one can start. */
export interface MemorySnapshot {
  readonly rows: readonly (readonly [Table, AnyRow])[];
  /** The highest number of each table. */
  readonly numbers: ReadonlyMap<Table, number>;
}

const SMALL_RECORD = 512;

/**
 * A store in memory, for nodes without a data folder and for simulation. Calls run in their order, each in a microtask of
 * its own, so it needs no clock, and a snapshot has everything that was acknowledged.
 */
export class MemoryStore implements Store {
  readonly #database = new Database();
  #tail: Promise<unknown> = Promise.resolve();
  #closed = false;
  #failure: string | undefined;

  constructor(snapshot?: MemorySnapshot) {
    if (!snapshot) return;
    this.#apply(snapshot.rows.map(([table, row]) => table.put(row)));
    for (const [table, last] of snapshot.numbers) this.#database.figures(table).last = last;
  }

  write(writes: readonly Write[]): Promise<void> {
    return this.#enqueue(() => this.#apply(writes));
  }

  commit(writes: readonly Write[], done: (error?: unknown) => void): void {
    const tell = (error?: unknown) => callGuarded(done, [error], (failure) => warnOfCallback('store', failure));
    this.write(writes).then(() => tell(), tell);
  }

  read<T extends Table>(table: T, query?: Query<RowOf<T>>): Promise<RowOf<T>[]> {
    return this.#enqueue(() => allSteps(this.#database.select(table, query as Query<AnyRow>)));
  }

  count<T extends Table>(table: T, condition?: Condition<RowOf<T>>): Promise<number> {
    return this.#enqueue(() => allSteps(this.#database.count(table, condition as Condition<AnyRow>)));
  }

  figures(table: Table): Promise<Figures> {
    return this.#enqueue(() => allSteps(this.#database.sizeOf(table)));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#tail;
  }

  /** Makes every call fail with this reason, as on a full disk; `undefined` ends that. */
  failWith(reason: string | undefined): void {
    this.#failure = reason;
  }

  /** The content that would be on disk now, as a process finds it after a crash. */
  snapshot(): MemorySnapshot {
    const numbers = [...this.#database.tables].map((table) => [table, this.#database.figures(table).last] as const);
    const rows = [...this.#database.memtable.entries()].map(([table, row]) => [table, row.read(table)] as const);
    return { rows, numbers: new Map(numbers) };
  }

  #apply(writes: readonly Write[]): void {
    const record = new ByteWriter(SMALL_RECORD);
    this.#database.apply(writes, record);
    this.#database.keep();
    record.trim();
  }

  #enqueue<Result>(task: () => Result): Promise<Result> {
    if (this.#closed) return Promise.reject(storeClosed());
    const result = this.#tail.then(() => {
      if (this.#failure !== undefined) throw storeFailed(this.#failure);
      return task();
    });
    this.#tail = result.catch(() => {});
    return result;
  }
}
