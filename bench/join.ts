import { createNode } from 'ecliptic';
import type { Report } from './compare.js';
import type { Joined, JoinRole } from './join-peer.js';
import type { Bare } from './links-peer.js';
import { Peer } from './peer-process.js';

const SUITE = 'join';
const NODES = 30;
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
    const started = performance.now();
    const times: number[] = [];
    const joined = peers.map(async (peer, index) => {
      const answer = await peer.ask<Joined>(codes[index]!);
      times.push(performance.now() - started);
      return answer;
    });
    const [nodes] = await Promise.all([Promise.all(joined), complete]);
    const ms = performance.now() - started;
    const cpu = nodes.map(({ cpuMs }) => cpuMs).sort((a, b) => a - b);
    report.figure(SUITE, `join-${NODES}/staged`, Math.round(ms), 'ms');
    report.figure(SUITE, `join-${NODES}/staged, median node`, Math.round(times[times.length >> 1]!), 'ms');
    report.figure(SUITE, `join-${NODES}/staged, CPU of one`, Math.round(cpu[cpu.length >> 1]!), 'ms');
  } finally {
    await Promise.all(peers.map((peer) => peer.stop()));
    await founder.stop();
  }
}
