import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createNode, type EclipticNode, SqliteStore } from 'ecliptic';
import Database from 'libsql';
import { compare, type Report } from './compare.js';
import { Peer } from './peer-process.js';

const SUITE = 'durable';
const PAYLOAD = { text: 'x'.repeat(245) };
/** Messages whose acknowledgement is awaited at once. */
const WINDOW = 2_000;
const BATCH = 100;
/** Long enough that batching delays do not count. */
const ROUND_MS = 2_000;
const JOURNAL_ROWS = 1_000_000;

/** Durable messages between two processes, each with its own store, beside bare inserts of the same rows. */
export async function run(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  try {
    await sends(report, folder);
    await opening(report, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function sends(report: Report, folder: string): Promise<void> {
  const store = await SqliteStore.open(await mkdtemp(join(folder, 'sender-')));
  const node: EclipticNode = await createNode({
    store,
    network: { dht: false, listen: { host: '127.0.0.1', port: 0 } },
  });
  // Both on one tier: messages across tiers are also written to the audit log.
  const sun = node.agent({ id: 'sun', tier: 0 });
  const { code } = await node.network!.invite();
  const peerFolder = await mkdtemp(join(folder, 'recipient-'));
  const peer = await Peer.start({ role: 'keeper', code, folder: peerFolder });
  while (!node.registry.getById('agent-0')) await new Promise((resolve) => setTimeout(resolve, 5));
  let done = 0;
  node.observability.subscribe((event) => {
    if (event.type === 'receipt' && event.receiptState === 'done') done++;
  });
  let expected = 0;
  const ours = async (count: number) => {
    let left = count;
    const lane = async () => {
      while (left-- > 0) await sun.send('agent-0', PAYLOAD, { durable: true });
    };
    await Promise.all(Array.from({ length: WINDOW }, lane));
    expected += count;
    // Not only acknowledged: the other side has handled it, and said so.
    while (done < expected) await new Promise((resolve) => setTimeout(resolve, 1));
  };
  const bare = bareInserts(join(folder, 'bare.db'));
  const idle = await loopDelay(() => new Promise((resolve) => setTimeout(resolve, 1_000)));
  report.comparison(await compare(SUITE, 'durable/sqlite-batch', ours, bare.run, 'msg/s', ROUND_MS));
  const busy = await loopDelay(() => ours(20_000));
  report.figure(SUITE, 'event loop p99, idle', idle, 'ms');
  report.figure(SUITE, 'event loop p99, under load', busy, 'ms');
  bare.close();
  await peer.stop();
  await node.stop();
}

/** The same rows, as fast as SQLite takes them: 100 a transaction, each synced. */
function bareInserts(file: string): { run: (count: number) => void; close: () => void } {
  const db = new Database(file);
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  db.exec(
    'CREATE TABLE mail (number INTEGER PRIMARY KEY, id TEXT, sender TEXT, recipient TEXT, envelope TEXT, at REAL)',
  );
  const insert = db.prepare('INSERT INTO mail (id, sender, recipient, envelope, at) VALUES (?, ?, ?, ?, ?)');
  const envelope = JSON.stringify([1, 'x'.repeat(26), 'sun', 'agent-0', 'notification', 1_700_000_000_000, PAYLOAD]);
  const run = (count: number) => {
    for (let at = 0; at < count; at += BATCH) {
      db.exec('BEGIN');
      for (let i = at; i < Math.min(count, at + BATCH); i++) insert.run(`id-${i}`, 'sun', 'agent-0', envelope, i);
      db.exec('COMMIT');
    }
  };
  return { run, close: () => db.close() };
}

async function loopDelay(work: () => Promise<unknown>): Promise<number> {
  const monitor = monitorEventLoopDelay({ resolution: 1 });
  monitor.enable();
  await work();
  monitor.disable();
  return Math.round(monitor.percentile(99) / 10_000) / 100;
}

/** Opening must not take longer because the journal is long. */
async function opening(report: Report, folder: string): Promise<void> {
  for (const rows of [1_000, JOURNAL_ROWS]) {
    const data = await mkdtemp(join(folder, 'journal-'));
    const filled = await SqliteStore.open(data);
    for (let at = 0; at < rows; at += 10_000) {
      const count = Math.min(10_000, rows - at);
      await filled.write(
        Array.from({ length: count }, (_, i) => ({ insert: 'journal' as const, row: journalRow(at + i) })),
      );
    }
    await filled.close();
    const started = performance.now();
    const opened = await SqliteStore.open(data);
    report.figure(
      SUITE,
      `opening ${rows.toLocaleString('en')} journal rows`,
      Math.round(performance.now() - started),
      'ms',
    );
    await opened.close();
  }
}

function journalRow(index: number) {
  return {
    seq: 0,
    at: index,
    envelopeId: `envelope-${index}`,
    thread: null,
    sender: 'sun',
    recipient: 'mars',
    type: 'notification',
    code: null,
    envelope: '[]',
    decision: '{}',
  };
}
