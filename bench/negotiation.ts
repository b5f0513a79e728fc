import { createNode, MemoryStore } from 'ecliptic';
import { compare, type Report } from './compare.js';

const SUITE = 'coordination';

/** Work handed over by proposal, acceptance, confirmation and result, beside the same work asked for by a bare request. */
export async function run(report: Report): Promise<void> {
  const node = await createNode({ store: new MemoryStore() });
  const asker = node.agent({ id: 'asker', tier: 3 });
  const worker = node.agent({ id: 'worker', tier: 3, capabilities: ['work'] }).onRequest(({ payload }) => payload);
  const terms = { to: worker.id, taskDescription: 'echo', requiredCapabilities: ['work'] };
  const propose = async (count: number) => {
    for (let done = 0; done < count; done++) await asker.propose(terms).result;
  };
  const request = async (count: number) => {
    for (let done = 0; done < count; done++) await asker.request(worker.id, 'echo');
  };
  report.comparison(await compare(SUITE, 'propose/request', propose, request, 'round trips/s'));
  const started = performance.now();
  const count = 2_000;
  await Promise.all(Array.from({ length: count }, () => asker.propose({ ...terms, durable: true }).result));
  const perSecond = Math.round((count / (performance.now() - started)) * 1_000);
  report.figure(SUITE, 'durable, in memory, 2,000 at once', perSecond, 'round trips/s');
  await node.stop();
}
