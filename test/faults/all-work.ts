import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { Config } from '../../src/node/config/schema.js';
import { channelExact, channelFlows, LeaseLoad, MailLoad, repository, SwarmLoad } from '../nats/cluster-load.js';
import { type Cluster, type ProcessNode, until } from '../nodes/cluster.js';

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const LEDGER = file('../durable/agents/ledger.ts');
const WORKER = file('../swarm/agents/worker.ts');
const SCRIBE = file('./agents/scribe.ts');
const WRITE_EVERY_MS = 100;
/** Of the agents of one node. */
const AGENTS = 5;

/** The agents of a node that does every kind of work. */
export function agentsOf(cluster: Cluster, name: string): Config {
  return {
    roster: false,
    agents: {
      asker: { tier: 0 },
      ledger: { tier: 0, module: cluster.module(LEDGER) },
      scribe: { tier: 0, module: cluster.module(SCRIBE) },
      witness: { tier: 0, module: cluster.witness() },
      [`worker-${name}`]: { tier: 2, module: cluster.module(WORKER), capabilities: ['work'] },
    },
  };
}

/** Makes nodes one mesh, and waits until each knows all agents, with `more` than those that do every kind of work. */
export async function meshOf(nodes: readonly ProcessNode[], more = 0): Promise<void> {
  const [host, ...guests] = nodes;
  for (const guest of guests) await host!.admit(guest, { tiers: [0, 1, 2, 3] });
  for (const node of nodes) {
    await until(
      async () => (await node.agents()).length === AGENTS * nodes.length + more,
      `${node.name} knows all agents`,
    );
  }
}

/** Durable mail around the circle of nodes, changes of a document at all, messages, leases, and a swarm at a time. */
export class AllWork {
  readonly #nodes: readonly ProcessNode[];
  /** From each node to the next. */
  readonly mail: readonly MailLoad[];
  readonly #leases: LeaseLoad;
  /** Entries that a scribe has acknowledged. */
  readonly #written: string[] = [];
  #isOver = false;
  #writing: Promise<unknown> = Promise.resolve();

  private constructor(nodes: readonly ProcessNode[], leases: LeaseLoad, everyMs: number) {
    this.#nodes = nodes;
    this.mail = nodes.map((node, at) => new MailLoad(node, nodes[(at + 1) % nodes.length]!, { everyMs }));
    this.#leases = leases;
  }

  static async begin(cluster: Cluster, nodes: readonly ProcessNode[], { mailEveryMs = 25 } = {}): Promise<AllWork> {
    const leases = await LeaseLoad.begin(nodes, repository(cluster));
    const work = new AllWork(nodes, leases, mailEveryMs);
    cluster.onEnd(() => leases.end());
    for (const load of work.mail) load.begin();
    work.#writing = Promise.all(nodes.map((node) => work.#write(node)));
    work.#writing.catch(() => {});
    const [first, second] = nodes;
    await first!.request('asker', 'witness', { do: 'begin', to: `witness@${second!.key}`, everyMs: 50 });
    await work.flows();
    return work;
  }

  /** Tasks that are under way from now on. */
  swarm(): Promise<SwarmLoad> {
    return SwarmLoad.start(this.#nodes);
  }

  /** Every kind of work that begins now gets done. */
  async flows(): Promise<void> {
    const from = this.#written.length;
    await Promise.all([
      ...this.mail.map((load) => load.flows()),
      this.#leases.flows(),
      channelFlows(this.#nodes[0]!),
      until(() => this.#written.length > from + this.#nodes.length, 'the document is written'),
    ]);
    expect(this.#leases.faults).toEqual([]);
  }

  /** Ends the work: nothing is lost, doubled, reordered or different between nodes. Returns what was done. */
  async exact(): Promise<{ mail: number; leases: number; entries: number }> {
    this.#isOver = true;
    await Promise.all([this.#leases.end(), this.#writing, ...this.mail.map((load) => load.end())]);
    for (const load of this.mail) await load.exact();
    expect(this.#leases.faults).toEqual([]);
    await channelExact(this.#nodes[0]!, this.#nodes[1]!);
    const expected = [...this.#written].sort();
    for (const node of this.#nodes) {
      const entries = () => node.request<string[]>('asker', 'scribe', { do: 'read' });
      await until(async () => (await entries()).length >= expected.length, `${node.name} has the whole document`);
      expect(await entries()).toEqual(expected);
      expect(node.log).not.toMatch(/tamper|forged|is damaged/i);
    }
    const mail = this.mail.reduce((sum, load) => sum + load.sent, 0);
    return { mail, leases: this.#leases.grants, entries: expected.length };
  }

  async #write(node: ProcessNode): Promise<void> {
    for (let number = 0; !this.#isOver; number++) {
      const entry = `${node.name}-${number}`;
      await node.request('asker', 'scribe', { set: entry }, 120_000);
      this.#written.push(entry);
      await delay(WRITE_EVERY_MS);
    }
  }
}
