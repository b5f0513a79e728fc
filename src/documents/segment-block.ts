import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { Segment } from './segment.js';

/** The streams of a replica by number, so that a packed segment names them in a byte or two. */
export class StreamNames {
  readonly #names: string[] = [];
  readonly #places = new Map<string, number>();

  placeOf(name: string): number {
    let place = this.#places.get(name);
    if (place === undefined) {
      place = this.#names.push(name) - 1;
      this.#places.set(name, place);
    }
    return place;
  }

  at(place: number): string {
    return this.#names[place]!;
  }
}

const SIGNATURE_BYTES = 64;
/** How the signature is packed. */
const NONE = 0;
const RAW = 1;
const TEXT = 2;

/** Consecutive segments of a log in one compressed buffer: a small part of the memory that they take as objects. */
export class SegmentBlock {
  readonly #data: Uint8Array;
  /** The lowest and the highest number of each stream. */
  readonly #ranges = new Map<string, { low: number; high: number }>();

  constructor(segments: readonly Segment[], names: StreamNames) {
    const writer = new Writer();
    const known = new Latest();
    writer.number(segments.length);
    for (const segment of segments) {
      write(writer, known, segment, names);
      const { stream, first, number } = segment;
      const range = this.#ranges.get(stream);
      if (range) {
        range.low = Math.min(range.low, first);
        range.high = Math.max(range.high, number);
      } else this.#ranges.set(stream, { low: first, high: number });
    }
    // Segments of one author are much alike: the fastest level makes a sixth of them, apart from signatures. Copied out of zlib's chunk.
    this.#data = new Uint8Array(deflateRawSync(writer.written, { level: 1 }));
  }

  has(stream: string, first: number, number: number): boolean {
    const range = this.#ranges.get(stream);
    return range !== undefined && range.low <= number && range.high >= first;
  }

  /** Does a replica with that vector lack one of its segments? */
  isMissing(vector: Readonly<Record<string, number>>): boolean {
    for (const [stream, { high }] of this.#ranges) if (high > (vector[stream] ?? 0)) return true;
    return false;
  }

  segments(names: StreamNames): Segment[] {
    const reader = new Reader(inflateRawSync(this.#data));
    const known = new Latest();
    return Array.from({ length: reader.number() }, () => read(reader, known, names));
  }
}

/** Numbers are packed as differences from the previous ones. */
class Latest {
  readonly numbers = new Map<number, number>();
  readonly ends = new Map<number, number>();
  seenAt = 0;
}

function write(writer: Writer, known: Latest, segment: Segment, names: StreamNames): void {
  const { first, number, update, end, signature } = segment;
  const place = names.placeOf(segment.stream);
  writer.number(place);
  writer.difference(first - 1 - (known.numbers.get(place) ?? 0));
  writer.number(number - first);
  known.numbers.set(place, number);
  const after = Object.keys(segment.after);
  writer.number(after.length);
  for (const name of after) {
    const other = names.placeOf(name);
    writer.number(other);
    writer.difference(segment.after[name]! - (known.numbers.get(other) ?? 0));
  }
  writer.number(end === undefined ? 0 : 1);
  if (end !== undefined) {
    writer.difference(end - (known.ends.get(place) ?? 0));
    known.ends.set(place, end);
  }
  const seenAt = segment.seenAt === undefined ? undefined : Math.round(segment.seenAt);
  writer.number(seenAt === undefined ? 0 : 1);
  if (seenAt !== undefined) {
    writer.difference(seenAt - known.seenAt);
    known.seenAt = seenAt;
  }
  const raw = Buffer.from(signature, 'base64url');
  if (signature === '') writer.number(NONE);
  else if (raw.length === SIGNATURE_BYTES && raw.toString('base64url') === signature) {
    writer.number(RAW);
    writer.bytes(raw);
  } else {
    const text = Buffer.from(signature);
    writer.number(TEXT);
    writer.number(text.length);
    writer.bytes(text);
  }
  writer.number(update.length);
  writer.bytes(update);
}

function read(reader: Reader, known: Latest, names: StreamNames): Segment {
  const place = reader.number();
  const first = 1 + (known.numbers.get(place) ?? 0) + reader.difference();
  const number = first + reader.number();
  known.numbers.set(place, number);
  const after: Record<string, number> = {};
  for (let left = reader.number(); left > 0; left--) {
    const other = reader.number();
    after[names.at(other)] = (known.numbers.get(other) ?? 0) + reader.difference();
  }
  let end: number | undefined;
  if (reader.number() === 1) {
    end = (known.ends.get(place) ?? 0) + reader.difference();
    known.ends.set(place, end);
  }
  let seenAt: number | undefined;
  if (reader.number() === 1) {
    seenAt = known.seenAt + reader.difference();
    known.seenAt = seenAt;
  }
  const kind = reader.number();
  let signature = '';
  if (kind === RAW) signature = Buffer.from(reader.bytes(SIGNATURE_BYTES)).toString('base64url');
  else if (kind === TEXT) signature = Buffer.from(reader.bytes(reader.number())).toString();
  const update = reader.bytes(reader.number());
  const segment = new Segment({ stream: names.at(place), first, number, after, update }, signature);
  segment.end = end;
  segment.seenAt = seenAt;
  return segment;
}

const BITS = 7;
const MORE = 2 ** BITS;
/** Below this, a number and its sign are one number. */
const MAX_SIGNED = 2 ** 51;
/** Would be minus zero. */
const LARGE = 1;

/** Written into a buffer that all blocks share, and copied out of it. */
class Writer {
  static #buffer = new Uint8Array(65_536);
  #length = 0;

  /** A whole number from 0 to 2^53 - 1. */
  number(value: number): void {
    this.#reserve(8);
    let rest = value;
    while (rest >= MORE) {
      Writer.#buffer[this.#length++] = MORE + (rest % MORE);
      rest = Math.floor(rest / MORE);
    }
    Writer.#buffer[this.#length++] = rest;
  }

  /** A whole number from -(2^53 - 1) to 2^53 - 1: short if it is small. */
  difference(value: number): void {
    const size = Math.abs(value);
    const sign = value < 0 ? 1 : 0;
    if (size < MAX_SIGNED) this.number(2 * size + sign);
    else for (const part of [LARGE, sign, size]) this.number(part);
  }

  bytes(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    Writer.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** Valid until the next block is written. */
  get written(): Uint8Array {
    return Writer.#buffer.subarray(0, this.#length);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= Writer.#buffer.length) return;
    const larger = new Uint8Array(2 * Math.max(Writer.#buffer.length, this.#length + bytes));
    larger.set(Writer.#buffer.subarray(0, this.#length));
    Writer.#buffer = larger;
  }
}

class Reader {
  readonly #data: Uint8Array;
  #at = 0;

  constructor(data: Uint8Array) {
    this.#data = data;
  }

  number(): number {
    let value = 0;
    for (let factor = 1; ; factor *= MORE) {
      const byte = this.#data[this.#at++]!;
      value += (byte % MORE) * factor;
      if (byte < MORE) return value;
    }
  }

  difference(): number {
    const value = this.number();
    const [sign, size] = value === LARGE ? [this.number(), this.number()] : [value % 2, Math.floor(value / 2)];
    return sign === 1 ? -size : size;
  }

  bytes(length: number): Uint8Array {
    const from = this.#at;
    this.#at += length;
    // A Buffer's slice would share its memory.
    return Uint8Array.prototype.slice.call(this.#data, from, this.#at);
  }
}
