import { crc32 } from 'node:zlib';
import { storeDamaged } from './faults.js';
import type { Selection, Term } from './plan.js';
import { keyOf, SHAPES, type Shape, TABLE_NAMES } from './shapes.js';
import type { TableName, Value } from './tables.js';

/** The checksum column that every table has. */
const SUM_COLUMN = '_sum';

/**
 * How a row is stored and read. SQLite has no checksums, so each row has one over the table's name, its numbers, the
 * lengths of its texts, and the texts.
 *
 * Nothing is read as text: the binding ends the process when a text is not UTF-8, which one flipped bit can cause. A row
 * is read as numbers, lengths and one blob with all its texts, and is checked before it is used.
 */
interface RowFormat {
  /** The columns of a SELECT that `decode` understands. */
  readonly select: string;
  /** The checksum of a row, and the bytes of its texts. */
  sum(values: readonly Value[]): { readonly sum: number; readonly bytes: number };
  /** Throws STORE_DAMAGED with the table and the key. */
  decode(file: string, raw: readonly unknown[]): Value[];
}

export const ROW_FORMATS = Object.fromEntries(TABLE_NAMES.map((name) => [name, formatOf(SHAPES[name])])) as Readonly<
  Record<TableName, RowFormat>
>;

function formatOf(shape: Shape): RowFormat {
  const { name, columns, types } = shape;
  const isText = types.map((type) => type === 'text');
  const read = columns.map((column, index) =>
    isText[index] ? `octet_length("${column}")` : `CAST("${column}" AS ${types[index]})`,
  );
  const texts = columns.filter((_, index) => isText[index]).map((column) => `coalesce("${column}", '')`);
  const width = columns.length;

  return {
    select: [...read, `CAST("${SUM_COLUMN}" AS integer)`, `CAST(${texts.join(' || ')} AS blob)`].join(', '),

    sum(values) {
      let head: string = name;
      let body = '';
      let bytes = 0;
      for (let index = 0; index < width; index++) {
        const value = values[index]!;
        if (typeof value === 'string') {
          const length = Buffer.byteLength(value);
          head += `|:${length}`;
          body += value;
          bytes += length;
        } else {
          head += value === null ? '|' : `|${value}`;
        }
      }
      return { sum: crc32(head + body), bytes };
    },

    decode(file, raw) {
      const body = (raw[width + 1] as Buffer | null) ?? Buffer.alloc(0);
      const values: Value[] = new Array(width);
      let head: string = name;
      let offset = 0;
      for (let index = 0; index < width; index++) {
        const value = raw[index] as number | null;
        if (value === null) {
          head += '|';
          values[index] = null;
        } else if (isText[index]) {
          head += `|:${value}`;
          values[index] = body.toString('utf8', offset, offset + value);
          offset += value;
        } else {
          head += `|${value}`;
          values[index] = value;
        }
      }
      // Node's crc32 of nothing is 0, whatever its initial value.
      const sum = body.length === 0 ? crc32(head) : crc32(body, crc32(head));
      if (sum !== raw[width]) {
        const key = keyOf(shape, values);
        throw storeDamaged(file, `the row ${JSON.stringify(key)} of table ${name} has a wrong checksum`, {
          table: name,
          key,
        });
      }
      return values;
    },
  };
}

const MAX_TEXTS = 1_024;

/** The text and bound values of a statement. Queries of the same shape have the same text, so statements can be cached. */
interface Sql {
  readonly text: string;
  readonly values: readonly Value[];
}

export function createTable(name: TableName): string[] {
  const shape = SHAPES[name];
  const columns = shape.columns.map((column, index) => `"${column}" ${shape.types[index]}`);
  // An integer key is the rowid; tables with any other key have no rowid, which saves a second tree.
  const form = shape.numbered ? 'STRICT' : 'STRICT, WITHOUT ROWID';
  return [
    `CREATE TABLE "${name}" (${columns.join(', ')}, "${SUM_COLUMN}" integer NOT NULL, PRIMARY KEY (${keyColumns(shape)})) ${form}`,
    ...shape.indexes.map(
      (of) => `CREATE INDEX "${name}_${of.join('_')}" ON "${name}" (${of.map((column) => `"${column}"`).join(', ')})`,
    ),
  ];
}

