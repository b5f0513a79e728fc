import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';
import { describe, expect, it, vi } from 'vitest';
import type { RoutingResult } from '../../src/mesh/schemas.js';
import type { MailRow } from '../../src/node/control/rows.js';
import type { Entry, Ledger } from '../durable/agents/ledger.js';
import { NatsServer } from '../nats-server.js';
import { type Cluster, inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';

const LEDGER = fileURLToPath(new URL('../durable/agents/ledger.ts', import.meta.url));
const KILLS = SOAK ? 100 : 6;
/** After that many rounds, the moments of the kills are the same again. */
const MOMENTS = 6;

/** The client notices a pull request that the server lost by two missing heartbeats, of 15 s each, and then tries again. */
const STALL_MS = 120_000;

vi.setConfig({ testTimeout: 90_000 + 2 * STALL_MS + KILLS * (SOAK ? 20_000 : 5_000) });

describe('relayed mail between nodes that are killed', () => {
  it(
    `is neither lost nor handled twice over ${KILLS} kills of each, who are never there together [NM.12]`,
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster);
      await b.crash();
      let sent = 0;
      for (let round = 0; round < KILLS; round++) {
        for (const n of Array.from({ length: 40 }, (_, n) => sent + n + 1)) await send(a, b, n);
        sent += 40;
        // Killed while it publishes, in every second round.
        if (round % 2 === 0) await isRelayed(a);
        else await delay(20 * (round % MOMENTS));
        await a.crash();
        await b.start();
        await delay(150 * (round % MOMENTS));
        await b.crash();
        await a.start();
        if (SOAK && round % 10 === 9) console.log(`mail: ${sent} messages, ${2 * (round + 1)} kills`);
      }
      await isRelayed(a);
      await a.crash();
      await b.start();
      await until(async () => (await ledgerOf(b, a)).count === sent, 'everything came', STALL_MS);
      expect(await ledgerOf(b, a)).toMatchObject({ count: sent, last: sent, gaps: [], wrong: [] });
      // The echoes, and the receipts, go back the same way.
      await delay(1_500);
      await b.stop();
      await a.start();
      await until(async () => (await ledgerOf(a, b)).count === sent, 'every echo came', STALL_MS);
      expect(await ledgerOf(a, b)).toMatchObject({ count: sent, last: sent, gaps: [], wrong: [] });
      await until(async () => (await a.call<MailRow[]>('outbox')).length === 0, 'the sender knows');
    }),
  );

  it(
    'goes to the custodian while the recipient’s process hangs, and is handled once when it goes on [NM.13]',
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster);
      process.kill(b.pid, 'SIGSTOP');
      try {
        for (let n = 1; n <= 10; n++) await send(a, b, n);
        await isRelayed(a);
      } finally {
        process.kill(b.pid, 'SIGCONT');
      }
      await until(async () => (await ledgerOf(b, a)).count === 10, 'everything came');
      await until(async () => (await a.call<MailRow[]>('outbox')).length === 0, 'the sender knows');
      expect(await ledgerOf(b, a)).toMatchObject({ count: 10, last: 10, gaps: [], wrong: [] });
    }),
  );
});

async function pair(cluster: Cluster): Promise<{ a: ProcessNode; b: ProcessNode }> {
  const server = await NatsServer.start({ syncAlways: true });
  cluster.onEnd(() => server.stop());
  const module = join(cluster.folder, 'ledger.cjs');
  const source = readFileSync(LEDGER, 'utf8');
  writeFileSync(module, createJiti(import.meta.url).transform({ source, filename: LEDGER, ts: true }));
  const agents = { ledger: { tier: 0 as const, module }, other: { tier: 0 as const } };
  const settings = {
    args: ['--nats', server.url],
    config: { roster: false as const, agents },
    env: { ECLIPTIC_LOG: 'warn' },
  };
  const [a, b] = [await cluster.start('a', settings), await cluster.start('b', settings)];
  await a.admit(b);
  for (const node of [a, b]) await until(async () => (await node.agents()).length === 4, `${node.name} knows everyone`);
  return { a, b };
}

async function send(a: ProcessNode, b: ProcessNode, n: number): Promise<void> {
  const payload: Entry = { n, echo: true };
  const to = `ledger@${b.key}`;
  const { stored } = await a.call<RoutingResult>('send', { as: 'ledger', to, payload, durable: true });
  expect(stored).toBe(true);
}

/** Waits until the custodian has everything that a node has to send. */
async function isRelayed(node: ProcessNode): Promise<void> {
  // The outbox is shown in pages, and mail is relayed in order: what was relayed once stays so.
  let after = 0;
  await until(async () => {
    for (;;) {
      const page = await node.call<MailRow[]>('outbox', { after });
      const waiting = page.findIndex(({ state }) => state === 'stored');
      const relayed = waiting === -1 ? page : page.slice(0, waiting);
      after = relayed.at(-1)?.number ?? after;
      if (waiting !== -1) return false;
      if (page.length === 0) return true;
    }
  }, 'the custodian has all');
}

async function ledgerOf(node: ProcessNode, other: ProcessNode): Promise<Ledger> {
  const found = await node.request<Ledger | null>('other', 'ledger', `ledger@${other.key}`);
  return found ?? { count: 0, last: 0, gaps: [], wrong: [], redelivered: 0 };
}
