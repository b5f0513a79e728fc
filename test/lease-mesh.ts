import type { CodingAgents } from '../src/coding-agents/coding-agents.js';
import { overlaps } from '../src/coding-agents/leases/glob.js';
import type { LeaseView } from '../src/coding-agents/leases/leases.js';
import type { NodeInit } from '../src/node/compose.js';
import { startCodingAgents } from './coding-agents-fixture.js';
import { type NetworkedNode, Nodes, type NodesInit } from './nodes-fixture.js';

/** One device of the owner. */
export interface Place {
  readonly node: NetworkedNode;
  readonly codingAgents: CodingAgents;
}

/** All who say nothing else work in one repository. */
export const identify = async (root: string) => ({ id: root === '/work' ? 'repository' : root, name: 'here', root });
export const OWN = { tiers: [0, 1, 2, 3] as (0 | 1 | 2 | 3)[] };

/** Devices of one owner that know each other. */
export async function leaseMesh(
  names: readonly string[],
  init: NodesInit = {},
  nodeInit: (nodes: Nodes) => Omit<NodeInit, 'runtime'> = () => ({}),
): Promise<{ nodes: Nodes; places: Place[] }> {
  const nodes = new Nodes(init);
  const places: Place[] = [];
  const more = nodeInit(nodes);
  for (const name of names) places.push(await startCodingAgents(nodes, { network: { name }, ...more }, { identify }));
  for (const { node } of places.slice(1)) await nodes.join(node, places[0]!.node, OWN);
  await nodes.runtime.advance(2_000);
  return { nodes, places };
}

/** Those who hold something for certain now, and are there. */
export function holders(places: readonly Place[]): LeaseView[] {
  return places
    .flatMap(({ codingAgents }) => codingAgents.leases.held)
    .filter(({ label, alive }) => label !== 'unconfirmed' && alive);
}

/** Nobody holds what another holds. */
export function expectExclusive(places: readonly Place[]): void {
  const all = holders(places);
  for (const [at, one] of all.entries()) {
    for (const other of all.slice(at + 1)) {
      const apart = one.repository !== other.repository || one.holder === other.holder;
      if (apart || !overlaps(one.glob, other.glob)) continue;
      throw new Error(`${one.holder} holds ${one.glob} and ${other.holder} holds ${other.glob}`);
    }
  }
}
