import { indexKey, primaryKey } from './key.js';
import type { StoredRow } from './row.js';
import { SortedKeys } from './sorted-keys.js';
import type { Table, Tree } from './table.js';

/** A row in one layer: the row, null where the layer says that it was deleted, undefined where it says nothing. */
export type Entry = StoredRow | null | undefined;

/** A key of a tree in one layer, and whether its row is there or was deleted. */
export interface KeyState {
  readonly key: string;
  readonly live: boolean;
  /** The row, where the layer has it at hand. */
  readonly row?: StoredRow | undefined;
}

/** A layer of the store: the rows that changed in some span of time. A newer layer hides the same keys of older ones. */
export interface Layer {
  get(table: Table, key: string): Entry;
  /** The keys of a tree in a range, `from` included and `to` not. */
  scan(tree: Tree, from: string, to: string | undefined, descending: boolean): Iterator<KeyState, undefined>;
  /** Brings some more keys of a tree into order before it is scanned; false when all are. */
  sortSome?(tree: Tree): boolean;
}

/** The row in the newest layer that says something about it. */
export function findRow(layers: readonly Layer[], table: Table, key: string): StoredRow | undefined {
  for (const layer of layers) {
    const entry = layer.get(table, key);
    if (entry !== undefined) return entry ?? undefined;
  }
  return undefined;
}

/** Keys that are brought into order before other tasks have their turn. */
const SORTED_AT_ONCE = 1_000;

/**
 * The newest layer, in memory. Keys are sorted, and indexes made, when a range is first read: a message that is stored,
 * delivered and deleted before that costs no more than two changes of a map.
 */
export class Memtable implements Layer {
  readonly #rows = new Map<Table, Map<string, StoredRow | null>>();
  /** The trees that were read. */
  readonly #trees = new Map<Tree, SortedTree>();
  /** The older layers, newest first: the same rows, however they are merged. */
  below: readonly Layer[] = [];

  get isEmpty(): boolean {
    return [...this.#rows.values()].every((rows) => rows.size === 0);
  }

  get(table: Table, key: string): Entry {
    return this.#rows.get(table)?.get(key);
  }

  set(table: Table, key: string, entry: Entry): void {
    const rows = this.#rowsOf(table);
    if (entry !== undefined) rows.set(key, entry);
    else rows.delete(key);
    for (const tree of table.trees) this.#trees.get(tree)?.changed.add(key);
  }

  scan(tree: Tree, from: string, to: string | undefined, descending: boolean): Iterator<KeyState, undefined> {
    const sorted = this.#sorted(tree);
    sorted.sort(Number.POSITIVE_INFINITY);
    return sorted.scan(from, to, descending);
  }

  sortSome(tree: Tree): boolean {
    return this.#sorted(tree).sort(SORTED_AT_ONCE);
  }

  /** All rows of all tables, for a snapshot. */
  *entries(): Iterable<readonly [Table, StoredRow]> {
    for (const [table, rows] of this.#rows) for (const row of rows.values()) if (row) yield [table, row];
  }

  #rowsOf(table: Table): Map<string, StoredRow | null> {
    let rows = this.#rows.get(table);
    if (!rows) {
      rows = new Map();
      this.#rows.set(table, rows);
    }
    return rows;
  }

  #sorted(tree: Tree): SortedTree {
    let sorted = this.#trees.get(tree);
    if (!sorted) {
      sorted = new SortedTree(tree, this.#rowsOf(tree.table), (key) => findRow(this.below, tree.table, key));
      this.#trees.set(tree, sorted);
    }
    return sorted;
  }
}

/**
 * The keys of a tree in order. An index has the key of each row, and the key that the row has in the older layers, which
 * it hides.
 */
class SortedTree {
  /** Primary keys of rows that changed since they were sorted. */
  readonly changed = new Set<string>();
  readonly #tree: Tree;
  readonly #rows: ReadonlyMap<string, StoredRow | null>;
  readonly #below: (key: string) => StoredRow | undefined;
  readonly #keys = new SortedKeys();
  /** Of an index: the key of each sorted row, by primary key; undefined where the row was deleted, or has a null. */
  readonly #live = new Map<string, string | undefined>();
  /** The rows that are still to be sorted for the first time. */
  readonly #unsorted: Iterator<string>;

  constructor(tree: Tree, rows: ReadonlyMap<string, StoredRow | null>, below: (key: string) => StoredRow | undefined) {
    this.#tree = tree;
    this.#rows = rows;
    this.#below = below;
    this.#unsorted = rows.keys();
  }

  *scan(from: string, to: string | undefined, descending: boolean): Generator<KeyState, undefined> {
    const isIndex = this.#tree.index >= 0;
    for (const key of this.#keys.range(from, to, descending)) {
      if (isIndex) {
        yield { key, live: this.#live.get(primaryKey(this.#tree, key)) === key };
      } else {
        const row = this.#rows.get(key);
        yield { key, live: row !== null, row: row ?? undefined };
      }
    }
  }

  /** Sorts as many keys as given. Returns whether some may be left. */
  sort(limit: number): boolean {
    let left = limit;
    for (let next = this.#unsorted.next(); !next.done; next = this.#unsorted.next()) {
      this.#sort(next.value);
      if (--left <= 0) return true;
    }
    for (const key of this.changed) {
      this.changed.delete(key);
      this.#sort(key);
      if (--left <= 0) return true;
    }
    return false;
  }

  #sort(key: string): void {
    const row = this.#rows.get(key);
    if (this.#tree.index < 0) {
      if (row === undefined) this.#keys.delete(key);
      else this.#keys.add(key);
      return;
    }
    // A row that came and went.
    if (row === undefined && !this.#live.has(key)) return;
    const before = this.#live.get(key);
    const now = row ? this.#indexKey(row, key) : undefined;
    const older = this.#below(key);
    const hidden = older && this.#indexKey(older, key);
    if (before !== undefined) this.#keys.delete(before);
    if (now !== undefined) this.#keys.add(now);
    if (row === undefined) this.#live.delete(key);
    else this.#live.set(key, now);
    if (hidden === undefined || hidden === now) return;
    // After an undo, the row is again as in the older layers.
    if (row === undefined) this.#keys.delete(hidden);
    else this.#keys.add(hidden);
  }

  #indexKey(row: StoredRow, key: string): string | undefined {
    return indexKey(this.#tree, row.read(this.#tree.table, this.#tree.table.indexes[this.#tree.index]), key);
  }
}
