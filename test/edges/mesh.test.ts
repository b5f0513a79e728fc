import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CallLimits } from '../../src/a2a/client/call-limits.js';
import type { MeshMethod } from '../../src/a2a/mesh/mesh-protocol.js';
import type { EclipticNode } from '../../src/node/compose.js';
import type { EclipticError } from '../../src/runtime/errors.js';
import { EdgeNodes, until } from '../a2a/edge-nodes.js';
import { collect, said, type TaskNode } from '../a2a/task-node.js';

/** The properties of `security.test.ts`, for the edge that is no HTTP: A2A over the mesh. */

const nodes = new EdgeNodes();
let served: TaskNode;
let hurried: TaskNode;
/** Of another owner, with agents of several tiers and sandboxes. */
let front: EclipticNode;
let runs = 0;

beforeAll(async () => {
  const sandbox = { enforced: true, allow: {} };
  served = await nodes.add({ node: { sandbox } });
  served.node.agent({ id: 'watched', tier: 2 }).onTask(() => `run ${++runs}`);
  served.node.agent({ id: 'boxed', tier: 2, sandbox: 'lab' }).onTask(() => `run ${++runs}`);
  hurried = await nodes.add({ invite: {}, requestsPerMinute: 2 });
  front = (await nodes.add({ invite: { sandboxes: undefined }, node: { sandbox }, agents: false })).node;
  front.agent({ id: 'sun', tier: 0 });
  front.agent({ id: 'mercury', tier: 1 });
  front.agent({ id: 'caged', tier: 0, sandbox: 'lab' });
  await until(() => front.registry.entry(`watched@${served.node.key}`) !== undefined);
});

afterAll(() => nodes.stopAll());

async function ask(as: string, method: MeshMethod, params: object, to = served, node = front): Promise<unknown> {
  const limits = new CallLimits(node.runtime, {}, 20_000);
  const transport = node.a2aTransport({ node: to.node.key, agent: undefined }, as, 500);
  try {
    return await transport.call(method, params, { limits });
  } finally {
    limits.release();
  }
}

const refusal = (work: Promise<unknown>) =>
  work.then(
    (result) => result,
    ({ code }: EclipticError) => code,
  );
const send = (as: string, tenant: string, text = 'x') => ask(as, 'SendMessage', { ...said(text), tenant });

/** A question as it is on the wire, without the checks of an honest node. */
function item(node: EclipticNode, ...rest: unknown[]): Promise<void> {
  return node.network!.peers.sendConfirmed(served.node.key, JSON.stringify(['a2a', ...rest]));
}

describe('A2A over the mesh', () => {
  it('takes the agents of the asking node that it knows, and no others [EG.S1 MB.4]', async () => {
    expect(await send('sun', 'watched')).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
    expect(await refusal(Promise.resolve().then(() => send('nobody', 'watched')))).toBe('AGENT_NOT_FOUND');
    const before = runs;
    for (const caller of ['nobody', 'watched', 'operator2']) {
      await item(front, 'ask', 9_000 + caller.length, {
        method: 'SendMessage',
        params: { ...said('x'), tenant: 'watched' },
        caller,
      });
    }
    await send('sun', 'echo');
    expect(runs).toBe(before);
  });

  it('limits the requests of each node [EG.S3 MB.4]', async () => {
    const codes = [];
    for (let n = 0; n < 3; n++) codes.push(await refusal(ask('sun', 'GetTask', { id: 'x' }, hurried)));
    expect(codes).toEqual(['TASK_NOT_FOUND', 'RATE_LIMITED', 'RATE_LIMITED']);
  });

  it('refuses a request that is too large [EG.S4 MB.4]', async () => {
    expect(await refusal(send('sun', 'watched', 'x'.repeat(17_000_000)))).toBe('PAYLOAD_TOO_LARGE');
    expect(await refusal(send('sun', 'watched', 'x'.repeat(2_000_000)))).toBe('PAYLOAD_TOO_LARGE');
    expect(await refusal(send('sun', 'watched'))).toMatchObject({ task: {} });
  });

  it('keeps tiers and sandboxes, at the asking node and at the asked one [EG.S5 MB.4]', async () => {
    const before = runs;
    expect(await refusal(send('mercury', 'watched'))).toBe('TIER_VIOLATION');
    expect(await refusal(send('caged', 'watched'))).toBe('SANDBOX_VIOLATION');
    // The agents of a sandbox are seen by nobody else, and one of the same name elsewhere is another sandbox.
    for (const as of ['sun', 'caged']) {
      expect(await refusal(send(as, 'boxed'))).toMatch(/AGENT_NOT_FOUND|SANDBOX_VIOLATION/);
      expect(await refusal(ask(as, 'GetAgentCard', { tenant: 'boxed' }))).toMatch(/AGENT_NOT_FOUND|SANDBOX_VIOLATION/);
    }
    // A node that does not keep its own rules is refused by the other.
    front.registry.policy.setTierConfig({
      rules: [0, 1, 2, 3].map((sourceTier) => ({
        sourceTier: sourceTier as 0,
        allowedTargetTiers: [0, 1, 2, 3],
        requiresEscalationJustification: false,
      })),
    });
    expect(await refusal(send('mercury', 'watched'))).toBe('TIER_VIOLATION');
    expect(runs).toBe(before);
  });

  it('shows nobody the tasks of another agent, be it of the same node [MB.4]', async () => {
    const { task } = (await send('sun', 'echo')) as { task: { id: string } };
    expect(await refusal(ask('mercury', 'GetTask', { id: task.id }))).toBe('TASK_NOT_FOUND');
    expect(await ask('mercury', 'ListTasks', {})).toMatchObject({ totalSize: 0 });
    expect(await ask('sun', 'GetTask', { id: task.id })).toMatchObject({ id: task.id });
    const own = await served.get(`/a2a/v1/tasks/${task.id}`);
    expect(own.status).toBe(404);
  });

  it('ends streams with the membership of the node [EG.S6 MB.4]', async () => {
    const client = await front.a2a(`slow@${served.node.key}`, { as: 'sun', awayMs: 0 });
    const reading = collect(client.stream({ message: 'until removed' }));
    const ended = refusal(reading);
    await served.begun('until removed');
    served.node.network!.remove(front.key);
    expect(await ended).toBe('PEER_UNREACHABLE');
  });
});