export const INSERT = statementPerTable(insertInto);

export const PUT = statementPerTable((shape) => {
  const set = [...shape.columns.filter((_, place) => !shape.key.includes(place)), SUM_COLUMN];
  const replaced = set.map((column) => `"${column}" = excluded."${column}"`).join(', ');
  return `${insertInto(shape)} ON CONFLICT (${keyColumns(shape)}) DO UPDATE SET ${replaced}`;
});

export const SELECT_ALL = statementPerTable(selectFrom);

/** Sets some columns and the checksum of a row: indexes of other columns are not touched. */
export function updateRow(table: TableName, columns: readonly number[]): string {
  return remembered(`update ${table} ${columns}`, () => {
    const shape = SHAPES[table];
    const set = [...columns.map((place) => quote(shape, place)), `"${SUM_COLUMN}"`].map((column) => `${column} = ?`);
    const where = shape.key.map((place) => `${quote(shape, place)} = ?`);
    return `UPDATE "${table}" SET ${set.join(', ')} WHERE ${where.join(' AND ')}`;
  });
}

export function selectRows(selection: Selection): Sql {
  const { table, orderBy, descending, limit } = selection;
  const shape = SHAPES[table];
  const order = [...new Set(orderBy === undefined ? shape.key : [orderBy, ...shape.key])];
  const where = condition(shape, selection.terms);
  // SQLite would read the whole table in key order rather than sort the few rows that an index finds within bounds.
  // The plus prevents that.
  const isBounded = selection.terms.some(({ test, column }) => /above|below/.test(test) && !shape.key.includes(column));
  const plus = orderBy === undefined && isBounded ? '+' : '';
  const by = order.map((place) => `${plus}${quote(shape, place)}${descending ? ' DESC' : ''}`).join(', ');
  const text = `${selectFrom(shape)}${where.text} ORDER BY ${by}`;
  return limit === undefined
    ? { text, values: where.values }
    : { text: `${text} LIMIT ?`, values: [...where.values, limit] };
}

export function selectMatching(table: TableName, terms: readonly Term[]): Sql {
  return withCondition('select', table, terms, selectFrom);
}

export function countRows(table: TableName, terms: readonly Term[]): Sql {
  return withCondition('count', table, terms, () => `SELECT count(*) FROM "${table}"`);
}

export function measureRows(table: TableName, terms: readonly Term[]): Sql {
  return withCondition('measure', table, terms, (shape) => {
    const texts = shape.columns.filter((_, place) => shape.types[place] === 'text');
    const bytes = texts.map((column) => `coalesce(octet_length("${column}"), 0)`).join(' + ');
    return `SELECT count(*), coalesce(sum(${bytes}), 0) FROM "${table}"`;
  });
}

export function deleteRows(table: TableName, terms: readonly Term[]): Sql {
  return withCondition('delete', table, terms, () => `DELETE FROM "${table}"`);
}

function withCondition(verb: string, table: TableName, terms: readonly Term[], make: (shape: Shape) => string): Sql {
  const shape = SHAPES[table];
  // The text of equality conditions, the usual case, is cached.
  let name = `${verb} ${table}`;
  const values: Value[] = [];
  for (const term of terms) {
    if (term.test !== 'is') {
      const where = condition(shape, terms);
      return { text: `${make(shape)}${where.text}`, values: where.values };
    }
    name += ` ${term.column}`;
    values.push(term.value);
  }
  return { text: remembered(name, () => `${make(shape)}${condition(shape, terms).text}`), values };
}

const texts = new Map<string, string>();

function remembered(name: string, make: () => string): string {
  const known = texts.get(name);
  if (known !== undefined) return known;
  const text = make();
  if (texts.size < MAX_TEXTS) texts.set(name, text);
  return text;
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

/** Lists are padded to a power of two with their last value, so that few texts serve all lengths. */
function roundUp(length: number): number {
  return 2 ** Math.ceil(Math.log2(length));
}

function selectFrom({ name }: Shape): string {
  return `SELECT ${ROW_FORMATS[name].select} FROM "${name}"`;
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

function keyColumns(shape: Shape): string {
  return shape.key.map((place) => quote(shape, place)).join(', ');
}
