import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { type NetworkedNode, Nodes } from '../../../test/nodes-fixture.js';
import type { A2AChannel } from '../../mesh/channel.js';
import type { ErrorCode } from '../../runtime/errors.js';

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe('cards', () => {
  it('of every node are known to every node, marked remote, as they come, change and go [R1.7 R1.8]', async () => {
    const { nodes, here, there } = await pair();
    const mars = there.agent({ id: 'mars', capabilities: ['backend.api'] });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    expect(here.registry.getById('mars')).toMatchObject({ origin: 'remote', node: there.key, revision: 0 });
    mars.update({ description: 'changed' });
    await nodes.until(() => here.registry.getById('mars')?.description === 'changed');
    expect(here.registry.findByCapability('backend.api').map(({ revision }) => revision)).toEqual([1]);
    mars.leave();
    await nodes.until(() => here.registry.getById('mars') === undefined);
  });

  it('of other nodes go when discovery is disabled, and no node is linked any more [R1.7]', async () => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    await here.registry.disableHyperswarmDiscovery();
    expect(here.registry.getRemoteCards()).toEqual([]);
    await nodes.until(() => there.network.list().every(({ state }) => state !== 'connected'));
  });

  it('that the node’s own certificate does not allow are not announced, and doctor says so', async () => {
    const nodes = new Nodes();
    const [host, guest] = [await nodes.start(), await nodes.start()];
    for (const tier of [0, 1, 2, 3] as const) guest.agent({ id: `tier-${tier}`, tier });
    await nodes.join(guest, host, { tiers: [2, 3] });
    await nodes.until(() => host.registry.size === 2);
    expect(host.registry.getRemoteCards().map(({ tier }) => tier)).toEqual([2, 3]);
    expect(nodes.events(host, 'security')).toEqual([]);
    expect(guest.network.diagnose()).toContainEqual({
      level: 'warning',
      text: expect.stringContaining('tier-0, tier-1'),
    });
  });

  it('reach a node that is confined to a sandbox only as far as that sandbox may look', async () => {
    const nodes = new Nodes();
    const sandbox = { enforced: true, shared: ['lab'], allow: { lab: ['helper'] } };
    const [host, guest] = [await nodes.start({ sandbox }), await nodes.start({ sandbox })];
    host.agent({ id: 'open' });
    host.agent({ id: 'helper' });
    host.agent({ id: 'mouse', sandbox: 'lab' });
    guest.agent({ id: 'visitor', sandbox: 'lab' });
    await nodes.join(guest, host, { sandboxes: ['lab'] });
    await nodes.until(() => host.registry.getById('visitor') !== undefined);
    await nodes.until(() => guest.registry.getRemoteCards().length > 0);
    expect(guest.registry.getRemoteCards().map(({ id }) => id)).toEqual(['helper', 'mouse']);
  });

  it('of a lost node stay, not reachable, for the grace time, and then go', async () => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars' }).onNotification(() => {});
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    nodes.network.cut(here.key, there.key);
    await nodes.until(() => stateOf(here, there) === 'suspected', 3_000);
    expect(await codeOf(sun.send('mars', 1))).toBe('AGENT_UNAVAILABLE');
    expect(here.registry.getById('mars')).toBeDefined();
    await nodes.runtime.advance(61_000);
    expect(stateOf(here, there)).toBe('lost');
    expect(here.registry.getById('mars')).toBeUndefined();
    expect(await codeOf(sun.send('mars', 1))).toBe('AGENT_NOT_FOUND');
    nodes.network.healAll();
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    await nodes.settled(sun.send('mars', 1));
  });
});

