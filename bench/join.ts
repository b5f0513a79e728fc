import { createNode } from 'ecliptic';
import type { Report } from './compare.js';
import type { Joined, JoinRole } from './join-peer.js';
import type { Bare } from './links-peer.js';
import { Peer } from './peer-process.js';
import { sized } from './settings.js';

const SUITE = 'join';
const NODES = sized(30, 6);
const AGENTS = 21;

/** Nodes that are up and alone join one mesh at once: the time until every registry holds every card. */
export async function run(report: Report): Promise<void> {
  const dht = await Peer.start({ role: 'dht' });
  try {
    await staged(report, (dht.ready as Bare).address);
  } finally {
    await dht.stop();
  }
}

async function staged(report: Report, bootstrap: string): Promise<void> {
  const cards = NODES * AGENTS;
  const founder = await createNode({ network: { bootstrap: [bootstrap] } });
  for (let i = 0; i < AGENTS; i++) founder.agent({ id: `agent-${i}` });
  const role: JoinRole = { bootstrap, agents: AGENTS, cards };
  const peers: Peer[] = [];
  try {
    while (peers.length < NODES - 1) peers.push(await Peer.start(role, './join-peer.js'));
    const codes: string[] = [];
    for (const _ of peers) codes.push((await founder.network!.invite()).code);
    const complete = new Promise<void>((resolve) => {
      founder.registry.onCard(() => {
        if (founder.registry.size === cards) resolve();
      });
    });
    const before = process.cpuUsage();
    const started = performance.now();
    const times: number[] = [];
    const joined = peers.map(async (peer, index) => {
      const answer = await peer.ask<Joined>(codes[index]!);
      times.push(performance.now() - started);
      return answer;
    });
    const [nodes] = await Promise.all([Promise.all(joined), complete]);
    const ms = performance.now() - started;
    const { user, system } = process.cpuUsage(before);
    const cpu = nodes.map(({ cpuMs }) => cpuMs).sort((a, b) => a - b);
    const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
    const figure = (what: string, value: number, unit: string) =>
      report.figure(SUITE, `join-${NODES}/staged${what}`, Math.round(value), unit);
    figure('', ms, 'ms');
    figure(', median node', times[times.length >> 1]!, 'ms');
    figure(', CPU of one', cpu[cpu.length >> 1]!, 'ms CPU');
    // What the machine has to do in any case; no load changes it much.
    figure(', CPU of all', sum(cpu) + (user + system) / 1_000, 'ms CPU');
    figure(', joins tried again', sum(nodes.map(({ retries }) => retries)), 'joins');
  } finally {
    await Promise.all(peers.map((peer) => peer.stop()));
    await founder.stop();
  }
}
