import { beforeAll, describe, expect, it } from 'vitest';
import { tries } from '../../test/evidence.js';
import { SimulatedDisk } from '../../test/simulated-disk.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { FileStore } from './file-store.js';
import { defineTable, type Table } from './table.js';

const CASES = process.env.ECLIPTIC_SOAK ? 10_000 : 1_000;

const journal = defineTable('journal', {
  columns: { seq: 'integer', at: 'real', id: 'text', thread: 'text?', text: 'text' },
  key: ['seq'],
  indexes: [['thread'], ['id'], ['at']],
});
const addresses = defineTable('addresses', { columns: { address: 'text', card: 'text' }, key: ['address'] });
const values = defineTable('values', { columns: { agent: 'text', key: 'text', value: 'text' }, key: ['agent', 'key'] });
const TABLES: readonly Table[] = [journal, addresses, values];

const runtime = new SimulatedRuntime({ seed: 20_261 });
const random = (below: number) => Math.floor(runtime.random() * below);

/** A store as a process left it, and its content. */
interface Image {
  readonly disk: SimulatedDisk;
  readonly content: string;
}

const images: Record<string, Image> = {};

beforeAll(async () => {
  images.killed = await image((store) => fill(store, 40));
  images.flushed = await image(async (store) => {
    await fill(store, 40);
    await store.compact();
  });
  images.continued = await image(async (store) => {
    await fill(store, 40);
    await store.compact();
    await fill(store, 15);
  });
  images.closed = await image(async (store) => {
    await fill(store, 40);
    await store.close();
  });
  images.merging = await image((store) => fill(store, 60), 4_000);
});

