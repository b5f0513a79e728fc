import { crc32 } from 'node:zlib';
import { storeDamaged } from './faults.js';
import { keyOf, SHAPES, type Shape, TABLE_NAMES } from './shapes.js';
import type { TableName, Value } from './tables.js';

/** Every table has this column beside its own: a checksum over the row. */
export const SUM_COLUMN = '_sum';

/**
 * How a row is kept and read back. SQLite has no checksums of its own, so each row carries one, over the table's name,
 * its numbers, the lengths of its texts, and the texts.
 *
 * Nothing is ever read as text: the binding ends the process when a text is not UTF-8, as one flipped bit can make it.
 * A row comes as numbers, lengths, and one blob with all its texts, and is checked before anybody gets to see it.
 */
interface RowFormat {
  /** The columns of a SELECT that `decode` understands. */
  readonly select: string;
  /** Its checksum, and how many bytes its texts take. */
  sum(values: readonly Value[]): { readonly sum: number; readonly bytes: number };
  /** The row, or STORE_DAMAGED with the table and the key. */
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
      // Node's crc32 of nothing is 0, whatever it is to go on from.
      const sum = body.length === 0 ? crc32(head) : crc32(body, crc32(head));
      if (sum !== raw[width]) {
        const key = keyOf(shape, values);
        throw storeDamaged(file, `the row ${JSON.stringify(key)} of table ${name} is not what was written`, {
          table: name,
          key,
        });
      }
      return values;
    },
  };
}
