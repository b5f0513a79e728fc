import { afterEach, describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { Part } from '../a2a/protocol/types.js';
import { createNode, type EclipticNode } from '../node/compose.js';
import type { Logger } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { SwarmSubTask } from '../work/swarm/swarm-session.js';
import type { Agent } from './agent.js';
import type { AgentTask } from './agent-tasks.js';
import { TaskCall, type TaskCallListener } from './task-call.js';
import { USAGE, type Usage } from './usage.js';

const nodes: EclipticNode[] = [];
afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
});

interface Line {
  readonly level: string;
  readonly fields: Record<string, unknown>;
  readonly message: string;
}

async function start() {
  const lines: Line[] = [];
  const write = (level: string) => (fields: Record<string, unknown>, message: string) =>
    void lines.push({ level, fields, message });
  const logger: Logger = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const runtime = systemRuntime({ logger });
  const node = await createNode({ runtime });
  nodes.push(node);
  const sun = node.agent({ id: 'sun' });
  const mars = node.agent({ id: 'mars', capabilities: ['dig'] });
  /** Gives mars a task of these parts, and resolves with everything that the caller hears. */
  const give = async (parts: readonly Part[], id = runtime.id()) => {
    const heard = { usage: [] as Usage[], rejected: [] as unknown[], artifacts: [] as unknown[] };
    let end!: (error: unknown) => void;
    const ended = new Promise((resolve) => {
      end = resolve;
    });
    const listener: TaskCallListener = {
      usage: (usage) => void heard.usage.push(usage),
      message: () => {},
      input: (input) => {
        if (input.type === 'status') heard.rejected.push(input.message?.parts);
        if (input.type === 'artifact') heard.artifacts.push(input.artifact.parts);
      },
      ended: (error) => end(error),
    };
    const message = { messageId: runtime.id(), role: 'ROLE_USER' as const, parts };
    new TaskCall(runtime, sun, 'mars', { id, contextId: 'c', message }, listener).work();
    const error = await ended;
    if (error !== undefined) throw error;
    return heard;
  };
  return { node, runtime, sun, mars, give, lines };
}

const facts = ({ text, data, input, results, feedback, attempt }: AgentTask) => ({
  text,
  data,
  input,
  results,
  feedback,
  attempt,
});

function seenBy(agent: Agent): ReturnType<typeof facts>[] {
  const seen: ReturnType<typeof facts>[] = [];
  agent.onTask((task) => {
    seen.push(facts(task));
    return 'done';
  });
  return seen;
}

