import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { faketime } from '../../scripts/need-faketime.mjs';
import { type Cluster, inCluster, type ProcessNode, SOAK, until, untilConnected } from '../nodes/cluster.js';
import { AllWork, agentsOf, meshOf } from './all-work.js';
import { NodeNetwork } from './node-network.js';

vi.setConfig({ hookTimeout: 60_000 });

/** By name; the others only in a long run. */
const SHORT = ['hears the others and is not heard', 'has a clock that jumps an hour ahead and back'];
const ROUNDS = Number(process.env.ECLIPTIC_ROUNDS ?? (SOAK ? 12 : 1));
/** Longer than a peer may be silent. */
const SILENCE_MS = SOAK ? 12_000 : 3_000;
const PORT = 4_100;
const LIBRARY = faketime()!;

/** A fault of one node: it begins, is seen by the others or not, and ends. */
interface Fault {
  readonly name: string;
  begin(world: World, victim: number): Promise<void> | void;
  end(world: World, victim: number): Promise<void> | void;
  /** Do the others call the node away, and may they? */
  readonly isSilent: boolean;
}

interface World {
  readonly network: NodeNetwork;
  readonly nodes: readonly ProcessNode[];
  /** By how many seconds a node's clock is wrong from now on. */
  setClock(at: number, seconds: number): Promise<void>;
}

const others = (at: number) => [0, 1, 2].filter((other) => other !== at);

const FAULTS: readonly Fault[] = [
  {
    name: 'is cut off',
    isSilent: true,
    begin: ({ network }, at) => network.cut(at),
    end: ({ network }) => network.heal(),
  },
  {
    name: 'hears the others and is not heard',
    isSilent: true,
    begin: ({ network }, at) => others(at).forEach((other) => void network.cutOneWay(at, other)),
    end: ({ network }) => network.heal(),
  },
  {
    name: 'does not hear one of the others',
    isSilent: false,
    begin: ({ network }, at) => network.cutOneWay(others(at)[0]!, at),
    end: ({ network }) => network.heal(),
  },
  {
    name: 'loses a tenth of its packets',
    isSilent: false,
    begin: ({ network }, at) => void network.lose(at),
    end: ({ network }) => network.heal(),
  },
  {
    name: 'is frozen',
    isSilent: true,
    begin: ({ nodes }, at) => nodes[at]!.signal('SIGSTOP'),
    end: ({ nodes }, at) => nodes[at]!.signal('SIGCONT'),
  },
  {
    name: 'has a clock that jumps an hour ahead and back',
    isSilent: false,
    begin: ({ setClock }, at) => setClock(at, 3_600),
    end: ({ setClock }, at) => setClock(at, 0),
  },
  {
    name: 'has a clock that jumps ten minutes back and ahead again',
    isSilent: false,
    begin: ({ setClock }, at) => setClock(at, -600),
    end: ({ setClock }, at) => setClock(at, 0),
  },
];

const CHOSEN = FAULTS.filter(({ name }) => SOAK || SHORT.includes(name));

describe('three nodes in network namespaces of their own, each doing every kind of work', () => {
  it(
    `lose, double and reorder nothing while one of them fails in ${CHOSEN.length} ways, over ${ROUNDS} rounds [FX.1 FX.2 FX.3]`,
    inCluster(async (cluster) => {
      const world = await worldOf(cluster);
      const { nodes } = world;
      const work = await AllWork.begin(cluster, nodes);
      for (let round = 0; round < ROUNDS; round++) {
        for (const [index, fault] of CHOSEN.entries()) {
          const victim = (round + index) % nodes.length;
          const began = performance.now();
          const swarm = await work.swarm();
          await fault.begin(world, victim);
          if (fault.isSilent) {
            for (const other of others(victim)) await isMissed(nodes[other]!, nodes[victim]!, fault.name);
          }
          await delay(SILENCE_MS * (SOAK ? 0.3 + Math.random() : 1));
          await fault.end(world, victim);
          await untilConnected(nodes);
          await work.flows();
          await swarm.exact();
          if (SOAK)
            console.log(
              `round ${round + 1}: ${nodes[victim]!.name} ${fault.name}, ${Math.round(performance.now() - began)} ms`,
            );
        }
      }
      const done = await work.exact();
      for (const node of nodes) expect(await node.call('audit.verify')).toMatchObject({ fault: null });
      if (SOAK) console.log(`${ROUNDS} rounds: ${JSON.stringify(done)}`);
    }),
    120_000 + ROUNDS * CHOSEN.length * (60_000 + SILENCE_MS),
  );
});

/** Nobody calls a node connected, or its agents reachable, that cannot be heard. */
async function isMissed(node: ProcessNode, missed: ProcessNode, why: string): Promise<void> {
  await until(async () => (await node.stateOf(missed)) !== 'connected', `${node.name} misses ${missed.name}: ${why}`);
  const theirs = (await node.agents()).filter((row) => row.node === missed.key);
  expect(theirs.map(({ state }) => state)).not.toContain('ready');
  await expect(
    node.call('send', { as: 'asker', to: `ledger@${missed.key}`, payload: { n: 0 } }),
    'a message that cannot arrive is not called delivered',
  ).rejects.toMatchObject({ code: expect.stringMatching(/^(AGENT_UNAVAILABLE|AGENT_NOT_FOUND|DELIVERY_FAILED)$/) });
}

async function worldOf(cluster: Cluster): Promise<World> {
  const network = await NodeNetwork.open(3);
  cluster.onEnd(() => network.close());
  mkdirSync(join(cluster.folder, 'clocks'));
  const clock = (at: number) => join(cluster.folder, 'clocks', String(at));
  const write = (at: number, seconds: number) => writeFileSync(clock(at), `${seconds < 0 ? '' : '+'}${seconds}\n`);
  const setClock = async (at: number, seconds: number) => {
    write(at, seconds);
    const isSo = async () => {
      const time = await nodes[at]!.request<number>('asker', 'scribe', { do: 'time' });
      return Math.abs(time - Date.now() - seconds * 1_000) < 60_000;
    };
    await until(isSo, `the clock of ${nodes[at]!.name} is wrong by ${seconds} s`);
  };
  const nodes = await Promise.all(
    ['a', 'b', 'c'].map((name, at) => {
      write(at, 0);
      return cluster.start(name, {
        args: ['--no-dht', '--listen', `${network.host(at)}:${PORT}`],
        within: network.within(at),
        config: agentsOf(cluster, name),
        env: {
          ECLIPTIC_LOG: 'warn',
          LD_PRELOAD: LIBRARY,
          FAKETIME_TIMESTAMP_FILE: clock(at),
          FAKETIME_NO_CACHE: '1',
          FAKETIME_DONT_FAKE_MONOTONIC: '1',
        },
      });
    }),
  );
  await meshOf(nodes);
  return { network, nodes, setClock };
}
