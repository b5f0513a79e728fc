import type { ByteReader, ByteWriter } from '../runtime/bytes.js';
import { checkRow, checkSet } from './checks.js';
import { rowExists, storeFailed } from './faults.js';
import { rowKey } from './key.js';
import type { TableFigures } from './manifest.js';
import { type Entry, findRow, type Layer, Memtable } from './memtable.js';
import { allSteps, exactKeys, Queries, type Steps } from './query.js';
import { readRow, StoredRow, writeRow } from './row.js';
import type { Condition, Figures, Query } from './store.js';
import type { AnyRow, Table, Tree, Write } from './table.js';

const PUT = 1;
const DELETE = 0;
/** Of one call, which cannot be divided. */
const MAX_CALL_BYTES = 256 * 1_048_576;

/** The state of a row and its table before a change. */
interface Undo extends TableFigures {
  readonly table: Table;
  readonly key: string;
  readonly entry: Entry;
}

/** The rows of a store: a memtable over older layers. Synchronous; knows nothing of files. */
export class Database {
  readonly #idOf: (table: Table) => number;
  readonly #queries = new Queries(() => this.#layers);
  readonly #figures = new Map<Table, TableFigures>();
  #memtable = new Memtable();
  #frozen: Memtable | undefined;
  #layers: readonly Layer[] = [this.#memtable];
  #undo: Undo[] = [];

  /** `idOf` gives the number of a table in records, and throws for a table that the store does not have. */
  constructor(idOf: (table: Table) => number = () => 0) {
    this.#idOf = idOf;
  }

  get memtable(): Memtable {
    return this.#memtable;
  }

  /** The memtable that is being written to a run. */
  get frozen(): Memtable | undefined {
    return this.#frozen;
  }

  /** Begins an empty memtable; the one before becomes the layer under it. */
  freeze(): Memtable {
    const { below } = this.#memtable;
    this.#frozen = this.#memtable;
    this.#memtable = new Memtable();
    this.setRuns(below);
    return this.#frozen;
  }

  /** The layers under the memtables, newest first, when they have changed but for the same rows. */
  setRuns(runs: readonly Layer[]): void {
    const frozen = this.#frozen;
    if (frozen) frozen.below = runs;
    this.#memtable.below = frozen ? [frozen, ...runs] : runs;
    this.#layers = [this.#memtable, ...this.#memtable.below];
  }

  /** The frozen memtable has become the newest run. */
  thaw(runs: readonly Layer[]): void {
    this.#frozen = undefined;
    this.setRuns(runs);
  }

  /** Those that were used. */
  get tables(): Iterable<Table> {
    return this.#figures.keys();
  }

  figures(table: Table): TableFigures {
    let figures = this.#figures.get(table);
    if (!figures) {
      figures = { rows: 0, bytes: 0, last: 0 };
      this.#figures.set(table, figures);
    }
    return figures;
  }

  setFigures(table: Table, { rows, bytes, last }: TableFigures): void {
    this.#figures.set(table, { rows, bytes, last });
  }

  /**
   * All writes of a call or none. Appends each changed row to the record: kind, table, and row or key. The rows in memory
   * are those of the record, which must not be written to afterwards by anything else.
   */
  apply(writes: readonly Write[], record: ByteWriter): void {
    const before = this.#undo.length;
    const { length } = record;
    try {
      for (const write of writes) {
        this.#apply(write, record);
        if (record.length - length > MAX_CALL_BYTES) {
          throw storeFailed(`the store takes at most ${MAX_CALL_BYTES} bytes in one transaction`);
        }
      }
    } catch (error) {
      this.undo(before);
      record.length = length;
      throw error;
    }
  }

  /** Undoes the changes since there were this many; all that are not forgotten by default. */
  undo(count = 0): void {
    while (this.#undo.length > count) {
      const { table, key, entry, ...figures } = this.#undo.pop()!;
      this.#memtable.set(table, key, entry);
      this.setFigures(table, figures);
    }
  }

  /** The changes so far are on disk, and cannot be undone. */
  keep(): void {
    this.#undo = [];
  }

