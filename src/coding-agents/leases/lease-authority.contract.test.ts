import { describe, expect, it } from 'vitest';
import { bodiesIn, Client } from '../../../test/coding-agents-fixture.js';
import { expectExclusive, holders, leaseMesh, type Place } from '../../../test/lease-mesh.js';
import { MemoryRegisters } from '../../../test/memory-registers.js';
import type { Nodes, NodesInit } from '../../../test/nodes-fixture.js';

/** A mesh whose devices can be cut off from the authority, and from each other. */
interface World {
  readonly nodes: Nodes;
  readonly places: Place[];
  /** Cuts a device off from whatever decides, or from the others if it decides itself. */
  cut(place: Place): void;
  heal(): void;
  /** Lets a device learn of changes late, if it is told of them at all. */
  lag?(place: Place, ms: number): void;
}

async function keeperWorld(names: readonly string[], init: NodesInit): Promise<World> {
  const { nodes, places } = await leaseMesh(names, { faults: {}, ...init });
  const cut = ({ node }: Place) => {
    for (const other of places) if (other.node !== node) nodes.network.cut(node.key, other.node.key);
  };
  return { nodes, places, cut, heal: () => nodes.network.healAll() };
}

async function registerWorld(names: readonly string[], init: NodesInit): Promise<World> {
  let registers!: MemoryRegisters;
  const { nodes, places } = await leaseMesh(names, init, ({ runtime }) => {
    registers = new MemoryRegisters(runtime);
    registers.latencyMs = init.faults?.latencyMs ?? [0, 2];
    registers.loss = init.faults?.loss ?? 0;
    registers.hangMs = init.faults?.loss ? 500 : 0;
    return { registers: ({ key }) => registers.of(key) };
  });
  const lag = ({ node }: Place, ms: number) => void registers.lagMs.set(node.key, ms);
  return { nodes, places, lag, cut: ({ node }) => registers.cut(node.key), heal: () => registers.heal() };
}

const AUTHORITIES = [
  ['a keeper among the devices', keeperWorld],
  ['shared registers', registerWorld],
] as const;

const token = (text: string) => Number(/token (\d+)/.exec(text)?.[1] ?? 0);

