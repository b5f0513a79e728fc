import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import type { Life } from '../../../test/durable/simulated-mail.js';
import { type LargeMesh, largeMesh } from '../../../test/large-mesh.js';
import type { A2AChannel } from '../../mesh/channel.js';

const COUNT = 24;

vi.setConfig({ testTimeout: 120_000 });

let mesh: LargeMesh;
let one: Life;
let other: Life;
let serial = 0;

beforeAll(async () => {
  mesh = await largeMesh(COUNT);
}, 120_000);

afterAll(() => mesh.world.end());

/** Two nodes without a link, and an agent on each: `asking` on the one, `asked` on the other. */
async function pair(capabilities: string[] = []) {
  [one, other] = mesh.strangers();
  const number = ++serial;
  const asking = one.node.agent({ id: `asking-${number}`, tier: 1 });
  const asked = other.node.agent({
    id: `asked-${number}`,
    tier: 1,
    capabilities: capabilities.map((name) => ({ id: name })),
  });
  const address = `asked-${number}@${other.station.key}`;
  const known = (life: Life, agent: string) => life.node.registry.entry(agent) !== undefined;
  await mesh.world.until(() => known(one, address) && known(other, `asking-${number}@${one.station.key}`));
  expect([mesh.state(one, other), mesh.state(other, one)]).toEqual(['idle', 'idle']);
  return { asking, asked, address };
}

