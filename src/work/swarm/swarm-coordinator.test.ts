import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { tries } from '../../../test/evidence.js';
import type { Agent } from '../../agent/agent.js';
import type { SubTaskInput, SwarmInit, SwarmRun } from '../../agent/agent-swarms.js';
import { createNode, type EclipticNode, type NodeInit } from '../../node/compose.js';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { MemoryStore } from '../../store/memory-store.js';
import type { SwarmSession } from './swarm-session.js';

const stage: { runtime: SimulatedRuntime; nodes: EclipticNode[] } = { runtime: new SimulatedRuntime(), nodes: [] };

afterEach(async () => {
  await clear();
});

async function clear(): Promise<void> {
  for (const node of stage.nodes.splice(0)) {
    const stopped = node.stop();
    await stage.runtime.advance(100);
    await stopped;
  }
}

async function start(init: NodeInit = {}): Promise<EclipticNode> {
  stage.runtime = new SimulatedRuntime({ seed: 7 });
  return more(init);
}

async function more(init: NodeInit): Promise<EclipticNode> {
  const node = await createNode({ runtime: stage.runtime, ...init });
  stage.nodes.push(node);
  return node;
}

/** Moves the clock until it has settled. */
async function settled<T>(promise: Promise<T>, limitMs = 120_000): Promise<T> {
  let over = false;
  const end = () => {
    over = true;
  };
  promise.then(end, end);
  for (let passed = 0; !over && passed < limitMs; passed += 50) await stage.runtime.advance(50);
  return over ? promise : Promise.reject(new EclipticError('REQUEST_TIMEOUT', 'it does not settle'));
}

interface Doing {
  readonly agent: string;
  readonly input: SubTaskInput;
}

/** An agent that does what it is given, after a while, and says so. */
function worker(node: EclipticNode, id: string, capabilities: string[], does: Doing[] = [], ms = 100): Agent {
  return node.agent({ id, capabilities }).onTask(async (task) => {
    const input = task.message.parts[1]!.data as SubTaskInput;
    does.push({ agent: id, input });
    task.progress(`${id} is at it`);
    await new Promise<void>((resolve) => void stage.runtime.setTimer(resolve, ms));
    return `${input.subTask} by ${id}`;
  });
}

function form(node: EclipticNode, init: SwarmInit, id = 'sun'): { sun: Agent; run: SwarmRun } {
  const sun = node.agents.find((agent) => agent.id === id) ?? node.agent({ id });
  return { sun, run: sun.swarm('the whole', { leaseMs: 2_000, ...init }) };
}

