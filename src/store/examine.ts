import { chmodSync, existsSync, fsyncSync, linkSync, renameSync, rmSync, truncateSync } from 'node:fs';
import { EclipticError } from '../runtime/errors.js';
import { syncFolder, withFile } from '../system/files/private-file.js';
import { storeDamaged } from './faults.js';
import { PAGE_BYTES, readAt, type StoreFiles, sizeOf } from './files.js';
import { Mark } from './mark.js';
import { readWalPage, scanWal, type WalScan, walEnd } from './wal.js';

/** Says in the file's header that it is one of ours: "ECLP". */
export const APPLICATION_ID = 0x45434c50;

const PAGES_PER_READ = 256;

/** What is in the folder, seen without SQLite: nothing is written until all of it was found to be in order. */
export interface Found {
  readonly mark: Mark | undefined;
  readonly scan: WalScan;
  /** The first page that was not checked; nothing when all were. */
  readonly unchecked: number | undefined;
}

/**
 * Looks at a store before SQLite does, which would quietly go on without what is damaged, and write. Only so many bytes
 * of the database are checked here; the rest is for later, so that a large store opens as fast as a small one.
 */
export function examine(files: StoreFiles, schemaVersion: number, checkBytes: number): Found {
  const wal = logOf(files);
  const mark = Mark.load(files.mark);
  if (sizeOf(files.database) === 0) {
    const left = [mark && files.mark, sizeOf(wal) > 0 ? wal : undefined].filter((path) => path !== undefined);
    if (left.length === 0) return { mark, scan: scanWal(wal), unchecked: undefined };
    throw storeDamaged(files.database, `it is missing or empty, but ${left.join(' and ')} is there`);
  }
  // Making a new file was interrupted: SQLite first takes back what it had begun, and nothing was kept yet.
  if (!mark && existsSync(files.journal)) return { mark, scan: scanWal(wal), unchecked: undefined };

  const scan = scanWal(wal, mark?.state.position?.frames);
  checkFirstPage(files, schemaVersion, firstPage(files, wal, scan, mark));
  // Only now, for a later release may keep its marks in another way.
  if (mark?.isUnreadable) throw storeDamaged(files.mark, 'it is not a mark of this store');
  if (mark) checkLog(wal, scan, mark);
  return { mark, scan, unchecked: mark && checkPages(files, scan, mark, checkBytes) };
}

function firstPage(files: StoreFiles, wal: string, scan: WalScan, mark: Mark | undefined): Buffer {
  const frame = scan.pages.get(1);
  if (frame !== undefined) return readWalPage(wal, frame);
  const page = Buffer.alloc(PAGE_BYTES);
  withFile(files.database, 'r', (handle) => readAt(handle, page, 0));
  if (mark && !mark.sums.check(1, page)) throw damagedPage(files, 1);
  return page;
}

function checkFirstPage({ database }: StoreFiles, expected: number, page: Buffer): void {
  if (page.toString('latin1', 0, 16) !== 'SQLite format 3\0') throw storeDamaged(database, 'it is not a database');
  const found = page.readUInt32BE(60);
  if (found > expected) {
    const message = `${database} was written by a later release`;
    throw new EclipticError('SCHEMA_VERSION_MISMATCH', message, { file: database, expected, found });
  }
  if (page.readUInt16BE(16) !== PAGE_BYTES) throw storeDamaged(database, 'its pages have another size');
  if (found > 0 && page.readUInt32BE(68) !== APPLICATION_ID) throw storeDamaged(database, 'it is not a store');
}

/** The log must reach as far as it did. When the database has all of it, it may also have begun anew, or be gone. */
export function checkLog(wal: string, { position, watched }: WalScan, { state }: Mark): void {
  const known = state.position;
  if (!known) return;
  if (position?.salt1 !== known.salt1 || position.salt2 !== known.salt2) {
    if (state.complete) return;
    throw storeDamaged(wal, sizeOf(wal) === 0 ? 'it is missing or empty' : 'its header is not what was written');
  }
  if (position.frames < known.frames || watched?.[0] !== known.sum1 || watched[1] !== known.sum2) {
    const what = `of at least ${known.frames} frames only ${Math.min(position.frames, known.frames - 1)} can be read`;
    throw storeDamaged(wal, what, { frames: known.frames });
  }
}

function checkPages(files: StoreFiles, scan: WalScan, { sums }: Mark, checkBytes: number): number | undefined {
  const last = sums.last;
  const there = Math.floor(sizeOf(files.database) / PAGE_BYTES);
  const nothing = Buffer.alloc(0);
  for (let page = there + 1; page <= last; page++) {
    if (!scan.pages.has(page) && !sums.check(page, nothing))
      throw damagedPage(files, page, `the file ends at ${there}`);
  }
  return withFile(files.database, 'r', (handle) => {
    const chunk = Buffer.alloc(PAGES_PER_READ * PAGE_BYTES);
    const end = Math.min(there, last);
    for (let page = 1; page <= end; ) {
      if ((page - 1) * PAGE_BYTES >= checkBytes) return page;
      const read = readAt(handle, chunk, (page - 1) * PAGE_BYTES);
      if (read < PAGE_BYTES) throw damagedPage(files, page, 'it cannot be read');
      for (let at = 0; at + PAGE_BYTES <= read && page <= end; at += PAGE_BYTES, page++) {
        const content = chunk.subarray(at, at + PAGE_BYTES);
        if (!scan.pages.has(page) && !sums.check(page, content)) throw damagedPage(files, page);
      }
    }
    return undefined;
  });
}

function damagedPage({ database }: StoreFiles, page: number, what = 'it is not what was written'): EclipticError {
  return storeDamaged(database, `page ${page}: ${what}`, { page });
}

/**
 * The log, under whichever name it has. SQLite, when it is closed by the end of its thread and not by us, moves the log
 * into the database and deletes it, and what we know of the pages is out of date. So the log has a second name from its
 * beginning, under which it outlives that; then it is put back and taken again, which changes nothing.
 */
function logOf(files: StoreFiles): string {
  return sizeOf(files.wal) === 0 && sizeOf(files.walLink) > 0 ? files.walLink : files.wal;
}

/**
 * Before SQLite opens the database: makes everything private, puts the log back in its place, and cuts off what a crash
 * left behind its last commit, which SQLite would ignore.
 */
export function prepareFiles(files: StoreFiles, { position }: WalScan): void {
  if (logOf(files) === files.walLink) renameSync(files.walLink, files.wal);
  if (position && sizeOf(files.wal) > walEnd(position)) truncateSync(files.wal, walEnd(position));
  // SQLite gives its other files the mode of the database.
  if (!existsSync(files.database)) withFile(files.database, 'wx', (handle) => fsyncSync(handle));
  for (const path of [files.database, files.wal, files.walLink, files.mark, files.lock]) {
    if (existsSync(path)) chmodSync(path, 0o600);
  }
  syncFolder(files.folder);
}

/** Gives the log its second name. */
export function linkLog(files: StoreFiles): void {
  rmSync(files.walLink, { force: true });
  linkSync(files.wal, files.walLink);
  syncFolder(files.folder);
}

/** The database has all of the log. */
export function unlinkLog(files: StoreFiles): void {
  rmSync(files.walLink, { force: true });
}
