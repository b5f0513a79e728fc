import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { MailLoad } from '../nats/cluster-load.js';
import { type Cluster, inCluster, type ProcessNode, SOAK, until, untilConnected } from '../nodes/cluster.js';
import { stablePorts } from '../ports.js';
import { agentsOf, meshOf } from './all-work.js';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 });

const ROUNDS = SOAK ? 20 : 1;

/** Takes memory until there is none. */
const GLUTTON = `
exports.setup = (agent) => agent.onRequest(() => {
  const taken = [];
  for (;;) taken.push(new Array(100_000).fill(taken.length));
});
`;

const entries = (node: ProcessNode) => node.request<string[]>('asker', 'scribe', { do: 'read' });

async function writeAll(node: ProcessNode, names: readonly string[]): Promise<void> {
  for (const name of names) await node.request('asker', 'scribe', { set: name });
}

async function pair(cluster: Cluster, env: Record<string, string> = {}) {
  const ports = await stablePorts(2);
  const nodes = ['a', 'b'].map((name, at) => {
    const config = agentsOf(cluster, name);
    if (name === 'a') {
      const module = join(cluster.folder, 'glutton.cjs');
      writeFileSync(module, GLUTTON);
      Object.assign(config.agents!, { glutton: { tier: 0, module } });
    }
    const args = ['--no-dht', '--listen', `127.0.0.1:${ports[at]}`];
    return cluster.node(name, { args, config, env: name === 'a' ? env : {} });
  });
  await Promise.all(nodes.map((node) => node.start()));
  await meshOf(nodes, 1);
  return nodes as [ProcessNode, ProcessNode];
}

describe.concurrent('a node whose data folder is put back from an old copy', () => {
  it(
    'has the documents of the others, whose later changes stay, and its new changes and mail arrive [FX.9]',
    inCluster(async (cluster) => {
      const [a, b] = await pair(cluster);
      const expected: string[] = [];
      const copy = join(cluster.folder, 'copy');
      for (let round = 0; round < ROUNDS; round++) {
        const named = (part: string) => Array.from({ length: 10 }, (_, at) => `${round}-${part}-${at}`);
        const [before, since, after] = ['before', 'since', 'after'].map(named) as [string[], string[], string[]];
        await writeAll(a, before);
        await a.stop();
        cpSync(a.data, copy, { recursive: true });
        await a.start();
        await untilConnected([a, b]);
        await writeAll(a, since);
        await until(async () => (await entries(b)).includes(since.at(-1)!), 'b has the changes since the copy');
        await a.crash();
        rmSync(a.data, { recursive: true });
        cpSync(copy, a.data, { recursive: true });
        rmSync(copy, { recursive: true });
        await a.start();
        await untilConnected([a, b]);
        await writeAll(a, after);
        expected.push(...before, ...since, ...after);
        for (const node of [a, b]) {
          await until(async () => (await entries(node)).length >= expected.length, `${node.name} has every change`);
          expect(await entries(node)).toEqual([...expected].sort());
        }
        await a.call('send', { as: 'asker', to: `asker@${b.key}`, payload: `round ${round}`, durable: true });
        await until(async () => (await a.call<unknown[]>('outbox')).length === 0, 'mail of the restored node arrives');
      }
      expect(JSON.stringify(await b.call('inbox', { as: 'asker' }))).toContain('round 0');
    }),
    120_000 + ROUNDS * 60_000,
  );
});

describe.concurrent('a node that runs out of memory', () => {
  it(
    'ends, and has lost and doubled nothing when it runs again [FX.10]',
    inCluster(async (cluster) => {
      const [a, b] = await pair(cluster, { NODE_OPTIONS: '--max-old-space-size=96' });
      const mail = new MailLoad(b, a);
      mail.begin();
      for (let round = 0; round < ROUNDS; round++) {
        await mail.flows();
        await a.request('asker', 'glutton', 'eat', 60_000).catch(() => {});
        await until(() => !a.running, 'the process has ended');
        expect(a.log).toContain('heap out of memory');
        await a.crash();
        await a.start();
        await untilConnected([a, b]);
      }
      await mail.flows();
      await mail.end();
      await mail.exact();
      expect(await a.call('audit.verify')).toMatchObject({ fault: null });
    }),
    120_000 + ROUNDS * 60_000,
  );
});