describe('a swarm', () => {
  it('gives each sub-task the results it depends on, and ends with all results in order [R8.4 R8.6]', async () => {
    const node = await start();
    const does: Doing[] = [];
    worker(node, 'ann', ['draw'], does);
    worker(node, 'bob', ['write'], does);
    const plan = {
      subTasks: [
        { id: 'sketch', description: 'a sketch', requiredCapabilities: ['draw'], input: { of: 'a cat' } },
        { id: 'story', requiredCapabilities: ['write'], dependsOn: ['sketch'] },
        { id: 'book', requiredCapabilities: ['draw'], dependsOn: ['story', 'sketch'] },
      ],
    };
    const { run } = form(node, { capabilities: ['draw', 'write'], plan });
    const { results, status } = await settled(run.result);
    expect([status, Object.entries(results)]).toEqual([
      'completed',
      [
        ['sketch', 'sketch by ann'],
        ['story', 'story by bob'],
        ['book', 'book by ann'],
      ],
    ]);
    expect(does.map(({ input }) => input)).toEqual([
      { swarm: run.id, subTask: 'sketch', task: 'the whole', input: { of: 'a cat' }, results: {} },
      { swarm: run.id, subTask: 'story', task: 'the whole', results: { sketch: 'sketch by ann' } },
      {
        swarm: run.id,
        subTask: 'book',
        task: 'the whole',
        results: { story: 'story by bob', sketch: 'sketch by ann' },
      },
    ]);
  });

  it('gives work by current load, and keeps those beyond the work in reserve [R8.2]', async () => {
    const node = await start();
    const does: Doing[] = [];
    worker(node, 'idle', ['dig'], does);
    worker(node, 'busy', ['dig'], does).onProposal((proposal) => proposal.accept({ load: 5 }));
    const { run } = form(node, { capabilities: ['dig'], plan: [{ id: 'hole', requiredCapabilities: ['dig'] }] });
    await settled(run.active);
    expect(run.session).toMatchObject({ participants: [`idle@${node.key}`], standby: [`busy@${node.key}`] });
    await settled(run.result);
    expect(does.map(({ agent }) => agent)).toEqual(['idle']);
  });

  it('shows every participant the shared state while it is active, with progress [R8.3]', async () => {
    const node = await start();
    const ann = worker(node, 'ann', ['draw'], [], 5_000);
    const bob = worker(node, 'bob', ['write'], [], 1_000);
    const { sun, run } = form(node, { capabilities: ['draw', 'write'] });
    await settled(run.active);
    await stage.runtime.advance(500);
    bob.swarms.document(run.id)!.map('shared').set('title', 'Cats');
    await stage.runtime.advance(2_000);
    for (const agent of [sun, ann, bob]) {
      const session = agent.swarms.getSwarm(run.id)!;
      expect(session).toMatchObject({ status: 'active', sharedState: { title: 'Cats' }, arbiter: `sun@${node.key}` });
      expect(session.subTasks).toMatchObject([
        { id: 'draw', status: 'running', assignedAgent: `ann@${node.key}`, progress: 'ann is at it', attempts: 1 },
        { id: 'write', status: 'completed', assignedAgent: `bob@${node.key}`, result: 'write by bob' },
      ]);
      expect(agent.swarms.listActiveSwarms().map(({ id }) => id)).toEqual([run.id]);
    }
    await settled(run.result);
    await stage.runtime.advance(5_000);
    for (const agent of [sun, ann, bob]) {
      expect(agent.swarms.getSwarm(run.id)).toMatchObject({ status: 'completed' });
      expect(agent.swarms.listActiveSwarms()).toEqual([]);
    }
    expect(await bob.swarms.finished(run.id)).toMatchObject({
      status: 'completed',
      results: { draw: 'draw by ann', write: 'write by bob' },
    });
  });

  it('gives a failed sub-task to another member, and escalates it when all have failed [R8.5 RS3 UT6]', async () => {
    const node = await start();
    node.agent({ id: 'clumsy', capabilities: ['cut', 'hold'] }).onRequest(() => {
      throw new EclipticError('HANDLER_FAILED', 'it slipped');
    });
    worker(node, 'deft', ['cut']).swarms.capacity = 4;
    const { run } = form(node, { capabilities: ['cut', 'hold'], attempts: 3 });
    const told: string[] = [];
    node.observability.subscribe(({ type, recipient, swarmStatus, reason = '' }) => {
      if (type === 'swarm' && recipient === 'sun') told.push(`${swarmStatus} ${reason.slice(0, 38)}`.trim());
    });
    const escalations: unknown[] = [];
    run.onEscalation((escalation) => escalations.push(escalation));
    const failure = await settled(run.result.catch((error: unknown) => error as EclipticError));
    expect(failure).toMatchObject({ code: 'SWARM_FAILED', details: { outcome: { results: { cut: 'cut by deft' } } } });
    const escalation = {
      swarmId: run.id,
      kind: 'attempts-exhausted',
      subTask: 'hold',
      reason: expect.stringContaining('it slipped'),
    };
    expect(escalations).toEqual([escalation]);
    expect(failure).toMatchObject({ details: { outcome: { escalations: [escalation] } } });
    expect(run.session!.subTasks[1]).toMatchObject({ id: 'hold', status: 'failed', attempts: 3 });
    expect(told).toEqual(['active', 'active attempts-exhausted (hold): 3 attempts', 'failed']);
  });

  it('reassigns the sub-tasks of a participant that left [R8.5]', async () => {
    const node = await start();
    const does: Doing[] = [];
    const gone = worker(node, 'gone', ['run'], does, 60_000);
    worker(node, 'here', ['run'], does).onProposal((proposal) => proposal.accept({ load: 1 }));
    const { run } = form(node, { capabilities: ['run'], plan: [{ id: 'lap', requiredCapabilities: ['run'] }] });
    await settled(run.active);
    await stage.runtime.advance(500);
    expect(run.session!.subTasks[0]!.assignedAgent).toBe(`gone@${node.key}`);
    gone.leave();
    expect((await settled(run.result)).results).toEqual({ lap: 'lap by here' });
    expect(run.session).toMatchObject({ participants: [`here@${node.key}`], standby: [`gone@${node.key}`] });
    expect(does.map(({ agent }) => agent)).toEqual(['gone', 'here']);
  });

  it('is not formed without a capable member, and names the refusals', async () => {
    const node = await start();
    worker(node, 'ann', ['draw']).onProposal((proposal) => proposal.reject('busy'));
    const { run } = form(node, { capabilities: ['draw'] });
    const error = await settled(run.active.catch((refused: unknown) => refused as EclipticError));
    expect(error).toMatchObject({ code: 'CAPABILITY_NOT_FOUND', details: { subTasks: ['draw'] } });
    expect((error as EclipticError).message).toContain('busy');
    const { run: none } = form(node, { capabilities: ['fly'] });
    await expect(settled(none.result)).rejects.toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
  });

  it('asks a planner for the plan, and an aggregator for one result of all [SW6]', async () => {
    const node = await start();
    worker(node, 'ann', ['draw']);
    node.agent({ id: 'planner' }).onRequest(({ payload }) => {
      expect(payload).toEqual({ task: 'the whole', requiredCapabilities: ['draw'] });
      return { subTasks: ['left', 'right'].map((id) => ({ id, requiredCapabilities: ['draw'] })) };
    });
    node.agent({ id: 'editor' }).onRequest(({ payload }) => {
      const { input } = payload as { input: SubTaskInput };
      return Object.values(input.results).join(' and ');
    });
    const { run } = form(node, { capabilities: ['draw'], planner: 'planner', aggregator: 'editor' });
    expect(await settled(run.result)).toMatchObject({
      status: 'completed',
      results: { left: 'left by ann', right: 'right by ann' },
      aggregate: 'left by ann and right by ann',
    });
    node.agent({ id: 'fool' }).onRequest(() => ({ subTasks: [{ id: 'a', dependsOn: ['b'] }] }));
    const { run: bad } = form(node, { capabilities: ['draw'], planner: 'fool' });
    await expect(settled(bad.active)).rejects.toMatchObject({ code: 'INVALID_PLAN' });
  });

  it('lets agents without a handler complete sub-tasks by calls, and only their own', async () => {
    const node = await start();
    const hand = node.agent({ id: 'hand', capabilities: ['sew'] }).onProposal((proposal) => proposal.accept());
    const { sun, run } = form(node, {
      capabilities: ['sew'],
      plan: [
        { id: 'hem', requiredCapabilities: ['sew'] },
        { id: 'seam', requiredCapabilities: ['sew'] },
      ],
    });
    await settled(run.active);
    await stage.runtime.advance(500);
    await expect(sun.swarms.completeSubTask(run.id, 'hem', 1)).rejects.toMatchObject({ code: 'SUB_TASK_NOT_HELD' });
    await expect(sun.swarms.completeSubTask('other', 'hem', 1)).rejects.toMatchObject({ code: 'SWARM_NOT_FOUND' });
    await settled(hand.swarms.failSubTask(run.id, 'hem', 'the thread broke'));
    await stage.runtime.advance(500);
    expect(run.session!.subTasks[0]).toMatchObject({ id: 'hem', status: 'pending', reason: 'the thread broke' });
    await settled(hand.swarms.completeSubTask(run.id, 'seam', 'sewn'));
    await settled(hand.swarms.completeSubTask(run.id, 'hem', 'hemmed'));
    expect((await settled(run.result)).results).toEqual({ hem: 'hemmed', seam: 'sewn' });
  });

  it('takes in a member that joins later', async () => {
    const node = await start();
    worker(node, 'ann', ['draw'], [], 1_000);
    const { run } = form(node, {
      capabilities: ['draw'],
      plan: [1, 2, 3, 4].map((n) => ({ id: `p${n}`, requiredCapabilities: ['draw'] })),
    });
    await settled(run.active);
    const late = worker(node, 'late', ['draw'], [], 1_000);
    await expect(settled(late.swarms.joinSwarm('no-such', 'late'))).rejects.toMatchObject({ code: 'SWARM_NOT_FOUND' });
    await expect(settled(late.swarms.joinSwarm(run.id, 'ann', 'sun'))).rejects.toMatchObject({
      code: 'SENDER_REFUSED',
    });
    // By way of one that is not the arbiter, too.
    await settled(late.swarms.joinSwarm(run.id, 'late', 'ann'));
    const { results } = await settled(run.result);
    expect(new Set(Object.values(results).map((by) => String(by).slice(3)))).toEqual(new Set(['by ann', 'by late']));
    expect(run.session!.participants).toEqual([`ann@${node.key}`, `late@${node.key}`]);
  });

  it('takes in an agent of a node that takes part, which names no member [T-C12]', async () => {
    const node = await start();
    worker(node, 'ann', ['draw'], [], 1_000);
    const plan = [1, 2, 3, 4].map((n) => ({ id: `p${n}`, requiredCapabilities: ['draw'] }));
    const { run } = form(node, { capabilities: ['draw'], plan });
    await settled(run.active);
    const late = worker(node, 'late', ['draw'], [], 1_000);
    await settled(late.swarms.joinSwarm(run.id, 'late'));
    await settled(run.result);
    expect(run.session!.participants).toEqual([`ann@${node.key}`, `late@${node.key}`]);
  });

  it('is cancelled by its creator, and by no other agent', async () => {
    const node = await start();
    const ann = worker(node, 'ann', ['draw'], [], 60_000);
    const { run } = form(node, { capabilities: ['draw'] });
    await settled(run.active);
    expect(() => ann.swarms.cancelSwarm(run.id, 'no')).toThrow(expect.objectContaining({ code: 'SENDER_REFUSED' }));
    run.cancel('nobody wants it');
    const failure = await settled(run.result.catch((error: unknown) => error as EclipticError));
    expect(failure).toMatchObject({ code: 'SWARM_FAILED', message: 'nobody wants it' });
    await stage.runtime.advance(3_000);
    expect(ann.swarms.getSwarm(run.id)).toMatchObject({ status: 'failed', reason: 'nobody wants it' });
  });

  it('is forgotten by those that accepted, where nothing came of it', async () => {
    const node = await start({ store: new MemoryStore() });
    const ann = worker(node, 'ann', ['draw']);
    const { run } = form(node, { capabilities: ['draw', 'fly'] });
    await expect(settled(run.active)).rejects.toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
    const finished = ann.swarms.finished(run.id);
    await expect(settled(finished)).rejects.toMatchObject({ code: 'SWARM_STALLED' });
    await expect(ann.swarms.finished(run.id)).rejects.toMatchObject({ code: 'SWARM_NOT_FOUND' });
  });

  it('goes on where it was after its node was stopped and started again, and repeats nothing that was settled [SW4]', async () => {
    const disk = new MemoryStore();
    const nodeKey = 'k'.repeat(64);
    const node = await start({ store: disk, nodeKey });
    const does: Doing[] = [];
    worker(node, 'ann', ['draw'], does, 1_000);
    const plan = [1, 2, 3, 4].map((n) => ({ id: `p${n}`, requiredCapabilities: ['draw'] }));
    const { run } = form(node, { capabilities: ['draw'], plan });
    await settled(run.active);
    await stage.runtime.advance(2_500);
    expect(run.session!.subTasks.map(({ status }) => status)).toEqual(['completed', 'completed', 'running', 'pending']);
    const snapshot = disk.snapshot();
    await clear();
    const again = await more({ store: new MemoryStore(snapshot), nodeKey });
    worker(again, 'ann', ['draw'], does, 1_000);
    const sun = again.agent({ id: 'sun' });
    // Nothing is settled yet, so its session may not be known; the run of a plan must still find it.
    expect([sun.swarms.isIn(run.id), sun.swarms.isIn('another')]).toEqual([true, false]);
    expect((await settled(sun.swarms.finished(run.id))).results).toEqual(
      Object.fromEntries(plan.map(({ id }) => [id, `${id} by ann`])),
    );
    expect(does.map(({ input }) => input.subTask)).toEqual(['p1', 'p2', 'p3', 'p3', 'p4']);
  });

  it('speaks among its members whatever their tiers, once they are in', async () => {
    const node = await start();
    // An L1 agent may not open a conversation with an L3 one; in a swarm they work together.
    node.agent({ id: 'low', tier: 3, capabilities: ['x'] }).onRequest(() => 'low');
    node.agent({ id: 'high', tier: 1, capabilities: ['y'] }).onRequest(() => 'high');
    const { run } = form(node, { capabilities: ['x', 'y'], justification: 'it must be done' }, 'io');
    expect((await settled(run.result)).results).toEqual({ x: 'low', y: 'high' });
  });
});

