import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LoopWorld } from '../../test/coordination/loop-world.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import type { RunInit } from './ralph-loop.js';
import type { RunNews, RunView } from './run-news.js';
import { runEvents, runs } from './tables.js';

const phasesOf = ({ tasks }: RunView) => Object.fromEntries(tasks.map(({ id, phase }) => [id, phase]));
const resultsOf = ({ tasks }: RunView) => Object.fromEntries(tasks.map(({ id, result }) => [id, result]));

let world: LoopWorld;

beforeEach(async () => {
  world = await LoopWorld.start();
});

afterEach(() => world.stop());

describe('a plan that is run', () => {
  it('goes from task to task, each with the results of those it depends on [RL1 RL2]', async () => {
    world.worker('mars', ({ input, results }) => ({ input: input ?? null, results }));
    const view = await world.run([
      { id: 'c', agent: 'mars', dependsOn: ['a', 'b'] },
      { id: 'a', agent: 'mars', input: { page: 'login' } },
      { id: 'b', capabilities: ['mars.work'] },
    ]);
    expect(view).toMatchObject({ name: 'plan', agent: 'sun', status: 'done' });
    const a = { input: { page: 'login' }, results: {} };
    const b = { input: null, results: {} };
    expect(resultsOf(view)).toEqual({ a, b, c: { input: null, results: { a, b } } });
    expect(world.begun).toEqual(['a.1', 'b.1', 'c.1']);
    expect(view.tasks.map(({ by }) => by)).toEqual(['mars', 'mars', 'mars']);
  });

  it('reports its changes, with the workers’ progress', async () => {
    world.worker('mars', async (_, task) => {
      await world.wait(100);
      task.progress('half way');
      return 'it';
    });
    const { id } = await world.start([{ id: 'a', agent: 'mars' }]);
    const news: RunNews[] = [];
    await world.settled(world.loop.follow(id, (one) => news.push(one), new AbortController().signal));
    expect(news.map(({ event }) => event)).toEqual(['run', 'progress', 'task', 'ended']);
    expect(news[1]).toMatchObject({ id: 'a', by: 'mars' });
    expect(JSON.stringify(news[1])).toContain('half way');
    expect(news[2]).toMatchObject({ event: 'task', id: 'a', phase: 'done', attempt: 1, by: 'mars', result: 'it' });
    expect(news[3]).toEqual({ event: 'ended', run: id, status: 'done', counts: { done: 1 }, durationMs: 100 });
    // Whoever comes later is told how it ended.
    const late: RunNews[] = [];
    await world.settled(world.loop.follow(id, (one) => late.push(one), new AbortController().signal));
    expect(late.map(({ event }) => event)).toEqual(['run', 'ended']);
  });

  it('asks a validator, and tries again with its feedback [RL3 RL4]', async () => {
    world.worker('mars', ({ attempt, feedback = [] }) => ({ attempt, heard: [...feedback] }));
    const asked: unknown[] = [];
    world.node.agent({ id: 'mercury' }).onRequest(({ payload }) => {
      asked.push(payload);
      const { attempt } = payload as { attempt: number };
      return attempt < 3 ? { verdict: 'needs-revision', feedback: `no ${attempt}` } : { verdict: 'approved' };
    });
    const view = await world.run([{ id: 'a', agent: 'mars', validate: { agent: 'mercury' } }]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 3, result: { heard: ['no 1', 'no 2'] } });
    expect(asked).toHaveLength(3);
    expect(asked[1]).toMatchObject({ task: 'a', attempt: 2, result: { attempt: 2, heard: ['no 1'] } });
  });

  it('is one span, until its end, that says how it ended [FC.44]', async () => {
    await world.stop();
    const ended: unknown[] = [];
    const start = (name: string) => ({
      traceparent: '',
      end: (error?: unknown) => void ended.push([name, (error as { code?: string } | undefined)?.code]),
    });
    const tracer = { genAi: true, start, run: <T>(_: unknown, work: () => T) => work() };
    world = await LoopWorld.start({}, new SimulatedRuntime({ tracer }));
    world.worker('mars', () => 'it');
    world.worker('venus', () => {
      throw new Error('it is hard');
    });
    await world.run([{ id: 'a', agent: 'mars' }]);
    const { status } = await world.run([{ id: 'b', agent: 'venus' }]);
    const plans = ended.filter((one) => (one as string[])[0]!.startsWith('invoke_workflow'));
    expect(plans).toEqual([
      ['invoke_workflow plan', undefined],
      ['invoke_workflow plan', status],
    ]);
  });

  it('comes to its end whatever moment things happen at', async () => {
    await world.stop();
    for (let seed = 1; seed <= 15; seed++) {
      world = await LoopWorld.start({}, new SimulatedRuntime({ seed }));
      const { runtime } = world;
      world.worker('mars', async ({ task }) => {
        for (let turn = Math.floor(runtime.random() * 12); turn > 0; turn--) await undefined;
        return task;
      });
      const tasks = Array.from({ length: 40 }, (_, n) => ({
        id: `t${n}`,
        agent: 'mars',
        dependsOn: n < 5 ? [] : [`t${n - 5}`, `t${Math.floor(runtime.random() * n)}`],
      }));
      const { status } = await world.run(tasks);
      expect({ seed, status }).toEqual({ seed, status: 'done' });
      if (seed < 15) await world.stop();
    }
  });

  it('is not harmed by a follower that fails', async () => {
    world.worker('mars', async ({ task }) => {
      await world.wait(100);
      return task;
    });
    const { id } = await world.start([{ id: 'a', agent: 'mars' }]);
    let told = 0;
    const broken = (news: RunNews) => {
      if (news.event !== 'run') throw new Error(`no ${++told}`);
    };
    const followed = world.loop.follow(id, broken, new AbortController().signal);
    expect((await world.ended(id)).status).toBe('done');
    await followed;
    expect(told).toBe(2);
  });

  it('tries a failed task again, with the reason [RL4]', async () => {
    world.worker('mars', ({ attempt }) => {
      if (attempt === 1) throw new Error('out of paper');
      return 'printed';
    });
    const view = await world.run([{ id: 'a', agent: 'mars' }]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 2, result: 'printed', reason: null });
    expect(world.inputs[1]!.feedback).toEqual([expect.stringContaining('out of paper')]);
  });

  it('gives each attempt its time, and tells the worker when it is over [RL6]', async () => {
    const aborted: number[] = [];
    world.worker('mars', ({ attempt }, task) => {
      task.signal.addEventListener('abort', () => aborted.push(attempt));
      return attempt === 1 ? new Promise(() => {}) : 'in time';
    });
    const began = world.runtime.now();
    const view = await world.run([{ id: 'a', agent: 'mars', timeoutMs: 5_000 }]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 2 });
    expect(world.inputs[1]!.feedback).toEqual(['it was not done within 5000 ms']);
    expect(aborted).toEqual([1]);
    expect(world.runtime.now() - began).toBeGreaterThanOrEqual(6_000);
  });

  it('does not count the time that the owner of a worker takes to decide [AP.4]', async () => {
    world.worker('mars', async ({ attempt }, task) => {
      await world.wait(3_000);
      task.waiting(1, 'waits for the owner’s approval');
      await world.wait(60_000);
      task.waiting(0);
      // What was left of its time counts again.
      await world.wait(attempt === 1 ? 3_000 : 1_000);
      return attempt;
    });
    const began = world.runtime.now();
    const view = await world.run([{ id: 'a', agent: 'mars', timeoutMs: 5_000 }]);
    expect(view.tasks[0]).toMatchObject({ phase: 'done', attempt: 2, result: 2 });
    expect(world.inputs[1]!.feedback).toEqual(['it was not done within 5000 ms']);
    const passed = world.runtime.now() - began;
    expect([passed > 129_000, passed < 140_000]).toEqual([true, true]);
  });

  it('is limited again when its worker has waited for its owner for a day [AP.4]', async () => {
    world.worker('mars', ({ attempt }, task) => {
      if (attempt > 1) return 'done';
      task.waiting(1);
      return new Promise(() => {});
    });
    const { id } = await world.start([{ id: 'a', agent: 'mars', timeoutMs: 5_000 }]);
    for (let hours = 0; hours < 23; hours++) await world.runtime.advance(3_600_000);
    expect(world.begun).toEqual(['a.1']);
    await world.runtime.advance(2 * 3_600_000);
    expect((await world.ended(id)).tasks[0]).toMatchObject({ phase: 'done', attempt: 2 });
  });

  it('keeps to the hierarchy: how much at once, and how often [RL6]', async () => {
    await world.stop();
    world = await LoopWorld.start({ concurrency: 3, tiers: { 2: { concurrency: 2, retries: 1, timeoutMs: 1_000 } } });
    let active = 0;
    let most = 0;
    world.worker('mars', async ({ task }) => {
      most = Math.max(most, ++active);
      await world.wait(100);
      active--;
      if (task === 't0') throw new Error('never');
      return task;
    });
    const view = await world.run(Array.from({ length: 6 }, (_, n) => ({ id: `t${n}`, agent: 'mars' })));
    expect(most).toBe(2);
    expect(view.status).toBe('escalated');
    expect(view.tasks[0]).toMatchObject({ phase: 'escalated', attempt: 2 });
  });

  it('is refused with its faults in this mesh, such as a capability that no agent has, before anything begins [RL9 T-C10]', async () => {
    world.worker('mars');
    world.node.agent({ id: 'mercury' });
    const start = (more: Partial<RunInit> = {}) =>
      world.start(
        [
          { id: 'a', agent: 'mars' },
          { id: 'b', agent: 'vulcan' },
          { id: 'c', capabilities: ['mars.work', 'cooking'] },
        ],
        more,
      );
    const error = await start().catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'INVALID_PLAN' });
    expect(error.details.faults).toEqual([
      expect.stringMatching(/^\/plans\/plan\.json:1:\d+: tasks\.1\.agent: .*vulcan/),
      expect.stringMatching(
        /^\/plans\/plan\.json:1:\d+: tasks\.2\.capabilities\.1: no agent has the capability "cooking"/,
      ),
    ]);
    const refused = await start({ as: 'mercury' }).catch((thrown) => thrown);
    expect(refused.details.faults[0]).toMatch(/tasks\.0\.agent: TIER_VIOLATION/);
    await expect(start({ as: 'nobody' })).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    expect(world.begun).toEqual([]);
    expect(await world.loop.list(10)).toEqual([]);
  });
});

