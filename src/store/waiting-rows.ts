import type { TableName, Value } from './tables.js';

/** What tells a row from the others of its table. */
export type RowKey = string | number;

export interface WaitingRow {
  /** The row's key, column by column. */
  readonly key: readonly Value[];
  /** Nothing: the row is to be deleted. */
  readonly values: readonly Value[] | undefined;
  /** Is there certainly no such row in the database? */
  readonly isNew: boolean;
}

type Rows = Map<RowKey, WaitingRow>;

/** Rows as they are to become, by table and key, and the way back to what they were. */
export class WaitingRows {
  #tables = new Map<TableName, Rows>();
  #changes = 0;
  #undo: (() => void)[] = [];

  /** How many changes were counted since the rows were last taken. */
  get changes(): number {
    return this.#changes;
  }

  /** How much there is to take back. */
  get steps(): number {
    return this.#undo.length;
  }

  of(table: TableName): ReadonlyMap<RowKey, WaitingRow> | undefined {
    return this.#tables.get(table);
  }

  /** Nothing: the row is as the database has it. */
  set(table: TableName, key: RowKey, row: WaitingRow | undefined): void {
    const rows = this.#rows(table);
    const before = rows.get(key);
    place(rows, key, row);
    this.#undo.push(() => place(rows, key, before));
  }

  count(): void {
    this.#changes++;
  }

  /** All of them; afterwards there are none. */
  take(): ReadonlyMap<TableName, ReadonlyMap<RowKey, WaitingRow>> {
    const taken = this.#tables;
    const changes = this.#changes;
    this.#tables = new Map();
    this.#changes = 0;
    this.#undo.push(() => {
      this.#tables = taken;
      this.#changes = changes;
    });
    return taken;
  }

  /** What was done is there to stay. */
  keep(): void {
    this.#undo = [];
  }

  /** Takes back everything behind so many steps. */
  rollBack(steps: number): void {
    for (const undo of this.#undo.splice(steps).reverse()) undo();
  }

  #rows(table: TableName): Rows {
    const known = this.#tables.get(table);
    if (known) return known;
    const rows: Rows = new Map();
    this.#tables.set(table, rows);
    return rows;
  }
}

function place(rows: Rows, key: RowKey, row: WaitingRow | undefined): void {
  if (row) rows.set(key, row);
  else rows.delete(key);
}
