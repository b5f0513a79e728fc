import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { tries } from '../../test/evidence.js';
import { SimulatedDisk } from '../../test/simulated-disk.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { Disk } from '../system/files/disk.js';
import { FileStore, type FileStoreOptions } from './file-store.js';
import { defineTable, type Table } from './table.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const KILLS = process.env.ECLIPTIC_SOAK ? 40 : 4;

const cursors = defineTable('cursors', { columns: { name: 'text', value: 'integer' }, key: ['name'] });
const events = defineTable('events', {
  columns: { seq: 'integer', at: 'real', event: 'text' },
  key: ['seq'],
  indexes: [['at']],
});
const TABLES: readonly Table[] = [cursors, events];

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

describe('the files of a store', () => {
  it('are readable by their owner only', async () => {
    const folder = temporaryFolder();
    const store = await open(folder);
    await count(store, 'a', 1);
    await store.compact();
    const inside = join(folder, 'store');
    expect(statSync(inside).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(inside))
      expect([name, statSync(join(inside, name)).mode & 0o777]).toEqual([name, 0o600]);
  });

  it('keep rows, figures and numbers when the store is closed and opened', async () => {
    const folder = temporaryFolder();
    const store = await open(folder);
    for (let at = 0; at < 5; at++) await store.write([events.insert({ seq: 0, at, event: `e${at}` })]);
    await store.write([events.delete({ seq: 5 })]);
    await store.close();
    const again = await open(folder);
    expect(await again.figures(events)).toEqual({ rows: 4, bytes: 8 });
    await again.write([events.insert({ seq: 0, at: 9, event: 'next' })]);
    expect((await again.read(events)).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 6]);
  });

  it('never reuse a number, even if its row came and went within one log', async () => {
    const folder = temporaryFolder();
    const store = await open(folder);
    await store.write([events.insert({ seq: 0, at: 1, event: 'gone' })]);
    await store.write([events.delete({ seq: 1 })]);
    await store.close();
    const again = await open(folder);
    await again.write([events.insert({ seq: 0, at: 1, event: 'next' })]);
    expect(await again.read(events)).toMatchObject([{ seq: 2 }]);
  });

  it('of a later release are refused and stay unchanged [ST4]', async () => {
    const disk = new SimulatedDisk();
    await (await openOn(disk)).close();
    const manifest = disk.read('manifest').toString().slice(9);
    const { crc32 } = await import('node:zlib');
    const later = manifest.replace('"format":1', '"format":2').trimEnd();
    const sum = crc32(later).toString(16).padStart(8, '0');
    disk.damage('manifest', Buffer.from(`${sum} ${later}\n`));
    const before = bytesOf(disk);
    await expect(openOn(disk)).rejects.toMatchObject({
      code: 'STORE_FAILED',
      details: { reason: 'version', format: 2 },
    });
    const other = defineTable('cursors', { columns: { name: 'text', value: 'real' }, key: ['name'] });
    disk.damage('manifest', Buffer.from(`${crc32(manifest.trimEnd()).toString(16).padStart(8, '0')} ${manifest}`));
    await expect(FileStore.open('', { tables: [other], disk })).rejects.toMatchObject({
      code: 'STORE_FAILED',
      details: { reason: 'version', table: 'cursors' },
    });
    expect(bytesOf(disk).length).toBe(before.length);
  });

  it('get an index that a later release adds, and keep tables that it does not know [ST4]', async () => {
    const disk = new SimulatedDisk();
    const store = await openOn(disk);
    for (let at = 0; at < 100; at++) await store.write([events.insert({ seq: 0, at, event: `e${at % 7}` })]);
    await count(store, 'kept', 7);
    await store.close();
    const later = defineTable('events', {
      columns: { seq: 'integer', at: 'real', event: 'text' },
      key: ['seq'],
      indexes: [['at'], ['event', 'at']],
    });
    const migrated = await FileStore.open('', { tables: [later], disk });
    const found = await migrated.read(later, { where: { event: 'e3' }, orderBy: 'at', descending: true, limit: 2 });
    expect(found.map(({ at }) => at)).toEqual([94, 87]);
    await migrated.write([later.update({ event: 'e3' }, { event: 'moved' })]);
    expect(await migrated.count(later, { where: { event: 'moved' } })).toBe(14);
    expect(await migrated.count(later, { where: { event: 'e3' } })).toBe(0);
    expect(await migrated.check()).toEqual([]);
    await migrated.close();
    const back = await openOn(disk);
    expect(await back.read(cursors)).toEqual([{ name: 'kept', value: 7 }]);
    // The release before does not maintain the index, which the later one builds again.
    await back.write([events.delete({ seq: 4 }), events.update({ seq: 11 }, { event: 'again' })]);
    await back.close();
    const again = await FileStore.open('', { tables: [later], disk });
    expect(await again.count(later, { where: { event: 'moved' } })).toBe(12);
    expect(await again.read(later, { where: { event: 'again' } })).toMatchObject([{ seq: 11 }]);
    expect(await again.check()).toEqual([]);
    await again.close();
  });

  it('cannot be opened without a folder', async () => {
    await expect(FileStore.open(join(temporaryFolder(), 'none'), { tables: TABLES })).rejects.toMatchObject({
      code: 'STORE_FAILED',
    });
  });

  it('open with a few reads, however many rows there are [ST5]', async () => {
    const bytesRead = async (rows: number) => {
      const disk = new SimulatedDisk();
      const store = await openOn(disk);
      for (let at = 0; at < rows; at += 1_000) {
        const batch = Array.from({ length: Math.min(rows, 1_000) }, (_, index) => {
          return events.insert({ seq: 0, at: at + index, event: 'x'.repeat(100) });
        });
        await store.write(batch);
      }
      await store.close();
      const counting = new CountingDisk(disk);
      const again = await FileStore.open('', { tables: TABLES, disk: counting.disk });
      expect(await again.count(events)).toBe(rows);
      return counting.bytes;
    };
    const few = await bytesRead(1_000);
    expect(await bytesRead(100_000)).toBeLessThan(few * 2);
  });

  it('are merged, so that few runs remain, and deleted rows leave the disk', async () => {
    const disk = new SimulatedDisk();
    const store = await openOn(disk, { logBytes: 4_000 });
    for (let round = 0; round < 400; round++) await count(store, `n${round % 50} ${'x'.repeat(100)}`, round);
    await store.write([cursors.delete({})]);
    expect(disk.list().filter((name) => name.startsWith('run-')).length).toBeLessThan(12);
    await store.compact();
    expect(disk.list().filter((name) => name.startsWith('run-'))).toHaveLength(1);
    const size = disk.list().reduce((sum, name) => sum + disk.read(name).length, 0);
    expect(size).toBeLessThan(4_000);
    expect(await store.count(cursors)).toBe(0);
  });
});

