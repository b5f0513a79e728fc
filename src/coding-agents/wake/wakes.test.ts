import { describe, expect, it } from 'vitest';
import { bodiesIn, Client, idsIn, startCodingAgents, stateOf } from '../../../test/coding-agents-fixture.js';
import { Nodes } from '../../../test/nodes-fixture.js';
import { SUBMITTED, type WakeAdapter } from './adapters.js';
import { hookAnswer, readHookCall } from './hook-contracts.js';
import type { WakeInit } from './wake-machine.js';
import { type HeardHook, Wakes } from './wakes.js';

/** An agent that does nothing until it is pointed at its mail; then it reads, and closes what it can. */
class IdleAgent implements WakeAdapter {
  readonly name = 'scripted';
  readonly key = 'scripted';
  readonly pointers: string[] = [];
  readonly bodies: string[] = [];
  /** What its client does with a pointer. */
  way: 'takes' | 'drops' | 'refuses' = 'takes';
  open = true;
  client: Client | undefined;

  async probe() {
    return { open: this.open, about: this.open ? 'it listens' : 'it is gone' };
  }

  async surface(pointer: string) {
    this.pointers.push(pointer);
    if (this.way === 'refuses') return { outcome: 'refused', reason: 'nobody runs it' } as const;
    if (this.way === 'takes') void this.look();
    return SUBMITTED;
  }

  async look(): Promise<void> {
    const text = await this.client!.begin('mesh_inbox');
    this.bodies.push(...bodiesIn(text));
    await this.client!.begin('mesh_inbox', { done: idsIn(text) });
  }
}

const SESSION = { client: 'codex-mcp-client', version: '0.153.4', checkout: '/work', env: {} };

async function scene(init: WakeInit = {}) {
  const nodes = new Nodes();
  const { node, codingAgents } = await startCodingAgents(nodes);
  const alice = await Client.join(nodes, codingAgents, 'alice');
  const bob = await Client.join(nodes, codingAgents, 'bob');
  const agent = new IdleAgent();
  agent.client = bob;
  const wakes = new Wakes({ runtime: nodes.runtime, adapterFor: () => agent }, init);
  wakes.attach(bob.member, SESSION);
  await nodes.runtime.advance(50);
  const says = async () => /^bob \[(\w+)\]/m.exec(await alice.call('mesh_peers'))?.[1];
  const ask = async (text: string) => idsIn(await alice.send('bob', text, { needs: 'reply' }))[0]!;
  return { nodes, node, codingAgents, wakes, alice, bob, agent, says, ask };
}

