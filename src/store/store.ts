import type { EclipticError } from '../runtime/errors.js';
import type { Match, RowOf, Table, Write } from './table.js';

export type { Table, Write };

/** Bounds for all longer texts with this prefix. */
export function beginningWith<Column extends string>(
  column: Column,
  prefix: string,
): { above: Record<Column, string>; below: Record<Column, string> } {
  return {
    above: { [column]: prefix } as Record<Column, string>,
    below: { [column]: `${prefix}\u{10ffff}` } as Record<Column, string>,
  };
}

/** The rows to count. */
export interface Condition<Row> {
  readonly where?: Match<Row>;
  /** Only rows whose column is greater than this. */
  readonly above?: Partial<Row>;
  /** Only rows whose column is smaller than this. */
  readonly below?: Partial<Row>;
  /** Only rows with each word of the text in one of the columns, in upper or lower case. There is no index for this. */
  readonly containing?: { readonly text: string; readonly in: readonly (keyof Row & string)[] };
}

/** The rows to read. */
export interface Query<Row> extends Condition<Row> {
  /** Rows with equal values, and all rows without `orderBy`, come in the order of the key. */
  readonly orderBy?: keyof Row & string;
  readonly descending?: boolean;
  readonly limit?: number;
}

/** How much a numbered table holds. */
export interface Figures {
  readonly rows: number;
  /** UTF-8 bytes of its texts. */
  readonly bytes: number;
}

/** A write of so many bytes shows that a disk which was full has room again. */
export const PROVING_BYTES = 16_384;

/** The files of a store, and what failed. */
export interface StoreState {
  readonly logs: number;
  readonly logBytes: number;
  readonly runs: number;
  readonly runBytes: number;
  readonly failedWrites: number;
  readonly failedFlushes: number;
  /** The error of the latest write that failed; undefined once one succeeds, after a full disk one that is not small. */
  readonly failure: EclipticError | undefined;
}

/**
 * The durable data of a node. The writes of one call happen all or not at all, in the order of the calls, and are on disk
 * when the promise resolves. A read sees every write whose call came before it, and returns when those are on disk.
 */
export interface Store {
  write(writes: readonly Write[]): Promise<void>;
  /** As `write`, for callers with many writes under way: a callback costs less than a promise. */
  commit(writes: readonly Write[], done: (error?: unknown) => void): void;
  read<T extends Table>(table: T, query?: Query<RowOf<T>>): Promise<RowOf<T>[]>;
  count<T extends Table>(table: T, condition?: Condition<RowOf<T>>): Promise<number>;
  /** Of a table that the store numbers. Maintained with the rows, so that the cost does not depend on the table's size. */
  figures(table: Table): Promise<Figures>;
  state?(): StoreState;
  /** Finishes pending calls and releases the files. Later calls fail with `STORE_FAILED`. */
  close(): Promise<void>;
}
