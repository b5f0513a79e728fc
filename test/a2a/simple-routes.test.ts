import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { A2ATask } from '../../src/a2a/protocol/simple.js';
import { createNode } from '../../src/node/compose.js';
import { said, TaskNode } from './task-node.js';

let served: TaskNode;

beforeAll(async () => {
  served = await TaskNode.start();
});

afterAll(() => served.stop());

async function send(body: unknown, headers: Record<string, string> = {}): Promise<{ status: number; task: A2ATask }> {
  const answer = await served.post('/a2a/tasks/send', body, headers);
  return { status: answer.status, task: (await answer.json()) as A2ATask };
}

async function get(id: string, headers: Record<string, string> = {}): Promise<A2ATask> {
  return (await (await served.get(`/a2a/tasks/${id}`, headers)).json()) as A2ATask;
}

/** Asks again and again, and notes every state it sees. */
async function poll(id: string, states: string[] = []): Promise<A2ATask & { states: string[] }> {
  for (;;) {
    const task = await get(id);
    if (states.at(-1) !== task.state) states.push(task.state);
    if (task.state === 'completed' || task.state === 'failed') return { ...task, states };
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const texts = ({ messages }: A2ATask, role: string) =>
  messages.filter((message) => message.role === role).map(({ parts }) => parts[0]!.text);

describe('a task on the simple routes', () => {
  it('goes to the first agent with a project, and its state only moves forward [GI1 GI3]', async () => {
    const { status, task } = await send({ message: 'hello' });
    expect(status).toBe(200);
    expect(task).toEqual({
      id: expect.any(String),
      state: expect.stringMatching(/^(submitted|working)$/),
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'hello' }] }],
      sessionId: expect.any(String),
      createdAt: expect.stringMatching(/Z$/),
      updatedAt: expect.stringMatching(/Z$/),
    });
    const done = await poll(task.id, [task.state]);
    const order = ['submitted', 'working', 'completed'];
    expect(done.states.map((state) => order.indexOf(state))).toEqual(
      [...done.states.map((state) => order.indexOf(state))].sort((a, b) => a - b),
    );
    expect(texts(done, 'agent')).toEqual(['thinking', 'you said hello']);
  });

  it('finds an agent of a project for the owner only [BG.5]', async () => {
    const { registry } = served.node;
    const agent = served.node.agent({ id: 'secret', capabilities: ['secret.skill'] }).onTask(() => 'done');
    const token = served.gateway.tokens.lend('outside', undefined);
    const ask = () => send({ message: 'hi', skill: 'secret.skill' }, { Authorization: `Bearer ${token}` });
    registry.policy.setProjects({ agents: new Map([['secret', '/site']]), clients: new Map() });
    expect(await ask()).toMatchObject({ status: 404, task: { error: { code: 'CAPABILITY_NOT_FOUND' } } });
    const card = await served.get('/.well-known/agent-card.json', { Authorization: `Bearer ${token}` });
    expect(await card.text()).not.toContain('secret');
    const { task } = await send({ message: 'hi', skill: 'secret.skill' });
    expect(await poll(task.id)).toMatchObject({ state: 'completed' });
    agent.leave();
  });

  it('also takes its parameters under params, and a skill that names its agent', async () => {
    const { task } = await send({ method: 'tasks/send', params: { message: 'go', skill: 'tooled.github_star_repo' } });
    expect(texts(await poll(task.id), 'agent')).toEqual(['did tooled.github_star_repo']);
  });

  it('completes when the agent is done, and fails when it throws [GI2]', async () => {
    const broken = await served.result('SendMessage', { ...said('x'), tenant: 'broken' });
    expect(await get(broken.task.id)).toMatchObject({ state: 'failed' });
    expect(texts(await get(broken.task.id), 'agent')).toEqual(['no disk']);
    const canceled = await served.hold('canceled');
    await served.result('CancelTask', { id: canceled });
    expect(await get(canceled)).toMatchObject({ state: 'failed' });
    const asked = await served.result('SendMessage', { ...said('x'), tenant: 'asker' });
    expect(await get(asked.task.id)).toMatchObject({ state: 'working' });
  });

  it('does not change after it has ended, whatever its agent still sends [GI1]', async () => {
    const id = await served.hold('frozen');
    const { task: handle } = served.held.get('frozen')!;
    await served.result('CancelTask', { id });
    const ended = await get(id);
    handle.progress('still here');
    handle.artifact('and this');
    served.held.get('frozen')!.finish('done');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await get(id)).toEqual(ended);
  });

  it('that takes too long fails, and its agent is aborted [GI6 GI7 GS2]', async () => {
    const slow = 'mercury';
    const aborted: string[] = [];
    served.node.agent({ id: slow, capabilities: ['mull'] }).onTask(
      (task) =>
        new Promise((_, reject) => {
          task.signal.addEventListener('abort', () => {
            aborted.push(task.text);
            reject(task.signal.reason);
          });
        }),
    );
    const { task } = await send({ message: 'ponder', skill: 'mull', timeoutMs: 1_000 });
    const begun = performance.now();
    const done = await poll(task.id);
    expect(performance.now() - begun).toBeGreaterThan(900);
    expect([done.state, texts(done, 'agent')]).toEqual(['failed', ['Task timed out']]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(aborted).toEqual(['ponder']);
    served.node.agentById(slow).leave();
  });

  it('whose question is not answered times out as well [GI6]', async () => {
    served.node.agent({ id: 'venus', capabilities: ['wonder'] }).onTask((task) => task.ask('why?'));
    const { task } = await send({ message: 'so', skill: 'wonder', timeoutMs: 1_000 });
    expect((await poll(task.id)).state).toBe('failed');
    served.node.agentById('venus').leave();
  });

  it('whose agent leaves fails', async () => {
    const agent = served.node.agent({ id: 'mars' });
    agent.onTask(() => new Promise(() => {}));
    const params = { ...said('x'), tenant: 'mars', configuration: { returnImmediately: true } };
    const { task } = await served.result('SendMessage', params);
    agent.leave();
    expect((await poll(task.id)).state).toBe('failed');
  });

  it('is not found by another caller, like a task that never existed', async () => {
    const { task } = await send({ message: 'mine' });
    const bob = { Authorization: `Bearer ${served.token('bob')}` };
    const answers = [await served.get(`/a2a/tasks/${task.id}`, bob), await served.get('/a2a/tasks/nobody')];
    for (const answer of answers) {
      expect([answer.status, await answer.json()]).toEqual([404, { error: 'Task not found', code: 'TASK_NOT_FOUND' }]);
    }
  });

  it.each([
    [{}, 400],
    [{ message: '' }, 400],
    [{ message: 'x', timeoutMs: 999 }, 400],
    [{ message: 'x', timeoutMs: 600_001 }, 400],
    [{ message: 'x', skill: 'nobody.has-it' }, 404],
    ['{', 400],
  ])('is refused for %j', async (body, status) => {
    expect((await served.post('/a2a/tasks/send', body)).status).toBe(status);
  });

  it('without any agent that could take it is refused [GE1 GS5]', async () => {
    const node = await createNode();
    const { url } = await node.serve({ port: 0, open: true });
    const answer = await fetch(`${url}/a2a/tasks/send`, { method: 'POST', body: '{"message":"x"}' });
    expect([answer.status, JSON.stringify(await answer.json())]).toEqual([
      404,
      expect.stringContaining('Agent with default project'),
    ]);
    await node.stop();
  });
});