  /** Makes the changes of a record that was read from a log. */
  replay(record: ByteReader, source: Buffer, tables: readonly Table[]): void {
    while (record.place < source.length) {
      const kind = record.byte();
      const table = tables[record.byte()]!;
      const start = record.place;
      const row = kind === PUT ? readRow(record, table) : undefined;
      const key = row ? rowKey(table, row) : record.latin1(record.uint32());
      const stored = row ? new StoredRow({ buffer: source }, start, record.place) : null;
      this.#set(table, key, stored, this.#find(table, key), row);
    }
    this.keep();
  }

  select(table: Table, query: Query<AnyRow> = {}): Steps<AnyRow[]> {
    return this.#queries.select(table, query);
  }

  *count(table: Table, condition: Condition<AnyRow> = {}): Steps<number> {
    if (Object.keys(condition).length === 0) return this.figures(table).rows;
    return yield* this.#queries.count(table, condition);
  }

  /** The number of keys of a tree, for checks. */
  countKeys(tree: Tree): Steps<number> {
    return this.#queries.countKeys(tree);
  }

  // biome-ignore lint/correctness/useYield: in the form of the other reads
  *sizeOf(table: Table): Steps<Figures> {
    const { rows, bytes } = this.figures(table);
    return { rows, bytes };
  }

  #apply(write: Write, record: ByteWriter): void {
    const { table } = write;
    if (write.kind === 'put' || write.kind === 'insert') {
      const row = this.#number(table, checkRow(table, write.row));
      const key = rowKey(table, row);
      const before = this.#find(table, key);
      if (before && write.kind === 'insert') throw rowExists(table, row);
      this.#put(table, key, row, before, record);
      return;
    }
    if (write.kind === 'update') checkSet(table, write.set);
    else if (write.kind !== 'delete') throw storeFailed('a write is a put, an insert, an update or a delete');
    for (const key of this.#matching(table, write as Condition<AnyRow>)) {
      const before = this.#find(table, key);
      if (!before) continue;
      if (write.kind === 'update') {
        this.#put(table, key, { ...before.read(table), ...(write.set as AnyRow) }, before, record);
        continue;
      }
      record.byte(DELETE);
      record.byte(this.#idOf(table));
      record.uint32(key.length);
      record.latin1(key);
      this.#set(table, key, null, before);
    }
  }

  /** The keys of the rows that an update or delete is about. */
  #matching(table: Table, condition: Condition<AnyRow>): string[] {
    return exactKeys(table, condition) ?? allSteps(this.select(table, condition)).map((row) => rowKey(table, row));
  }

  #put(table: Table, key: string, row: AnyRow, before: StoredRow | undefined, record: ByteWriter): void {
    record.byte(PUT);
    record.byte(this.#idOf(table));
    const start = record.length;
    writeRow(record, table, row);
    this.#set(table, key, new StoredRow(record, start, record.length), before, row);
  }

  /** `before` is the row that readers see up to now; `values` are those of the new one. */
  #set(table: Table, key: string, row: StoredRow | null, before: StoredRow | undefined, values?: AnyRow): void {
    const figures = this.figures(table);
    const { rows, bytes, last } = figures;
    this.#undo.push({ table, key, entry: this.#memtable.get(table, key), rows, bytes, last });
    figures.rows += (row ? 1 : 0) - (before ? 1 : 0);
    if (table.numberColumn >= 0) {
      figures.bytes += (row?.textBytes(table) ?? 0) - (before?.textBytes(table) ?? 0);
      if (values) figures.last = Math.max(last, values[table.columns[table.numberColumn]!] as number);
    }
    // A row that no older layer has leaves no trace.
    const isHidden = !row && findRow(this.#memtable.below, table, key) !== undefined;
    this.#memtable.set(table, key, row ?? (isHidden ? null : undefined));
  }

  #find(table: Table, key: string): StoredRow | undefined {
    return findRow(this.#layers, table, key);
  }

  #number(table: Table, row: AnyRow): AnyRow {
    if (table.numberColumn < 0) return row;
    const column = table.columns[table.numberColumn]!;
    return row[column] === 0 ? { ...row, [column]: this.figures(table).last + 1 } : row;
  }
}
