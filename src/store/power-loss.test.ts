import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, expect, it } from 'vitest';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { toChange, toSelection } from './plan.js';
import { TABLE_NAMES } from './shapes.js';
import { SqliteEngine } from './sqlite-engine.js';
import type { Query, Write } from './store.js';
import type { TableName } from './tables.js';
import { readWalPage, scanWal } from './wal.js';
import type { Counters } from './wire.js';

/**
 * What a power cut leaves, by this model: what was synced is there; of what was written since, any sectors are, in any
 * order, and a file may end anywhere behind what was synced. A trace of writes runs on real files; after each one that
 * is acknowledged, every kind of state is made from the bytes before and after, and opened.
 */
const SYNC_POINTS = process.env.ECLIPTIC_SOAK ? 1_000 : 40;
const SECTOR = 512;

setFlagsFromString('--expose-gc');
const gc: () => void = runInNewContext('gc');

const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'ecliptic-power-'));
const runtime = new SimulatedRuntime({ seed: 7 });
const random = (below: number) => Math.floor(runtime.random() * below);

interface Files {
  readonly db: Buffer;
  readonly wal: Buffer;
  readonly mark: Buffer;
}

afterAll(() => rmSync(root, { recursive: true, force: true }));

it(`holds everything acknowledged after a power cut, at ${SYNC_POINTS} sync points [ST1]`, {
  timeout: SYNC_POINTS * 2_000,
}, async () => {
  const folder = mkdtempSync(join(root, 'trace-'));
  const engine = SqliteEngine.open(folder, { checkpointFrames: 40 });
  /** The marks that may be found: all since the last one that was synced. */
  let marks: Buffer[] = [capture(folder).mark];
  let states = 0;
  let checkpoints = 0;
  let content = contentOf(engine);
  let files = capture(folder);
  for (let point = 0; point < SYNC_POINTS; point++) {
    // In this thread, SQLite lets its files go when its statements are garbage; they are freed in a later turn.
    if (point % 4 === 0) gc();
    await new Promise((resolve) => setImmediate(resolve));
    const before = { files, content };
    commit(engine, point);
    content = contentOf(engine);
    files = capture(folder);
    // The mark of a commit is written when the commit is on disk, so not yet.
    for (const state of duringCommit(before.files, files)) {
      check(state, marks, [before.content, content], ++states);
    }
    marks.push(files.mark);
    for (const state of afterCommit(files)) check(state, marks, [content], ++states);

    if (point % 6 !== 5) continue;
    // What waits goes to its tables, which is a commit that changes nothing for anybody.
    const waiting = files;
    engine.settle();
    files = capture(folder);
    for (const state of duringCommit(waiting, files)) check(state, marks, [content], ++states);
    marks.push(files.mark);
    for (const state of afterCommit(files)) check(state, marks, [content], ++states);

    const unmoved = files;
    engine.tidy();
    if (countersOf(engine).checkpoints === checkpoints) continue;
    checkpoints++;
    files = capture(folder);
    for (const state of duringCheckpoint(unmoved, files)) {
      check(state, state.mark === unmoved.mark ? marks : [state.mark], [content], ++states);
    }
    marks = [files.mark];
    // A commit that changes nothing leaves nothing in the log, and must not make the mark ask for the log again.
    engine.run([{ kind: 'write', changes: [toChange({ delete: 'cursors', where: { name: 'none' } })] }]);
    files = capture(folder);
    marks.push(files.mark);
  }
  expect(checkpoints).toBeGreaterThan(SYNC_POINTS / 20);
  expect(states).toBeGreaterThan(SYNC_POINTS * 6);
  engine.close();
});

/** Before the sync that makes the next commit, behind which nothing of the log is certain. */
function* duringCommit(before: Files, after: Files): Iterable<Files> {
  const isNewLog = before.wal.compare(after.wal, 0, 32, 0, 32) !== 0;
  // A new log's header is synced before anything else is written, and is there or not: it lies within one sector.
  const start = isNewLog ? 32 : committedBytes(before.wal);
  const head = isNewLog ? after.wal.subarray(0, 32) : before.wal.subarray(0, start);
  if (isNewLog) yield { ...before, wal: Buffer.concat([head, before.wal.subarray(32)]) };
  const end = Math.max(start, committedBytes(after.wal));
  const cut = start + random(end - start);
  const old = before.wal.subarray(cut);
  yield { ...before, wal: Buffer.concat([head, after.wal.subarray(start, cut)]) };
  yield { ...before, wal: Buffer.concat([head, after.wal.subarray(start, cut), old]) };
  yield { ...before, wal: Buffer.concat([head, mixture(before.wal, after.wal).subarray(start)]) };
  yield { ...before, wal: Buffer.concat([head, after.wal.subarray(start, cut), garbage(random(9_000))]) };
}

/** The commit is acknowledged; behind it may be anything. */
function* afterCommit(files: Files): Iterable<Files> {
  yield files;
  const good = files.wal.subarray(0, committedBytes(files.wal));
  yield { ...files, wal: good };
  yield { ...files, wal: Buffer.concat([good, garbage(random(9_000))]) };
}