describe('a message in flight', () => {
  it('when the network is cut arrives after it heals, in order and once', async () => {
    const { nodes, here, there } = await pair();
    const got: unknown[] = [];
    there.agent({ id: 'mars' }).onNotification(({ payload }) => {
      got.push(payload);
    });
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    nodes.network.cut(here.key, there.key);
    const sent = Array.from({ length: 100 }, (_, index) => sun.send('mars', index));
    await nodes.runtime.advance(20_000);
    expect(got).toEqual([]);
    nodes.network.healAll();
    await nodes.settled(Promise.all(sent));
    expect(got).toEqual(Array.from({ length: 100 }, (_, index) => index));
  });

  it('that an unreliable link loses is sent again within a second', async () => {
    const { nodes, here, there } = await pair();
    const got: unknown[] = [];
    there.agent({ id: 'mars' }).onNotification(({ payload }) => {
      got.push(payload);
    });
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    const { faults } = nodes.network;
    nodes.network.faults = { ...faults, loss: 1 };
    const sent = sun.send('mars', 1);
    await nodes.runtime.advance(100);
    nodes.network.faults = faults;
    await nodes.until(() => got.length === 1, 1_000);
    await nodes.settled(sent);
    expect(got).toEqual([1]);
  });

  it('fails with an unknown outcome when the other node is lost', async () => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars' }).onNotification(() => {});
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    nodes.network.cut(here.key, there.key);
    const sent = sun.send('mars', 1);
    await expect(nodes.settled(sent)).rejects.toMatchObject({
      code: 'DELIVERY_FAILED',
      details: { outcome: 'unknown' },
    });
    expect(nodes.events(here, 'delivery-failure')).toHaveLength(1);
  });

  it('fails at once when the other process turns out to have been replaced', async () => {
    const nodes = new Nodes({ faults: {} });
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-'));
    folders.push(folder);
    const [here, there] = [await nodes.start(), await nodes.start({ network: { folder } })];
    await nodes.join(there, here);
    there.agent({ id: 'mars' });
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    nodes.network.cut(here.key, there.key);
    const sent = sun.send('mars', 1);
    await nodes.runtime.advance(100);
    await there.stop();
    nodes.network.healAll();
    const again = await nodes.start({ network: { folder } });
    expect(again.key).toBe(there.key);
    await expect(nodes.settled(sent)).rejects.toMatchObject({ details: { outcome: 'unknown' } });
    await nodes.until(() => stateOf(here, again) === 'connected');
  });

  it('is bounded: what would be too much is refused with QUEUE_FULL', async () => {
    const { nodes, here, there } = await pair({ queueItems: 10 });
    there.agent({ id: 'mars' }).onNotification(() => {});
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    nodes.network.cut(here.key, there.key);
    const codes = Array.from({ length: 12 }, () => codeOf(sun.send('mars', 1)));
    nodes.network.healAll();
    await nodes.runtime.advance(10_000);
    expect((await Promise.all(codes)).filter((code) => code === 'QUEUE_FULL').length).toBeGreaterThanOrEqual(2);
  });
});

describe('a refusal by the other node', () => {
  it('reaches the sender with its own code', async () => {
    const { nodes, here, there } = await pair();
    const mars = there.agent({ id: 'mars' });
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    there.router.setTierConfig({
      rules: [{ sourceTier: 0, allowedTargetTiers: [], requiresEscalationJustification: false }],
    });
    expect(await nodes.settled(codeOf(sun.send('mars', 1)))).toBe('TIER_VIOLATION');
    nodes.network.cut(here.key, there.key);
    const late = codeOf(sun.send('mars', 2));
    mars.leave();
    nodes.network.healAll();
    expect(await nodes.settled(late)).toBe('AGENT_NOT_FOUND');
  });
});

