import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SubTaskInput } from '../../src/agent/agent-swarms.js';
import type { TaskInput } from '../../src/plans/dispatcher.js';
import { RalphLoop } from '../../src/plans/ralph-loop.js';
import type { RunNews, RunView } from '../../src/plans/run-news.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { type NetworkedNode, Nodes } from '../nodes-fixture.js';
// The loop loads it with its first plan, and the simulated clock does not wait for real files.
import '../../src/plans/plan-check.js';

/** The input of a swarm member: its sub-task, and the input of the whole task. */
interface Share extends SubTaskInput {
  readonly input: TaskInput;
}

let nodes: Nodes;
let here: NetworkedNode;
let there: NetworkedNode;
let loop: RalphLoop;
let shares: { who: string; share: Share }[];

beforeEach(async () => {
  nodes = new Nodes();
  const store = new MemoryStore();
  here = await nodes.start({ store });
  there = await nodes.start({ store: new MemoryStore() });
  await nodes.join(there, here);
  shares = [];
  here.agent({ id: 'sun' });
  const { runtime } = nodes;
  const { registry, router } = here;
  const agent = (id: string) => here.agentById(id);
  loop = new RalphLoop({ runtime, store, registry, router, agent }, { retryDelayMs: 10, tiers: { 2: { retries: 1 } } });
});

afterEach(async () => {
  await nodes.settled(loop.close());
  for (const node of [here, there]) await nodes.settled(node.stop());
});

/** An agent that does its share of the work of swarms. */
function member(node: NetworkedNode, id: string, capability: string, work: (share: Share) => unknown): void {
  node.agent({ id, tier: 2, capabilities: [capability] }).onTask((task) => {
    const share = task.message.parts.find(({ data }) => data !== undefined)!.data as Share;
    shares.push({ who: id, share });
    return work(share);
  });
}

async function run(tasks: readonly object[]): Promise<{ view: RunView; news: RunNews[] }> {
  const news: RunNews[] = [];
  const { id } = await nodes.settled(loop.start({ text: JSON.stringify({ tasks }), file: '/plan.json' }));
  await nodes.settled(loop.follow(id, (one) => news.push(one), new AbortController().signal));
  return { view: await nodes.settled(loop.view(id)), news };
}