describe('between two nodes without a link', () => {
  it('a message and a request begin a conversation, which ends when nothing more is said [DR.2]', async () => {
    const { asking, asked, address } = await pair();
    const heard: unknown[] = [];
    asked.onMessage(({ payload }) => void heard.push(payload)).onRequest(({ payload }) => ({ echo: payload }));
    expect(await mesh.world.settled(asking.send(address, 'hello'))).toMatchObject({ delivered: true });
    expect(heard).toEqual(['hello']);
    expect(await mesh.world.settled(asking.request(address, 7))).toEqual({ echo: 7 });
    expect(mesh.state(one, other)).toBe('connected');
    await mesh.rested(one, other);
    expect(await mesh.world.settled(asking.request(address, 8))).toEqual({ echo: 8 });
  });

  it('messages sent while the conversation begins arrive in order, each once [DR.3]', async () => {
    const { asking, asked, address } = await pair();
    const heard: unknown[] = [];
    asked.onMessage(({ payload }) => void heard.push(payload));
    const sent: Promise<unknown>[] = [];
    for (let index = 0; index < 40; index++) {
      sent.push(asking.send(address, index));
      // Some in the middle of the greeting, some at the moment when the conversation has just begun.
      if (index % 4 === 3) await mesh.world.runtime.advance(0.4);
    }
    await mesh.world.settled(Promise.all(sent));
    expect(heard).toEqual([...Array(40).keys()]);
  });

  it('messages that both send at once arrive, each once [DR.3]', async () => {
    const { asking, asked, address } = await pair();
    const heard: [unknown[], unknown[]] = [[], []];
    asking.onMessage(({ payload }) => void heard[0].push(payload));
    asked.onMessage(({ payload }) => void heard[1].push(payload));
    const numbers = [...Array(10).keys()];
    const sent = numbers.flatMap((index) => [
      asking.send(address, index),
      asked.send(`${asking.id}@${one.station.key}`, index),
    ]);
    await mesh.world.settled(Promise.all(sent));
    expect(heard).toEqual([numbers, numbers]);
  });

  it('a request finds its agent by capability', async () => {
    const { asking, asked } = await pair([`translating-${serial + 1}`]);
    asked.onRequest(() => 'übersetzt');
    await mesh.world.runtime.advance(2_000);
    expect(await mesh.world.settled(asking.request({ capability: `translating-${serial}` }, 'x'))).toBe('übersetzt');
  });

  it('a broadcast reaches every node, idle or linked', async () => {
    const { asking } = await pair();
    const heard = new Set<string>();
    for (const life of mesh.lives) {
      life.node.agent({ id: `listening-${serial}`, tier: 1 }).onMessage(({ payload }) => {
        if (payload === `all-${serial}`) heard.add(life.name);
      });
    }
    await mesh.world.runtime.advance(3_000);
    expect(mesh.statesAt(one)).toContain('idle');
    await mesh.world.settled(asking.broadcast(`all-${serial}`));
    await mesh.world.until(() => heard.size === COUNT, 15_000);
    for (const { node } of mesh.lives) node.agentById(`listening-${serial}`).leave();
    await mesh.world.until(() => mesh.lives.some((life) => mesh.statesAt(life).includes('idle')));
  });

  it('a channel opens, and its conversation is not ended while it is open [DR.4]', async () => {
    const { asking, asked, address } = await pair();
    const heard: unknown[] = [];
    let far: A2AChannel | undefined;
    asked.onChannel((channel) => {
      far = channel;
      channel.onMessage(({ payload }) => void heard.push(payload));
      return true;
    });
    const near = await mesh.world.settled(asking.openChannel(address));
    await mesh.world.runtime.advance(60_000);
    expect([near.status, far?.status, mesh.state(one, other)]).toEqual(['open', 'open', 'connected']);
    near.close();
    await mesh.rested(one, other);
    expect(far?.status).toBe('closed');
  });

  it('a stream arrives whole', async () => {
    const { asking, asked, address } = await pair();
    asked.onRequest(async function* () {
      for (let index = 0; index < 200; index++) yield index;
    });
    const chunks: unknown[] = [];
    const read = async () => {
      for await (const chunk of asking.stream(address, null)) chunks.push(chunk);
    };
    await mesh.world.settled(read());
    expect(chunks).toEqual([...Array(200).keys()]);
  });

  it('tools are known, called, changed and withdrawn, and a call under way keeps the conversation [DR.4]', async () => {
    const { asking, asked } = await pair();
    let answer: ((value: unknown) => void) | undefined;
    const inputSchema = z.object({ text: z.string() });
    asked.tool('echo', { inputSchema }, ({ text }) => ({ text }));
    asked.tool('slow', { timeoutMs: 300_000 }, () => new Promise((resolve) => (answer = resolve)));
    const tools = () => one.node.mcp.catalogue.of(`${asked.id}@${other.station.key}`).map(({ key }) => key);
    await mesh.world.until(() => tools().length === 2);
    expect(mesh.state(one, other)).toBe('idle');
    const result = await mesh.world.settled(asking.mcp.call(`${asked.id}.echo`, { text: 'hi' }));
    expect(result.structuredContent).toEqual({ text: 'hi' });
    const slow = asking.mcp.call(`${asked.id}.slow`, {});
    await mesh.world.runtime.advance(60_000);
    expect([mesh.state(one, other), mesh.state(other, one)]).toEqual(['connected', 'connected']);
    answer?.({ done: true });
    expect((await mesh.world.settled(slow)).structuredContent).toEqual({ done: true });
    await mesh.rested(one, other);
    expect(tools()).toHaveLength(2);
    asked.withdraw('tool', 'slow');
    await mesh.world.until(() => tools().length === 1, 5_000);
    expect(mesh.state(one, other)).toBe('idle');
    asked.leave();
    await mesh.world.until(() => tools().length === 0, 5_000);
  });

  it('a shared document comes together, and keeps its conversation while both have it open [DR.4]', async () => {
    const { asking, asked } = await pair();
    const [near, far] = [asking.state(`plan-${serial}`), asked.state(`plan-${serial}`)];
    near.map('tasks').set('a', 1);
    await mesh.world.until(() => far.map('tasks').get('a') === 1, 10_000);
    await mesh.world.runtime.advance(60_000);
    far.map('tasks').set('b', 2);
    await mesh.world.until(() => near.map('tasks').get('b') === 2, 1_000);
    asking.leave();
    asked.leave();
    await mesh.rested(one, other);
  });

  it('durable mail is delivered, and its receipt comes back', async () => {
    const { asking, asked, address } = await pair();
    const heard: unknown[] = [];
    asked.onMessage(({ payload }) => void heard.push(payload));
    const { messageId = '' } = await mesh.world.settled(asking.send(address, 'kept', { durable: true }));
    await mesh.world.until(() => heard.length > 0, 10_000);
    await mesh.world.runtime.advance(5_000);
    expect(await mesh.world.settled(one.node.mail!.receipt(messageId))).toMatchObject({ over: true, state: 'done' });
    expect(heard).toEqual(['kept']);
    await mesh.rested(one, other);
  });

  it('agents come, change their cards and leave without a conversation [DR.1]', async () => {
    const { asked, address } = await pair();
    const card = () => one.node.registry.entry(address)?.card;
    asked.update({ description: 'knows more now' });
    await mesh.world.until(() => card()?.description === 'knows more now', 5_000);
    asked.leave();
    await mesh.world.until(() => card() === undefined, 5_000);
    other.node.agent({ id: asked.id, tier: 2 });
    await mesh.world.until(() => card()?.tier === 2, 5_000);
    expect([mesh.state(one, other), mesh.state(other, one)]).toEqual(['idle', 'idle']);
  });

  it('silence is noticed within three seconds while a channel is open, and the channel ends with the node [DR.4]', async () => {
    const { asking, asked, address } = await pair();
    asked.onChannel(() => true);
    const near = await mesh.world.settled(asking.openChannel(address));
    mesh.cut([one], [other]);
    await mesh.world.until(() => mesh.state(one, other) === 'suspected', 3_000);
    expect(near.status).toBe('reconnecting');
    mesh.world.nodes.network.healAll();
    await mesh.world.until(() => near.status === 'open', 15_000);
    near.close();
    await mesh.rested(one, other);
  });

  it('an agent that the other node may not know is not sent for, as in a conversation', async () => {
    const { address } = await pair();
    const guest = await mesh.world.start(mesh.world.station(`guest-${serial}`));
    const above = guest.node.agent({ id: `above-${serial}`, tier: 0 });
    await mesh.world.nodes.join(guest.node, mesh.lives[0]!.node, { tiers: [1, 2, 3] });
    const node = () => guest.node.network.list().find(({ state }) => state === 'idle')?.node;
    await mesh.world.until(() => node() !== undefined && guest.node.registry.entry(address) !== undefined);
    const to = mesh.lives.find(({ station }) => station.key === node())!;
    const agent = to.node.registry.getLocalCards()[0]!.id;
    const sent = above.send(`${agent}@${to.station.key}`, 'hello');
    await expect(mesh.world.settled(sent)).rejects.toMatchObject({ code: 'NOT_GRANTED' });
    expect(to.events.filter(({ type }) => type === 'security')).toEqual([]);
    await mesh.world.stop(guest);
  });

  it('a link that breaks is opened again, and the conversation goes on', async () => {
    const { asking, asked, address } = await pair();
    asked.onRequest(() => 'here');
    await mesh.world.settled(asking.request(address, null));
    mesh.world.nodes.network.crash(one.station.key, false);
    await mesh.world.until(() => mesh.state(one, other) === 'connected', 3_000);
    expect(await mesh.world.settled(asking.request(address, null))).toBe('here');
  });
});
