import { existsSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';

export const PAGE_BYTES = 4096;

/** The files of a store in its folder. */
export interface StoreFiles {
  readonly folder: string;
  readonly database: string;
  readonly wal: string;
  /** A second link of the write-ahead log; see `examine.ts`. */
  readonly walLink: string;
  /** Left by SQLite when it is interrupted while it creates the file. */
  readonly journal: string;
  readonly mark: string;
  readonly lock: string;
}

export function storeFiles(folder: string): StoreFiles {
  const database = join(folder, 'store.db');
  return {
    folder,
    database,
    wal: `${database}-wal`,
    walLink: join(folder, 'store.wal'),
    journal: `${database}-journal`,
    mark: join(folder, 'store.mark'),
    lock: join(folder, 'store.lock'),
  };
}

/** Is there a store without its mark? Then lost data cannot be detected. */
export function lacksMark(folder: string): boolean {
  const { database, mark, journal } = storeFiles(folder);
  return existsSync(database) && !existsSync(mark) && !existsSync(journal);
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Reads as much as there is; returns the number of bytes. */
export function readAt(handle: number, buffer: Uint8Array, position: number, length = buffer.length): number {
  let done = 0;
  while (done < length) {
    const count = readSync(handle, buffer, done, length - done, position + done);
    if (count === 0) break;
    done += count;
  }
  return done;
}

/** Tells a file from its copies, as far as the file system can; undefined where there is no such file. */
export function placeOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && `${found.ino} ${found.birthtimeMs}`;
}