describe('a task', () => {
  it.each<[readonly Part[], string]>([
    [[{ text: 'dig here' }], 'dig here'],
    [[{ text: 'dig' }, { data: { title: 'not this' } }], 'dig'],
    [[{ data: { description: 'a hole', title: 'not this' } }], 'a hole'],
    [[{ data: { text: ' ', title: 'a title' } }], 'a title'],
    [[{ text: '' }, { data: { taskDescription: 'a task' } }], 'a task'],
    [[{ data: { depth: 3, title: 4 } }], '{"depth":3,"title":4}'],
    [[{ data: { run: 'r', task: 't', attempt: 1, results: {}, input: { title: 'deep' } } }], 'deep'],
    [[{ data: 'just words' }], 'just words'],
    [[{ data: null }], 'null'],
    [[{ url: 'http://a.example/' }], ''],
  ])('of the parts %j has the text %j [WK.A3]', async (parts, text) => {
    const { mars, give } = await start();
    const seen = seenBy(mars);
    await give(parts);
    expect(seen[0]!.text).toBe(text);
  });

  it('shows its data as input, with what a plan says about it beside it [WK.A3]', async () => {
    const { mars, give } = await start();
    const seen = seenBy(mars);
    const plain = { results: { a: 1 }, feedback: ['one', 2], attempt: 3 };
    const ofPlan = { run: 'r', task: 't', attempt: 2, results: { a: 1 }, feedback: ['shorter'], input: { depth: 3 } };
    for (const data of [plain, ofPlan, { ...ofPlan, input: undefined }, [1], null]) {
      await give([{ text: 'dig' }, { data }]);
    }
    await give([{ text: 'dig' }]);
    const none = { results: {}, feedback: [], attempt: 1 };
    expect(seen).toEqual([
      { text: 'dig', data: plain, input: plain, results: { a: 1 }, feedback: ['one'], attempt: 3 },
      { text: 'dig', data: ofPlan, input: { depth: 3 }, results: { a: 1 }, feedback: ['shorter'], attempt: 2 },
      expect.objectContaining({ input: undefined, attempt: 2 }),
      { text: 'dig', data: [1], input: [1], ...none },
      { text: 'dig', data: null, input: null, ...none },
      { text: 'dig', data: undefined, input: undefined, ...none },
    ]);
  });

  it('is the same by proposal and as a sub-task of a swarm [WK.A3]', async () => {
    const { sun, mars } = await start();
    const seen = seenBy(mars);
    const ofPlan = { run: 'r', task: 't', attempt: 2, results: { a: 1 }, feedback: ['shorter'], input: { depth: 3 } };
    await sun.propose({ to: 'mars', taskDescription: 'dig it', input: ofPlan }).result;
    await sun.propose({ to: 'mars', taskDescription: 'dig it', input: { depth: 4 } }).result;
    const plan = [
      { id: 'one', description: 'dig one', requiredCapabilities: ['dig'], input: { depth: 5 } },
      { id: 'two', description: 'dig two', requiredCapabilities: ['dig'], dependsOn: ['one'], input: ofPlan },
    ];
    await sun.swarm('dig all', { capabilities: ['dig'], plan }).result;
    const { data: _, ...last } = seen[3]!;
    expect(seen.slice(0, 2)).toMatchObject([
      { text: 'dig it', input: { depth: 3 }, results: { a: 1 }, feedback: ['shorter'], attempt: 2 },
      { text: 'dig it', input: { depth: 4 }, results: {}, feedback: [], attempt: 1 },
    ]);
    expect(seen[2]).toMatchObject({ text: 'dig one', input: { depth: 5 }, results: {}, attempt: 1 });
    const { input, feedback, attempt } = { input: { depth: 3 }, feedback: ['shorter'], attempt: 2 };
    expect(last).toEqual({ text: 'dig two', input, feedback, attempt, results: { a: 1, one: 'done' } });
  });

  it('has a log whose lines name the agent and the task [WK.A4]', async () => {
    const { mars, give, lines } = await start();
    mars.onTask(({ log }) => {
      log.info('begun');
      log.warn({ depth: 3, task: 'another' }, 'stone');
    });
    await give([{ text: 'dig' }], 't1');
    expect(lines.filter(({ fields }) => fields.agent === 'mars')).toEqual([
      { level: 'info', fields: { agent: 'mars', task: 't1' }, message: 'begun' },
      { level: 'warn', fields: { agent: 'mars', task: 't1', depth: 3 }, message: 'stone' },
    ]);
  });

  it('tells its caller what it cost, and only numbers that make sense [WK.A5]', async () => {
    const { mars, give } = await start();
    mars.onTask((task) => {
      task.usage({ inputTokens: 10, outputTokens: 2, modelCalls: 1 });
      task.usage({ inputTokens: -1, outputTokens: Number.NaN, costUsd: 0.5 });
      return 'done';
    });
    expect(await give([{ text: 'dig' }])).toEqual({
      usage: [
        { inputTokens: 10, outputTokens: 2, modelCalls: 1 },
        { inputTokens: 0, outputTokens: 0, modelCalls: 0, costUsd: 0.5 },
      ],
      rejected: [],
      artifacts: [[{ text: 'done' }]],
    });
  });

  it('tells a proposer what it cost as progress, between its words [WK.A5]', async () => {
    const { sun, mars } = await start();
    mars.onTask(async (task) => {
      task.progress('digging');
      task.usage({ inputTokens: 10, outputTokens: 2, modelCalls: 1 });
      return 'done';
    });
    const proposal = sun.propose({ to: 'mars', taskDescription: 'dig it' });
    const heard: unknown[] = [];
    proposal.onProgress((value) => heard.push(value));
    expect(await proposal.result).toBe('done');
    expect(heard).toEqual(['digging', { [USAGE]: { inputTokens: 10, outputTokens: 2, modelCalls: 1 } }]);
  });

  it('of a swarm adds up what all attempts cost, beside their progress [WK.A5]', async () => {
    const { node, sun, mars } = await start();
    let runs = 0;
    const work = async (task: AgentTask) => {
      task.usage({ inputTokens: 10, modelCalls: 1 });
      task.progress('digging');
      task.usage({ inputTokens: 1, modelCalls: 1, costUsd: 0.25 });
      if (++runs === 1) throw new Error('a stone');
      return 'done';
    };
    mars.onTask(work);
    node.agent({ id: 'venus', capabilities: ['dig'] }).onTask(work);
    const swarm = sun.swarm('dig', { capabilities: ['dig'] });
    await swarm.result;
    const [{ attempts: made, usage, progress }] = swarm.session!.subTasks as [SwarmSubTask];
    expect([made, usage]).toEqual([2, { inputTokens: 22, outputTokens: 0, modelCalls: 4, costUsd: 0.5 }]);
    // Progress is in the shared document, which may be behind; usage never takes its place.
    expect([undefined, 'digging']).toContain(progress);
  });
});

