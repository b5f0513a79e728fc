import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { Connection } from './connection.js';
import { migration, SCHEMA_VERSION } from './migrations.js';
import { SqliteEngine } from './sqlite-engine.js';
import { endStores, SqliteStore } from './sqlite-store.js';

const ROOT = new URL('../..', import.meta.url);
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

describe('a process that is about to exit', () => {
  it('ends the threads of all its stores, busy or opening, with all their writes on disk [T-G6]', async () => {
    const [folder, other] = [temporaryFolder(), temporaryFolder()];
    const store = await open(folder);
    const writes = Array.from({ length: 200 }, (_, index) => count(store, `row ${index}`, index));
    const opening = SqliteStore.open(other);
    await endStores();
    await Promise.all(writes);
    await (await opening).close();
    await expect(store.count({ from: 'cursors' })).rejects.toMatchObject({ code: 'STORE_FAILED' });
    expect(await (await open(folder)).count({ from: 'cursors' })).toBe(200);
  });
});

describe('the files of a store', () => {
  it('are readable by their owner only, also when they were not before', async () => {
    const folder = temporaryFolder();
    const store = await open(folder);
    await count(store, 'a', 1);
    expect(modes(folder)).toEqual(['store.db', 'store.db-wal', 'store.lock', 'store.mark', 'store.wal'].map(isPrivate));
    await store.close();
    for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644);
    await (await open(folder)).close();
    expect(modes(folder)).toEqual(['store.db', 'store.lock', 'store.mark'].map(isPrivate));
  });

  it('keep everything when the store is closed and opened', async () => {
    const folder = temporaryFolder();
    for (let round = 1; round <= 3; round++) {
      const store = await open(folder);
      await count(store, `round ${round}`, round);
      await store.write([{ insert: 'audit', row: { seq: 0, at: 1, event: '', digest: '' } }]);
      expect(await store.count({ from: 'cursors' })).toBe(round);
      expect((await store.read({ from: 'audit' })).at(-1)!.seq).toBe(round);
      expect(await store.integrity()).toEqual([]);
      await store.close();
    }
  });

  it('of a later release are refused and stay unchanged, wherever the version is written [ST4]', () => {
    for (const isInLog of [false, true]) {
      const folder = filled(1);
      const later = new Connection(join(folder, 'store.db'), 0);
      cleanups.push(() => later.close());
      rmSync(join(folder, 'store.mark'));
      later.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
      if (!isInLog) later.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      const before = bytesOf(folder);
      expect(() => SqliteEngine.open(folder)).toThrow(
        expect.objectContaining({
          code: 'SCHEMA_VERSION_MISMATCH',
          details: expect.objectContaining({ expected: SCHEMA_VERSION, found: SCHEMA_VERSION + 1 }),
        }),
      );
      expect(bytesOf(folder) === before).toBe(true);
    }
  });

  it('of earlier releases are migrated step by step [ST4]', () => {
    const steps = [['ALTER one'], ['ALTER two', 'UPDATE two']];
    expect(migration(1, steps)).toEqual(['ALTER one', 'ALTER two', 'UPDATE two', 'PRAGMA user_version = 3']);
    expect(migration(2, steps)).toEqual(['ALTER two', 'UPDATE two', 'PRAGMA user_version = 3']);
    expect(migration(3, steps)).toEqual([]);
    expect(migration(0, steps).at(-1)).toBe('PRAGMA user_version = 3');
    expect(migration(0, steps).join()).not.toMatch(/ALTER/);
  });

  it('cannot be opened without a folder', async () => {
    await expect(SqliteStore.open(join(temporaryFolder(), 'missing'))).rejects.toMatchObject({ code: 'STORE_FAILED' });
  });

  it('open as fast when there are many rows as when there are few [ST5]', { timeout: 60_000 }, () => {
    const [few, many] = [filled(100), filled(40_000)];
    expect(statSync(join(many, 'store.db')).size).toBeGreaterThan(20_000_000);
    // The best of three, for others use the machine too.
    const timeOf = (folder: string) => Math.min(...[1, 2, 3].map(() => timeOnce(folder)));
    expect(timeOf(many)).toBeLessThan(timeOf(few) + 100);
  });
});

describe('a large store', () => {
  it('is checked while it is in use, and gives no more data when damage is found', async () => {
    const folder = filled(3_000);
    const path = join(folder, 'store.db');
    const bytes = readFileSync(path);
    bytes[bytes.length - 2_000]! ^= 1;
    writeFileSync(path, bytes);
    const store = await open(folder, { checkBytes: 0 });
    const found = async () => {
      for (;;) await store.count({ from: 'cursors' });
    };
    await expect(found()).rejects.toMatchObject({ code: 'STORE_DAMAGED', details: { file: path, table: 'audit' } });
    await expect(count(store, 'late', 1)).rejects.toMatchObject({ code: 'STORE_DAMAGED' });
  });
});

