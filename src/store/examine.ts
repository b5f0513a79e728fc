import { chmodSync, existsSync, fsyncSync, linkSync, renameSync, rmSync, truncateSync } from 'node:fs';
import { EclipticError } from '../runtime/errors.js';
import { syncFolder, withFile } from '../system/files/private-file.js';
import { storeDamaged } from './faults.js';
import { PAGE_BYTES, readAt, type StoreFiles, sizeOf } from './files.js';
import { Mark } from './mark.js';
import { readWalPage, scanWal, type WalScan, walEnd } from './wal.js';

/** Identifies a store in the header of the file: "ECLP". */
export const APPLICATION_ID = 0x45434c50;

const PAGES_PER_READ = 256;

/** The files of a store as found before SQLite opens them. Nothing is written before they were checked. */
export interface Found {
  readonly mark: Mark | undefined;
  readonly scan: WalScan;
  readonly unchecked: number | undefined;
}

/**
 * Checks the files of a store before SQLite opens them, because SQLite would ignore damaged parts and write. At most
 * `checkBytes` are checked here and the rest later, so that a large store opens as fast as a small one.
 */
export function examine(files: StoreFiles, schemaVersion: number, checkBytes: number): Found {
  const wal = logOf(files);
  const mark = Mark.load(files.mark);
  if (sizeOf(files.database) === 0) {
    const left = [mark && files.mark, sizeOf(wal) > 0 ? wal : undefined].filter((path) => path !== undefined);
    if (left.length === 0) return { mark, scan: scanWal(wal), unchecked: undefined };
    throw storeDamaged(files.database, `it is missing or empty, but ${left.join(' and ')} is there`);
  }
  // Creating the file was interrupted: SQLite rolls that back, and nothing was stored yet.
  if (!mark && existsSync(files.journal)) return { mark, scan: scanWal(wal), unchecked: undefined };

  const scan = scanWal(wal, mark?.state.position?.frames);
  checkFirstPage(files, schemaVersion, firstPage(files, wal, scan, mark));
  // Checked after the version: a later release may have another mark format.
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

/** The log must reach as far as the mark says. When the database is complete, the log may have been reset or removed. */
export function checkLog(wal: string, { position, watched }: WalScan, { state }: Mark): void {
  const known = state.position;
  if (!known) return;
  if (position?.salt1 !== known.salt1 || position.salt2 !== known.salt2) {
    if (state.complete) return;
    throw storeDamaged(wal, sizeOf(wal) === 0 ? 'it is missing or empty' : 'its header is damaged');
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

function damagedPage({ database }: StoreFiles, page: number, what = 'checksum mismatch'): EclipticError {
  return storeDamaged(database, `page ${page}: ${what}`, { page });
}

/**
 * The log, under either of its names. When SQLite is closed by the end of its thread and not by us, it moves the log into
 * the database and deletes it, and our page checksums are out of date. So the log has a second hard link, under which it
 * survives; it is then put back and applied again, which changes nothing.
 */
function logOf(files: StoreFiles): string {
  return sizeOf(files.wal) === 0 && sizeOf(files.walLink) > 0 ? files.walLink : files.wal;
}

/**
 * Before SQLite opens the database: makes all files private, puts the log back, and cuts off frames behind its last
 * commit, which SQLite would ignore.
 */
export function prepareFiles(files: StoreFiles, { position }: WalScan): void {
  if (logOf(files) === files.walLink) renameSync(files.walLink, files.wal);
  if (position && sizeOf(files.wal) > walEnd(position)) truncateSync(files.wal, walEnd(position));
  // SQLite gives its other files the mode of the database file.
  if (!existsSync(files.database)) withFile(files.database, 'wx', (handle) => fsyncSync(handle));
  for (const path of [files.database, files.wal, files.walLink, files.mark, files.lock]) {
    if (existsSync(path)) chmodSync(path, 0o600);
  }
  syncFolder(files.folder);
}

/** Creates the second link of the log. */
export function linkLog(files: StoreFiles): void {
  rmSync(files.walLink, { force: true });
  linkSync(files.wal, files.walLink);
  syncFolder(files.folder);
}

/** To be called when the database has all of the log. */
export function unlinkLog(files: StoreFiles): void {
  rmSync(files.walLink, { force: true });
}
