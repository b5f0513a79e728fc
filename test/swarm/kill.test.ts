import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import type { SwarmDetail, SwarmRow } from '../../src/node/control/rows.js';
import { inCluster, type ProcessNode, SOAK, until } from '../nodes/cluster.js';
import { swarmNodes } from './swarm-nodes.js';

const { runs, workers, subTasks, kills } = SOAK
  ? { runs: 10, workers: 8, subTasks: 30, kills: 8 }
  : { runs: 1, workers: 4, subTasks: 12, kills: 2 };
vi.setConfig({ testTimeout: 60_000 + runs * 120_000 });

const CAPABILITIES = ['a', 'b', 'c'];

describe('a swarm of processes that are killed at random, the coordinator’s too', () => {
  it(
    `completes each of ${subTasks} sub-tasks exactly once, or says why it cannot (${runs} runs) [R8.5 R8.6]`,
    inCluster(async (cluster) => {
      const able = Array.from({ length: workers }, (_, at) =>
        at % 4 === 3 ? CAPABILITIES : CAPABILITIES.filter((__, index) => index !== at % 3),
      );
      const nodes = await swarmNodes(cluster, able);
      for (let run = 1; run <= runs; run++) {
        await Promise.all(nodes.filter(({ running }) => !running).map((node) => node.start()));
        for (const node of nodes)
          await until(async () => (await node.connected()) === workers, `${node.name} is connected`);
        await until(async () => (await nodes[0]!.agents()).length === nodes.length, 'everybody is known');
        await oneRun(nodes, randomFrom(run), run);
      }
    }),
  );
});

async function oneRun(nodes: readonly ProcessNode[], random: () => number, run: number): Promise<void> {
  const plan = {
    subTasks: Array.from({ length: subTasks }, (_, at) => ({
      id: `t${at}`,
      requiredCapabilities: [CAPABILITIES[at % 3]],
      dependsOn: at < 4 ? [] : [`t${Math.floor(random() * at)}`],
    })),
  };
  const { id } = await nodes[0]!.call<SwarmRow>('swarm.start', {
    task: 'everything',
    capabilities: CAPABILITIES,
    plan: JSON.stringify(plan),
    leaseMs: 2_000,
    attempts: 8,
  });
  // The coordinator is killed first; never more than a minority is down at once.
  await delay(300 + random() * 500);
  await nodes[0]!.crash();
  for (let kill = 1; kill < kills; kill++) {
    await delay(random() * 1_500);
    const up = nodes.filter(({ running }) => running);
    const away = nodes.length - up.length;
    if (away < Math.floor((nodes.length - 1) / 2)) await up[Math.floor(random() * up.length)]!.crash();
    else await nodes.find(({ running }) => !running)!.start();
  }
  const up = () => nodes.filter(({ running }) => running);
  await until(
    async () => (await Promise.all(up().map((node) => stateOf(node, id)))).some((detail) => isOver(detail)),
    `run ${run} ends`,
    120_000,
  );
  for (const node of nodes) if (!node.running) await node.start();
  // Restarted nodes learn the outcome.
  const views = await Promise.all(
    nodes.map((node) =>
      until(
        async () => {
          const detail = await stateOf(node, id);
          const whole = detail?.subTasks.every(({ status, result }) => status !== 'completed' || result !== undefined);
          return isOver(detail) && whole ? detail : undefined;
        },
        `${node.name} knows how run ${run} ended`,
        120_000,
      ),
    ),
  );
  const [first] = views;
  for (const { status, subTasks: rows } of views) {
    expect(status).toBe(first!.status);
    expect(rows.map(({ id: one, result }) => [one, result])).toEqual(
      first!.subTasks.map(({ id: one, result }) => [one, result]),
    );
  }
  if (SOAK) console.log(`run ${run}: ${first!.status}, epoch ${first!.epoch}, ${first!.retries} tried again`);
  if (first!.status === 'failed') expect(first!.reason).not.toBeNull();
  else expect(first!.counts).toEqual({ pending: 0, running: 0, failed: 0, completed: subTasks });
  expect(first!.epoch).toBeGreaterThan(1);
}

async function stateOf(node: ProcessNode, id: string): Promise<SwarmDetail | undefined> {
  return node.call<SwarmDetail>('swarm', { id }).catch(() => undefined);
}

function isOver(detail: SwarmDetail | undefined): boolean {
  return detail?.status === 'completed' || detail?.status === 'failed';
}

function randomFrom(seed: number): () => number {
  let state = seed * 2_654_435_761;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
