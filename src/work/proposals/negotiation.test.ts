import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { arbJson, arbTaskProposal } from '../../../test/generators.js';
import { startMesh } from '../../../test/mesh-fixture.js';
import type { Agent } from '../../agent/agent.js';
import type { A2AEnvelope, AgentTier } from '../../mesh/schemas.js';
import { TaskProposalPayloadSchema } from '../../mesh/schemas.js';
import { createNode, type EclipticNode, type NodeInit } from '../../node/compose.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { MemoryStore } from '../../store/memory-store.js';
import { isCanceled } from './machine.js';
import type { Engagement, ReceivedProposal } from './proposal.js';
import { faultOfTerms } from './proposal-wire.js';
import { proposals } from './tables.js';
import { TaskNegotiator } from './task-negotiator.js';

const nodes: EclipticNode[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/** A node on a simulated clock with an asker and a worker, and every envelope of the asker's and the worker's. */
async function start(init: NodeInit = {}, tiers: { asker?: AgentTier; worker?: AgentTier } = {}) {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime, nodeKey: 'here', ...init });
  nodes.push(node);
  const asker = node.agent({ id: 'asker', tier: tiers.asker ?? 3 });
  const worker = node.agent({ id: 'worker', tier: tiers.worker ?? 3, capabilities: ['build'] });
  return { runtime, node, asker, worker };
}

/** Gets the proposals made to an agent, and answers none of them. */
function receiving(agent: Agent): ReceivedProposal[] {
  const received: ReceivedProposal[] = [];
  agent.onProposal((proposal) => {
    received.push(proposal);
  });
  return received;
}

function canceled({ proposalSides }: Agent): boolean[] {
  return proposalSides.map(({ state }) => isCanceled(state));
}

function messages(node: EclipticNode, thread: string): A2AEnvelope[] {
  return [...node.threads.get(thread)];
}

const TASK = { to: 'worker', taskDescription: 'build it', requiredCapabilities: ['build'] } as const;

