import type { AnyRow, Table, Value } from './table.js';

/**
 * Keys are strings of bytes (characters up to U+00FF) that sort like the values that they encode: numbers by size, texts by
 * code point. A text ends with `00 01`; a zero byte inside it becomes `00 ff`. Compared as strings, written as Latin-1.
 */
const TEXT_END = '\u0000\u0001';
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII but zero
const PLAIN = /^[\u0001-\u007f]*$/;

/** One ordered set of keys of a table: its rows by primary key, or one of its indexes. */
export interface Tree {
  readonly table: Table;
  /** -1 for the rows, otherwise the position of the index. */
  readonly index: number;
  /** The columns of the key: those of the index, then those of the primary key. */
  readonly columns: readonly number[];
}

const trees = new WeakMap<Table, readonly Tree[]>();

/** The trees of a table, rows first. */
export function treesOf(table: Table): readonly Tree[] {
  let found = trees.get(table);
  if (!found) {
    const indexes = table.indexes.map((index, place) => ({ table, index: place, columns: [...index, ...table.key] }));
    found = [{ table, index: -1, columns: table.key }, ...indexes];
    trees.set(table, found);
  }
  return found;
}

export function rowKey(table: Table, row: AnyRow): string {
  if (table.key.length === 1) return encode(row[table.columns[table.key[0]!]!]!);
  let key = '';
  for (const column of table.key) key += encode(row[table.columns[column]!]!);
  return key;
}

/** The key of a row in an index; undefined where a null keeps the row out of it. */
export function indexKey({ table, index }: Tree, row: AnyRow, key: string): string | undefined {
  let text = '';
  for (const column of table.indexes[index]!) {
    const value = row[table.columns[column]!]!;
    if (value === null) return undefined;
    text += encode(value);
  }
  return text + key;
}

/** The primary key at the end of a key of an index. */
export function primaryKey({ table, index }: Tree, key: string): string {
  if (index < 0) return key;
  let place = 0;
  for (const column of table.indexes[index]!) {
    place = table.types[column] === 'text' ? key.indexOf(TEXT_END, place) + TEXT_END.length : place + 8;
  }
  return key.slice(place);
}

export function encode(value: Value): string {
  if (typeof value === 'number') return encodeNumber(value);
  const text = value as string;
  if (PLAIN.test(text)) return text + TEXT_END;
  return Buffer.from(text, 'utf8').toString('latin1').replaceAll('\u0000', '\u0000\u00ff') + TEXT_END;
}

/** The smallest key above every key that begins with this one; undefined where there is none. */
export function behind(prefix: string): string | undefined {
  for (let end = prefix.length; end > 0; end--) {
    const last = prefix.charCodeAt(end - 1);
    if (last < 0xff) return prefix.slice(0, end - 1) + String.fromCharCode(last + 1);
  }
  return undefined;
}

const double = new Float64Array(1);
const bytes = new Uint8Array(double.buffer);
const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** A double, most significant byte first. Positive numbers get the sign bit, negative ones have all bits inverted. */
function encodeNumber(value: number): string {
  // Negative zero equals zero, so it has the same key.
  double[0] = value + 0;
  if (LITTLE_ENDIAN) bytes.reverse();
  if (bytes[0]! < 0x80) bytes[0]! |= 0x80;
  else for (let place = 0; place < 8; place++) bytes[place]! ^= 0xff;
  const [a, b, c, d, e, f, g, h] = bytes as unknown as [number, number, number, number, number, number, number, number];
  return String.fromCharCode(a, b, c, d, e, f, g, h);
}
