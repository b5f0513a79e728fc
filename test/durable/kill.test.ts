import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';
import { describe, expect, it, vi } from 'vitest';
import type { Receipt } from '../../src/mail/receipt.js';
import type { RoutingResult } from '../../src/mesh/schemas.js';
import type { MailRow } from '../../src/node/control/rows.js';
import { type Cluster, inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';
import { stablePorts } from '../ports.js';
import type { Entry, Ledger } from './agents/ledger.js';

vi.setConfig({ testTimeout: 120_000 });

const { rounds, perRound } = SOAK ? { rounds: 200, perRound: 50 } : { rounds: 4, perRound: 100 };
/** Calls to the control socket at once. */
const AT_ONCE = 20;
const LEDGER = new URL('./agents/ledger.ts', import.meta.url);
const SLOW = new URL('./agents/slow.ts', import.meta.url);

/** The id under which each sent number is stored, or undefined if unknown. */
type Sent = Map<number, string | undefined>;

describe.concurrent('two nodes that are killed at random moments, and started again', () => {
  it(
    `lose no acknowledged message, commit none twice and keep the order, over ${rounds} rounds [DM9]`,
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster);
      const random = randomFrom(Number(process.env.ECLIPTIC_SEED ?? 1));
      const sent: Sent = new Map();
      const kills = { a: 0, b: 0 };
      for (let round = 1; round <= rounds; round++) {
        const trouble = strike(random, a, b, kills);
        await sendMany(a, b, perRound, sent);
        await trouble;
        if (SOAK && round % 20 === 0) {
          const acknowledged = [...sent.values()].filter((id) => id !== undefined).length;
          console.log(`round ${round}: ${acknowledged} of ${sent.size} acknowledged, killed ${JSON.stringify(kills)}`);
        }
      }
      await atRest(a, b);
      expect(kills.a).toBeGreaterThan(0);
      expect(kills.b).toBeGreaterThan(0);
      const here = await ledgerOf(b, a);
      // Every acknowledged message arrived; each one arrived once and in order.
      expect(here.wrong).toEqual([]);
      const lost = [...sent].filter(([n, id]) => id !== undefined && (n > here.last || isIn(here.gaps, n)));
      expect(lost).toEqual([]);
      expect(here.count).toBeGreaterThan(sent.size / 2);
      // The echoes arrived once, in the same order.
      const there = await ledgerOf(a, b);
      expect(pick(there)).toEqual(pick(here));
      await expectReceiptsAgree(a, b, sent);
      for (const node of [a, b]) expect(await node.call('audit.verify')).toMatchObject({ fault: null });
    }),
    SOAK ? 3_600_000 : 120_000,
  );

  it(
    'deliver 100 of 100 to a recipient that was offline across restarts of both [DM10]',
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster);
      await b.crash();
      const sent: Sent = new Map();
      await sendMany(a, b, 50, sent);
      await a.crash();
      await a.start();
      // It has not met the other in this run.
      expect((await a.agents()).map(({ id }) => id)).toEqual(['ledger', 'other']);
      expect(await a.call<MailRow[]>('outbox')).toHaveLength(50);
      await sendMany(a, b, 50, sent);
      expect([...sent.values()].filter((id) => id !== undefined)).toHaveLength(100);
      await a.stop();
      await b.start();
      await a.start();
      await until(async () => (await ledgerOf(b, a)).count > 20, 'some have come');
      await b.crash();
      await b.start();
      await atRest(a, b);
      expect(await ledgerOf(b, a)).toMatchObject({ count: 100, last: 100, gaps: [], wrong: [] });
      expect(await ledgerOf(a, b)).toMatchObject({ count: 100, last: 100, gaps: [], wrong: [] });
      await expectReceiptsAgree(a, b, sent);
      expect((await a.call<{ state: string }>('receipt', { id: sent.get(100) })).state).toBe('done');
    }),
  );

  it(
    'answer a durable request once, although its agent was killed over it and is slow to get ready again',
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster, SLOW);
      const options = { durable: true, type: 'request', thread: 'question' };
      const to = `other@${b.key}`;
      const asked = await a.call<RoutingResult>('send', { as: 'ledger', to, payload: 'why', ...options });
      const state = async () => (await a.call<{ state: string }>('receipt', { id: asked.messageId })).state;
      await until(async () => (await state()) === 'surfaced', 'it is being worked on');
      await b.crash();
      await b.start();
      await until(async () => (await state()) === 'replied', 'it was answered');
      const answers = () => a.request<unknown[] | null>('ledger', 'ledger', 'answers');
      await until(answers, 'the answer has come');
      await atRest(a, b);
      expect(await answers()).toEqual([['response', { answer: 'why', redelivered: true }]]);
    }),
  );
});

/** Two nodes of one mesh, each at a port of its own, so that they find each other again. */
async function pair(cluster: Cluster, other?: URL): Promise<{ a: ProcessNode; b: ProcessNode }> {
  const ports = await stablePorts(2);
  const agents = {
    ledger: { tier: 0 as const, module: compiled(cluster, LEDGER) },
    other: { tier: 0 as const, ...(other && { module: compiled(cluster, other) }) },
  };
  const [a, b] = await Promise.all(
    ports.map((port, index) =>
      cluster.start('ab'[index]!, {
        args: ['--no-dht', '--listen', `127.0.0.1:${port}`],
        config: { roster: false, agents },
        env: { ECLIPTIC_LOG: 'warn' },
      }),
    ),
  );
  await a!.admit(b!);
  for (const node of [a!, b!]) {
    await until(async () => (await node.agents()).length === 4, `${node.name} knows everyone`);
  }
  return { a: a!, b: b! };
}

