import type { Selection, Term } from './plan.js';
import { SHAPES, type Shape } from './shapes.js';
import type { Value } from './tables.js';

/** What SQLite does with rows in its tables, done with rows in memory. */
type Values = readonly Value[];

export function matches(terms: readonly Term[], values: Values): boolean {
  return terms.every((term) => holds(term, values[term.column]!));
}

/** The keys that terms ask for, when they name keys and nothing else; each of them once. */
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

/** Rows in the order that was asked for, and no more of them. */
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

/** UTF-16 puts the halves of the highest code points below some lower ones; this lifts them. */
function codePointRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
