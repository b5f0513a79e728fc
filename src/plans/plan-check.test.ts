import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EclipticError } from '../runtime/errors.js';
import { type PlanWorld, readPlan } from './plan-check.js';
import { planJsonSchema } from './plan-schema.js';

const AGENTS = ['sun', 'mars', 'mercury'];
const CAPABILITIES = ['backend.api', 'frontend.ui'];

const world: PlanWorld = {
  worker: (agent) => (AGENTS.includes(agent) ? undefined : `no agent "${agent}"`),
  adviser: (agent) => (AGENTS.includes(agent) ? undefined : `no agent "${agent}"`),
  capable: (wanted) => (wanted.every((one) => CAPABILITIES.includes(one)) ? undefined : `nobody has ${wanted.join()}`),
  dispatcher: (agent) => (AGENTS.includes(agent) ? undefined : `no agent "${agent}"`),
  schema: async (schema) => ('type' in schema && schema.type === 'strnig' ? 'there is no type strnig' : undefined),
};

const read = (text: string) => readPlan(text, 'plan.yaml', world);

async function faultsOf(text: string): Promise<string[]> {
  const error = await read(text).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(EclipticError);
  expect(error.code).toBe('INVALID_PLAN');
  for (const fault of error.details.faults) expect(error.message).toContain(fault);
  return error.details.faults;
}

