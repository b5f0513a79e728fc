import { rowExists, storeClosed, storeFailed } from './faults.js';
import {
  arrange,
  type Change,
  keysAskedFor,
  matches,
  type Selection,
  type Term,
  toChange,
  toSelection,
} from './plan.js';
import { keyOf, SHAPES, type Shape, TABLE_NAMES, textBytes, toRow } from './shapes.js';
import type { Figures, Query, Store, Write } from './store.js';
import type { LogName, TableName, Tables, Value } from './tables.js';

type Values = readonly Value[];

interface Table {
  readonly shape: Shape;
  readonly rows: Map<string, Values>;
  last: number;
  bytes: number;
}

/** The content of a store, from which another one can start. */
export type MemorySnapshot = Readonly<Record<TableName, { readonly rows: readonly Values[]; readonly last: number }>>;

/**
 * A store in memory, for nodes without a data folder and for simulation. Calls run in their order, each in a microtask of
 * its own, so it needs no clock, and a snapshot has everything that was acknowledged.
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

  /** Makes every call fail with this reason, as on a full disk; `undefined` ends that. */
  failWith(reason: string | undefined): void {
    this.#failure = reason;
  }

  /** The content that would be on disk now, as a process finds it after a crash. */
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

  /** All changes of a call or none: earlier changes are undone in reverse when one fails. */
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

  #select(selection: Selection): Values[] {
    return arrange(selection, this.#matches(selection.table, selection.terms));
  }

  /** Looks keys up; scans the table for anything else. */
  #matches(name: TableName, terms: readonly Term[]): Values[] {
    const { shape, rows } = this.#tables[name];
    const keys = keysAskedFor(shape, terms);
    if (!keys) return [...rows.values()].filter((values) => matches(terms, values));
    return keys.map((key) => rows.get(JSON.stringify(key))).filter((values) => values !== undefined);
  }
}

function replace(table: Table, key: string, values: Values | undefined, undo: (() => void)[]): void {
  const before = place(table, key, values);
  undo.push(() => place(table, key, before));
}

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
