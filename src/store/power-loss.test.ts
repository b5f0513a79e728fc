import { expect, it } from 'vitest';
import { tries } from '../../test/evidence.js';
import { SimulatedDisk } from '../../test/simulated-disk.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { FileStore } from './file-store.js';
import { defineTable, type Table } from './table.js';

const SYNC_POINTS = process.env.ECLIPTIC_SOAK ? 1_000 : 200;
/** Power cuts that are tried at each sync point: what was not synced is lost in another way each time. */
const CUTS = 3;

const events = defineTable('events', {
  columns: { seq: 'integer', at: 'real', event: 'text' },
  key: ['seq'],
  indexes: [['at']],
});
const values = defineTable('values', {
  columns: { agent: 'text', key: 'text', value: 'text' },
  key: ['agent', 'key'],
  indexes: [['key']],
});
const TABLES: readonly Table[] = [events, values];
const LOG_BYTES = 12_000;

it(`holds everything acknowledged after a power cut before and after each of ${SYNC_POINTS} syncs [ST1]`, {
  timeout: SYNC_POINTS * 2_000,
}, async () => {
  tries(SYNC_POINTS * CUTS, 'power cuts');
  const runtime = new SimulatedRuntime({ seed: 7 });
  const random = (below: number) => Math.floor(runtime.random() * below);
  const disk = new SimulatedDisk();
  const cuts: { disk: SimulatedDisk; acknowledged: number }[] = [];
  /** The content after each group of calls. */
  const contents: string[] = [];
  let syncs = 0;
  disk.onSync = () => {
    syncs++;
    const acknowledged = contents.length - 1;
    if (acknowledged < 0) return;
    for (let cut = 0; cut < CUTS; cut++) {
      cuts.push({ disk: disk.afterPowerCut(() => runtime.random()), acknowledged });
    }
  };
  const store = await FileStore.open('', { tables: TABLES, disk, logBytes: LOG_BYTES });
  contents.push(await contentOf(store));
  let checked = 0;
  for (let point = 0; syncs < 2 * SYNC_POINTS; point++) {
    const group = [
      store.write([events.insert({ seq: 0, at: point, event: 'e'.repeat(random(3_000)) })]),
      store.write([
        values.put({ agent: 'mars', key: `key ${point % 40}`, value: 'v'.repeat(random(3_000)) }),
        events.delete({ seq: point - 30 }),
      ]),
    ];
    if (point % 10 === 9) group.push(store.write([events.delete({}, { seq: point - 35 })]));
    if (point % 50 === 49) group.push(store.compact());
    await Promise.all(group);
    contents.push(await contentOf(store));
    for (const cut of cuts.splice(0)) {
      // Of the group that was being written when the power failed, all is there or nothing.
      await check(cut.disk, contents.slice(cut.acknowledged, cut.acknowledged + 2), ++checked);
    }
  }
  await store.close();
  for (const cut of cuts) await check(cut.disk, contents.slice(cut.acknowledged, cut.acknowledged + 2), ++checked);
  expect(checked).toBeGreaterThan(SYNC_POINTS * CUTS);
});

/** Opens a disk, which must have one of these contents, whole, and must be able to go on from there. */
async function check(disk: SimulatedDisk, allowed: readonly string[], number: number): Promise<void> {
  const store = await FileStore.open('', { tables: TABLES, disk, logBytes: LOG_BYTES });
  const content = await contentOf(store);
  if (!allowed.includes(content)) expect.fail(`power cut ${number} lost something`);
  if (number % 4 === 0) {
    await store.write([values.put({ agent: 'mars', key: 'after', value: String(number) })]);
    const now = await contentOf(store);
    if (number % 8 === 0) await store.close();
    const again = await FileStore.open('', { tables: TABLES, disk: disk.copy(), logBytes: LOG_BYTES });
    if ((await contentOf(again)) !== now) expect.fail(`power cut ${number} lost something later`);
    expect(await again.check()).toEqual([]);
    await again.close();
    if (number % 8 === 0) return;
  }
  await store.close();
}

/** All rows, by key and through each index. */
async function contentOf(store: FileStore): Promise<string> {
  const rows = [
    await store.read(events),
    await store.read(events, { orderBy: 'at', above: { at: -1 } }),
    await store.read(values),
    await store.read(values, { where: { key: ['key 1', 'key 2', 'key 39'] } }),
    await store.figures(events),
  ];
  return JSON.stringify(rows);
}
