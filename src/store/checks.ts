import { isWellFormed } from '../runtime/text.js';
import { storeFailed } from './faults.js';
import type { Condition, Query } from './store.js';
import type { AnyRow, Match, Table, Value } from './table.js';

/** One condition on a column, by its position (-1: on several). All terms must hold. */
export type Term =
  | { readonly column: number; readonly test: 'is' | 'above' | 'below'; readonly value: Value }
  | { readonly column: number; readonly test: 'in'; readonly values: readonly Value[] }
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
    if (!Array.isArray(wanted)) {
      terms.push({ column, test: 'is', value: checkValue(table, column, wanted) });
      continue;
    }
    if (wanted.length > MAX_LIST) {
      throw storeFailed(`a list of ${wanted.length} values for ${table.name}.${name} is too long`);
    }
    terms.push({ column, test: 'in', values: wanted.map((value) => checkValue(table, column, value)) });
  }
  for (const [test, bounds] of [['above', above] as const, ['below', below] as const]) {
    for (const [name, bound] of Object.entries(bounds)) {
      const column = find(table, name);
      terms.push({ column, test, value: checkValue(table, column, bound) });
    }
  }
  for (const word of containing?.text.toLowerCase().split(/\s+/u) ?? []) {
    for (const name of containing!.in) find(table, name);
    terms.push({ column: -1, test: 'contains', word, names: containing!.in });
  }
  return terms;
}

export function checkValue(table: Table, column: number, value: unknown): Value {
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
  for (const term of terms) {
    if (term.test === 'contains') {
      if (
        !term.names.some((name) =>
          String(row[name] ?? '')
            .toLowerCase()
            .includes(term.word),
        )
      )
        return false;
    } else if (!holds(term, row[table.columns[term.column]!]!)) return false;
  }
  return true;
}

function holds(term: Exclude<Term, { test: 'contains' }>, value: Value): boolean {
  if (term.test === 'is') return value === term.value;
  if (term.test === 'in') return term.values.includes(value);
  if (value === null || term.value === null) return false;
  const order = compareValues(value, term.value);
  return term.test === 'above' ? order > 0 : order < 0;
}

/** Sorts by a column and then by key, and cuts to the limit. */
export function arrange<Row extends AnyRow>(table: Table, rows: Row[], query: Query<AnyRow>): Row[] {
  const { orderBy, descending, limit } = query;
  const keys = table.key.map((column) => table.columns[column]!);
  const order = orderBy === undefined ? keys : [orderBy, ...keys];
  rows.sort((a, b) => {
    for (const column of order) {
      const difference = compareValues(a[column]!, b[column]!);
      if (difference !== 0) return descending ? -difference : difference;
    }
    return 0;
  });
  return limit === undefined ? rows : rows.slice(0, limit);
}

/** Null first, numbers by size, texts by code point (which is not JavaScript's order). */
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

/** UTF-16 sorts surrogates below some lower code points; this corrects the order. */
function codePointRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
