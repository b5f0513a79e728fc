import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { toChange, toSelection } from './plan.js';
import { TABLE_NAMES } from './shapes.js';
import { SqliteEngine } from './sqlite-engine.js';
import type { Query, Write } from './store.js';
import type { TableName } from './tables.js';
import type { Call, Damage, EngineOptions } from './wire.js';

const CASES = process.env.ECLIPTIC_SOAK ? 10_000 : 200;
const TIMEOUT = CASES * 400;

setFlagsFromString('--expose-gc');
const gc: () => void = runInNewContext('gc');

/** In this thread, SQLite lets its files go when its statements are garbage; they are freed in a later turn. */
function collectGarbage(): Promise<void> {
  gc();
  return new Promise((resolve) => setImmediate(resolve));
}

// In memory where that can be had: nothing here depends on a disk, and every case syncs a dozen times.
const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'ecliptic-damage-'));
const runtime = new SimulatedRuntime({ seed: 20_261 });
const random = (below: number) => Math.floor(runtime.random() * below);

/** A store as a process left it, and what is in it. */
interface Image {
  readonly folder: string;
  readonly content: string;
}

const images: Record<string, Image> = {};

beforeAll(() => {
  images.killed = image('killed', (engine) => {
    fill(engine, 20);
    engine.settle();
    fill(engine, 20);
  });
  images.checkpointed = image('checkpointed', (engine) => {
    fill(engine, 40);
    engine.checkpoint();
  });
  images.restarted = image('restarted', (engine) => {
    fill(engine, 40);
    engine.checkpoint();
    fill(engine, 15);
  });
  images.appended = image('appended', (engine) => {
    fill(engine, 20);
    engine.checkpoint();
    fill(engine, 20);
    engine.checkpoint();
    engine.close();
  });
  // As SQLite leaves it when its thread ends: the log is in the database, and gone but for its second name.
  images.ended = image('ended', (engine) => fill(engine, 30));
  const ended = join(root, 'ended');
  rmSync(join(ended, 'store.db-wal'));
});

afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('a damaged store', () => {
  it('opens unchanged without damage', () => {
    for (const [name, { folder, content }] of Object.entries(images)) {
      expect([name, outcome(copyOf(folder), {})]).toEqual([name, content]);
    }
  });

  it(`is never read wrongly in silence: ${CASES} damages of the database and its log [ST2]`, {
    timeout: TIMEOUT,
  }, async () => {
    const detected = await tryDamages(CASES, ['store.db', 'store.db-wal', 'store.wal'], {});
    expect(detected).toBeGreaterThan(CASES / 3);
  });

  it('is detected later where the store is too large to be checked at once, and never ends the process [ST2]', {
    timeout: TIMEOUT,
  }, async () => {
    await tryDamages(CASES / 4, ['store.db', 'store.db-wal', 'store.wal'], { checkBytes: 0 });
  });

  it('loses nothing when its mark is damaged', { timeout: TIMEOUT }, async () => {
    await tryDamages(CASES / 10, ['store.mark'], {});
  });

  it('says which file is damaged, and where', () => {
    const flipped = copyOf(images.killed!.folder);
    flip(join(flipped, 'store.db-wal'), 32 + 20 * 4120 + 1000);
    expect(() => SqliteEngine.open(flipped)).toThrow(/store\.db-wal is damaged: of at least \d+ frames only \d+ can/);
    const page = copyOf(images.appended!.folder);
    flip(join(page, 'store.db'), 5 * 4096 + 17);
    expect(() => SqliteEngine.open(page)).toThrow(/store\.db is damaged: page 6: checksum mismatch/);
    const cut = copyOf(images.appended!.folder);
    truncateSync(join(cut, 'store.db'), 9 * 4096 + 100);
    expect(() => SqliteEngine.open(cut)).toThrow(/store\.db is damaged: page 10: the file ends at 9/);
    const gone = copyOf(images.killed!.folder);
    for (const name of ['store.db-wal', 'store.wal']) rmSync(join(gone, name));
    expect(() => SqliteEngine.open(gone)).toThrow(/store\.db-wal is damaged: it is missing or empty/);
    const empty = copyOf(images.appended!.folder);
    truncateSync(join(empty, 'store.db'), 0);
    expect(() => SqliteEngine.open(empty)).toThrow(/store\.db is damaged: it is missing or empty, but .*store\.mark/);
    const other = mkdtempSync(join(root, 'case-'));
    writeFileSync(join(other, 'store.db'), 'not a database at all');
    expect(() => SqliteEngine.open(other)).toThrow(/store\.db is damaged: it is not a database/);
  });

  it('is not changed when it is refused', () => {
    const folder = copyOf(images.killed!.folder);
    flip(join(folder, 'store.db-wal'), 32 + 24 + 5000);
    const bytes = () =>
      ['store.db', 'store.db-wal', 'store.mark'].map((name) => readFileSync(join(folder, name), 'hex'));
    const before = bytes();
    expect(() => SqliteEngine.open(folder)).toThrow(EclipticError);
    expect(bytes().every((text, index) => text === before[index])).toBe(true);
  });

  it('names the damaged tables in the integrity check', () => {
    const folder = copyOf(images.appended!.folder);
    const place = readFileSync(join(folder, 'store.db')).indexOf('card of address 7');
    flip(join(folder, 'store.db'), place);
    const engine = SqliteEngine.open(folder, { checkBytes: 0 });
    const [outcome] = engine.run([{ kind: 'integrity' }]) as [{ value: Damage[] }];
    expect(outcome.value.map((damage) => damage.table)).toEqual(['addresses', 'addresses']);
    expect(outcome.value.map((damage) => damage.what).join('\n')).toMatch(
      /page \d+ of addresses .*\n.*row \["address 7"\]/,
    );
    const [read] = engine.run([readAll('addresses')]) as [{ error: EclipticError }];
    expect(read.error).toMatchObject({ code: 'STORE_DAMAGED', details: { table: 'addresses', key: ['address 7'] } });
    const [others] = engine.run([readAll('journal')]) as [{ value: unknown[] }];
    expect(others.value).toHaveLength(40);
    // The check that goes on in the background finds it too; from then on the store gives nothing.
    while (engine.checkSome());
    expect(engine.run([readAll('journal')])).toMatchObject([{ error: { code: 'STORE_DAMAGED' } }]);
    engine.close();
  });

  it('reports no damage for an intact store', () => {
    const engine = SqliteEngine.open(copyOf(images.restarted!.folder), { checkBytes: 0 });
    while (engine.checkSome());
    expect(engine.run([{ kind: 'integrity' }])).toEqual([{ value: [] }]);
    engine.close();
  });
});