describe('a second process', () => {
  it('is refused while the store is in use [ST6]', async () => {
    const folder = temporaryFolder();
    const store = await open(folder);
    const lines = linesOf(child(folder, `store.close().then(() => console.log('opened'))`));
    expect((await lines.next()).value).toBe('STORE_FAILED cannot use store.db: another process holds it');
    await count(store, 'still mine', 1);
    await store.close();
    await expect(open(folder)).resolves.toBeDefined();
  });

  it('loses no acknowledged write when it is killed [ST3]', { timeout: 60_000 }, async () => {
    const folder = temporaryFolder();
    for (let round = 0; round < 3; round++) {
      const process = child(
        folder,
        `let next = 0;
         const more = async () => {
           for (;;) {
             const event = '${round}-' + next++;
             await store.write([{ insert: 'audit', row: { seq: 0, at: 1, event, digest: 'd' } }]);
             console.log(event);
           }
         };
         for (let index = 0; index < 20; index++) more();`,
      );
      const acknowledged: string[] = [];
      for await (const line of linesOf(process)) {
        acknowledged.push(line);
        if (acknowledged.length === 150 + round * 170) process.kill('SIGKILL');
      }
      expect(acknowledged.length).toBeGreaterThanOrEqual(150);
      const store = await open(folder);
      const kept = new Set((await store.read({ from: 'audit' })).map((row) => row.event));
      expect(acknowledged.filter((event) => !kept.has(event))).toEqual([]);
      expect(await store.integrity()).toEqual([]);
      await store.close();
    }
  });

  it('exits when it has nothing to do, but not before its writes are stored', async () => {
    const folder = temporaryFolder();
    const process = child(
      folder,
      `for (let index = 0; index < 500; index++) {
         void store.write([{ put: 'cursors', row: { name: String(index), value: 1 } }]).then(() => {
           if (index === 499) console.log('kept');
         });
       }`,
    );
    expect((await linesOf(process).next()).value).toBe('kept');
    expect(await new Promise((resolve) => process.on('exit', resolve))).toBe(0);
    // SQLite closed the database on its own there; the log's second name remains.
    expect(existsSync(join(folder, 'store.db-wal'))).toBe(false);
    expect(existsSync(join(folder, 'store.wal'))).toBe(true);
    const store = await open(folder);
    expect(await store.count({ from: 'cursors' })).toBe(500);
    expect(await store.counters()).toMatchObject({ marked: true });
  });
});

describe('many calls at once', () => {
  it('share few transactions', async () => {
    const store = await open(temporaryFolder());
    await Promise.all(Array.from({ length: 2_000 }, (_, index) => count(store, `n${index}`, index)));
    const { writes, transactions } = await store.counters();
    expect(writes).toBe(2_000);
    expect(transactions).toBeLessThan(20);
  });

  it('are divided by their size, so that no message to the thread is too long for a text [T-F4]', async () => {
    const store = await open(temporaryFolder());
    const large = 'x'.repeat(1_048_576);
    await Promise.all(Array.from({ length: 40 }, (_, index) => count(store, `${index} ${large}`, index)));
    expect((await store.counters()).transactions).toBeGreaterThan(1);
    expect(await store.count({ from: 'cursors' })).toBe(40);
  });

  it('that are one transaction beyond the limit are refused with a typed error [T-F4]', async () => {
    const store = await open(temporaryFolder());
    const name = 'x'.repeat(1_048_576);
    const writes = Array.from({ length: 130 }, (_, value) => ({ put: 'cursors', row: { name, value } }) as const);
    await expect(store.write(writes)).rejects.toMatchObject({ code: 'STORE_FAILED' });
    await count(store, 'next', 1);
    expect(await store.count({ from: 'cursors' })).toBe(1);
  });

  it('run checkpoints from time to time', async () => {
    const store = await open(temporaryFolder(), { checkpointFrames: 20 });
    for (let index = 0; index < 30; index++) await count(store, `n${index}`, index);
    expect((await store.counters()).checkpoints).toBeGreaterThan(0);
    expect(await store.count({ from: 'cursors' })).toBe(30);
    expect(await store.integrity()).toEqual([]);
  });
});

