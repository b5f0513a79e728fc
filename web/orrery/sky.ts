import type { AgentRow, LeaseLine } from '../../src/node/control/rows.js';

/** The facts that the orrery and its table show, without positions. */

/** Above this, a node is one body until it is opened. */
export const MAX_BODIES = 60;

export type Health = 'good' | 'busy' | 'warn' | 'bad' | 'away' | 'hollow';

export interface Star {
  /** `id` for an agent of this node, `id@node` for another's. */
  readonly address: string;
  readonly name: string;
  /** The key of its node; empty for this one. */
  readonly node: string;
  readonly tier: 0 | 1 | 2 | 3;
  readonly sandbox: string | null;
  readonly state: string;
  readonly health: Health;
  readonly queued: number;
  readonly working: number;
  readonly workers: AgentRow['workers'];
  /** Files that it has reserved. */
  readonly leases: readonly string[];
}

export interface SkyNode {
  /** Empty for this node. */
  readonly key: string;
  readonly name: string;
  readonly connected: boolean;
}

/** Agents that hold leases in the same repository. */
export interface Bond {
  readonly from: string;
  readonly to: string;
  readonly repository: string;
}

export interface Sky {
  /** This node first. */
  readonly nodes: readonly SkyNode[];
  /** By node, tier, sandbox and name. */
  readonly stars: readonly Star[];
  readonly bonds: readonly Bond[];
}

export interface SkySources {
  readonly own: { readonly node: string; readonly name: string };
  readonly agents: readonly AgentRow[];
  readonly peers: readonly { readonly node: string; readonly name: string; readonly state: string }[];
  readonly leases: readonly Pick<LeaseLine, 'holder' | 'glob' | 'repository' | 'repositoryName'>[];
}

/** Which health an agent's ring shows: its own state, and trouble of a worker behind a state that is still good. */
export function healthOf({ state, workers, fix }: Pick<AgentRow, 'state' | 'workers'> & Partial<AgentRow>): Health {
  switch (state as string) {
    case 'unstaffed':
      return 'hollow';
    case 'unreachable':
      // How to staff it is known of an agent that was unstaffed when its node went away.
      return fix ? 'hollow' : 'away';
    case 'failed':
    case 'unavailable':
      return 'bad';
    case 'degraded':
      return 'warn';
    case 'starting':
      return 'busy';
    default:
      return workers.some((worker) => /degraded|unavailable|failed/.test(worker.state)) ? 'warn' : 'good';
  }
}

export function skyOf({ own, agents, peers, leases }: SkySources): Sky {
  const known = new Map<string, SkyNode>([['', { key: '', name: own.name || own.node.slice(0, 8), connected: true }]]);
  for (const { node, name, state } of peers) {
    known.set(node, {
      key: node,
      name: name || node.slice(0, 8),
      connected: state === 'connected' || state === 'idle',
    });
  }
  // A holder's address always names its node.
  const local = (holder: string) =>
    own.node !== '' && holder.endsWith(`@${own.node}`) ? holder.slice(0, holder.lastIndexOf('@')) : holder;
  const held = new Map<string, string[]>();
  const holders = new Map<string, { readonly name: string; readonly addresses: Set<string> }>();
  for (const { holder, glob, repository, repositoryName } of leases) {
    const address = local(holder);
    held.set(address, [...(held.get(address) ?? []), `${repositoryName}: ${glob}`]);
    const found = holders.get(repository) ?? { name: repositoryName, addresses: new Set<string>() };
    found.addresses.add(address);
    holders.set(repository, found);
  }
  const stars = agents.map((agent): Star => {
    const node = agent.node ?? '';
    if (!known.has(node))
      known.set(node, { key: node, name: node.slice(0, 8), connected: agent.state !== 'unreachable' });
    const address = addressOf(agent);
    const { id: name, tier, sandbox, state, load, workers } = agent;
    const about = { name, node, tier, sandbox, state, workers, queued: load.queued, working: load.working };
    return { ...about, address, health: healthOf(agent), leases: held.get(address) ?? [] };
  });
  const order = [...known.keys()];
  stars.sort(
    (a, b) =>
      order.indexOf(a.node) - order.indexOf(b.node) ||
      a.tier - b.tier ||
      (a.sandbox ?? '').localeCompare(b.sandbox ?? '') ||
      a.name.localeCompare(b.name),
  );
  const bonds = [...holders.values()].flatMap(({ name: repository, addresses }) => {
    const list = [...addresses];
    return list.slice(1).map((to, at): Bond => ({ from: list[at]!, to, repository }));
  });
  return { nodes: [...known.values()], stars, bonds };
}

export function addressOf({ id, node }: Pick<AgentRow, 'id' | 'node'>): string {
  return node === null ? id : `${id}@${node}`;
}
