import { isWellFormed } from '../runtime/text.js';
import { storeFailed } from './faults.js';
import { encode, rowKey } from './key.js';
import type { Condition, Query } from './store.js';
import type { AnyRow, Match, Table, Value } from './table.js';

/** One condition on a column, by its position (-1: on several). All terms must hold. */
export type Term =
  | { readonly column: number; readonly test: 'in'; readonly values: readonly Value[] }
  /** The bound is encoded as in keys; no value is above or below null. */
  | { readonly column: number; readonly test: 'above' | 'below'; readonly bound: string | undefined }
  | { readonly column: -1; readonly test: 'contains'; readonly word: string; readonly names: readonly string[] };

const MAX_LIST = 16_384;

/**
 * Checks that a row has exactly the columns of its table, with values that will be read back unchanged. Returns the row,
 * with zero for negative zero.
 */
export function checkRow(table: Table, row: AnyRow): AnyRow {
  const { columns, key } = table;
  let checked = row;
  let count = 0;
  for (const name in row) {
    // Most rows list their columns in order, and need no search.
    const column = columns[count] === name ? count : find(table, name);
    if (Object.is(checkValue(table, column, row[name]), -0)) checked = { ...checked, [name]: 0 };
    count++;
  }
  if (count < columns.length) {
    const missing = columns.find((name) => row[name] === undefined);
    throw storeFailed(`${table.name}.${missing} has no value`);
  }
  for (const column of key) {
    if (row[columns[column]!] === null) {
      throw storeFailed(`${table.name}.${columns[column]} is part of the key and cannot be null`);
    }
  }
  return checked;
}

export function checkSet(table: Table, set: Partial<AnyRow>): void {
  for (const name of Object.keys(set)) {
    const column = find(table, name);
    if (table.key.includes(column)) throw storeFailed(`${table.name}.${name} is part of the key; put another row`);
    checkValue(table, column, set[name]);
  }
}

export function checkQuery(table: Table, { orderBy, limit }: Query<AnyRow>): void {
  if (orderBy !== undefined) find(table, orderBy);
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 0)) {
    throw storeFailed(`a limit of ${limit} makes no sense`);
  }
}

export function toTerms(table: Table, condition: Condition<AnyRow>): Term[] {
  const { where = {}, above = {}, below = {}, containing } = condition;
  const terms: Term[] = [];
  for (const [name, wanted] of Object.entries(where as Match<AnyRow>)) {
    const column = find(table, name);
    terms.push({ column, test: 'in', values: checkWanted(table, column, wanted) });
  }
  for (const [test, bounds] of [['above', above] as const, ['below', below] as const]) {
    for (const [name, value] of Object.entries(bounds)) {
      const column = find(table, name);
      const bound = checkValue(table, column, value);
      terms.push({ column, test, bound: bound === null ? undefined : encode(bound) });
    }
  }
  for (const word of containing?.text.toLowerCase().split(/\s+/u) ?? []) {
    for (const name of containing!.in) find(table, name);
    terms.push({ column: -1, test: 'contains', word, names: containing!.in });
  }
  return terms;
}

/** The values that a column may have, each once. */
export function checkWanted(table: Table, column: number, wanted: Value | readonly Value[] | undefined): Value[] {
  if (!Array.isArray(wanted)) return [checkValue(table, column, wanted)];
  if (wanted.length > MAX_LIST) {
    throw storeFailed(`a list of ${wanted.length} values for ${table.name}.${table.columns[column]} is too long`);
  }
  return [...new Set(wanted.map((value) => checkValue(table, column, value)))];
}

function checkValue(table: Table, column: number, value: unknown): Value {
  const type = table.types[column]!;
  if (type === 'text') {
    if (value === null || (typeof value === 'string' && isWellFormed(value))) return value;
  } else if (value === null || (type === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value))) {
    return value as number | null;
  }
  throw storeFailed(`${table.name}.${table.columns[column]} cannot hold this value: the column is ${type}`);
}

function find(table: Table, name: string): number {
  const column = table.columns.indexOf(name);
  if (column < 0) throw storeFailed(`${table.name} has no column ${name}`);
  return column;
}

export function matches(table: Table, terms: readonly Term[], row: AnyRow): boolean {
  return terms.every((term) => {
    if (term.test === 'contains') return term.names.some((name) => contains(row[name] ?? '', term.word));
    const value = row[table.columns[term.column]!]!;
    if (term.test === 'in') return term.values.includes(value);
    if (value === null || term.bound === undefined) return false;
    const key = encode(value);
    return term.test === 'above' ? key > term.bound : key < term.bound;
  });
}

function contains(value: string | number, word: string): boolean {
  return String(value).toLowerCase().includes(word);
}

/** Sorts by a column (null first) and then by key, and cuts to the limit. */
export function arrange(table: Table, rows: AnyRow[], { orderBy, descending, limit }: Query<AnyRow>): AnyRow[] {
  const sortKey = (row: AnyRow) => {
    if (orderBy === undefined) return rowKey(table, row);
    const value = row[orderBy]!;
    return (value === null ? '0' : `1${encode(value)}`) + rowKey(table, row);
  };
  const keyed = rows.map((row) => ({ row, key: sortKey(row) }));
  keyed.sort((a, b) => (a.key < b.key === !descending ? -1 : 1));
  return keyed.slice(0, limit).map(({ row }) => row);
}