describe('a channel to another node', () => {
  it('is asked for, taken, carries messages both ways in order, and closes on both sides [R3.6 IT3]', async () => {
    const { nodes, here, there, channel, other, got } = await openChannel();
    expect([channel.status, other.status]).toEqual(['open', 'open']);
    const back: unknown[] = [];
    channel.onMessage(({ payload }) => back.push(payload));
    const sent = Array.from({ length: 20 }, (_, index) => channel.send(message(here, channel, index)));
    sent.push(...Array.from({ length: 20 }, (_, index) => other.send(message(there, other, index))));
    await nodes.settled(Promise.all(sent));
    expect(got).toEqual(Array.from({ length: 20 }, (_, index) => index));
    expect(back).toEqual(got);
    await channel.close();
    await nodes.until(() => other.status === 'closed');
    expect([...here.channels.listChannels(), ...there.channels.listChannels()]).toEqual([]);
  });

  it('is "reconnecting" while the other node is silent, then open again, and loses nothing [R3.7 RS1 UT3]', async () => {
    const { nodes, here, there, channel, other, got } = await openChannel();
    const statuses: string[] = [];
    channel.onStatus((status) => statuses.push(status));
    nodes.network.cut(here.key, there.key);
    const sent = Array.from({ length: 5 }, (_, index) => channel.send(message(here, channel, index)));
    await nodes.until(() => channel.status === 'reconnecting' && other.status === 'reconnecting', 3_000);
    sent.push(channel.send(message(here, channel, 5)));
    await nodes.runtime.advance(20_000);
    nodes.network.healAll();
    await nodes.settled(Promise.all(sent));
    expect(got).toEqual([0, 1, 2, 3, 4, 5]);
    expect(statuses).toEqual(['reconnecting', 'open']);
  });

  it('closes when the other node does not come back, and says of each message what became of it [RS1]', async () => {
    const { nodes, here, there, channel } = await openChannel();
    nodes.network.cut(here.key, there.key);
    const sent = [0, 1].map((index) => channel.send(message(here, channel, index)).catch((error) => error));
    await nodes.until(() => channel.status === 'closed');
    const [first, second] = await Promise.all(sent);
    expect(first).toMatchObject({ code: 'DELIVERY_FAILED', details: { outcome: 'unknown' } });
    expect(second).toMatchObject({ code: 'DELIVERY_FAILED', details: { outcome: 'not-delivered' } });
  });

  it('is refused by an agent that takes none, by policy, and when the node is not reachable', async () => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars', tier: 2 });
    const sun = here.agent({ id: 'sun', tier: 0 });
    const earth = here.agent({ id: 'earth', tier: 1 });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    await expect(nodes.settled(sun.openChannel('mars'))).rejects.toMatchObject({ code: 'CHANNEL_CLOSED' });
    await expect(nodes.settled(earth.openChannel('mars'))).rejects.toMatchObject({ code: 'TIER_VIOLATION' });
    nodes.network.cut(here.key, there.key);
    await nodes.runtime.advance(3_000);
    await expect(nodes.settled(sun.openChannel('mars'))).rejects.toMatchObject({ code: 'CHANNEL_CLOSED' });
    expect(here.channels.listChannels()).toEqual([]);
  });

  it('tries again when the other side does not listen yet [R3.5]', async () => {
    const { nodes, here, there } = await pair();
    let other: A2AChannel | undefined;
    there.agent({ id: 'mars' }).onChannel((taken) => {
      other = taken;
      return true;
    });
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    const channel = await nodes.settled(sun.openChannel('mars'));
    const got: unknown[] = [];
    const sent = channel.send(message(here, channel, 'early'));
    await nodes.runtime.advance(250);
    other?.onMessage(({ payload }) => got.push(payload));
    await nodes.settled(sent);
    expect(got).toEqual(['early']);
    const unheard = await nodes.settled(
      (await nodes.settled(sun.openChannel('mars'))).send(message(here, channel, 1)).catch((e) => e.code),
    );
    expect(unheard).toBe('DELIVERY_FAILED');
  });
});

