import type { StoredRow } from './bytes.js';
import { indexKey, type Tree, treesOf } from './key.js';
import { SortedKeys } from './sorted-keys.js';
import type { Table } from './table.js';

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

/**
 * The newest layer, in memory. Keys are sorted, and indexes made, when a range is first read: a message that is stored,
 * delivered and deleted before that costs no more than two changes of a map.
 */
export class Memtable implements Layer {
  readonly #tables = new Map<Table, MemoryRows>();
  /** The older layers, newest first: the same rows, however they are merged. */
  below: readonly Layer[] = [];

  get isEmpty(): boolean {
    return [...this.#tables.values()].every(({ rows }) => rows.size === 0);
  }

  get(table: Table, key: string): Entry {
    return this.#tables.get(table)?.rows.get(key);
  }

  /** `before` is the row that readers see up to now. */
  set(table: Table, key: string, entry: Entry, before: StoredRow | undefined): void {
    let rows = this.#tables.get(table);
    if (!rows) {
      rows = new MemoryRows(table, this);
      this.#tables.set(table, rows);
    }
    rows.set(key, entry, before);
  }

  scan(tree: Tree, from: string, to: string | undefined, descending: boolean): Iterator<KeyState, undefined> {
    return this.#tables.get(tree.table)?.scan(tree, from, to, descending) ?? NOTHING;
  }

  /** Brings all trees that were read up to date, so that they refer to no row that is gone. */
  sortAll(): void {
    for (const rows of this.#tables.values()) rows.sortAll();
  }

  /** Brings some more keys of a tree into order; false when all are. */
  sortSome(tree: Tree): boolean {
    return this.#tables.get(tree.table)?.sort(tree, SORTED_AT_ONCE) ?? false;
  }

  /** All rows of all tables, for a snapshot. */
  *entries(): Iterable<readonly [Table, StoredRow]> {
    for (const [table, { rows }] of this.#tables) for (const row of rows.values()) if (row) yield [table, row];
  }
}

/** Keys that are brought into order before other tasks have their turn. */
const SORTED_AT_ONCE = 1_000;

const NOTHING: Iterator<KeyState, undefined> = { next: () => ({ done: true, value: undefined }) };

/** The keys of a tree in order, once a range of it was read. */
interface SortedTree {
  readonly tree: Tree;
  readonly sorted: SortedKeys;
  /** Of an index: whether a key is live or hides one of an older layer. */
  readonly live: Map<string, boolean>;
  /** The rows that are still to be sorted when the tree is first read. */
  unsorted: IterableIterator<string> | undefined;
  /** Rows that changed since the tree was read, by key, as the tree has them; undefined for a tree that was never read. */
  changed: Map<string, StoredRow | undefined> | undefined;
}

class MemoryRows {
  readonly rows = new Map<string, StoredRow | null>();
  readonly #table: Table;
  readonly #owner: Memtable;
  readonly #trees: readonly SortedTree[];
  /** Rows that changed since a tree was last read; undefined while none was. */
  #changed: Map<string, StoredRow | undefined> | undefined;

  constructor(table: Table, owner: Memtable) {
    this.#table = table;
    this.#owner = owner;
    this.#trees = treesOf(table).map((tree) => {
      return { tree, sorted: new SortedKeys(), live: new Map(), unsorted: undefined, changed: undefined };
    });
  }

  set(key: string, entry: Entry, before: StoredRow | undefined): void {
    if (entry !== undefined) this.rows.set(key, entry);
    else this.rows.delete(key);
    if (!this.#changed) return;
    // No tree has seen a row that came and went.
    if (entry === undefined && this.#changed.get(key) === undefined && this.#changed.delete(key)) return;
    if (!this.#changed.has(key)) this.#changed.set(key, before);
  }

  *scan(tree: Tree, from: string, to: string | undefined, descending: boolean): Generator<KeyState, undefined> {
    this.sort(tree);
    const { sorted, live } = this.#trees[tree.index + 1]!;
    for (const key of sorted.range(from, to, descending)) {
      const row = tree.index < 0 ? this.rows.get(key) : undefined;
      yield { key, live: tree.index < 0 ? row !== null : live.get(key)!, row: row ?? undefined };
    }
  }

  /** Brings a tree up to date, or as many keys of it as given. Returns whether some are left. */
  sort({ index }: Tree, limit = Number.POSITIVE_INFINITY): boolean {
    const sortedTree = this.#trees[index + 1]!;
    this.#shareChanges();
    if (!sortedTree.changed) {
      sortedTree.changed = new Map();
      sortedTree.unsorted = this.rows.keys();
    }
    let left = limit;
    for (const key of sortedTree.unsorted ?? []) {
      this.#sortKey(sortedTree, key, findRow(this.#owner.below, this.#table, key));
      if (--left <= 0) return true;
    }
    sortedTree.unsorted = undefined;
    for (const [key, before] of sortedTree.changed) {
      sortedTree.changed.delete(key);
      this.#sortKey(sortedTree, key, before);
      if (--left <= 0) return true;
    }
    return false;
  }

  sortAll(): void {
    for (const { tree, changed } of this.#trees) if (changed) this.sort(tree);
  }

  #shareChanges(): void {
    for (const { changed } of this.#trees) {
      if (!changed) continue;
      for (const [key, before] of this.#changed ?? []) if (!changed.has(key)) changed.set(key, before);
    }
    this.#changed = new Map();
  }

  /** `before` is the row that the tree has, from this layer or an older one. */
  #sortKey({ tree, sorted, live }: SortedTree, key: string, before: StoredRow | undefined): void {
    const entry = this.rows.get(key);
    if (tree.index < 0) {
      if (entry === undefined) sorted.delete(key);
      else sorted.add(key);
      return;
    }
    const below = entry === undefined || before ? findRow(this.#owner.below, this.#table, key) : undefined;
    const old = before && keyIn(tree, before, key);
    const now = entry === undefined ? below : entry;
    const fresh = now ? keyIn(tree, now, key) : undefined;
    if (old === fresh) return;
    if (old !== undefined) {
      // A key that an older layer has must be hidden; any other is forgotten.
      if (below && keyIn(tree, below, key) === old) {
        live.set(old, false);
        sorted.add(old);
      } else {
        live.delete(old);
        sorted.delete(old);
      }
    }
    if (fresh !== undefined) {
      live.set(fresh, true);
      sorted.add(fresh);
    }
  }
}

function keyIn(tree: Tree, row: StoredRow, key: string): string | undefined {
  return indexKey(tree, row.read(tree.table, tree.table.indexes[tree.index]), key);
}