describe('another process', () => {
  it('is refused while the store is in use [ST6]', async () => {
    const folder = temporaryFolder();
    const store = await open(folder);
    await count(store, 'a', 1);
    const [line] = await once(createInterface({ input: child(folder, `console.log('opened');`).stdout! }), 'line');
    expect(line).toMatch(/STORE_FAILED cannot use .*: process \d+ has it open/);
    await expect(FileStore.open(folder, { tables: TABLES })).rejects.toMatchObject({ details: { reason: 'locked' } });
    await count(store, 'b', 2);
    expect(await store.count(cursors)).toBe(2);
  });

  it(`loses no acknowledged write when it is killed, ${KILLS} times [ST3]`, { timeout: KILLS * 15_000 }, async () => {
    const folder = temporaryFolder();
    const acknowledged: string[] = [];
    tries(KILLS, 'kills');
    for (let round = 0; round < KILLS; round++) {
      const process = child(
        folder,
        `let number = 0;
         const more = async () => {
           for (;;) {
             const event = '${round} ' + number++;
             await store.write([events.insert({ seq: 0, at: 1, event }), cursors.put({ name: 'c' + number % 50, value: number })]);
             console.log(event);
           }
         };
         for (let index = 0; index < 20; index++) more();`,
      );
      let lines = 0;
      for await (const line of createInterface({ input: process.stdout! })) {
        acknowledged.push(line);
        if (++lines === 150 + round * 170) process.kill('SIGKILL');
      }
      expect(lines).toBeGreaterThanOrEqual(150);
      if (process.signalCode === null) await once(process, 'exit');
      const store = await FileStore.open(folder, { tables: TABLES, logBytes: 20_000 });
      const kept = new Set((await store.read(events)).map((row) => row.event));
      expect(acknowledged.filter((event) => !kept.has(event))).toEqual([]);
      expect(await store.check()).toEqual([]);
      await store.close();
    }
  });

  it('exits when it has nothing to do, but not before its writes are stored [T-G6]', async () => {
    const folder = temporaryFolder();
    const process = child(
      folder,
      `for (let index = 0; index < 500; index++) {
         void store.write([cursors.put({ name: String(index), value: 1 })]).then(() => {
           if (index === 499) console.log('kept');
         });
       }`,
    );
    const [line] = await once(createInterface({ input: process.stdout! }), 'line');
    expect(line).toBe('kept');
    const [code] = await once(process, 'exit');
    expect(code).toBe(0);
    const store = await open(folder);
    expect(await store.count(cursors)).toBe(500);
  });
});

