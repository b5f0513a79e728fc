/** A value of a column. */
export type Value = string | number | null;

export type ColumnType = 'text' | 'integer' | 'real';

/** A column that may hold null has a question mark. */
type Columns = Readonly<Record<string, ColumnType | `${ColumnType}?`>>;

type RowOfColumns<C extends Columns> = { readonly [Name in keyof C]: ValueOf<C[Name]> };

type ValueOf<Type> = Type extends `${infer Base}?` ? ValueOf<Base> | null : Type extends 'text' ? string : number;

/** Any row, as the store handles it. */
export type AnyRow = Readonly<Record<string, Value>>;

/** Rows whose columns have these values; a list (of at most 16,384) matches any of its values. */
export type Match<Row> = { readonly [Column in keyof Row]?: Row[Column] | readonly Row[Column][] };

/**
 * One change. A `put` replaces the row with the same key; an `insert` fails if there is one (`STORE_FAILED` with
 * `details.conflict`). An `update` may not set a column of the key.
 */
export type Write =
  | { readonly kind: 'put' | 'insert'; readonly table: Table; readonly row: AnyRow }
  | { readonly kind: 'update'; readonly table: Table; readonly where: Match<AnyRow>; readonly set: Partial<AnyRow> }
  | { readonly kind: 'delete'; readonly table: Table; readonly where: Match<AnyRow>; readonly below?: Partial<AnyRow> };

export interface TableDefinition<C extends Columns = Columns> {
  readonly columns: C;
  /**
   * The primary key. Where it is a single integer column, the store numbers rows with 0: one more than the highest number
   * ever used, so that a number is never reused, even when its row was deleted.
   */
  readonly key: readonly (keyof C & string)[];
  /** A row with a null in a column of an index is not in that index. */
  readonly indexes?: readonly (readonly (keyof C & string)[])[];
}

/** One ordered set of keys of a table: its rows by primary key, or one of its indexes. */
export interface Tree {
  readonly table: Table;
  /** -1 for the rows, otherwise the position of the index. */
  readonly index: number;
  /** In files. It has the columns, so an index of other columns is another tree. */
  readonly name: string;
  /** The columns of the key: those of the index, then those of the primary key. */
  readonly columns: readonly number[];
}

/** A table: its schema, and the changes that can be made to its rows. The type parameter is the type of a row. */
// biome-ignore lint/suspicious/noExplicitAny: a list of tables has tables of any row type
export class Table<Row = any> {
  readonly name: string;
  readonly columns: readonly string[];
  readonly types: readonly ColumnType[];
  readonly nullable: readonly boolean[];
  readonly key: readonly number[];
  readonly indexes: readonly (readonly number[])[];
  /** The column with the row's number, where the store numbers the rows; otherwise -1. */
  readonly numberColumn: number;
  /** Rows first. */
  readonly trees: readonly Tree[];
  /** As it was given, for the store's own records. */
  readonly definition: Required<TableDefinition>;
  declare readonly row: Row;

  constructor(name: string, { columns, key, indexes = [] }: TableDefinition) {
    this.definition = { columns, key, indexes };
    const names = Object.keys(columns);
    const types = Object.values(columns);
    const place = (column: string) => names.indexOf(column);
    this.name = name;
    this.columns = names;
    this.types = types.map((type) => type.replace('?', '') as ColumnType);
    this.nullable = types.map((type) => type.endsWith('?'));
    this.key = key.map(place);
    this.indexes = indexes.map((index) => index.map(place));
    this.numberColumn = key.length === 1 && columns[key[0]!] === 'integer' ? this.key[0]! : -1;
    this.trees = [
      { table: this, index: -1, name, columns: this.key },
      ...this.indexes.map((index, place) => {
        return {
          table: this,
          index: place,
          name: `${name}(${indexes[place]!.join()})`,
          columns: [...index, ...this.key],
        };
      }),
    ];
  }

  put(row: Row): Write {
    return { kind: 'put', table: this, row: row as AnyRow };
  }

  insert(row: Row): Write {
    return { kind: 'insert', table: this, row: row as AnyRow };
  }

  update(where: Match<Row>, set: Partial<Row>): Write {
    return { kind: 'update', table: this, where: where as Match<AnyRow>, set: set as Partial<AnyRow> };
  }

  /** Deletes the rows that match and, with `below`, whose column is smaller. */
  delete(where: Match<Row>, below?: Partial<Row>): Write {
    const match = where as Match<AnyRow>;
    if (below === undefined) return { kind: 'delete', table: this, where: match };
    return { kind: 'delete', table: this, where: match, below: below as Partial<AnyRow> };
  }
}

/** Defines a table. Its name is on disk: renaming a table, or changing its columns, needs a migration. */
export function defineTable<const C extends Columns>(
  name: string,
  definition: TableDefinition<C>,
): Table<RowOfColumns<C>> {
  return new Table(name, definition as unknown as TableDefinition);
}

/** The type of a table's rows. */
export type RowOf<T extends Table> = T['row'];
