import { ByteWriter, StoredRow } from './bytes.js';

const DELETED = 0xffffffff;

/**
 * A sorted list of keys with values, as bytes: for each entry the lengths of key and value (`ffffffff` for a deleted key),
 * key, value; then the offset of each entry, and their number. Its checksum is kept with the reference to it.
 */
export class Block {
  readonly bytes: Buffer;
  /** As a source of rows. */
  readonly raw: Buffer;
  readonly count: number;
  readonly #offsets: number;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.raw = bytes;
    this.count = bytes.readUInt32LE(bytes.length - 4);
    this.#offsets = bytes.length - 4 - this.count * 4;
  }

  key(place: number): string {
    const at = this.#entry(place);
    return this.bytes.toString('latin1', at + 8, at + 8 + this.bytes.readUInt32LE(at));
  }

  isDeleted(place: number): boolean {
    return this.bytes.readUInt32LE(this.#entry(place) + 4) === DELETED;
  }

  /** Where the value begins in the block's bytes. */
  valueStart(place: number): number {
    const at = this.#entry(place);
    return at + 8 + this.bytes.readUInt32LE(at);
  }

  /** Undefined for a deleted key. */
  value(place: number): StoredRow | undefined {
    const length = this.bytes.readUInt32LE(this.#entry(place) + 4);
    const start = this.valueStart(place);
    return length === DELETED ? undefined : new StoredRow(this, start, start + length);
  }

  /** The first entry whose key is not less than this one. */
  lowerBound(key: string): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(middle, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  has(place: number, key: string): boolean {
    return place < this.count && this.#compare(place, key) === 0;
  }

  #entry(place: number): number {
    return this.bytes.readUInt32LE(this.#offsets + place * 4);
  }

  #compare(place: number, key: string): number {
    const { bytes } = this;
    const at = this.#entry(place);
    const length = bytes.readUInt32LE(at);
    const common = Math.min(length, key.length);
    for (let index = 0, from = at + 8; index < common; index++) {
      const difference = bytes[from + index]! - key.charCodeAt(index);
      if (difference !== 0) return difference;
    }
    return length - key.length;
  }
}

/** Collects entries, which must come in order, into a block. */
export class BlockWriter {
  readonly #bytes = new ByteWriter();
  #offsets: number[] = [];
  first = '';
  last = '';
  hasDeleted = false;

  get count(): number {
    return this.#offsets.length;
  }

  get length(): number {
    return this.#bytes.length;
  }

  /** Without a value, the key is deleted. */
  add(key: string, value: Buffer | undefined): void {
    const bytes = this.#bytes;
    if (this.#offsets.length === 0) this.first = key;
    this.last = key;
    this.#offsets.push(bytes.length);
    bytes.uint32(key.length);
    bytes.uint32(value?.length ?? DELETED);
    bytes.latin1(key);
    if (value) bytes.copy(value);
    else this.hasDeleted = true;
  }

  /** The block's bytes, valid until the next `add`. */
  finish(): Buffer {
    for (const offset of this.#offsets) this.#bytes.uint32(offset);
    this.#bytes.uint32(this.#offsets.length);
    return this.#bytes.bytes;
  }

  clear(): void {
    this.#bytes.clear();
    this.#offsets = [];
    this.hasDeleted = false;
  }
}
