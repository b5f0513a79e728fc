import { describe, expect, it } from 'vitest';
import { bodiesIn, Client, idsIn, startCodingAgents } from '../../test/coding-agents-fixture.js';
import { Nodes } from '../../test/nodes-fixture.js';
import { documentMethods } from '../node/control/document-methods.js';
import { checked } from '../node/control/methods.js';
import { PLANETARY_ROSTER, vacancyOf } from '../roster/planetary-roster.js';

async function pair() {
  const nodes = new Nodes();
  const here = await startCodingAgents(nodes, { network: { name: 'desk' } });
  const there = await startCodingAgents(nodes, { network: { name: 'laptop' } });
  await nodes.join(there.node, here.node, { tiers: [0, 1, 2, 3] });
  const alice = await Client.join(nodes, here.codingAgents, 'alice');
  const bob = await Client.join(nodes, there.codingAgents, 'bob', { capabilities: ['review'] });
  await nodes.until(() => here.node.registry.listAll().some(({ id }) => id === 'bob'));
  return { nodes, here, there, alice, bob };
}

const idIn = (text: string) => /Task (\S+)/.exec(text)![1]!;

describe('messages between members', () => {
  it('show the text of each message once and in a fence, when read, looked up, listed and searched [ON15]', async () => {
    const { nodes, alice, bob } = await pair();
    const text = 'The parser breaks.';
    const [id] = idsIn(await alice.call('mesh_send', { to: 'bob', text, needs: 'reply' }));
    await nodes.runtime.advance(2_000);
    expect(bodiesIn(await bob.call('mesh_inbox'))).toEqual([text]);
    const [answer] = idsIn(await bob.call('mesh_send', { reply_to: id, text: 'On it.' }));
    const looked = await bob.call('mesh_lookup', { id });
    expect(bodiesIn(looked)).toEqual([text, `${answer} to alice@desk: On it.`]);
    expect(looked.split(text)).toHaveLength(2);
    const found = await bob.call('mesh_lookup', { query: 'parser' });
    expect(bodiesIn(found)).toEqual([`${id} from alice@desk: ${text}`]);
    expect(found.split(text)).toHaveLength(2);
  });
});

