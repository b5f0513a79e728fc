import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LoopWorld } from '../../test/coordination/loop-world.js';
import type { AgentTask } from '../agent/agent-tasks.js';
import { USAGE, type Usage } from '../agent/usage.js';
import type { RunNews } from './run-news.js';

let world: LoopWorld;

beforeEach(async () => {
  world = await LoopWorld.start({ retryDelayMs: 10 });
});

afterEach(() => world.stop());

/** An agent with capabilities that writes down the attempts it takes, as `agent:task.attempt`. */
function able(id: string, capabilities: readonly string[], taken: string[], work = (_attempt: number): unknown => id) {
  world.node.agent({ id, capabilities: [...capabilities] }).onTask((task) => {
    const data = task.message.parts.find((part) => part.data !== undefined)!.data as Record<string, unknown>;
    const { task: name, attempt } = (data.subTask === undefined ? data : data.input) as never;
    taken.push(`${id}:${data.subTask ?? name}.${attempt}`);
    return work(attempt);
  });
}

function report(task: AgentTask, usage: Partial<Usage>): void {
  task.progress({ data: { [USAGE]: usage } });
}

describe('a task that is handed out', () => {
  it('goes to a swarm when it is divisible, one sub-task per capability [WK.P4]', async () => {
    const taken: string[] = [];
    able('mars', ['api', 'ui'], taken);
    able('venus', ['ui'], taken);
    const whole = { id: 'whole', capabilities: ['api', 'ui'] };
    const view = await world.run([whole, { ...whole, id: 'parts', divisible: true, dependsOn: ['whole'] }]);
    expect(view.status).toBe('done');
    expect(view.tasks[0]!.result).toBe('mars');
    expect(Object.keys(view.tasks[1]!.result as object)).toEqual(['api', 'ui']);
    expect(taken.slice(1).map((one) => one.slice(one.indexOf(':')))).toEqual([':api.1', ':ui.1']);
  });

  it('is split by its planner, else by the plan’s, which get text and outputSchema [WK.P4 WK.P6]', async () => {
    const taken: string[] = [];
    const asked: Record<string, unknown>[] = [];
    able('mars', ['api'], taken);
    able('venus', ['ui'], taken);
    for (const id of ['jupiter', 'saturn']) {
      world.node.agent({ id }).onRequest(({ payload }) => {
        asked.push({ id, ...(payload as object) });
        // As an agent without structured output would answer.
        return `Here it is:\n\`\`\`json\n{"subTasks":[{"id":"${id}","requiredCapabilities":["api"]}]}\n\`\`\``;
      });
    }
    const view = await world.run(
      [
        // No single agent has both.
        { id: 'a', capabilities: ['api', 'ui'], validate: { schema: { type: 'object' } } },
        { id: 'b', capabilities: ['api'], divisible: true, planner: 'saturn', dependsOn: ['a'] },
      ],
      { plan: { planner: 'jupiter' } },
    );
    expect(view.tasks.map(({ result }) => result)).toEqual([{ jupiter: 'mars' }, { saturn: 'mars' }]);
    expect(asked).toMatchObject([
      { id: 'jupiter', task: 'Do it.', requiredCapabilities: ['api', 'ui'] },
      { id: 'saturn', task: 'Do it.', requiredCapabilities: ['api'] },
    ]);
    for (const { text, outputSchema } of asked) {
      expect(text).toContain('Do it.');
      expect(outputSchema).toMatchObject({ type: 'object', required: ['subTasks'], additionalProperties: false });
    }
  });

  it('never goes to an agent without a worker, alone or in a swarm [WK.P4]', async () => {
    const taken: string[] = [];
    // The first with both capabilities, and the first with each, have no worker.
    world.node.agent({ id: 'idle', capabilities: ['api', 'ui'] });
    able('mars', ['api'], taken);
    able('venus', ['ui'], taken);
    await world.until(() => world.node.registry.getById('idle')?.status?.state === 'unstaffed');
    const view = await world.run([
      { id: 'a', capabilities: ['api', 'ui'] },
      { id: 'b', capabilities: ['ui'], dependsOn: ['a'] },
    ]);
    expect(view.status).toBe('done');
    expect(taken).toEqual(['mars:api.1', 'venus:ui.1', 'venus:b.1']);
    await expect(world.start([{ id: 'c', agent: 'idle' }])).rejects.toMatchObject({
      code: 'INVALID_PLAN',
      message: expect.stringContaining('NO_WORKER'),
    });
  });

  it('returns with feedback to the agent that had it, also after a restart, while that agent can take it [WK.P5]', async () => {
    const taken: string[] = [];
    const begin = (...agents: readonly string[]) => {
      for (const id of agents) able(id, ['work'], taken, (attempt) => (attempt === 2 ? world.wait(60_000) : id));
      world.node.agent({ id: 'mercury' }).onRequest(({ payload }) => {
        const { attempt } = payload as { attempt: number };
        if (attempt === 4) void world.node.agentById('venus').leave();
        return { verdict: attempt > 4 ? 'approved' : 'needs-revision', feedback: `again ${attempt}` };
      });
    };
    begin('venus');
    const validate = { agent: 'mercury' };
    const { id } = await world.start([{ id: 'a', capabilities: ['work'], validate, retries: 5 }]);
    // The second attempt is under way when the node dies. Without the feedback, the next one would be for mars.
    await world.until(() => taken.includes('venus:a.2'));
    world = await world.crashed({ retryDelayMs: 10 });
    begin('mars', 'venus');
    await world.settled(world.loop.resume());
    const view = await world.ended(id);
    expect(taken).toEqual(['venus:a.1', 'venus:a.2', 'venus:a.3', 'venus:a.4', 'mars:a.5']);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', by: 'mars', result: 'mars', attempt: 5 });
  });

  it('gets the schema and the criteria of its result [WK.P5]', async () => {
    world.worker('mars', () => ({ ok: true }));
    world.node.agent({ id: 'mercury' }).onRequest(() => 'approved');
    const validate = { schema: { type: 'object', required: ['ok'] }, criteria: ['It is short.'] };
    await world.run([{ id: 'a', agent: 'mars', validate }]);
    expect(world.inputs).toMatchObject([{ outputSchema: validate.schema, criteria: validate.criteria }]);
  });
});

