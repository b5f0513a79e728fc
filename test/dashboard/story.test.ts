import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { Story } from '../../src/http/dashboard/facts.js';
import type { JournalRow } from '../../src/mesh/audit/tables.js';
import type { TaskRow } from '../../src/node/control/rows.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { type Cluster, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { ScriptedModel } from '../scripted-model.js';

vi.setConfig({ testTimeout: 120_000 });

/** Fails once, so that its task is tried again. */
const WORKER = `let failures = 1;
export const setup = (agent) => agent.onTask(() => {
  if (failures-- > 0) throw new Error('it is hard');
  return { made: true };
});`;

const PLAN = `name: hard
tasks:
  - id: only
    description: Do it.
    agent: worker
    retries: 2
`;

/** A node whose agent mars asks before it writes a file, and whose worker fails once. */
async function desk(cluster: Cluster, args: readonly string[] = ['--no-dht']): Promise<ProcessNode> {
  const model = await ScriptedModel.start(({ messages }) => {
    const last = messages.at(-1)!;
    if (last.role === 'tool') return `done: ${last.content}`;
    return { text: 'I write it.', calls: [['write_file', { path: 'login.js', content: 'export const login = 1;\n' }]] };
  });
  cluster.onEnd(() => model.stop());
  const module = join(cluster.folder, 'worker.mjs');
  writeFileSync(module, WORKER);
  return cluster.start('desk', {
    args,
    config: {
      agents: { mars: { model: model.config }, worker: { module } },
      policy: [{ action: 'fs.write', decision: 'ask' }],
      hierarchy: { retryDelayMs: 20 },
    },
  });
}

/** Fails the first time that it is asked to fail first. */
const MAKER = `export const setup = (agent) => {
  agent.onTask((task) => {
    if (JSON.stringify(task.message ?? task).includes('Fail first') && agent.id !== 'sun' && globalThis.failed !== true) {
      globalThis.failed = true;
      throw new Error('not yet');
    }
    return { made: true };
  });
  agent.tool('weigh', {}, ({ kg }) => {
    if (kg < 0) throw new Error('nothing weighs less than nothing');
    return { kg };
  });
};`;

const words = ({ events }: Story) => events.map(({ word }) => word);

