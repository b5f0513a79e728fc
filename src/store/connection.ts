import Database from 'libsql';
import type { Value } from './tables.js';

const MAX_STATEMENTS = 512;

/** One SQLite connection with a cache of prepared statements. Rows are lists in the order of the columns. */
export class Connection {
  readonly #database: Database.Database;
  readonly #statements = new Map<string, Database.Statement>();

  constructor(file: string, busyMs: number) {
    this.#database = new Database(file);
    this.#database.exec(`PRAGMA busy_timeout = ${busyMs}`);
  }

  get inTransaction(): boolean {
    return this.#database.inTransaction;
  }

  exec(text: string): void {
    this.#database.exec(text);
  }

  /** Uses `get` although there is no row: `run` reports the changes, which takes the binding half as long again. */
  run(text: string, values: readonly Value[] = []): void {
    this.first(text, values);
  }

  /** The first row; much faster than a list of one. */
  first(text: string, values: readonly Value[] = []): unknown[] | undefined {
    try {
      return this.#prepare(text).get(values as Value[]) as unknown[] | undefined;
    } catch (error) {
      // A failed statement would fail again at its next use.
      this.#statements.delete(text);
      throw error;
    }
  }

  all(text: string, values: readonly Value[] = []): unknown[][] {
    return this.#prepare(text).all(values as Value[]) as unknown[][];
  }

  /** Rows one by one; the connection must not be used meanwhile. */
  each(text: string): Iterable<unknown[]> {
    return this.#prepare(text).iterate([]) as Iterable<unknown[]>;
  }

  /** The file itself is released with the last statement, which is when the thread ends. */
  close(): void {
    this.#statements.clear();
    this.#database.close();
  }

  #prepare(text: string): Database.Statement {
    const known = this.#statements.get(text);
    if (known) return known;
    const statement = this.#database.prepare(text);
    if (statement.reader) statement.raw(true);
    if (this.#statements.size >= MAX_STATEMENTS) this.#statements.delete(this.#statements.keys().next().value!);
    this.#statements.set(text, statement);
    return statement;
  }
}