describe('a task that keeps failing [RL5]', () => {
  const PLAN = [
    { id: 'a', agent: 'mars', retries: 1 },
    { id: 'b', agent: 'mars', dependsOn: ['a'] },
    { id: 'c', agent: 'mars' },
  ];

  function failing(times: number): void {
    world.worker('mars', ({ task, attempt }) => {
      if (task === 'a' && attempt <= times) throw new Error('cannot');
      return task;
    });
  }

  it('waits for the operator where the sun gives no decision; running the plan again goes on [RL7]', async () => {
    failing(2);
    const view = await world.run(PLAN);
    expect(view.status).toBe('escalated');
    expect(phasesOf(view)).toEqual({ a: 'escalated', b: 'blocked', c: 'done' });
    expect(view.tasks[0]!.reason!.message).toContain('cannot');
    const again = await world.run(PLAN);
    expect(again).toMatchObject({ id: view.id, status: 'done' });
    expect(world.begun).toEqual(['a.1', 'c.1', 'a.2', 'a.3', 'b.1']);
  });

  it.each([
    [
      { action: 'retry', feedback: 'use the other door' },
      { a: 'done', b: 'done', c: 'done' },
    ],
    [
      { action: 'accept', result: 'as it is' },
      { a: 'done', b: 'done', c: 'done' },
    ],
    [
      { action: 'fail', reason: 'not worth it' },
      { a: 'failed', b: 'blocked', c: 'done' },
    ],
  ])('is decided by the sun, with %j', async (answer, phases) => {
    failing(2);
    const asked: unknown[] = [];
    world.node.agentById('sun').onRequest(({ payload }) => {
      asked.push(payload);
      return answer;
    });
    const view = await world.run(PLAN, { as: 'sun' });
    expect(phasesOf(view)).toEqual(phases);
    expect(asked).toMatchObject([{ escalation: { task: 'a', plan: 'plan', attempts: 2, description: 'Do it.' } }]);
    if (answer.action === 'retry') expect(world.inputs.at(-2)!.feedback!.at(-1)).toBe('use the other door');
    if (answer.action === 'accept') expect(world.inputs.at(-1)!.results).toEqual({ a: 'as it is' });
  });

  it('fails the plan, where too few succeed', async () => {
    await world.stop();
    world = await LoopWorld.start({
      escalation: { policy: 'threshold', successRate: 1, afterTasks: 1 },
      concurrency: 1,
    });
    failing(9);
    const view = await world.run(PLAN);
    expect(view.status).toBe('failed');
    expect(phasesOf(view)).toEqual({ a: 'failed', b: 'blocked', c: 'done' });
  });
});