describe('many calls at once', () => {
  it('share few records of the log', async () => {
    const disk = new SimulatedDisk();
    let syncs = 0;
    const store = await openOn(disk);
    disk.onSync = () => syncs++;
    await Promise.all(Array.from({ length: 2_000 }, (_, index) => count(store, `n${index}`, index)));
    expect(syncs).toBeLessThan(2 * 20);
    expect(await store.count(cursors)).toBe(2_000);
  });

  it('are divided by their size [T-F4]', async () => {
    const store = await openOn(new SimulatedDisk());
    const large = 'x'.repeat(1_048_576);
    await Promise.all(Array.from({ length: 40 }, (_, index) => count(store, `${index} ${large}`, index)));
    expect(await store.count(cursors)).toBe(40);
  });

  it('leave other tasks their turn during a long read, and keep their order', async () => {
    const store = await openOn(new SimulatedDisk());
    const rows = Array.from({ length: 20_000 }, (_, at) => events.insert({ seq: 0, at, event: `event-${at}` }));
    await store.write(rows);
    let turns = 0;
    let done = false;
    const turn = () => {
      turns++;
      if (!done) setImmediate(turn);
    };
    setImmediate(turn);
    const found = store.read(events, { containing: { text: 'EVENT-9', in: ['event'] }, orderBy: 'at', limit: 5_000 });
    const change = store.write([events.delete({})]);
    const after = store.count(events);
    expect(await found).toHaveLength(1_111);
    done = true;
    expect(turns).toBeGreaterThan(8);
    await change;
    expect(await after).toBe(0);
  });

  it('read whole tables while runs are merged', async () => {
    const rows = Array.from({ length: 200 }, (_, at) => events.insert({ seq: 0, at, event: 'x'.repeat(200) }));
    // One of these numbers of runs makes the store merge them during the read.
    for (let runs = 8; runs <= 14; runs++) {
      const disk = new SimulatedDisk();
      disk.isSlow = true;
      const store = await openOn(disk, { logBytes: 40_000 });
      for (let written = 0; written < runs; written++) await store.write(rows);
      const found = await store.read(events, { where: { event: 'x'.repeat(200) } });
      expect(found).toHaveLength(runs * 200);
    }
  });

  it('leave the indexes as they were when they are undone', async () => {
    const store = await openOn(new SimulatedDisk());
    await store.write([1, 2, 3].map((at) => events.insert({ seq: 0, at, event: `e${at}` })));
    await store.compact();
    const everything = { above: { at: 0 }, orderBy: 'at' } as const;
    const before = await store.read(events, everything);
    // The update reads the index in the middle of the call; the insert fails.
    const middle = events.update({ at: 2 }, { at: 9 });
    const conflict = events.insert({ seq: 3, at: 5, event: 'again' });
    for (const change of [events.delete({ seq: 1 }), events.update({ seq: 1 }, { at: 7 })]) {
      const added = events.insert({ seq: 0, at: 8, event: 'added' });
      await expect(store.write([change, added, middle, conflict])).rejects.toMatchObject({ code: 'STORE_FAILED' });
      expect(await store.read(events, everything)).toEqual(before);
      expect(await store.check()).toEqual([]);
    }
  });

  it('survive a callback that throws', async () => {
    const store = await openOn(new SimulatedDisk());
    store.commit([cursors.put({ name: 'a', value: 1 })], () => {
      throw new Error('from a callback');
    });
    await count(store, 'b', 2);
    expect(await store.count(cursors)).toBe(2);
  });
});

