import { describe, expect, it } from 'vitest';
import { bodiesIn, Client, startCodingAgents, temporaryFolder } from '../../../test/coding-agents-fixture.js';
import { triesSeeds } from '../../../test/evidence.js';
import { expectExclusive, holders, identify, leaseMesh, OWN, type Place } from '../../../test/lease-mesh.js';
import { Nodes } from '../../../test/nodes-fixture.js';
import { MemoryStore } from '../../store/memory-store.js';

const keeperOf = ({ codingAgents }: Place, places: readonly Place[]) => {
  const key = codingAgents.leases.keeperOf('repository');
  return places.findIndex(({ node }) => node.key === key);
};

describe('a lease', () => {
  it('is granted for all paths or none, and a refusal names the holders', async () => {
    const { nodes, places } = await leaseMesh(['desk']);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const bob = await Client.join(nodes, places[0]!.codingAgents, 'bob');
    expect(await alice.call('mesh_lease', { action: 'take', paths: ['src/a/**'], why: 'rename' })).toContain('token 1');
    const refused = await bob.call('mesh_lease', { action: 'take', paths: ['docs', 'src/**/x.ts'] });
    expect(refused).toContain('Nothing was taken. Held by others:');
    expect(refused).toContain('src/**/x.ts: alice holds src/a until');
    expect(refused).toContain('rename');
    expect(holders(places).map(({ glob }) => glob)).toEqual(['src/a']);
    expect(await bob.call('mesh_lease', { action: 'check', paths: ['docs'] })).toBe('docs: free (advisory)');
    expect(await bob.call('mesh_lease', { action: 'check', paths: ['src'] })).toContain('Held by others');
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['docs'] })).toContain('token 2');
    expect(await alice.call('mesh_lease', { action: 'release' })).toBe('Released: src/a.');
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['src/**/x.ts'] })).toContain('token 3');
    expect(await bob.call('mesh_lease', { action: 'check' })).toContain('src/**/x.ts until');
    await expect(bob.call('mesh_lease', { action: 'take', paths: ['../x'] })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
    });
  });

  it('is shown as the holder’s own when the holder checks a path [T-A17]', async () => {
    const { nodes, places } = await leaseMesh(['desk']);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    await alice.call('mesh_lease', { action: 'take', paths: ['src/a/**'] });
    const checked = await alice.call('mesh_lease', { action: 'check', paths: ['src/a/b.ts', 'docs'] });
    expect(checked).toMatch(/^src\/a\/b\.ts: yours, src\/a until \S+ \(advisory\)\ndocs: free \(advisory\)$/);
  });

  it('warns its holder before it ends, and tells it when it has ended, present or away [ON13.2]', async () => {
    const { nodes, places } = await leaseMesh(['desk']);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const away = await Client.join(nodes, places[0]!.codingAgents, 'away');
    await alice.call('mesh_lease', { action: 'take', paths: ['a'], ttl_s: 100 });
    await away.call('mesh_lease', { action: 'take', paths: ['b'], ttl_s: 100 });
    away.leave();
    await nodes.runtime.advance(81_000);
    expect(bodiesIn(await alice.inbox())).toEqual(['Your lease on a ends in 20 s: renew it, or release it.']);
    await alice.call('mesh_lease', { action: 'renew', ttl_s: 200 });
    await nodes.runtime.advance(159_000);
    expect(bodiesIn(await alice.inbox())).toEqual([]);
    await nodes.runtime.advance(45_000);
    const notices = bodiesIn(await alice.inbox());
    expect(notices).toHaveLength(2);
    expect(notices[1]).toBe('Your lease on a has lapsed. Take it again before you edit there.');
    const back = await Client.join(nodes, places[0]!.codingAgents, 'away');
    expect(bodiesIn(await back.inbox()).map((text) => /ends in|has lapsed/.exec(text)?.[0])).toEqual([
      'ends in',
      'has lapsed',
    ]);
    expect(holders(places)).toEqual([]);
  });

  it('of an agent whose process is gone can be taken by others, and both are told [ON13.3]', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop']);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const bob = await Client.join(nodes, places[1]!.codingAgents, 'bob');
    await alice.call('mesh_lease', { action: 'take', paths: ['src'] });
    await nodes.runtime.advance(11_000);
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['src/x'] })).toContain('alice');
    alice.leave();
    await nodes.runtime.advance(1_000);
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['src/x'] })).toContain('Reclaimed');
    await nodes.runtime.advance(1_000);
    const again = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    await nodes.runtime.advance(1_000);
    expect(bodiesIn(await again.inbox())[0]).toContain('You no longer hold src');
    expect(bodiesIn(await bob.inbox())[0]).toContain('You took src from alice');
    expect(holders(places).map(({ glob }) => glob)).toEqual(['src/x']);
  });

  it('returns to a holder whose process was gone, if no other agent took it', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop']);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    await alice.call('mesh_lease', { action: 'take', paths: ['src'] });
    await nodes.runtime.advance(11_000);
    alice.leave();
    await nodes.runtime.advance(1_000);
    expect(holders(places)).toEqual([]);
    const again = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    await nodes.runtime.advance(1_000);
    expect(holders(places).map(({ glob }) => glob)).toEqual(['src']);
    expect(bodiesIn(await again.inbox())).toEqual([]);
  });

  it('can be revoked by the owner, and its holder is told', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop']);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    await alice.call('mesh_lease', { action: 'take', paths: ['src'] });
    for (const { codingAgents } of places) {
      const list = await nodes.settled(codingAgents.leases.list());
      expect(list.map(({ glob, holder }) => [glob, holder.split('@')[0]])).toEqual([['src', 'alice']]);
    }
    const [lease] = await nodes.settled(places[1]!.codingAgents.leases.list());
    await nodes.settled(places[1]!.codingAgents.leases.revoke(lease!.id));
    await nodes.runtime.advance(1_000);
    expect(bodiesIn(await alice.inbox())).toEqual(['You no longer hold src: your user took it back. Stop editing it.']);
    expect(holders(places)).toEqual([]);
    await expect(nodes.settled(places[0]!.codingAgents.leases.revoke('none'))).rejects.toMatchObject({
      code: 'LEASE_NOT_FOUND',
    });
  });

  it('is guarded only while the guards of all agents there have called', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop']);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const label = async () =>
      /It is (\w+)/.exec(await alice.call('mesh_lease', { action: 'take', paths: ['src'] }))?.[1];
    expect(await label()).toBe('advisory');
    places[0]!.codingAgents.leases.proveGuard('alice');
    expect(await label()).toBe('guarded');
    const bob = await Client.join(nodes, places[1]!.codingAgents, 'bob');
    await nodes.runtime.advance(1_000);
    expect(await label()).toBe('advisory');
    places[1]!.codingAgents.leases.proveGuard('bob');
    await nodes.runtime.advance(1_000);
    expect(await label()).toBe('guarded');
    bob.leave();
    await Client.join(nodes, places[1]!.codingAgents, 'bob');
    await nodes.runtime.advance(1_000);
    expect(await label()).toBe('advisory');
  });

  it('survives a restart of the node, and tokens keep growing [ON13.4]', async () => {
    const nodes = new Nodes();
    const store = new MemoryStore();
    const folder = temporaryFolder();
    const start = async () => {
      const node = await nodes.settled(nodes.start({ store: keptOpen(store), network: { name: 'desk', folder } }));
      return { node, codingAgents: await nodes.settled(node.openCodingAgents(folder, { identify })) };
    };
    const first = await start();
    const alice = await Client.join(nodes, first.codingAgents, 'alice');
    expect(await alice.call('mesh_lease', { action: 'take', paths: ['a'], ttl_s: 600 })).toContain('token 1');
    await alice.call('mesh_lease', { action: 'take', paths: ['b'], ttl_s: 10 });
    await alice.call('mesh_lease', { action: 'take', paths: ['c'], ttl_s: 600 });
    await alice.call('mesh_lease', { action: 'release', paths: ['c'] });
    await nodes.settled(first.node.stop());
    await nodes.runtime.advance(20_000);
    const second = await start();
    const bob = await Client.join(nodes, second.codingAgents, 'bob');
    // Alice's process gets some time to come back.
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['a/x'] })).toContain('alice holds a');
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['b', 'c'] })).toContain('token 4');
    const again = await Client.join(nodes, second.codingAgents, 'alice');
    await nodes.runtime.advance(1_000);
    expect(bodiesIn(await again.inbox())).toEqual(['Your lease on b has lapsed. Take it again before you edit there.']);
    await nodes.runtime.advance(15_000);
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['a/x'] })).toContain('alice holds a');
    again.leave();
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['a/x'] })).toContain('token 5');
  });
});

