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

/** Rows whose columns have these values; a list (of at most 16,384) means any of them. */
type Match<Row> = { readonly [Column in keyof Row]?: Row[Column] | readonly Row[Column][] };

/** The bounds between which every longer text lies that begins with this one. */
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
  /** Rows that are equal in it, and all without it, come in the order of the key. */
  readonly orderBy?: keyof Tables[Name] & string;
  readonly descending?: boolean;
  readonly limit?: number;
}

/** How much a numbered table holds. */
export interface Figures {
  readonly rows: number;
  /** Of its texts, in UTF-8. */
  readonly bytes: number;
}

/**
 * Where a node keeps what must outlive it. Writes of one call happen all or not at all, in the order of the calls, and
 * are on disk when the promise resolves. A read sees every write whose call came before it.
 */
export interface Store {
  write(writes: readonly Write[]): Promise<void>;
  read<Name extends TableName>(query: Query<Name>): Promise<Tables[Name][]>;
  count<Name extends TableName>(query: Omit<Query<Name>, 'orderBy' | 'descending' | 'limit'>): Promise<number>;
  /** Kept along with the rows, so asking costs the same whatever the table's size. */
  figures(name: LogName): Promise<Figures>;
  /** Finishes what was asked, and lets the file go. Afterwards everything is `STORE_FAILED`. */
  close(): Promise<void>;
}

export type { LogName, TableName, Tables };
