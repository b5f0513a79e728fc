import { isWellFormed } from '../runtime/text.js';
import { storeFailed } from './faults.js';
import { SHAPES, type Shape } from './shapes.js';
import type { Query, Write } from './store.js';
import type { TableName, Value } from './tables.js';

/**
 * A checked write in one form for both stores. The check is essential: SQLite's binding ends the whole process when it is
 * given a boolean, and text that is not well-formed Unicode would come back changed.
 */
export type Change =
  | { readonly kind: 'put' | 'insert'; readonly table: TableName; readonly values: Value[] }
  | {
      readonly kind: 'update';
      readonly table: TableName;
      readonly terms: readonly Term[];
      readonly set: readonly (readonly [column: number, value: Value])[];
    }
  | { readonly kind: 'delete'; readonly table: TableName; readonly terms: readonly Term[] };

/** One condition on a column, by its index. All terms must hold. */
export type Term =
  | { readonly column: number; readonly test: 'is' | 'above' | 'below'; readonly value: Value }
  | { readonly column: number; readonly test: 'in'; readonly values: readonly Value[] };

export interface Selection {
  readonly table: TableName;
  readonly terms: readonly Term[];
  readonly orderBy: number | undefined;
  readonly descending: boolean;
  readonly limit: number | undefined;
}

type Columns = Readonly<Record<string, unknown>>;
type AnyWrite = Partial<Record<'put' | 'insert' | 'update' | 'delete', TableName>> &
  Partial<Record<'row' | 'where' | 'set' | 'below', Columns>>;

const MAX_LIST = 16_384;

export function toChange(write: Write): Change {
  const given = write as AnyWrite;
  for (const kind of ['put', 'insert'] as const) {
    if (given[kind] !== undefined)
      return { kind, table: given[kind], values: toValues(shape(given[kind]), given.row!) };
  }
  if (given.update !== undefined) {
    const target = shape(given.update);
    const set = Object.entries(given.set!).map(([name, value]) => {
      const column = find(target, name);
      if (target.key.includes(column)) throw storeFailed(`${target.name}.${name} is part of the key; put another row`);
      return [column, toValue(target, column, value)] as const;
    });
    return { kind: 'update', table: target.name, terms: toTerms(target, { where: given.where }), set };
  }
  const target = shape(given.delete!);
  return { kind: 'delete', table: target.name, terms: toTerms(target, given) };
}

export function toSelection<Name extends TableName>(query: Query<Name>): Selection {
  const target = shape(query.from);
  const { limit } = query;
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 0)) {
    throw storeFailed(`a limit of ${limit} makes no sense`);
  }
  return {
    table: target.name,
    terms: toTerms(target, query as { where?: Columns; above?: Columns; below?: Columns }),
    orderBy: query.orderBy === undefined ? undefined : find(target, query.orderBy),
    descending: query.descending ?? false,
    limit,
  };
}

function toTerms(target: Shape, given: { where?: Columns; above?: Columns; below?: Columns }): Term[] {
  const terms: Term[] = [];
  for (const [name, wanted] of Object.entries(given.where ?? {})) {
    const column = find(target, name);
    if (!Array.isArray(wanted)) {
      terms.push({ column, test: 'is', value: toValue(target, column, wanted) });
      continue;
    }
    if (wanted.length > MAX_LIST)
      throw storeFailed(`a list of ${wanted.length} values for ${target.name}.${name} is too long`);
    terms.push({ column, test: 'in', values: wanted.map((value) => toValue(target, column, value)) });
  }
  for (const test of ['above', 'below'] as const) {
    for (const [name, bound] of Object.entries(given[test] ?? {})) {
      const column = find(target, name);
      terms.push({ column, test, value: toValue(target, column, bound) });
    }
  }
  return terms;
}

function toValues(target: Shape, row: Columns): Value[] {
  const { columns, key } = target;
  const values: Value[] = new Array(columns.length);
  for (let column = 0; column < columns.length; column++) {
    values[column] = toValue(target, column, row[columns[column]!]);
  }
  if (Object.keys(row).length > columns.length) for (const name of Object.keys(row)) find(target, name);
  for (const column of key) {
    if (values[column] === null)
      throw storeFailed(`${target.name}.${columns[column]} is of the key; it cannot be null`);
  }
  return values;
}

function toValue(target: Shape, column: number, value: unknown): Value {
  if (value === null) return value;
  const type = target.types[column]!;
  if (type === 'text') {
    if (typeof value === 'string' && isWellFormed(value)) return value;
  } else if (typeof value === 'number' && (type === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value))) {
    // SQLite knows no negative zero.
    return value === 0 ? 0 : value;
  }
  throw storeFailed(`${target.name}.${target.columns[column]} cannot hold what it was given: it is ${type}`);
}

function shape(name: TableName): Shape {
  if (!Object.hasOwn(SHAPES, name)) throw storeFailed(`there is no table ${name}`);
  return SHAPES[name];
}

function find(target: Shape, name: string): number {
  const column = target.columns.indexOf(name);
  if (column < 0) throw storeFailed(`${target.name} has no column ${name}`);
  return column;
}

/** Rows in memory are matched and sorted as SQLite does it. */
type Values = readonly Value[];

export function matches(terms: readonly Term[], values: Values): boolean {
  return terms.every((term) => holds(term, values[term.column]!));
}

/** The distinct keys that terms ask for; undefined where terms contain anything else. */
export function keysAskedFor(shape: Shape, terms: readonly Term[]): Value[][] | undefined {
  const { key } = shape;
  if (terms.length !== key.length) return undefined;
  const [only] = terms;
  if (key.length === 1 && only!.test === 'in' && only!.column === key[0]) {
    return [...new Set(only!.values)].filter((value) => value !== null).map((value) => [value]);
  }
  const wanted: Value[] = [];
  for (const place of key) {
    const term = terms.find(({ column }) => column === place);
    if (term?.test !== 'is') return undefined;
    wanted.push(term.value);
  }
  return wanted.includes(null) ? [] : [wanted];
}

export function arrange({ table, orderBy, descending, limit }: Selection, rows: Values[]): Values[] {
  const { key } = SHAPES[table];
  const order = orderBy === undefined ? key : [orderBy, ...key];
  const direction = descending ? -1 : 1;
  rows.sort((a, b) => direction * compareBy(order, a, b));
  return limit === undefined ? rows : rows.slice(0, limit);
}

function holds(term: Term, value: Value): boolean {
  if (term.test === 'is') return value === term.value;
  if (term.test === 'in') return term.values.includes(value);
  if (value === null || term.value === null) return false;
  const order = compareValues(value, term.value);
  return term.test === 'above' ? order > 0 : order < 0;
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

/** UTF-16 sorts surrogates below some lower code points; this corrects the order. */
function codePointRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
