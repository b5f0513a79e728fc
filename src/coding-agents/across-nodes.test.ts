import { describe, expect, it } from 'vitest';
import { bodiesIn, Client, idsIn, startCodingAgents, stateOf } from '../../test/coding-agents-fixture.js';
import { type NetworkedNode, Nodes } from '../../test/nodes-fixture.js';
import { MemoryStore } from '../store/memory-store.js';
import type { CodingAgents } from './coding-agents.js';
import { acquaintances } from './mailbox/tables.js';

interface Place {
  readonly node: NetworkedNode;
  readonly codingAgents: CodingAgents;
}

async function mesh(names: readonly string[], tiers?: readonly (0 | 1 | 2 | 3)[]) {
  const nodes = new Nodes();
  const places: Place[] = [];
  for (const name of names) places.push(await startCodingAgents(nodes, { network: { name } }));
  const [first, ...others] = places;
  for (const { node } of others) await nodes.join(node, first!.node, tiers ? { tiers: [...tiers] } : {});
  return { nodes, places };
}

const OWN: readonly (0 | 1 | 2 | 3)[] = [0, 1, 2, 3];

describe('members on several nodes', () => {
  it('hold a conversation of twenty turns: every message is read, in order [ON1]', async () => {
    const { nodes, places } = await mesh(['desk', 'laptop'], OWN);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const bob = await Client.join(nodes, places[1]!.codingAgents, 'bob');
    await nodes.until(() => places[0]!.node.registry.listAll().some(({ id }) => id === 'bob'));
    const sent: string[] = [];
    const heard: string[] = [];
    for (let turn = 0; turn < 20; turn++) {
      sent.push(...idsIn(await alice.send('bob@laptop', `question ${turn}`, { needs: 'reply' })));
      const inbox = await bob.inbox({ wait_s: 20 });
      heard.push(...bodiesIn(inbox));
      sent.push(...idsIn(await bob.call('mesh_send', { reply_to: idsIn(inbox)[0], text: `answer ${turn}` })));
      heard.push(...bodiesIn(await alice.inbox({ wait_s: 20 })));
    }
    await alice.inbox();
    await bob.inbox();
    expect(heard).toEqual(Array.from({ length: 20 }, (_, turn) => [`question ${turn}`, `answer ${turn}`]).flat());
    const settled = async () => {
      const states = [];
      for (const [index, id] of sent.entries()) states.push(await stateOf(nodes, places[index % 2]!.node, id));
      return states;
    };
    await nodes.until(() => true);
    await nodes.runtime.advance(5_000);
    expect(await settled()).toEqual(sent.map((_, index) => (index % 2 === 0 ? 'replied' : 'done')));
  });

  it('with the same name are distinguished, and an ambiguous name is refused with the candidates [ON11]', async () => {
    const { nodes, places } = await mesh(['north', 'east', 'west'], OWN);
    const here = await Client.join(nodes, places[0]!.codingAgents, 'me-here');
    for (const { codingAgents } of places.slice(1)) await Client.join(nodes, codingAgents, 'mars');
    await nodes.until(() => places[0]!.node.registry.listAll().filter(({ id }) => id === 'mars').length === 2);
    await expect(here.send('mars', 'which one?')).rejects.toMatchObject({
      code: 'AMBIGUOUS_AGENT',
      details: { candidates: ['mars@east', 'mars@west'] },
    });
    expect(await here.send('mars@west', 'you')).toContain('mars@west');
  });

  it('of another owner are held at first contact; both sides see it, and a person lets them in', async () => {
    const { nodes, places } = await mesh(['mine', 'theirs'], [2, 3]);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const stranger = await Client.join(nodes, places[1]!.codingAgents, 'stranger');
    await nodes.until(() => places[1]!.node.registry.listAll().some(({ id }) => id === 'alice'));
    const [id] = idsIn(await stranger.send('alice', 'let me in', { needs: 'reply' }));
    await nodes.runtime.advance(3_000);
    expect(await stateOf(nodes, places[1]!.node, id!)).toBe('held');
    expect(await stranger.call('mesh_lookup', { id })).toContain('first contact');
    expect(await alice.inbox()).toBe('No new mail.');
    const [held] = await nodes.settled(places[0]!.codingAgents.held());
    expect(held).toMatchObject({ id, to: 'alice', text: 'let me in' });
    await nodes.settled(places[0]!.codingAgents.letIn(id!));
    const inbox = await alice.inbox();
    expect(inbox).toContain('paired');
    expect(bodiesIn(inbox)).toEqual(['let me in']);
    await stranger.send('alice', 'once more');
    await nodes.runtime.advance(3_000);
    expect(bodiesIn(await alice.inbox())).toEqual(['once more']);
  });

  it('that were let in are strangers again after their node was removed, also on disk [T-F1]', async () => {
    const nodes = new Nodes();
    const store = new MemoryStore();
    const [mine, theirs] = [
      await startCodingAgents(nodes, { network: { name: 'mine' }, store }),
      await startCodingAgents(nodes, { network: { name: 'theirs' } }),
    ];
    await nodes.join(theirs.node, mine.node, { tiers: [2, 3] });
    const alice = await Client.join(nodes, mine.codingAgents, 'alice');
    await Client.join(nodes, theirs.codingAgents, 'other');
    await nodes.until(() => mine.node.registry.listAll().some(({ id }) => id === 'other'));
    await alice.send('other', 'hello');
    const stored = () => nodes.settled(store.read(acquaintances));
    expect(await stored()).toMatchObject([{ address: `other@${theirs.node.key}` }]);
    mine.node.network.remove(theirs.node.key);
    await nodes.runtime.advance(1_000);
    expect(await stored()).toEqual([]);
  });

  it('may answer without approval, once a local agent wrote to them', async () => {
    const { nodes, places } = await mesh(['mine', 'theirs'], [2, 3]);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const other = await Client.join(nodes, places[1]!.codingAgents, 'other');
    await nodes.until(() => places[0]!.node.registry.listAll().some(({ id }) => id === 'other'));
    await alice.send('other', 'hello', { needs: 'reply' });
    await nodes.runtime.advance(3_000);
    const [held] = await nodes.settled(places[1]!.codingAgents.held());
    await nodes.settled(places[1]!.codingAgents.letIn(held!.id));
    const [id] = idsIn(await other.inbox());
    await other.call('mesh_send', { reply_to: id, text: 'hello yourself' });
    await nodes.runtime.advance(3_000);
    expect(bodiesIn(await alice.inbox())).toEqual(['hello yourself']);
  });

  it('are told when a person turns their message away', async () => {
    const { nodes, places } = await mesh(['mine', 'theirs'], [2, 3]);
    await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const stranger = await Client.join(nodes, places[1]!.codingAgents, 'stranger');
    await nodes.until(() => places[1]!.node.registry.listAll().some(({ id }) => id === 'alice'));
    const [id] = idsIn(await stranger.send('alice', 'let me in'));
    await nodes.runtime.advance(3_000);
    await nodes.settled(places[0]!.codingAgents.turnAway(id!));
    await nodes.runtime.advance(3_000);
    expect(await stateOf(nodes, places[1]!.node, id!)).toBe('declined');
  });

  it('are away as soon as their process ends, and mail to them is stored', async () => {
    const { nodes, places } = await mesh(['desk', 'laptop'], OWN);
    const alice = await Client.join(nodes, places[0]!.codingAgents, 'alice');
    const bob = await Client.join(nodes, places[1]!.codingAgents, 'bob');
    await nodes.until(() => places[0]!.node.registry.listAll().some(({ id }) => id === 'bob'));
    expect(await alice.call('mesh_peers', { match: 'bob' })).toContain('bob@laptop [polls]');
    bob.leave();
    await nodes.until(() => !places[0]!.node.registry.listAll().some(({ id }) => id === 'bob'));
    expect(await alice.call('mesh_peers', { match: 'bob' })).toContain('bob@laptop [offline]');
    await alice.send('bob@laptop', 'for later');
    const again = await Client.join(nodes, places[1]!.codingAgents, 'bob');
    expect(bodiesIn(await again.inbox({ wait_s: 20 }))).toEqual(['for later']);
  });
});

describe('a member in a sandbox', () => {
  it('sees and reaches no agent outside it', async () => {
    const nodes = new Nodes();
    const { codingAgents } = await startCodingAgents(nodes);
    await Client.join(nodes, codingAgents, 'outside');
    const inside = await Client.join(nodes, codingAgents, 'inside', { sandbox: 'box' });
    await Client.join(nodes, codingAgents, 'neighbour', { sandbox: 'box' });
    expect(await inside.call('mesh_peers')).not.toContain('outside');
    expect(await inside.call('mesh_peers')).toContain('neighbour');
    await expect(inside.send('outside', 'hello')).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    expect(await inside.send('neighbour', 'hello')).toContain('arrived');
  });
});