describe('a damaged store', () => {
  it('opens unchanged without damage', async () => {
    for (const [name, { disk, content }] of Object.entries(images)) {
      expect([name, await outcome(disk.copy())]).toEqual([name, content]);
    }
  });

  it(`is never read wrongly in silence, and never ends the process: ${CASES} damages [ST2]`, {
    timeout: CASES * 100,
  }, async () => {
    let detected = 0;
    tries(CASES, 'damages');
    for (let index = 0; index < CASES; index++) {
      const all = Object.entries(images);
      const [name, { disk, content }] = all[random(all.length)]!;
      const target = disk.copy();
      const files = target.list();
      const file = files[random(files.length)]!;
      const what = damage(target, file);
      const found = await outcome(target);
      if (found instanceof EclipticError) detected++;
      else if (found !== content) expect.fail(`${name}: ${what} of ${file} was read wrongly`);
    }
    expect(detected).toBeGreaterThan(CASES / 2);
  });

  it('says which file is damaged, and where', async () => {
    const { killed, flushed, continued } = images as Record<'killed' | 'flushed' | 'continued', Image>;
    const run = flushed.disk.list().find((name) => name.startsWith('run-'))!;
    const log = killed.disk.list().find((name) => name.startsWith('log-'))!;
    const cases: [Image, string, (bytes: Buffer) => Buffer | undefined, RegExp][] = [
      [killed, log, (bytes) => flip(bytes, 600), /log-\d+ is damaged: the record at 512 is damaged or missing/],
      [killed, log, (bytes) => bytes.subarray(0, bytes.length - 10), /log-\d+ is damaged: the record at \d+/],
      [killed, log, (bytes) => flip(bytes, 3), /log-\d+ is damaged: its first bytes are not those of a log/],
      [killed, log, () => undefined, /log-\d+ is damaged: it is missing/],
      [flushed, run, (bytes) => flip(bytes, 100), /run-\d+ is damaged: the block at 0 has a wrong checksum/],
      [flushed, run, (bytes) => bytes.subarray(0, 5_000), /run-\d+ is damaged: it has 5000 bytes, but had \d+/],
      [flushed, run, () => undefined, /run-\d+ is damaged: it is missing/],
      [continued, 'manifest', (bytes) => flip(bytes, 40), /manifest is damaged: its checksum is wrong/],
      [continued, 'manifest', () => undefined, /manifest is damaged: it is missing, but (run|log)-\d+ is there/],
    ];
    for (const [{ disk }, file, change, message] of cases) {
      const target = disk.copy();
      target.damage(file, change(target.read(file)));
      expect(String(await outcome(target))).toMatch(message);
    }
  });

  it('is found out when two of its files were swapped, or one is an older copy', async () => {
    const { disk } = images.merging!;
    const runs = disk.list().filter((name) => name.startsWith('run-'));
    const logs = disk.list().filter((name) => name.startsWith('log-'));
    expect(runs.length).toBeGreaterThan(1);
    const swapped = disk.copy();
    swapped.damage(runs[0]!, disk.read(runs[1]!));
    swapped.damage(runs[1]!, disk.read(runs[0]!));
    expect(String(await outcome(swapped))).toMatch(/run-\d+ is damaged: it has \d+ bytes, but had \d+/);
    const sameSize = disk.copy();
    const [first, second] = [disk.read(runs[0]!), disk.read(runs[1]!)];
    sameSize.damage(runs[0]!, Buffer.concat([second, Buffer.alloc(first.length)]).subarray(0, first.length));
    expect(String(await outcome(sameSize))).toMatch(/run-\d+ is damaged: the block at \d+ has a wrong checksum/);
    const other = disk.copy();
    other.damage(logs[0]!, images.killed!.disk.read('log-00000001'));
    expect(await outcome(other)).toBeInstanceOf(EclipticError);
  });

  it('is found out when a log of a second crash is lost or cut anywhere', async () => {
    const disk = images.killed!.disk.copy();
    const store = await open(disk);
    await store.write([addresses.put({ address: 'second', card: '' })]);
    // Killed before the rows of the first log are in a run.
    const killed = images.killed!.disk.copy();
    for (const name of ['log-00000002', 'manifest']) killed.damage(name, undefined);
    const first = images.killed!.disk.read('log-00000001');
    killed.damage('log-00000001', first);
    killed.damage('log-00000002', disk.read('log-00000002'));
    killed.damage('manifest', await manifestAfterStart(images.killed!.disk.copy()));
    expect(await outcome(killed.copy())).toContain('"second"');
    const lost: ((target: SimulatedDisk) => void)[] = [
      (target) => target.damage('log-00000002', undefined),
      (target) => target.damage('log-00000002', Buffer.alloc(0)),
      (target) => target.damage('log-00000002', target.read('log-00000002').subarray(0, 300)),
      (target) => target.damage('log-00000002', flip(target.read('log-00000002'), 9)),
    ];
    for (let length = 500; length < first.length; length += first.length > 5_000 ? 97 : 1) {
      lost.push((target) => target.damage('log-00000001', first.subarray(0, length)));
    }
    for (let left = 0; left < 16; left++)
      lost.push((target) => target.damage('log-00000001', first.subarray(0, 512 + left)));
    for (const lose of lost) {
      const target = killed.copy();
      lose(target);
      expect(await outcome(target)).toMatchObject({ code: 'STORE_DAMAGED' });
    }
  });

  it('is not changed when it is refused', async () => {
    const target = images.killed!.disk.copy();
    const log = target.list().find((name) => name.startsWith('log-'))!;
    target.damage(log, flip(target.read(log), 700));
    const bytes = () => target.list().map((name) => [name, target.read(name).toString('hex')]);
    const before = bytes();
    expect(await outcome(target)).toBeInstanceOf(EclipticError);
    expect(bytes()).toEqual(before);
  });

  it('serves the tables that are whole, and lists the damage', async () => {
    const target = images.flushed!.disk.copy();
    const run = target.list().find((name) => name.startsWith('run-'))!;
    const bytes = target.read(run);
    target.damage(run, flip(bytes, bytes.indexOf('card of address 7')));
    const store = await open(target);
    await expect(store.read(addresses)).rejects.toMatchObject({ code: 'STORE_DAMAGED', retryable: false });
    expect(await store.read(journal)).toHaveLength(40);
    const damages = await store.check();
    expect(damages.length).toBeGreaterThan(0);
    for (const { file, what } of damages) expect(`${file} ${what}`).toMatch(/run-\d+ the block at \d+/);
    // Writes to the damaged table fail where they meet the damage; others succeed.
    await expect(store.write([addresses.put({ address: 'address 7', card: '' })])).rejects.toMatchObject({
      code: 'STORE_DAMAGED',
    });
    await store.write([values.put({ agent: 'mars', key: 'new', value: 'stored' })]);
    await store.close();
    const again = await open(target);
    expect(await again.read(values, { where: { agent: 'mars', key: 'new' } })).toHaveLength(1);
    await again.close();
  });

  it('reports no damage for an intact store', async () => {
    for (const { disk } of Object.values(images)) {
      const store = await open(disk.copy());
      expect(await store.check()).toEqual([]);
      await store.close();
    }
  });
});