describe('a result', () => {
  it('is judged by mercury against criteria, with structured output [WK.P6]', async () => {
    world.worker('mars', ({ attempt }) => (attempt === 1 ? 'long ``` text' : 'short'));
    const asked: Record<string, unknown>[] = [];
    world.node.agent({ id: 'mercury' }).onRequest(({ payload }) => {
      asked.push(payload as Record<string, unknown>);
      const { result } = payload as { result: string };
      return JSON.stringify(
        result === 'short'
          ? { verdict: 'approved', feedback: '' }
          : { verdict: 'needs-revision', feedback: 'It is too long.' },
      );
    });
    const validate = { criteria: ['It is short.', 'It is true.'] };
    const view = await world.run([{ id: 'a', agent: 'mars', validate }]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 2, result: 'short' });
    expect(world.inputs[1]!.feedback).toEqual(['It is too long.']);
    expect(asked[0]).toMatchObject({
      ...validate,
      outputSchema: { required: ['verdict', 'feedback'], additionalProperties: false },
    });
    const { text } = asked[0]!;
    for (const part of ['Do it.', '- It is short.\n- It is true.']) expect(text).toContain(part);
    // A fence in the result cannot end the fence around it.
    expect(text).toContain('````\nlong ``` text\n````');
  });

  it('cannot be judged by criteria without an agent that judges, which the check of the plan says [WK.P6]', async () => {
    world.worker('mars');
    const plan = [{ id: 'a', agent: 'mars', validate: { criteria: ['It is short.'] } }];
    await expect(world.start(plan)).rejects.toMatchObject({ message: expect.stringContaining('mercury cannot') });
  });

  it('is the checked value for later tasks, which pick parts of it [WK.P7]', async () => {
    world.worker('pluto', () => 'The tables:\n```json\n{"tables":[{"name":"accounts"}]}\n```\nDone.');
    world.worker('mars');
    const schema = { type: 'object', required: ['tables'] };
    const view = await world.run([
      { id: 'db.design', agent: 'pluto', validate: { schema } },
      {
        id: 'api',
        agent: 'mars',
        dependsOn: ['db.design'],
        input: { method: 'POST' },
        inputFrom: { all: 'db.design', name: 'db.design.tables.0.name' },
      },
    ]);
    const all = { tables: [{ name: 'accounts' }] };
    expect(view.tasks[0]!.result).toEqual(all);
    expect(world.inputs[1]).toMatchObject({
      input: { method: 'POST', all, name: 'accounts' },
      results: { 'db.design': all },
    });
  });

  it('that lacks a picked part fails the later task, with the part’s name [WK.P7]', async () => {
    world.worker('pluto', () => ({ tables: [] }));
    world.worker('mars');
    const api = { id: 'api', agent: 'mars', dependsOn: ['db'], inputFrom: { name: 'db.tables.0' }, retries: 0 };
    const view = await world.run([{ id: 'db', agent: 'pluto' }, api]);
    expect(view.tasks[1]).toMatchObject({ phase: 'escalated', reason: { code: 'INVALID_PLAN' } });
    expect(view.tasks[1]!.reason!.message).toContain('the result of "db" has no "tables.0"');
    expect(world.begun).toEqual(['db.1']);
    await expect(world.start([{ ...api, dependsOn: [] }])).rejects.toMatchObject({
      message: expect.stringContaining('tasks.0.inputFrom.name: "db.tables.0" must begin with a task of "dependsOn"'),
    });
  });

  it('is taken as it is when L0 accepts it without another [WK.P6]', async () => {
    world.worker('mars', () => 'nearly');
    world.node.agent({ id: 'mercury' }).onRequest(() => ({ verdict: 'rejected', feedback: 'no' }));
    const asked: Record<string, unknown>[] = [];
    world.node.agentById('sun').onRequest(({ payload }) => {
      asked.push(payload as Record<string, unknown>);
      return { action: 'accept', feedback: '', reason: '' };
    });
    const view = await world.run([{ id: 'a', agent: 'mars', validate: { agent: 'mercury' } }]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', result: 'nearly' });
    expect(asked).toMatchObject([{ escalation: { task: 'a' }, outputSchema: { additionalProperties: false } }]);
    expect(asked[0]!.text).toContain('nearly');
  });
});

