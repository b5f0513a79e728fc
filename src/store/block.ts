import { ByteWriter } from '../runtime/bytes.js';
import { StoredRow } from './row.js';

const DELETED = 0xffffffff;

/**
 * A sorted list of keys with values, as bytes: for each entry the lengths of key and value (`ffffffff` for a deleted key),
 * key, value; then the offset of each entry, and their number. Its checksum is kept with the reference to it.
 */
export class Block {
  readonly buffer: Buffer;
  readonly count: number;
  readonly #offsets: number;

  constructor(buffer: Buffer) {
    this.buffer = buffer;
    this.count = buffer.readUInt32LE(buffer.length - 4);
    this.#offsets = buffer.length - 4 - this.count * 4;
  }

  key(place: number): string {
    const at = this.#entry(place);
    return this.buffer.toString('latin1', at + 8, at + 8 + this.buffer.readUInt32LE(at));
  }

  /** Undefined for a deleted key. */
  value(place: number): StoredRow | undefined {
    const length = this.buffer.readUInt32LE(this.#entry(place) + 4);
    const start = this.valueStart(place);
    return length === DELETED ? undefined : new StoredRow(this, start, start + length);
  }

  valueStart(place: number): number {
    const at = this.#entry(place);
    return at + 8 + this.buffer.readUInt32LE(at);
  }

  get hasDeleted(): boolean {
    for (let place = 0; place < this.count; place++) {
      if (this.buffer.readUInt32LE(this.#entry(place) + 4) === DELETED) return true;
    }
    return false;
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
    return this.buffer.readUInt32LE(this.#offsets + place * 4);
  }

  #compare(place: number, key: string): number {
    const { buffer } = this;
    const at = this.#entry(place);
    const length = buffer.readUInt32LE(at);
    const common = Math.min(length, key.length);
    for (let index = 0, from = at + 8; index < common; index++) {
      const difference = buffer[from + index]! - key.charCodeAt(index);
      if (difference !== 0) return difference;
    }
    return length - key.length;
  }
}

/** Collects entries, which must come in order, into blocks. */
export class BlockWriter {
  readonly #bytes = new ByteWriter();
  #offsets: number[] = [];

  get isEmpty(): boolean {
    return this.#offsets.length === 0;
  }

  get length(): number {
    return this.#bytes.length;
  }

  /** Without a value, the key is deleted. */
  add(key: string, value: Buffer | undefined): void {
    const bytes = this.#bytes;
    this.#offsets.push(bytes.length);
    bytes.uint32(key.length);
    bytes.uint32(value?.length ?? DELETED);
    bytes.latin1(key);
    if (value) bytes.copy(value);
  }

  /** Ends a block, which is valid until the next `add`. */
  finish(): Block {
    for (const offset of this.#offsets) this.#bytes.uint32(offset);
    this.#bytes.uint32(this.#offsets.length);
    const block = new Block(this.#bytes.bytes);
    this.#bytes.clear();
    this.#offsets = [];
    return block;
  }
}
