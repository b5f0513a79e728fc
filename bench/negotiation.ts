import { createNode, MemoryStore } from 'ecliptic';
import { compareRunners, type Report } from './compare.js';
import { sized } from './settings.js';

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
  report.comparison(await compareRunners(SUITE, 'propose/request', propose, request));
  const count = sized(2_000, 200);
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: count }, () => asker.propose({ ...terms, durable: true }).result));
  const { user, system } = process.cpuUsage(before);
  const name = `durable proposal, in memory, ${count.toLocaleString('en')} at once`;
  report.figure(SUITE, name, Math.round((user + system) / count), 'µs CPU');
  await node.stop();
}
