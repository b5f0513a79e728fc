import { describe, expect, it } from 'vitest';
import { connected, type NetworkedNode, Nodes, type NodesInit } from '../../../test/nodes-fixture.js';

const COUNT = 24;

/** That many nodes, each with an agent, in one mesh; resolves when every node knows every agent. */
async function largeMesh(count = COUNT, init: NodesInit = {}): Promise<{ nodes: Nodes; all: NetworkedNode[] }> {
  const nodes = new Nodes(init);
  const all: NetworkedNode[] = [];
  for (let index = 0; index < count; index++) {
    const node = await nodes.start();
    node.agent({ id: `agent-${index}`, tier: 1 }).onMessage(() => {});
    all.push(node);
  }
  for (const node of all.slice(1)) await nodes.join(node, all[0]!);
  await nodes.until(() => all.every(({ registry }) => registry.size === count));
  // Links that the nodes opened while there were few of them are closed after a while.
  await nodes.runtime.advance(120_000);
  return { nodes, all };
}

/** Two nodes of the mesh without a link between them. */
function strangers(all: readonly NetworkedNode[]): [NetworkedNode, NetworkedNode] {
  for (const one of all) {
    const row = one.network.list().find(({ state }) => state === 'idle');
    const other = all.find(({ key }) => key === row?.node);
    if (other) return [one, other];
  }
  throw new Error('every pair of nodes is linked');
}

function stateOf(node: NetworkedNode, other: NetworkedNode): string | undefined {
  return node.network.list().find((row) => row.node === other.key)?.state;
}

describe('a mesh of more nodes than are linked', () => {
  it('knows every card everywhere, with few links and no heartbeats to the others [DR.1]', async () => {
    const { nodes, all } = await largeMesh();
    expect(Math.max(...all.map(connected))).toBeLessThan(COUNT - 1);
    expect(all.reduce((sum, node) => sum + connected(node), 0) / COUNT).toBeLessThan(16);
    expect(all.map(({ registry }) => registry.size)).toEqual(all.map(() => COUNT));
    const [one, other] = strangers(all);
    const seen = one.network.peers.seenAt(other.key)!;
    expect(nodes.runtime.now() - seen, 'it is confirmed through the directory').toBeLessThan(40_000);
  });

  it('opens a conversation when a message is sent, and answers [DR.2]', async () => {
    const { nodes, all } = await largeMesh();
    const [one, other] = strangers(all);
    const asking = one.agent({ id: 'asking', tier: 1 });
    other.agent({ id: 'answering', tier: 1 }).onRequest(() => ({ seen: true }));
    await nodes.until(() => one.registry.entry(`answering@${other.key}`) !== undefined);
    expect(stateOf(one, other)).toBe('idle');
    const reply = await nodes.settled(asking.request(`answering@${other.key}`, { hello: 1 }));
    expect(reply).toEqual({ seen: true });
    expect(stateOf(one, other)).toBe('connected');
  });
});