describe('an idle agent', () => {
  it('is pointed at mail that needs it within two seconds, without the text of the mail [ON6]', async () => {
    const { nodes, node, agent, ask } = await scene();
    const id = await ask('the secret is fortytwo');
    await nodes.until(() => agent.bodies.length > 0, 2_000);
    expect(agent.bodies).toEqual(['the secret is fortytwo']);
    expect(agent.pointers).toHaveLength(1);
    const [pointer] = agent.pointers;
    expect(pointer).toContain(id);
    expect(pointer).toContain('alice');
    expect(pointer).toContain('needs reply');
    expect(pointer).toContain('mesh_inbox');
    expect(pointer).not.toContain('fortytwo');
    expect(pointer!.length).toBeLessThanOrEqual(300);
    await nodes.until(() => true);
    expect(await stateOf(nodes, node, id)).toBe('done');
  });

  it('is not woken for mail that needs nothing [ON6]', async () => {
    const { nodes, alice, agent } = await scene();
    await alice.send('bob', 'just so you know');
    await nodes.runtime.advance(600_000);
    expect(agent.pointers).toEqual([]);
  });

  it('is woken by an answer to its own question, by a task that it is offered, and by the person [T-A10]', async () => {
    const { nodes, codingAgents, alice, bob, agent } = await scene();
    const [question] = idsIn(await bob.send('alice', 'which branch?', { needs: 'reply' }));
    await alice.inbox();
    await alice.call('mesh_send', { reply_to: question, text: 'main', needs: 'none' });
    await nodes.until(() => agent.bodies.length === 1, 2_000);
    expect(agent.bodies).toEqual(['main']);
    const offered = await alice.call('mesh_task', { action: 'offer', to: 'bob', title: 'the secret is fortytwo' });
    await nodes.until(() => agent.pointers.length === 2, 2_000);
    const id = /Task (\S+) offered/.exec(offered)![1]!;
    expect(agent.pointers[1]).toContain(`alice offers you a task (${id})`);
    expect(agent.pointers[1]).not.toContain('fortytwo');
    expect(agent.pointers[1]!.length).toBeLessThanOrEqual(300);
    await nodes.settled(codingAgents.tell('bob', 'stop at the next commit'));
    await nodes.until(() => agent.bodies.length === 2, 2_000);
    expect(agent.bodies[1]).toBe('stop at the next commit');
    expect(agent.pointers).toHaveLength(3);
  });

  it('is woken again after each turn in which it only looked at its mail, with and without hooks [T-A10]', async () => {
    const stop = readHookCall('codex', 'Stop', { cwd: '/work' })!;
    for (const hooks of [true, false]) {
      const { nodes, node, codingAgents, wakes, alice, bob, agent } = await scene({ readWithinS: 20 });
      agent.look = async () => void agent.bodies.push(...bodiesIn(await bob.begin('mesh_inbox')));
      const ids: string[] = [];
      for (const text of ['one', 'two', 'three']) {
        ids.push((await nodes.settled(codingAgents.tell('bob', text))).id);
        await nodes.until(() => agent.bodies.includes(text), 2_000);
        if (hooks) await nodes.settled(wakes.heardHook({ ...stop, env: {}, ancestors: [] }));
        await nodes.runtime.advance(30_000);
      }
      expect(agent.pointers).toHaveLength(3);
      expect(await stateOf(nodes, node, ids[2]!)).toBe(hooks ? 'done' : 'surfaced');
      await alice.call('mesh_task', { action: 'offer', to: 'bob', title: 'x' });
      await nodes.until(() => agent.pointers.length === 4, 2_000);
    }
  });

  it('prolongs its turn for such an answer or offer [T-A10]', async () => {
    const { nodes, wakes, alice, bob, agent } = await scene();
    agent.open = false;
    await nodes.runtime.advance(60_000);
    const hook: HeardHook = {
      client: 'codex',
      moment: 'turn-ends',
      session: undefined,
      server: undefined,
      cwd: '/work',
      env: {},
      ancestors: [],
    };
    const [question] = idsIn(await bob.send('alice', 'which branch?', { needs: 'reply' }));
    await alice.inbox();
    await alice.call('mesh_send', { reply_to: question, text: 'main' });
    expect(await nodes.settled(wakes.heardHook(hook))).toContain('mail from alice');
    await nodes.settled(agent.look());
    await alice.call('mesh_task', { action: 'offer', to: 'bob', title: 'x' });
    await nodes.runtime.advance(1_000);
    expect(await nodes.settled(wakes.heardHook(hook))).toContain('alice offers you a task');
  });

  it('is not woken by an answer without a question, nor by one that another agent forges', async () => {
    const { nodes, codingAgents, alice, bob, agent } = await scene();
    const [note] = idsIn(await bob.send('alice', 'I am done'));
    await alice.inbox();
    await alice.call('mesh_send', { reply_to: note, text: 'thanks' });
    const [question] = idsIn(await bob.send('alice', 'which branch?', { needs: 'reply' }));
    const carol = await Client.join(nodes, codingAgents, 'carol');
    const payload = { text: 'mine', mesh: { needs: 'none', hops: 0, inReplyTo: question } };
    await nodes.settled(carol.member.agent.send('bob', payload, { durable: true }));
    await nodes.runtime.advance(600_000);
    expect(agent.pointers).toEqual([]);
  });

  it('is not woken while it waits in mesh_inbox', async () => {
    const { nodes, bob, agent, ask } = await scene();
    const waiting = bob.begin('mesh_inbox', { wait_s: 20 });
    await ask('here you are');
    expect(bodiesIn(await nodes.settled(waiting))).toEqual(['here you are']);
    await nodes.runtime.advance(5_000);
    expect(agent.pointers).toEqual([]);
  });

  it('is woken for mail from before the adapter was found', async () => {
    const { nodes, wakes, agent, ask } = await scene();
    wakes.use('bob', 'not yet');
    await ask('early');
    await nodes.runtime.advance(5_000);
    expect(agent.pointers).toEqual([]);
    wakes.use('bob', agent);
    await nodes.until(() => agent.bodies.length > 0, 2_000);
    expect(agent.bodies).toEqual(['early']);
  });

  it('is woken for held mail once its sender is let in', async () => {
    const { nodes, bob, agent, ask } = await scene();
    agent.way = 'drops';
    await ask('one');
    await nodes.runtime.advance(1_000);
    await nodes.settled(bob.member.box.reconsider());
    await nodes.runtime.advance(1_000);
    expect(agent.pointers).toHaveLength(1);
  });
});