describe('a typed task', () => {
  const Hole = z.object({ depth: z.number(), tool: z.string().default('spade') });

  it('has the schema’s output as its input, in its type [WK.A6]', async () => {
    const { sun, mars, give } = await start();
    mars.onTypedTask(Hole, ({ input }) => {
      expectTypeOf(input).toEqualTypeOf<{ depth: number; tool: string }>();
      return `${input.depth} with a ${input.tool}`;
    });
    expect(await give([{ data: { depth: 3 } }])).toMatchObject({ artifacts: [[{ text: '3 with a spade' }]] });
    const offer = { to: 'mars', taskDescription: 'dig' };
    const ofPlan = { run: 'r', task: 't', attempt: 1, results: {}, input: { depth: 4, tool: 'drill' } };
    expect(await sun.propose({ ...offer, input: ofPlan }).result).toBe('4 with a drill');
  });

  it('is rejected, typed and unseen by its handler, if its input does not match [WK.A6]', async () => {
    const { sun, mars, give } = await start();
    let runs = 0;
    mars.onTypedTask(Hole, () => ++runs, { resumable: true });
    const { rejected } = await give([{ text: 'dig' }]);
    expect(rejected).toEqual([[{ text: expect.stringMatching(/^INVALID_ARGUMENTS: the input of the task does not/) }]]);
    const offer = { to: 'mars', taskDescription: 'dig', input: { depth: 'deep' } };
    await expect(sun.propose(offer).result).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
      details: { faults: [expect.stringMatching(/^depth: /)] },
    });
    expect(runs).toBe(0);
    const none = 5 as unknown as typeof Hole;
    expect(() => mars.onTypedTask(none, () => {})).toThrow('cannot be used');
  });
});

describe('the handler of a request', () => {
  it('has a log whose lines name the agent and the conversation [WK.A4]', async () => {
    const { sun, mars, lines } = await start();
    mars.onRequest(({ log, thread }) => {
      log.error({ n: 1 }, 'heard');
      return thread;
    });
    const thread = await sun.request('mars', 1);
    expect(lines).toEqual([{ level: 'error', fields: { agent: 'mars', thread, n: 1 }, message: 'heard' }]);
  });

  it('has a signal that is aborted when the caller gives up, and not when it has its answer [WK.A4]', async () => {
    const { sun, mars } = await start();
    const signals: AbortSignal[] = [];
    mars.onRequest(({ signal, payload }) => {
      signals.push(signal);
      return payload === 'wait' ? new Promise(() => {}) : 'done';
    });
    await sun.request('mars', 'answer');
    const controller = new AbortController();
    const waiting = sun.request('mars', 'wait', { signal: controller.signal });
    await sun.request('mars', 'answer');
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
    await expect(sun.request('mars', 'wait', { timeoutMs: 5 })).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' });
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true, false, true]);
    expect(signals[1]!.reason).toMatchObject({ code: 'CANCELLED' });
  });

  it('has a signal that is aborted when its agent leaves, or the proposer withdraws the work [WK.A4]', async () => {
    const { sun, mars } = await start();
    const signals: AbortSignal[] = [];
    const begun: (() => void)[] = [];
    mars.onRequest(({ signal }) => {
      signals.push(signal);
      begun.shift()?.();
      return new Promise(() => {});
    });
    const isBegun = () => new Promise<void>((resolve) => begun.push(resolve));
    const first = isBegun();
    const proposal = sun.propose({ to: 'mars', taskDescription: 'dig' });
    proposal.result.catch(() => {});
    await first;
    const second = isBegun();
    void sun.request('mars', 'wait').catch(() => {});
    await second;
    proposal.withdraw();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
    mars.leave();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(signals[1]!.reason).toMatchObject({ code: 'NODE_STOPPED' });
  });
});