describe('a full disk', () => {
  it('fails writes without room, keeps the others, and works again when there is room [ST6]', async () => {
    const disk = new SimulatedDisk();
    const store = await openOn(disk);
    disk.capacity = 60_000;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, (_, index) =>
        store.write([
          cursors.put({ name: `n${index}`, value: index }),
          events.insert({ seq: 0, at: index, event: 'x'.repeat(index % 4 === 0 ? 30_000 : 10) }),
        ]),
      ),
    );
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(failed.length).toBeGreaterThan(0);
    for (const { reason } of failed) {
      expect(reason).toMatchObject({ code: 'STORE_FAILED', retryable: true, details: { reason: 'full' } });
      expect(reason.message).toMatch(/store\/.*: the disk is full/);
    }
    const names = (await store.read(cursors)).map((row) => row.value).sort((a, b) => a - b);
    expect((await store.read(events)).map((row) => row.at)).toEqual(names);
    expect(names).toHaveLength(40 - failed.length);
    expect(names.length).toBeGreaterThan(20);
    disk.capacity = Number.POSITIVE_INFINITY;
    await store.write([events.delete({}), events.insert({ seq: 0, at: 99, event: 'x'.repeat(60_000) })]);
    expect(await store.check()).toEqual([]);
    const again = await openOn(disk.copy());
    expect((await again.read(events)).map((row) => row.at)).toEqual([99]);
  });

  it('flushes a full log when there is room again [ST6]', async () => {
    const disk = new SimulatedDisk();
    const runtime = new SimulatedRuntime();
    const opening = openOn(disk, { runtime, logBytes: 20_000 });
    await runtime.advance(10);
    const store = await opening;
    const logs = () => disk.list().filter((name) => name.startsWith('log-')).length;
    // Room for the logs, and not for a run beside them.
    disk.capacity = 45_000;
    for (let n = 0; n < 5; n++) {
      const written = store.write([events.insert({ seq: 0, at: n, event: 'x'.repeat(6_000) })]);
      await runtime.advance(10);
      await written;
    }
    expect(logs()).toBe(2);
    disk.capacity = Number.POSITIVE_INFINITY;
    await runtime.advance(6_000);
    expect(logs()).toBe(1);
    expect(await store.count(events)).toBe(5);
    const closing = store.close();
    await runtime.advance(10);
    await closing;
  });

  it('lets a store close only when all callers are told, also from a callback', async () => {
    const disk = new SimulatedDisk();
    const store = await openOn(disk);
    disk.capacity = disk.list().reduce((sum, name) => sum + disk.read(name).length, 0) + 4_000;
    const told: string[] = [];
    let isClosed = false;
    const names = ['a', 'b'.repeat(5_000), 'c', 'd', 'e'];
    await new Promise<void>((resolve) => {
      for (const name of names) {
        store.commit([cursors.put({ name, value: 1 })], (error) => {
          told.push(`${name[0]} ${error === undefined ? 'stored' : 'failed'}${isClosed ? ' too late' : ''}`);
          void store.close().then(() => {
            isClosed = true;
            resolve();
          });
        });
      }
    });
    expect(told).toEqual(['a stored', 'b failed', 'c stored', 'd stored', 'e stored']);
    const again = await openOn(disk.copy());
    expect((await again.read(cursors)).map(({ name }) => name)).toEqual(['a', 'c', 'd', 'e']);
  });

  it('loses nothing where a manifest is reported as failed, but was written', async () => {
    class Unsure extends SimulatedDisk {
      isUnsure = false;

      override async replace(name: string, bytes: Buffer): Promise<void> {
        await super.replace(name, bytes);
        if (this.isUnsure) throw Object.assign(new Error('input/output error'), { code: 'EIO' });
      }
    }
    const disk = new Unsure();
    const store = await openOn(disk, { logBytes: 4_000 });
    disk.isUnsure = true;
    for (let index = 0; index < 100; index++) {
      await count(store, `n${index} ${'x'.repeat(200)}`, index);
      const crashed = await openOn(disk.copy());
      expect(await crashed.count(cursors)).toBe(index + 1);
      expect(await crashed.check()).toEqual([]);
    }
    disk.isUnsure = false;
    await store.compact();
    expect(await store.check()).toEqual([]);
    const again = await openOn(disk.copy());
    expect(await again.count(cursors)).toBe(100);
  });

  it('does not stop a store that cannot flush, and loses nothing', async () => {
    const disk = new SimulatedDisk();
    const store = await openOn(disk, { logBytes: 4_000 });
    let stored = 0;
    for (let index = 0; index < 200; index++) {
      // Room comes and goes, so logs cannot always be continued, nor runs written.
      disk.capacity = index % 7 < 3 ? 12_000 + index * 40 : Number.POSITIVE_INFINITY;
      await count(store, `n${index} ${'x'.repeat(200)}`, index).then(
        () => stored++,
        () => {},
      );
    }
    expect(stored).toBeGreaterThan(100);
    expect(await store.count(cursors)).toBe(stored);
    const again = await openOn(disk.copy());
    expect(await again.count(cursors)).toBe(stored);
    disk.capacity = Number.POSITIVE_INFINITY;
    await store.compact();
    expect(await store.check()).toEqual([]);
    expect(await store.read(cursors)).toHaveLength(stored);
  });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-store-'));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function open(folder: string): Promise<FileStore> {
  const store = await FileStore.open(folder, { tables: TABLES });
  cleanups.push(() => store.close());
  return store;
}

