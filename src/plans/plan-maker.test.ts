import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LoopWorld } from '../../test/coordination/loop-world.js';
import { readSchema } from '../mcp/schema.js';
import type { PlanAsked, PlanWish } from './plan-maker.js';

let world: LoopWorld;
let asked: Record<string, unknown>[];
let told: PlanAsked[];

beforeEach(async () => {
  world = await LoopWorld.start();
  asked = [];
  told = [];
  world.worker('mars');
  world.node.agent({ id: 'idle', capabilities: ['idle.work'] });
  await world.until(() => world.node.registry.getById('idle')?.status?.state === 'unstaffed');
});

afterEach(() => world.stop());

/** An agent that answers the nth question with the nth answer, and further ones with the last. */
function planner(id: string, ...answers: readonly unknown[]): void {
  const agent = id === 'sun' ? world.node.agentById('sun') : world.node.agent({ id });
  agent.onRequest(({ payload }) => {
    asked.push(payload as Record<string, unknown>);
    return answers[Math.min(asked.length, answers.length) - 1];
  });
}

function make(wish: Partial<PlanWish> = {}) {
  const signal = new AbortController().signal;
  return world.settled(world.loop.make({ goal: 'Add a login page', ...wish }, (one) => told.push(one), signal));
}

const TASK = { id: 'a', description: 'Do it.', agent: 'mars' };

describe('a plan that an agent makes [WK.P3]', () => {
  it('is asked for in words, with a schema for models and the agents that have workers', async () => {
    const strict = { agent: 'mars', capabilities: null, divisible: null, dependsOn: [], validate: null };
    planner('sun', { name: 'login', description: '', tasks: [{ ...TASK, ...strict }] });
    const made = await make();
    expect(made).toMatchObject({ planner: 'sun', attempts: 1, plan: { name: 'login', tasks: [TASK] } });
    expect(made.text).toBe('name: login\ntasks:\n  - id: a\n    description: Do it.\n    agent: mars\n');
    const { text, outputSchema, agents, goal } = asked[0]!;
    expect(goal).toBe('Add a login page');
    expect(agents).toContainEqual(expect.objectContaining({ agent: 'mars', capabilities: ['mars.work'] }));
    expect(JSON.stringify(agents)).not.toContain('idle');
    expect(text).toContain('mars (L2): mars.work');
    expect(text).toContain('Add a login page');
    expect(text).not.toContain('idle');
    const { validate: _, ...task } = { ...TASK, ...strict };
    const { check } = readSchema(outputSchema as Record<string, unknown>, 'output', 'the plan');
    expect(await check({ name: 'x', description: 'y', tasks: [task] })).toHaveProperty('value');
    expect(await check({ name: 'x' })).toHaveProperty('faults');
  });

  it('gives acceptance criteria to the worker where no agent judges', async () => {
    planner('sun', { tasks: [{ ...TASK, criteria: ['It is short.'] }] });
    const [task] = (await make()).plan.tasks;
    expect(task).toEqual({ ...TASK, description: 'Do it.\nThe result is accepted if:\n- It is short.' });
  });

  it('offers acceptance criteria when there is an agent that judges', async () => {
    world.node.agent({ id: 'mercury' }).onRequest(() => 'approved');
    planner('sun', { tasks: [{ ...TASK, validate: { criteria: ['It is short.'] } }] });
    expect((await make()).plan.tasks[0]!.validate).toEqual({ criteria: ['It is short.'] });
    planner('sun', { tasks: [{ ...TASK, criteria: ['It is long.'] }] });
    expect((await make()).plan.tasks[0]!.validate).toEqual({ criteria: ['It is long.'] });
  });

  it.each([
    ['JSON', JSON.stringify({ tasks: [TASK] })],
    ['YAML', 'tasks:\n  - id: a\n    description: Do it.\n    agent: mars'],
    [
      'a fence with text around it',
      'Here:\n```yaml\ntasks:\n  - {id: a, description: Do it., agent: mars}\n```\nGood luck!',
    ],
  ])('may be given as text: %s', async (_, answer) => {
    planner('sun', answer);
    expect((await make()).plan.tasks).toEqual([TASK]);
  });

  it('returns to the planner with its faults, which are shown, until it has none', async () => {
    planner('sun', 'tasks: [', { tasks: [{ ...TASK, agent: 'idle', dependsOn: ['b'] }] }, { tasks: [TASK] });
    const made = await make();
    expect(made.attempts).toBe(3);
    expect(told.map(({ attempt, faults }) => [attempt, faults.length])).toEqual([
      [1, 0],
      [2, 1],
      [3, 2],
    ]);
    const { text, faults, plan } = asked[2]!;
    expect(faults).toEqual([
      expect.stringMatching(/^plan.yaml:4:12: tasks.0.agent: NO_WORKER: idle/),
      expect.stringMatching(/^plan.yaml:6:9: tasks.0.dependsOn.0: there is no task "b"/),
    ]);
    expect(plan).toContain('agent: idle');
    for (const fault of faults as string[]) expect(text).toContain(fault);
  });

  it('is given up after three repairs, with the faults of the last one', async () => {
    planner('sun', { tasks: [{ ...TASK, agent: 'vulcan' }] });
    await expect(make()).rejects.toMatchObject({
      code: 'INVALID_PLAN',
      message: expect.stringMatching(/^sun made no valid plan in 4 attempts[\s\S]*vulcan/),
      details: { faults: [expect.stringContaining('tasks.0.agent')] },
    });
    expect(asked).toHaveLength(4);
  });

  it('contains no command, which would run on this machine', async () => {
    const command = ['sh', '-c', 'true'];
    planner('sun', { tasks: [{ ...TASK, validate: { command } }] }, { tasks: [TASK] });
    expect(await make()).toMatchObject({ attempts: 2, plan: { tasks: [TASK] } });
    expect(asked[1]!.faults).toEqual([expect.stringContaining('only the operator adds commands')]);
  });

  it('survives aliases, prototype keys and values that are no plan', async () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'.replaceAll(/./g, (c) => `${c}: &${c} [${`*${String.fromCharCode(c.charCodeAt(0) - 1)},`.repeat(9)}]\n`)}`;
    planner('sun', bomb, '{"__proto__":{"x":1},"tasks":[]}', 42, { tasks: [TASK] });
    expect((await make()).attempts).toBe(4);
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });

  it('is made by the sun, or another L0 agent with a worker, or the one that is named', async () => {
    world.node.agent({ id: 'nova', tier: 0 }).onRequest(() => ({ tasks: [TASK] }));
    expect((await make()).planner).toBe('nova');
    planner('jupiter', { tasks: [TASK] });
    expect((await make({ with: 'jupiter' })).planner).toBe('jupiter');
    planner('sun', { tasks: [TASK] });
    expect((await make()).planner).toBe('sun');
  });

  it('needs a planner with a worker', async () => {
    await expect(make()).rejects.toMatchObject({ code: 'NO_WORKER', message: expect.stringContaining('--with AGENT') });
    await expect(make({ with: 'idle' })).rejects.toMatchObject({ code: 'NO_WORKER' });
    await expect(make({ with: 'vulcan' })).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
  });
});