describe('a plan [RL9]', () => {
  const plan = {
    name: 'release',
    tasks: [
      { id: 'api', description: 'Build it.', agent: 'mars', input: { page: 'login' }, retries: 2, timeoutMs: 1_000 },
      {
        id: 'ui',
        description: 'Show it.',
        capabilities: ['frontend.ui'],
        dependsOn: ['api'],
        validate: { schema: { type: 'object' }, command: ['true'], agent: 'mercury' },
        complexity: 'simple',
      },
      { id: 'rest', description: 'The rest.', swarm: { capabilities: ['backend.api'] }, dependsOn: ['api', 'ui'] },
    ],
  };

  it('may be YAML', async () => {
    const text = `# What is to be done
name: release
tasks:
  - id: api
    description: Build it.
    agent: mars
    input: { page: login }
    retries: 2
    timeoutMs: 1000
  - id: ui
    description: Show it.
    capabilities: [frontend.ui]
    dependsOn: [api]
    validate:
      schema: { type: object }
      command: ["true"]
      agent: mercury
    complexity: simple
  - id: rest
    description: The rest.
    swarm:
      capabilities: [backend.api]
    dependsOn:
      - api
      - ui
`;
    expect(await read(text)).toEqual(plan);
  });

  it('may be JSON, however it is written', async () => {
    expect(await read(JSON.stringify(plan))).toEqual(plan);
    expect(await read(`\ufeff${JSON.stringify(plan, null, '\t')}`)).toEqual(plan);
  });

  it('is refused with everything that is wrong with it, each with its line', async () => {
    const faults = await faultsOf(`nmae: release
tasks:
  - id: api
    description: Build it.
    agent: vulcan
    dependsOn: [ui]
  - id: ui
    descriptoin: Show it.
    capabilities: [frontend.ui, cooking]
    dependsOn: [api, nothing]
  - id: api
    description: Again.
    swarm: { capabilities: [dancing, backend.api], planner: pan }
    validate: { schema: { type: strnig }, agent: pluto }
  - id: none
    description: Nobody does it.
    retries: -1
    input: .nan
as: nobody
`);
    expect(faults).toEqual([
      'plan.yaml:1:1: nmae: is not a key that belongs here',
      'plan.yaml:5:12: tasks.0.agent: no agent "vulcan"',
      'plan.yaml:6:16: tasks.0.dependsOn: goes in a circle: api → ui → api',
      expect.stringMatching(/^plan\.yaml:7:5: tasks\.1\.description: /),
      'plan.yaml:8:5: tasks.1.descriptoin: is not a key that belongs here',
      'plan.yaml:9:33: tasks.1.capabilities.1: nobody has cooking',
      'plan.yaml:10:22: tasks.1.dependsOn.1: there is no task "nothing"',
      'plan.yaml:11:9: tasks.2.id: there is another task "api"',
      'plan.yaml:13:29: tasks.2.swarm.capabilities.0: nobody has dancing',
      'plan.yaml:13:61: tasks.2.swarm.planner: no agent "pan"',
      'plan.yaml:14:25: tasks.2.validate.schema: there is no type strnig',
      'plan.yaml:14:50: tasks.2.validate.agent: no agent "pluto"',
      'plan.yaml:15:5: tasks.3: needs one of "agent", "capabilities" and "swarm"',
      expect.stringMatching(/^plan\.yaml:17:14: tasks\.3\.retries: /),
      expect.stringMatching(/^plan\.yaml:18:12: tasks\.3\.input: /),
      'plan.yaml:19:5: as: no agent "nobody"',
    ]);
  });

  it.each<[string, string, RegExp]>([
    ['text that is no YAML', 'tasks: [', /^plan\.yaml:1:\d+: /],
    ['a key that is there twice', 'tasks: []\ntasks: []', /^plan\.yaml:2:1: Map keys must be unique/],
    ['nothing at all', '', /^plan\.yaml:1:1: the plan: .*object/],
    ['a list', '- 1', /^plan\.yaml:1:1: the plan: .*object/],
    ['no tasks', 'tasks: []', /^plan\.yaml:1:8: tasks: /],
    ['a tag', 'tasks: !secret x', /^plan\.yaml:1:8: Unresolved tag/],
    [
      'a key that poisons',
      'tasks:\n  - { __proto__: { agent: mars } }',
      /^plan\.yaml:2:7: __proto__: is a reserved key/,
    ],
    [
      'a task that waits for itself',
      'tasks:\n  - { id: a, description: x, agent: mars, dependsOn: [a] }',
      /^plan\.yaml:2:54: tasks\.0\.dependsOn: goes in a circle: a → a/,
    ],
    [
      'a validator of nothing',
      'tasks:\n  - { id: a, description: x, agent: mars, validate: {} }',
      /^plan\.yaml:2:53: tasks\.0\.validate: needs a "schema"/,
    ],
    [
      'a circle within a swarm',
      'tasks:\n  - id: a\n    description: x\n    swarm:\n      capabilities: [backend.api]\n      subTasks: [{ id: b, description: y, dependsOn: [b] }]',
      /^plan\.yaml:6:54: tasks\.0\.swarm\.subTasks\.0\.dependsOn: goes in a circle: b → b/,
    ],
  ])('with %s is refused with its place', async (_, text, fault) => {
    expect((await faultsOf(text))[0]).toMatch(fault);
  });

  it('whose aliases would grow without bound is refused', async () => {
    const levels = Array.from({ length: 12 }, (_, n) => `l${n + 1}: &l${n + 1} [${`*l${n},`.repeat(9)}]`);
    expect(await faultsOf(['l0: &l0 [x]', ...levels].join('\n'))).toEqual([expect.stringMatching(/alias/)]);
  });

  it('that is too long is refused unread', async () => {
    await expect(read('#'.repeat(1_048_577))).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
  });

  it('of any kind is taken, or refused with places', async () => {
    const part = fc.oneof(
      fc.constantFrom(
        'tasks',
        'id',
        'agent',
        'dependsOn',
        'description',
        'swarm',
        'validate',
        'mars',
        'a',
        '__proto__',
      ),
      fc.constantFrom(': ', '\n', '\n  ', '\n    ', '- ', '[', ']', '{', '}', ',', '"', '&x ', '*x', '!t ', '#', '|\n'),
      fc.string({ maxLength: 3 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 40 }), async (parts) => {
        const error = await read(parts.join('')).catch((thrown) => thrown);
        if (!(error instanceof Error)) return;
        expect(error).toMatchObject({ code: 'INVALID_PLAN' });
        const faults = (error as EclipticError).details.faults as string[];
        expect(faults.length).toBeGreaterThan(0);
        for (const fault of faults) expect(fault).toMatch(/^plan\.yaml:\d+:\d+: ./);
      }),
      { numRuns: 300 },
    );
  });

  it('names every circle that it is told of, whatever the graph', async () => {
    const graphs = fc.array(fc.array(fc.nat(9), { maxLength: 3 }), { minLength: 1, maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(graphs, async (edges) => {
        const after = edges.map((some) => [...new Set(some.filter((other) => other < edges.length))]);
        const tasks = after.map((some, n) => ({
          id: `t${n}`,
          description: 'x',
          agent: 'mars',
          dependsOn: some.map((other) => `t${other}`),
        }));
        const reaches = (from: number, to: number, seen = new Set<number>()): boolean =>
          after[from]!.some((next) => next === to || (!seen.has(next) && reaches(next, to, seen.add(next))));
        const circular = after.some((_, n) => reaches(n, n));
        const outcome = await read(JSON.stringify({ tasks })).catch((error) => error);
        expect(outcome instanceof EclipticError).toBe(circular);
        if (!circular) return;
        for (const fault of outcome.details.faults as string[]) {
          const path = /circle: (.*)$/
            .exec(fault)![1]!
            .split(' → ')
            .map((id) => Number(id.slice(1)));
          expect(path[0]).toBe(path.at(-1));
          for (const [index, step] of path.slice(1).entries()) expect(after[path[index]!]).toContain(step);
        }
      }),
      { numRuns: 100 },
    );
  });
});

