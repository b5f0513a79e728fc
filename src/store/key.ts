import type { AnyRow, Table, Tree, Value } from './table.js';

/**
 * Keys are strings of bytes (characters up to U+00FF) that sort like the values that they encode: numbers by size, texts by
 * code point. A text ends with `00 01`; a zero byte inside it becomes `00 ff`. Compared as strings, written as Latin-1.
 */
const TEXT_END = '\u0000\u0001';
const NUMBER_BYTES = 8;
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII but zero
const PLAIN = /^[\u0001-\u007f]*$/;

export function rowKey(table: Table, row: AnyRow): string {
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
    place = table.types[column] === 'text' ? key.indexOf(TEXT_END, place) + TEXT_END.length : place + NUMBER_BYTES;
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

const n = Buffer.alloc(NUMBER_BYTES);

/** A double, most significant byte first. Positive numbers get the sign bit, negative ones have all bits inverted. */
function encodeNumber(value: number): string {
  // Negative zero equals zero, so it has the same key.
  n.writeDoubleBE(value + 0);
  if (n[0]! < 0x80) n[0]! |= 0x80;
  else for (let place = 0; place < NUMBER_BYTES; place++) n[place]! ^= 0xff;
  return String.fromCharCode(n[0]!, n[1]!, n[2]!, n[3]!, n[4]!, n[5]!, n[6]!, n[7]!);
}