describe('tasks between members', () => {
  it('are offered, accepted, worked on and done, and each side is told', async () => {
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

  it('end a wait in mesh_inbox when they are offered and when they are done [T-A4]', async () => {
    const { nodes, alice, bob } = await pair();
    const began = nodes.runtime.now();
    const waiting = bob.begin('mesh_inbox', { wait_s: 25 });
    await nodes.runtime.advance(1_000);
    const id = idIn(await alice.call('mesh_task', { action: 'offer', to: 'bob', title: 'Review it' }));
    expect(await nodes.settled(waiting)).toContain(`Task ${id} offered by alice@desk: Review it`);
    await bob.call('mesh_task', { action: 'accept', id });
    const outcome = alice.begin('mesh_inbox', { wait_s: 25 });
    await nodes.runtime.advance(1_000);
    await bob.call('mesh_task', { action: 'done', id, detail: 'looks good' });
    expect(await nodes.settled(outcome)).toContain(`Task ${id} done: looks good`);
    expect(nodes.runtime.now() - began).toBeLessThan(25_000);
  });

  it('can be looked up by id, open and ended, by both sides and by no other agent [T-A5]', async () => {
    const { nodes, here, alice, bob } = await pair();
    const carol = await Client.join(nodes, here.codingAgents, 'carol');
    const id = idIn(await alice.call('mesh_task', { action: 'offer', to: 'bob', title: 'Review it', detail: 'all' }));
    await nodes.runtime.advance(2_000);
    expect(await alice.call('mesh_lookup', { id })).toBe(`Task ${id} to bob@laptop: pending: Review it`);
    const offered = await bob.call('mesh_lookup', { id });
    expect(offered).toContain(`Task ${id} from alice@desk (waits for your answer): Review it`);
    expect(bodiesIn(offered)).toEqual(['all']);
    await bob.call('mesh_task', { action: 'accept', id });
    await bob.call('mesh_task', { action: 'done', id, detail: 'looks good' });
    await nodes.runtime.advance(2_000);
    expect(await bob.call('mesh_lookup', { id })).toContain('(done): Review it');
    expect(bodiesIn(await alice.call('mesh_lookup', { id }))).toEqual(['looks good']);
    await expect(carol.call('mesh_lookup', { id })).rejects.toMatchObject({ code: 'RECEIPT_NOT_FOUND' });
  });

  it('are refused by an agent without a worker, on either node, and mesh_peers lists such agents last, in one line [T-A2]', async () => {
    const { nodes, here, there, alice } = await pair();
    for (const { node } of [here, there]) {
      for (const { id, capabilities } of PLANETARY_ROSTER) node.agent({ id, capabilities, vacancy: vacancyOf(id) });
    }
    await nodes.runtime.advance(2_000);
    const peers = await alice.call('mesh_peers');
    const lines = peers.split('\n');
    expect(lines[1]).toMatch(/^bob@laptop \[/);
    expect(lines.at(-1)).toMatch(
      /^Unstaffed \(no worker, refuse requests and tasks\): sun, mercury, .* and 12 more\.$/,
    );
    expect(peers.length).toBeLessThan(1_000);
    for (const to of ['enceladus', 'enceladus@laptop', 'security.review']) {
      const refused = alice.call('mesh_task', { action: 'offer', to, title: 'Security review of src/auth.ts' });
      await expect(refused).rejects.toMatchObject({
        code: 'NO_WORKER',
        message: expect.stringContaining(
          'To staff it: ecliptic staff --roles enceladus, or in ecliptic.json "agents": { "enceladus": {',
        ),
      });
    }
    const asked = alice.call('mesh_send', { to: 'enceladus', text: 'Is it safe?', needs: 'reply' });
    await expect(asked).rejects.toMatchObject({ code: 'NO_WORKER' });
    for (const to of ['mars', 'mars@laptop']) {
      const said = await alice.call('mesh_send', { to, text: 'fyi' });
      expect(said).toMatch(/(stored|arrived); they have no worker: it waits on disk until they have one\.$/);
    }
    here.node.agent({ id: 'asked' }).onRequest(() => null);
    const said = await alice.call('mesh_send', { to: 'asked', text: 'fyi' });
    expect(said).toMatch(/arrived; they have no handler for messages: it waits on disk until they have one\.$/);
    const down = here.node.agent({ id: 'down' }).onTask(() => 'done');
    down.workerHealth = { state: 'unavailable', reason: 'lane "down" is closed', blocked: true };
    await nodes.runtime.advance(10);
    const waits = await alice.call('mesh_send', { to: 'down', text: 'fyi' });
    expect(waits).toMatch(/arrived; they are unavailable \(lane "down" is closed\): it waits on disk\.$/);
  });

  it('go to any agent with the capability, and come back with a reason when declined or countered', async () => {
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

  it('of a faulty call are not changed, and the error names the fault', async () => {
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
  it('are not created by a set that is refused', async () => {
    const { alice } = await pair();
    for (const key of ['draft', 'draft.']) {
      const refused = alice.call('mesh_state', { action: 'set', key, value: 1 });
      await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARGUMENTS' });
    }
    expect(await alice.call('mesh_state', { action: 'list' })).toContain('no documents');
  });

  it('have the same content on all nodes', async () => {
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

  it('are also changed and shown by the owner’s commands [T-A6]', async () => {
    const { nodes, here, alice } = await pair();
    const methods = checked(documentMethods(here));
    const context = { emit: () => {}, drained: async () => {}, signal: new AbortController().signal };
    const owner = (method: 'stateGet' | 'stateSet', path: string, value?: unknown) =>
      nodes.settled(Promise.resolve(methods[method]!({ name: 'plan', path, value }, context)));
    const get = (key: string) => alice.call('mesh_state', { action: 'get', key });
    await alice.call('mesh_state', { action: 'set', key: 'plan.step', value: 'review' });
    expect(await owner('stateGet', 'step')).toBe('review');
    await owner('stateSet', 'step', 'merge');
    expect(await get('plan.step')).toMatch(/^"merge"\n/);
    await owner('stateSet', 'tasks.first', { title: 'login' });
    expect(await get('plan.tasks.first')).toMatch(/^\{"title":"login"\}\n/);
    await alice.call('mesh_state', { action: 'set', key: 'plan.tasks.first', value: 1 });
    expect(await owner('stateGet', 'tasks.first')).toBe(1);
    await alice.call('mesh_state', { action: 'add', key: 'plan.log', value: 'begun' });
    await owner('stateSet', 'log[]', 'done');
    expect(await get('plan.log')).toMatch(/^\["begun","done"\]\n/);
    await alice.call('mesh_state', { action: 'remove', key: 'plan.step' });
    await expect(owner('stateGet', 'step')).rejects.toMatchObject({ code: 'INVALID_ARGUMENTS' });
  });

  it('are separated by document name, and a faulty call changes nothing', async () => {
    const { alice } = await pair();
    await alice.call('mesh_state', { action: 'set', key: 'plan.step', value: 1 });
    await expect(alice.call('mesh_state', { action: 'get', key: 'plan.stpe' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
      message: expect.stringContaining('there are: notes, step'),
    });
    await expect(alice.call('mesh_state', { action: 'set', key: 'plan', value: 1 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
    });
    await alice.call('mesh_state', { action: 'remove', key: 'plan.step' });
    expect(await alice.call('mesh_state', { action: 'get', key: 'plan' })).toMatch(/^\{\}\n/);
  });
});
