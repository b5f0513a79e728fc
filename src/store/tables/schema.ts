/** A value of a column. */
export type Value = string | number | null;

export type ColumnType = 'text' | 'integer' | 'real';

/** A column that may hold null has a question mark. */
type Columns = Readonly<Record<string, ColumnType | `${ColumnType}?`>>;

export interface TableSchema<C extends Columns = Columns> {
  readonly columns: C;
  /**
   * The primary key. Where it is a single integer column, the store numbers rows with 0: one more than the highest number
   * ever used, so that a number is never reused, even when its row was deleted.
   */
  readonly key: readonly string[];
  readonly indexes?: readonly (readonly string[])[];
}

export function table<const C extends Columns, Name extends keyof C & string>(schema: {
  columns: C;
  key: readonly Name[];
  indexes?: readonly (readonly Name[])[];
}): TableSchema<C> {
  return schema;
}

/** The type of a table's rows. */
export type RowOf<Schema extends TableSchema> = {
  readonly [Column in keyof Schema['columns']]: ValueOf<Schema['columns'][Column]>;
};

type ValueOf<Type> = Type extends `${infer Base}?` ? ValueOf<Base> | null : Type extends 'text' ? string : number;
