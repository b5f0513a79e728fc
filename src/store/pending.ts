import { crc32 } from 'node:zlib';
import type { Changes, LogFigures } from './changes.js';
import type { Connection } from './connection.js';
import { rowExists, storeDamaged } from './faults.js';
import { PENDING_TABLE } from './migrations.js';
import { type Change, keysAskedFor, type Term } from './plan.js';
import { keyOf, SHAPES, type Shape, textBytes } from './shapes.js';
import type { LogName, TableName, Value } from './tables.js';
import { decodeCalls } from './wire.js';

const APPEND = `INSERT INTO "${PENDING_TABLE}" (calls, sum) VALUES (?, ?)`;
const CLEAR = `DELETE FROM "${PENDING_TABLE}"`;
// As a blob: damaged text may not be UTF-8, which would end the process.
const SELECT = `SELECT number, CAST(calls AS blob), CAST(sum AS integer) FROM "${PENDING_TABLE}" ORDER BY number`;

/**
 * Calls that are on disk as they were received, and whose rows wait in memory to be written to their tables together: a
 * message that is deleted by then, or a cursor that has moved, costs no more than that. Applying the calls again, in their
 * order, on the same tables, gives the same rows.
 *
 * Only changes that name their rows by key can be pending; before any other change, pending ones are settled.
 */
export class Pending {
  readonly #file: string;
  readonly #connection: Connection;
  readonly #figures: LogFigures;
  readonly #changes: Changes;
  readonly #rows = new WaitingRows();
  #chars = 0;

  constructor(file: string, connection: Connection, figures: LogFigures, changes: Changes) {
    this.#file = file;
    this.#connection = connection;
    this.#figures = figures;
    this.#changes = changes;
  }

  get size(): number {
    return this.#rows.changes;
  }

  /** Characters of the pending calls, at least. */
  get chars(): number {
    return this.#chars;
  }

  get steps(): number {
    return this.#rows.steps;
  }

  of(table: TableName): Iterable<WaitingRow> {
    return this.#rows.of(table)?.values() ?? [];
  }

  has(table: TableName): boolean {
    return (this.#rows.of(table)?.size ?? 0) > 0;
  }

  holds(table: TableName, key: readonly Value[]): boolean {
    return this.#rows.of(table)?.has(rowKey(key)) ?? false;
  }

  /** Applies a change that can be pending. On an error, the caller rolls back. */
  take(change: Change): void {
    this.#rows.count();
    const shape = SHAPES[change.table];
    if ('values' in change) {
      if (shape.numbered) this.#addToLog(shape, change.kind, change.values);
      else this.#add(shape, change.kind, change.values);
      return;
    }
    for (const key of keysAskedFor(shape, change.terms) ?? []) {
      if (change.kind === 'delete') this.#delete(shape, key);
      else this.#update(shape, key, change.set);
    }
  }

  /** Stores the calls as they were received. */
  append(text: string): void {
    this.#connection.run(APPEND, [text, crc32(text)]);
    this.#chars += text.length;
  }

  /** Writes all pending rows to their tables. Deletes first, in case space is scarce. */
  settle(): void {
    this.#connection.run(CLEAR);
    this.#chars = 0;
    const tables = this.#rows.take();
    for (const [table, rows] of tables) {
      for (const { key, values } of rows.values()) if (!values) this.#changes.remove(table, keyTerms(table, key));
    }
    for (const [table, rows] of tables) {
      for (const { values, isNew } of rows.values()) if (values) this.#changes.place(table, values, isNew);
    }
  }

  keep(): void {
    this.#rows.keep();
  }

  rollBack(steps = 0): void {
    this.#rows.rollBack(steps);
  }

  /** Applies the calls that an earlier process left. */
  restore(): void {
    let next = 1;
    for (const [number, bytes, sum] of this.#connection.all(SELECT) as [number, Buffer | null, number][]) {
      if (number !== next++ || bytes === null || crc32(bytes) !== sum) {
        throw storeDamaged(this.#file, 'the pending calls cannot be read', { table: PENDING_TABLE });
      }
      this.#chars += bytes.length;
      for (const call of decodeCalls(bytes.toString())) {
        if (call.kind === 'write') for (const change of call.changes) this.take(change);
      }
    }
    this.keep();
  }

  /** The pending row with a key, or the row in the database. */
  find(table: TableName, key: readonly Value[]): WaitingRow | undefined {
    const waiting = this.#rows.of(table)?.get(rowKey(key));
    if (waiting) return waiting.values && waiting;
    const values = this.kept(table, key);
    return values && { key, values, isNew: false };
  }

  kept(table: TableName, key: readonly Value[]): Value[] | undefined {
    return this.#changes.find(table, keyTerms(table, key));
  }

  #add(shape: Shape, kind: 'put' | 'insert', values: readonly Value[]): void {
    const { name } = shape;
    const key = keyOf(shape, values);
    if (kind === 'insert' && this.find(name, key)) throw rowExists(name, key);
    this.#rows.set(name, rowKey(key), { key, values, isNew: false });
  }

  #addToLog(shape: Shape, kind: 'put' | 'insert', given: readonly Value[]): void {
    const { name } = shape;
    const figure = this.#figures.of(name as LogName);
    const place = shape.key[0]!;
    const number = (given[place] as number) || figure.last + 1;
    const key = [number];
    const values = given.with(place, number);
    // Numbers are never reused: above the last one there is no row.
    const isAbove = number > figure.last;
    const replaced = isAbove ? undefined : this.find(name, key);
    if (kind === 'insert' && replaced) throw rowExists(name, key);
    this.#rows.set(name, number, { key, values, isNew: isAbove || (replaced?.isNew ?? false) });
    figure.rows += replaced ? 0 : 1;
    figure.bytes += textBytes(values) - textBytes(replaced?.values);
    figure.last = Math.max(figure.last, number);
  }

