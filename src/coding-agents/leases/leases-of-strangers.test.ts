import { expect, it } from 'vitest';
import { Client, startCodingAgents } from '../../../test/coding-agents-fixture.js';
import { type NetworkedNode, Nodes } from '../../../test/nodes-fixture.js';

const identify = async (root: string) => ({ id: 'repository', name: 'here', root });
const limits = { idleMs: 5_000, keptLinks: 0 };

it('leases are exclusive between devices that have no link to each other [DR.2]', async () => {
  const nodes = new Nodes();
  const places: Awaited<ReturnType<typeof startCodingAgents>>[] = [];
  for (let index = 0; index < 20; index++) {
    places.push(await startCodingAgents(nodes, { network: { name: `device-${index}`, limits } }, { identify }));
  }
  for (const { node } of places.slice(1)) await nodes.join(node, places[0]!.node, { tiers: [0, 1, 2, 3] });
  const isIdle = (node: NetworkedNode, key: string) =>
    node.network.list().some((row) => row.node === key && row.state === 'idle');
  const idlePair = () => {
    for (const one of places) {
      const other = places.find(({ node }) => isIdle(one.node, node.key) && isIdle(node, one.node.key));
      if (other) return [one, other] as const;
    }
    return undefined;
  };
  await nodes.until(() => idlePair() !== undefined);
  const [one, other] = idlePair()!;
  const alice = await Client.join(nodes, one.codingAgents, 'alice');
  const bob = await Client.join(nodes, other.codingAgents, 'bob');
  const taken = await Promise.all([
    alice.call('mesh_lease', { action: 'take', paths: ['src/**'], why: 'rename' }),
    bob.call('mesh_lease', { action: 'take', paths: ['src/a.ts'], why: 'repair' }),
  ]);
  expect(taken.filter((text) => text.includes('token')).length).toBe(1);
  expect(taken.filter((text) => text.includes('Nothing was taken')).length).toBe(1);
}, 120_000);
