import { rowExists, storeClosed, storeFailed } from './faults.js';
import { type Change, type Selection, type Term, toChange, toSelection } from './plan.js';
import { keyOf, SHAPES, type Shape, TABLE_NAMES, toRow } from './shapes.js';
import type { Figures, Query, Store, Write } from './store.js';
import type { LogName, TableName, Tables, Value } from './tables.js';

type Values = readonly Value[];

interface Table {
  readonly shape: Shape;
  readonly rows: Map<string, Values>;
  /** The highest number given so far. */
  last: number;
  /** Of all texts, in UTF-8. */
  bytes: number;
}

/** What a store held at some moment, to start another one from. */
export type MemorySnapshot = Readonly<Record<TableName, { readonly rows: readonly Values[]; readonly last: number }>>;

/**
 * Keeps everything in this process: for nodes without a data folder, and for simulation. Calls are carried out in their
 * order, each in a microtask of its own, so it needs no clock and a snapshot has everything that was acknowledged.
 */
export class MemoryStore implements Store {
  readonly #tables: Readonly<Record<TableName, Table>>;
  #tail: Promise<unknown> = Promise.resolve();
  #closed = false;
  #failure: string | undefined;

  constructor(snapshot?: MemorySnapshot) {
    this.#tables = Object.fromEntries(
      TABLE_NAMES.map((name) => {
        const table: Table = { shape: SHAPES[name], rows: new Map(), last: snapshot?.[name].last ?? 0, bytes: 0 };
        for (const values of snapshot?.[name].rows ?? []) place(table, rowKey(table.shape, values), values);
        return [name, table];
      }),
    ) as Record<TableName, Table>;
  }

  async write(writes: readonly Write[]): Promise<void> {
    this.#assertOpen();
    const changes = writes.map(toChange);
    await this.#enqueue(() => this.#apply(changes));
  }

  async read<Name extends TableName>(query: Query<Name>): Promise<Tables[Name][]> {
    this.#assertOpen();
    const selection = toSelection(query);
    const rows = await this.#enqueue(() => this.#select(selection));
    return rows.map((values) => toRow<Tables[Name]>(SHAPES[query.from], values));
  }

  async count<Name extends TableName>(query: Omit<Query<Name>, 'orderBy' | 'descending' | 'limit'>): Promise<number> {
    this.#assertOpen();
    const { table, terms } = toSelection(query as Query<Name>);
    return this.#enqueue(() => this.#matches(table, terms).length);
  }

  async figures(name: LogName): Promise<Figures> {
    this.#assertOpen();
    return this.#enqueue(() => ({ rows: this.#tables[name].rows.size, bytes: this.#tables[name].bytes }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#tail;
  }

  /** From now on every call fails with this reason, as on a disk that is full or gone; `undefined` mends it. */
  failWith(reason: string | undefined): void {
    this.#failure = reason;
  }

  /** What would be on disk now. A store made from it is what a process finds that starts after a crash. */
  snapshot(): MemorySnapshot {
    return Object.fromEntries(
      TABLE_NAMES.map((name) => [name, { rows: [...this.#tables[name].rows.values()], last: this.#tables[name].last }]),
    ) as unknown as MemorySnapshot;
  }

  #assertOpen(): void {
    if (this.#closed) throw storeClosed();
  }

  #enqueue<Result>(task: () => Result): Promise<Result> {
    const result = this.#tail.then(() => {
      if (this.#failure !== undefined) throw storeFailed(this.#failure);
      return task();
    });
    this.#tail = result.catch(() => {});
    return result;
  }

  /** All changes of a call, or none: what was done is undone in reverse when one of them fails. */
  #apply(changes: readonly Change[]): void {
    const undo: (() => void)[] = [];
    try {
      for (const change of changes) this.#change(change, undo);
    } catch (error) {
      for (const step of undo.reverse()) step();
      throw error;
    }
  }

  #change(change: Change, undo: (() => void)[]): void {
    const table = this.#tables[change.table];
    if ('values' in change) {
      const values = this.#number(table, change.values, undo);
      const key = rowKey(table.shape, values);
      if (change.kind === 'insert' && table.rows.has(key)) throw rowExists(change.table, keyOf(table.shape, values));
      replace(table, key, values, undo);
      return;
    }
    for (const values of this.#matches(change.table, change.terms)) {
      const key = rowKey(table.shape, values);
      replace(table, key, change.kind === 'delete' ? undefined : withChanges(values, change.set), undo);
    }
  }

  #number(table: Table, values: Value[], undo: (() => void)[]): Values {
    if (!table.shape.numbered) return values;
    const column = table.shape.key[0]!;
    const before = table.last;
    undo.push(() => {
      table.last = before;
    });
    const number = (values[column] as number) || before + 1;
    table.last = Math.max(before, number);
    return values.with(column, number);
  }

  #select({ table, terms, orderBy, descending, limit }: Selection): Values[] {
    const { shape } = this.#tables[table];
    const order = orderBy === undefined ? shape.key : [orderBy, ...shape.key];
    const direction = descending ? -1 : 1;
    const rows = this.#matches(table, terms).sort((a, b) => direction * compareBy(order, a, b));
    return limit === undefined ? rows : rows.slice(0, limit);
  }

  #matches(name: TableName, terms: readonly Term[]): Values[] {
    const { shape, rows } = this.#tables[name];
    return candidates(shape, rows, terms).filter((values) => terms.every((term) => holds(term, values[term.column]!)));
  }
}

