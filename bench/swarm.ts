import { setTimeout as delay } from 'node:timers/promises';
import { type Agent, createNode } from 'ecliptic';
import type { Report } from './compare.js';

const SUITE = 'coordination';
const AGENTS = 20;
const ROUNDS = 3;

interface Cost {
  /** From the first lease to the settled end. */
  readonly settled: number;
  /** Until every member's replica of the board shows it, too. */
  readonly shown: number;
}

/** The cost of coordinating a sub-task: assigning it, committing the assignment, and committing its result. */
export async function run(report: Report): Promise<void> {
  await perSubTask(100);
  const [small, large] = [await middle(1_000), await middle(10_000)];
  const figure = (name: string, value: number, unit: string) => report.figure(SUITE, name, value, unit);
  const unit = 'µs of CPU a sub-task, 20 agents';
  figure('swarm-1000 settled', Math.round(small.settled), unit);
  figure('swarm-10000 settled', Math.round(large.settled), unit);
  figure('swarm-1000 settled and shown to all', Math.round(small.shown), unit);
  figure('swarm-10000 settled and shown to all', Math.round(large.shown), unit);
  const growth = Math.round((large.settled / small.settled) * 100) / 100;
  figure('swarm-10000/swarm-1000', growth, '× the cost of each, with ten times as many');
}

async function middle(subTasks: number): Promise<Cost> {
  const rounds: Cost[] = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push(await perSubTask(subTasks));
  return rounds.sort((a, b) => a.settled - b.settled)[ROUNDS >> 1]!;
}

/** The work is empty, so only coordination counts. Measured in CPU time, because the machine may be busy. */
async function perSubTask(count: number): Promise<Cost> {
  const node = await createNode();
  const workers = Array.from({ length: AGENTS }, (_, at) =>
    node.agent({ id: `worker-${at}`, capabilities: ['count'] }).onRequest(() => at),
  );
  const plan = Array.from({ length: count }, (_, at) => ({ id: `t${at}`, requiredCapabilities: ['count'] }));
  const swarm = node.agent({ id: 'sun' }).swarm('count', { capabilities: ['count'], plan });
  await swarm.active;
  const began = process.cpuUsage();
  const spent = () => {
    const { user, system } = process.cpuUsage(began);
    return (user + system) / count;
  };
  const { results } = await swarm.result;
  const settled = spent();
  if (Object.keys(results).length !== count) throw new Error('a result is missing');
  while (!workers.every((worker) => isShown(worker, swarm.id, count))) await delay(50);
  const shown = spent();
  await node.stop();
  return { settled, shown };
}

/** The document itself is asked: a session of ten thousand rows would cost more than the operation under test. */
function isShown(worker: Agent, id: string, count: number): boolean {
  return worker.swarms.document(id)?.map('results').size === count;
}
