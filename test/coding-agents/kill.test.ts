import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { bodiesIn, idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';
import { type FaultyWay, onlyThroughProxy } from '../nodes/faulty-way.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 180_000 });

/** How much is sent, how often something is struck meanwhile, and how much goes at once. */
const { total, strikes, atOnce } = SOAK
  ? { total: 10_000, strikes: 200, atOnce: 20 }
  : { total: 80, strikes: 7, atOnce: 10 };
const ENDS = ['done', 'replied', 'declined', 'refused', 'expired', 'undeliverable'];

describe('coding agents on two nodes, while processes are killed and links cut at random', () => {
  it(
    `lose none of ${total} messages, see none twice, and know the end of each [ON3]`,
    inCluster(async (cluster) => {
      const { a, b, proxy } = await pair(cluster);
      const alice = await CodingAgent.startApart(cluster, ['--as', 'alice', '--no-start', '--data', a.data]);
      const bob = await CodingAgent.startApart(cluster, ['--as', 'bob', '--no-start', '--data', b.data]);
      await bob.call('mesh_peers');
      await until(
        async () => (await alice.call('mesh_peers', { match: 'bob' })).includes('bob@'),
        'they know each other',
      );
      const outcome = { sent: new Map<string, string>(), heard: new Map<string, string>(), twice: [] as string[] };
      const { sent, heard } = outcome;
      let over = false;
      const latest = { at: 0, said: '' };
      const reading = (async () => {
        // The next call marks the last shown messages as read: repeat until none is shown.
        for (let shown = 1; !over || shown > 0; ) {
          const result = await bob.try('mesh_inbox', { wait_s: 1, limit: 50 });
          const { text } = result?.content[0] ?? { text: 'nothing: it was killed' };
          Object.assign(latest, { at: performance.now(), said: text.slice(0, 200) });
          shown = result && !result.isError ? hear(text, outcome) : 1;
          if (!result || result.isError) await delay(50);
        }
      })();
      const striking = new Strikes([a, b], [alice, bob], proxy);
      let tried = 0;
      const send = async () => {
        const text = `message ${tried++}`;
        const result = await alice.try('mesh_send', { to: 'bob', text });
        const [id] = result && !result.isError ? idsIn(result.content[0]!.text) : [];
        if (id !== undefined) sent.set(id, text);
        else await delay(50);
      };
      // Only accepted messages count: none of them may be lost.
      while (sent.size < total) {
        striking.keepUpWith(sent.size / total);
        await Promise.all([Promise.all(Array.from({ length: atOnce }, send)), striking.nearly]);
      }
      await striking.finish();
      await until(
        () => [...sent.keys()].every((id) => heard.has(id)),
        'all that was accepted was heard',
        120_000,
      ).catch(async (error: Error) => {
        const silence = Math.round(performance.now() - latest.at);
        const lost = [...sent.keys()].filter((id) => !heard.has(id));
        const states = lost.slice(0, 20).map(async (id) => `${id} ${await stateAt(a, id)} ${await stateAt(b, id)}`);
        const reader = `the reader was answered ${silence} ms ago: ${latest.said}`;
        throw new Error(`${error.message}: ${lost.length} not\n${reader}\n${(await Promise.all(states)).join('\n')}`);
      });
      over = true;
      await reading;
      expect(outcome.twice).toEqual([]);
      for (const [id, text] of sent) expect(heard.get(id)).toBe(text);
      // Also those whose sender never learned that they were accepted.
      for (const id of new Set([...sent.keys(), ...heard.keys()])) {
        await until(async () => ENDS.includes(await stateAt(a, id)), `the sender knows the end of ${id}`, 60_000);
        expect(await stateAt(b, id)).toBe(await stateAt(a, id));
      }
      if (SOAK) console.log(`${sent.size} accepted of ${tried}, ${heard.size} heard; struck: ${striking.summary}`);
    }),
    SOAK ? 3_600_000 : 180_000,
  );
});

async function pair(cluster: Cluster): Promise<{ a: ProcessNode; b: ProcessNode; proxy: FaultyWay }> {
  const { proxy, called, caller } = await onlyThroughProxy(cluster);
  const config = { onramp: { perPair: 1_000_000 } };
  const a = await cluster.start('desk', { ...called, config });
  const b = await cluster.start('laptop', { ...caller, config });
  await a.admit(b, { tiers: [0, 1, 2, 3] });
  await until(async () => (await a.connected()) === 1 && (await b.connected()) === 1, 'they are connected');
  return { a, b, proxy };
}

const VICTIMS = ['node a', 'node b', 'server a', 'server b', 'client a', 'client b', 'network'] as const;

/** Kills one thing after another and starts it again, as often as is due by how much has been sent. */
class Strikes {
  readonly #nodes: readonly ProcessNode[];
  readonly #agents: readonly CodingAgent[];
  readonly #way: FaultyWay;
  readonly #counts = new Map<string, number>();
  #seed = Number(process.env.ECLIPTIC_SEED ?? 1);
  #due = 0;
  #done = 0;
  #striking: Promise<void> = Promise.resolve();

  constructor(nodes: readonly ProcessNode[], agents: readonly CodingAgent[], way: FaultyWay) {
    this.#nodes = nodes;
    this.#agents = agents;
    this.#way = way;
  }

  get summary(): string {
    return [...this.#counts].map(([victim, count]) => `${victim} ${count}`).join(', ');
  }

  /** That share of everything has been sent. */
  keepUpWith(share: number): void {
    const due = Math.ceil(share * strikes);
    for (; this.#due < due; this.#due++) this.#striking = this.#striking.then(() => this.#strike());
  }

  /** Resolves when at most two strikes are behind what was sent: else they would come when all is over. */
  get nearly(): Promise<unknown> {
    return until(() => this.#due - this.#done <= 2, 'things are struck');
  }

  /** The rest of them; afterwards everything runs. */
  async finish(): Promise<void> {
    this.keepUpWith(1);
    await this.#striking;
    for (const node of this.#nodes) expect(node.running).toBe(true);
    for (const agent of this.#agents) expect(agent.running).toBe(true);
  }

  async #strike(): Promise<void> {
    await delay(this.#random(300));
    // Each of them in turn before any comes again by chance.
    const victim = this.#done < VICTIMS.length ? this.#done : this.#random(VICTIMS.length);
    const name = VICTIMS[victim]!;
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    if (victim < 2) {
      await this.#nodes[victim]!.crash();
      await this.#nodes[victim]!.start();
    } else if (victim < 4) {
      await this.#agents[victim - 2]!.crash();
      await this.#agents[victim - 2]!.start();
    } else if (victim < 6) {
      await this.#agents[victim - 4]!.crashClient();
      await this.#agents[victim - 4]!.start();
    } else {
      this.#way.fault = this.#random(2) === 0 ? 'cut' : 'stall';
      await delay(100 + this.#random(900));
      this.#way.fault = undefined;
    }
    this.#done++;
  }

  #random(below: number): number {
    this.#seed = (this.#seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((this.#seed / 2_147_483_648) * below);
  }
}

/**
 * What the agent must take for new is heard; what it was shown before, and is not told so, is heard twice. Returns how
 * many were shown.
 */
function hear(shown: string, { heard, twice }: { heard: Map<string, string>; twice: string[] }): number {
  for (const part of shown.split(/^(?=[0-9A-Z]{26} from )/m)) {
    const [id] = idsIn(part);
    if (id === undefined) continue;
    const mayBeKnown = part.slice(0, part.indexOf('\n')).includes('shown before');
    if (!heard.has(id)) heard.set(id, bodiesIn(part)[0]!);
    else if (!mayBeKnown) twice.push(id);
  }
  return idsIn(shown).length;
}

async function stateAt(node: ProcessNode, id: string): Promise<string> {
  return (await node.call<{ state: string }>('receipt', { id })).state;
}
