import { crc32 } from 'node:zlib';
import { ByteReader, ByteWriter } from '../runtime/bytes.js';
import type { Disk, LogFile } from '../system/files/disk.js';
import { storeDamaged } from './faults.js';

const MAGIC = 'ECLLOG01';
/** Head and mark are in the first sector, records behind it, so that no write of one can tear the other. */
const HEAD_BYTES = 512;
const MARK = 64;
const MARK_BYTES = 12;
const RECORD_HEAD = 12;

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

  private constructor(number: number, file: LogFile) {
    this.number = number;
    this.#file = file;
  }

  static async create(disk: Disk, number: number): Promise<Log> {
    const head = Buffer.alloc(HEAD_BYTES);
    headOf(number).copy(head);
    return new Log(number, await disk.createLog(logName(number), head));
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
        this.#mark();
      }
      done(error);
    });
  }

  close(): void {
    this.#file.close();
  }

  #mark(): void {
    const mark = Buffer.allocUnsafe(MARK_BYTES);
    mark.writeDoubleLE(this.#length, 0);
    mark.writeUInt32LE(crc32(mark.subarray(0, 8)), 8);
    try {
      this.#file.note(mark, MARK);
    } catch {
      // The records are on disk; an old mark only detects less.
    }
  }
}

/** A writer for the payload of a record. */
export function beginRecord(capacity: number): ByteWriter {
  const payload = new ByteWriter(capacity);
  payload.length = RECORD_HEAD;
  return payload;
}

export function isEmptyRecord(payload: ByteWriter): boolean {
  return payload.length === RECORD_HEAD;
}

/**
 * Reads a log, and hands each record to `take`. Returns the length of its records. Throws `STORE_DAMAGED` if acknowledged
 * records are missing: `length` bytes of them are known from the manifest; the log's mark may know of more. There are no
 * more than that where the log was continued in another one.
 */
export function readLog(
  disk: Disk,
  number: number,
  { length, isContinued }: { readonly length: number; readonly isContinued: boolean },
  take: (record: ByteReader, source: Buffer) => void,
): number {
  const path = disk.pathOf(logName(number));
  if (!disk.list().includes(logName(number))) throw storeDamaged(path, 'it is missing');
  const bytes = disk.read(logName(number));
  const head = headOf(number);
  if (bytes.length < HEAD_BYTES || !head.equals(bytes.subarray(0, head.length))) {
    throw storeDamaged(path, 'its first bytes are not those of a log');
  }
  const acknowledged = isContinued ? length : Math.max(length, markedLength(bytes));
  const end = isContinued ? Math.min(length, bytes.length) : bytes.length;
  let place = HEAD_BYTES;
  for (let records = 0; place + RECORD_HEAD <= end; records++) {
    const size = RECORD_HEAD + bytes.readUInt32LE(place);
    const record = bytes.subarray(place, place + size);
    if (place + size > end || record.readUInt32LE(4) !== records || record.readUInt32LE(8) !== sumOf(record)) break;
    take(new ByteReader(record, RECORD_HEAD), record);
    place += size;
  }
  if (place < acknowledged) {
    throw storeDamaged(path, `the record at ${place} is damaged or missing, of ${acknowledged} bytes`);
  }
  return place;
}

/** Has something been written to this log? */
export function isUsedLog(disk: Disk, name: string): boolean {
  if (!disk.list().includes(name)) return false;
  const file = disk.open(name);
  file.close();
  return file.size > HEAD_BYTES;
}

function headOf(number: number): Buffer {
  const head = new ByteWriter(HEAD_BYTES);
  head.latin1(MAGIC);
  head.uint32(number);
  return head.bytes;
}

function markedLength(bytes: Buffer): number {
  const mark = bytes.subarray(MARK, MARK + MARK_BYTES);
  if (mark.every((byte) => byte === 0)) return HEAD_BYTES;
  // A sector is written whole, so a mark that makes no sense is damaged: then everything in the file must be sound.
  return mark.readUInt32LE(8) === crc32(mark.subarray(0, 8)) ? mark.readDoubleLE(0) : bytes.length;
}

/** Over length, number and payload of a record. */
function sumOf(record: Buffer): number {
  return crc32(record.subarray(RECORD_HEAD), crc32(record.subarray(0, 8)));
}
