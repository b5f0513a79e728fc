import { afterEach, describe, expect, it } from 'vitest';
import type { Runtime } from '../../src/runtime/runtime.js';
import { World } from '../durable/simulated-mail.js';
import { MemoryLogs } from '../memory-logs.js';

let world: World | undefined;
/** Also their seed: ids of two worlds must differ. */
let worlds = 0;

afterEach(() => world?.end());

/** A swarm of three nodes, each with the logs of a broker or without; the first creates it. */
async function swarmOn(brokers: readonly (MemoryLogs | undefined)[]) {
  world = new World({ seed: ++worlds });
  for (const [at, logs] of brokers.entries()) {
    const init = logs && { logs: ({ key }: { key: string }, runtime: Runtime) => logs.of(key, runtime) };
    const { node } = await world.start(world.station(`n${at}`), init);
    if (at === 0) node.agent({ id: 'sun' });
    else node.agent({ id: `w${at}`, capabilities: ['dig'] }).onTask(async () => `by ${at}`);
    // A second agent of a node has no seat.
    if (at === 1) node.agent({ id: 'x', capabilities: ['dig'] }).onTask(async () => 'by x');
  }
  const [host, ...guests] = world.stations.map(({ life }) => life!);
  for (const guest of guests) await world.nodes.join(guest.node, host!.node);
  await world.connected();
  await world.until(() => host!.node.registry.findByCapability('dig').length === guests.length + 1);
  const plan = ['a', 'b', 'c'].map((id) => ({ id, description: id, requiredCapabilities: ['dig'] }));
  const run = host!.node.agentById('sun')!.swarm('dig', { id: 'hole', capabilities: ['dig'], plan });
  const { results } = (await world.settled(run.result)) as { results: object };
  expect(Object.keys(results)).toEqual(['a', 'b', 'c']);
  const parts = world.stations.flatMap(({ life }) =>
    [...life!.node.swarms.coordinators.values()].flatMap(({ participations }) => participations.get('hole') ?? []),
  );
  const machines = parts.map(({ machine }) => machine);
  await world.until(() => machines.every(({ endedAs }) => endedAs));
  return machines;
}

/** Values besides the first, which the creator writes before it invites others. */
const records = (logs: MemoryLogs) => logs.values('hole').slice(1);

describe('the members of a swarm agree on its log', () => {
  it('at the broker if all of them use the same, with a seat for each node [SL.7]', async () => {
    const logs = new MemoryLogs();
    const machines = await swarmOn([logs, logs]);
    expect(machines[0]!.swarm).toMatchObject({ log: 'broker' });
    expect(machines[0]!.swarm!.seats).toHaveLength(2);
    expect(machines.map(({ seated, endedAs }) => [seated, endedAs?.status])).toEqual([
      [true, 'completed'],
      [true, 'completed'],
      [false, 'completed'],
    ]);
    expect(records(logs).length).toBeGreaterThan(0);
  });

  it('among the seats if one has no broker, another broker, or the broker does not answer [SL.7]', async () => {
    const [logs, others] = [new MemoryLogs(), new MemoryLogs()];
    for (const brokers of [
      [logs, logs, undefined],
      [others, logs, others],
      [undefined, others, others],
    ]) {
      const machines = await swarmOn(brokers);
      for (const { swarm } of machines) expect(swarm).not.toHaveProperty('log');
      await world!.end();
    }
    const mute = new MemoryLogs();
    mute.loss = 1;
    const machines = await swarmOn([mute, mute, mute]);
    expect(machines.map(({ seated }) => seated)).toEqual([true, true, false, true]);
    for (const each of [logs, others, mute]) expect(records(each)).toEqual([]);
  });
});