/** A single key that was asked for is looked up; everything else is looked through. */
function candidates(shape: Shape, rows: ReadonlyMap<string, Values>, terms: readonly Term[]): Values[] {
  const term = terms.find(
    ({ column, test }) => shape.key.length === 1 && column === shape.key[0] && /is|in/.test(test),
  );
  if (term === undefined) return [...rows.values()];
  const keys = term.test === 'in' ? [...new Set(term.values)] : [term.value];
  return keys.map((key) => rows.get(JSON.stringify([key]))).filter((values) => values !== undefined);
}

function holds(term: Term, value: Value): boolean {
  if (term.test === 'is') return value === term.value;
  if (term.test === 'in') return term.values.includes(value);
  if (value === null || term.value === null) return false;
  const order = compareValues(value, term.value);
  return term.test === 'above' ? order > 0 : order < 0;
}

function replace(table: Table, key: string, values: Values | undefined, undo: (() => void)[]): void {
  const before = place(table, key, values);
  undo.push(() => place(table, key, before));
}

/** Puts a row in its place, or takes it away; what was there before. */
function place(table: Table, key: string, values: Values | undefined): Values | undefined {
  const before = table.rows.get(key);
  if (values) table.rows.set(key, values);
  else table.rows.delete(key);
  table.bytes += textBytes(values) - textBytes(before);
  return before;
}

function withChanges(values: Values, set: readonly (readonly [number, Value])[]): Values {
  const changed = [...values];
  for (const [column, value] of set) changed[column] = value;
  return changed;
}

function rowKey(shape: Shape, values: Values): string {
  return JSON.stringify(keyOf(shape, values));
}

function textBytes(values: Values = []): number {
  let bytes = 0;
  for (const value of values) if (typeof value === 'string') bytes += Buffer.byteLength(value);
  return bytes;
}

function compareBy(columns: readonly number[], a: Values, b: Values): number {
  for (const column of columns) {
    const order = compareValues(a[column]!, b[column]!);
    if (order !== 0) return order;
  }
  return 0;
}

/** SQLite's order: null first, numbers by size, texts by code point (which is not JavaScript's order). */
function compareValues(a: Value, b: Value): number {
  if (a === b) return 0;
  if (a === null) return -1;
  if (b === null) return 1;
  if (typeof a === 'number' || typeof b === 'number') return (a as number) - (b as number);
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const [left, right] = [a.charCodeAt(index), b.charCodeAt(index)];
    if (left !== right) return codePointRank(left) - codePointRank(right);
  }
  return a.length - b.length;
}

/** UTF-16 puts the halves of the highest code points below some lower ones; this lifts them. */
function codePointRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
