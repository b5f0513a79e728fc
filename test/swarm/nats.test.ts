import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { NatsConnection } from '../../src/nats/connection.js';
import { Identity } from '../../src/network/membership/identity.js';
import type { SwarmDetail, SwarmRow } from '../../src/node/control/rows.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { NatsServer } from '../nats-server.js';
import { inCluster, type ProcessNode, SOAK, until, untilConnected } from '../nodes/cluster.js';
import { swarmNodes } from './swarm-nodes.js';

const ROUNDS = 10;
vi.setConfig({ testTimeout: 60_000 + (SOAK ? ROUNDS * 120_000 : 0) });

const runtime = systemRuntime();
const SUB_TASKS = 6;
const RECORDS = 'ecl_main_records';

async function begin(node: ProcessNode): Promise<string> {
  const subTasks = Array.from({ length: SUB_TASKS }, (_, at) => ({
    id: `t${at}`,
    requiredCapabilities: ['dig'],
    dependsOn: at < 4 ? [] : [`t${at - 4}`],
  }));
  const plan = JSON.stringify({ subTasks });
  const { id } = await node.call<SwarmRow>('swarm.start', { task: 'dig', plan, leaseMs: 1_000, attempts: 8 });
  return id;
}

type Results = readonly (readonly [id: string, result: unknown])[];

async function resultsAt(node: ProcessNode, id: string): Promise<Results> {
  const { subTasks } = await node.call<SwarmDetail>('swarm', { id });
  return subTasks.flatMap(({ id: one, status, result }) => (status === 'completed' ? [[one, result] as const] : []));
}

async function outcome(node: ProcessNode, id: string): Promise<SwarmDetail> {
  const ended = await until(async () => {
    const detail = await node.call<SwarmDetail>('swarm', { id }).catch(() => undefined);
    return detail?.status === 'completed' && detail.subTasks.every(({ result }) => result) ? detail : undefined;
  }, `${node.name} knows the outcome of ${id}`);
  expect(ended.counts).toEqual({ pending: 0, running: 0, failed: 0, completed: SUB_TASKS });
  return ended;
}

describe('a swarm of nodes with a broker', () => {
  it(
    'goes on after its creator, arbiter and half of its seats, was killed; results stay as recorded [SL.1 SL.2]',
    inCluster(async (cluster) => {
      const server = await NatsServer.start({ syncAlways: true });
      cluster.onEnd(() => server.stop());
      const [sun, worker] = (await swarmNodes(cluster, [['dig']], [server])) as [ProcessNode, ProcessNode];
      const id = await begin(sun);
      const before = await until(async () => {
        const results = await resultsAt(sun, id);
        return results.length > 0 ? results : undefined;
      }, 'there is a result');
      await sun.crash();
      const ended = await outcome(worker, id);
      expect(ended.epoch).toBeGreaterThan(1);
      const results = await resultsAt(worker, id);
      expect(results).toEqual(expect.arrayContaining([...before]));
      await sun.start();
      await outcome(sun, id);
      expect(await resultsAt(sun, id)).toEqual(results);
    }),
  );

  it.runIf(SOAK)(
    `records results once when its arbiter, a majority of its seats and a server of three are killed (${ROUNDS} rounds) [SL.1 SL.6]`,
    inCluster(async (cluster) => {
      const servers = await NatsServer.cluster(3, { syncAlways: true });
      for (const server of servers) cluster.onEnd(() => server.stop());
      const nodes = await swarmNodes(cluster, [['dig'], ['dig'], ['dig']], servers);
      const init = { servers: servers.map(({ url }) => url) };
      const observer = new NatsConnection({ runtime, identity: Identity.create(runtime) }, init);
      cluster.onEnd(() => observer.stop());
      await observer.start();
      for (let round = 1; round <= ROUNDS; round++) {
        const began = performance.now();
        const [first, ...others] = [...nodes.slice(round % 4), ...nodes.slice(0, round % 4)] as [ProcessNode];
        const sun = nodes[0]!;
        await until(async () => (await sun.agents()).length === nodes.length, 'everyone is known');
        // A server that restarted has caught up. In the first round there is no stream.
        const state = await until(async () => {
          const now = await streamOf(observer);
          return round === 1 || now?.cluster?.replicas?.every(({ current }) => current) ? [now] : undefined;
        }, 'all copies are current');
        const messages = state[0]?.state.messages ?? 0;
        const id = await begin(sun);
        const grown = (await until(() => streamOf(observer), 'the stream is there')).state.messages - messages;
        expect(grown, 'records at the broker').toBeGreaterThan(1);
        await delay(Math.random() * 600);
        const before = await resultsAt(sun, id);
        const info = await until(() => streamOf(observer), 'the stream is there');
        expect(info.config.num_replicas).toBe(3);
        const led = servers.find(({ name }) => name === info.cluster?.leader)!;
        const victim = round % 2 === 0 ? led : servers[round % 3]!;
        // The arbiter, and all but one.
        const survivor = [first, ...others].find((node) => node !== sun)!;
        const killed = nodes.filter((node) => node !== survivor);
        await Promise.all([victim.kill(), ...killed.map((node) => node.crash())]);
        const ended = await outcome(survivor, id);
        const results = await resultsAt(survivor, id);
        expect(results).toEqual(expect.arrayContaining([...before]));
        await victim.start();
        await Promise.all(killed.map((node) => node.start()));
        for (const node of killed) {
          await outcome(node, id);
          expect(await resultsAt(node, id)).toEqual(results);
        }
        await untilConnected(nodes);
        console.log(`round ${round}: epoch ${ended.epoch}, ${Math.round(performance.now() - began)} ms`);
      }
    }),
  );
});

async function streamOf(observer: NatsConnection) {
  try {
    return await (await observer.manager()).streams.info(RECORDS);
  } catch {
    return undefined;
  }
}
