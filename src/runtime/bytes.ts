const INITIAL_BYTES = 65_536;
/** A larger buffer is given back after use. */
const MAX_IDLE_BYTES = 4 * 1_048_576;
/** Shorter texts are copied in JavaScript: a call into native code takes longer. */
const SHORT_TEXT = 48;

/** A growing buffer. Numbers are little-endian. */
export class ByteWriter {
  #buffer: Buffer;
  length = 0;

  constructor(capacity = INITIAL_BYTES) {
    this.#buffer = Buffer.allocUnsafeSlow(capacity);
  }

  /** The whole buffer, which is another one after it has grown. */
  get buffer(): Buffer {
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

  /** Gives unused room back. */
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

/** Reads the bytes of a `ByteWriter`, without checks. */
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

  utf8(length: number): string {
    this.place += length;
    return this.#buffer.toString('utf8', this.place - length, this.place);
  }
}
