import type { Connection } from './connection.js';
import { FIGURES_TABLE } from './migrations.js';
import type { Term } from './plan.js';
import { keyOf, SHAPES, TABLE_NAMES } from './shapes.js';
import { deleteRows, INSERT, measureRows, PUT, ROW_FORMATS, selectMatching, updateRow } from './statements.js';
import type { LogName, TableName, Value } from './tables.js';

/**
 * Applies changes to the tables. Changes that find their rows by more than the key also maintain the figures of the logs,
 * after the statement, so that a failed one has changed nothing.
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

  place(table: TableName, values: readonly Value[], isNew: boolean): void {
    const { sum } = ROW_FORMATS[table].sum(values);
    this.#connection.run((isNew ? INSERT : PUT)[table], [...values, sum]);
  }

  remove(table: TableName, terms: readonly Term[]): void {
    const { text, values } = deleteRows(table, terms);
    this.#connection.run(text, values);
  }

  find(table: TableName, terms: readonly Term[]): Value[] | undefined {
    const { text, values } = selectMatching(table, terms);
    const raw = this.#connection.first(text, values);
    return raw && ROW_FORMATS[table].decode(this.#file, raw);
  }

  update(table: TableName, terms: readonly Term[], set: readonly (readonly [number, Value])[]): void {
    const shape = SHAPES[table];
    const format = ROW_FORMATS[table];
    const columns = set.map(([column]) => column);
    const { text, values } = selectMatching(table, terms);
    for (const raw of this.#connection.all(text, values)) {
      const row = format.decode(this.#file, raw);
      const before = format.sum(row).bytes;
      for (const [column, value] of set) row[column] = value;
      const { sum, bytes } = format.sum(row);
      this.#connection.run(updateRow(table, columns), [...set.map(([, value]) => value), sum, ...keyOf(shape, row)]);
      if (shape.numbered) this.#figures.of(table as LogName).bytes += bytes - before;
    }
  }

  delete(table: TableName, terms: readonly Term[]): void {
    const measure = SHAPES[table].numbered ? measureRows(table, terms) : undefined;
    const [rows, bytes] = measure ? (this.#connection.first(measure.text, measure.values) as [number, number]) : [0, 0];
    this.remove(table, terms);
    if (!measure) return;
    const figure = this.#figures.of(table as LogName);
    figure.rows -= rows;
    figure.bytes -= bytes;
  }
}

interface LogFigure {
  rows: number;
  bytes: number;
  last: number;
}

type LogSnapshot = ReadonlyMap<LogName, LogFigure>;

export const LOG_NAMES = TABLE_NAMES.filter((name) => SHAPES[name].numbered) as LogName[];

/** The figures of the numbered tables, pending changes included. */
export class LogFigures {
  readonly #connection: Connection;
  #kept: LogSnapshot = new Map();
  #now: LogSnapshot = new Map();

  constructor(connection: Connection) {
    this.#connection = connection;
    const select = `SELECT rows, bytes, last FROM "${FIGURES_TABLE}" WHERE name = ?`;
    this.#kept = new Map(
      LOG_NAMES.map((name) => {
        const [[rows, bytes, last] = [0, 0, 0]] = connection.all(select, [name]) as [number, number, number][];
        return [name, { rows, bytes, last }];
      }),
    );
    this.#now = copy(this.#kept);
  }

  of(name: LogName): LogFigure {
    return this.#now.get(name)!;
  }

  snapshot(): LogSnapshot {
    return copy(this.#now);
  }

  restore(snapshot: LogSnapshot): void {
    this.#now = snapshot;
  }

  /** Writes the figures in the transaction that brings the tables up to date. */
  flush(): void {
    const update = `UPDATE "${FIGURES_TABLE}" SET rows = ?, bytes = ?, last = ? WHERE name = ?`;
    for (const [name, { rows, bytes, last }] of this.#now) this.#connection.run(update, [rows, bytes, last, name]);
  }

  committed(): void {
    this.#kept = copy(this.#now);
  }

  rolledBack(): void {
    this.#now = copy(this.#kept);
  }
}

function copy(figures: LogSnapshot): LogSnapshot {
  return new Map([...figures].map(([name, figure]) => [name, { ...figure }]));
}
