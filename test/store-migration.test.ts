import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import Database from 'libsql';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { outbox } from '../src/mail/tables.js';
import { audit, journal } from '../src/mesh/audit/tables.js';
import { createNode } from '../src/node/compose.js';
import { openStore, TABLES } from '../src/node/tables.js';
import type { EclipticError } from '../src/runtime/errors.js';
import { systemRuntime } from '../src/runtime/system-runtime.js';
import type { FileStore } from '../src/store/file-store.js';
import { ROOT } from './source-files.js';

const FIXTURE = join(ROOT, 'test', 'fixtures', 'store-sqlite');
const NAMES = ['store.db', 'store.db-wal', 'store.lock', 'store.mark'];
const ROWS: Readonly<Record<string, object[]>> = JSON.parse(readFileSync(join(FIXTURE, 'rows.json'), 'utf8'));
const COUNT = Object.values(ROWS).flat().length;

let folder: string;
let originals: Readonly<Record<string, string>>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-migration-'));
  for (const name of NAMES) writeFileSync(at(name), gunzipSync(readFileSync(join(FIXTURE, `${name}.gz`))));
  cpSync(at('store.db-wal'), at('store.wal'));
  originals = filesIn(folder);
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('a store of the release before', () => {
  it('is migrated with every row, from its tables, its log and its pending calls [ST4]', async () => {
    const warn = vi.fn();
    const logger = { debug: vi.fn(), info: vi.fn(), warn, error: vi.fn() };
    const store = await openStore(folder, { runtime: systemRuntime({ logger }) });
    expect(await rowsOf(store)).toEqual(ROWS);
    expect(await store.check()).toEqual([]);
    await store.close();
    expect(warn.mock.calls).toEqual([
      [{ rows: COUNT, backup: at('store-backup-sqlite') }, 'store: migrated from SQLite'],
    ]);
    expect(logger.error).not.toHaveBeenCalled();
  });

  it('keeps its old files byte for byte, and is not migrated twice [ST4]', async () => {
    await migrate();
    expect(readdirSync(folder).sort()).toEqual(['store', 'store-backup-sqlite']);
    expect(filesIn(at('store-backup-sqlite'))).toEqual(originals);
    expect(existsSync(at('store/migrated-from-sqlite'))).toBe(false);

    const store = await openStore(folder);
    await store.write([journal.delete({})]);
    await store.close();
    expect(Object.keys(await migrate())).not.toContain('journal');
  });

  it('never gives a number again, also when the row is gone [ST4]', async () => {
    const store = await openStore(folder);
    // Rows 4 and 5 were pending, and 5 was deleted again; 1 to 3 were deleted long before.
    await store.write([
      outbox.insert({ id: 'next', number: 0, node: 'n', envelope: '{}', storedAt: 1, expiresAt: null }),
    ]);
    await store.write([audit.insert({ seq: 0, at: 1, event: '{}', digest: 'd' })]);
    expect((await store.read(outbox)).map(({ id, number }) => [id, number])).toEqual([
      ['o4', 4],
      ['next', 6],
    ]);
    expect((await store.read(audit)).at(-1)!.seq).toBe(ROWS.audit!.length + 1);
    await store.close();
  });

  it('keeps a number whose row was deleted last, without pending calls [ST4]', async () => {
    change("DELETE FROM _pending; UPDATE _figures SET last = 70 WHERE name = 'outbox'");
    const store = await openStore(folder);
    await store.close();
    const again = await openStore(folder);
    await again.write([outbox.insert({ id: 'n', number: 0, node: 'n', envelope: '{}', storedAt: 1, expiresAt: null })]);
    expect((await again.read(outbox))[0]!.number).toBe(71);
    await again.close();
  });

  it('is migrated from the second link of its log when the first is gone [ST4]', async () => {
    rmSync(at('store.db-wal'));
    expect(await migrate()).toEqual(ROWS);
  });

  it('lets a node start, and deliver the mail that waits [ST4]', async () => {
    const store = await openStore(folder);
    const node = await createNode({ store });
    const received: unknown[] = [];
    node.agent({ id: 'pluto', tier: 2 }).onNotification(({ payload }) => void received.push(payload));
    await vi.waitFor(() => expect(received).toHaveLength(5), 10_000);
    expect(received).toEqual([0, 1, 2, 3, 4].map((n) => ({ text: `waits ${n} ü€😀` })));
    await expect(node.records!.audit.check()).resolves.toMatchObject({ rows: expect.any(Number) });
    await node.stop();
  });
});

describe('an interrupted migration', () => {
  it('begins again when the new store was not complete [ST4]', async () => {
    mkdirSync(at('store.migrating/store'), { recursive: true });
    writeFileSync(at('store.migrating/store.db'), 'half a copy');
    writeFileSync(at('store.migrating/store/log-00000001'), 'half a log');
    expect(await migrate()).toEqual(ROWS);
    expect(readdirSync(folder).sort()).toEqual(['store', 'store-backup-sqlite']);
  });

  it.each([0, 1, 2, 3, 4, 5])('is finished when %i of the old files had been moved [ST4]', async (moved) => {
    await migrate();
    const order = ['store.db-wal', 'store.wal', 'store.mark', 'store.db', 'store.lock'];
    for (const name of order.slice(moved)) cpSync(at(`store-backup-sqlite/${name}`), at(name));
    for (const name of order.slice(moved)) rmSync(at(`store-backup-sqlite/${name}`));
    mkdirSync(at('store.migrating'));
    writeFileSync(at('store/migrated-from-sqlite'), String(COUNT));
    expect(await migrate()).toEqual(ROWS);
    expect(readdirSync(folder).sort()).toEqual(['store', 'store-backup-sqlite']);
    expect(filesIn(at('store-backup-sqlite'))).toEqual(originals);
    expect(existsSync(at('store/migrated-from-sqlite'))).toBe(false);
  });
});

