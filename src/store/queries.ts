import type { Connection } from './connection.js';
import type { Pending } from './pending.js';
import { arrange, keysAskedFor, matches, type Selection } from './plan.js';
import { keyOf, SHAPES } from './shapes.js';
import { countRows, ROW_FORMATS, selectRows } from './statements.js';
import type { Value } from './tables.js';

/** Reads from the tables and from pending changes. */
export class Queries {
  readonly #file: string;
  readonly #connection: Connection;
  readonly #pending: Pending;

  constructor(file: string, connection: Connection, pending: Pending) {
    this.#file = file;
    this.#connection = connection;
    this.#pending = pending;
  }

  read(selection: Selection): (readonly Value[])[] {
    const { table, terms, limit } = selection;
    if (!this.#pending.has(table)) return this.#select(selection);
    const keys = keysAskedFor(SHAPES[table], terms);
    if (keys) {
      const found = keys.map((key) => this.#pending.find(table, key)?.values);
      return arrange(
        selection,
        found.filter((values) => values !== undefined),
      );
    }
    const waiting = [...this.#pending.of(table)];
    // Each pending row may replace one of the rows that SQLite gives within the limit.
    const hidden = waiting.filter(({ isNew }) => !isNew).length;
    const kept = this.#select({ ...selection, limit: limit === undefined ? undefined : limit + hidden });
    const rows = kept.filter((values) => !this.#pending.holds(table, keyOf(SHAPES[table], values)));
    for (const { values } of waiting) if (values && matches(terms, values)) rows.push(values);
    return arrange(selection, rows);
  }

  count({ table, terms }: Selection): number {
    const { text, values } = countRows(table, terms);
    let count = this.#connection.first(text, values)![0] as number;
    for (const { key, values: now, isNew } of this.#pending.of(table)) {
      if (now && matches(terms, now)) count++;
      const before = isNew ? undefined : this.#pending.kept(table, key);
      if (before && matches(terms, before)) count--;
    }
    return count;
  }

  #select(selection: Selection): (readonly Value[])[] {
    const { text, values } = selectRows(selection);
    const format = ROW_FORMATS[selection.table];
    return this.#connection.all(text, values).map((raw) => format.decode(this.#file, raw));
  }
}