describe('usage that workers report [WK.P8]', () => {
  it('is added up over attempts and tasks, and is no progress', async () => {
    world.worker('mars', async ({ attempt, task: id }, task) => {
      report(task, { inputTokens: 10, outputTokens: 1, modelCalls: 1, costUsd: 0.5 });
      await world.wait(50);
      report(task, { inputTokens: 5, outputTokens: 1, modelCalls: 1 });
      task.progress('half way');
      await world.wait(50);
      if (id === 'b' && attempt === 1) throw new Error('not yet');
      return id;
    });
    const { id } = await world.start([
      { id: 'a', agent: 'mars' },
      { id: 'b', agent: 'mars' },
    ]);
    const news: RunNews[] = [];
    await world.settled(world.loop.follow(id, (one) => news.push(one), new AbortController().signal));
    const once = { inputTokens: 15, outputTokens: 2, modelCalls: 2, costUsd: 0.5 };
    const twice = { inputTokens: 30, outputTokens: 4, modelCalls: 4, costUsd: 1 };
    const { tasks } = await world.settled(world.loop.view(id));
    expect(tasks.map(({ usage }) => usage)).toEqual([once, twice]);
    expect(news.at(-1)).toMatchObject({
      event: 'ended',
      usage: { inputTokens: 45, outputTokens: 6, modelCalls: 6, costUsd: 1.5 },
    });
    const progress = news.flatMap((one) => (one.event === 'progress' ? [one.value] : []));
    expect(progress).toEqual(['half way', 'half way', 'half way']);
  });

  it('is added up over the sub-tasks of a swarm, each report once', async () => {
    for (const id of ['mars', 'venus']) {
      world.node.agent({ id, capabilities: [`${id}.work`] }).onTask(async (task) => {
        for (let call = 0; call < 3; call++) {
          report(task, { inputTokens: 7, modelCalls: 1, costUsd: 0.25 });
          task.progress('thinking');
          report(task, { outputTokens: 2 });
          await world.wait(50);
        }
        return id;
      });
    }
    const view = await world.run([{ id: 'a', capabilities: ['mars.work', 'venus.work'] }]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', result: { 'mars.work': 'mars', 'venus.work': 'venus' } });
    expect(view.tasks[0]!.usage).toEqual({ inputTokens: 42, outputTokens: 12, modelCalls: 6, costUsd: 1.5 });
  });

  it('is still known after a crash, and so is that of the attempt that was lost', async () => {
    const begin = () =>
      world.worker('mars', async ({ attempt }, task) => {
        report(task, { inputTokens: 1, modelCalls: 1 });
        await world.wait(attempt === 1 ? 60_000 : 10);
        return 'it';
      });
    begin();
    const { id } = await world.start([{ id: 'a', agent: 'mars' }]);
    await world.until(() => world.begun.length === 1);
    await world.runtime.advance(2_000);
    world = await world.crashed();
    begin();
    await world.settled(world.loop.resume());
    const view = await world.ended(id);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 2, usage: { inputTokens: 2, modelCalls: 2 } });
    // Of values that are no amounts, none counts.
    world.worker('venus', (_, task) => report(task, { inputTokens: -5, outputTokens: 'many' as never }));
    const other = await world.run([{ id: 'b', agent: 'venus' }], { plan: { name: 'other' } });
    expect(other.tasks[0]!.usage).toEqual({ inputTokens: 0, outputTokens: 0, modelCalls: 0 });
  });
});