describe('a full disk', () => {
  it('fails writes without room, keeps the others, and works again when there is room [ST6]', async () => {
    const store = await open(temporaryFolder(), { maxPages: 120 });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, (_, index) =>
        store.write([
          { put: 'cursors', row: { name: `n${index}`, value: index } },
          {
            put: 'agentState',
            row: { agent: 'a', key: `k${index}`, value: 'x'.repeat(index % 4 === 0 ? 60_000 : 10) },
          },
        ]),
      ),
    );
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(failed.length).toBeGreaterThan(0);
    for (const { reason } of failed) {
      expect(reason).toMatchObject({ code: 'STORE_FAILED', retryable: true, details: { reason: 'full' } });
      expect(reason.message).toMatch(/store\.db: the disk is full/);
    }
    const names = (await store.read({ from: 'cursors' })).map((row) => row.name);
    const keys = (await store.read({ from: 'agentState' })).map((row) => `n${row.key.slice(1)}`);
    expect(names).toEqual(keys);
    expect(names).toHaveLength(40 - failed.length);
    expect(names.length).toBeGreaterThan(20);
    await store.write([{ delete: 'agentState', where: {} }]);
    await store.write([{ put: 'agentState', row: { agent: 'a', key: 'again', value: 'x'.repeat(60_000) } }]);
    expect(await store.integrity()).toEqual([]);
  });
});

describe('a thread that dies', () => {
  it('fails all pending and later calls, and the store can still be closed', async () => {
    const folder = temporaryFolder();
    const store = await SqliteStore.open(folder);
    await count(store, 'kept', 1);
    const post = Worker.prototype.postMessage;
    let worker: Worker | undefined;
    Worker.prototype.postMessage = function (this: Worker) {
      worker = this;
    };
    const waiting = [count(store, 'lost', 1), store.read({ from: 'cursors' })];
    const failures = waiting.map((call) => expect(call).rejects.toMatchObject({ code: 'STORE_FAILED' }));
    await Promise.resolve();
    Worker.prototype.postMessage = post;
    await worker!.terminate();
    await Promise.all(failures);
    await expect(count(store, 'late', 1)).rejects.toMatchObject({ code: 'STORE_FAILED' });
    await store.close();
    const again = await open(folder);
    expect(await again.read({ from: 'cursors' })).toEqual([{ name: 'kept', value: 1 }]);
  });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-sqlite-'));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function open(folder: string, options = {}): Promise<SqliteStore> {
  const store = await SqliteStore.open(folder, options);
  cleanups.push(() => store.close());
  return store;
}

function count(store: SqliteStore, name: string, value: number): Promise<void> {
  return store.write([{ put: 'cursors', row: { name, value } }]);
}

/** A folder with a store of so many rows, closed. */
function filled(rows: number): string {
  const folder = temporaryFolder();
  const engine = SqliteEngine.open(folder);
  const values = (index: number) => [0, index, 'x'.repeat(600), `digest ${index}`];
  for (let start = 0; start < rows; start += 1_000) {
    const changes = Array.from({ length: Math.min(1_000, rows) }, (_, index) => ({
      kind: 'insert' as const,
      table: 'audit' as const,
      values: values(start + index),
    }));
    engine.run([{ kind: 'write', changes }]);
    engine.tidy();
  }
  engine.close();
  return copyOf(folder);
}

function timeOnce(folder: string): number {
  const copy = copyOf(folder);
  const start = performance.now();
  const engine = SqliteEngine.open(copy, { checkBytes: 1_048_576 });
  const took = performance.now() - start;
  engine.close();
  return took;
}

/** Without what is open: in this thread, SQLite keeps its lock until its memory is freed. */
function copyOf(folder: string): string {
  const copy = temporaryFolder();
  for (const name of ['store.db', 'store.mark']) copyFileSync(join(folder, name), join(copy, name));
  return copy;
}

/** Another process with the store open as `store`; it says so if it cannot. */
function child(folder: string, code: string): ChildProcess {
  const script = `
    import { SqliteStore } from './src/store/sqlite-store.ts';
    try {
      const store = await SqliteStore.open(${JSON.stringify(folder)});
      ${code}
    } catch (error) {
      console.log(error.code, error.message);
    }`;
  const process_ = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  cleanups.push(() => process_.kill('SIGKILL'));
  return process_;
}

function linesOf(from: ChildProcess): AsyncIterableIterator<string> {
  return createInterface({ input: from.stdout! })[Symbol.asyncIterator]();
}

function modes(folder: string): string[] {
  return readdirSync(folder).map((name) => `${name} ${(statSync(join(folder, name)).mode & 0o777).toString(8)}`);
}

function isPrivate(name: string): string {
  return `${name} 600`;
}

function bytesOf(folder: string): string {
  return ['store.db', 'store.db-wal'].map((name) => bytes(join(folder, name))).join();
}

function bytes(path: string): string {
  return existsSync(path) ? readFileSync(path, 'hex') : '';
}
