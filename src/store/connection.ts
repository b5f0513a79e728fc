import Database from 'libsql';
import type { Value } from './tables.js';

const MAX_STATEMENTS = 512;

/** One connection of SQLite, with its statements kept ready. It gives rows as lists, in the order of the columns. */
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

  /** Asks for a row where there is none: an account of what changed would take the binding half as long again. */
  run(text: string, values: readonly Value[] = []): void {
    this.first(text, values);
  }

  /** The only row, if there is one; much faster than a list of one. */
  first(text: string, values: readonly Value[] = []): unknown[] | undefined {
    try {
      return this.#prepare(text).get(values as Value[]) as unknown[] | undefined;
    } catch (error) {
      // A statement that failed would fail once more the next time, for the same reason.
      this.#statements.delete(text);
      throw error;
    }
  }

  all(text: string, values: readonly Value[] = []): unknown[][] {
    return this.#prepare(text).all(values as Value[]) as unknown[][];
  }

  /** One row after the other; nothing else may be asked meanwhile. */
  each(text: string): Iterable<unknown[]> {
    return this.#prepare(text).iterate([]) as Iterable<unknown[]>;
  }

  /** The file itself is let go when the statements are gone too, which is when the thread ends. */
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