/** An agent's module as JavaScript: a node that reads TypeScript itself takes twice as long to start. */
function compiled(cluster: Cluster, module: URL): string {
  const filename = fileURLToPath(module);
  const source = createJiti(import.meta.url).transform({ source: readFileSync(filename, 'utf8'), filename, ts: true });
  const file = join(cluster.folder, `${basename(filename, '.ts')}.cjs`);
  writeFileSync(file, source);
  return file;
}

/** Sends the next numbers, as fast as the node takes them; while it is down, waits for it. */
async function sendMany(a: ProcessNode, b: ProcessNode, count: number, sent: Sent): Promise<void> {
  const under = new Set<Promise<void>>();
  const last = sent.size + count;
  for (let n = sent.size + 1; n <= last; n++) {
    while (under.size >= AT_ONCE) await Promise.race(under);
    await until(() => a.running && isUp(a), 'the sender is up');
    sent.set(n, undefined);
    const payload: Entry = { n, echo: true };
    const send = a.call<RoutingResult>('send', { as: 'ledger', to: `ledger@${b.key}`, payload, durable: true }).then(
      ({ stored, messageId }) => {
        if (stored) sent.set(n, messageId);
      },
      // Killed in between: whether it is stored is unknown.
      () => delay(5),
    );
    const done: Promise<void> = send.then(() => void under.delete(done));
    under.add(done);
  }
  await Promise.all(under);
}

/** Kills one of them or both, at some moment soon, and starts them again. */
async function strike(
  random: () => number,
  a: ProcessNode,
  b: ProcessNode,
  kills: { a: number; b: number },
): Promise<void> {
  await delay(400 * random());
  const draw = random();
  const victims = draw < 0.4 ? [a] : draw < 0.8 ? [b] : [a, b];
  await Promise.all(
    victims.map(async (node) => {
      await delay(50 * random());
      kills[node.name as 'a' | 'b']++;
      starting.add(node);
      await node.crash();
      await delay(300 * random());
      await node.start();
      starting.delete(node);
      // Now and then, once more while it gets its bearings.
      if (random() > 0.2) return;
      await delay(300 * random());
      kills[node.name as 'a' | 'b']++;
      starting.add(node);
      await node.crash();
      await node.start();
      starting.delete(node);
    }),
  );
}

const starting = new Set<ProcessNode>();

function isUp(node: ProcessNode): boolean {
  return !starting.has(node);
}

/** Waits until everything has arrived, is done, and both sides know. */
async function atRest(a: ProcessNode, b: ProcessNode): Promise<void> {
  let ledgers = '';
  await until(
    async () => {
      for (const node of [a, b]) {
        if ((await node.call<MailRow[]>('outbox')).length > 0) return false;
        for (const as of ['ledger', 'other'])
          if ((await node.call<MailRow[]>('inbox', { as })).length > 0) return false;
      }
      const now = JSON.stringify([await ledgerOf(a, b), await ledgerOf(b, a)]);
      const same = now === ledgers;
      ledgers = now;
      if (!same) await delay(300);
      return same;
    },
    'everything has come to rest',
    SOAK ? 300_000 : 60_000,
  );
}

/** The entries of a node's ledger from the other node. */
async function ledgerOf(node: ProcessNode, other: ProcessNode): Promise<Ledger> {
  const found = await node.request<Ledger | null>('other', 'ledger', `ledger@${other.key}`);
  return found ?? { count: 0, last: 0, gaps: [], wrong: [], redelivered: 0 };
}

/** The fields that must be equal in both ledgers. */
function pick({ count, last, gaps, wrong }: Ledger): Omit<Ledger, 'redelivered'> {
  return { count, last, gaps, wrong };
}

function isIn(gaps: Ledger['gaps'], n: number): boolean {
  return gaps.some(([first, last]) => first <= n && n <= last);
}

/** Both sides have the same final receipt of every acknowledged message. */
async function expectReceiptsAgree(a: ProcessNode, b: ProcessNode, sent: Sent): Promise<void> {
  const differences: unknown[] = [];
  for (const id of sent.values()) {
    if (id === undefined) continue;
    const read = (node: ProcessNode) => node.call<{ state: string; over: boolean; story: Receipt }>('receipt', { id });
    const tell = ({ story }: { story: Receipt }) => JSON.stringify(story);
    const agreed = async () => {
      const [here, there] = await Promise.all([read(a), read(b)]);
      return here.over && here.state === 'done' && tell(here) === tell(there);
    };
    // The last news may be on its way.
    const found = await until(agreed, id, 10_000).catch(async () => ({ a: await read(a), b: await read(b) }));
    if (found !== true) differences.push(found);
  }
  expect(differences).toEqual([]);
}

/** The same numbers for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed * 2_654_435_761;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
