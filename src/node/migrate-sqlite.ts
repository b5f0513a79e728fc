import {
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type Libsql from 'libsql';
import type { Logger } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { storeDamaged, storeFailed } from '../store/faults.js';
import { FileStore } from '../store/file-store.js';
import type { Table, Write } from '../store/table.js';
import { syncFolder, withFile, writePrivately } from '../system/files/private-file.js';
import { SqliteFile, toSqliteError } from './sqlite-file.js';

/** The files of a store of release 0.1; `store.wal` is a second link of the write-ahead log. The database is moved last. */
const FILES = ['store.db-wal', 'store.wal', 'store.db-shm', 'store.db-journal', 'store.mark', 'store.db'];
const LOCK = 'store.lock';
const BACKUP = 'store-backup-sqlite';
/** A file in the new store while files of the old one may still be in the folder. It has the number of rows. */
const NOTE = join('store', 'migrated-from-sqlite');
const BATCH_BYTES = 1_048_576;

/** Is there a store of release 0.1, or a migration to finish? */
export function hasSqliteStore(folder: string): boolean {
  return [NOTE, ...FILES].some((name) => existsSync(join(folder, name)));
}

/**
 * Replaces a store of release 0.1, which was an SQLite database, by one of this release. The new store is made beside the
 * old one and takes its name when it is complete; after that the old files are moved away. A migration that was
 * interrupted before that moment begins again, and otherwise is finished.
 */
export async function migrateSqliteStore(folder: string, tables: readonly Table[], logger: Logger): Promise<void> {
  if (!existsSync(join(folder, NOTE))) await makeStore(folder, tables, logger);
  if (!existsSync(join(folder, NOTE))) return;
  const rows = Number(readFileSync(join(folder, NOTE), 'utf8'));
  const backup = join(folder, BACKUP);
  mkdirSync(backup, { recursive: true, mode: 0o700 });
  for (const name of [...FILES, LOCK]) {
    if (existsSync(join(folder, name))) renameSync(join(folder, name), join(backup, name));
  }
  syncFolder(backup);
  syncFolder(folder);
  rmSync(draftOf(folder), { recursive: true, force: true });
  rmSync(join(folder, NOTE));
  logger.warn({ rows, backup }, 'store: migrated from SQLite');
}

async function makeStore(folder: string, tables: readonly Table[], logger: Logger): Promise<void> {
  const { default: Database } = await import('libsql').catch((error) => {
    const message = `${folder} has a store of an earlier release, which is read with libsql; run: npm install libsql`;
    throw storeFailed(message, { reason: 'migration', file: join(folder, 'store.db') }, error);
  });
  const draft = draftOf(folder);
  const lock = lockOldStore(Database, join(folder, LOCK));
  let copy: Libsql.Database | undefined;
  try {
    // Another process may have migrated the store just before.
    if (existsSync(join(folder, NOTE)) || !hasSqliteStore(folder)) return;
    assertUnambiguous(folder);
    rmSync(draft, { recursive: true, force: true });
    mkdirSync(draft, { mode: 0o700 });
    const wal = copyFiles(folder, draft);
    copy = new Database(join(draft, 'store.db'));
    for (const setting of ['locking_mode = EXCLUSIVE', 'cell_size_check = ON', 'trusted_schema = OFF']) {
      copy.exec(`PRAGMA ${setting}`);
    }
    const file = new SqliteFile(join(folder, 'store.db'), copy, tables);
    const hasTables = file.examine();
    checkLog(folder, wal, file.frames());
    const store = await FileStore.open(draft, { tables, runtime: systemRuntime({ logger }) });
    const rows = await (hasTables ? fill(store, file) : Promise.resolve(0)).finally(() => store.close());
    writePrivately(join(draft, NOTE), String(rows));
    renameSync(join(draft, 'store'), join(folder, 'store'));
    syncFolder(folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    throw toSqliteError(error, join(folder, 'store.db'));
  } finally {
    copy?.close();
    lock.exec('ROLLBACK');
    lock.close();
  }
}

/** Copies all rows; returns their number. */
async function fill(store: FileStore, file: SqliteFile): Promise<number> {
  let batch: Write[] = [];
  let bytes = 0;
  for (const write of file.rows()) {
    batch.push(write);
    bytes += JSON.stringify((write as { row: unknown }).row).length;
    if (bytes < BATCH_BYTES) continue;
    await store.write(batch);
    [batch, bytes] = [[], 0];
  }
  await store.write(batch);
  for (const { table, rows, last } of file.numbered()) {
    const found = await store.count(table);
    if (found !== rows) throw storeDamaged(table.name, `it has ${found} of ${rows} rows`, { table: table.name });
    await useNumber(store, table, last);
  }
  // Pending rows without a number get the next ones, so they come after the highest numbers are known.
  for (const writes of file.pending()) await store.write(writes);
  const [damage] = await store.check();
  if (damage) throw storeDamaged(damage.file, damage.what);
  const counts = await Promise.all(file.tables.map((table) => store.count(table)));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Makes the store continue after this number, also where its row is gone. */
async function useNumber(store: FileStore, table: Table, last: number): Promise<void> {
  const column = table.columns[table.numberColumn]!;
  if (last === 0 || (await store.count(table, { where: { [column]: last } })) > 0) return;
  const row = Object.fromEntries(table.columns.map((name, index) => [name, table.types[index] === 'text' ? '' : 0]));
  await store.write([table.insert({ ...row, [column]: last }), table.delete({ [column]: last })]);
}

/** Copies the database and its log, under whichever name it has, so that SQLite changes no original. Returns the log. */
function copyFiles(folder: string, to: string): string {
  const at = (name: string) => join(folder, name);
  const [database, log, link] = [at('store.db'), at('store.db-wal'), at('store.wal')];
  const wal = sizeOf(log) === 0 && sizeOf(link) > 0 ? link : log;
  if (sizeOf(database) === 0 && (existsSync(at('store.mark')) || sizeOf(wal) > 0)) {
    throw storeDamaged(database, 'it is missing or empty, but other files of it are there');
  }
  const copy = (from: string, name: string) => copyFileSync(from, join(to, name), constants.COPYFILE_FICLONE);
  if (existsSync(database)) copy(database, 'store.db');
  if (existsSync(wal)) copy(wal, 'store.db-wal');
  if (existsSync(at('store.db-journal'))) copy(at('store.db-journal'), 'store.db-journal');
  return wal;
}

function assertUnambiguous(folder: string): void {
  const other = ['store', join(BACKUP, 'store.db')].find((name) => existsSync(join(folder, name)));
  if (other === undefined) return;
  const message = `${folder} has store.db and ${other}: move away the one that is not to be used`;
  throw storeFailed(message, { reason: 'migration', file: join(folder, other) });
}

/**
 * SQLite ignores everything after a damaged frame of its log. The mark says how far the log was acknowledged: three slots
 * of 512 bytes, of which the valid one with the highest number counts.
 */
function checkLog(folder: string, wal: string, frames: number): void {
  const mark = join(folder, 'store.mark');
  if (!existsSync(mark)) return;
  const bytes = readFileSync(mark);
  const slots = [0, 512, 1_024].map((place) => bytes.subarray(place, place + 48));
  const valid = slots.filter((slot) => slot.length === 48 && slot.readUInt32LE(44) === crc32(slot.subarray(0, 44)));
  const slot = valid.sort((a, b) => b.readDoubleLE(8) - a.readDoubleLE(8))[0];
  if (slot?.toString('latin1', 0, 8) !== 'ECLMARK1') throw storeDamaged(mark, 'it is not a mark of this store');
  const [isComplete, hasPosition] = [1, 2].map((flag) => (slot.readUInt32LE(16) & flag) !== 0);
  if (!hasPosition) return;
  const known = slot.readUInt32LE(28);
  const head = Buffer.alloc(32);
  if (existsSync(wal)) withFile(wal, 'r', (handle) => readSync(handle, head, 0, 32, 0));
  const isSame = head.readUInt32BE(16) === slot.readUInt32LE(20) && head.readUInt32BE(20) === slot.readUInt32LE(24);
  // The database has all of the log then, which may have been reset or removed.
  if (!isSame && isComplete) return;
  if (!isSame) throw storeDamaged(wal, sizeOf(wal) === 0 ? 'it is missing or empty' : 'its header is damaged');
  if (frames < known) throw storeDamaged(wal, `of at least ${known} frames only ${Math.max(0, frames)} can be read`);
}

/** As release 0.1 locks it, so that a process of that release and this one do not meet. */
function lockOldStore(Database: typeof Libsql, file: string): Libsql.Database {
  const lock = new Database(file);
  try {
    lock.exec('PRAGMA journal_mode = OFF');
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    throw storeFailed(`cannot use ${file}: another process holds it`, { file, reason: 'locked' }, error);
  }
}

function draftOf(folder: string): string {
  return join(folder, 'store.migrating');
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
