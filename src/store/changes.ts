import type { Connection } from './connection.js';
import { rowExists } from './faults.js';
import type { LogFigures } from './log-figures.js';
import type { Change, Term } from './plan.js';
import { ROW_FORMATS } from './row-format.js';
import { keyOf, SHAPES } from './shapes.js';
import { deleteRows, INSERT, measureRows, PUT, selectForUpdate, UPDATE } from './statements.js';
import type { Figures } from './store.js';
import type { LogName, TableName, Value } from './tables.js';

const NOTHING: Figures = { rows: 0, bytes: 0 };

/**
 * Carries changes out in the transaction that is open, and keeps the logs' figures along with them: they change after
 * the statement, so that one that fails has changed nothing.
 */
export class Changes {
  readonly #file: string;
  readonly #connection: Connection;
  readonly #figures: LogFigures;

  constructor(file: string, connection: Connection, figures: LogFigures) {
    this.#file = file;
    this.#connection = connection;
    this.#figures = figures;
  }

  apply(change: Change): void {
    if (change.kind === 'delete') this.#delete(change.table, change.terms);
    else if (change.kind === 'update') this.#update(change.table, change.terms, change.set);
    else if (SHAPES[change.table].numbered) this.#addToLog(change.kind, change.table as LogName, change.values);
    else this.#add(change.kind, change.table, change.values);
  }

  /** Adds or replaces a row; how many bytes of text it has. */
  #add(kind: 'put' | 'insert', table: TableName, values: readonly Value[]): number {
    const { sum, bytes } = ROW_FORMATS[table].sum(values);
    const changed = this.#connection.run((kind === 'put' ? PUT : INSERT)[table], [...values, sum]);
    if (changed === 0) throw rowExists(table, keyOf(SHAPES[table], values));
    return bytes;
  }

  #addToLog(kind: 'put' | 'insert', log: LogName, given: readonly Value[]): void {
    const figure = this.#figures.of(log);
    const place = SHAPES[log].key[0]!;
    // The given values stay as they are: when the whole group fails, they are taken again.
    const values = given.slice();
    values[place] = (given[place] as number) || figure.last + 1;
    const number = values[place] as number;
    const replaced = kind === 'put' && number <= figure.last ? this.#measure(log, [is(place, number)]) : NOTHING;
    const bytes = this.#add(kind, log, values);
    figure.rows += 1 - replaced.rows;
    figure.bytes += bytes - replaced.bytes;
    figure.last = Math.max(figure.last, number);
  }

  #update(table: TableName, terms: readonly Term[], set: readonly (readonly [number, Value])[]): void {
    const format = ROW_FORMATS[table];
    const { text, values } = selectForUpdate(table, terms);
    for (const raw of this.#connection.all(text, values)) {
      const row = format.decode(this.#file, raw);
      const before = format.sum(row).bytes;
      for (const [column, value] of set) row[column] = value;
      const { sum, bytes } = format.sum(row);
      this.#connection.run(UPDATE[table], [...row, sum, raw.at(-1) as number]);
      if (SHAPES[table].numbered) this.#figures.of(table as LogName).bytes += bytes - before;
    }
  }

  #delete(table: TableName, terms: readonly Term[]): void {
    const { text, values } = deleteRows(table, terms);
    if (!SHAPES[table].numbered) {
      this.#connection.run(text, values);
      return;
    }
    const figure = this.#figures.of(table as LogName);
    const { rows, bytes } = this.#measure(table as LogName, terms);
    this.#connection.run(text, values);
    figure.rows -= rows;
    figure.bytes -= bytes;
  }

  #measure(log: LogName, terms: readonly Term[]): Figures {
    const { text, values } = measureRows(log, terms);
    const [[rows, bytes]] = this.#connection.all(text, values) as [[number, number]];
    return { rows, bytes };
  }
}

function is(column: number, value: Value): Term {
  return { column, test: 'is', value };
}
