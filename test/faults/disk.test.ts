import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { type Cluster, inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';
import { AllWork, agentsOf, meshOf } from './all-work.js';
import { SmallDisk } from './small-disk.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 });

const ROUNDS = SOAK ? 10 : 1;
/** Each at a port of its own, so that they find each other again. */
const argsOf = async () => ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`];
const FULL = { code: 'STORE_FAILED', message: expect.stringContaining('the disk is full') };

/** Delays each write and sync of the node by this many milliseconds. */
const SLOW = (ms: number) => `
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
for (const name of ['write', 'fsync', 'fdatasync']) {
  const real = fs[name];
  fs[name] = (...args) => void setTimeout(() => real(...args), ${ms});
}
syncBuiltinESMExports();
`;

const write = (node: ProcessNode, entry: string) => node.request('asker', 'scribe', { set: entry });
const entries = (node: ProcessNode) => node.request<string[]>('asker', 'scribe', { do: 'read' });
const mail = (from: ProcessNode, to: ProcessNode, n: number) =>
  from.call('send', { as: 'ledger', to: `ledger@${to.key}`, payload: { n }, durable: true });
const ledgerOf = (at: ProcessNode, from: ProcessNode) =>
  at.request<object | null>('ledger', 'ledger', `ledger@${from.key}`);

async function readiness(node: ProcessNode): Promise<{ status: number; body: string }> {
  const answer = await fetch(`${node.ready.http}/readyz`);
  return { status: answer.status, body: await answer.text() };
}

async function pairOn(cluster: Cluster, size: string) {
  const { node: a, disk } = await SmallDisk.nodeOn(cluster, 'a', size, {
    args: await argsOf(),
    config: agentsOf(cluster, 'a'),
  });
  const b = cluster.node('b', { args: await argsOf(), config: agentsOf(cluster, 'b') });
  await Promise.all([a.start(), b.start()]);
  await meshOf([a, b]);
  return { a, b, disk };
}

describe.concurrent('a node whose disk is full', () => {
  it(
    'refuses what it cannot store, says why and that it is not ready, serves the rest, and has lost nothing when there is room [FX.4]',
    inCluster(async (cluster) => {
      const { a, b, disk } = await pairOn(cluster, '8m');
      let there = 0;
      let here = 0;
      const kept: string[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        for (let n = 0; n < 20; n++) await mail(a, b, ++there);
        await write(a, `before ${round}`);
        kept.push(`before ${round}`);

        disk.fill();
        // The last block of a file may have room for a few more.
        const refused = await until(async () => {
          const outcome = await mail(a, b, there + 1).catch((error: unknown) => ({ error }));
          if (outcome && typeof outcome === 'object' && 'error' in outcome) return outcome.error;
          there++;
          return undefined;
        }, 'a durable message is refused');
        expect(refused).toMatchObject(FULL);
        let entry = 0;
        const unwritten = await until(async () => {
          const name = `full ${round} ${entry++}`;
          const outcome = await write(a, name).catch((error: Error) => error);
          if (outcome instanceof Error) return outcome;
          kept.push(name);
          return undefined;
        }, 'a change of the document is refused');
        expect(unwritten.message).toMatch(/the disk is full/);
        expect(await readiness(a)).toMatchObject({ status: 503, body: expect.stringContaining('the disk is full') });
        expect(JSON.stringify((await a.doctor()).findings)).toMatch(/disk is full/);
        // What needs no disk works, in both directions.
        expect(Array.isArray(await entries(a))).toBe(true);
        expect(await b.request('asker', `scribe@${a.key}`, { do: 'time' })).toEqual(expect.any(Number));
        // Mail for it waits at its sender.
        for (let n = 0; n < 5; n++) await mail(b, a, ++here);
        await write(b, `other ${round}`);
        kept.push(`other ${round}`);
        expect(await b.call<unknown[]>('outbox')).not.toEqual([]);

        disk.free();
        await until(async () => (await readiness(a)).status === 200, 'it is ready again');
        for (let n = 0; n < 5; n++) await mail(a, b, ++there);
        await write(a, `after ${round}`);
        kept.push(`after ${round}`);
        await until(async () => (await b.call<unknown[]>('outbox')).length === 0, 'the mail of b has arrived');
        await until(async () => (await a.call<unknown[]>('outbox')).length === 0, 'the mail of a has arrived');
        expect(JSON.stringify((await a.doctor()).findings)).not.toMatch(/disk is full/);
        await until(async () => {
          const [one, other] = await Promise.all([entries(a), entries(b)]);
          return JSON.stringify(one) === JSON.stringify(other) && kept.every((entry) => one.includes(entry));
        }, 'both have the same document');
        const expected = (last: number) => ({ count: last, last, gaps: [], wrong: [] });
        await until(async () => (await ledgerOf(a, b)) !== null, 'mail of b is in the ledger');
        expect(await ledgerOf(b, a)).toMatchObject(expected(there));
        expect(await ledgerOf(a, b)).toMatchObject(expected(here));
      }
    }),
    SOAK ? 900_000 : 180_000,
  );

  it(
    'that is killed and started meanwhile says what is wrong, and goes on once there is room [FX.4]',
    inCluster(async (cluster) => {
      const { a, b, disk } = await pairOn(cluster, '8m');
      await b.stop();
      for (let n = 1; n <= 20; n++) await mail(a, b, n);
      disk.fill();
      await a.crash();
      const failed = await a.start().then(
        () => undefined,
        (error: Error) => error.message,
      );
      // It starts only if it needed no room; then it must say so.
      if (failed === undefined) expect(await readiness(a)).toMatchObject({ status: 503 });
      else expect(failed).toMatch(/(STORE_FAILED|DATA_FOLDER).*full|no space/is);
      await a.crash();
      disk.free();
      await Promise.all([a.start(), b.start()]);
      await until(async () => (await ledgerOf(b, a)) !== null, 'mail has arrived');
      await until(async () => (await a.call<unknown[]>('outbox')).length === 0, 'all mail has arrived');
      await mail(a, b, 21);
      await until(async () => (await a.call<unknown[]>('outbox')).length === 0, 'all mail has arrived');
      expect(await ledgerOf(b, a)).toMatchObject({ count: 21, last: 21, gaps: [], wrong: [] });
    }),
  );
});

describe.concurrent('a node whose data folder is read-only', () => {
  it(
    'does not start and says why; nothing is changed, and it goes on when it can write [FX.5]',
    inCluster(async (cluster) => {
      const { a, b, disk } = await pairOn(cluster, '32m');
      await b.stop();
      await mail(a, b, 1);
      const { key } = a;
      await a.crash();
      disk.remount('ro');
      await expect(a.start()).rejects.toThrow(/(STORE_FAILED|DATA_FOLDER)[\s\S]*read-only/i);
      disk.remount('rw');
      await Promise.all([a.start(), b.start()]);
      expect(a.key).toBe(key);
      await until(async () => (await a.call<unknown[]>('outbox')).length === 0, 'the mail has arrived');
      expect(await ledgerOf(b, a)).toMatchObject({ count: 1, last: 1, gaps: [], wrong: [] });
    }),
  );
});

describe.concurrent('a node whose disk is slow', () => {
  it(
    'loses, doubles and reorders nothing, and does not slow down the others [FX.6]',
    inCluster(async (cluster) => {
      const hook = join(cluster.folder, 'slow.mjs');
      writeFileSync(hook, SLOW(SOAK ? 300 : 100));
      const slow = { NODE_OPTIONS: `--import=${pathToFileURL(hook).href}` };
      const nodes = await Promise.all(
        ['a', 'b', 'c'].map(async (name) =>
          cluster.start(name, {
            args: await argsOf(),
            config: agentsOf(cluster, name),
            env: name === 'c' ? slow : {},
          }),
        ),
      );
      await meshOf(nodes);
      const work = await AllWork.begin(cluster, nodes, { mailEveryMs: SOAK ? 2_500 : 800 });
      const swarm = await work.swarm();
      // Of a and b, neither of which waits for the slow one.
      for (let times = 0; times < (SOAK ? 100 : 3); times++) await work.mail[0]!.flows();
      await swarm.exact();
      await work.flows();
      await work.exact();
    }),
    SOAK ? 900_000 : 180_000,
  );
});
