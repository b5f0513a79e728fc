import type { StoredRow } from './bytes.js';
import { arrange, checkQuery, checkValue, matches, type Term, toTerms } from './checks.js';
import { behind, encode, primaryKey, type Tree, treesOf } from './key.js';
import { findRow, type KeyState, type Layer } from './memtable.js';
import type { Condition, Query } from './store.js';
import type { AnyRow, Table, Value } from './table.js';

/** A range of keys of one tree. */
interface Range {
  readonly from: string;
  readonly to: string | undefined;
}

/** How to find rows: the ranges of a tree to scan, and the terms that remain to be checked on each row. */
interface Plan {
  readonly tree: Tree;
  readonly ranges: readonly Range[];
  readonly rest: readonly Term[];
  /** Are the rows of each range in the wanted order? */
  readonly isOrdered: boolean;
  /** Is each range the key of one row? */
  readonly isExact: boolean;
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
  #work = 0;

  constructor(layers: () => readonly Layer[]) {
    this.#layers = layers;
  }

  /** Reads in steps: other tasks may have their turn where it yields, but nothing may be written until it returns. */
  *select(table: Table, query: Query<AnyRow>): Steps<AnyRow[]> {
    checkQuery(table, query);
    const { descending = false, limit = Number.POSITIVE_INFINITY } = query;
    const key = exactKey(table, query);
    if (key !== undefined && limit > 0) {
      const row = findRow(this.#layers(), table, key);
      return row ? [row.read(table)] : [];
    }
    const plan = planFor(table, toTerms(table, query), query);
    const { rest, ranges, isOrdered, isExact } = plan;
    const found: AnyRow[] = [];
    if (!isExact) yield* this.#sort(plan.tree);
    this.#work = 0;
    for (const range of ranges) {
      let left = isOrdered ? limit : Number.POSITIVE_INFINITY;
      if (left === 0) break;
      for (const stored of this.#rows(plan, range, descending)) {
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
    return isOrdered && !isExact && ranges.length === 1 ? found : arrange(table, found, query);
  }

  *count(table: Table, condition: Condition<AnyRow>): Steps<number> {
    const plan = planFor(table, toTerms(table, condition), {});
    let count = 0;
    yield* this.#sort(plan.tree);
    this.#work = 0;
    for (const range of plan.ranges) {
      for (const stored of this.#rows(plan, range, false)) {
        if (!stored) yield;
        else if (plan.rest.length === 0 || matches(table, plan.rest, stored.read(table))) count++;
      }
    }
    return count;
  }

  *#sort(tree: Tree): Steps<void> {
    for (const layer of this.#layers()) while (layer.sortSome?.(tree)) yield;
  }

  /** The rows of a range, and undefined after each step. */
  *#rows({ tree, isExact }: Plan, range: Range, descending: boolean): Generator<StoredRow | undefined, undefined> {
    const { table } = tree;
    if (isExact) {
      const stored = findRow(this.#layers(), table, range.from);
      if (stored) yield stored;
      if (this.#isStep(stored)) yield undefined;
      return;
    }
    for (const { key, live, row } of this.#keys(tree, range, descending)) {
      const stored = live ? (row ?? findRow(this.#layers(), table, primaryKey(tree, key))) : undefined;
      if (stored) yield stored;
      if (this.#isStep(stored)) yield undefined;
    }
    if (this.#isStep(undefined)) yield undefined;
  }

  /** Counts a key, and its row by its size. */
  #isStep(row: StoredRow | undefined): boolean {
    this.#work += 1 + (row ? row.length / ROW_BYTES : 0);
    if (this.#work < STEP_KEYS) return false;
    this.#work = 0;
    return true;
  }

  *keysOf(tree: Tree): Iterable<string> {
    for (const { key, live } of this.#keys(tree, { from: '', to: undefined }, false)) if (live) yield key;
  }

  *countKeys(tree: Tree): Steps<number> {
    let count = 0;
    for (const { live } of this.#keys(tree, { from: '', to: undefined }, false)) {
      if (live) count++;
      if (this.#isStep(undefined)) yield;
    }
    return count;
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

/** The key of the only row that can match, where the condition gives a value for each column of the key and nothing else. */
export function exactKey(table: Table, { where, above, below, containing }: Condition<AnyRow>): string | undefined {
  if (!where || above || below || containing || Object.keys(where).length !== table.key.length) return undefined;
  let key = '';
  for (const column of table.key) {
    const value = where[table.columns[column]!];
    if (typeof value !== 'string' && typeof value !== 'number') return undefined;
    key += encode(checkValue(table, column, value));
  }
  return key;
}

/** The keys of the only rows that can match, where the condition gives values for a key of one column and nothing else. */
export function exactKeys(table: Table, condition: Condition<AnyRow>): string[] | undefined {
  const column = table.key[0]!;
  const values = condition.where?.[table.columns[column]!];
  if (table.key.length > 1 || !Array.isArray(values) || Object.keys(condition.where!).length > 1) {
    const key = exactKey(table, condition);
    return key === undefined ? undefined : [key];
  }
  if (condition.above || condition.below || condition.containing) return undefined;
  toTerms(table, condition);
  return [...new Set(values as Value[])].filter((value) => value !== null).map(encode);
}

/**
 * Chooses the tree whose key begins with the most columns of known value; then one with the order that a limited query wants;
 * then one with a bound on the next column.
 */
function planFor(table: Table, terms: readonly Term[], query: Pick<Query<AnyRow>, 'orderBy' | 'limit'>): Plan {
  let best: Plan | undefined;
  let bestScore = -1;
  for (const tree of treesOf(table)) {
    if (!coversAll(tree, terms)) continue;
    const { plan, score } = planWith(tree, terms, query);
    if (score > bestScore) [best, bestScore] = [plan, score];
  }
  return best!;
}

/** An index leaves out rows with a null: it serves only terms that no such row can match. */
function coversAll({ table, index }: Tree, terms: readonly Term[]): boolean {
  if (index < 0) return true;
  return table.indexes[index]!.every(
    (column) => !table.nullable[column] || terms.some((term) => term.column === column && excludesNull(term)),
  );
}

function excludesNull(term: Term): boolean {
  if (term.test === 'in') return !term.values.includes(null);
  return term.test !== 'is' || term.value !== null;
}

function planWith(
  tree: Tree,
  terms: readonly Term[],
  { orderBy, limit }: Pick<Query<AnyRow>, 'orderBy' | 'limit'>,
): { plan: Plan; score: number } {
  const { columns } = tree;
  const used = new Set<Term>();
  let prefixes = [''];
  let fixed = 0;
  let lists = 0;
  for (; fixed < columns.length; fixed++) {
    const term = terms.find(({ column, test }) => column === columns[fixed] && (test === 'is' || test === 'in'));
    if (!term || (term.test === 'in' && ++lists > 1)) break;
    const values: readonly Value[] =
      term.test === 'in' ? [...new Set(term.values)] : [(term as { value: Value }).value];
    const known = values.filter((value) => value !== null).map(encode);
    prefixes = prefixes.flatMap((prefix) => known.map((part) => prefix + part));
    used.add(term);
  }
  const next = columns[fixed];
  const bounds = terms.filter(({ column, test }) => column === next && (test === 'above' || test === 'below'));
  for (const term of bounds) used.add(term);
  const ranges = prefixes.flatMap((prefix) => rangeOf(prefix, bounds) ?? []);
  const isOrdered = orderBy === undefined ? hasKeyOrder(tree, fixed) : hasOrder(tree, fixed, orderBy);
  const rest = terms.filter((term) => !used.has(term));
  const orderScore = orderBy !== undefined && limit !== undefined ? 3 : 1;
  const score = fixed * 8 + (bounds.length > 0 ? 2 : 0) + (isOrdered ? orderScore : 0);
  const isExact = tree.index < 0 && fixed === columns.length;
  return { plan: { tree, ranges, rest, isOrdered, isExact }, score };
}

function rangeOf(prefix: string, bounds: readonly Term[]): Range | undefined {
  let from: string | undefined = prefix;
  let to = behind(prefix);
  for (const bound of bounds) {
    const { test, value } = bound as Extract<Term, { value: Value }>;
    if (value === null) return undefined;
    const key = prefix + encode(value);
    if (test === 'below') to = to === undefined || key < to ? key : to;
    else if (from !== undefined) {
      const above = behind(key);
      from = above === undefined || above > from ? above : from;
    }
  }
  if (from === undefined || (to !== undefined && from >= to)) return undefined;
  return { from, to };
}

/** Are rows with these first columns fixed in the order of the primary key? */
function hasKeyOrder({ table, index }: Tree, fixed: number): boolean {
  return index < 0 || fixed >= table.indexes[index]!.length;
}

/** Are they in the order of this column, and of the primary key where that is equal? */
function hasOrder(tree: Tree, fixed: number, orderBy: string): boolean {
  const { table, index, columns } = tree;
  const column = table.columns.indexOf(orderBy);
  if (columns.slice(0, fixed).includes(column)) return hasKeyOrder(tree, fixed);
  return columns[fixed] === column && (index < 0 || fixed >= table.indexes[index]!.length - 1);
}