describe('a plan that is run again [RL7]', () => {
  const PLAN = [
    { id: 'a', agent: 'mars' },
    { id: 'b', agent: 'mars', dependsOn: ['a'] },
    { id: 'c', agent: 'mars' },
  ];

  it('does nothing when all of it is done', async () => {
    world.worker('mars');
    const first = await world.run(PLAN);
    const second = await world.run(PLAN);
    expect(second).toEqual(first);
    expect(world.begun).toHaveLength(3);
  });

  it('starts over when asked to', async () => {
    world.worker('mars');
    const first = await world.run(PLAN);
    const second = await world.run(PLAN, { fresh: true });
    expect(second.id).not.toBe(first.id);
    expect(world.begun).toHaveLength(6);
    expect((await world.loop.list(10)).map(({ id }) => id)).toEqual([second.id, first.id]);
  });

  it('does changed tasks, and their dependents', async () => {
    world.worker('mars');
    const first = await world.run(PLAN);
    const changed = PLAN.map((task) => (task.id === 'a' ? { ...task, description: 'Do it well.' } : task));
    const second = await world.run([...changed, { id: 'd', agent: 'mars', dependsOn: ['c'] }]);
    expect(second.id).not.toBe(first.id);
    expect(phasesOf(second)).toEqual({ a: 'done', b: 'done', c: 'done', d: 'done' });
    expect(world.begun.slice(3)).toEqual(['a.1', 'd.1', 'b.1']);
    expect(world.inputs.at(-2)!.results).toEqual({ c: 'c' });
  });

  it('is another plan in another file, and the same under the same name', async () => {
    world.worker('mars');
    await world.run(PLAN);
    await world.run(PLAN, { file: '/other/plan.json' });
    expect(world.begun).toHaveLength(6);
    const named = { plan: { name: 'release' } };
    await world.run(PLAN, named);
    await world.run(PLAN, { ...named, file: '/other/plan.json' });
    expect(world.begun).toHaveLength(9);
  });

  it('is the active run, and cannot be changed or started over meanwhile', async () => {
    let finish = () => {};
    world.worker(
      'mars',
      ({ task }) =>
        new Promise((resolve) => {
          finish = () => resolve(task);
        }),
    );
    const plan = [{ id: 'a', agent: 'mars' }];
    const first = await world.start(plan);
    await world.until(() => world.begun.length === 1);
    expect((await world.start(plan)).id).toBe(first.id);
    await expect(world.start(plan, { fresh: true })).rejects.toMatchObject({ code: 'RUN_ACTIVE' });
    await expect(world.start([...plan, { id: 'b', agent: 'mars' }])).rejects.toMatchObject({ code: 'RUN_ACTIVE' });
    finish();
    expect((await world.ended(first.id)).status).toBe('done');
    expect(world.begun).toEqual(['a.1']);
  });

  it('goes on after it was stopped', async () => {
    const aborted: string[] = [];
    world.worker('mars', ({ task, attempt }, { signal }) => {
      signal.addEventListener('abort', () => aborted.push(task));
      return task === 'a' || attempt > 1 ? task : new Promise(() => {});
    });
    const plan = [
      { id: 'a', agent: 'mars' },
      { id: 'b', agent: 'mars', dependsOn: ['a'] },
    ];
    const { id } = await world.start(plan);
    await world.until(() => world.begun.length === 2);
    expect(await world.settled(world.loop.stop(id))).toMatchObject({ status: 'stopped' });
    await world.until(() => aborted.length > 0);
    expect(await world.run(plan)).toMatchObject({ id, status: 'done' });
    expect(world.begun).toEqual(['a.1', 'b.1', 'b.2']);
    await expect(world.loop.stop('nothing')).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
  });

  it('has a limit: so many plans at once', async () => {
    world.worker('mars', () => new Promise(() => {}));
    const plan = [{ id: 'a', agent: 'mars' }];
    for (let n = 0; n < 32; n++) await world.start(plan, { file: `/plans/${n}.json` });
    await expect(world.start(plan, { file: '/plans/one-too-many.json' })).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  });
});

