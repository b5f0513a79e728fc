import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { NodeNetwork } from '../faults/node-network.js';
import { LeaseLoad, repository } from '../nats/cluster-load.js';
import { type Cluster, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import type { Done, Reading, Received } from './agents/load.js';
import { isFlat, trendOf } from './trend.js';

/** `npm run soak:load -- --minutes N` sets both. */
const MINUTES = Number(process.env.ECLIPTIC_SOAK_MINUTES ?? 0);
const REPORT = process.env.ECLIPTIC_SOAK_REPORT;

const PORT = 4_200;
const PAUSE_MS = 50;
const SAMPLE_MS = 10_000;
/** A node is cut off for a while, so often. */
const CUT_EVERY_MS = 60_000;
const CUT_MS = 4_000;
/** Tables, caches and the heap fill during the first part. */
const WARM_UP = 1 / 3;
/**
 * A store continues its log every few minutes under this load, and what it holds in memory rises and falls with that. A shorter
 * run has too few of these cycles: it reports the trends, and does not judge those of memory and disk.
 */
const JUDGED_FROM = 45;
const MIB = 1_048_576;

/** What is measured, its unit, and the share by which it may grow over the rest of the run. */
const MEASURES = [
  { name: 'rss', unit: MIB, share: 0.06, always: false },
  { name: 'heap', unit: MIB, share: 0.06, always: false },
  { name: 'external', unit: MIB, share: 0.1, always: false },
  { name: 'disk', unit: MIB, share: 0.1, always: false },
  { name: 'descriptors', unit: 1, share: 0.1, always: true },
  { name: 'timers', unit: 1, share: 0.15, always: true },
] as const;

type Sample = Reading & { readonly disk: number };

describe('three nodes under mixed load', () => {
  it.skipIf(MINUTES === 0)(
    `use no more memory, descriptors, timers and disk after ${MINUTES} minutes, and lose nothing [FX.7]`,
    inCluster(async (cluster) => {
      const { nodes, network } = await meshOf(cluster);
      const leases = await LeaseLoad.begin(nodes, repository(cluster), { holdMs: 400 });
      cluster.onEnd(() => leases.end());
      const calls = toolCalls(nodes);
      for (const [at, node] of nodes.entries()) {
        const to = `load@${nodes[(at + 1) % nodes.length]!.key}`;
        await node.request('asker', 'load', { do: 'begin', to, pauseMs: PAUSE_MS });
      }
      const samples = nodes.map((): Sample[] => []);
      const endsAt = performance.now() + MINUTES * 60_000;
      let cutAt = performance.now() + CUT_EVERY_MS / 2;
      let cuts = 0;
      while (performance.now() < endsAt) {
        await delay(SAMPLE_MS);
        for (const [at, node] of nodes.entries()) samples[at]!.push(await sampleOf(node));
        if (performance.now() < cutAt) continue;
        cutAt += CUT_EVERY_MS;
        network.cut(cuts++ % nodes.length);
        await delay(CUT_MS);
        await network.heal();
        await untilConnected(nodes);
      }
      const tools = await calls.end();
      await leases.end();
      const done = await Promise.all(nodes.map((node) => node.request<Done>('asker', 'load', { do: 'end' }, 120_000)));
      const lost = await mailLost(nodes, done);
      const { figures, failures } = judge(nodes, samples);
      const sum = (of: (one: Done) => number) => done.reduce((total, one) => total + of(one), 0);
      const all = {
        figures: {
          minutes: MINUTES,
          turns: sum(({ turns }) => turns),
          'durable messages': sum(({ sent }) => sent),
          'refused while cut off': sum(({ failed }) => failed),
          'tool calls': tools,
          leases: leases.grants,
          reconnects: cuts,
          ...figures,
        },
        failures: [...failures, ...lost, ...leases.faults],
      };
      if (REPORT) writeFileSync(REPORT, JSON.stringify(all));
      expect(all.failures).toEqual([]);
    }),
    (MINUTES + 5) * 60_000 * 1.5,
  );
});

async function meshOf(cluster: Cluster): Promise<{ nodes: ProcessNode[]; network: NodeNetwork }> {
  const network = await NodeNetwork.open(3);
  cluster.onEnd(() => network.close());
  const module = cluster.module(fileURLToPath(new URL('./agents/load.ts', import.meta.url)));
  // Histories have limits; those of a day would be filled in a day.
  const rows = { maxRows: 2_000 };
  const nodes = await Promise.all(
    ['a', 'b', 'c'].map((name, at) =>
      cluster.start(name, {
        args: ['--no-dht', '--listen', `${network.host(at)}:${PORT}`],
        within: network.within(at),
        env: { ECLIPTIC_LOG: 'warn' },
        config: {
          roster: false,
          agents: { asker: { tier: 0 }, load: { tier: 0, module, capabilities: ['load'] } },
          limits: { retention: { journal: rows, audit: rows, receipts: rows, tasks: rows } },
        },
      }),
    ),
  );
  const [host, ...guests] = nodes;
  for (const guest of guests) await host!.admit(guest, { tiers: [0, 1, 2, 3] });
  for (const node of nodes)
    await until(async () => (await node.agents()).length === 6, `${node.name} knows all agents`);
  return { nodes, network };
}

async function sampleOf(node: ProcessNode): Promise<Sample> {
  const reading = await node.request<Reading>('asker', 'load', { do: 'meter' });
  const files = readdirSync(join(node.data, 'store')).map((name) => {
    return statSync(join(node.data, 'store', name), { throwIfNoEntry: false })?.size ?? 0;
  });
  return { ...reading, disk: files.reduce((sum, size) => sum + size, 0) };
}

/** Calls of a tool through the control socket. */
function toolCalls(nodes: readonly ProcessNode[]) {
  let isOver = false;
  let count = 0;
  const running = Promise.all(
    nodes.map(async (node) => {
      while (!isOver) {
        await node.call('call', { as: 'asker', tool: 'load.echo', arguments: { text: 'hello' } });
        count++;
        await delay(PAUSE_MS * 2);
      }
    }),
  );
  running.catch(() => {});
  const end = async () => {
    isOver = true;
    await running;
    return count;
  };
  return { end };
}

/** Waits until all durable mail has arrived; returns what was lost or handled twice. */
async function mailLost(nodes: readonly ProcessNode[], done: readonly Done[]): Promise<string[]> {
  const problems: string[] = [];
  for (const [at, node] of nodes.entries()) {
    const next = nodes[(at + 1) % nodes.length]!;
    const { sent } = done[at]!;
    const received = () => next.request<Received | null>('asker', 'load', { do: 'mail', of: `load@${node.key}` });
    await until(async () => ((await received())?.last ?? 0) >= sent, `all mail of ${node.name} has arrived`);
    const { count } = (await received())!;
    if (count !== sent) problems.push(`${next.name} handled ${count} of ${sent} durable messages of ${node.name}`);
  }
  return problems;
}

function judge(nodes: readonly ProcessNode[], samples: readonly Sample[][]) {
  const figures: Record<string, string | number> = {};
  const failures: string[] = [];
  for (const { name, unit, share, always } of MEASURES) {
    const texts: string[] = [];
    for (const [at, node] of nodes.entries()) {
      const steady = samples[at]!.slice(Math.floor(samples[at]!.length * WARM_UP));
      const trend = trendOf(steady.map((sample) => sample[name] / unit));
      const text = `${round(trend.median)} ${trend.growth < 0 ? '−' : '+'}${round(Math.abs(trend.growth))} (scatter ${round(trend.noise)})`;
      texts.push(text);
      if ((always || MINUTES >= JUDGED_FROM) && !isFlat(trend, share))
        failures.push(`${name} of ${node.name} grows: ${text}`);
    }
    figures[`${name}${unit === MIB ? ', MiB' : ''}`] = texts.join(' / ');
  }
  const late = samples.map((one) => round([...one.map(({ p99 }) => p99)].sort((a, b) => a - b)[one.length >> 1]!));
  figures['event loop p99, ms'] = late.join(' / ');
  return { figures, failures };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