const CAPABILITIES = ['a', 'b', 'c', 'd'];
const RUNS = process.env.ECLIPTIC_SOAK ? 1_000 : 100;
const agentsArbitrary = fc.array(fc.subarray(CAPABILITIES), { minLength: 1, maxLength: 5 });

describe('properties of swarms', () => {
  it('Feature: a2a-mcp-protocols, Property 25: Swarm broadcast to capable agents [P25 R8.1]', async () => {
    await fc.assert(
      fc.asyncProperty(agentsArbitrary, fc.subarray(CAPABILITIES, { minLength: 1 }), async (agents, wanted) => {
        const node = await start();
        const proposed: string[] = [];
        node.observability.subscribe(({ type, messageType, recipient }) => {
          if (type === 'message-sent' && messageType === 'task-proposal') proposed.push(recipient!);
        });
        for (const [at, capabilities] of agents.entries()) {
          node.agent({ id: `w${at}`, capabilities }).onRequest(() => at);
        }
        const { run } = form(node, { capabilities: wanted });
        await settled(run.active.catch(() => {}));
        const capable = agents.flatMap((has, at) => (has.some((id) => wanted.includes(id)) ? [`w${at}`] : []));
        expect(proposed.sort()).toEqual(capable.sort());
        await clear();
      }),
      { numRuns: tries(RUNS, 'random histories') },
    );
  });

  it('Feature: a2a-mcp-protocols, Property 26: Swarm sub-task assignment and state consistency [P26 R8.2 R8.3 R8.4 R8.6]', async () => {
    const subTask = fc.record({
      needs: fc.subarray(CAPABILITIES, { maxLength: 2 }),
      after: fc.nat(),
      twice: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(agentsArbitrary, fc.array(subTask, { minLength: 1, maxLength: 8 }), async (agents, drawn) => {
        const node = await start();
        for (const [at, capabilities] of agents.entries()) worker(node, `w${at}`, capabilities, [], 10);
        // One that can do everything is always there, so that the plan can be carried out.
        worker(node, 'all', CAPABILITIES, [], 10);
        const plan = drawn.map(({ needs, after, twice }, at) => ({
          id: `t${at}`,
          requiredCapabilities: needs,
          dependsOn:
            at === 0 ? [] : [...new Set([after % at, ...(twice ? [(after + 1) % at] : [])])].map((n) => `t${n}`),
        }));
        const { run } = form(node, { capabilities: CAPABILITIES, plan });
        const seen: SwarmSession[] = [];
        run.onChange((session) => seen.push(session));
        const { status, results } = await settled(run.result);
        expect(status).toBe('completed');
        expect(Object.keys(results)).toEqual(plan.map(({ id }) => id));
        let before = new Map<string, unknown>();
        for (const session of seen) {
          for (const who of session.participants)
            expect(session.subTasks.some(({ assignedAgent }) => assignedAgent === who)).toBe(true);
          const members = [...session.participants, ...session.standby];
          for (const { assignedAgent, requiredCapabilities } of session.subTasks) {
            expect(members).toContain(assignedAgent);
            const has = node.registry.requireById(assignedAgent).capabilities.map(({ id }) => id);
            expect(has).toEqual(expect.arrayContaining([...requiredCapabilities]));
          }
          const now = new Map(
            session.subTasks.flatMap(({ id, status: is, result }) => (is === 'completed' ? [[id, result]] : [])),
          );
          for (const [id, result] of before) expect(now.get(id)).toBe(result);
          before = now;
        }
        await clear();
      }),
      { numRuns: tries(RUNS, 'random histories') },
    );
  });
});
