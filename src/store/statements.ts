import type { Selection, Term } from './plan.js';
import { ROW_FORMATS, SUM_COLUMN } from './row-format.js';
import { SHAPES, type Shape } from './shapes.js';
import type { TableName, Value } from './tables.js';

/** A statement's text, and what is bound to it. Equal shapes of questions give equal texts, so they can be cached. */
export interface Sql {
  readonly text: string;
  readonly values: readonly Value[];
}

export function createTable(name: TableName): string[] {
  const shape = SHAPES[name];
  const columns = shape.columns.map((column, index) => `"${column}" ${shape.types[index]}`);
  const key = shape.key.map((place) => quote(shape, place)).join(', ');
  return [
    `CREATE TABLE "${name}" (${columns.join(', ')}, "${SUM_COLUMN}" integer NOT NULL, PRIMARY KEY (${key})) STRICT`,
    ...shape.indexes.map(
      (of) => `CREATE INDEX "${name}_${of.join('_')}" ON "${name}" (${of.map((column) => `"${column}"`).join(', ')})`,
    ),
  ];
}

/** Changes nothing when the key is taken; the count of changes says so. */
export const INSERT = statementPerTable((shape) => `${insertInto(shape)} ON CONFLICT DO NOTHING`);

export const PUT = statementPerTable((shape) => {
  const key = shape.key.map((place) => quote(shape, place)).join(', ');
  const set = [...shape.columns.filter((_, place) => !shape.key.includes(place)), SUM_COLUMN];
  const replaced = set.map((column) => `"${column}" = excluded."${column}"`).join(', ');
  return `${insertInto(shape)} ON CONFLICT (${key}) DO UPDATE SET ${replaced}`;
});

export const UPDATE = statementPerTable((shape) => {
  const set = [...shape.columns, SUM_COLUMN].map((column) => `"${column}" = ?`).join(', ');
  return `UPDATE "${shape.name}" SET ${set} WHERE rowid = ?`;
});

export function selectRows(selection: Selection): Sql {
  const { table, orderBy, descending, limit } = selection;
  const shape = SHAPES[table];
  const order = [...new Set(orderBy === undefined ? shape.key : [orderBy, ...shape.key])];
  const where = condition(shape, selection.terms);
  // SQLite rather reads a whole table in the order of its key than sort the few rows that an index finds within bounds.
  // The plus hides the key from that choice.
  const isBounded = selection.terms.some(({ test, column }) => /above|below/.test(test) && !shape.key.includes(column));
  const plus = orderBy === undefined && isBounded ? '+' : '';
  const by = order.map((place) => `${plus}${quote(shape, place)}${descending ? ' DESC' : ''}`).join(', ');
  const text = `SELECT ${ROW_FORMATS[table].select} FROM "${table}"${where.text} ORDER BY ${by}`;
  return limit === undefined
    ? { text, values: where.values }
    : { text: `${text} LIMIT ?`, values: [...where.values, limit] };
}

/** The rows as `selectRows` gives them, each with its rowid behind it. */
export function selectForUpdate(table: TableName, terms: readonly Term[]): Sql {
  const where = condition(SHAPES[table], terms);
  return { text: `SELECT ${ROW_FORMATS[table].select}, rowid FROM "${table}"${where.text}`, values: where.values };
}

export function countRows(table: TableName, terms: readonly Term[]): Sql {
  const where = condition(SHAPES[table], terms);
  return { text: `SELECT count(*) FROM "${table}"${where.text}`, values: where.values };
}

/** How many rows, and how many bytes of text in them. */
export function measureRows(table: TableName, terms: readonly Term[]): Sql {
  const shape = SHAPES[table];
  const where = condition(shape, terms);
  const texts = shape.columns.filter((_, place) => shape.types[place] === 'text');
  const bytes = texts.map((column) => `coalesce(octet_length("${column}"), 0)`).join(' + ');
  return { text: `SELECT count(*), coalesce(sum(${bytes}), 0) FROM "${table}"${where.text}`, values: where.values };
}

export function deleteRows(table: TableName, terms: readonly Term[]): Sql {
  const where = condition(SHAPES[table], terms);
  return { text: `DELETE FROM "${table}"${where.text}`, values: where.values };
}

function condition(shape: Shape, terms: readonly Term[]): Sql {
  if (terms.length === 0) return { text: '', values: [] };
  const values: Value[] = [];
  const parts = terms.map((term) => {
    const column = quote(shape, term.column);
    if (term.test !== 'in') {
      values.push(term.value);
      return `${column} ${{ is: 'IS', above: '>', below: '<' }[term.test]} ?`;
    }
    const wanted = term.values.filter((value) => value !== null);
    const orNull = wanted.length < term.values.length ? ` OR ${column} IS NULL` : '';
    if (wanted.length === 0) return orNull ? `${column} IS NULL` : '0';
    const room = roundUp(wanted.length);
    for (let index = 0; index < room; index++) values.push(wanted[Math.min(index, wanted.length - 1)]!);
    return `(${column} IN (${new Array(room).fill('?').join(',')})${orNull})`;
  });
  return { text: ` WHERE ${parts.join(' AND ')}`, values };
}

/** Lists are filled up to a power of two by repeating the last value, so that few texts serve all lengths. */
function roundUp(length: number): number {
  return 2 ** Math.ceil(Math.log2(length));
}

function insertInto(shape: Shape): string {
  const columns = [...shape.columns, SUM_COLUMN];
  const names = columns.map((column) => `"${column}"`).join(', ');
  return `INSERT INTO "${shape.name}" (${names}) VALUES (${columns.map(() => '?').join(', ')})`;
}

function statementPerTable(make: (shape: Shape) => string): Readonly<Record<TableName, string>> {
  return Object.fromEntries(Object.values(SHAPES).map((shape) => [shape.name, make(shape)])) as Record<
    TableName,
    string
  >;
}

function quote(shape: Shape, place: number): string {
  return `"${shape.columns[place]}"`;
}