async function openOn(disk: Disk, options: Partial<FileStoreOptions> = {}): Promise<FileStore> {
  const store = await FileStore.open('', { tables: TABLES, disk, ...options });
  cleanups.push(() => store.close());
  return store;
}

function count(store: FileStore, name: string, value: number): Promise<void> {
  return store.write([cursors.put({ name, value })]);
}

function bytesOf(disk: SimulatedDisk): string {
  return disk
    .list()
    .map((name) => disk.read(name).toString('hex'))
    .join();
}

/** Counts the bytes that are read. */
class CountingDisk {
  bytes = 0;
  readonly disk: Disk;

  constructor(disk: Disk) {
    const counted = (bytes: Buffer) => {
      this.bytes += bytes.length;
      return bytes;
    };
    this.disk = {
      pathOf: (name) => disk.pathOf(name),
      list: () => disk.list(),
      read: (name) => counted(disk.read(name)),
      open: (name) => {
        const file = disk.open(name);
        return { ...file, readAt: (offset, length) => counted(file.readAt(offset, length)) };
      },
      create: (name) => disk.create(name),
      createLog: (name, head) => disk.createLog(name, head),
      replace: (name, bytes) => disk.replace(name, bytes),
      remove: (name) => disk.remove(name),
    };
  }
}

/** Another process with the store open as `store`; it says so if it cannot. */
function child(folder: string, code: string): ChildProcess {
  const script = `
    import { FileStore } from './src/store/file-store.ts';
    import { defineTable } from './src/store/table.ts';
    const cursors = defineTable('cursors', { columns: { name: 'text', value: 'integer' }, key: ['name'] });
    const events = defineTable('events', { columns: { seq: 'integer', at: 'real', event: 'text' }, key: ['seq'], indexes: [['at']] });
    try {
      const store = await FileStore.open(${JSON.stringify(folder)}, { tables: [cursors, events], logBytes: 20_000 });
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
