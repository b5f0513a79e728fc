import { closeSync, openSync } from 'node:fs';
import { endianness } from 'node:os';
import { withFile } from '../system/files/private-file.js';
import { storeFailed } from './faults.js';
import { PAGE_BYTES, readAt, sizeOf } from './files.js';

/**
 * Reads SQLite's write-ahead log (https://sqlite.org/fileformat2.html#walformat). SQLite ignores everything from the first
 * frame that does not match its running checksum: that is right after a power cut, and silent data loss when a bit has
 * flipped in synced data. To tell the two apart, the mark stores how far the log was valid.
 */
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES;
const MAGIC = 0x377f0682;
const FRAMES_PER_READ = 64;

/** A position in the log right behind a commit. The salts change whenever the log is reset. */
export interface WalPosition {
  readonly salt1: number;
  readonly salt2: number;
  readonly frames: number;
  readonly sum1: number;
  readonly sum2: number;
}

export interface WalScan {
  /** The last valid commit; undefined when the header is invalid. */
  readonly position: WalPosition | undefined;
  /** By page, the frame with its latest version. */
  readonly pages: ReadonlyMap<number, number>;
  /** The running checksum behind the watched frame. */
  readonly watched: readonly [number, number] | undefined;
}

/** Reads a log from its beginning, as SQLite's recovery does. */
export function scanWal(path: string, watch = 0): WalScan {
  const empty: WalScan = { position: undefined, pages: new Map(), watched: undefined };
  if (sizeOf(path) < HEADER_BYTES) return empty;
  return withFile(path, 'r', (handle) => {
    const header = Buffer.from(new ArrayBuffer(HEADER_BYTES));
    readAt(handle, header, 0);
    const sums = new RunningSum((header.readUInt32BE(0) & 1) === 1);
    sums.add(header, 0, 24);
    const isHeader = header.readUInt32BE(0) >>> 1 === MAGIC >>> 1 && header.readUInt32BE(8) === PAGE_BYTES;
    if (!isHeader || !sums.matches(header, 24)) return empty;

    const salts = { salt1: header.readUInt32BE(16), salt2: header.readUInt32BE(20) };
    let position: WalPosition = { ...salts, frames: 0, sum1: sums.first, sum2: sums.second };
    const pages = new Map<number, number>();
    let uncommitted: [page: number, frame: number][] = [];
    let watched: [number, number] | undefined;
    const chunk = Buffer.from(new ArrayBuffer(FRAMES_PER_READ * FRAME_BYTES));
    for (let frame = 0; ; ) {
      const read = readAt(handle, chunk, HEADER_BYTES + frame * FRAME_BYTES);
      for (let at = 0; at + FRAME_BYTES <= read; at += FRAME_BYTES, frame++) {
        const page = chunk.readUInt32BE(at);
        sums.add(chunk, at, 8);
        sums.add(chunk, at + FRAME_HEADER_BYTES, PAGE_BYTES);
        const isNext =
          page !== 0 &&
          chunk.readUInt32BE(at + 8) === salts.salt1 &&
          chunk.readUInt32BE(at + 12) === salts.salt2 &&
          sums.matches(chunk, at + 16);
        if (!isNext) return { position, pages, watched };
        uncommitted.push([page, frame]);
        if (frame + 1 === watch) watched = [sums.first, sums.second];
        if (chunk.readUInt32BE(at + 4) === 0) continue;
        for (const [number, place] of uncommitted) pages.set(number, place);
        uncommitted = [];
        position = { ...salts, frames: frame + 1, sum1: sums.first, sum2: sums.second };
      }
      if (read < chunk.length) return { position, pages, watched };
    }
  });
}

export function readWalPage(path: string, frame: number): Buffer {
  const page = Buffer.alloc(PAGE_BYTES);
  withFile(path, 'r', (handle) => readAt(handle, page, pagePlace(frame)));
  return page;
}

/** Offset of the end of the last valid commit. */
export function walEnd({ frames }: WalPosition): number {
  return HEADER_BYTES + frames * FRAME_BYTES;
}

/**
 * Follows the log while SQLite writes it, to learn which pages each commit wrote. It reads frame headers only, which is
 * enough as long as nothing behind the last commit looks like a frame of this log: so leftovers of a crash must be cut off
 * before, and after a failed commit the whole log is read again.
 */
export class WalFollower {
  readonly #path: string;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  readonly #page = Buffer.alloc(PAGE_BYTES);
  readonly #pages: Map<number, number>;
  #handle: number | undefined;
  #position: WalPosition | undefined;
  #isUncertain = false;

