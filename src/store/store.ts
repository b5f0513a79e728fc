import type { LogName, TableName, Tables } from './tables.js';

/**
 * One change. A `put` replaces the row with the same key; an `insert` fails if there is one (`STORE_FAILED` with
 * `details.conflict`). An `update` may not set a column of the key.
 */
export type Write = { readonly [Name in TableName]: WriteTo<Name> }[TableName];

type WriteTo<Name extends TableName> =
  | { readonly put: Name; readonly row: Tables[Name] }
  | { readonly insert: Name; readonly row: Tables[Name] }
  | { readonly update: Name; readonly where: Match<Tables[Name]>; readonly set: Partial<Tables[Name]> }
  | { readonly delete: Name; readonly where: Match<Tables[Name]>; readonly below?: Partial<Tables[Name]> };

/** Rows whose columns have these values; a list (of at most 16,384) matches any of its values. */
type Match<Row> = { readonly [Column in keyof Row]?: Row[Column] | readonly Row[Column][] };

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

export interface Query<Name extends TableName> {
  readonly from: Name;
  readonly where?: Match<Tables[Name]>;
  /** Only rows whose column is greater than this. */
  readonly above?: Partial<Tables[Name]>;
  /** Only rows whose column is smaller than this. */
  readonly below?: Partial<Tables[Name]>;
  /** Rows with equal values, and all rows without `orderBy`, come in the order of the key. */
  readonly orderBy?: keyof Tables[Name] & string;
  readonly descending?: boolean;
  readonly limit?: number;
}

/** How much a numbered table holds. */
export interface Figures {
  readonly rows: number;
  /** UTF-8 bytes of its texts. */
  readonly bytes: number;
}

/**
 * The durable data of a node. The writes of one call happen all or not at all, in the order of the calls, and are on disk
 * when the promise resolves. A read sees every write whose call came before it.
 */
export interface Store {
  write(writes: readonly Write[]): Promise<void>;
  read<Name extends TableName>(query: Query<Name>): Promise<Tables[Name][]>;
  count<Name extends TableName>(query: Omit<Query<Name>, 'orderBy' | 'descending' | 'limit'>): Promise<number>;
  /** Maintained with the rows, so that the cost does not depend on the table's size. */
  figures(name: LogName): Promise<Figures>;
  /** Finishes pending calls and releases the file. Later calls fail with `STORE_FAILED`. */
  close(): Promise<void>;
}

export type { LogName, TableName, Tables };
