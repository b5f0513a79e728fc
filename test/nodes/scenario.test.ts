import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { AgentCard, RoutingResult } from '../../src/mesh/schemas.js';
import type { Config } from '../../src/node/config/schema.js';
import type { AgentRow } from '../../src/node/control/rows.js';
import { PLANETARY_ROSTER } from '../../src/roster/planetary-roster.js';
import type { EclipticError } from '../../src/runtime/errors.js';
import { echoing } from '../echo-agents.js';
import { envelope, type Memory, setup } from './agents/witness.js';
import {
  Cluster,
  type NetworkedNode,
  type ProcessNode,
  type Transport,
  until,
  untilConnected,
  WITNESS,
} from './cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const ROSTER = PLANETARY_ROSTER.length;
/** On one node only, `io` is an agent of its own, with a capability that no other agent has. */
const WITH_MARS: Config = { agents: echoing('mars') };
const WITH_WITNESS: Config = {
  agents: { ...echoing('mars'), io: { module: WITNESS, capabilities: ['testing.witness'] } },
};
const ALONE: Config = { roster: false, agents: { outsider: { tier: 0 } } };
const NUMBERS = Array.from({ length: 200 }, (_, index) => index);

describe.each<[Transport]>([['websocket'], ['hyperswarm'], ['nats']])('three nodes over %s', (transport) => {
  let cluster: Cluster;
  let args: string[];
  let a: ProcessNode;
  let b: ProcessNode;
  let c: ProcessNode;
  /** It runs beside the others, in no mesh. */
  let outsider: ProcessNode;

  beforeAll(async () => {
    cluster = new Cluster();
    args = await cluster.argsFor(transport);
    [a, b, c, outsider] = await Promise.all([
      cluster.start('a', { args, config: WITH_MARS }),
      cluster.start('b', { args, config: WITH_MARS }),
      cluster.start('c', { args, config: WITH_WITNESS }),
      cluster.start('outsider', { args, config: ALONE }),
    ]);
  });

  afterAll(() => cluster.end());

  describe('that join by a code', () => {
    it('are members at once, whichever node made the code', async () => {
      const first = await a.json<{ code: string }>('invite');
      expect(await b.json('join', first.code)).toEqual({ mesh: expect.stringMatching(/^[0-9a-f]{64}$/) });
      const second = await b.json<{ code: string }>('invite');
      expect(await c.run('join', second.code)).toMatchObject({ code: 0, stdout: expect.stringContaining('a member') });
      await untilConnected([a, b, c]);
      for (const node of [a, b, c]) {
        expect((await node.peers()).map(({ link }) => link)).toEqual([transport, transport]);
      }
    });

    it('find the agents of all nodes, each once, those of others marked remote [R1.7 R1.8 IT3]', async () => {
      for (const node of [a, b, c]) {
        await until(async () => (await node.agents()).length === 3 * ROSTER, `${node.name} knows every agent`);
        const rows = node === c ? await node.json<AgentRow[]>('agents') : await node.agents();
        for (const other of [a, b, c]) {
          const own = other === node;
          const found = rows.filter((row) => row.node === (own ? null : other.key));
          expect(found.map(({ id }) => id).sort()).toEqual(PLANETARY_ROSTER.map(({ id }) => id).sort());
          expect(new Set(found.map(({ origin }) => origin))).toEqual(new Set([own ? 'local' : 'remote']));
          const staffed = found.filter(({ state }) => state === 'ready').map(({ id }) => id);
          expect(staffed.sort()).toEqual(other === c ? ['io', 'mars'] : ['mars']);
          expect(found.find(({ id }) => id === 'venus')).toMatchObject({ state: 'unstaffed' });
        }
      }
      const card = await a.call<AgentCard>('card', { id: `mars@${b.key}` });
      expect(card).toMatchObject({ id: 'mars', origin: 'remote', node: b.key, tier: 2 });
    });

    it('show them in a table under addresses that can be copied', async () => {
      const { stdout } = await a.run('agents', '--capability', 'testing.witness');
      const row = new RegExp(`^(io@${c.key.slice(0, 12)}) +L3 +- +ready +testing\\.witness$`, 'm');
      const address = row.exec(stdout)?.[1];
      expect(address).toBeDefined();
      expect(await a.request('sun', address!, { do: 'recall' })).toMatchObject({ notified: [] });
    });

    it('neither reveal their agents to nodes outside the mesh nor see theirs [R1.7]', async () => {
      expect((await outsider.agents()).map(({ id }) => id)).toEqual(['outsider']);
      expect(await outsider.peers()).toEqual([]);
      for (const node of [a, b, c]) expect(await node.peers()).toHaveLength(2);
    });
  });

  describe('and their messages', () => {
    const send = (to: string, payload: unknown, as = 'sun') => a.call<RoutingResult>('send', { as, to, payload });

    it('go to the local agent if all nodes have one of that name', async () => {
      expect(await send('mars', 1)).toMatchObject({ delivered: true, path: 'local', targetAgentId: 'mars' });
      expect(await send(`mars@${a.key}`, 1)).toMatchObject({ path: 'local', targetAgentId: 'mars' });
    });

    it('reach the local agent by its shortened address', async () => {
      expect(await send(`mars@${a.key.slice(0, 12)}`, 1)).toMatchObject({ path: 'local' });
    });

    it('go to another node’s by its address, in full or shortened [R4.4]', async () => {
      for (const length of [64, 12, 8]) {
        const to = `mars@${b.key.slice(0, length)}`;
        expect(await send(to, { build: 1 })).toMatchObject({
          delivered: true,
          path: 'remote',
          targetAgentId: `mars@${b.key}`,
        });
        expect(await a.request('sun', to, { hello: 'mars' })).toMatchObject({ id: 'mars', echo: { hello: 'mars' } });
      }
      const to = `mars@${b.key.slice(0, 12)}`;
      expect(await a.run('send', '--as', 'sun', '--to', to, '1')).toMatchObject({
        code: 0,
        stdout: `delivered to mars@${b.key} (remote)\n`,
      });
      expect(await a.json('request', '--as', 'sun', '--to', to, '[1]')).toMatchObject({ id: 'mars', echo: [1] });
    });

    it('do not reach an agent of another mesh', async () => {
      await outsider.call('invite');
      await expect(send('outsider', 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
      await outsider.call('leave');
    });

    it('are refused with the fault of their address', async () => {
      await expect(send('mars@0000000000', 1)).rejects.toMatchObject({ code: 'PEER_NOT_FOUND' });
      await expect(send(`nobody@${b.key}`, 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    });

    it('find a capability that only an agent of another node has, and otherwise prefer local agents [R4.4]', async () => {
      const asked = ['request', '--as', 'sun', '--capability'];
      expect(await a.json(...asked, 'testing.witness', '{"do":"recall"}')).toMatchObject({ notified: [] });
      const sendTo = (capability: string) => a.call('send', { as: 'sun', capability, payload: 0 });
      expect(await sendTo('testing.witness')).toMatchObject({ path: 'remote', targetAgentId: `io@${c.key}` });
      expect(await sendTo('backend.api')).toMatchObject({ path: 'local', targetAgentId: 'mars' });
      await expect(sendTo('testing.nothing')).rejects.toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
    });

    it('obey the same rules on all nodes', async () => {
      await expect(send(`mars@${b.key}`, 1, 'mercury')).rejects.toMatchObject({ code: 'TIER_VIOLATION' });
      const proposal = { as: 'mars', to: `sun@${b.key}`, type: 'task-proposal', payload: {} };
      await expect(a.call('send', proposal)).rejects.toMatchObject({ code: 'ESCALATION_REQUIRED' });
      expect(await a.call('send', { ...proposal, justification: 'blocked' })).toMatchObject({ delivered: true });
    });

    it('reach all agents by a broadcast, and are counted', async () => {
      const others = 3 * ROSTER - 1;
      expect(others).toBe(62);
      const { code, stdout } = await a.run('broadcast', '--as', 'sun', '{"directive":"freeze"}');
      expect({ code, stdout }).toEqual({
        code: 0,
        stdout: `delivered to ${others} of ${others} agents; withheld from 0, failed for 0\n`,
      });
      expect(await b.call('broadcast', { as: 'mercury', payload: 1 })).toMatchObject({
        broadcast: {
          recipients: others,
          delivered: 11,
          withheld: 51,
          failed: 0,
          withheldByCode: { TIER_VIOLATION: 51 },
        },
      });
    });

    it('arrive in the order they were sent, each once', async () => {
      const before = (await a.request<Memory>('sun', `io@${c.key}`, { do: 'recall' })).notified.length;
      await Promise.all(NUMBERS.map((number) => send(`io@${c.key}`, number)));
      const { notified } = await a.request<Memory>('sun', `io@${c.key}`, { do: 'recall' });
      expect(notified.slice(before)).toEqual(NUMBERS);
    });
  });

  describe('and a node made by createNode', () => {
    let node: NetworkedNode;
    let observer: ReturnType<NetworkedNode['agent']>;
    const everyone = () => node.registry.listAll().length === 3 * ROSTER + 2;

    beforeAll(async () => {
      const [, place] = args;
      node = await cluster.inProcess(
        {
          websocket: { name: 'd', dht: false, listen: { host: '127.0.0.1', port: 0 } },
          hyperswarm: { name: 'd', bootstrap: [place!] },
          nats: { name: 'd', nats: { servers: [place!] } },
        }[transport],
      );
      observer = node.agent({ id: 'observer', tier: 0 });
      setup(node.agent({ id: 'witness' }));
      const { code } = await a.call<{ code: string }>('invite');
      await node.network.join(code);
      await until(everyone, 'it knows every agent');
      for (const other of [a, b, c]) {
        await until(async () => (await other.agents()).length === 3 * ROSTER + 2, `${other.name} knows its agents`);
      }
    });

    it('see each other’s cards, marked remote [R1.7 R1.8]', async () => {
      expect(node.registry.getLocalCards().map(({ id }) => id)).toEqual(['observer', 'witness']);
      const remote = node.registry.getRemoteCards();
      expect(remote).toHaveLength(3 * ROSTER);
      expect(remote.every(({ origin, node: owner }) => origin === 'remote' && owner !== undefined)).toBe(true);
      expect(new Set(remote.map(({ node: owner }) => owner))).toEqual(new Set([a.key, b.key, c.key]));
      expect(node.registry.getById(`mars@${a.key}`)).toMatchObject({ origin: 'remote', tier: 2 });
      const card = await a.call<AgentCard>('card', { id: 'observer' });
      expect(card).toMatchObject({ origin: 'remote', node: node.key, tier: 0 });
    });

    it('tell each other of cards that change, come and go [R1.7]', async () => {
      const guest = node.agent({ id: 'guest', capabilities: ['guest.first'] });
      await until(async () => (await c.agents()).some(({ id }) => id === 'guest'), 'c knows the newcomer');
      guest.update({ capabilities: ['guest.second'] });
      await until(async () => {
        const row = (await c.agents()).find(({ id }) => id === 'guest');
        return row?.capabilities.includes('guest.second');
      }, 'c knows the change');
      guest.leave();
      await until(async () => !(await c.agents()).some(({ id }) => id === 'guest'), 'c knows that it left');
    });

    it('list the candidates of an ambiguous name', async () => {
      const error = await observer.send('mars', 1).catch((thrown: EclipticError) => thrown);
      const candidates = [a, b, c].map(({ key }) => `mars@${key}`);
      expect(error).toMatchObject({ code: 'AMBIGUOUS_AGENT' });
      expect([...((error as EclipticError).details.candidates as string[])].sort()).toEqual(candidates.sort());
      await expect(observer.request('mars', 1)).rejects.toMatchObject({ code: 'AMBIGUOUS_AGENT' });
      for (const to of candidates) expect(await observer.request(to, to)).toMatchObject({ id: 'mars', echo: to });
    });

    it('find an agent that only one of them has, by its name [R4.4 RS2]', async () => {
      expect(await a.call('send', { as: 'sun', to: 'witness', payload: 'hello' })).toMatchObject({
        path: 'remote',
        targetAgentId: `witness@${node.key}`,
      });
      await expect(a.call('send', { as: 'sun', to: 'nobody', payload: 1 })).rejects.toMatchObject({
        code: 'AGENT_NOT_FOUND',
      });
      await expect(observer.send('nobody', 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    });

    it('answer a thousand requests at once, and large ones', async () => {
      const to = `mars@${b.key}`;
      const answers = await Promise.all(
        Array.from({ length: 1_000 }, (_, number) => observer.request<{ echo: number }>(to, number)),
      );
      expect(answers.map(({ echo }) => echo)).toEqual(Array.from({ length: 1_000 }, (_, number) => number));
      const text = 'ü🌍'.repeat(150_000);
      const large = await Promise.all([1, 2, 3, 4].map(() => observer.request<{ echo: string }>(to, text)));
      expect(large.every(({ echo }) => echo === text)).toBe(true);
      await expect(observer.request(to, 'x'.repeat(1_048_577))).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    });

    it('stream answers of more chunks than a reader takes at once', async () => {
      const received: unknown[] = [];
      for await (const chunk of observer.stream(`io@${c.key}`, { do: 'count', to: 1_000 })) received.push(chunk);
      expect(received).toEqual(Array.from({ length: 1_000 }, (_, index) => index + 1));
    });

    it('end a stream that is left early', async () => {
      const stream = observer.stream(`io@${c.key}`, { do: 'count', to: 1_000_000_000 });
      let last: unknown;
      for await (const chunk of stream) {
        last = chunk;
        if (chunk === 700) break;
      }
      expect(last).toBe(700);
      expect(await observer.request(`io@${c.key}`, { do: 'recall' })).toBeDefined();
    });

    it('take streams that are sent to them', async () => {
      await observer.sendStream(`io@${c.key}`, NUMBERS);
      const streamed = () =>
        observer.request<Memory>(`io@${c.key}`, { do: 'recall' }).then((memory) => memory.streamed);
      await until(async () => (await streamed()).length >= NUMBERS.length, 'all chunks are there');
      expect(await streamed()).toEqual(NUMBERS);
    });

    it('open channels in both directions, and keep the order [R3.6 IT3]', async () => {
      const before = await observer.request<Memory>(`io@${c.key}`, { do: 'recall' });
      const channel = await observer.openChannel(`io@${c.key}`);
      expect({ status: channel.status, transport: channel.transport }).toEqual({ status: 'open', transport });
      await Promise.all(NUMBERS.map((number) => channel.send(envelope(channel, number))));
      const after = await observer.request<Memory>(`io@${c.key}`, { do: 'recall' });
      expect(after.channelled.slice(before.channelled.length)).toEqual(NUMBERS);
      expect(after.transports.at(-1)).toBe(transport);
      await channel.close();
      expect(channel.status).toBe('closed');
      await expect(channel.send(envelope(channel, 0))).rejects.toMatchObject({ code: 'CHANNEL_CLOSED' });
      const order = { do: 'open-channel', to: `witness@${node.key}` };
      expect(await observer.request(`io@${c.key}`, order)).toBe(transport);
      expect(await observer.request('witness', { do: 'recall' })).toMatchObject({
        channelled: ['hello'],
        transports: [transport],
      });
    });

    it('refuse a channel to an agent that takes none [R3.6]', async () => {
      await expect(observer.openChannel(`mars@${b.key}`)).rejects.toMatchObject({ code: 'CHANNEL_CLOSED' });
      await expect(observer.openChannel(`nobody@${b.key}`)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    });

    it('keep local channels local [R3.6]', async () => {
      const channel = await observer.openChannel('witness');
      expect(channel.transport).toBe('local');
      await channel.close();
    });

    it('do not connect while discovery is disabled, and connect when it is enabled [R1.7]', async () => {
      await node.registry.disableHyperswarmDiscovery();
      expect(node.registry.listAll().map(({ id }) => id)).toEqual(['observer', 'witness']);
      await expect(observer.send(`mars@${a.key}`, 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
      await until(async () => (await a.stateOf(node)) === 'away', 'the others notice');
      await expect(a.call('send', { as: 'sun', to: 'witness', payload: 1 })).rejects.toMatchObject({
        code: 'AGENT_UNAVAILABLE',
      });
      await node.registry.enableHyperswarmDiscovery(node.network);
      await until(everyone, 'it knows every agent again');
      for (const other of [a, b, c]) await until(async () => (await other.stateOf(node)) === 'connected', 'they meet');
      expect(await observer.request(`mars@${a.key}`, 1)).toMatchObject({ id: 'mars', echo: 1 });
    });

    it('still announce card changes after that', async () => {
      node.agent({ id: 'latecomer' });
      await until(async () => (await c.agents()).some(({ id }) => id === 'latecomer'), 'c knows the newcomer', 2_000);
    });
  });

  it('admit one more node later, which sees ambiguous names', async () => {
    await b.admit(outsider);
    await untilConnected([a, b, c, outsider]);
    await until(async () => (await outsider.agents()).length > 3 * ROSTER, 'it knows every agent');
    const { code: exit, stderr } = await outsider.run('send', '--as', 'outsider', '--to', 'mars', '1', '--json');
    expect(exit).toBe(1);
    const { error } = JSON.parse(stderr) as { error: { code: string; details: { candidates: string[] } } };
    expect(error.code).toBe('AMBIGUOUS_AGENT');
    expect(error.details.candidates.sort()).toEqual([a, b, c].map(({ key }) => `mars@${key}`).sort());
  });

  it('continue without a removed node, including the nodes that it invited', async () => {
    await a.call('peers.remove', { node: b.key.slice(0, 16) });
    for (const node of [a, c, outsider]) {
      await until(async () => (await node.stateOf(b)) === undefined, `${node.name} has let b go`);
      expect((await node.agents()).filter(({ node: owner }) => owner === b.key)).toEqual([]);
    }
    await c.stop();
    await c.start();
    await untilConnected([a, c, outsider]);
    expect(await a.request('sun', `mars@${c.key}`, 1)).toMatchObject({ id: 'mars', echo: 1 });
    await expect(a.request('sun', `mars@${b.key}`, 1)).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    expect(await b.connected()).toBe(0);
  });
});
