import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createNode, type EclipticNode, openStore } from 'ecliptic';
import { compareGrowth, cpuRound, type Report, type Round } from './compare.js';
import { sized } from './settings.js';

const SUITE = 'store';
/** Messages at once that fill the journal. */
const BURST = 1_000;
const READS = sized(1_000, 200);
const SEARCHES = sized(100, 20);
const OPENINGS = sized(5, 2);

export async function run(report: Report): Promise<void> {
  await storeRows(report, SUITE, sized(1_000, 100), sized(1_000_000, 10_000));
}

/** Writing, reading and opening, with many rows in the journal and with few: neither may depend much on their number. */
export async function storeRows(report: Report, suite: string, few: number, many: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  try {
    const sizes = [await filled(folder, many), await filled(folder, few)] as const;
    const compared = async (what: string, round: (journal: Journal) => Promise<Round>) => {
      const name = `${what}, ${many.toLocaleString('en')} / ${few.toLocaleString('en')} rows`;
      const measures = sizes.map((journal) => () => round(journal)) as [() => Promise<Round>, () => Promise<Round>];
      report.comparison(await compareGrowth(suite, name, ...measures));
    };
    await compared('opening', ({ data }) => cpuRound((count) => openings(data, count), OPENINGS));
    await compared('message with a row', (journal) => writing(folder, journal));
    await compared('read by id', ({ data }) => reading(data, readById, READS));
    await compared('search', ({ data }) => reading(data, search, SEARCHES));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Journal {
  readonly data: string;
  readonly rows: number;
}

async function openings(data: string, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await (await openStore(data)).close();
}

/** Few rows stay few: they are copied first. */
async function writing(folder: string, { data, rows }: Journal): Promise<Round> {
  const isFew = rows < 100 * BURST;
  const used = isFew ? await mkdtemp(join(folder, 'copy-')) : data;
  if (isFew) await cp(data, used, { recursive: true });
  const node = await createNode({ store: await openStore(used) });
  const round = await cpuRound(messages(node), BURST);
  await node.stop();
  if (isFew) await rm(used, { recursive: true, force: true });
  return round;
}

async function reading(
  data: string,
  read: (node: EclipticNode, count: number) => Promise<() => Promise<void>>,
  count: number,
): Promise<Round> {
  const node = await createNode({ store: await openStore(data) });
  const reads = await read(node, count);
  const round = await cpuRound(reads, count);
  await node.stop();
  return round;
}

/** Rows from all over the journal. */
async function readById(node: EclipticNode, count: number): Promise<() => Promise<void>> {
  const { journal } = node.records!;
  const [newest] = await journal.search({ limit: 1 });
  const rows = newest!.seq;
  const ids: string[] = [];
  for (let part = 40; part > 0; part--) {
    const found = await journal.search({ before: Math.floor((rows * part) / 40) + 1, limit: Math.ceil(count / 40) });
    ids.push(...found.map(({ envelopeId }) => envelopeId));
  }
  return async () => {
    for (let i = 0; i < count; i++) await journal.about(ids[i % ids.length]!);
  };
}

async function search(node: EclipticNode, count: number): Promise<() => Promise<void>> {
  const { journal } = node.records!;
  return async () => {
    for (let i = 0; i < count; i++) await journal.search({ limit: 20 });
  };
}

/** A closed store whose journal has so many rows: each message makes one. */
async function filled(folder: string, rows: number): Promise<Journal> {
  const data = await mkdtemp(join(folder, 'journal-'));
  const node = await createNode({ store: await openStore(data) });
  const send = messages(node);
  for (let sent = 0; sent < rows; sent += BURST) await send(Math.min(BURST, rows - sent));
  await node.stop();
  return { data, rows };
}

/** Sends so many messages at once, and waits until their rows are on disk. */
function messages(node: EclipticNode): (count: number) => Promise<void> {
  const sun = node.agent({ id: 'sun', tier: 0 });
  node.agent({ id: 'mars', tier: 0 }).onNotification(() => {});
  return async (count) => {
    await Promise.all(Array.from({ length: count }, () => sun.send('mars', null)));
    // A search waits for the rows; rows that come faster than the disk takes them are dropped.
    await node.records!.journal.search({ limit: 1 });
  };
}
