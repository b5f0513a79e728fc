import type { A2ALogEvent } from '../src/mesh/schemas.js';
import { MemoryRendezvous } from '../src/network/discovery/memory-discovery.js';
import { type Faults, linkInProcess, MemoryNetwork } from '../src/network/links/memory-network.js';
import type { InviteOptions, Network } from '../src/network/peers/network.js';
import { createNode, type EclipticNode, type NodeInit } from '../src/node/compose.js';
import { SimulatedRuntime, type SimulatedRuntimeInit } from '../src/runtime/simulated-runtime.js';

export type NetworkedNode = EclipticNode & { readonly network: Network };

export interface NodesInit extends SimulatedRuntimeInit {
  /** The faults of the network. Without them, links are in-process ones, which lose nothing. */
  faults?: Partial<Faults>;
}

/** Whole nodes on one virtual clock and one simulated network. */
export class Nodes {
  readonly runtime: SimulatedRuntime;
  readonly network: MemoryNetwork;
  readonly meetings: MemoryRendezvous;
  readonly #events = new Map<EclipticNode, A2ALogEvent[]>();

  constructor(init: NodesInit = {}) {
    this.runtime = new SimulatedRuntime(init);
    this.network = new MemoryNetwork(this.runtime, init.faults);
    const inProcess = (caller: string, called: string) => linkInProcess(this.runtime, caller, called);
    this.meetings = new MemoryRendezvous(this.runtime, init.faults ? this.network.connect : inProcess);
  }

  /** A node that belongs to no mesh yet. With a folder, one that was there before comes back with its membership. */
  async start(init: Omit<NodeInit, 'runtime'> = {}): Promise<NetworkedNode> {
    const { runtime, meetings } = this;
    const node = await createNode({ runtime, ...init, network: { ...init.network, discovery: meetings.join } });
    const events: A2ALogEvent[] = [];
    this.#events.set(node, events);
    node.observability.subscribe((event) => events.push(event));
    return node as NetworkedNode;
  }

  /** That many nodes in one mesh, connected to each other. */
  async startMesh(count: number, init: Omit<NodeInit, 'runtime'> = {}): Promise<NetworkedNode[]> {
    const nodes: NetworkedNode[] = [];
    for (let index = 0; index < count; index++) nodes.push(await this.start(init));
    for (const node of nodes.slice(1)) await this.join(node, nodes[0]!);
    await this.until(() => nodes.every((node) => connected(node) === count - 1));
    return nodes;
  }

  /** Lets a node into the mesh of another. */
  async join(newcomer: NetworkedNode, host: NetworkedNode, options?: InviteOptions): Promise<void> {
    const { code } = await this.settled(host.network.invite(options));
    await this.settled(newcomer.network.join(code));
    await this.until(() => host.network.peers.reachable(newcomer.key) && newcomer.network.peers.reachable(host.key));
  }

  /** Moves the clock until the promise has settled. */
  async settled<T>(promise: Promise<T>): Promise<T> {
    let over = false;
    const end = () => {
      over = true;
    };
    promise.then(end, end);
    await this.until(() => over);
    return promise;
  }

  /** Moves the clock until something is so; after two minutes of it, that is a failure. */
  async until(condition: () => boolean, limitMs = 120_000): Promise<void> {
    for (let passed = 0; passed < limitMs; passed += 20) {
      if (condition()) return;
      await this.runtime.advance(20);
    }
    throw new Error(`not within ${limitMs} ms (seed ${this.runtime.seed}): ${condition}`);
  }

  events(node: EclipticNode, type: A2ALogEvent['type']): A2ALogEvent[] {
    return (this.#events.get(node) ?? []).filter((event) => event.type === type);
  }
}

/** How many other nodes it is connected to. */
export function connected(node: NetworkedNode): number {
  return node.network.list().filter(({ state }) => state === 'connected').length;
}