describe('a run whose node is gone [RL8]', () => {
  const CHAIN = Array.from({ length: 6 }, (_, n) => ({
    id: `t${n}`,
    agent: 'mars',
    ...(n > 0 && { dependsOn: [`t${n - 1}`] }),
  }));

  it('goes on when the next node starts, with open tasks as another attempt', async () => {
    world.worker('mars', ({ task, attempt }) => (task === 't2' && attempt === 1 ? new Promise(() => {}) : task));
    const { id } = await world.start(CHAIN);
    await world.until(() => world.begun.includes('t2.1'));
    const before = [...world.begun];
    world = await world.crashed();
    world.worker('mars');
    await world.settled(world.loop.resume());
    const view = await world.ended(id);
    expect(view.status).toBe('done');
    expect(before).toEqual(['t0.1', 't1.1', 't2.1']);
    expect(world.begun).toEqual(['t2.2', 't3.1', 't4.1', 't5.1']);
    expect(world.inputs[0]!.results).toEqual({ t1: 't1' });
  });

  it('waits for an agent that is there a little later, as those of other nodes are', async () => {
    world.worker('mars', () => new Promise(() => {}));
    const { id } = await world.start([{ id: 'a', agent: 'mars' }]);
    await world.until(() => world.begun.length === 1);
    world = await world.crashed();
    await world.settled(world.loop.resume());
    await world.runtime.advance(20_000);
    world.worker('mars');
    expect(await world.ended(id)).toMatchObject({ status: 'done', tasks: [{ attempt: 2 }] });
    expect(world.inputs[0]!.feedback).toBeUndefined();
  });

  it('that cannot be read keeps neither the node nor other runs from going on', async () => {
    world.worker('mars', () => new Promise(() => {}));
    const plan = [{ id: 'a', agent: 'mars' }];
    const first = await world.start(plan, { file: '/plans/first.json' });
    const second = await world.start(plan, { file: '/plans/second.json' });
    await world.store.write([runEvents.update({ run: first.id }, { event: 'broken' })]);
    world = await world.crashed();
    world.worker('mars');
    await world.settled(world.loop.resume());
    expect(await world.ended(second.id)).toMatchObject({ status: 'done' });
    expect((await world.loop.list(10)).map(({ status }) => status)).toEqual(['done', 'running']);
  });

  it('has stored every state that it has published, at every moment', async () => {
    world.worker('mars', async ({ task }) => {
      await world.wait(100);
      return task;
    });
    const { id } = await world.start(CHAIN);
    const shown: string[] = [];
    const stores: { shown: string[]; store: MemoryStore }[] = [];
    const look = (news: RunNews) => {
      if (news.event === 'task' && news.phase === 'done') shown.push(news.id);
      stores.push({ shown: [...shown], store: new MemoryStore(world.store.snapshot()) });
    };
    await world.settled(world.loop.follow(id, look, new AbortController().signal));
    expect(shown).toHaveLength(6);
    for (const { shown: seen, store } of stores) {
      const events = await store.read(runEvents, { where: { run: id } });
      const kept = events.map(({ event }) => JSON.parse(event)).filter(({ type }) => type === 'finished');
      expect(kept.map(({ task }) => task)).toEqual(expect.arrayContaining(seen));
    }
  });

  it('does not resume when it was stopped or has ended', async () => {
    world.worker('mars', () => new Promise(() => {}));
    const { id } = await world.start(CHAIN);
    await world.settled(world.loop.stop(id));
    world = await world.crashed();
    world.worker('mars');
    await world.settled(world.loop.resume());
    expect(await world.settled(world.loop.view(id))).toMatchObject({ status: 'stopped' });
    expect(world.begun).toEqual([]);
  });

  it('waits for a disk that takes nothing, and begins nothing that is not on record', async () => {
    world.worker('mars', ({ task }) => {
      if (task === 't0') world.store.failWith('the disk is full');
      return task;
    });
    const { id } = await world.start(CHAIN);
    await world.until(() => world.begun.includes('t0.1'));
    await world.runtime.advance(10_000);
    expect(world.begun).toEqual(['t0.1']);
    world.store.failWith(undefined);
    expect((await world.ended(id)).status).toBe('done');
    expect(world.begun).toEqual(['t0.1', 't1.1', 't2.1', 't3.1', 't4.1', 't5.1']);
  });

  it('is found by its id, and forgotten when there are too many', async () => {
    await expect(world.loop.view('nothing')).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
    const row = { key: 'k', name: 'n', agent: 'sun', status: 'done', createdAt: 0, updatedAt: 0, document: '[{},""]' };
    const ids = Array.from({ length: 1_050 }, (_, n) => String(n).padStart(5, '0'));
    await world.store.write(ids.map((id) => runs.put({ ...row, id })));
    await world.settled(world.loop.resume());
    const left = await world.store.read(runs);
    expect(left).toHaveLength(1_000);
    expect(left[0]!.id).toBe('00050');
  });
});