describe('a lease of an earlier version', () => {
  it('is held and confirmed under the new id of its repository [ON13.7]', async () => {
    const nodes = new Nodes();
    const store = new MemoryStore();
    const folder = temporaryFolder();
    const start = async (known: typeof identify) => {
      const node = await nodes.settled(nodes.start({ store: keptOpen(store), network: { name: 'desk', folder } }));
      return { node, codingAgents: await nodes.settled(node.openCodingAgents(folder, { identify: known })) };
    };
    const first = await start(identify);
    const alice = await Client.join(nodes, first.codingAgents, 'alice');
    await alice.call('mesh_lease', { action: 'take', paths: ['a'] });
    await nodes.settled(first.node.stop());
    const second = await start(async (root) => ({ id: 'new', formerId: 'repository', name: 'here', root }));
    const [again, bob] = [
      await Client.join(nodes, second.codingAgents, 'alice'),
      await Client.join(nodes, second.codingAgents, 'bob'),
    ];
    await nodes.runtime.advance(5_000);
    expect(await bob.call('mesh_lease', { action: 'take', paths: ['a'] })).toContain('alice holds a');
    expect(await again.call('mesh_lease', { action: 'check' })).toContain('(advisory)');
  });
});

describe('devices that lose their connection', () => {
  it('grant leases without the keeper as unconfirmed, which are confirmed or refused later', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop'], { faults: {} });
    const clients = [
      await Client.join(nodes, places[0]!.codingAgents, 'zero'),
      await Client.join(nodes, places[1]!.codingAgents, 'one'),
    ];
    await clients[0]!.call('mesh_lease', { action: 'take', paths: ['first'] });
    await clients[1]!.call('mesh_lease', { action: 'take', paths: ['second'] });
    const keeper = keeperOf(places[0]!, places);
    const [here, there] = [clients[keeper]!, clients[1 - keeper]!];
    nodes.network.cut(places[0]!.node.key, places[1]!.node.key);
    await nodes.runtime.advance(9_000);
    expect(holders(places).map(({ holder }) => holder.split('@')[0])).toEqual([here.name]);
    expect(await there.call('mesh_lease', { action: 'take', paths: ['contested'] })).toContain('unconfirmed');
    expect(await there.call('mesh_lease', { action: 'take', paths: ['free'] })).toContain('unconfirmed');
    expect(await here.call('mesh_lease', { action: 'take', paths: ['contested/x'] })).toContain('token');
    expectExclusive(places);
    nodes.network.healAll();
    await nodes.runtime.advance(20_000);
    const told = bodiesIn(await there.inbox()).join('\n');
    expect(told).toContain(`You no longer hold contested: ${here.name} holds contested/x`);
    expect(told).toContain('Your lease on free is confirmed');
    expectExclusive(places);
    expect(holders(places)).toHaveLength(4);
  });

  it('lose their leases to others after ten seconds, and not before their own holders know [ON13.5]', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop', 'tower'], { faults: {} });
    const clients = [];
    for (const [at, { codingAgents }] of places.entries())
      clients.push(await Client.join(nodes, codingAgents, `agent-${at}`));
    await clients[0]!.call('mesh_lease', { action: 'take', paths: ['other'] });
    const keeper = keeperOf(places[0]!, places);
    const [gone, left] = [0, 1, 2].filter((at) => at !== keeper);
    await clients[gone!]!.call('mesh_lease', { action: 'take', paths: ['src'], ttl_s: 3_600 });
    await nodes.runtime.advance(15_000);
    for (const { node } of places) {
      if (node !== places[gone!]!.node) nodes.network.cut(places[gone!]!.node.key, node.key);
    }
    let taken = false;
    for (let second = 0; second < 15 && !taken; second++) {
      taken = (await clients[left!]!.call('mesh_lease', { action: 'take', paths: ['src'] })).startsWith('Taken');
      expectExclusive(places);
      await nodes.runtime.advance(1_000);
    }
    expect(taken).toBe(true);
    nodes.network.healAll();
    await nodes.runtime.advance(30_000);
    expect(bodiesIn(await clients[gone!]!.inbox()).join()).toContain('You no longer hold src');
    expectExclusive(places);
  });

  it('choose a new keeper when the old one is removed from the mesh, and give higher tokens', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop', 'tower', 'phone']);
    // What the root signed cannot be taken off: a repository is wanted that another device keeps.
    let clients: Client[] = [];
    let keeper = 0;
    let repository = '';
    for (let n = 0; keeper === 0; n++) {
      for (const client of clients) client.leave();
      clients = [];
      repository = `/repository-${n}`;
      for (const [at, { codingAgents }] of places.entries()) {
        clients.push(await Client.join(nodes, codingAgents, `agent-${at}`, { checkout: repository }));
      }
      for (const [at, client] of clients.entries()) {
        await client.call('mesh_lease', { action: 'take', paths: [`file-${at}`] });
      }
      const key = places[0]!.codingAgents.leases.keeperOf(repository);
      keeper = places.findIndex(({ node }) => node.key === key);
    }
    const highest = Math.max(...holders(places).map(({ token }) => token));
    places[0]!.node.network.remove(places[keeper]!.node.key);
    const left = places.filter((_, at) => at !== keeper);
    await nodes.runtime.advance(20_000);
    expect(holders(left).filter((lease) => lease.repository === repository)).toHaveLength(3);
    expectExclusive(left);
    const other = [1, 2, 3].find((at) => at !== keeper)!;
    const taken = await clients[0]!.call('mesh_lease', { action: 'take', paths: ['more'] });
    expect(Number(/token (\d+)/.exec(taken)?.[1])).toBeGreaterThan(highest);
    expect(await clients[0]!.call('mesh_lease', { action: 'take', paths: [`file-${other}`] })).toContain(
      'Nothing was taken',
    );
    expect(new Set(left.map(({ codingAgents }) => codingAgents.leases.keeperOf(repository))).size).toBe(1);
  });

  it('do not wait for nodes without leases, and share none with another owner', async () => {
    const { nodes, places } = await leaseMesh(['desk', 'laptop']);
    const plain = await nodes.settled(nodes.start({ network: { name: 'plain' } }));
    await nodes.join(plain, places[0]!.node, OWN);
    const foreign = await startCodingAgents(nodes, { network: { name: 'foreign' } }, { identify });
    await nodes.join(foreign.node, places[0]!.node, { tiers: [2, 3] });
    await nodes.runtime.advance(3_000);
    const clients = [];
    for (const { codingAgents } of [...places, foreign])
      clients.push(await Client.join(nodes, codingAgents, 'someone'));
    const takes = [];
    for (const client of clients) takes.push(await client.call('mesh_lease', { action: 'take', paths: ['src'] }));
    expect(takes[0]).toContain('token 1');
    expect(takes[1]).toContain('Nothing was taken');
    expect(takes[2]).toContain('token 1');
    await nodes.settled(plain.stop());
    expect(await clients[0]!.call('mesh_lease', { action: 'take', paths: ['more'] })).toContain('advisory');
  });

  it('agree on one keeper when both had become keepers before they met', async () => {
    const nodes = new Nodes();
    const places = [];
    for (const name of ['desk', 'laptop'])
      places.push(await startCodingAgents(nodes, { network: { name } }, { identify }));
    const clients = [];
    for (const { codingAgents } of places) clients.push(await Client.join(nodes, codingAgents, 'same'));
    for (const client of clients)
      expect(await client.call('mesh_lease', { action: 'take', paths: ['src'] })).toContain('token');
    await nodes.join(places[1]!.node, places[0]!.node, OWN);
    await nodes.runtime.advance(5_000);
    expect(holders(places)).toHaveLength(1);
    expect(places[0]!.codingAgents.leases.keeperOf('repository')).toBe(
      places[1]!.codingAgents.leases.keeperOf('repository'),
    );
    const told = await Promise.all(clients.map((client) => client.inbox()));
    expect(told.filter((text) => text.includes('You no longer hold src'))).toHaveLength(1);
  });
});