/** The log is whole. The database changes first, and when it is synced, the mark. */
function* duringCheckpoint(before: Files, after: Files): Iterable<Files> {
  yield { ...before, db: mixture(before.db, after.db) };
  yield { ...before, db: after.db };
  yield { ...after, mark: mixture(before.mark, after.mark) };
  yield after;
  // The log is not needed any more: a new one may have been begun, and its header torn.
  yield { ...after, wal: Buffer.concat([garbage(32), after.wal.subarray(32)]) };
  yield { ...after, wal: Buffer.alloc(0) };
}

/** The state is opened with any mark that may be there, and must hold one of these contents, whole. */
function check(state: Files, marks: readonly Buffer[], contents: readonly string[], number: number): void {
  const folder = mkdtempSync(join(root, 'state-'));
  writeFileSync(join(folder, 'store.db'), state.db);
  const ended = number % 5 === 0 && state.wal.length > 0;
  // Its thread may also have ended, and SQLite have moved the log and deleted it.
  writeFileSync(join(folder, ended ? 'store.wal' : 'store.db-wal'), state.wal);
  if (ended) moveLog(folder);
  writeFileSync(join(folder, 'store.mark'), anyOf(marks));
  const engine = SqliteEngine.open(folder);
  const found = contentOf(engine);
  if (!contents.includes(found)) expect.fail(`state ${number} lost something`);
  if (number % 3 === 0) {
    // And it can go on from there.
    commit(engine, number);
    const now = contentOf(engine);
    if (number % 2 === 0) engine.close();
    const copy = mkdtempSync(join(root, 'again-'));
    const again = capture(folder);
    writeFileSync(join(copy, 'store.db'), again.db);
    if (number % 2 === 1) writeFileSync(join(copy, 'store.db-wal'), again.wal);
    writeFileSync(join(copy, 'store.mark'), again.mark);
    const reopened = SqliteEngine.open(copy);
    if (contentOf(reopened) !== now) expect.fail(`state ${number} lost something later`);
    reopened.close();
    rmSync(copy, { recursive: true });
    if (number % 2 === 0) {
      rmSync(folder, { recursive: true });
      return;
    }
  }
  engine.close();
  rmSync(folder, { recursive: true });
}

/** One of the marks, or one of which the unsynced slot was being overwritten with another. */
function anyOf(marks: readonly Buffer[]): Buffer {
  const one = marks[random(marks.length)]!;
  if (random(3) > 0) return one;
  const other = marks[random(marks.length)]!;
  const torn = Buffer.from(one);
  other.copy(torn, 2 * SECTOR, 2 * SECTOR, 2 * SECTOR + random(48));
  return torn;
}

function moveLog(folder: string): void {
  const wal = join(folder, 'store.wal');
  const path = join(folder, 'store.db');
  let db = readFileSync(path);
  for (const [page, frame] of scanWal(wal).pages) {
    if (db.length < page * 4096) db = Buffer.concat([db, Buffer.alloc(page * 4096 - db.length)]);
    readWalPage(wal, frame).copy(db, (page - 1) * 4096);
  }
  writeFileSync(path, db);
}

function mixture(one: Buffer, other: Buffer): Buffer {
  const mixed = Buffer.alloc(Math.max(one.length, other.length));
  for (let place = 0; place < mixed.length; place += SECTOR) {
    const source = random(2) === 0 ? one : other;
    (place < source.length ? source : one.length > other.length ? one : other).copy(
      mixed,
      place,
      place,
      place + SECTOR,
    );
  }
  return mixed;
}

function garbage(length: number): Buffer {
  return Buffer.from(runtime.bytes(length));
}

/** Where the log's last commit ends. */
function committedBytes(wal: Buffer): number {
  const path = join(root, 'a.wal');
  writeFileSync(path, wal);
  const { position } = scanWal(path);
  return position ? 32 + position.frames * 4120 : 0;
}

function capture(folder: string): Files {
  const read = (name: string) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name)) : Buffer.alloc(0));
  return { db: read('store.db'), wal: read('store.db-wal'), mark: read('store.mark') };
}

function countersOf(engine: SqliteEngine): Counters {
  return (engine.run([{ kind: 'counters' }]) as [{ value: Counters }])[0].value;
}

function contentOf(engine: SqliteEngine): string {
  const outcomes = engine.run(
    TABLE_NAMES.map((from) => ({ kind: 'read', selection: toSelection({ from } as Query<TableName>) })),
  );
  for (const outcome of outcomes) if ('error' in outcome) throw outcome.error;
  return JSON.stringify(outcomes);
}

/** A group of calls that adds, changes and deletes. */
function commit(engine: SqliteEngine, point: number): void {
  const calls: Write[][] = [
    [{ insert: 'audit', row: { seq: 0, at: point, event: 'e'.repeat(random(3_000)), digest: `d${point}` } }],
    [{ put: 'cursors', row: { name: `cursor ${point % 7}`, value: point } }],
    [
      { put: 'agentState', row: { agent: 'mars', key: `key ${point % 40}`, value: 'v'.repeat(random(5_000)) } },
      { delete: 'audit', where: { seq: point - 30 } },
    ],
  ];
  // A change of rows that must be looked for does not wait.
  if (point % 10 === 9) calls.push([{ delete: 'audit', where: {}, below: { seq: point - 35 } }]);
  const outcomes = engine.run(calls.map((writes) => ({ kind: 'write', changes: writes.map(toChange) })));
  for (const outcome of outcomes) if ('error' in outcome) throw outcome.error;
}
