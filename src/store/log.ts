import { crc32 } from 'node:zlib';
import { ByteReader, ByteWriter } from './bytes.js';
import type { Disk, LogFile } from './disk.js';
import { storeDamaged } from './faults.js';

const MAGIC = 'ECLLOG01';
/** Head and mark are in the first sector, records behind it, so that no write of one can tear the other. */
const HEAD_BYTES = 512;
const MARKS = [64, 128] as const;
const MARK_BYTES = 16;
const RECORD_HEAD = 12;

/** The part of a log that its head describes. */
interface LogHead {
  readonly number: number;
  /** The length of the log before, from the moment when this one was begun; 0 for the first. */
  readonly lengthBefore: number;
}

export function logName(number: number): string {
  return `log-${String(number).padStart(8, '0')}`;
}

/**
 * The write-ahead log: a record for each group of writes, with its checksum and number. A write that a power cut interrupts
 * leaves an incomplete record at the end, which is not an error. To tell that from damage, the log has a mark: the length
 * that was acknowledged, noted without a sync after each write, so a mark may say less than was acknowledged, never more.
 */
export class Log {
  readonly number: number;
  readonly #file: LogFile;
  #length = HEAD_BYTES;
  #records = 0;
  #marks = 0;

  private constructor(number: number, file: LogFile) {
    this.number = number;
    this.#file = file;
  }

  static async create(disk: Disk, number: number, lengthBefore: number): Promise<Log> {
    const head = new ByteWriter();
    head.latin1(MAGIC);
    head.uint32(number);
    head.double(lengthBefore);
    head.uint32(crc32(head.bytes));
    head.copy(Buffer.alloc(HEAD_BYTES - head.length));
    return new Log(number, await disk.createLog(logName(number), head.bytes));
  }

  get length(): number {
    return this.#length;
  }

  /** Calls back when the record is on disk. One at a time. */
  append(payload: ByteWriter, done: (error: Error | null) => void): void {
    // The writer has left room for the record's head.
    const bytes = payload.bytes;
    bytes.writeUInt32LE(bytes.length - RECORD_HEAD, 0);
    bytes.writeUInt32LE(this.#records, 4);
    bytes.writeUInt32LE(sumOf(bytes), 8);
    this.#file.write(bytes, this.#length, (error) => {
      if (!error) {
        this.#length += bytes.length;
        this.#records++;
        this.#mark(false);
      }
      done(error);
    });
  }

  /** To be called when the next log is on disk. */
  continued(): void {
    this.#mark(true);
  }

  close(): void {
    this.#file.close();
  }

  #mark(continued: boolean): void {
    const mark = Buffer.allocUnsafe(MARK_BYTES);
    mark.writeDoubleLE(this.#length, 0);
    mark.writeUInt32LE(continued ? 1 : 0, 8);
    mark.writeUInt32LE(crc32(mark.subarray(0, 12)), 12);
    try {
      this.#file.note(mark, MARKS[this.#marks++ % 2]!);
    } catch {
      // The records are on disk; an old mark only detects less.
    }
  }
}

/** A writer for the payload of a record. */
export function beginRecord(capacity: number): ByteWriter {
  const payload = new ByteWriter(capacity);
  for (let count = 0; count < RECORD_HEAD; count += 4) payload.uint32(0);
  return payload;
}

export function isEmptyRecord(payload: ByteWriter): boolean {
  return payload.length === RECORD_HEAD;
}

/** What a log that was read says about itself and its neighbours. */
export interface ReadLog extends LogHead {
  /** Where the last complete record ends. */
  readonly length: number;
  /** Must the next log be there? */
  readonly continued: boolean;
}

/**
 * Reads a log, and hands each record to `take`. Throws `STORE_DAMAGED` if acknowledged records are missing: those that the
 * log's mark, or the head of the log after it, says were there.
 */
export function readLog(
  disk: Disk,
  number: number,
  expected: number | undefined,
  take: (record: ByteReader, source: Buffer) => void,
): ReadLog {
  const bytes = disk.read(logName(number));
  const path = disk.pathOf(logName(number));
  const head = readHead(bytes);
  if (!head || head.number !== number) throw storeDamaged(path, 'its first bytes are not those of a log');
  const marks = MARKS.map((place) => readMark(bytes, place));
  // A sector is written whole, so a mark that makes no sense is damaged: then everything in the file must be sound.
  const isMarkDamaged = marks.includes('damaged');
  const sound = marks.filter((mark) => typeof mark === 'object');
  const acknowledged = isMarkDamaged ? bytes.length : Math.max(HEAD_BYTES, ...sound.map((mark) => mark.length));
  const end = Math.min(expected ?? bytes.length, bytes.length);
  let place = HEAD_BYTES;
  for (let records = 0; place + RECORD_HEAD <= end; records++) {
    const length = RECORD_HEAD + bytes.readUInt32LE(place);
    const record = bytes.subarray(place, place + length);
    if (place + length > end || record.readUInt32LE(4) !== records || record.readUInt32LE(8) !== sumOf(record)) break;
    take(new ByteReader(record, RECORD_HEAD), record);
    place += length;
  }
  if (place < (expected ?? acknowledged)) {
    throw storeDamaged(path, `the record at ${place} is damaged or missing, of ${expected ?? acknowledged} bytes`);
  }
  return { ...head, length: place, continued: sound.some((mark) => mark.continued) };
}

/** The head of a log alone; undefined where it is not whole, as in a log that was being created. */
export function readLogHead(disk: Disk, number: number): LogHead | undefined {
  return readHead(disk.read(logName(number)));
}

/** Has nothing been written to this log? */
export function isUnusedLog(disk: Disk, name: string): boolean {
  return disk.read(name).length <= HEAD_BYTES;
}

function readHead(bytes: Buffer): LogHead | undefined {
  if (bytes.length < HEAD_BYTES || bytes.toString('latin1', 0, 8) !== MAGIC) return undefined;
  if (bytes.readUInt32LE(20) !== crc32(bytes.subarray(0, 20))) return undefined;
  return { number: bytes.readUInt32LE(8), lengthBefore: bytes.readDoubleLE(12) };
}

interface Mark {
  /** The acknowledged length. */
  readonly length: number;
  readonly continued: boolean;
}

function readMark(bytes: Buffer, place: number): Mark | 'none' | 'damaged' {
  const mark = bytes.subarray(place, place + MARK_BYTES);
  if (mark.every((byte) => byte === 0)) return 'none';
  if (mark.readUInt32LE(12) !== crc32(mark.subarray(0, 12))) return 'damaged';
  return { length: mark.readDoubleLE(0), continued: mark.readUInt32LE(8) === 1 };
}

/** Over length, number and payload of a record. */
function sumOf(record: Buffer): number {
  return crc32(record.subarray(RECORD_HEAD), crc32(record.subarray(0, 8)));
}
