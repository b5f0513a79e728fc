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

  /** How many rows it changed. */
  run(text: string, values: readonly Value[] = []): number {
    return this.#prepare(text).run(values as Value[]).changes;
  }

  all(text: string, values: readonly Value[] = []): unknown[][] {
    return this.#prepare(text).all(values as Value[]) as unknown[][];
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
