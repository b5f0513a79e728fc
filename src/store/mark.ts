import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { syncFolder, withFile } from '../system/files/private-file.js';
import { readAt } from './files.js';
import type { WalPosition } from './wal.js';

/**
 * Checksums of the database and the position in its write-ahead log, kept in `store.mark`, so that lost data is detected.
 * The mark is written after the data was synced, and need not be synced itself: an older mark says less, never something
 * wrong.
 *
 * Three slots of 512 bytes, then the checksums of the database's pages. After each commit, the place in the log goes to
 * slot 2, without a sync. When a checkpoint has moved the log's pages into the database, the sums and slot 0 or 1 in
 * turn are written and synced, before anything can overwrite the log: so no power cut leaves a mark behind that asks
 * for a log that was reset. Of several valid slots the one with the highest number counts.
 */
const MAGIC = 'ECLMARK1';
const SLOT_BYTES = 512;
const USED_BYTES = 48;
const SUMS_PLACE = 4096;

interface MarkState {
  readonly number: number;
  /** Does the database contain the log up to this position? */
  readonly complete: boolean;
  readonly position: WalPosition | undefined;
}

const UNREADABLE: MarkState = { number: -1, complete: true, position: undefined };

export class Mark {
  readonly path: string;
  readonly sums: PageSums;
  #state: MarkState;
  /** The synced slot to write next: never the one that was synced last. */
  #turn: number;
  #handle: number | undefined;

  private constructor(path: string, state: MarkState, turn: number, sums: PageSums) {
    this.path = path;
    this.#state = state;
    this.#turn = turn;
    this.sums = sums;
  }

  get state(): MarkState {
    return this.#state;
  }

  get isUnreadable(): boolean {
    return this.#state === UNREADABLE;
  }

  /** Undefined where there is no mark. */
  static load(path: string): Mark | undefined {
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined) return undefined;
    return withFile(path, 'r', (handle) => {
      const slots = Buffer.alloc(3 * SLOT_BYTES);
      readAt(handle, slots, 0);
      const [first, second, third] = [0, 1, 2].map((slot) => decode(slots.subarray(slot * SLOT_BYTES)));
      const [synced, turn] = (first?.number ?? -1) > (second?.number ?? -1) ? [first, 1] : [second, 0];
      const state = (third?.number ?? -1) > (synced?.number ?? -1) ? third : synced;
      if (!state) return new Mark(path, UNREADABLE, 0, new PageSums());
      const sums = Buffer.alloc(Math.max(0, size - SUMS_PLACE));
      readAt(handle, sums, SUMS_PLACE);
      return new Mark(path, state, turn, new PageSums(sums));
    });
  }

  static create(path: string): Mark {
    const state: MarkState = { number: 0, complete: true, position: undefined };
    const draft = `${path}.new`;
    rmSync(draft, { force: true });
    withFile(draft, 'wx', (handle) => {
      const bytes = Buffer.alloc(SUMS_PLACE);
      encode(state).copy(bytes);
      writeSync(handle, bytes, 0, bytes.length, 0);
      fsyncSync(handle);
    });
    renameSync(draft, path);
    syncFolder(dirname(path));
    return new Mark(path, state, 1, new PageSums());
  }

  /** To be called when the log is on disk up to this position. */
  committed(position: WalPosition): void {
    this.#write(2, { number: this.#state.number + 1, complete: false, position });
  }

  /** To be called when the database is on disk with the log up to this position. */
  checkpointed(position: WalPosition | undefined): void {
    const handle = this.#open();
    for (const [place, bytes] of this.sums.takeChanges()) writeSync(handle, bytes, 0, bytes.length, SUMS_PLACE + place);
    this.#write(this.#turn, { number: this.#state.number + 1, complete: true, position });
    fsyncSync(handle);
    this.#turn = 1 - this.#turn;
  }

  /** A mark that is not updated would cause false alarms. */
  remove(): void {
    this.close();
    rmSync(this.path, { force: true });
    syncFolder(dirname(this.path));
  }

  close(): void {
    if (this.#handle !== undefined) closeSync(this.#handle);
    this.#handle = undefined;
  }

  #write(slot: number, state: MarkState): void {
    const bytes = encode(state);
    writeSync(this.#open(), bytes, 0, bytes.length, slot * SLOT_BYTES);
    this.#state = state;
  }

  #open(): number {
    this.#handle ??= openSync(this.path, 'r+');
    return this.#handle;
  }
}

