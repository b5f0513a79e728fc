import { compareGrowth, isWanted, type Report, type Round, round } from './compare.js';
import type { MeshWork } from './mesh-agents.js';
import type { MeshHeap, MeshQuestion, MeshRole } from './mesh-peer.js';
import { Peer } from './peer-process.js';
import { nodes } from './scale-nodes.js';
import { peers } from './scale-peers.js';
import { isRepeat, sized } from './settings.js';
import { storeRows } from './store.js';

const SUITE = 'scale';
const [FEW, MANY] = [sized(1_000, 100), sized(100_000, 1_000)] as const;
/** Agents among which the others wait. */
const WAITERS = 100;

/** What an operation costs, in time and memory, when there is much of something, compared with little of it. */
export async function run(report: Report): Promise<void> {
  await agents(report);
  await candidates(report);
  if (isRepeat()) return;
  await threads(report);
  await storeRows(report, SUITE, FEW, MANY);
  await peers(report, SUITE);
  await nodes(report, SUITE);
}

async function agents(report: Report): Promise<void> {
  const work = ['send-pair', 'send-random', 'request-pair', 'request-random', 'send-capability'] as const;
  const [few, many] = await grown(report, 'agents', (agents) => ({ agents }), work);
  heap(report, 'agent', few.agents / FEW, many.agents / MANY);
}

/** All of them offer the same capability. */
async function candidates(report: Report): Promise<void> {
  await grown(report, 'candidates', (agents) => ({ agents, candidates: agents }), ['send-capability']);
}

/** Requests of other agents that wait for an answer. */
async function threads(report: Report): Promise<void> {
  const work = ['send-pair', 'request-pair'] as const;
  const [few, many] = await grown(report, 'threads', (waiting) => ({ agents: WAITERS, waiting }), work);
  heap(report, 'open thread', few.waiting / FEW, many.waiting / MANY);
}

/** Two processes, measured in turn. */
async function grown(
  report: Report,
  what: string,
  role: (size: number) => MeshRole,
  work: readonly MeshWork[],
): Promise<[few: MeshHeap, many: MeshHeap]> {
  const [few, many] = [await Peer.start(role(FEW), './mesh-peer.js'), await Peer.start(role(MANY), './mesh-peer.js')];
  try {
    const ask = (peer: Peer, work: MeshWork) => () => peer.ask<Round>({ work } satisfies MeshQuestion);
    for (const each of work) {
      const name = `${each}, ${MANY.toLocaleString('en')} / ${FEW.toLocaleString('en')} ${what}`;
      if (isWanted(SUITE, name)) report.comparison(await compareGrowth(SUITE, name, ask(many, each), ask(few, each)));
    }
    const heapOf = (peer: Peer) => peer.ask<MeshHeap>('heap' satisfies MeshQuestion);
    return [await heapOf(few), await heapOf(many)];
  } finally {
    await Promise.all([few.stop(), many.stop()]);
  }
}

function heap(report: Report, what: string, few: number, many: number): void {
  if (isRepeat()) return;
  const name = `heap of an ${what}, of ${MANY.toLocaleString('en')} / ${FEW.toLocaleString('en')}`;
  const [ours, theirs] = [Math.round(many), Math.round(few)];
  report.comparison({ suite: SUITE, name, ours, theirs, ratio: round(many / few), unit: 'bytes', lowerIsBetter: true });
}