describe('the mail status on a card', () => {
  it('is wakes only after a wake test was read [ON6]', async () => {
    const { nodes, wakes, alice, agent, says, ask } = await scene();
    await ask('read, but no test');
    await nodes.until(() => agent.bodies.length > 0);
    expect(await says()).toBe('polls');
    const [row] = await nodes.settled(wakes.test(['bob']));
    expect(row).toMatchObject({ name: 'bob', seesMail: 'wakes', path: 'proven', test: { passed: true } });
    expect(row!.test.tookMs).toBeLessThanOrEqual(2_000);
    expect(await says()).toBe('wakes');
    expect(await alice.send('bob', 'a question', { needs: 'reply' })).toContain('they are woken');
    expect(await alice.send('bob', 'by the way')).toContain('they see it when they look');
  });

  it('is not wakes when the client accepts pointers and drops them [ON5] [ON6]', async () => {
    const { nodes, node, wakes, alice, agent, says, ask } = await scene();
    agent.way = 'drops';
    const [row] = await nodes.settled(wakes.test([], 5_000));
    expect(row).toMatchObject({ path: 'failed', test: { passed: false } });
    expect(row!.test.reason).toContain('not read within 5 s');
    wakes.use('bob', 'begins anew');
    wakes.use('bob', agent);
    const id = await ask('are you there?');
    await nodes.until(() => agent.pointers.length === 2, 2_000);
    await nodes.runtime.advance(14 * 60_000);
    expect(await says()).toBe('polls');
    expect(await stateOf(nodes, node, id)).toBe('arrived');
    await nodes.runtime.advance(2 * 60_000);
    expect(await alice.inbox({ wait_s: 5 })).toContain(`Your message ${id}`);
    expect(await stateOf(nodes, node, id)).toBe('arrived');
  });

  it('falls back when a pointer is refused or not followed, or the adapter closes [ON6]', async () => {
    for (const fails of ['drops', 'refuses', 'closes'] as const) {
      const { nodes, wakes, agent, says, ask } = await scene({ readWithinS: 60 });
      await nodes.settled(wakes.test(['bob']));
      expect(await says()).toBe('wakes');
      if (fails === 'closes') agent.open = false;
      else {
        agent.way = fails;
        await ask('are you there?');
      }
      await nodes.runtime.advance(61_000);
      expect(await says()).toBe('polls');
    }
  });

  it('is forgotten with the session', async () => {
    const { nodes, codingAgents, wakes, alice, bob, agent } = await scene();
    await nodes.settled(wakes.test(['bob']));
    wakes.detach(bob.member);
    bob.leave();
    await Client.join(nodes, codingAgents, 'bob');
    expect(await alice.call('mesh_peers', { match: 'bob' })).toContain('bob [polls]');
    await alice.send('bob', 'hello', { needs: 'reply' });
    await nodes.runtime.advance(5_000);
    expect(agent.pointers).toHaveLength(1);
    expect(wakes.rows).toEqual([]);
  });

  it('is tested automatically where the configuration says so', async () => {
    const { nodes, says } = await scene({ selfTest: true });
    await nodes.runtime.advance(5_000);
    expect(await says()).toBe('wakes');
  });
});

