import { setTimeout as delay } from 'node:timers/promises';
import { type Agent, createNode } from 'ecliptic';
import { compareGrowth, type Report, type Round } from './compare.js';
import { sized } from './settings.js';

const SUITE = 'coordination';
const AGENTS = 20;
const [SMALL, LARGE] = [sized(1_000, 100), sized(10_000, 500)] as const;
const ROUNDS = 3;

interface Cost {
  /** From the first lease to the settled end. */
  readonly settled: Round;
  /** Until every member's replica of the board shows it, too. */
  readonly shown: Round;
}

/** The CPU time of coordinating a sub-task: assigning it, committing the assignment, and committing its result. */
export async function run(report: Report): Promise<void> {
  await costs(100);
  const last = new Map<number, Cost>();
  const round = (count: number) => async () => {
    const cost = await costs(count);
    last.set(count, cost);
    return cost.settled;
  };
  const name = `sub-task settled, ${LARGE.toLocaleString('en')} / ${SMALL.toLocaleString('en')}, ${AGENTS} agents`;
  report.comparison(await compareGrowth(SUITE, name, round(LARGE), round(SMALL), ROUNDS));
  for (const [count, { shown }] of [...last].sort(([a], [b]) => a - b)) {
    const micros = Math.round(shown.micros / count);
    report.figure(SUITE, `sub-task of ${count.toLocaleString('en')} settled and shown to all`, micros, 'µs CPU');
  }
}

/** The work is empty, so only coordination counts. Measured in CPU time, because the machine may be busy. */
async function costs(count: number): Promise<Cost> {
  const node = await createNode();
  const workers = Array.from({ length: AGENTS }, (_, at) =>
    node.agent({ id: `worker-${at}`, capabilities: ['count'] }).onRequest(() => at),
  );
  const plan = Array.from({ length: count }, (_, at) => ({ id: `t${at}`, requiredCapabilities: ['count'] }));
  const swarm = node.agent({ id: 'sun' }).swarm('count', { capabilities: ['count'], plan });
  await swarm.active;
  const [began, started] = [process.cpuUsage(), performance.now()];
  const spent = (): Round => {
    const { user, system } = process.cpuUsage(began);
    return { count, micros: user + system, ms: performance.now() - started };
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