describe('a task for a swarm', () => {
  it('goes from the Ralph loop through swarm and router to agents of both nodes, and its outcome comes back [IT1 RL2 R8.6]', async () => {
    member(here, 'mars', 'backend.api', ({ input }) => ({ api: input.results }));
    member(there, 'venus', 'frontend.ui', async ({ results }) => {
      await new Promise<void>((resolve) => {
        nodes.runtime.setTimer(resolve, 500);
      });
      return { ui: results };
    });
    await nodes.until(() => here.registry.getById('venus') !== undefined);
    here.agent({ id: 'pluto', tier: 2 }).onRequest(() => 'tables');
    const sent: string[] = [];
    const stop = here.observability.subscribe(({ type, messageType, recipient }) => {
      if (type === 'message-sent' && messageType === 'task-proposal') sent.push(recipient!);
    });
    const { view, news } = await run([
      { id: 'tables', description: 'Design.', agent: 'pluto' },
      {
        id: 'app',
        description: 'Build it.',
        dependsOn: ['tables'],
        swarm: {
          capabilities: ['backend.api', 'frontend.ui'],
          subTasks: [
            { id: 'server', requiredCapabilities: ['backend.api'] },
            { id: 'page', requiredCapabilities: ['frontend.ui'], dependsOn: ['server'], input: { color: 'red' } },
          ],
        },
      },
    ]);
    stop();
    expect(view.status).toBe('done');
    const server = { api: { tables: 'tables' } };
    expect(view.tasks[1]!.result).toEqual({ server, page: { ui: { server } } });
    expect(
      view.tasks[1]!.by!.split(', ')
        .map((address) => address.split('@')[0])
        .sort(),
    ).toEqual(['mars', 'venus']);
    // Each proposal went through the router, to the capable agents only.
    expect(sent.map((address) => address.split('@')[0]).sort()).toEqual(['mars', 'pluto', 'venus']);
    expect(shares.map(({ who, share }) => [who, share.subTask, share.input.task, share.input.attempt])).toEqual([
      ['mars', 'server', 'app', 1],
      ['venus', 'page', 'app', 1],
    ]);
    expect(shares[1]!.share.input).toMatchObject({ input: { color: 'red' }, results: { tables: 'tables' } });
    expect(news).toContainEqual({
      event: 'progress',
      run: view.id,
      id: 'app',
      by: null,
      value: { swarm: expect.any(String), status: 'active', done: 1, of: 2 },
    });
  });

  it('is also a task whose capabilities no single agent has, but several have between them [T-C10 R8.1]', async () => {
    member(here, 'mars', 'backend.api', ({ subTask }) => `mars: ${subTask}`);
    member(there, 'venus', 'frontend.ui', ({ subTask, input }) => `venus: ${subTask} of ${input.task}`);
    await nodes.until(() => here.registry.getById('venus') !== undefined);
    const app = { id: 'app', description: 'Build it.', capabilities: ['backend.api', 'frontend.ui'] };
    const { view } = await run([app, { ...app, id: 'api', capabilities: ['backend.api'] }]);
    expect(view.tasks[0]).toMatchObject({
      phase: 'done',
      result: { 'backend.api': 'mars: backend.api', 'frontend.ui': 'venus: frontend.ui of app' },
    });
    expect(view.tasks[1]).toMatchObject({ phase: 'done', by: 'mars' });
    // The plan is the same as before: running it again repeats nothing, also when one agent has both by now.
    const both = ['backend.api', 'frontend.ui'];
    here.agent({ id: 'terra', tier: 2, capabilities: both }).onTask(() => 'terra alone');
    expect((await run([app, { ...app, id: 'api', capabilities: ['backend.api'] }])).view.id).toBe(view.id);
    const { view: changed } = await run([{ ...app, description: 'Build it again.' }]);
    expect(changed.tasks[0]).toMatchObject({ phase: 'done', result: 'terra alone' });
  });

  it('is split by a planner, or else by capability', async () => {
    member(here, 'mars', 'backend.api', ({ subTask }) => subTask);
    const asked: unknown[] = [];
    here.agent({ id: 'jupiter' }).onRequest(({ payload }) => {
      asked.push(payload);
      return { subTasks: [{ id: 'only', requiredCapabilities: ['backend.api'] }] };
    });
    const swarm = { capabilities: ['backend.api'] };
    const { view } = await run([
      { id: 'a', description: 'Plain.', swarm },
      { id: 'b', description: 'Planned.', swarm: { ...swarm, planner: 'jupiter' }, input: { x: 1 } },
    ]);
    expect(view.tasks.map(({ result }) => result)).toEqual([{ 'backend.api': 'backend.api' }, { only: 'only' }]);
    expect(asked).toMatchObject([
      { task: 'Planned.', requiredCapabilities: ['backend.api'], input: { input: { x: 1 } } },
    ]);
  });

  it('that takes too long is cancelled with its sub-tasks [RL6]', async () => {
    const aborted: number[] = [];
    here.agent({ id: 'mars', tier: 2, capabilities: ['backend.api'] }).onTask((task) => {
      const { input } = task.message.parts.find(({ data }) => data !== undefined)!.data as Share;
      task.signal.addEventListener('abort', () => aborted.push(input.attempt));
      return input.attempt === 1 ? new Promise(() => {}) : 'in time';
    });
    const { view } = await run([
      { id: 'a', description: 'Slow.', swarm: { capabilities: ['backend.api'] }, timeoutMs: 20_000 },
    ]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 2, result: { 'backend.api': 'in time' } });
    await nodes.until(() => aborted.length > 0);
    expect(aborted).toEqual([1]);
  });

  it('on another node has time while an owner decides there [AP.4]', async () => {
    there.agent({ id: 'mars', tier: 2, capabilities: ['backend.api'] }).onTask(async (task) => {
      task.waiting(1, 'waits for the owner’s approval');
      await new Promise<void>((resolve) => void nodes.runtime.setTimer(resolve, 60_000));
      task.waiting(0);
      return 'allowed';
    });
    await nodes.until(() => here.registry.findByCapability('backend.api').length > 0);
    const { view } = await run([
      { id: 'a', description: 'Slow.', swarm: { capabilities: ['backend.api'] }, timeoutMs: 20_000 },
    ]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 1, result: { 'backend.api': 'allowed' } });
  });

  it('that the swarm cannot do comes back to the loop, which retries and then escalates [RL5]', async () => {
    member(here, 'mars', 'backend.api', () => {
      throw new Error('cannot');
    });
    const { view } = await run([
      { id: 'a', description: 'Hard.', swarm: { capabilities: ['backend.api'] } },
      { id: 'b', description: 'After.', agent: 'mars', dependsOn: ['a'] },
    ]);
    expect(view.status).toBe('escalated');
    expect(view.tasks[0]).toMatchObject({ phase: 'escalated', attempt: 2, reason: { code: 'SWARM_FAILED' } });
    expect(view.tasks[0]!.reason!.message).toContain('cannot');
    expect(view.tasks[1]).toMatchObject({ phase: 'blocked' });
  });
});
