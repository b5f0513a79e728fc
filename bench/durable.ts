import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type Agent, createNode, openStore } from 'ecliptic';
import Database from 'libsql';
import { compareCpu, type Report, type Round } from './compare.js';
import { runNatsMail } from './nats-mail.js';
import { Peer } from './peer-process.js';
import { isRepeat, sized } from './settings.js';

const SUITE = 'durable';
const PAYLOAD = { text: 'x'.repeat(245) };
const ENVELOPE = JSON.stringify([1, 'x'.repeat(26), 'sun', 'agent-0', 'notification', 1_700_000_000_000, PAYLOAD]);
const STEPS = JSON.stringify(['stored', 'arrived', 'read', 'done'].map((state, at) => [state, 1_700_000_000_000 + at]));
/** Messages whose receipt does not say `done` yet, and how many make a round. */
const WINDOWS = [
  [2_000, sized(20_000, 2_000)],
  [200, sized(8_000, 1_000)],
  [1, sized(60, 10)],
] as const;
const BATCH = 100;

/** Durable messages between two processes, each with its own store. The CPU time of both counts. */
export async function run(report: Report): Promise<void> {
  if (!isRepeat()) await betweenNodes(report);
  await runNatsMail(report);
}

async function betweenNodes(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const sender = await Sender.start(folder);
  const one = oneInsert(join(folder, 'one.db'));
  const same = samePromises(join(folder, 'same'));
  try {
    for (const [window, count] of WINDOWS) {
      const name = (peer: string) => (window === 2_000 ? `durable/${peer}` : `durable/${peer}, ${window} in flight`);
      const ours = () => sender.round(count, window);
      const latency: number[] = [];
      const storedRates: number[] = [];
      const measured = async (): Promise<Round> => {
        const monitor = monitorEventLoopDelay({ resolution: 1 });
        monitor.enable();
        const { stored, ...round } = await ours();
        monitor.disable();
        latency.push(monitor.percentile(99) / 1e6);
        storedRates.push(stored);
        return round;
      };
      await ours();
      report.comparison(await compareCpu(SUITE, name('sqlite-batch'), measured, () => bareRound(one, count)));
      report.comparison(await compareCpu(SUITE, name('same-promises'), measured, () => bareRound(same, count)));
      const figure = (what: string, values: readonly number[], unit: string) => {
        const [low, middle, high] = [Math.min(...values), median(values), Math.max(...values)].map(tenths);
        report.figure(SUITE, `${what}, ${window} in flight`, middle!, unit, [low!, high!]);
      };
      figure('stored a second', storedRates, 'msg/s');
      figure('event loop p99', latency, 'ms');
    }
  } finally {
    await sender.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

class Sender {
  readonly #agent: Agent;
  readonly #peer: Peer;
  readonly #stop: () => Promise<void>;
  #sent = 0;
  #done = 0;
  #onDone = () => {};

  private constructor(agent: Agent, peer: Peer, stop: () => Promise<void>) {
    this.#agent = agent;
    this.#peer = peer;
    this.#stop = stop;
  }

  static async start(folder: string): Promise<Sender> {
    const store = await openStore(await mkdtemp(join(folder, 'sender-')));
    const node = await createNode({ store, network: { dht: false, listen: { host: '127.0.0.1', port: 0 } } });
    // Both on one tier: messages across tiers are also written to the audit log.
    const sun = node.agent({ id: 'sun', tier: 0 });
    const { code } = await node.network!.invite();
    const peer = await Peer.start({ role: 'keeper', code, folder: await mkdtemp(join(folder, 'recipient-')) });
    while (!node.registry.getById('agent-0')) await new Promise((resolve) => setTimeout(resolve, 5));
    const sender = new Sender(sun, peer, () => node.stop());
    node.observability.subscribe((event) => {
      if (event.type !== 'receipt' || event.receiptState !== 'done') return;
      sender.#done++;
      sender.#onDone();
    });
    return sender;
  }

  /** Sends so many messages, and ends when the other side has handled all and said so. */
  async round(count: number, window: number): Promise<Round & { stored: number }> {
    const [own, others, start] = [process.cpuUsage(), await this.#peer.ask<NodeJS.CpuUsage>(), performance.now()];
    const goal = this.#sent + count;
    let storedAt = 0;
    let stored = 0;
    await new Promise<void>((resolve) => {
      this.#onDone = () => {
        while (this.#sent < goal && this.#sent - this.#done < window) {
          this.#sent++;
          void this.#agent.send('agent-0', PAYLOAD, { durable: true }).then(() => {
            if (++stored === count) storedAt = performance.now();
          });
        }
        if (this.#done >= goal) resolve();
      };
      this.#onDone();
    });
    const ms = performance.now() - start;
    const after = await this.#peer.ask<NodeJS.CpuUsage>();
    const micros = total(process.cpuUsage(own)) + total(after) - total(others);
    return { count, micros, ms, stored: (count / (storedAt - start)) * 1_000 };
  }

  async stop(): Promise<void> {
    await this.#peer.stop();
    await this.#stop();
  }
}

type Bare = (count: number) => void;

function bareRound(bare: Bare, count: number): Round {
  // A round of at least some milliseconds.
  const rows = Math.max(count, 5_000);
  const [cpu, start] = [process.cpuUsage(), performance.now()];
  bare(rows);
  return { count: rows, micros: total(process.cpuUsage(cpu)), ms: performance.now() - start };
}

/** One insert for each message, 100 a transaction, each synced. */
function oneInsert(file: string): Bare {
  const db = openDatabase(file);
  db.exec(
    'CREATE TABLE mail (number INTEGER PRIMARY KEY, id TEXT, sender TEXT, recipient TEXT, envelope TEXT, at REAL)',
  );
  const insert = db.prepare('INSERT INTO mail (id, sender, recipient, envelope, at) VALUES (?, ?, ?, ?, ?)');
  return (count) => {
    for (let at = 0; at < count; at += BATCH) {
      inTransaction(db, () => {
        for (let i = at; i < at + BATCH; i++) insert.run(`id-${i}`, 'sun', 'agent-0', ENVELOPE, i);
      });
    }
  };
}

/**
 * The promises of a durable message, without a network: the message is stored at the sender, stored at the recipient with the
 * cursor, ended there with its receipt, and ended at the sender with its receipt. Four synced transactions in two databases.
 */
function samePromises(prefix: string): Bare {
  const [sender, recipient] = [openDatabase(`${prefix}-sender.db`), openDatabase(`${prefix}-recipient.db`)];
  const [s, r] = [mailTables(sender), mailTables(recipient)];
  let last = 0;
  return (count) => {
    for (let at = 0; at < count; at += BATCH) {
      const from = last + 1;
      last += BATCH;
      const each = (task: (number: number, id: string) => void) => {
        for (let number = from; number <= last; number++) task(number, `01HF000000000000000000${number}`);
      };
      inTransaction(sender, () => each((number, id) => s.insertOut.run(number, id, 'node', ENVELOPE, number)));
      inTransaction(recipient, () => {
        each((number, id) => r.insertIn.run(number, id, 'sun', 'agent-0', ENVELOPE, number));
        r.cursor.run('in node', last);
      });
      inTransaction(recipient, () => {
        each((number, id) => {
          r.deleteIn.run(number);
          r.receipt.run(id, 'node', 'received', STEPS, number, number);
        });
      });
      inTransaction(sender, () => {
        each((number, id) => {
          s.deleteOut.run(number);
          s.receipt.run(id, 'node', 'sent', STEPS, number, null);
        });
      });
    }
  };
}

function mailTables(db: Database.Database) {
  db.exec(`CREATE TABLE outbox (number INTEGER PRIMARY KEY, id TEXT, node TEXT, envelope TEXT, at REAL);
    CREATE TABLE inbox (number INTEGER PRIMARY KEY, id TEXT, sender TEXT, recipient TEXT, envelope TEXT, at REAL);
    CREATE TABLE receipts (id TEXT, node TEXT, side TEXT, steps TEXT, at REAL, news INTEGER, PRIMARY KEY (id, node, side)) WITHOUT ROWID;
    CREATE TABLE cursors (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID`);
  return {
    insertOut: db.prepare('INSERT INTO outbox (number, id, node, envelope, at) VALUES (?, ?, ?, ?, ?)'),
    insertIn: db.prepare('INSERT INTO inbox (number, id, sender, recipient, envelope, at) VALUES (?, ?, ?, ?, ?, ?)'),
    receipt: db.prepare('INSERT OR REPLACE INTO receipts VALUES (?, ?, ?, ?, ?, ?)'),
    cursor: db.prepare('INSERT OR REPLACE INTO cursors VALUES (?, ?)'),
    deleteOut: db.prepare('DELETE FROM outbox WHERE number = ?'),
    deleteIn: db.prepare('DELETE FROM inbox WHERE number = ?'),
  };
}

function openDatabase(file: string): Database.Database {
  const db = new Database(file);
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  return db;
}

function inTransaction(db: Database.Database, task: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  task();
  db.exec('COMMIT');
}

function total({ user, system }: NodeJS.CpuUsage): number {
  return user + system;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}
