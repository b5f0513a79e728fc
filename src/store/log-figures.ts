import type { Connection } from './connection.js';
import { FIGURES_TABLE } from './migrations.js';
import { SHAPES, TABLE_NAMES } from './shapes.js';
import type { LogName } from './tables.js';

interface LogFigure {
  rows: number;
  bytes: number;
  /** The highest number ever given. */
  last: number;
}

type LogSnapshot = ReadonlyMap<LogName, LogFigure>;

export const LOG_NAMES = TABLE_NAMES.filter((name) => SHAPES[name].numbered) as LogName[];

/** The figures of the logs, ahead of the database by what waits to be written to their tables. */
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

  /** Writes them into the transaction, for the tables are now as they say. */
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
