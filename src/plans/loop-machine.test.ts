import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AgentTier } from '../mesh/schemas.js';
import { replay, step } from './loop-machine.js';
import {
  type Answer,
  ENDS,
  type LoopEffect,
  type LoopEvent,
  type LoopSettings,
  type LoopState,
  type LoopTask,
  type Phase,
} from './loop-state.js';

const ERROR = { code: 'HANDLER_FAILED', message: 'it broke' } as const;

const task = (id: string, more: Partial<LoopTask> = {}): LoopTask => ({
  id,
  dependsOn: [],
  tier: 2,
  retries: 1,
  timeoutMs: 1_000,
  validated: false,
  ...more,
});

const settings = (tasks: readonly LoopTask[], more: Partial<LoopSettings> = {}): LoopSettings => ({
  tasks,
  concurrency: 10,
  tierConcurrency: { 0: 10, 1: 10, 2: 10, 3: 10 },
  retryDelayMs: 100,
  escalation: { policy: 'auto', successRate: 0.5, afterTasks: 2 },
  ...more,
});

/** A run in the hands of a test. */
class Loop {
  readonly events: LoopEvent[] = [];
  state!: LoopState;
  effects: readonly LoopEffect[] = [];
  at = 0;

  constructor(...args: Parameters<typeof settings>) {
    this.take({ type: 'opened', at: 0, settings: settings(...args), carried: [] });
  }

  take(event: LoopEvent): this {
    const taken = step(this.events.length === 0 ? undefined : this.state, event);
    this.events.push(event);
    this.state = taken.state;
    this.effects = taken.effects;
    return this;
  }

  tell(type: 'finished' | 'failed' | 'unjudged' | 'due' | 'judged' | 'answered', id: string, more: object = {}): this {
    const { attempt } = this.state.tasks.get(id)!;
    const given = type === 'finished' ? { result: `${id}'s` } : type === 'failed' ? { error: ERROR } : {};
    return this.take({ type, at: ++this.at, task: id, attempt, ...given, ...more } as LoopEvent);
  }

  get phases(): Record<string, Phase> {
    return Object.fromEntries([...this.state.tasks].map(([id, { phase }]) => [id, phase]));
  }
}