describe('the end of a turn', () => {
  const stop = (more: Partial<HeardHook> = {}): HeardHook => ({
    client: 'codex',
    moment: 'turn-ends',
    session: undefined,
    server: undefined,
    cwd: '/work',
    env: {},
    ancestors: [],
    ...more,
  });

  it('delivers mail that needs the agent, once, and sets next_turn [ON6]', async () => {
    const { nodes, wakes, agent, says, ask } = await scene();
    wakes.use('bob', 'no way in');
    expect(await nodes.settled(wakes.heardHook(stop()))).toBeUndefined();
    expect(await says()).toBe('next_turn');
    const id = await ask('the secret is fortytwo');
    const pointer = await nodes.settled(wakes.heardHook(stop()));
    expect(pointer).toContain(id);
    expect(pointer).not.toContain('fortytwo');
    expect(await nodes.settled(wakes.heardHook(stop()))).toBeUndefined();
    await nodes.settled(agent.look());
    await ask('another');
    expect(await nodes.settled(wakes.heardHook(stop()))).toBeDefined();
    await nodes.runtime.advance(301_000);
    expect(await says()).toBe('polls');
  });

  it('is attributed to one agent by session, by process, or by folder', async () => {
    const { nodes, codingAgents, wakes, ask } = await scene();
    wakes.use('bob', 'no way in');
    const carol = await Client.join(nodes, codingAgents, 'carol');
    wakes.attach(carol.member, { ...SESSION, parent: 77, session: 'thread-c' });
    wakes.use('carol', 'no way in');
    await ask('for bob');
    expect(await nodes.settled(wakes.heardHook(stop()))).toBeUndefined();
    expect(await nodes.settled(wakes.heardHook(stop({ ancestors: [78, 77] })))).toBeUndefined();
    expect(wakes.rows.map(({ turns }) => turns)).toEqual(['unseen', 'works']);
    wakes.heardCall(carol.member, undefined);
    expect(await nodes.settled(wakes.heardHook(stop({ client: 'gemini' })))).toBeUndefined();
    wakes.heardCall([...codingAgents.present].find(({ name }) => name === 'bob')!, 'thread-b');
    wakes.use('bob', 'no way in');
    expect(await nodes.settled(wakes.heardHook(stop({ session: 'thread-b' })))).toContain('alice');
  });
});

describe('hooks', () => {
  it('answer in each client’s own format [ON6]', () => {
    const answers = ['claude-code', 'codex', 'gemini', 'cursor'].map((client) => hookAnswer(client, 'mail'));
    expect(answers).toEqual([
      { decision: 'block', reason: 'mail' },
      { decision: 'block', reason: 'mail' },
      { decision: 'deny', reason: 'mail' },
      { followup_message: 'mail' },
    ]);
    expect(hookAnswer('gemini', undefined)).toEqual({});
    expect(hookAnswer('someone', 'mail')).toEqual({});
  });

  it('are read in each client’s own format', () => {
    expect(readHookCall('claude-code', 'Stop', { session_id: 's', cwd: '/w', stop_hook_active: true })).toMatchObject({
      moment: 'turn-ends',
      session: 's',
      cwd: '/w',
    });
    const cursor = { conversation_id: 'c', workspace_roots: ['/w'], status: 'completed', loop_count: 0 };
    expect(readHookCall('cursor', 'stop', cursor)).toMatchObject({ session: 'c', cwd: '/w' });
    expect(readHookCall('cursor', 'stop', { ...cursor, status: 'aborted' })).toBeUndefined();
    expect(readHookCall('gemini', 'AfterAgent', 'nonsense')).toMatchObject({ moment: 'turn-ends' });
    expect(readHookCall('gemini', 'Stop', {})).toBeUndefined();
    expect(readHookCall('someone', 'Stop', {})).toBeUndefined();
  });
});