function encode({ number, complete, position }: MarkState): Buffer {
  const bytes = Buffer.alloc(USED_BYTES);
  bytes.write(MAGIC, 'latin1');
  bytes.writeDoubleLE(number, 8);
  bytes.writeUInt32LE((complete ? 1 : 0) | (position ? 2 : 0), 16);
  const fields = position ? [position.salt1, position.salt2, position.frames, position.sum1, position.sum2] : [];
  for (const [index, field] of fields.entries()) bytes.writeUInt32LE(field, 20 + index * 4);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, USED_BYTES - 4)), USED_BYTES - 4);
  return bytes;
}

function decode(bytes: Buffer): MarkState | undefined {
  if (bytes.toString('latin1', 0, 8) !== MAGIC) return undefined;
  if (bytes.readUInt32LE(USED_BYTES - 4) !== crc32(bytes.subarray(0, USED_BYTES - 4))) return undefined;
  const flags = bytes.readUInt32LE(16);
  const [salt1, salt2, frames, sum1, sum2] = [20, 24, 28, 32, 36].map((place) => bytes.readUInt32LE(place)) as [
    number,
    number,
    number,
    number,
    number,
  ];
  return {
    number: bytes.readDoubleLE(8),
    complete: (flags & 1) !== 0,
    position: (flags & 2) !== 0 ? { salt1, salt2, frames, sum1, sum2 } : undefined,
  };
}

/** Checksums that are written together. */
const BLOCK = 1024;

/**
 * A checksum for each page of the database file, numbered from 1, as the last checkpoint left it. SQLite has none, and
 * a flipped bit in a page can make rows vanish without an error: a smaller count of cells, an index entry that sorts
 * elsewhere. 0 stands for an unknown page.
 */
class PageSums {
  #sums: Uint32Array;
  readonly #changed = new Set<number>();

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.#sums = new Uint32Array(Math.ceil(bytes.length / 4 / BLOCK) * BLOCK);
    for (let index = 0; index < bytes.length >> 2; index++) this.#sums[index] = bytes.readUInt32LE(index * 4);
  }

  get last(): number {
    let index = this.#sums.length;
    while (index > 0 && this.#sums[index - 1] === 0) index--;
    return index;
  }

  set(page: number, content: Buffer): void {
    if (page > this.#sums.length) {
      const grown = new Uint32Array(Math.ceil((page * 1.5) / BLOCK) * BLOCK);
      grown.set(this.#sums);
      this.#sums = grown;
    }
    this.#sums[page - 1] = sumOf(content);
    this.#changed.add(Math.floor((page - 1) / BLOCK));
  }

  /** Does the content match the checksum? True for an unknown page. */
  check(page: number, content: Buffer): boolean {
    const known = this.#sums[page - 1] ?? 0;
    return known === 0 || known === sumOf(content);
  }

  /** The changed checksums, with their offset. */
  *takeChanges(): Iterable<readonly [place: number, bytes: Buffer]> {
    for (const block of this.#changed) {
      const bytes = Buffer.alloc(BLOCK * 4);
      for (let index = 0; index < BLOCK; index++) bytes.writeUInt32LE(this.#sums[block * BLOCK + index]!, index * 4);
      yield [block * BLOCK * 4, bytes];
    }
    this.#changed.clear();
  }
}

function sumOf(content: Buffer): number {
  return crc32(content) || 1;
}
