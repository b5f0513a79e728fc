import { ByteReader, type ByteWriter } from '../runtime/bytes.js';
import type { AnyRow, ColumnType, Table, Value } from './table.js';

/** Instead of the length of a text. */
const NULL_TEXT = 0xffffffff;
/** A number begins with its kind. */
const NULL_NUMBER = 0;
const SMALL_INTEGER = 1;
const DOUBLE = 2;

export function writeRow(bytes: ByteWriter, { columns, types }: Table, row: AnyRow): void {
  for (let column = 0; column < columns.length; column++) {
    const value = row[columns[column]!]!;
    if (types[column] === 'text') {
      if (value === null) bytes.uint32(NULL_TEXT);
      else bytes.text(value as string);
    } else if (value === null) {
      bytes.byte(NULL_NUMBER);
    } else if ((value as number) >>> 0 === value) {
      bytes.byte(SMALL_INTEGER);
      bytes.uint32(value);
    } else {
      bytes.byte(DOUBLE);
      bytes.double(value as number);
    }
  }
}

/** A row, or some columns of it. */
export function readRow(bytes: ByteReader, { columns, types }: Table, wanted?: readonly number[]): AnyRow {
  const row: Record<string, Value> = {};
  for (let column = 0; column < columns.length; column++) {
    if (wanted && !wanted.includes(column)) skip(bytes, types[column]!);
    else row[columns[column]!] = types[column] === 'text' ? readText(bytes) : readNumber(bytes);
  }
  return row;
}

function readText(bytes: ByteReader): string | null {
  const length = bytes.uint32();
  return length === NULL_TEXT ? null : bytes.utf8(length);
}

function readNumber(bytes: ByteReader): number | null {
  const kind = bytes.byte();
  if (kind === NULL_NUMBER) return null;
  return kind === SMALL_INTEGER ? bytes.uint32() : bytes.double();
}

/** Skips a value, and returns the bytes of its text. */
function skip(bytes: ByteReader, type: ColumnType): number {
  if (type !== 'text') {
    const kind = bytes.byte();
    bytes.place += kind === NULL_NUMBER ? 0 : kind === SMALL_INTEGER ? 4 : 8;
    return 0;
  }
  const length = bytes.uint32();
  if (length === NULL_TEXT) return 0;
  bytes.place += length;
  return length;
}

/** A row as bytes, in a record of the log or a block of a run: outside the heap, so it costs the garbage collector nothing. */
export class StoredRow {
  /** A record may still grow, and then has another buffer. */
  readonly #source: { readonly buffer: Buffer };
  readonly #start: number;
  readonly #end: number;

  constructor(source: { readonly buffer: Buffer }, start: number, end: number) {
    this.#source = source;
    this.#start = start;
    this.#end = end;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  get bytes(): Buffer {
    return this.#source.buffer.subarray(this.#start, this.#end);
  }

  /** The row, or some columns of it. */
  read(table: Table, columns?: readonly number[]): AnyRow {
    return readRow(new ByteReader(this.#source.buffer, this.#start), table, columns);
  }

  /** UTF-8 bytes of its texts. */
  textBytes(table: Table): number {
    const reader = new ByteReader(this.#source.buffer, this.#start);
    let bytes = 0;
    for (const type of table.types) bytes += skip(reader, type);
    return bytes;
  }
}