function open(disk: SimulatedDisk, logBytes?: number): Promise<FileStore> {
  return FileStore.open('', { tables: TABLES, disk, ...(logBytes !== undefined && { logBytes }) });
}

/** All rows, or the error that says that something is damaged. */
async function outcome(disk: SimulatedDisk): Promise<string | EclipticError> {
  let store: FileStore | undefined;
  try {
    store = await open(disk);
    return await contentOf(store);
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    expect(error.code).toBe('STORE_DAMAGED');
    expect(error.message).toMatch(/store\/(manifest|log-\d+|run-\d+) is damaged/);
    return error;
  } finally {
    await store?.close();
  }
}

/** One kind of damage at a random place. */
function damage(disk: SimulatedDisk, file: string): string {
  const bytes = disk.read(file);
  const place = random(bytes.length);
  const kind = random(11);
  if (kind < 5) bytes[place]! ^= 1 << random(8);
  else if (kind < 7) for (let index = 0; index < 8; index++) bytes[random(bytes.length)]! ^= 1 << random(8);
  else if (kind === 7) bytes.fill(random(256), place, Math.min(bytes.length, place + 512));
  disk.damage(file, kind === 10 ? undefined : kind > 7 ? bytes.subarray(0, place) : bytes);
  if (kind === 10) return 'removal';
  return kind > 7 ? `truncation to ${place}` : `damage ${kind} at ${place}`;
}

function flip(bytes: Buffer, place: number): Buffer {
  bytes[place]! ^= 4;
  return bytes;
}

/** The manifest that a start writes, before it has flushed the log that it found. */
async function manifestAfterStart(disk: SimulatedDisk): Promise<Buffer> {
  disk.isSlow = true;
  const store = await open(disk);
  const manifest = disk.read('manifest');
  await store.close();
  return manifest;
}

/** Runs a store, and keeps its files as a process would leave them that dies right then. */
async function image(use: (store: FileStore) => Promise<void>, logBytes?: number): Promise<Image> {
  const disk = new SimulatedDisk();
  const store = await open(disk, logBytes);
  await use(store);
  const copy = disk.copy();
  const reader = await open(copy.copy());
  const content = await contentOf(reader);
  await reader.close();
  return { disk: copy, content };
}

/** Through the keys and through each index. */
async function contentOf(store: FileStore): Promise<string> {
  const rows = [
    await store.read(journal),
    await store.read(journal, { orderBy: 'id', above: { id: '' } }),
    await store.read(journal, { orderBy: 'at', above: { at: -1 } }),
    await store.read(journal, { where: { thread: ['t1', 't3'] } }),
    await store.read(addresses),
    await store.read(values),
    await store.figures(journal),
  ];
  return JSON.stringify(rows);
}

/** Writes, changes and deletes rows in several transactions. */
async function fill(store: FileStore, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const thread = index % 3 === 0 ? null : `t${index % 5}`;
    await store.write([
      journal.insert({ seq: 0, at: index * 7, id: `e${index}`, thread, text: 'ü'.repeat(random(400)) }),
      addresses.put({ address: `address ${index}`, card: `card of address ${index}` }),
      values.put({ agent: 'mars', key: `k${index}`, value: 'x'.repeat(random(3_000)) }),
      values.delete({ agent: 'mars', key: `k${index - 15}` }),
    ]);
  }
}
