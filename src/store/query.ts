import { arrange, checkQuery, checkWanted, matches, type Term, toTerms } from './checks.js';
import { behind, encode, primaryKey } from './key.js';
import { findRow, type KeyState, type Layer } from './memtable.js';
import type { StoredRow } from './row.js';
import type { Condition, Query } from './store.js';
import type { AnyRow, Table, Tree, Value } from './table.js';

/** A range of keys of one tree. */
interface Range {
  readonly from: string;
  readonly to: string | undefined;
}

const EVERYTHING: Range = { from: '', to: undefined };

/** How to find rows: the ranges of a tree to scan, and the terms that remain to be checked on each row. */
interface Plan {
  readonly tree: Tree;
  readonly ranges: readonly Range[];
  readonly rest: readonly Term[];
  /** Are the rows of each range in the wanted order? */
  readonly isOrdered: boolean;
}

/** A computation in steps of about a millisecond. */
export type Steps<Result> = Generator<undefined, Result>;

/** More than a usual page of rows, which is then read at once. */
const STEP_KEYS = 1_500;
/** A row counts as one more key for each so many bytes. */
const ROW_BYTES = 2_048;

/** Takes all steps at once. */
export function allSteps<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Reads rows through the layers of a store, newest first. */
export class Queries {
  readonly #layers: () => readonly Layer[];
  /** Keys since the last step. */
  #work = 0;

  constructor(layers: () => readonly Layer[]) {
    this.#layers = layers;
  }

