import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createNode, type EclipticNode, openStore } from 'ecliptic';
import type { Report } from './compare.js';

const SUITE = 'store';
const FEW = 1_000;
const MANY = 1_000_000;
/** Messages at once that fill the journal. */
const BURST = 1_000;
const READS = 2_000;
const OPENINGS = 9;

/** Reads by id and openings with few and with many rows: neither may depend much on the size of the journal. */
export async function run(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  try {
    const [few, many] = [await filled(folder, FEW), await filled(folder, MANY)];
    const times: [number[], number[]] = [[], []];
    for (let round = 0; round < OPENINGS; round++) {
      times[0].push(await opening(few));
      times[1].push(await opening(many));
    }
    const [short, long] = times.map((each) => each.sort((a, b) => a - b)[OPENINGS >> 1]!) as [number, number];
    report.figure(SUITE, `opening ${FEW.toLocaleString('en')} rows`, round(short), 'ms');
    report.figure(SUITE, `opening ${MANY.toLocaleString('en')} rows`, round(long), 'ms');
    report.figure(SUITE, 'opening many rows against few', round(long / short), '×');
    await reads(report, many);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function opening(folder: string): Promise<number> {
  const start = performance.now();
  const store = await openStore(folder);
  const ms = performance.now() - start;
  await store.close();
  return ms;
}

async function reads(report: Report, folder: string): Promise<void> {
  const node = await createNode({ store: await openStore(folder) });
  const { journal } = node.records!;
  const ids: string[] = [];
  for (let before = MANY; before > 0 && ids.length < READS; before -= Math.floor(MANY / 40)) {
    const rows = await journal.search({ before, limit: READS / 40 });
    ids.push(...rows.map(({ envelopeId }) => envelopeId));
  }
  for (const name of ['first', 'again']) {
    const start = performance.now();
    for (const id of ids) await journal.about(id);
    report.figure(
      SUITE,
      `read by id, ${MANY.toLocaleString('en')} rows, ${name}`,
      round(((performance.now() - start) * 1_000) / ids.length),
      'µs',
    );
  }
  await node.stop();
}

/** A closed store whose journal has so many rows: each message makes one. */
async function filled(folder: string, rows: number): Promise<string> {
  const data = await mkdtemp(join(folder, 'journal-'));
  const node: EclipticNode = await createNode({ store: await openStore(data) });
  const sun = node.agent({ id: 'sun', tier: 0 });
  node.agent({ id: 'mars', tier: 0 }).onNotification(() => {});
  for (let sent = 0; sent < rows; sent += BURST) {
    await Promise.all(Array.from({ length: BURST }, () => sun.send('mars', null)));
    // A search waits until the rows are on disk; rows that come faster than the disk takes them are dropped.
    await node.records!.journal.search({ limit: 1 });
  }
  await node.stop();
  return data;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