describe('the messages of a negotiation', () => {
  it('Feature: a2a-mcp-protocols, Property 23: Task negotiation message structure [P23 R7.1 R7.2 R7.3 GEN.arbTaskProposal]', async () => {
    await fc.assert(
      fc.asyncProperty(
        arbTaskProposal(),
        fc.boolean(),
        fc.integer({ min: 1, max: 1e9 }),
        fc.string({ minLength: 1, maxLength: 40 }),
        fc.option(fc.constantFrom('asker', 'other@elsewhere'), { nil: undefined }),
        async (terms, accepts, estimatedCompletionMs, reason, alternative) => {
          const { node, asker, worker } = await start();
          worker.onProposal((received) => {
            expect(received.proposal).toMatchObject({ ...terms, status: 'pending', proposerAgentId: 'asker' });
            if (accepts) void received.accept({ estimatedCompletionMs, load: 2 });
            else void received.reject(reason, alternative === undefined ? {} : { alternative });
          });
          const negotiation = asker.propose({ to: 'worker', ...terms });
          const { proposalId, correlationId } = await negotiation.answered;
          const [proposal, answer] = messages(node, correlationId);
          expect(proposal).toMatchObject({ type: 'task-proposal', payload: { proposalId, ...terms } });
          expect(TaskProposalPayloadSchema.safeParse(proposal!.payload).success).toBe(true);
          expect(answer).toMatchObject(
            accepts
              ? {
                  type: 'task-accept',
                  payload: { proposalId, acceptedBy: 'worker@here', estimatedCompletionMs, load: 2 },
                }
              : { type: 'task-reject', payload: { proposalId, rejectionReason: reason } },
          );
          if (accepts) {
            expect(negotiation.proposal).toMatchObject({ status: 'accepted', acceptedBy: 'worker' });
            return;
          }
          expect(negotiation.proposal).toMatchObject({ status: 'rejected', rejectionReason: reason });
          expect(negotiation.proposal.alternativeSuggestion).toBe(alternative);
          const suggested = alternative === 'asker' ? 'asker@here' : alternative;
          expect((answer!.payload as { alternativeSuggestion?: string }).alternativeSuggestion).toBe(suggested);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('Feature: a2a-mcp-protocols, Property 24: Task acceptance creates correlation thread [P24 R7.5]', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.option(fc.string({ minLength: 1, maxLength: 20 }), { nil: undefined }),
        fc.array(arbJson(), { maxLength: 4 }),
        fc.option(arbJson(), { nil: undefined }),
        async (thread, steps, result) => {
          const { node, asker, worker } = await start();
          const all: A2AEnvelope[] = [];
          node.observability.subscribe((event) => {
            if (event.type === 'message-sent') all.push(event as unknown as A2AEnvelope);
          });
          worker.onProposal(async (received) => {
            const engagement = await received.accept();
            for (const step of steps) engagement.progress(step);
            if (result === undefined) await engagement.fail(new Error('broken'));
            else await engagement.complete(result);
          });
          const negotiation = asker.propose({ ...TASK, ...(thread !== undefined && { thread }) });
          const heard: unknown[] = [];
          negotiation.onProgress((step) => heard.push(step));
          const outcome = await negotiation.result.catch((error) => error);
          if (result === undefined) expect(outcome).toMatchObject({ code: 'HANDLER_FAILED', message: 'broken' });
          else expect(outcome).toEqual(result);
          expect(heard).toEqual(steps);
          const { correlationId } = negotiation.proposal;
          if (thread !== undefined) expect(correlationId).toBe(thread);
          expect(all.length).toBe(4 + steps.length);
          expect(new Set(all.map((message) => message.correlationId))).toEqual(new Set([correlationId]));
          expect(messages(node, correlationId).map(({ type }) => type)).toEqual([
            'task-proposal',
            'task-accept',
            'notification',
            ...steps.map(() => 'stream-data'),
            result === undefined ? 'error' : 'response',
          ]);
          expect(node.threads.waiting).toBe(0);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('are read by a check that agrees with the schema', () => {
    const odd = fc.oneof(arbJson(), fc.constantFrom(undefined, -1, 0, Number.NaN, 'x'.repeat(70_000), [''], [1]));
    fc.assert(
      fc.property(
        arbTaskProposal(),
        fc.constantFrom('taskDescription', 'requiredCapabilities', 'estimatedComplexity', 'deadlineMs'),
        odd,
        (terms, field, value) => {
          const changed = { ...terms, [field]: value };
          expect(faultOfTerms(changed) === undefined).toBe(TaskProposalPayloadSchema.safeParse(changed).success);
          expect(faultOfTerms(terms)).toBeUndefined();
        },
      ),
    );
  });
});

describe('a proposal', () => {
  it('that is not answered times out at its deadline, and both sides are told once [R7.4 UT5 E.PROPOSAL_TIMEOUT]', async () => {
    const { runtime, node, asker, worker } = await start();
    const received = receiving(worker);
    const negotiation = asker.propose({ ...TASK, deadlineMs: 500 });
    let answers = 0;
    negotiation.answered.then(() => answers++);
    await runtime.advance(499);
    expect([negotiation.proposal.status, received[0]!.proposal.status]).toEqual(['pending', 'pending']);
    await runtime.advance(60);
    expect([negotiation.proposal.status, received[0]!.proposal.status]).toEqual(['timed-out', 'timed-out']);
    expect(received[0]!.signal.aborted).toBe(true);
    await expect(negotiation.result).rejects.toMatchObject({ code: 'PROPOSAL_TIMEOUT' });
    await expect(received[0]!.accept()).rejects.toMatchObject({ code: 'PROPOSAL_TIMEOUT' });
    await runtime.advance(600_000);
    expect(answers).toBe(1);
    expect(node.observability.getMetrics().errorsByCode).toEqual({ PROPOSAL_TIMEOUT: 1 });
    expect(node.threads.waiting).toBe(0);
  });

  it('is answered by its addressee only, once; anything else is refused, counted and evented', async () => {
    const { node, asker, worker, runtime } = await start();
    const stranger = node.agent({ id: 'stranger', tier: 3 });
    const received = receiving(worker);
    const negotiator = asker.negotiator as TaskNegotiator;
    const negotiation = asker.propose({ ...TASK, deadlineMs: 1_000 });
    const { proposalId, correlationId: thread } = negotiation.proposal;
    const accept = (acceptedBy: string) => ({ proposalId, acceptedBy, estimatedCompletionMs: 1 });
    await stranger.send('asker', accept('stranger@here'), { type: 'task-accept', thread });
    await stranger.send('asker', accept('worker@here'), { type: 'task-accept', thread });
    await stranger.send('asker', { proposalId, rejectionReason: 'no' }, { type: 'task-reject', thread });
    await stranger.send('asker', { 'ecliptic/proposal': proposalId, result: 1 }, { type: 'response', thread });
    await worker.send('asker', accept('stranger@here'), { type: 'task-accept', thread });
    await worker.send('asker', accept('worker@here'), { type: 'task-accept', thread: 'another' });
    expect(negotiation.proposal.status).toBe('pending');
    expect(negotiator.refusedAnswers).toEqual({ forged: 6, late: 0, duplicate: 0, crossed: 0 });
    const security = node.observability.getRecentEvents().filter(({ type }) => type === 'security');
    expect(security.map(({ code }) => code)).toEqual(Array(6).fill('ANSWER_REFUSED'));

    const engagement = await received[0]!.accept();
    await worker.send('asker', accept('worker@here'), { type: 'task-accept', thread });
    await worker.send('asker', { proposalId, rejectionReason: 'no' }, { type: 'task-reject', thread });
    await expect(received[0]!.reject('no')).rejects.toMatchObject({ code: 'INVALID_TRANSITION' });
    expect(negotiator.refusedAnswers).toMatchObject({ duplicate: 1, crossed: 1 });
    await engagement.complete(7);
    expect(await negotiation.result).toBe(7);

    const late = asker.propose({ ...TASK, deadlineMs: 100 });
    await runtime.advance(200);
    const said = { proposalId: late.proposal.proposalId, acceptedBy: 'worker@here', estimatedCompletionMs: 1 };
    await worker.send('asker', said, { type: 'task-accept', thread: late.proposal.correlationId });
    expect(late.proposal.status).toBe('timed-out');
    expect(negotiator.refusedAnswers).toMatchObject({ late: 1 });
    expect(node.observability.getMetrics().errorsByCode).toMatchObject({ ANSWER_REFUSED: 9 });
  });

  it('that is taken back is over for both, and an acceptance that crosses with that is refused', async () => {
    const { asker, worker } = await start();
    const received = receiving(worker);
    const negotiation = asker.propose(TASK);
    const { proposalId, correlationId: thread } = negotiation.proposal;
    negotiation.withdraw('not needed');
    expect(await negotiation.answered).toMatchObject({ status: 'rejected', rejectionReason: 'not needed' });
    expect(received[0]!.proposal).toMatchObject({ status: 'rejected', rejectionReason: 'not needed' });
    await expect(received[0]!.accept()).rejects.toMatchObject({ code: 'PROPOSAL_REJECTED' });
    const said = { proposalId, acceptedBy: 'worker@here', estimatedCompletionMs: 1 };
    await worker.send('asker', said, { type: 'task-accept', thread });
    expect((asker.negotiator as TaskNegotiator).refusedAnswers.crossed).toBe(1);
    expect(negotiation.proposal.status).toBe('rejected');
    expect([asker, worker].map(canceled)).toEqual([[true], [true]]);
  });

  it('that is taken back after its acceptance makes the worker stop', async () => {
    const { asker, worker } = await start();
    const engaged: Engagement[] = [];
    worker.onProposal(async (received) => void engaged.push(await received.accept()));
    const negotiation = asker.propose(TASK);
    await negotiation.answered;
    negotiation.withdraw('changed my mind');
    await expect(negotiation.result).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(engaged[0]!.signal.reason).toMatchObject({ code: 'CANCELLED', message: 'changed my mind' });
    await expect(engaged[0]!.complete(1)).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(negotiation.proposal.status).toBe('accepted');
    expect([asker, worker].map(canceled)).toEqual([[true], [true]]);
  });

  it('over the recipient’s rank needs a justification, and one that policy forbids is not made', async () => {
    const { node, asker, worker } = await start({}, { asker: 2, worker: 1 });
    worker.onRequest(() => 'done');
    const refused = asker.propose(TASK);
    await expect(refused.answered).rejects.toMatchObject({ code: 'ESCALATION_REQUIRED' });
    await expect(refused.result).rejects.toMatchObject({ code: 'ESCALATION_REQUIRED' });
    await expect(asker.propose({ ...TASK, to: undefined }).sent).rejects.toMatchObject({ code: 'ESCALATION_REQUIRED' });
    // The answer goes down the ranks, where L1 may open nothing: it is a reply.
    expect(await asker.propose({ ...TASK, justification: 'it burns' }).result).toBe('done');
    node.agent({ id: 'low', tier: 3 });
    await expect(worker.propose({ to: 'low', taskDescription: 'x' }).answered).rejects.toMatchObject({
      code: 'TIER_VIOLATION',
    });
    await expect(asker.propose({ ...TASK, to: 'nobody' }).answered).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    const odd = { ...TASK, deadlineMs: -1 };
    await expect(asker.propose(odd).result).rejects.toMatchObject({ code: 'INVALID_ENVELOPE' });
  });

  it('to capabilities goes to an agent that has all of them: least loaded, then earliest registered', async () => {
    const { node, asker, worker } = await start();
    worker.onRequest(() => 'worker');
    const both = ['build', 'test'];
    for (const id of ['first', 'second']) node.agent({ id, tier: 3, capabilities: both }).onRequest(() => id);
    expect(await asker.propose({ taskDescription: 'x', requiredCapabilities: both }).result).toBe('first');
    node.agentById('first').onRequest(() => new Promise(() => {}));
    void asker.request('first', 1).catch(() => {});
    expect(await asker.propose({ taskDescription: 'x', requiredCapabilities: both }).result).toBe('second');
    const none = asker.propose({ taskDescription: 'x', requiredCapabilities: ['build', 'fly'] });
    await expect(none.answered).rejects.toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
  });

  it('that is malformed is answered with an error, and other messages reach the other handlers', async () => {
    const { asker, worker } = await start();
    const heard: unknown[] = [];
    asker.onMessage((message) => void heard.push(message.type));
    const odd: unknown[] = [];
    worker.onMessage((message) => void odd.push(message.payload));
    const proposal = (payload: unknown) => asker.send('worker', payload, { type: 'task-proposal', thread: 'talk' });
    await proposal('just words');
    await proposal({ proposalId: 'p1', taskDescription: 'x' });
    expect(odd).toEqual(['just words']);
    expect(heard).toEqual([]);
    const terms = { taskDescription: 'x', requiredCapabilities: [], estimatedComplexity: 'simple', deadlineMs: 1_000 };
    await proposal(terms);
    expect(worker.negotiator.listPending()).toEqual([]);
    const mesh = await startMesh();
    mesh.join('raw');
    mesh.node.agent({ id: 'bob', tier: 3 }).onRequest(() => 1);
    await mesh.send('raw', 'bob', { type: 'task-proposal', payload: { proposalId: 'p2' }, thread: 't' });
    expect(mesh.inbox('raw')).toMatchObject([
      { type: 'error', correlationId: 't', payload: { 'ecliptic/proposal': 'p2', code: 'INVALID_ENVELOPE' } },
    ]);
    await mesh.node.stop();
  });

  it('beyond the limit is refused: to its maker with a code, to its addressee as busy', async () => {
    const { node, asker, worker } = await start();
    receiving(worker);
    const negotiator = new TaskNegotiator(
      {
        ...{ runtime: new SimulatedRuntime(), registry: node.registry, threads: node.threads, router: node.router },
        ...{ observability: node.observability, records: undefined, knows: () => true },
        deadlines: { add() {}, remove() {}, clear() {} } as never,
        sender: { agentId: 'asker', address: 'asker@here', route: () => ROUTED },
      },
      { onReceived: () => {}, maxOpen: 2 },
    );
    negotiator.open(TASK);
    negotiator.open(TASK);
    expect(() => negotiator.open(TASK)).toThrow(expect.objectContaining({ code: 'PROPOSALS_FULL' }));
    const payload = { taskDescription: 'x', requiredCapabilities: [], estimatedComplexity: 'simple', deadlineMs: 9 };
    const posted: unknown[] = [];
    const small = new TaskNegotiator(
      {
        ...{ runtime: new SimulatedRuntime(), registry: node.registry, threads: node.threads, router: node.router },
        ...{ observability: node.observability, records: undefined, knows: () => true },
        deadlines: { add() {}, remove() {}, clear() {} } as never,
        sender: {
          ...{ agentId: 'worker', address: 'worker@here' },
          route: (_to, type, said) => {
            posted.push([type, said]);
            return ROUTED;
          },
        },
      },
      { onReceived: () => {}, maxOpen: 1 },
    );
    for (const proposalId of ['p1', 'p2']) {
      const about = { sender: 'asker', recipient: 'worker', type: 'task-proposal', correlationId: 't' } as const;
      small.take(node.envelopes.create({ ...about, payload: { ...payload, proposalId } }));
    }
    expect(posted).toEqual([['task-reject', { proposalId: 'p2', rejectionReason: 'busy' }]]);
    expect(asker.negotiations).toEqual([]);
  });
});

const ROUTED = { delivered: true, path: 'local', targetAgentId: 'worker', latencyMs: 0 } as const;

describe('an agent without a proposal handler', () => {
  it('takes proposals that its capabilities allow, and its request handler does the work', async () => {
    const { asker, worker } = await start();
    worker.onRequest(({ payload, from }) => ({ from, payload }));
    expect(await asker.propose(TASK).result).toEqual({ from: 'asker', payload: 'build it' });
    expect(await asker.propose({ ...TASK, input: { n: 1 } }).result).toEqual({
      from: 'asker',
      payload: { taskDescription: 'build it', input: { n: 1 } },
    });
    const beyond = asker.propose({ ...TASK, requiredCapabilities: ['fly'] });
    expect(await beyond.answered).toMatchObject({ status: 'rejected', rejectionReason: 'missing-capability' });
    worker.onRequest(() => {
      throw new Error('broken');
    });
    await expect(asker.propose(TASK).result).rejects.toMatchObject({ code: 'HANDLER_FAILED', message: 'broken' });
    worker.onRequest(() => () => {});
    await expect(asker.propose(TASK).result).rejects.toMatchObject({ code: 'INVALID_ENVELOPE' });
  });

  it('lets its task handler do the work, with progress, artifacts and cancellation', async () => {
    const { runtime, asker, worker } = await start();
    let aborted = false;
    worker.onTask(async (task) => {
      task.progress('half');
      if (task.text.includes('wait')) {
        await new Promise((resolve) => task.signal.addEventListener('abort', resolve));
        aborted = true;
      }
      if (task.text.includes('artifact')) return void task.artifact('made');
      return { text: task.message.parts.at(-1)!.data };
    });
    const negotiation = asker.propose({ ...TASK, input: [1, 2] });
    const heard: unknown[] = [];
    negotiation.onProgress((value) => heard.push(value));
    expect(await negotiation.result).toEqual({ text: [1, 2] });
    expect(heard).toEqual(['half']);
    expect(await asker.propose({ ...TASK, taskDescription: 'artifact' }).result).toBe('made');
    const waiting = asker.propose({ ...TASK, taskDescription: 'wait' });
    await waiting.answered;
    waiting.withdraw();
    await runtime.advance(10);
    expect(aborted).toBe(true);
  });

  it('refuses questions of its task handler, which may go on without an answer', async () => {
    const { asker, worker } = await start();
    worker.onTask(async (task) => {
      const answer = await task.ask('Which branch?').catch(({ code }) => code);
      return [task.canAsk, answer];
    });
    expect(await asker.propose(TASK).result).toEqual([false, 'OPERATION_NOT_SUPPORTED']);
  });

  it('joins an artifact that its task handler streams in pieces [T-E2]', async () => {
    const { asker, worker } = await start();
    worker.onTask(async (task) => {
      const id = task.artifact('It ', { lastChunk: false });
      task.artifact('was ', { id, append: true, lastChunk: false });
      if (task.text === 'wait') await new Promise<void>((resolve) => setImmediate(resolve));
      task.artifact('built.', { id, append: true });
      if (task.text === 'two') task.artifact({ data: { lines: 3 } });
    });
    expect(await asker.propose(TASK).result).toBe('It was built.');
    expect(await asker.propose({ ...TASK, taskDescription: 'wait' }).result).toBe('It was built.');
    expect(await asker.propose({ ...TASK, taskDescription: 'two' }).result).toEqual(['It was built.', { lines: 3 }]);
    worker.onTask(async (task) => void task.artifact('alone'));
    expect(await asker.propose(TASK).result).toBe('alone');
  });

  it('and without any handler for work refuses it for want of a worker', async () => {
    const { asker, worker, runtime } = await start();
    worker.onMessage(() => {});
    await runtime.advance(1);
    await expect(asker.propose(TASK).answered).rejects.toMatchObject({ code: 'NO_WORKER' });
    await expect(asker.propose({ ...TASK, to: 'worker' }).answered).rejects.toMatchObject({ code: 'NO_WORKER' });
  });

  it('that leaves rejects proposals it has not answered, and fails work it has begun', async () => {
    const { asker, worker, node } = await start();
    worker.onProposal((received) => {
      if (received.input === 'begin') void received.accept().catch(() => {});
    });
    const undecided = asker.propose(TASK);
    const begun = asker.propose({ ...TASK, input: 'begin' });
    await begun.answered;
    worker.leave();
    expect(await undecided.answered).toMatchObject({ status: 'rejected', rejectionReason: 'left' });
    await expect(begun.result).rejects.toMatchObject({ code: 'NODE_STOPPED' });
    const again = node.agent({ id: 'worker', tier: 3, capabilities: ['build'] });
    const received = receiving(again);
    const orphan = asker.propose(TASK);
    asker.leave();
    expect(orphan.proposal.status).toBe('rejected');
    expect(received[0]!.proposal.status).toBe('rejected');
  });
});

describe('the specification’s negotiator', () => {
  it('has every member, and answers by id', async () => {
    const { asker, worker } = await start();
    const seen: string[] = [];
    const stop = worker.negotiator.onProposalReceived(({ proposalId }) => seen.push(proposalId));
    const terms = {
      taskDescription: 'x',
      requiredCapabilities: [],
      estimatedComplexity: 'simple',
      deadlineMs: 5_000,
    } as const;
    const make = () =>
      asker.negotiator.propose({ ...terms, requiredCapabilities: [], proposerAgentId: 'asker', to: 'worker' });
    const first = await make();
    expect(first).toMatchObject({ ...terms, status: 'pending', proposerAgentId: 'asker' });
    expect(asker.negotiator.listPending()).toEqual([first]);
    expect(worker.negotiator.listPending()).toEqual([first]);
    await worker.negotiator.accept(first.proposalId, 1_234);
    const second = await make();
    await worker.negotiator.reject(second.proposalId, 'busy', 'asker');
    expect(seen).toEqual([first.proposalId, second.proposalId]);
    expect(asker.negotiator.getProposal(first.proposalId)).toMatchObject({ status: 'accepted', acceptedBy: 'worker' });
    const rejected = { status: 'rejected', rejectionReason: 'busy', alternativeSuggestion: 'asker' };
    expect(asker.negotiator.getProposal(second.proposalId)).toMatchObject(rejected);
    expect(asker.negotiator.getProposal('none')).toBeUndefined();
    await expect(worker.negotiator.accept('none', 1)).rejects.toMatchObject({ code: 'PROPOSAL_NOT_FOUND' });
    const alien = { ...terms, requiredCapabilities: [], proposerAgentId: 'worker', to: 'worker' };
    await expect(asker.negotiator.propose(alien)).rejects.toMatchObject({ code: 'SENDER_REFUSED' });
    stop();
    expect((await make()).status).toBe('rejected');
  });
});

describe('a proposal to everyone', () => {
  it('goes to the best bid by estimate and load; the others are told, in one thread', async () => {
    const { node, asker, worker } = await start();
    const outcomes: Record<string, string> = {};
    const bids = { a: [500, 3], b: [300, 9], c: [300, 2], d: [900, 0] } as const;
    for (const [id, [estimatedCompletionMs, load]] of Object.entries(bids)) {
      node.agent({ id, tier: 3, capabilities: ['build'] }).onProposal(async (received) => {
        try {
          const engagement = await received.accept({ estimatedCompletionMs, load });
          await engagement.complete(id);
        } catch (error) {
          outcomes[id] = (error as Error).message;
        }
      });
    }
    worker.onProposal((received) => received.reject('busy'));
    const negotiation = asker.proposeToAll({ taskDescription: 'x', requiredCapabilities: ['build'] });
    expect(await negotiation.answered).toMatchObject({ status: 'accepted', acceptedBy: 'c' });
    expect(await negotiation.result).toBe('c');
    expect(Object.keys(outcomes).sort()).toEqual(['a', 'b', 'd']);
    expect(outcomes.a).toContain('not-awarded');
    // A bid that lost is not a proposal that was taken back.
    expect(canceled(asker)).not.toContain(true);
    const { correlationId } = negotiation.proposal;
    expect(messages(node, correlationId).filter(({ type }) => type === 'task-proposal')).toHaveLength(5);
    expect(node.threads.waiting).toBe(0);
  });

  it('waits for bids until the deadline, and is over without bids', async () => {
    const { runtime, node, asker, worker } = await start();
    receiving(worker);
    node.agent({ id: 'slow', tier: 3, capabilities: ['build'] }).onRequest(() => 'slow');
    const init = { taskDescription: 'x', requiredCapabilities: ['build'], deadlineMs: 400 };
    const won = asker.proposeToAll(init);
    await runtime.advance(300);
    expect(won.proposal.status).toBe('pending');
    await runtime.advance(200);
    expect(await won.result).toBe('slow');
    node.agentById('slow').leave();
    const lost = asker.proposeToAll(init);
    await runtime.advance(500);
    expect(await lost.answered).toMatchObject({ status: 'timed-out' });
    await expect(lost.result).rejects.toMatchObject({ code: 'PROPOSAL_TIMEOUT' });
    worker.onProposal((received) => received.reject('busy', { alternative: 'asker' }));
    const declined = asker.proposeToAll(init);
    expect(await declined.answered).toMatchObject({ status: 'rejected', rejectionReason: 'busy' });
    await expect(declined.result).rejects.toMatchObject({ code: 'PROPOSAL_REJECTED' });
    const taken = asker.proposeToAll({ ...init, requiredCapabilities: ['fly'] });
    await expect(taken.answered).rejects.toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
  });

  it('can be taken back before and after the award', async () => {
    const { asker, worker } = await start();
    const received = receiving(worker);
    const init = { taskDescription: 'x', requiredCapabilities: ['build'] };
    const early = asker.proposeToAll(init);
    early.withdraw();
    expect(await early.answered).toMatchObject({ status: 'rejected', rejectionReason: 'withdrawn' });
    expect(received[0]!.proposal.status).toBe('rejected');
    const later = asker.proposeToAll(init);
    const engagement = await received[1]!.accept();
    later.withdraw();
    await expect(later.result).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(engagement.signal.aborted).toBe(true);
  });
});

describe('a durable proposal', () => {
  it('needs a store on both sides', async () => {
    const { asker } = await start();
    await expect(asker.propose({ ...TASK, durable: true }).sent).rejects.toMatchObject({ code: 'STORE_REQUIRED' });
  });

  it('is on disk when it is acknowledged, and settled on disk when it is over', async () => {
    const store = new MemoryStore();
    const { runtime, asker, worker } = await start({ store });
    worker.onRequest(() => 'done');
    const negotiation = asker.propose({ ...TASK, durable: true });
    await runtime.advance(0);
    await negotiation.sent;
    const result = negotiation.result;
    await runtime.advance(100);
    expect(await result).toBe('done');
    const rows = await store.read(proposals);
    expect(rows.map(({ side, status, open }) => [side, status, open])).toEqual([
      ['sent', 'accepted', 0],
      ['received', 'accepted', 0],
    ]);
  });
});

describe('a proposal that cannot be made', () => {
  it.each(['5', Number.POSITIVE_INFINITY, Number.NaN, 0, -1, {}])(
    'an acceptance that takes %s ms is refused, and a valid one still counts [T-C4]',
    async (time) => {
      const { asker, worker } = await start();
      worker.negotiator.onProposalReceived(() => {});
      const negotiation = asker.propose(TASK);
      await negotiation.sent;
      const { proposalId } = negotiation.proposal;
      const refused = worker.negotiator.accept(proposalId, time as number);
      await expect(refused).rejects.toMatchObject({ code: 'INVALID_ENVELOPE', retryable: false });
      await worker.negotiator.accept(proposalId, 5);
      expect(await negotiation.answered).toMatchObject({ status: 'accepted' });
    },
  );

  it('a proposal to everybody is refused at once [T-C5]', async () => {
    const { asker } = await start();
    const refusal = { code: 'INVALID_ENVELOPE', message: expect.stringContaining('proposeToAll') };
    await expect(asker.propose({ ...TASK, to: '*' }).answered).rejects.toMatchObject(refusal);
    const init = {
      ...TASK,
      to: '*',
      estimatedComplexity: 'simple',
      deadlineMs: 1_000,
      proposerAgentId: 'asker',
    } as const;
    const proposed = asker.negotiator.propose({ ...init, requiredCapabilities: [...TASK.requiredCapabilities] });
    await expect(proposed).rejects.toMatchObject(refusal);
  });

  it('durable work of a task handler that a crash broke off is handed to it again [T-C11]', async () => {
    const store = new MemoryStore();
    const { asker, worker, node, runtime } = await start({ store });
    const begun: string[] = [];
    worker.onTask(() => new Promise(() => begun.push('before')));
    asker.propose({ ...TASK, durable: true });
    for (let n = 0; n < 50 && begun.length === 0; n++) await runtime.advance(20);
    const after = new MemoryStore(store.snapshot());
    await node.stop();
    const again = await start({ store: after });
    again.worker.onTask(() => {
      begun.push('after');
      return 'built';
    });
    void again.asker.negotiator;
    const [negotiation] = again.asker.negotiations;
    let result: unknown;
    negotiation!.result.then((value) => {
      result = value;
    });
    for (let n = 0; n < 200 && result === undefined; n++) await again.runtime.advance(20);
    expect(begun).toEqual(['before', 'after']);
    expect(result).toEqual('built');
  });
});