describe('a race for leases', () => {
  const RACES = 1_000;
  const seeds = Array.from({ length: process.env.ECLIPTIC_SOAK ? 40 : 2 }, (_, seed) => seed + 1);

  it.each(seeds)(
    'of a thousand takes on two nodes has one holder each, at every moment, seed %i [ON13]',
    async (seed) => {
      triesSeeds([seed]);
      const faults = { latencyMs: [1, 30] as const, loss: 0.02, duplication: 0.02 };
      const { nodes, places } = await leaseMesh(['desk', 'laptop'], { seed, faults });
      const join = (at: number) => Client.join(nodes, places[at % 2]!.codingAgents, `agent-${at}`);
      const clients: Client[] = [];
      for (let at = 0; at < 4; at++) clients.push(await join(at));
      let won = 0;
      for (let round = 0; round < RACES / clients.length; round++) {
        const draw = nodes.runtime.random();
        if (draw < 0.04) nodes.network.cut(places[0]!.node.key, places[1]!.node.key);
        else if (draw < 0.2) nodes.network.healAll();
        else if (draw < 0.25) await nodes.runtime.advance(15_000 * nodes.runtime.random());
        else if (draw < 0.35) {
          // A process ends, and another takes its place, at once or later.
          const at = Math.floor(nodes.runtime.random() * clients.length);
          clients[at]!.leave();
          if (draw < 0.3) await nodes.runtime.advance(100);
          clients[at] = await join(at);
        }
        const file = `f${round % 3}`;
        const racing = clients.map((client, at) => {
          const paths = [at % 2 ? file : `${file}/**`, `own-${at}`];
          return client.begin('mesh_lease', { action: 'take', paths });
        });
        let over = 0;
        for (const take of racing) void take.finally(() => over++);
        await nodes.until(() => {
          expectExclusive(places);
          return over === racing.length;
        });
        for (const take of racing) if ((await take).startsWith('Taken')) won++;
        if (round % 2 === 1)
          await Promise.all(clients.map((client) => client.call('mesh_lease', { action: 'release' })));
        expectExclusive(places);
      }
      expect(won).toBeGreaterThan(RACES / 16);
      nodes.network.healAll();
      for (let second = 0; second < 30; second++) {
        await nodes.runtime.advance(1_000);
        expectExclusive(places);
      }
      // What is left was settled.
      expect(
        places.flatMap(({ codingAgents }) => codingAgents.leases.held).filter(({ label }) => label === 'unconfirmed'),
      ).toEqual([]);
    },
    60_000,
  );
});

/** A store that outlives the node that closes it. */
function keptOpen(store: MemoryStore): MemoryStore {
  return new Proxy(store, {
    get: (target, key) => {
      if (key === 'close') return async () => {};
      const value = Reflect.get(target, key) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