describe('the Ralph loop’s decisions', () => {
  it('hand out ready tasks, and the next when its dependencies are done [RL1]', () => {
    const loop = new Loop([task('c', { dependsOn: ['a', 'b'] }), task('a'), task('b')]);
    expect(loop.effects).toEqual([
      { type: 'dispatch', task: 'a', attempt: 1 },
      { type: 'dispatch', task: 'b', attempt: 1 },
    ]);
    expect(loop.tell('finished', 'a').effects).toEqual([]);
    expect(loop.tell('finished', 'b').effects).toEqual([{ type: 'dispatch', task: 'c', attempt: 1 }]);
    loop.tell('finished', 'c');
    expect(loop.state.status).toBe('done');
    expect(loop.state.tasks.get('c')).toMatchObject({ phase: 'done', result: "c's", since: 3 });
  });

  it('keep to the limits of tasks under way, in all and in each tier [RL6]', () => {
    const tasks = [task('a'), task('b'), task('c', { tier: 3 }), task('d', { tier: 3 })];
    const loop = new Loop(tasks, { concurrency: 3, tierConcurrency: { 0: 1, 1: 1, 2: 1, 3: 5 } });
    expect(loop.phases).toEqual({ a: 'running', b: 'waiting', c: 'running', d: 'running' });
    expect(loop.tell('finished', 'd').phases).toMatchObject({ b: 'waiting' });
    expect(loop.tell('finished', 'a').phases).toMatchObject({ b: 'running' });
  });

  it('let a result count when it is approved, and not before [RL3]', () => {
    const loop = new Loop([task('a', { validated: true }), task('b', { dependsOn: ['a'] })]);
    expect(loop.tell('finished', 'a').effects).toEqual([{ type: 'validate', task: 'a', attempt: 1 }]);
    expect(loop.phases).toEqual({ a: 'validating', b: 'waiting' });
    expect(loop.tell('judged', 'a', { verdict: 'approved' }).phases).toEqual({ a: 'done', b: 'running' });
  });

  it('try again with the feedback, at once, until there are no retries left [RL4]', () => {
    const loop = new Loop([task('a', { validated: true })]);
    loop.tell('finished', 'a').tell('judged', 'a', { verdict: 'needs-revision', feedback: 'shorter' });
    expect(loop.effects).toEqual([{ type: 'dispatch', task: 'a', attempt: 2 }]);
    expect(loop.state.tasks.get('a')).toMatchObject({ feedback: ['shorter'], unjudged: false });
    loop.tell('finished', 'a').tell('judged', 'a', { verdict: 'needs-revision', feedback: 'still too long' });
    expect(loop.effects).toEqual([{ type: 'escalate', task: 'a', attempt: 2 }]);
    expect(loop.state.tasks.get('a')).toMatchObject({
      phase: 'escalating',
      reason: { code: 'RESULT_REFUSED', message: 'still too long' },
      feedback: ['shorter', 'still too long'],
    });
  });

  it('pause before another attempt at a failed task, longer each time', () => {
    const loop = new Loop([task('a', { retries: 12 })]);
    const pauses: number[] = [];
    for (let failure = 0; failure < 12; failure++) {
      loop.tell('failed', 'a');
      pauses.push((loop.effects[0] as { ms: number }).ms);
      loop.tell('due', 'a');
    }
    expect(pauses.slice(0, 3)).toEqual([100, 200, 400]);
    expect(pauses.at(-1)).toBe(30_000);
  });

  it('do not try rejected tasks again, or tasks that would be refused again', () => {
    const loop = new Loop([task('a', { validated: true, retries: 5 }), task('b', { retries: 5 })]);
    loop.tell('finished', 'a').tell('judged', 'a', { verdict: 'rejected', feedback: 'wrong' });
    expect(loop.effects).toEqual([{ type: 'escalate', task: 'a', attempt: 1 }]);
    loop.tell('failed', 'b', { error: { code: 'TIER_VIOLATION', message: 'no' } });
    expect(loop.effects).toEqual([{ type: 'escalate', task: 'b', attempt: 1 }]);
  });

  it('judge an unjudged result again, without doing the task again', () => {
    const loop = new Loop([task('a', { validated: true })]);
    loop.tell('finished', 'a').tell('unjudged', 'a', { error: ERROR });
    expect(loop.phases).toEqual({ a: 'pausing' });
    // The fault of the validator is no feedback for the worker.
    expect(loop.state.tasks.get('a')).toMatchObject({ reason: ERROR, feedback: [] });
    expect(loop.tell('due', 'a').effects).toEqual([{ type: 'validate', task: 'a', attempt: 1 }]);
  });

  it('count usage in every phase, and change nothing else [WK.P8]', () => {
    const usage = { inputTokens: 2, outputTokens: 1, modelCalls: 1 };
    const loop = new Loop([task('a')]);
    const spend = () => loop.take({ type: 'spent', at: ++loop.at, task: 'a', attempt: 1, usage });
    for (const type of ['failed', 'due', 'finished'] as const) {
      const { phase } = spend().state.tasks.get('a')!;
      expect(loop.effects).toEqual([]);
      expect(phase).toBe({ failed: 'running', due: 'pausing', finished: 'running' }[type]);
      loop.tell(type, 'a');
    }
    expect(spend().state).toMatchObject({ status: 'done' });
    expect(loop.state.tasks.get('a')!.usage).toEqual({ inputTokens: 8, outputTokens: 4, modelCalls: 4 });
    expect(replay(loop.events)).toEqual(loop.state);
  });

  it('remember which agent had a task, unless it did not take the latest attempt [WK.P5]', () => {
    const loop = new Loop([task('a', { retries: 5 })]);
    const by = () => loop.state.tasks.get('a')!.by;
    loop.tell('failed', 'a', { by: 'mars' });
    expect(by()).toBe('mars');
    loop.tell('due', 'a').take({ type: 'resumed', at: ++loop.at });
    expect(by()).toBe('mars');
    loop.tell('failed', 'a');
    expect(by()).toBeUndefined();
  });

  describe('about a task that keeps failing [RL5]', () => {
    const stuck = (more: Partial<LoopSettings> = {}) =>
      new Loop(
        [task('a', { retries: 0 }), task('b', { dependsOn: ['a'] }), task('c', { dependsOn: ['b'] }), task('d')],
        more,
      ).tell('failed', 'a');
    const answer = (loop: Loop, said: Answer) => loop.tell('answered', 'a', { answer: said });

    it('ask L0, which may want one more attempt', () => {
      const loop = stuck();
      expect(loop.effects).toEqual([{ type: 'escalate', task: 'a', attempt: 1 }]);
      answer(loop, { action: 'retry', feedback: 'take the other door' });
      expect(loop.effects).toEqual([{ type: 'dispatch', task: 'a', attempt: 2 }]);
      expect(loop.state.tasks.get('a')!.feedback).toEqual(['it broke', 'take the other door']);
    });

    it('do not let L0 send it back for ever', () => {
      const loop = stuck();
      for (let round = 0; round < 3; round++) answer(loop, { action: 'retry' }).tell('failed', 'a');
      expect(loop.phases).toMatchObject({ a: 'escalated', b: 'blocked', c: 'blocked' });
    });

    it('take a result from L0', () => {
      const loop = answer(stuck(), { action: 'accept', result: 42 });
      expect(loop.phases).toMatchObject({ a: 'done', b: 'running' });
      expect(loop.state.tasks.get('a')).toMatchObject({ result: 42 });
    });

    it('give it up when L0 says so, block its dependents, and go on with the rest', () => {
      const loop = answer(stuck(), { action: 'fail', reason: 'not needed' });
      expect(loop.phases).toEqual({ a: 'failed', b: 'blocked', c: 'blocked', d: 'running' });
      expect(loop.state.tasks.get('c')!.reason).toEqual({ code: 'RUN_INCOMPLETE', message: '"b" did not get done' });
      expect(loop.tell('finished', 'd').state.status).toBe('failed');
    });

    it('leave it to the operator when L0 has nothing to say, or is not to be asked', () => {
      const asked = answer(stuck(), { action: 'operator' });
      const manual = stuck({ escalation: { policy: 'manual', successRate: 0, afterTasks: 1 } });
      for (const loop of [asked, manual]) {
        expect(loop.phases).toMatchObject({ a: 'escalated', b: 'blocked', c: 'blocked' });
        expect(loop.tell('finished', 'd').state.status).toBe('escalated');
      }
    });

    it('fail the whole plan when too few tasks succeed', () => {
      const tasks = [task('a', { retries: 0 }), task('b', { retries: 0 }), task('c', { retries: 3 }), task('d')];
      const policy = { policy: 'threshold', successRate: 0.5, afterTasks: 2 } as const;
      const loop = new Loop(tasks, { concurrency: 3, escalation: policy });
      loop.tell('failed', 'a');
      expect(loop.phases).toMatchObject({ a: 'escalating', d: 'running' });
      loop.tell('failed', 'b');
      expect(loop.phases).toMatchObject({ b: 'failed', c: 'running' });
      loop
        .tell('failed', 'c')
        .tell('finished', 'd')
        .tell('answered', 'a', { answer: { action: 'retry' } });
      expect(loop.phases).toEqual({ a: 'blocked', b: 'failed', c: 'failed', d: 'done' });
      expect(loop.state.status).toBe('failed');
    });
  });

  it('hand out tasks again that were under way when the node stopped, as another attempt [RL8]', () => {
    const loop = new Loop([task('a'), task('b', { validated: true }), task('c')], { concurrency: 2 });
    loop.tell('finished', 'b').take({ type: 'resumed', at: 9 });
    expect(loop.effects).toEqual([
      { type: 'dispatch', task: 'a', attempt: 2 },
      { type: 'validate', task: 'b', attempt: 1 },
    ]);
    // Whoever hands it out may ask what became of the first attempt, and of the second if that is lost too.
    expect(loop.state.tasks.get('a')).toMatchObject({ attempt: 2, lostFrom: 1 });
    const again = step(loop.state, { type: 'resumed', at: 10 }).state;
    expect(again.tasks.get('a')).toMatchObject({ attempt: 3, lostFrom: 1 });
    expect(
      step(again, { type: 'failed', at: 11, task: 'a', attempt: 3, error: ERROR }).state.tasks.get('a'),
    ).toMatchObject({
      phase: 'pausing',
      lostFrom: undefined,
    });
    // What the first attempt gave after all is not waited for any more.
    loop.take({ type: 'finished', at: 10, task: 'a', attempt: 1, result: 'late' });
    expect(loop.phases).toMatchObject({ a: 'running' });
  });

  it('stop, and go on with the tasks that are not done when the plan is run again [RL7]', () => {
    const loop = new Loop([task('a'), task('b', { retries: 0 }), task('c')], {
      escalation: { policy: 'manual', successRate: 0, afterTasks: 1 },
    });
    loop.tell('finished', 'a').tell('failed', 'b').take({ type: 'stopped', at: 9 });
    expect(loop.effects).toEqual([{ type: 'cancel' }]);
    expect(loop.state.status).toBe('stopped');
    expect(loop.take({ type: 'resumed', at: 10 }).effects).toEqual([]);
    loop.take({ type: 'reopened', at: 11, settings: loop.state.settings });
    expect(loop.effects).toEqual([
      { type: 'dispatch', task: 'b', attempt: 2 },
      { type: 'dispatch', task: 'c', attempt: 2 },
    ]);
  });

  it('take over results of an earlier run', () => {
    const loop = new Loop([]);
    const tasks = [task('a'), task('b', { dependsOn: ['a'] })];
    loop.events.length = 0;
    loop.take({ type: 'opened', at: 0, settings: settings(tasks), carried: [{ task: 'a', result: 1 }] });
    expect(loop.phases).toEqual({ a: 'done', b: 'running' });
  });
});

