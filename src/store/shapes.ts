import type { TableSchema } from './tables/schema.js';
import { type ColumnType, TABLES, type TableName, type Value } from './tables.js';

/** A table in the form that the stores use: a row is the list of its values in the order of the columns. */
export interface Shape {
  readonly name: TableName;
  readonly columns: readonly string[];
  readonly types: readonly ColumnType[];
  readonly key: readonly number[];
  /** Does the store number the rows? Then the key is the single column `key[0]`. */
  readonly numbered: boolean;
  readonly indexes: readonly (readonly string[])[];
}

export const TABLE_NAMES = Object.keys(TABLES) as TableName[];

export const SHAPES = Object.fromEntries(TABLE_NAMES.map((name) => [name, shapeOf(name)])) as Readonly<
  Record<TableName, Shape>
>;

function shapeOf(name: TableName): Shape {
  const schema: TableSchema = TABLES[name];
  const columns = Object.keys(schema.columns);
  return {
    name,
    columns,
    types: Object.values(schema.columns).map((type) => type.replace('?', '') as ColumnType),
    key: schema.key.map((column) => columns.indexOf(column)),
    numbered: schema.key.length === 1 && schema.columns[schema.key[0]!] === 'integer',
    indexes: schema.indexes ?? [],
  };
}

export function keyOf(shape: Shape, values: readonly Value[]): Value[] {
  return shape.key.map((index) => values[index]!);
}

export function toRow<Row>(shape: Shape, values: readonly Value[]): Row {
  const row: Record<string, Value> = {};
  for (let index = 0; index < shape.columns.length; index++) row[shape.columns[index]!] = values[index]!;
  return row as Row;
}

export function textBytes(values: readonly Value[] = []): number {
  let bytes = 0;
  for (const value of values) if (typeof value === 'string') bytes += Buffer.byteLength(value);
  return bytes;
}