describe.each(AUTHORITIES)('leases decided by %s', (_name, world) => {
  async function clientsIn({ nodes, places }: World): Promise<Client[]> {
    const clients = [];
    for (const [at, { codingAgents }] of places.entries())
      clients.push(await Client.join(nodes, codingAgents, `agent-${at}`));
    return clients;
  }

  it('cover all paths or none, across devices, and tokens only grow [NL.1]', async () => {
    const here = await world(['desk', 'laptop'], {});
    const [desk, laptop] = (await clientsIn(here)) as [Client, Client];
    const tokens = [token(await desk.call('mesh_lease', { action: 'take', paths: ['src/a/**'] }))];
    const refused = await laptop.call('mesh_lease', { action: 'take', paths: ['docs', 'src/**/x.ts'] });
    expect(refused).toContain('agent-0@desk holds src/a');
    expect(holders(here.places)).toHaveLength(1);
    tokens.push(token(await laptop.call('mesh_lease', { action: 'take', paths: ['docs'] })));
    expect(await desk.call('mesh_lease', { action: 'release' })).toBe('Released: src/a.');
    tokens.push(token(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })));
    await laptop.call('mesh_lease', { action: 'release' });
    tokens.push(token(await desk.call('mesh_lease', { action: 'take', paths: ['src'] })));
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expect(tokens[0]).toBeGreaterThan(0);
    expectExclusive(here.places);
  });

  it('of a process that is gone are taken by others, and return to it if they were not', async () => {
    const here = await world(['desk', 'laptop'], {});
    const { nodes, places } = here;
    const [desk, laptop] = (await clientsIn(here)) as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['src', 'docs'] });
    await nodes.runtime.advance(11_000);
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src/x'] })).toContain('agent-0@desk holds src');
    desk.leave();
    await nodes.runtime.advance(4_000);
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src/x'] })).toContain('Reclaimed');
    const again = await Client.join(nodes, places[0]!.codingAgents, 'agent-0');
    await nodes.runtime.advance(4_000);
    expect(bodiesIn(await again.inbox()).join()).toContain('You no longer hold src');
    expect(holders(places).map(({ glob }) => glob)).toEqual(['docs', 'src/x']);
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['docs/y'] })).toContain('agent-0@desk holds docs');
  });

  it('end when the user takes them back on another device', async () => {
    const here = await world(['desk', 'laptop'], {});
    const { nodes, places } = here;
    const [desk, laptop] = (await clientsIn(here)) as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['src'] });
    const [lease] = holders(places);
    await nodes.settled(places[1]!.codingAgents.leases.revoke(lease!.id));
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('token');
    expectExclusive(places);
    await nodes.runtime.advance(5_000);
    expect(bodiesIn(await desk.inbox()).join()).toContain('your user took it back');
  });

  it('end in time, whatever the others’ clocks say', async () => {
    const here = await world(['desk', 'laptop'], {});
    const [desk, laptop] = (await clientsIn(here)) as [Client, Client];
    await desk.call('mesh_lease', { action: 'take', paths: ['src'], ttl_s: 20 });
    await here.nodes.runtime.advance(15_000);
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('Nothing was taken');
    await here.nodes.runtime.advance(7_000);
    expect(await laptop.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('Taken');
  });

  it('are unconfirmed where the authority cannot be reached, and confirmed or refused later', async () => {
    const here = await world(['desk', 'laptop', 'tower'], {});
    const { nodes, places } = here;
    const clients = await clientsIn(here);
    for (const [at, client] of clients.entries())
      await client.call('mesh_lease', { action: 'take', paths: [`own-${at}`] });
    // A device that does not decide itself.
    const key = places[0]!.codingAgents.leases.keeperOf('repository');
    const away = places.findIndex(({ node }) => node.key !== key);
    const other = places.findIndex((_, at) => at !== away);
    here.cut(places[away]!);
    await nodes.runtime.advance(9_000);
    expect(holders(places)).toHaveLength(2);
    expect(await clients[away]!.call('mesh_lease', { action: 'take', paths: ['contested'] })).toContain('unconfirmed');
    expect(await clients[away]!.call('mesh_lease', { action: 'take', paths: ['free'] })).toContain('unconfirmed');
    expect(await clients[other]!.call('mesh_lease', { action: 'take', paths: ['contested/x'] })).toContain('token');
    expectExclusive(places);
    here.heal();
    await nodes.runtime.advance(20_000);
    const told = bodiesIn(await clients[away]!.inbox()).join('\n');
    expect(told).toContain('You no longer hold contested');
    expect(told).toContain('Your lease on free is confirmed');
    expectExclusive(places);
    expect(holders(places)).toHaveLength(5);
  });

  it('of a device out of reach are taken after ten seconds, and not before its holders know [NL.2]', async () => {
    const here = await world(['desk', 'laptop', 'tower'], {});
    const { nodes, places } = here;
    const clients = await clientsIn(here);
    await clients[0]!.call('mesh_lease', { action: 'take', paths: ['other'] });
    const key = places[0]!.codingAgents.leases.keeperOf('repository');
    const [gone, left] = [0, 1, 2].filter((at) => places[at]!.node.key !== key) as [number, number];
    await clients[gone]!.call('mesh_lease', { action: 'take', paths: ['src'], ttl_s: 3_600 });
    await nodes.runtime.advance(15_000);
    here.cut(places[gone]!);
    let taken = false;
    for (let second = 0; second < 15 && !taken; second++) {
      taken = (await clients[left]!.call('mesh_lease', { action: 'take', paths: ['src'] })).startsWith('Taken');
      expectExclusive(places);
      await nodes.runtime.advance(1_000);
    }
    expect(taken).toBe(true);
    here.heal();
    await nodes.runtime.advance(30_000);
    expect(bodiesIn(await clients[gone]!.inbox()).join()).toContain('You no longer hold src');
    expectExclusive(places);
  });

  const seeds = Array.from({ length: process.env.ECLIPTIC_SOAK ? 40 : 2 }, (_, seed) => seed + 1);

  it.each(seeds)(
    'have one holder at every moment of a race with losses and cuts, seed %i [NL.2]',
    async (seed) => {
      const faults = { latencyMs: [1, 30] as const, loss: 0.02, duplication: 0.02 };
      const here = await world(['desk', 'laptop', 'tower'], { seed, faults });
      const { nodes, places } = here;
      const clients = await clientsIn(here);
      const tokens = new Map<number, string>();
      let won = 0;
      for (let round = 0; round < 150; round++) {
        const draw = nodes.runtime.random();
        if (draw < 0.06) here.cut(places[round % places.length]!);
        else if (draw < 0.2) here.heal();
        else if (draw < 0.25) await nodes.runtime.advance(15_000 * nodes.runtime.random());
        else if (draw < 0.32) {
          const at = Math.floor(nodes.runtime.random() * clients.length);
          clients[at]!.leave();
          if (draw < 0.28) await nodes.runtime.advance(100);
          clients[at] = await Client.join(nodes, places[at]!.codingAgents, `agent-${at}`);
        }
        if (round % 10 === 0) here.lag?.(places[round % places.length]!, nodes.runtime.random() < 0.5 ? 0 : 14_000);
        const file = `f${round % 3}`;
        const racing = clients.map((client, at) =>
          client.begin('mesh_lease', { action: 'take', paths: [at % 2 ? file : `${file}/**`, `own-${at}`] }),
        );
        let over = 0;
        for (const take of racing) void take.finally(() => over++);
        await nodes.until(() => {
          expectExclusive(places);
          return over === racing.length;
        });
        for (const take of racing) if ((await take).startsWith('Taken')) won++;
        // No token is given to two holders.
        for (const lease of holders(places)) {
          expect(tokens.get(lease.token) ?? lease.holder).toBe(lease.holder);
          tokens.set(lease.token, lease.holder);
        }
        if (round % 2 === 1)
          await Promise.all(clients.map((client) => client.call('mesh_lease', { action: 'release' })));
        expectExclusive(places);
      }
      expect(won).toBeGreaterThan(60);
      here.heal();
      for (let second = 0; second < 30; second++) {
        await nodes.runtime.advance(1_000);
        expectExclusive(places);
      }
      const unconfirmed = places.flatMap(({ codingAgents }) => codingAgents.leases.held);
      expect(unconfirmed.filter(({ label }) => label === 'unconfirmed')).toEqual([]);
    },
    120_000,
  );
});