describe('a target', () => {
  it('that no node has is AGENT_NOT_FOUND; one that another node has is found there [R4.4 RS2]', async () => {
    const { nodes, here, there } = await pair();
    const got: unknown[] = [];
    there.agent({ id: 'mars' }).onNotification(({ payload }) => {
      got.push(payload);
    });
    const sun = here.agent({ id: 'sun' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    expect(await codeOf(sun.send('pluto', 1))).toBe('AGENT_NOT_FOUND');
    expect(await nodes.settled(sun.send('mars', 1))).toMatchObject({ path: 'remote', delivered: true });
    expect(got).toEqual([1]);
  });
});

/** Two nodes of one mesh over a network that can be cut. */
async function pair(limits: { queueItems?: number } = {}) {
  const nodes = new Nodes({ faults: {} });
  const [here, there] = (await nodes.startMesh(2, { network: { limits } })) as [NetworkedNode, NetworkedNode];
  return { nodes, here, there };
}

async function openChannel() {
  const { nodes, here, there } = await pair();
  const got: unknown[] = [];
  let other: A2AChannel | undefined;
  there.agent({ id: 'mars' }).onChannel((taken) => {
    other = taken;
    taken.onMessage(({ payload }) => got.push(payload));
    return true;
  });
  const sun = here.agent({ id: 'sun' });
  await nodes.until(() => here.registry.getById('mars') !== undefined);
  const channel = await nodes.settled(sun.openChannel('mars'));
  return { nodes, here, there, channel, other: other!, got };
}

function message(node: NetworkedNode, channel: A2AChannel, payload: unknown) {
  const { localAgentId: sender, remoteAgentId: recipient } = channel;
  return node.envelopes.create({ sender, recipient, type: 'notification', payload });
}

describe('a request by capability', () => {
  it('goes to the node whose agent has the fewest that are not answered yet [DR.10]', async () => {
    const nodes = new Nodes();
    const [here, ...others] = (await nodes.startMesh(4)) as [NetworkedNode, ...NetworkedNode[]];
    const counts = new Map<string, number>();
    const unanswered: (() => void)[] = [];
    for (const { key, agent } of others.map((node) => ({
      key: node.key,
      agent: node.agent({ id: 'mars', capabilities: ['build'] }),
    }))) {
      agent.onRequest(async () => {
        counts.set(key, (counts.get(key) ?? 0) + 1);
        await new Promise<void>((resolve) => unanswered.push(resolve));
        return key;
      });
    }
    await nodes.until(() => here.registry.listAll().length === 3);
    const sun = here.agent({ id: 'sun' });
    const answers: Promise<unknown>[] = [];
    for (let sent = 1; sent <= 9; sent++) {
      answers.push(sun.request({ capability: 'build' }, sent));
      // Each has arrived before the next is sent: nothing is on its way any more.
      await nodes.until(() => unanswered.length === sent);
    }
    expect([...counts.values()]).toEqual([3, 3, 3]);
    for (const answer of unanswered.splice(0)) answer();
    await nodes.settled(Promise.all(answers));
    // No node has an open request now, so the next two go to the first.
    for (let again = 0; again < 2; again++) {
      const answer = sun.request({ capability: 'build' }, 0);
      await nodes.until(() => unanswered.length === 1);
      unanswered.pop()!();
      expect(await nodes.settled(answer)).toBe([...counts.keys()][0]);
    }
  });
});

describe('a card of another node', () => {
  it('says when its node was last heard of, and how it is reached from here [T-C6]', async () => {
    const nodes = new Nodes();
    const [here, there] = (await nodes.startMesh(2)) as [NetworkedNode, NetworkedNode];
    there.agent({ id: 'mars' });
    await nodes.until(() => here.registry.getById('mars') !== undefined);
    const card = () => here.registry.getById('mars')!;
    expect(there.registry.getById('mars')!.endpoints).toEqual([{ transport: 'local' }]);
    expect(card().endpoints.filter(({ transport }) => transport === 'local')).toEqual([]);
    expect(here.registry.findByTier(card().tier)).toContainEqual(card());
    const before = card().lastSeenAt;
    await nodes.runtime.advance(30_000);
    expect(card().lastSeenAt).toBeGreaterThan(before + 20_000);
    expect(here.registry.getRemoteCards()).toEqual([card()]);
  });
});

function stateOf(node: NetworkedNode, other: NetworkedNode): string | undefined {
  return node.network.list().find(({ node: key }) => key === other.key)?.state;
}

async function codeOf(call: Promise<unknown>): Promise<ErrorCode | undefined> {
  return call.then(
    () => undefined,
    (error) => error.code,
  );
}