  /** Reads in steps: other tasks may have their turn where it yields, but nothing may be written until it returns. */
  *select(table: Table, query: Query<AnyRow>): Steps<AnyRow[]> {
    checkQuery(table, query);
    this.#work = 0;
    const found: AnyRow[] = [];
    const keys = exactKeys(table, query);
    if (keys) {
      for (const key of keys) {
        const stored = findRow(this.#layers(), table, key);
        if (stored) found.push(stored.read(table));
        if (this.#isStep(stored)) yield;
      }
      return keys.length === 1 && query.limit !== 0 ? found : arrange(table, found, query);
    }
    const { descending = false, limit = Number.POSITIVE_INFINITY } = query;
    const { tree, ranges, rest, isOrdered } = planFor(table, toTerms(table, query), query);
    yield* this.#sort(tree);
    for (const range of ranges) {
      let left = isOrdered ? limit : Number.POSITIVE_INFINITY;
      if (left === 0) break;
      for (const stored of this.rows(tree, range, descending)) {
        if (!stored) {
          yield;
          continue;
        }
        const row = stored.read(table);
        if (!matches(table, rest, row)) continue;
        found.push(row);
        if (--left === 0) break;
      }
    }
    return isOrdered && ranges.length === 1 ? found : arrange(table, found, query);
  }

  *count(table: Table, condition: Condition<AnyRow>): Steps<number> {
    const { tree, ranges, rest } = planFor(table, toTerms(table, condition), {});
    let count = 0;
    yield* this.#sort(tree);
    for (const range of ranges) {
      for (const stored of this.rows(tree, range, false)) {
        if (!stored) yield;
        else if (rest.length === 0 || matches(table, rest, stored.read(table))) count++;
      }
    }
    return count;
  }

  /** The number of keys of a tree, for checks. */
  *countKeys(tree: Tree): Steps<number> {
    let count = 0;
    for (const { live } of this.#keys(tree, EVERYTHING, false)) {
      if (live) count++;
      if (this.#isStep(undefined)) yield;
    }
    return count;
  }

  /** The rows of a range, and undefined after each step. */
  *rows(tree: Tree, range = EVERYTHING, descending = false): Generator<StoredRow | undefined, undefined> {
    for (const { key, live, row } of this.#keys(tree, range, descending)) {
      const stored = live ? (row ?? findRow(this.#layers(), tree.table, primaryKey(tree, key))) : undefined;
      if (stored) yield stored;
      if (this.#isStep(stored)) yield undefined;
    }
    // An empty range takes time as well.
    if (this.#isStep(undefined)) yield undefined;
  }

  *#sort(tree: Tree): Steps<void> {
    for (const layer of this.#layers()) while (layer.sortSome?.(tree)) yield;
  }

  /** Counts a key, and its row by its size. */
  #isStep(row: StoredRow | undefined): boolean {
    this.#work += 1 + (row ? row.length / ROW_BYTES : 0);
    if (this.#work < STEP_KEYS) return false;
    this.#work = 0;
    return true;
  }

  /** The keys of a range, merged from all layers: of equal keys, the newest layer's decides. */
  *#keys(tree: Tree, { from, to }: Range, descending: boolean): Generator<KeyState, undefined> {
    const sources: { readonly keys: Iterator<KeyState, undefined>; now: KeyState }[] = [];
    for (const layer of this.#layers()) {
      const keys = layer.scan(tree, from, to, descending);
      const { value } = keys.next();
      if (value) sources.push({ keys, now: value });
    }
    while (sources.length > 0) {
      let first = sources[0]!;
      for (const source of sources) {
        if (descending ? source.now.key > first.now.key : source.now.key < first.now.key) first = source;
      }
      const { now } = first;
      for (let place = sources.length - 1; place >= 0; place--) {
        const source = sources[place]!;
        if (source.now.key !== now.key) continue;
        const { value } = source.keys.next();
        if (value) source.now = value;
        else sources.splice(place, 1);
      }
      yield now;
    }
  }
}

/** The keys of the only rows that can match, where the condition has values for each column of the key, and nothing else. */
export function exactKeys(table: Table, { where, above, below, containing }: Condition<AnyRow>): string[] | undefined {
  if (!where || above || below || containing || Object.keys(where).length !== table.key.length) return undefined;
  let keys = [''];
  for (const column of table.key) {
    const wanted = where[table.columns[column]!];
    if (wanted === undefined) return undefined;
    const extended = withEach(keys, checkWanted(table, column, wanted));
    if (!extended) return undefined;
    keys = extended;
  }
  return keys;
}

/** Each prefix with each value; undefined where both are several, because the product could be long. */
function withEach(prefixes: readonly string[], values: readonly Value[]): string[] | undefined {
  if (prefixes.length > 1 && values.length > 1) return undefined;
  const keys: string[] = [];
  for (const value of values) {
    if (value === null) continue;
    const part = encode(value);
    for (const prefix of prefixes) keys.push(prefix + part);
  }
  return keys;
}

/**
 * Chooses the tree whose key begins with the most columns of known value; then one with the order that a limited query wants;
 * then one with a bound on the next column.
 */
function planFor(table: Table, terms: readonly Term[], query: Query<AnyRow>): Plan {
  let best: Plan | undefined;
  let bestScore = -1;
  for (const tree of table.trees) {
    if (!coversAll(tree, terms)) continue;
    const { plan, score } = planWith(tree, terms, query);
    if (score > bestScore) [best, bestScore] = [plan, score];
  }
  return best!;
}

/** An index leaves out rows with a null: it serves only terms that no such row can match. */
function coversAll({ table, index }: Tree, terms: readonly Term[]): boolean {
  if (index < 0) return true;
  const excludesNull = (term: Term) => term.test !== 'in' || !term.values.includes(null);
  return table.indexes[index]!.every(
    (column) => !table.nullable[column] || terms.some((term) => term.column === column && excludesNull(term)),
  );
}

function planWith(
  tree: Tree,
  terms: readonly Term[],
  { orderBy, limit }: Query<AnyRow>,
): { plan: Plan; score: number } {
  const { columns } = tree;
  const used = new Set<Term>();
  let prefixes = [''];
  let fixed = 0;
  for (; fixed < columns.length; fixed++) {
    const term = terms.find(({ column, test }) => column === columns[fixed] && test === 'in');
    const extended = term?.test === 'in' && withEach(prefixes, term.values);
    if (!extended) break;
    prefixes = extended;
    used.add(term);
  }
  const bounds = terms.filter((term) => term.column === columns[fixed] && term.test !== 'in');
  for (const term of bounds) used.add(term);
  const ranges = prefixes.flatMap((prefix) => rangeOf(prefix, bounds) ?? []);
  const isOrdered = hasOrder(tree, fixed, orderBy);
  const rest = terms.filter((term) => !used.has(term));
  const orderScore = orderBy !== undefined && limit !== undefined ? 3 : 1;
  const score = fixed * 8 + (bounds.length > 0 ? 2 : 0) + (isOrdered ? orderScore : 0);
  return { plan: { tree, ranges, rest, isOrdered }, score };
}

/** The keys that begin with the prefix and lie within the bounds; undefined where there can be none. */
function rangeOf(prefix: string, bounds: readonly Term[]): Range | undefined {
  let from: string | undefined = prefix;
  let to = behind(prefix);
  for (const term of bounds) {
    const { test, bound } = term as Extract<Term, { bound: unknown }>;
    if (bound === undefined || from === undefined) return undefined;
    const key = prefix + bound;
    if (test === 'below') to = to === undefined || key < to ? key : to;
    else from = behind(key);
  }
  return from === undefined || (to !== undefined && from >= to) ? undefined : { from, to };
}

/** Are rows with these first columns fixed in the order of this column, and of the primary key where that is equal? */
function hasOrder({ table, index, columns }: Tree, fixed: number, orderBy: string | undefined): boolean {
  const column = orderBy === undefined ? -1 : table.columns.indexOf(orderBy);
  const primary = index < 0 ? 0 : table.indexes[index]!.length;
  if (column < 0 || columns.slice(0, fixed).includes(column)) return fixed >= primary;
  return columns[fixed] === column && fixed >= primary - 1;
}
