import { describe, expect, it } from 'vitest';
import { bodiesIn, Client, startCodingAgents } from '../../../test/coding-agents-fixture.js';
import { expectExclusive, holders, identify, leaseMesh, OWN, type Place } from '../../../test/lease-mesh.js';
import { MemoryRegisters } from '../../../test/memory-registers.js';
import { Nodes } from '../../../test/nodes-fixture.js';
import { repositoryKey, sessionKey } from './register-values.js';

const KEY = repositoryKey('repository');

async function world(names: readonly string[]) {
  let registers!: MemoryRegisters;
  const { nodes, places } = await leaseMesh(names, { faults: {} }, ({ runtime }) => {
    registers = new MemoryRegisters(runtime);
    return { registers: ({ key }) => registers.of(key) };
  });
  const clients = [];
  for (const [at, { codingAgents }] of places.entries())
    clients.push(await Client.join(nodes, codingAgents, `agent-${at}`));
  return { nodes, places, registers, clients };
}

describe('leases in shared registers', () => {
  it('that a release did not reach belong to who takes them again, also while they are tidied up', async () => {
    const { nodes, places, registers, clients } = await world(['desk', 'laptop']);
    const [desk, laptop] = clients as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['other'], ttl_s: 3_600 });
    registers.latencyMs = [100, 100];
    for (let phase = 0; phase < 40; phase++) {
      await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
      registers.cut(places[0]!.node.key);
      await desk.call('mesh_lease', { action: 'release', paths: ['src'] });
      registers.heal();
      // Half a minute later the lease that was let go is tidied up, with some beat.
      await nodes.runtime.advance(29_000 + 100 * phase);
      await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
      await nodes.runtime.advance(600);
      const taken = await laptop.call('mesh_lease', { action: 'take', paths: ['src/x'] });
      expectExclusive(places);
      expect(taken).toContain('agent-0@desk holds src');
      await desk.call('mesh_lease', { action: 'release', paths: ['src'] });
    }
  });

  it('are not relied on from the moment of their release, also if its answer is lost', async () => {
    const { nodes, places, registers, clients } = await world(['desk', 'laptop']);
    const [desk, laptop] = clients as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
    registers.latencyMs = [100, 100];
    registers.hangMs = 3_000;
    const release = desk.begin('mesh_lease', { action: 'release' });
    await nodes.runtime.advance(310);
    registers.cut(places[0]!.node.key);
    const taking = laptop.begin('mesh_lease', { action: 'take', paths: ['src/x'] });
    for (let step = 0; step < 100; step++) {
      expectExclusive(places);
      await nodes.runtime.advance(10);
    }
    expect(await nodes.settled(taking)).toContain('token');
    await nodes.settled(release);
    expectExclusive(places);
  });

  it('that another owner’s node wrote count for nothing, and honest devices recover [NL.4]', async () => {
    const { nodes, places, registers, clients } = await world(['desk', 'laptop']);
    const [desk, laptop] = clients as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
    const foreign = await startCodingAgents(nodes, { network: { name: 'foreign' } }, { identify });
    await nodes.join(foreign.node, places[0]!.node, { tiers: [2, 3] });
    await nodes.runtime.advance(3_000);
    const forged = { repository: 'repository', base: 0, leases: [], ends: [] };
    for (const writer of [foreign.node.key, undefined]) {
      registers.forge(KEY, forged, writer);
      await nodes.runtime.advance(100);
      expect(holders(places)).toEqual([]);
      expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('unconfirmed');
      for (let second = 0; second < 25; second++) {
        await nodes.runtime.advance(1_000);
        expectExclusive(places);
      }
      expect(holders(places)).toHaveLength(1);
      await laptop.call('mesh_lease', { action: 'release' });
      await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
    }
    // A session that another owner's node ends goes on.
    registers.forge(
      sessionKey(places[0]!.node.key),
      { session: 99, beat: 1, gone: [], closed: true },
      foreign.node.key,
    );
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('agent-0@desk holds src');
    await nodes.runtime.advance(5_000);
    expect(holders(places).map(({ glob }) => glob)).toEqual(['src']);
  });

  it('are granted again after the broker showed revisions that it does not have [NL.4]', async () => {
    const { nodes, places, registers, clients } = await world(['desk', 'laptop', 'away']);
    const [desk, laptop] = clients as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
    // The session of a device that was stopped is not written again.
    await places[2]!.node.stop();
    registers.pretend(sessionKey(places[2]!.node.key), null);
    registers.pretend(KEY, { repository: 'repository', base: 0, leases: [], ends: [] });
    await nodes.runtime.advance(100);
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('unconfirmed');
    for (let second = 0; second < 15; second++) {
      await nodes.runtime.advance(1_000);
      expectExclusive(places);
    }
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['doc'] })).toContain('token');
    expect(await desk.call('mesh_lease', { action: 'take', paths: ['test'] })).toContain('token');
    await nodes.runtime.advance(1_000);
    expectExclusive(places);
    expect(
      holders(places)
        .map(({ glob }) => glob)
        .sort(),
    ).toEqual(['doc', 'src', 'test']);
  });

  it('are granted again after the broker answered writes with revisions that it does not have [NL.4]', async () => {
    const { nodes, places, registers, clients } = await world(['desk', 'laptop']);
    const [desk, laptop] = clients as [Client, Client];
    registers.falseBy = 1_000_000;
    await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
    await laptop.call('mesh_lease', { action: 'take', paths: ['doc'] });
    registers.falseBy = 0;
    for (const client of [desk, laptop]) await client.call('mesh_lease', { action: 'take', paths: ['test'] });
    for (let second = 0; second < 15; second++) {
      await nodes.runtime.advance(1_000);
      expectExclusive(places);
    }
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['one'] })).toContain('token');
    expect(await desk.call('mesh_lease', { action: 'take', paths: ['two'] })).toContain('token');
  });

  it('are unconfirmed until every device uses the registers, in both directions [NL.6]', async () => {
    const nodes = new Nodes({ faults: {} });
    const registers = new MemoryRegisters(nodes.runtime);
    const start = (at: number, broker: boolean): Promise<Place> => {
      const more = broker ? { registers: ({ key }: { key: string }) => registers.of(key) } : {};
      return startCodingAgents(nodes, { network: { name: `device-${at}` }, ...more }, { identify });
    };
    const places = [await start(0, false), await start(1, true)];
    await nodes.join(places[1]!.node, places[0]!.node, OWN);
    await nodes.runtime.advance(3_000);
    const clients: Client[] = [];
    for (const { codingAgents } of places) clients.push(await Client.join(nodes, codingAgents, 'agent'));
    // The one waits for the other's session, the other's keeper needs the consent of the one.
    for (const client of clients)
      expect(await client.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('unconfirmed');
    await nodes.runtime.advance(10_000);
    expect(holders(places)).toEqual([]);
  });

  it('tell a returning device why it lost them', async () => {
    const { nodes, places, registers, clients } = await world(['desk', 'laptop']);
    const [desk, laptop] = clients as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
    registers.cut(places[0]!.node.key);
    await nodes.runtime.advance(1_000);
    await laptop.call('mesh_lease', { action: 'take', paths: ['src'] });
    await nodes.runtime.advance(15_000);
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('Reclaimed');
    registers.heal();
    await nodes.runtime.advance(5_000);
    expect(bodiesIn(await desk.inbox()).join()).toContain('You no longer hold src');
    expectExclusive(places);
  });
});
