import { type Life, World } from './durable/simulated-mail.js';
import type { NodesInit } from './nodes-fixture.js';

interface LargeMeshInit extends NodesInit {
  /** How long a conversation between nodes that are no neighbours lasts without an item. Default 5 s. */
  idleMs?: number;
}

/** Starts that many nodes in one mesh, each with an agent; resolves when every node knows every agent, and strangers rest. */
export async function largeMesh(count: number, { idleMs = 5_000, ...init }: LargeMeshInit = {}): Promise<LargeMesh> {
  const world = new World(init);
  world.network = { limits: { idleMs, keptLinks: 0 } };
  const lives: Life[] = [];
  for (let index = 0; index < count; index++) {
    const life = await world.start(world.station(`node-${index}`));
    life.node.agent({ id: `agent-${index}`, tier: 1 }).onMessage(() => {});
    lives.push(life);
  }
  for (const { node } of lives.slice(1)) await world.nodes.join(node, lives[0]!.node);
  const mesh = new LargeMesh(world);
  await world.until(() => mesh.lives.every(({ node }) => node.registry.size === count));
  // In a smaller mesh, most nodes are neighbours of all others.
  const resting = () => mesh.lives.filter((life) => mesh.statesAt(life).includes('idle')).length;
  if (count >= 20) await world.until(() => resting() > count / 2);
  return mesh;
}

/** More nodes than keep links to each other. */
export class LargeMesh {
  readonly world: World;

  constructor(world: World) {
    this.world = world;
  }

  /** The processes that run. */
  get lives(): Life[] {
    return this.world.stations.flatMap(({ life }) => life ?? []);
  }

  /** Two nodes without a link between them. */
  strangers(): [Life, Life] {
    for (const one of this.lives) {
      const other = this.lives.find((life) => life !== one && this.#restBetween(one, life));
      if (other) return [one, other];
    }
    throw new Error('every pair of nodes is linked');
  }

  /** Lets the two, which are no neighbours, end their conversation. */
  rested(one: Life, other: Life): Promise<void> {
    return this.world.until(() => this.#restBetween(one, other));
  }

  state(at: Life, of: Life): string | undefined {
    return at.node.network.list().find(({ node }) => node === of.station.key)?.state;
  }

  statesAt({ node }: Life): string[] {
    return node.network.list().map(({ state }) => state);
  }

  /** Does every node that runs count exactly the nodes that run as present, and know one agent of each? */
  isConverged(): boolean {
    const keys = new Set(this.lives.map(({ station }) => station.key));
    return this.lives.every(({ node }) => {
      const present = node.network.list().filter((row) => node.network.peers.reachable(row.node));
      return present.length === keys.size - 1 && present.every((row) => keys.has(row.node));
    });
  }

  /** Cuts the network between two groups of nodes. */
  cut(some: readonly Life[], others: readonly Life[]): void {
    for (const one of some) {
      for (const other of others) this.world.nodes.network.cut(one.station.key, other.station.key);
    }
  }

  #restBetween(one: Life, other: Life): boolean {
    return this.state(one, other) === 'idle' && this.state(other, one) === 'idle';
  }
}