describe('finished tasks', () => {
  it('are forgotten, a hundred at a time above a thousand, while running tasks are kept [GI4 GI5]', async () => {
    const node = await TaskNode.start();
    const active = await node.hold('stays');
    const ids: string[] = [];
    for (let i = 0; i < 1_000; i++) ids.push((await node.result('SendMessage', said(`${i}`))).task.id);
    const total = async () => (await node.result<{ totalSize: number }>('ListTasks', {})).totalSize;
    expect(await total()).toBe(901);
    expect((await node.get(`/a2a/tasks/${ids[99]}`)).status).toBe(404);
    expect((await node.get(`/a2a/tasks/${ids[100]}`)).status).toBe(200);
    expect((await node.get(`/a2a/tasks/${active}`)).status).toBe(200);
    await node.stop();
  });
});

describe('the skills of a card', () => {
  it('are the live tools, by humanized names and with tags [GI12]', async () => {
    const skills = async () => {
      const answer = await fetch(`${served.url}/.well-known/agent-card.json`);
      return ((await answer.json()) as { skills: { id: string; name: string; tags: string[] }[] }).skills;
    };
    expect(await skills()).toEqual([
      expect.objectContaining({
        id: 'tooled.github_star_repo',
        name: 'GitHub Star Repo',
        tags: ['github', 'social', 'repository'],
      }),
    ]);
    const agent = served.node.agentById('plain');
    agent.tool('web_search', { inputSchema: z.object({}) }, () => 'found');
    expect((await skills()).map(({ name }) => name)).toEqual(['Web Search', 'GitHub Star Repo']);
    agent.withdraw('tool', 'web_search');
    expect((await skills()).map(({ name }) => name)).toEqual(['GitHub Star Repo']);
  });

  it('of an agent are its own tools', async () => {
    const skillsOf = async (id: string) => {
      const answer = await served.get(`/api/agents/${id}/agent-card`);
      return answer.ok
        ? ((await answer.json()) as { skills: { id: string }[] }).skills.map((one) => one.id)
        : answer.status;
    };
    expect(await skillsOf('tooled')).toEqual(['tooled.github_star_repo']);
    expect(await skillsOf('echo')).toEqual([]);
    expect(await skillsOf('nobody')).toBe(404);
    expect(await skillsOf('%E0%A4%A')).toBe(404);
  });

  it('leave out tools of sandboxes that the caller is not in', async () => {
    served.node.agent({ id: 'hidden', sandbox: 'box' }).tool('secret_tool', { description: 'Hidden.' }, () => 'x');
    const seen = async (headers: Record<string, string>) => {
      const card = await served.result<{ skills: { id: string }[] }>('GetExtendedAgentCard', {}, headers);
      return card.skills.some(({ id }) => id === 'hidden.secret_tool');
    };
    const { token } = served.gateway.tokens.create('inside', 'box');
    const { token: other } = served.gateway.tokens.create('elsewhere', 'another');
    expect(await seen({ Authorization: `Bearer ${other}` })).toBe(false);
    expect(await seen({ Authorization: `Bearer ${token}` })).toBe(true);
    expect(await seen({})).toBe(true);
    served.node.agentById('hidden').leave();
  });
});