/** Damages copies of the images at random places; how many were found out. Throws if one was read wrongly. */
async function tryDamages(count: number, names: readonly string[], options: EngineOptions): Promise<number> {
  let detected = 0;
  for (let index = 0; index < count; index++) {
    const all = Object.entries(images);
    const [name, { folder, content }] = all[random(all.length)]!;
    const target = copyOf(folder);
    const present = names.filter((file) => existsSync(join(target, file)));
    const file = present[random(present.length)];
    const what = file === undefined ? 'nothing' : damage(join(target, file));
    const found = outcome(target, options);
    if (found instanceof EclipticError) detected++;
    else if (found !== content) expect.fail(`${name}: ${what} of ${file} was read wrongly`);
    rmSync(target, { recursive: true });
    if (index % 16 === 0) await collectGarbage();
  }
  return detected;
}

/** What all reads give, or the error that says that something is damaged. */
function outcome(folder: string, options: EngineOptions): string | EclipticError {
  let engine: SqliteEngine | undefined;
  try {
    engine = SqliteEngine.open(folder, { busyMs: 0, ...options });
    const content = contentOf(engine);
    while (engine.checkSome());
    const [last] = engine.run([readAll('meta')]);
    if ('error' in last!) throw last.error;
    return content;
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    expect(['STORE_DAMAGED', 'STORE_FAILED']).toContain(error.code);
    expect(error.message).toMatch(/store\.(db|mark|wal)/);
    return error;
  } finally {
    engine?.close();
  }
}

/** One kind of damage at a random place. */
function damage(path: string): string {
  const bytes = readFileSync(path);
  const place = random(bytes.length);
  const kind = random(10);
  if (kind < 5) bytes[place]! ^= 1 << random(8);
  else if (kind < 7) for (let index = 0; index < 8; index++) bytes[random(bytes.length)]! ^= 1 << random(8);
  else if (kind === 7) bytes.fill(random(256), place, Math.min(bytes.length, place + 512));
  writeFileSync(path, kind > 7 ? bytes.subarray(0, place) : bytes);
  return kind > 7 ? `truncation to ${place}` : `damage ${kind} at ${place}`;
}

function flip(path: string, place: number): void {
  const bytes = readFileSync(path);
  bytes[place]! ^= 4;
  writeFileSync(path, bytes);
}

/** Runs an engine on a folder, and keeps a copy of its files as a process would leave them that dies right then. */
function image(name: string, use: (engine: SqliteEngine) => void): Image {
  const work = mkdtempSync(join(root, 'work-'));
  const engine = SqliteEngine.open(work);
  use(engine);
  const folder = join(root, name);
  cpSync(work, folder, { recursive: true });
  if (!existsSync(join(folder, 'store.wal'))) rmSync(join(folder, 'store.db-wal'), { force: true });
  const reader = SqliteEngine.open(copyOf(folder));
  const content = contentOf(reader);
  reader.close();
  return { folder, content };
}

function copyOf(folder: string): string {
  const target = mkdtempSync(join(root, 'case-'));
  for (const name of ['store.db', 'store.db-wal', 'store.wal', 'store.mark']) {
    if (existsSync(join(folder, name))) copyFileSync(join(folder, name), join(target, name));
  }
  return target;
}

function contentOf(engine: SqliteEngine): string {
  const outcomes = engine.run(TABLE_NAMES.map(readAll));
  for (const outcome of outcomes) if ('error' in outcome) throw outcome.error;
  return JSON.stringify(outcomes);
}

function readAll(table: TableName): Call {
  return { kind: 'read', selection: toSelection({ from: table } as Query<TableName>) };
}

/** Writes, changes and deletes rows in several transactions. */
function fill(engine: SqliteEngine, count: number): void {
  for (let index = 0; index < count; index++) {
    const number = index * 7;
    const who = { sender: 'sun', recipient: 'mars', type: 'request', code: null };
    const texts = { envelope: JSON.stringify({ text: 'ü'.repeat(random(400)) }), decision: '{}' };
    const writes: Write[] = [
      {
        insert: 'journal',
        row: { seq: 0, at: number, envelopeId: `e${index}`, thread: `t${index % 5}`, ...who, ...texts },
      },
      { put: 'cursors', row: { name: `cursor ${index % 10}`, value: index } },
      {
        put: 'addresses',
        row: { address: `address ${index}`, node: null, card: `card of address ${index}`, seenAt: number },
      },
      { put: 'agentState', row: { agent: 'mars', key: `k${index}`, value: 'x'.repeat(random(3_000)) } },
      { delete: 'agentState', where: { agent: 'mars', key: `k${index - 15}` } },
    ];
    const [outcome] = engine.run([{ kind: 'write', changes: writes.map(toChange) }]);
    if ('error' in outcome!) throw outcome.error;
  }
}