describe('ecliptic story', () => {
  it(
    'tells why a message was refused: its code, its rule and the rows that prove it [FC.20]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      await node.call('send', { as: 'mercury', to: 'mars', payload: { text: 'Hi.' }, type: 'request' }).catch(() => {});
      const [row] = await node.json<JournalRow[]>('log', '--agent', 'mercury');
      const story = await node.json<Story>('story', row!.envelopeId);
      expect(story).toMatchObject({
        ...{ id: row!.envelopeId, kind: 'message', state: 'refused', over: true, waits: null },
        parties: ['mercury', 'mars'],
        payload: { text: expect.stringContaining('Hi.'), cut: false },
      });
      expect(story.events).toMatchObject([
        {
          ...{ word: 'refused', from: 'mercury', to: 'mars', code: 'TIER_VIOLATION', node: node.key },
          rule: expect.stringContaining('may not open a conversation with'),
          proof: { kind: 'audit', text: expect.stringMatching(/^row \d+ of the journal, row \d+ of the audit log$/) },
        },
      ]);
      const text = (await node.run('story', row!.envelopeId.slice(0, 20))).stdout;
      expect(text).toMatch(/^message \w+: request from mercury to mars\nstate {3}refused/);
      expect(text).toMatch(/mercury → mars +refused +TIER_VIOLATION +request +rule: L\d/);
      expect(await node.call('replay', { id: row!.envelopeId })).toMatchObject({ asked: 1, differences: [] });

      await node.call('send', { as: 'sun', to: 'nobody', payload: 1, type: 'notification' }).catch(() => {});
      const unknown = await node.run('story', 'nothing');
      expect(unknown.code).toBe(1);
      expect(unknown.stderr).toContain('STORY_NOT_FOUND');
      expect(unknown.stderr).toContain('message, thread, task, proposal');
    }),
  );

  it(
    'tells what a durable message to an absent node waits for, and then that it was read [FC.21]',
    inCluster(async (cluster) => {
      const args = await cluster.argsFor('websocket');
      const node = await desk(cluster, args);
      const shelf = await cluster.start('shelf', {
        args,
        config: { roster: false, agents: { keeper: { module: cluster.witness() } } },
      });
      await node.admit(shelf);
      await untilConnected([node, shelf]);
      await until(async () => (await node.agents()).some(({ id }) => id === 'keeper'), 'the card has arrived');
      await shelf.stop();
      await until(async () => (await node.stateOf(shelf)) !== 'connected', 'the node is away');
      const to = `keeper@${shelf.key}`;
      const sent = await node.call<{ messageId: string }>('send', {
        ...{
          as: 'sun',
          to,
          payload: { text: 'x'.repeat(50_000) },
          type: 'notification',
          durable: true,
          ttlMs: 3_600_000,
        },
      });
      const before = await node.json<Story>('story', sent.messageId);
      expect(before).toMatchObject({ kind: 'message', state: 'stored', over: false, parties: ['sun', to] });
      expect(before.waits).toMatchObject({ for: shelf.key, reason: expect.stringContaining('shelf is away') });
      expect(before.waits!.until! - before.startedAt!).toBeGreaterThan(3_500_000);
      expect(before.events.find(({ word }) => word === 'stored')!.proof).toMatchObject({ kind: 'receipt' });
      expect(before.payload).toMatchObject({ cut: true });
      expect(before.payload!.text.length).toBeLessThan(before.payload!.chars);
      const text = (await node.run('story', sent.messageId)).stdout;
      expect(text).toMatch(/waits {3}for \w+: node shelf is away, until \S+ \(\d+ min/);

      await shelf.start();
      const after = await until(async () => {
        const story = await node.json<Story>('story', sent.messageId);
        return words(story).includes('arrived') ? story : undefined;
      }, 'it has arrived');
      expect(words(after)).toEqual(expect.arrayContaining(['allowed', 'stored', 'arrived']));
      const there = await shelf.json<Story>('story', sent.messageId);
      expect(there).toMatchObject({ kind: 'message', parties: expect.arrayContaining([`sun@${node.key}`, 'keeper']) });
    }),
  );

  it(
    'tells that a task waits for an approval, who decided, and the tool calls and threads around it [FC.22]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      const skill = (await node.agents()).find(({ id }) => id === 'mars')!.capabilities[0]!;
      const { http, token } = node.ready;
      const sent = cluster.run(['invoke', http, 'Write the login page.', '--token', token, '--skill', skill]);
      const asking = await until(async () => {
        const [task] = await node.json<TaskRow[]>('tasks', '--kind', 'a2a');
        const story = task && (await node.json<Story>('story', task.id));
        return story?.waits && words(story).includes('asked') ? story : undefined;
      }, 'the task asks');
      expect(asking).toMatchObject({
        ...{ kind: 'task', title: 'Write the login page.', over: false },
        parties: expect.arrayContaining(['operator', 'mars']),
        waits: { for: 'operator', until: expect.any(Number), reason: expect.stringContaining('the owner’s approval') },
      });
      const approval = asking.related.find(({ kind }) => kind === 'approval')!;
      expect(await node.json<Story>('story', approval.id)).toMatchObject({
        ...{ kind: 'approval', state: 'asked', over: false, waits: { for: 'operator' } },
        payload: { text: expect.stringContaining('login.js') },
      });
      await node.json('waiting', 'answer', `approval:${approval.id}`, 'allow-once');
      await sent;
      const done = await node.json<Story>('story', asking.id);
      expect(done).toMatchObject({ state: 'completed', over: true, waits: null, endedAt: expect.any(Number) });
      expect(words(done)).toEqual(expect.arrayContaining(['submitted', 'working', 'asked', 'allowed', 'completed']));
      const decided = await node.json<Story>('story', `approval:${approval.id}`);
      expect(decided).toMatchObject({ state: 'allowed', over: true });
      expect(decided.events.at(-1)).toMatchObject({
        ...{ from: 'operator', to: 'mars', word: 'allowed', text: 'operator decided: allow once' },
        proof: { kind: 'audit' },
      });
      const thread = done.related.find(({ kind }) => kind === 'thread')!;
      const talk = await node.json<Story>('story', `thread:${thread.id}`);
      expect(talk).toMatchObject({ kind: 'thread', parties: expect.arrayContaining(['operator', 'mars']) });
      expect(talk.events.some(({ link }) => link !== undefined)).toBe(true);
    }),
  );

  it(
    'tells each attempt of a task of a run, and why it was tried again [FC.23]',
    inCluster(async (cluster) => {
      const node = await desk(cluster);
      writeFileSync(join(node.home, 'plan.yaml'), PLAN);
      expect((await node.run('run', 'plan.yaml')).code).toBe(0);
      const [run] = await node.json<{ id: string }[]>('runs');
      const story = await node.json<Story>('story', `${run!.id.slice(0, 20)}/only`);
      expect(story).toMatchObject({ id: `${run!.id}/only`, kind: 'run task', state: 'done', over: true });
      expect(story.events.map(({ word, attempt = 0, code }) => [word, attempt, code])).toEqual([
        ['running', 1, null],
        ['failed', 1, 'HANDLER_FAILED'],
        ['pausing', 1, null],
        ['running', 2, null],
        ['finished', 2, null],
        ['done', 2, null],
      ]);
      expect(story.events[1]).toMatchObject({ text: expect.stringContaining('it is hard'), proof: { kind: 'row' } });
      const whole = await node.json<Story>('story', run!.id);
      expect(whole).toMatchObject({ kind: 'run', title: 'plan hard', state: 'done', over: true });
      expect([words(whole)[0], words(whole).at(-1)]).toEqual(['opened', 'done']);
      expect(whole.related).toContainEqual({ id: `${run!.id}/only`, kind: 'run task' });
    }),
  );

  it(
    'tells who decided about a task of a run that failed: the agent that was asked [FC.23]',
    inCluster(async (cluster) => {
      const [adviser, worker] = [join(cluster.folder, 'adviser.mjs'), join(cluster.folder, 'failing.mjs')];
      writeFileSync(adviser, "export const setup = (agent) => agent.onRequest(() => ({ action: 'operator' }));");
      writeFileSync(worker, "export const setup = (agent) => agent.onTask(() => { throw new Error('never'); });");
      const agents = { sun: { module: adviser, tier: 0 as const }, worker: { module: worker } };
      const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false, agents } });
      writeFileSync(join(node.home, 'plan.yaml'), PLAN.replace('retries: 2', 'retries: 0'));
      expect((await node.run('run', 'plan.yaml')).code).not.toBe(0);
      const [run] = await node.json<{ id: string; agent: string }[]>('runs');
      const { events } = await node.json<Story>('story', `${run!.id}/only`);
      const said = events.filter(({ word }) => word === 'failed' || word === 'answered');
      expect(said.map(({ word, from, text }) => [word, from, text])).toEqual([
        ['failed', 'worker', 'never'],
        ['answered', 'sun', 'operator'],
      ]);
    }),
  );

  it(
    'tells of proposals, swarms and their sub-tasks, tool calls, leases and signed mail [FC.28]',
    inCluster(async (cluster) => {
      const module = join(cluster.folder, 'maker.mjs');
      writeFileSync(module, MAKER);
      const capabilities = [{ id: 'making', name: 'making', description: 'Makes things.' }];
      const maker = { module, tier: 1 as const, capabilities };
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: { roster: false, agents: { sun: { module, tier: 0 }, one: maker, two: maker } },
      });
      await node.call('propose', { description: 'Make a chair.', as: 'sun', to: 'one' });
      const [row] = await node.json<{ proposal: { proposalId: string } }[]>('proposals');
      const proposal = await node.json<Story>('story', row!.proposal.proposalId);
      expect(proposal).toMatchObject({ kind: 'proposal', title: 'Make a chair.', state: 'completed', over: true });
      expect(proposal.parties.slice(0, 2)).toEqual(['sun', 'one']);
      expect(words(proposal)).toEqual(expect.arrayContaining(['submitted', 'accepted', 'completed']));
      expect(proposal.events[0]).toMatchObject({ from: 'sun', to: 'one', proof: { kind: expect.any(String) } });

      const plan = JSON.stringify({
        subTasks: [{ id: 'a', description: 'Fail first.', requiredCapabilities: ['making'] }],
      });
      const swarm = await node.call<{ id: string }>('swarm.start', {
        task: 'Make much.',
        capabilities: ['making'],
        plan,
        as: 'sun',
      });
      const ended = await until(async () => {
        const story = await node.json<Story>('story', `${swarm.id}/a`);
        return story.over ? story : undefined;
      }, 'the sub-task is over');
      expect(ended).toMatchObject({ kind: 'sub-task', title: 'Fail first.', state: 'completed' });
      expect(ended.events.map(({ word, attempt = 0 }) => [word, attempt])).toEqual([
        ['pending', 0],
        ['running', 1],
        ['failed', 1],
        ['running', 2],
        ['completed', 2],
      ]);
      expect(ended.events[2]).toMatchObject({ text: expect.stringContaining('not yet'), proof: { kind: 'log' } });
      const whole = await node.json<Story>('story', swarm.id);
      expect(whole).toMatchObject({ kind: 'swarm', title: 'Make much.' });
      // The end is when this node learnt of it.
      expect(ended.endedAt).toBeGreaterThanOrEqual(ended.startedAt!);
      expect(ended.events.at(-1)!.at).toBe(ended.endedAt);
      const over = await until(async () => {
        const story = await node.json<Story>('story', swarm.id);
        return story.over ? story : undefined;
      }, 'the swarm is over');
      expect(over.endedAt).toBeGreaterThanOrEqual(ended.endedAt!);
      expect(over.events.at(-1)).toMatchObject({ word: 'completed', at: over.endedAt });
      expect((await node.run('story', swarm.id)).stdout).toMatch(/^state +completed, began .*, took /m);
      const [subTask] = await node.json<TaskRow[]>('tasks', '--kind', 'swarm');
      expect(Date.parse(subTask!.updatedAt!)).toBe(ended.endedAt);
      await node.crash();
      await node.start();
      const restored = await until(async () => {
        const story = await node.json<Story>('story', `${swarm.id}/a`).catch(() => undefined);
        return story?.over ? story : undefined;
      }, 'the swarm is known again');
      // The time of a sub-task's end is not on disk; that of the swarm's is.
      expect(restored.endedAt).toBeNull();
      expect((await node.run('story', restored.id)).stdout).toContain('when it ended is not recorded');
      expect((await node.json<Story>('story', swarm.id)).endedAt).toEqual(expect.any(Number));
      expect(whole.related).toContainEqual({ id: `${swarm.id}/a`, kind: 'sub-task' });

      await node.json('call', 'one.weigh', '{"kg":2}');
      await node.run('call', 'one.weigh', '{"kg":-1}');
      const calls = await node.call<{ id: string; tool: string }[]>('invocations');
      const [good, bad] = calls.filter(({ tool }) => tool === 'one.weigh');
      expect(await node.json<Story>('story', good!.id)).toMatchObject({
        ...{ kind: 'tool call', state: 'completed', parties: ['operator', 'one'], over: true },
        payload: { text: expect.stringContaining('"kg": 2') },
      });
      const failed = await node.json<Story>('story', bad!.id);
      expect(failed).toMatchObject({ state: 'failed' });
      expect(failed.events[1]).toMatchObject({ from: 'one', to: 'operator', code: expect.any(String) });

      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_lease', { action: 'take', paths: ['src/a.ts'], why: 'I change it' });
      const [lease] = await node.json<{ id: string }[]>('leases');
      expect(await node.json<Story>('story', `lease:${lease!.id}`)).toMatchObject({
        ...{ kind: 'lease', over: false, parties: ['alice'] },
        waits: { for: 'alice', until: expect.any(Number) },
      });
      const { id } = await node.json<{ id: string }>('tell', 'alice', 'Well done.');
      const mail = await node.json<Story>('story', id);
      expect(mail).toMatchObject({ kind: 'message', over: false, waits: { for: 'alice', until: expect.any(Number) } });
      expect(mail.events[0]).toMatchObject({ word: 'signed', from: 'operator', proof: { kind: 'signature' } });
      expect((await node.run('story', swarm.id.slice(0, 3))).stderr).toContain('AMBIGUOUS_ID');
    }),
  );

  it(
    'tells the events of all devices of the owner, and names one that is away [FC.29]',
    inCluster(async (cluster) => {
      const args = await cluster.argsFor('websocket');
      const node = await desk(cluster, args);
      const agents = { keeper: { module: cluster.witness() } };
      const shelf = await cluster.start('shelf', { args, config: { roster: false, agents } });
      await node.admit(shelf, { owner: true });
      await untilConnected([node, shelf]);
      await until(async () => (await node.agents()).some(({ id }) => id === 'keeper'), 'the card has arrived');
      const to = `keeper@${shelf.key}`;
      const { messageId } = await node.call<{ messageId: string }>('send', {
        ...{ as: 'sun', to, payload: { text: 'Keep it.' }, type: 'notification', durable: true },
      });
      const both = await until(async () => {
        const story = await node.json<Story>('story', messageId);
        return new Set(story.events.map((event) => event.node)).size === 2 ? story : undefined;
      }, 'the story has the events of both nodes');
      expect(both.parties).toEqual(['sun', to]);
      expect(both.nodes).toMatchObject([
        { name: 'desk', state: 'complete' },
        { name: 'shelf', state: 'complete' },
      ]);
      expect(both.events.filter(({ word }) => word === 'arrived')).toHaveLength(1);
      expect(both.events.filter(({ word }) => word === 'allowed').map((event) => event.node)).toEqual([
        node.key,
        shelf.key,
      ]);

      await shelf.stop();
      const alone = await until(async () => {
        const story = await node.json<Story>('story', messageId);
        return story.nodes[1]?.state === 'missing' ? story : undefined;
      }, 'the other node is missing');
      expect(alone.nodes[1]).toMatchObject({ name: 'shelf', since: expect.any(Number), reason: expect.any(String) });
      expect((await node.run('story', messageId)).stdout).toContain('missing events of shelf');
      expect((await node.json<Story>('story', messageId, '--here')).nodes).toHaveLength(1);
    }),
  );
});
