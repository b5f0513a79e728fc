import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { type Cluster, inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';
import { bodiesIn, idsIn } from '../onramp-fixture.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 180_000 });

const { total, strikes } = SOAK ? { total: 10_000, strikes: 300 } : { total: 80, strikes: 4 };
const ENDS = ['done', 'replied', 'declined', 'refused', 'expired', 'undeliverable'];

describe('coding agents on two nodes, while everything is killed at random', () => {
  it(
    `lose none of ${total} messages, see none twice, and know the end of each [ON3]`,
    inCluster(async (cluster) => {
      const { a, b } = await pair(cluster);
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--no-start', '--data', a.data]);
      const bob = await CodingAgent.start(cluster, ['--as', 'bob', '--no-start', '--data', b.data]);
      await bob.call('mesh_peers');
      await until(
        async () => (await alice.call('mesh_peers', { match: 'bob' })).includes('bob@'),
        'they know each other',
      );
      const sent = new Map<string, string>();
      const heard: string[] = [];
      let over = false;
      const reading = (async () => {
        while (!over || heard.length < sent.size) {
          const result = await bob.try('mesh_inbox', { wait_s: 1, limit: 50 });
          if (result && !result.isError) heard.push(...freshBodies(result.content[0]!.text, heard));
          else await delay(100);
        }
      })();
      const striking = strike([a, b], [alice, bob], strikes, () => over);
      for (let n = 0; n < total; n++) {
        const result = await alice.try('mesh_send', { to: 'bob', text: `message ${n}` });
        const [id] = result && !result.isError ? idsIn(result.content[0]!.text) : [];
        if (id !== undefined) sent.set(id, `message ${n}`);
        else await delay(50);
      }
      over = true;
      await striking;
      await revive([a, b], [alice, bob]);
      await until(() => new Set(heard).size >= sent.size, 'all that was accepted was heard', 120_000);
      await reading;
      await bob.call('mesh_inbox');
      const lost = [...sent.values()].filter((text) => !heard.includes(text));
      expect(lost).toEqual([]);
      expect(heard.filter((text, index) => heard.indexOf(text) !== index)).toEqual([]);
      expect(sent.size).toBeGreaterThan(total / 3);
      for (const id of sent.keys()) {
        await until(async () => ENDS.includes(await stateAt(a, id)), `the sender knows the end of ${id}`, 60_000);
        expect(await stateAt(b, id)).toBe(await stateAt(a, id));
      }
    }),
    SOAK ? 3_600_000 : 180_000,
  );
});

async function pair(cluster: Cluster): Promise<{ a: ProcessNode; b: ProcessNode }> {
  const args = await cluster.argsFor('websocket');
  const config = { onramp: { perPair: 1_000_000 } };
  const a = await cluster.start('desk', { args, config });
  const b = await cluster.start('laptop', { args, config });
  await a.admit(b, { tiers: [0, 1, 2, 3] });
  await until(async () => (await a.connected()) === 1 && (await b.connected()) === 1, 'they are connected');
  return { a, b };
}

/** Kills one thing after another, and starts it again, until there is nothing more to do. */
async function strike(
  nodes: readonly ProcessNode[],
  agents: readonly CodingAgent[],
  times: number,
  isOver: () => boolean,
): Promise<void> {
  let seed = Number(process.env.ECLIPTIC_SEED ?? 1);
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  for (let strike = 0; strike < times && !isOver(); strike++) {
    await delay(200 + random(800));
    const victim = random(4);
    if (victim < 2) {
      await nodes[victim]!.crash();
      await nodes[victim]!.start();
    } else {
      await agents[victim - 2]!.crash();
      await agents[victim - 2]!.start();
    }
  }
}

async function revive(nodes: readonly ProcessNode[], agents: readonly CodingAgent[]): Promise<void> {
  for (const node of nodes) if (!node.running) await node.start();
  for (const agent of agents) if (!agent.running) await agent.start();
}

/** What the agent must take for new: it was never shown it, or is not told that it may have been. */
function freshBodies(text: string, heard: readonly string[]): string[] {
  return text.split(/^(?=[0-9A-Z]{26} from )/m).flatMap((part) => {
    const mayBeKnown = part.slice(0, part.indexOf('\n')).includes('shown before');
    return bodiesIn(part).filter((body) => !mayBeKnown || !heard.includes(body));
  });
}

async function stateAt(node: ProcessNode, id: string): Promise<string> {
  return (await node.call<{ state: string }>('receipt', { id })).state;
}