describe('the published schema of plans [RL9]', () => {
  it('is the one that plans are checked with', () => {
    const published = new URL('../../schema/plan.schema.json', import.meta.url);
    expect(JSON.parse(readFileSync(published, 'utf8'))).toEqual(planJsonSchema());
  });

  it('says that a task is done by one agent, by a capable agent, or by a swarm', () => {
    const { properties } = planJsonSchema() as { properties: { tasks: { items: { oneOf: unknown } } } };
    expect(properties.tasks.items.oneOf).toEqual([
      { required: ['agent'] },
      { required: ['capabilities'] },
      { required: ['swarm'] },
    ]);
  });
});

describe('fields of a plan that decide how a task is handed out [WK.P4 WK.P6 WK.P7]', () => {
  const taskWith = (more: string) =>
    `tasks:\n  - id: a\n    description: x\n    agent: mars\n  - id: b\n    description: x\n${more}`;

  it('are accepted where they belong', async () => {
    const more = `    capabilities: [backend.api]
    divisible: true
    planner: sun
    dependsOn: [a]
    inputFrom: { all: a, name: a.tables.0 }
    validate: { criteria: [It is short.] }
`;
    const { planner, tasks } = await read(`planner: mars\n${taskWith(more)}`);
    expect(planner).toBe('mars');
    expect(tasks[1]).toMatchObject({ divisible: true, planner: 'sun', validate: { criteria: ['It is short.'] } });
  });

  it('are refused elsewhere, each with its line', async () => {
    const more = `    agent: mars
    divisible: true
    planner: vulcan
    input: 5
    inputFrom: { one: b, two: a }
    validate: { criteria: [] }
`;
    const faults = await faultsOf(`planner: vulcan\n${taskWith(more)}`);
    expect(faults).toEqual([
      expect.stringContaining('plan.yaml:1:10: planner: no agent "vulcan"'),
      expect.stringContaining('plan.yaml:9:16: tasks.1.divisible: needs "capabilities"'),
      expect.stringContaining('plan.yaml:10:14: tasks.1.planner: needs "capabilities"'),
      expect.stringContaining('plan.yaml:10:14: tasks.1.planner: no agent "vulcan"'),
      expect.stringContaining('plan.yaml:11:12: tasks.1.input: must be an object'),
      expect.stringContaining('tasks.1.inputFrom.one: "b" must begin with a task of "dependsOn"'),
      expect.stringContaining('tasks.1.inputFrom.two: "a" must begin with a task of "dependsOn"'),
      expect.stringContaining('plan.yaml:13:27: tasks.1.validate.criteria: '),
    ]);
  });

  it('need an agent that judges by criteria', async () => {
    const alone = { ...world, adviser: (agent: string) => (agent === 'mercury' ? 'NO_WORKER: none' : undefined) };
    const text = taskWith('    agent: mars\n    validate: { criteria: [short] }\n');
    await expect(readPlan(text, 'plan.yaml', alone)).rejects.toMatchObject({
      message: expect.stringContaining('because mercury cannot: NO_WORKER: none'),
    });
    const named = text.replace('criteria', 'agent: sun, criteria');
    expect((await readPlan(named, 'plan.yaml', alone)).tasks).toHaveLength(2);
  });
});
