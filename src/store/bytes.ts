import type { AnyRow, ColumnType, Table, Value } from './table.js';

const INITIAL_BYTES = 65_536;
/** A larger buffer is given back after use. */
const MAX_IDLE_BYTES = 4 * 1_048_576;
/** Shorter texts are copied in JavaScript: a call into native code takes longer. */
const SHORT_TEXT = 48;
const NULL_TEXT = 0xffffffff;
const NULL_NUMBER = 0;
const SMALL_INTEGER = 1;
const DOUBLE = 2;

/** A growing buffer for records and blocks. Numbers are little-endian. */
export class ByteWriter {
  #buffer: Buffer;
  length = 0;

  constructor(capacity = INITIAL_BYTES) {
    this.#buffer = Buffer.allocUnsafeSlow(capacity);
  }

  get raw(): Buffer {
    return this.#buffer;
  }

  /** The bytes written so far, valid until the next write. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  /** Gives the bytes away, and continues with another buffer. */
  take(): Buffer {
    const taken = this.bytes;
    this.#buffer = Buffer.allocUnsafeSlow(INITIAL_BYTES);
    this.length = 0;
    return taken;
  }

  /** Gives unused room back; rows that refer to these bytes stay valid. */
  trim(): void {
    if (this.length < this.#buffer.length / 2) this.#resize(this.length);
  }

  clear(): void {
    if (this.#buffer.length > MAX_IDLE_BYTES) this.#buffer = Buffer.allocUnsafeSlow(INITIAL_BYTES);
    this.length = 0;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#buffer[this.length++] = value;
  }

  uint32(value: number): void {
    this.#reserve(4);
    this.length = this.#buffer.writeUInt32LE(value, this.length);
  }

  double(value: number): void {
    this.#reserve(8);
    this.length = this.#buffer.writeDoubleLE(value, this.length);
  }

  copy(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** Without its length. */
  latin1(text: string): void {
    this.#reserve(text.length);
    this.length += this.#buffer.write(text, this.length, 'latin1');
  }

  /** The length in bytes, then UTF-8. */
  text(text: string): void {
    this.#reserve(4 + text.length * 3);
    const buffer = this.#buffer;
    const start = this.length + 4;
    let end = start;
    if (text.length <= SHORT_TEXT) {
      for (let place = 0; place < text.length; place++) {
        const unit = text.charCodeAt(place);
        if (unit > 0x7f) {
          end = start + buffer.write(text, start, 'utf8');
          break;
        }
        buffer[end++] = unit;
      }
    } else {
      end += buffer.write(text, start, 'utf8');
    }
    buffer.writeUInt32LE(end - start, this.length);
    this.length = end;
  }

  row(table: Table, row: AnyRow): void {
    const { columns, types } = table;
    for (let column = 0; column < columns.length; column++) {
      const value = row[columns[column]!]!;
      if (types[column] === 'text') {
        if (value === null) this.uint32(NULL_TEXT);
        else this.text(value as string);
      } else if (value === null) {
        this.byte(NULL_NUMBER);
      } else if ((value as number) >>> 0 === value) {
        this.byte(SMALL_INTEGER);
        this.uint32(value);
      } else {
        this.byte(DOUBLE);
        this.double(value as number);
      }
    }
  }

  #reserve(count: number): void {
    if (this.length + count <= this.#buffer.length) return;
    this.#resize(Math.max(this.#buffer.length * 2, this.length + count));
  }

  #resize(capacity: number): void {
    const resized = Buffer.allocUnsafeSlow(capacity);
    this.#buffer.copy(resized, 0, 0, this.length);
    this.#buffer = resized;
  }
}

/** Reads what `ByteWriter` wrote. The bytes were checked by their checksum. */
export class ByteReader {
  readonly #buffer: Buffer;
  place: number;

  constructor(buffer: Buffer, place = 0) {
    this.#buffer = buffer;
    this.place = place;
  }

  byte(): number {
    return this.#buffer[this.place++]!;
  }

  uint32(): number {
    this.place += 4;
    return this.#buffer.readUInt32LE(this.place - 4);
  }

  double(): number {
    this.place += 8;
    return this.#buffer.readDoubleLE(this.place - 8);
  }

  latin1(length: number): string {
    this.place += length;
    return this.#buffer.toString('latin1', this.place - length, this.place);
  }

  /** A row, or some columns of it. */
  row(table: Table, wanted?: readonly number[]): AnyRow {
    const { columns, types } = table;
    const row: Record<string, Value> = {};
    for (let column = 0; column < columns.length; column++) {
      if (wanted && !wanted.includes(column)) this.skip(types[column]!);
      else row[columns[column]!] = types[column] === 'text' ? this.#text() : this.#number();
    }
    return row;
  }

  /** Skips a value, and returns the bytes of its text. */
  skip(type: ColumnType): number {
    if (type === 'text') {
      const length = this.uint32();
      if (length === NULL_TEXT) return 0;
      this.place += length;
      return length;
    }
    const kind = this.byte();
    this.place += kind === NULL_NUMBER ? 0 : kind === SMALL_INTEGER ? 4 : 8;
    return 0;
  }

  #text(): string | null {
    const length = this.uint32();
    if (length === NULL_TEXT) return null;
    this.place += length;
    return this.#buffer.toString('utf8', this.place - length, this.place);
  }

  #number(): number | null {
    const kind = this.byte();
    if (kind === NULL_NUMBER) return null;
    return kind === SMALL_INTEGER ? this.uint32() : this.double();
  }
}

/** Bytes that may still move while they are written. */
export interface ByteSource {
  readonly raw: Buffer;
}

/** A row as bytes, in a record of the log or a block of a run: outside the heap, so it costs the garbage collector nothing. */
export class StoredRow {
  readonly #source: ByteSource;
  readonly #start: number;
  readonly #end: number;

  constructor(source: ByteSource, start: number, end: number) {
    this.#source = source;
    this.#start = start;
    this.#end = end;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  get bytes(): Buffer {
    return this.#source.raw.subarray(this.#start, this.#end);
  }

  /** The row, or some columns of it. */
  read(table: Table, columns?: readonly number[]): AnyRow {
    return new ByteReader(this.#source.raw, this.#start).row(table, columns);
  }

  /** UTF-8 bytes of its texts. */
  textBytes(table: Table): number {
    const reader = new ByteReader(this.#source.raw, this.#start);
    let bytes = 0;
    for (const type of table.types) bytes += reader.skip(type);
    return bytes;
  }
}