  constructor(path: string, scan: WalScan) {
    this.#path = path;
    this.#position = scan.position;
    this.#pages = new Map(scan.pages);
  }

  get position(): WalPosition | undefined {
    return this.#position;
  }

  /** Pages whose latest version is only in the log, with its frame. */
  get pages(): ReadonlyMap<number, number> {
    return this.#pages;
  }

  /** To be called when a commit failed: its frames may be in the log. */
  suspect(): void {
    this.#isUncertain = true;
  }

  /** To be called after each commit; false when the commit wrote nothing to the log. */
  advance(): boolean {
    const before = this.#position;
    if (this.#isUncertain) this.#readAnew();
    else this.#readOn();
    return this.#position?.sum1 !== before?.sum1 || this.#position?.sum2 !== before?.sum2;
  }

  #readAnew(): void {
    const before = this.#position;
    const { position, pages } = scanWal(this.#path);
    const isSame = position !== undefined && before?.salt1 === position.salt1 && before.salt2 === position.salt2;
    // A reset log contains nothing of the failed commit.
    if (!isSame) {
      this.#assertNoted();
      this.#isUncertain = false;
    }
    for (const [page, frame] of pages) if (!isSame || frame >= before.frames) this.#pages.set(page, frame);
    this.#position = position;
  }

  /** Before the log is reset, the checksums of its pages must be in the mark. */
  #assertNoted(): void {
    if (this.#pages.size > 0) throw storeFailed('the log was reset too early');
  }

  #readOn(): void {
    this.#handle ??= openSync(this.#path, 'r');
    const header = this.#header;
    if (readAt(this.#handle, header, 0) < HEADER_BYTES) return;
    const salt1 = header.readUInt32BE(16);
    const salt2 = header.readUInt32BE(20);
    const isSame = this.#position?.salt1 === salt1 && this.#position.salt2 === salt2;
    if (!isSame) this.#assertNoted();
    const written: [page: number, frame: number][] = [];
    for (let frame = isSame ? this.#position!.frames : 0; ; frame++) {
      const read = readAt(this.#handle, header, HEADER_BYTES + frame * FRAME_BYTES, FRAME_HEADER_BYTES);
      const isNext = header.readUInt32BE(8) === salt1 && header.readUInt32BE(12) === salt2;
      if (read < FRAME_HEADER_BYTES || !isNext) return;
      written.push([header.readUInt32BE(0), frame]);
      if (header.readUInt32BE(4) === 0) continue;
      for (const [page, place] of written) this.#pages.set(page, place);
      const [sum1, sum2] = [header.readUInt32BE(16), header.readUInt32BE(20)];
      this.#position = { salt1, salt2, frames: frame + 1, sum1, sum2 };
      return;
    }
  }

  /** The content of a page in the log; valid until the next call. */
  read(frame: number): Buffer {
    this.#handle ??= openSync(this.#path, 'r');
    readAt(this.#handle, this.#page, pagePlace(frame));
    return this.#page;
  }

  /** To be called when the database has all pages. */
  forgetPages(): void {
    this.#pages.clear();
  }

  close(): void {
    if (this.#handle !== undefined) closeSync(this.#handle);
    this.#handle = undefined;
  }
}

function pagePlace(frame: number): number {
  return HEADER_BYTES + frame * FRAME_BYTES + FRAME_HEADER_BYTES;
}

/** The log's running checksum, over pairs of words in the byte order that the header names. */
class RunningSum {
  first = 0;
  second = 0;
  readonly #swap: boolean;

  constructor(bigEndian: boolean) {
    this.#swap = bigEndian !== (endianness() === 'BE');
  }

  /** `start` must be aligned to four bytes. */
  add(buffer: Buffer, start: number, length: number): void {
    const bytes = this.#swap ? Buffer.from(buffer.subarray(start, start + length)).swap32() : buffer;
    const words = new Int32Array(bytes.buffer, bytes.byteOffset + (this.#swap ? 0 : start), length / 4);
    let first = this.first | 0;
    let second = this.second | 0;
    for (let index = 0; index < words.length; index += 2) {
      first = (first + words[index]! + second) | 0;
      second = (second + words[index + 1]! + first) | 0;
    }
    this.first = first >>> 0;
    this.second = second >>> 0;
  }

  matches(buffer: Buffer, place: number): boolean {
    return buffer.readUInt32BE(place) === this.first && buffer.readUInt32BE(place + 4) === this.second;
  }
}
