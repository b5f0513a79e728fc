import { describe, expect, it } from 'vitest';
import { Nodes } from '../../test/nodes-fixture.js';
import { bodiesIn, Client, startOnramp } from '../../test/onramp-fixture.js';

async function pair() {
  const nodes = new Nodes();
  const here = await startOnramp(nodes, { network: { name: 'desk' } });
  const there = await startOnramp(nodes, { network: { name: 'laptop' } });
  await nodes.join(there.node, here.node, { tiers: [0, 1, 2, 3] });
  const alice = await Client.join(nodes, here.onramp, 'alice');
  const bob = await Client.join(nodes, there.onramp, 'bob', { capabilities: ['review'] });
  await nodes.until(() => here.node.registry.listAll().some(({ id }) => id === 'bob'));
  return { nodes, here, there, alice, bob };
}

const idIn = (text: string) => /Task (\S+)/.exec(text)![1]!;

describe('tasks between members', () => {
  it('are offered, accepted, worked on and done, and each side hears of it', async () => {
    const { nodes, alice, bob } = await pair();
    const id = idIn(
      await alice.call('mesh_task', { action: 'offer', to: 'bob', title: 'Review it', detail: 'all of it' }),
    );
    await nodes.runtime.advance(2_000);
    expect(await bob.call('mesh_peers')).toContain(`Task ${id} offered by alice@desk: Review it`);
    expect(bodiesIn(await bob.call('mesh_task', { action: 'list' }))).toEqual(['all of it']);
    const accepted = await bob.call('mesh_task', { action: 'accept', id });
    expect(accepted).toContain('is yours');
    expect(bodiesIn(accepted)).toEqual(['all of it']);
    await bob.call('mesh_task', { action: 'progress', id, detail: 'half' });
    await nodes.runtime.advance(2_000);
    expect(await alice.call('mesh_task', { action: 'list' })).toContain(': half:');
    await bob.call('mesh_task', { action: 'done', id, detail: 'looks good' });
    await nodes.runtime.advance(2_000);
    expect(await alice.call('mesh_peers')).toContain(`Task ${id} done: looks good`);
    expect(bodiesIn(await alice.call('mesh_task', { action: 'list' }))).toEqual(['looks good']);
  });

  it('go to whoever has the capability, and come back with a reason when declined or countered', async () => {
    const { nodes, alice, bob } = await pair();
    const declined = idIn(await alice.call('mesh_task', { action: 'offer', to: 'review', title: 'One' }));
    const countered = idIn(await alice.call('mesh_task', { action: 'offer', to: 'review', title: 'Two' }));
    await nodes.runtime.advance(2_000);
    await bob.call('mesh_task', { action: 'decline', id: declined, detail: 'no time' });
    await bob.call('mesh_task', { action: 'counter', id: countered, detail: 'half of it' });
    await nodes.runtime.advance(2_000);
    const list = await alice.call('mesh_task', { action: 'list' });
    expect(list).toContain('no time');
    expect(list).toContain('counter: half of it');
  });

  it('say what is wrong with a call, and do nothing', async () => {
    const { alice } = await pair();
    await expect(alice.call('mesh_task', { action: 'offer', to: 'bob' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
    });
    await expect(alice.call('mesh_task', { action: 'accept', id: 'x' })).rejects.toMatchObject({
      code: 'PROPOSAL_NOT_FOUND',
    });
    await expect(alice.call('mesh_task', { action: 'offer', to: 'nobody', title: 'x' })).rejects.toMatchObject({
      code: 'AGENT_NOT_FOUND',
    });
  });
});

describe('notes that members share', () => {
  it('are the same for all of them, across nodes', async () => {
    const { nodes, alice, bob } = await pair();
    await alice.call('mesh_state', { action: 'set', key: 'plan.step', value: 2 });
    await alice.call('mesh_state', { action: 'add', key: 'plan.risks', value: 'time' });
    await alice.call('mesh_state', { action: 'add', key: 'plan.risks', value: 'money' });
    expect(await bob.call('mesh_state', { action: 'get', key: 'plan.step' })).toMatch(/^2\n/);
    await bob.call('mesh_state', { action: 'remove', key: 'plan.risks', value: 'time' });
    await nodes.runtime.advance(2_000);
    const text = await alice.call('mesh_state', { action: 'get', key: 'plan.risks' });
    expect(text).toMatch(/^\["money"\]\n/);
    const version = /version (\S+)/.exec(text)![1];
    expect(await alice.call('mesh_state', { action: 'get', key: 'plan', since: version })).toContain('Unchanged');
    expect(await alice.call('mesh_state', { action: 'list' })).toContain('plan (also bob@laptop)');
  });

  it('are kept apart by what they are called, and a wrong call changes nothing', async () => {
    const { alice } = await pair();
    await alice.call('mesh_state', { action: 'set', key: 'plan.step', value: 1 });
    await expect(alice.call('mesh_state', { action: 'get', key: 'plan.other' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
    });
    await expect(alice.call('mesh_state', { action: 'set', key: 'plan', value: 1 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
    });
    await alice.call('mesh_state', { action: 'remove', key: 'plan.step' });
    expect(await alice.call('mesh_state', { action: 'get', key: 'plan' })).toMatch(/^\{\}\n/);
  });
});