  #update({ name, numbered }: Shape, key: readonly Value[], set: readonly (readonly [number, Value])[]): void {
    const found = this.find(name, key);
    if (!found) return;
    const values = found.values!.slice();
    for (const [column, value] of set) values[column] = value;
    this.#rows.set(name, rowKey(key), { ...found, values });
    if (numbered) this.#figures.of(name as LogName).bytes += textBytes(values) - textBytes(found.values);
  }

  #delete({ name, numbered }: Shape, key: readonly Value[]): void {
    const found = numbered ? this.find(name, key) : undefined;
    if (numbered && !found) return;
    this.#rows.set(name, rowKey(key), found?.isNew ? undefined : { key, values: undefined, isNew: false });
    if (!found) return;
    const figure = this.#figures.of(name as LogName);
    figure.rows--;
    figure.bytes -= textBytes(found.values);
  }
}

export function canWait(change: Change): boolean {
  return 'values' in change || keysAskedFor(SHAPES[change.table], change.terms) !== undefined;
}

function rowKey(key: readonly Value[]): RowKey {
  return key.length === 1 ? key[0]! : JSON.stringify(key);
}

function keyTerms(table: TableName, key: readonly Value[]): Term[] {
  return SHAPES[table].key.map((column, index) => ({ column, test: 'is', value: key[index]! }));
}

type RowKey = string | number;

interface WaitingRow {
  readonly key: readonly Value[];
  /** Undefined: the row is deleted. */
  readonly values: readonly Value[] | undefined;
  /** Is the row known not to be in the database? */
  readonly isNew: boolean;
}

type Rows = Map<RowKey, WaitingRow>;

/** Pending rows by table and key, with undo steps. */
class WaitingRows {
  #tables = new Map<TableName, Rows>();
  #changes = 0;
  #undo: (() => void)[] = [];

  /** Number of changes since the rows were last taken. */
  get changes(): number {
    return this.#changes;
  }

  get steps(): number {
    return this.#undo.length;
  }

  of(table: TableName): ReadonlyMap<RowKey, WaitingRow> | undefined {
    return this.#tables.get(table);
  }

  /** Undefined: no pending change. */
  set(table: TableName, key: RowKey, row: WaitingRow | undefined): void {
    const rows = this.#rows(table);
    const before = rows.get(key);
    place(rows, key, row);
    this.#undo.push(() => place(rows, key, before));
  }

  count(): void {
    this.#changes++;
  }

  take(): ReadonlyMap<TableName, ReadonlyMap<RowKey, WaitingRow>> {
    const taken = this.#tables;
    const changes = this.#changes;
    this.#tables = new Map();
    this.#changes = 0;
    this.#undo.push(() => {
      this.#tables = taken;
      this.#changes = changes;
    });
    return taken;
  }

  keep(): void {
    this.#undo = [];
  }

  /** Undoes everything after the first `steps`. */
  rollBack(steps: number): void {
    for (const undo of this.#undo.splice(steps).reverse()) undo();
  }

  #rows(table: TableName): Rows {
    const known = this.#tables.get(table);
    if (known) return known;
    const rows: Rows = new Map();
    this.#tables.set(table, rows);
    return rows;
  }
}

function place(rows: Rows, key: RowKey, row: WaitingRow | undefined): void {
  if (row) rows.set(key, row);
  else rows.delete(key);
}