describe('the Ralph loop, whatever happens', () => {
  interface World {
    readonly settings: LoopSettings;
    /** What is drawn from at every turn. */
    readonly draws: readonly number[];
  }

  const worlds: fc.Arbitrary<World> = fc
    .record({
      edges: fc.array(fc.array(fc.nat(30), { maxLength: 3 }), { minLength: 1, maxLength: 20 }),
      tiers: fc.array(fc.constantFrom<AgentTier>(0, 1, 2, 3), { minLength: 20, maxLength: 20 }),
      retries: fc.nat(3),
      validated: fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }),
      concurrency: fc.integer({ min: 1, max: 6 }),
      tierConcurrency: fc.tuple(...[1, 2, 3, 4].map(() => fc.integer({ min: 1, max: 4 }))),
      policy: fc.constantFrom('auto' as const, 'manual' as const, 'threshold' as const),
      draws: fc.infiniteStream(fc.nat(1_000)).map((stream) => [...stream.take(600)]),
    })
    .map(({ edges, tiers, retries, validated, concurrency, tierConcurrency: [a, b, c, d], policy, draws }) => {
      // Each depends on some of those before it, and they are written in any order.
      const tasks = edges.map((some, index) => {
        const before = [...new Set(some.filter((other) => other < index))].map((other) => `t${other}`);
        return task(`t${index}`, { dependsOn: before, tier: tiers[index]!, retries, validated: validated[index]! });
      });
      const order = draws[0]! % 2 === 0 ? tasks : tasks.toReversed();
      return {
        settings: settings(order, {
          concurrency,
          tierConcurrency: { 0: a!, 1: b!, 2: c!, 3: d! },
          escalation: { policy, successRate: 0.5, afterTasks: 3 },
        }),
        draws,
      };
    });

  /** Lets a run go its way: something of what is under way comes to some end, again and again. */
  function go({ settings: given, draws }: World, onStep: (state: LoopState, effects: readonly LoopEffect[]) => void) {
    const events: LoopEvent[] = [];
    let state: LoopState | undefined;
    const take = (event: LoopEvent) => {
      const taken = step(state, event);
      events.push(event);
      state = taken.state;
      onStep(taken.state, taken.effects);
    };
    take({ type: 'opened', at: 0, settings: given, carried: [] });
    let interruptions = 3;
    for (const [at, draw] of draws.entries()) {
      if (state!.status !== 'running') break;
      if (interruptions > 0 && draw > 990) {
        interruptions--;
        take({ type: 'resumed', at });
        continue;
      }
      const open = [...state!.tasks].filter(([, { phase }]) => phase !== 'waiting' && !ENDS.has(phase));
      const [id, { phase, attempt }] = open[draw % open.length]!;
      // Something that nobody waits for any more, now and then.
      const stale = [...state!.tasks.keys()][draw % state!.tasks.size]!;
      if (draw % 11 === 0) take({ at, type: 'finished', task: stale, attempt: attempt - 1, result: 'late' });
      take({ at, task: id, attempt, ...outcome(phase, draw) } as LoopEvent);
    }
    return { events, state: state! };
  }

  function outcome(phase: Phase, draw: number): object {
    const often = draw % 3;
    switch (phase) {
      case 'running':
        return often > 0 ? { type: 'finished', result: draw } : { type: 'failed', error: ERROR };
      case 'validating':
        if (draw % 7 === 0) return { type: 'unjudged', error: ERROR };
        return { type: 'judged', verdict: often > 0 ? 'approved' : draw % 2 ? 'needs-revision' : 'rejected' };
      case 'pausing':
        return { type: 'due' };
      default:
        return {
          type: 'answered',
          answer: [
            { action: 'retry' },
            { action: 'accept', result: draw },
            { action: 'fail', reason: 'no' },
            { action: 'operator' },
          ][draw % 4],
        };
    }
  }

  it('begins nothing before its dependencies are done, and never too much at once [RL1 RL6]', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const plan = new Map(world.settings.tasks.map((one) => [one.id, one]));
        const wrong: unknown[] = [];
        go(world, (state, effects) => {
          for (const effect of effects) {
            if (effect.type !== 'dispatch') continue;
            const missing = plan.get(effect.task)!.dependsOn.filter((id) => state.tasks.get(id)!.phase !== 'done');
            if (missing.length > 0) wrong.push({ begun: effect.task, missing });
          }
          const active = [...state.tasks].filter(([, { phase }]) => phase === 'running' || phase === 'validating');
          if (active.length > world.settings.concurrency) wrong.push({ active });
          for (const tier of [0, 1, 2, 3] as const) {
            const ofTier = active.filter(([id]) => plan.get(id)!.tier === tier);
            if (ofTier.length > world.settings.tierConcurrency[tier]) wrong.push({ tier, ofTier });
          }
        });
        expect(wrong).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it('ends, with each task done, failed, blocked or escalated, and says so [RL1]', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const { state } = go(world, () => {});
        expect(state.status).not.toBe('running');
        const phases = [...state.tasks.values()].map(({ phase }) => phase);
        expect(phases.every((phase) => ENDS.has(phase))).toBe(true);
        expect(state.status === 'done').toBe(phases.every((phase) => phase === 'done'));
      }),
      { numRuns: 200 },
    );
  });

  it('never repeats a done task, and is rebuilt equally from its stored events at every moment [RL7 RL8]', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const done = new Set<string>();
        const again: unknown[] = [];
        const states: LoopState[] = [];
        const { events } = go(world, (state, effects) => {
          again.push(...effects.filter((effect) => 'task' in effect && done.has(effect.task)));
          for (const [id, { phase }] of state.tasks) {
            if (phase === 'done') done.add(id);
            else if (done.has(id)) again.push({ undone: id });
          }
          states.push(state);
        });
        expect(again).toEqual([]);
        const kept = JSON.parse(JSON.stringify(events)) as LoopEvent[];
        const moment = world.draws[1]! % states.length;
        expect(replay(kept.slice(0, moment + 1))).toEqual(states[moment]);
      }),
      { numRuns: 200 },
    );
  });
});