describe('the migration refuses, and leaves everything as it was,', () => {
  it.each([
    ['another text', 'audit', "UPDATE audit SET event = replace(event, 'mars', 'mbrs') WHERE seq = 5"],
    ['another number', 'receipts', 'UPDATE receipts SET at = at + 1'],
    ['a text that is not UTF-8', 'addresses', "UPDATE addresses SET card = CAST(x'ff' AS text) WHERE address = 'mars'"],
  ])('a row with %s, and names its table [ST4 ST2]', async (_, table, statement) => {
    change(statement);
    const error = await refused('STORE_DAMAGED', new RegExp(`of table ${table} has a wrong checksum$`));
    expect(error.details).toMatchObject({ table, file: at('store.db') });
  });

  it('a damaged write-ahead log, which SQLite would cut off in silence [ST4 ST2]', async () => {
    for (const name of ['store.db-wal', 'store.wal']) {
      const bytes = readFileSync(at(name));
      bytes[32 + 24 + 100]! ^= 1;
      writeFileSync(at(name), bytes);
    }
    await refused('STORE_DAMAGED', /store\.db-wal is damaged: of at least \d+ frames only 0 can be read/);
  });

  it('a missing write-ahead log or database [ST4 ST2]', async () => {
    for (const name of ['store.db-wal', 'store.wal']) rmSync(at(name));
    await refused('STORE_DAMAGED', /store\.db-wal is damaged: it is missing or empty/);
    rmSync(at('store.db'));
    await refused('STORE_DAMAGED', /store\.db is damaged: it is missing or empty/);
  });

  it('pending calls with a wrong checksum [ST4 ST2]', async () => {
    change('UPDATE _pending SET sum = sum + 1 WHERE number = 3');
    await refused('STORE_DAMAGED', /the pending calls cannot be read/);
  });

  it('fewer rows than there were [ST4 ST2]', async () => {
    change('DELETE FROM journal WHERE seq = 3');
    await refused('STORE_DAMAGED', /journal is damaged: it has 10 of 11 rows/);
  });

  it('a file of a later release [ST4]', async () => {
    change('PRAGMA user_version = 2');
    await refused('SCHEMA_VERSION_MISMATCH', /written by a later release/);
  });

  it('a file that is no database [ST4 ST2]', async () => {
    writeFileSync(at('store.db'), Buffer.alloc(8_192, 'x'));
    for (const name of ['store.db-wal', 'store.wal', 'store.mark']) rmSync(at(name));
    await refused('STORE_DAMAGED', /store\.db is damaged/);
  });

  it('a folder with two stores, of which it cannot know which one counts [ST4]', async () => {
    mkdirSync(at('store'));
    await refused('STORE_FAILED', /has store\.db and store: move away the one that is not to be used/);
  });

  it('a store that another process has open [ST4 ST6]', async () => {
    const holder = new Database(at('store.lock'));
    holder.exec('PRAGMA journal_mode = OFF');
    holder.exec('BEGIN EXCLUSIVE');
    try {
      await refused('STORE_FAILED', /another process holds it/);
    } finally {
      holder.exec('ROLLBACK');
      holder.close();
    }
  });
});

it('says how to install what reads the old store where it is missing [ST4]', async () => {
  vi.doMock('libsql', () => {
    throw new Error('Cannot find module');
  });
  try {
    const error = await refused('STORE_FAILED', /run: npm install libsql$/);
    expect(error.details).toMatchObject({ reason: 'migration' });
  } finally {
    vi.doUnmock('libsql');
  }
});

async function refused(code: string, message: RegExp): Promise<EclipticError> {
  const before = filesIn(folder);
  const error: EclipticError = await openStore(folder).then(
    () => expect.unreachable('the store was opened'),
    (thrown) => thrown,
  );
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
  expect(filesIn(folder)).toEqual(before);
  return error;
}

/** Changes the old store, and leaves no log and no mark that would contradict the change. */
function change(statements: string): void {
  const database = new Database(at('store.db'));
  database.exec(statements);
  database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').all();
  database.close();
  for (const name of ['store.db-wal', 'store.db-shm', 'store.wal', 'store.mark']) rmSync(at(name), { force: true });
}

async function migrate(): Promise<Record<string, object[]>> {
  const store = await openStore(folder);
  try {
    return await rowsOf(store);
  } finally {
    await store.close();
  }
}

async function rowsOf(store: FileStore): Promise<Record<string, object[]>> {
  const found: Record<string, object[]> = {};
  for (const table of TABLES) {
    const rows = await store.read(table);
    if (rows.length > 0) found[table.name] = rows;
  }
  return found;
}

/** The digest of each file in a folder. */
function filesIn(path: string): Record<string, string> {
  const names = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(names.map(({ name }) => [name, digestOf(join(path, name))]));
}

function digestOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

function at(name: string): string {
  return join(folder, name);
}
