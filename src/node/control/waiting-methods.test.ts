import { describe, expect, it } from 'vitest';
import type { WaitingAction } from '../../http/dashboard/facts.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { AnswerRecord } from '../devices/answer-record.js';
import type { ControlContext } from './context.js';
import { waitingMethods } from './waiting-methods.js';

const ALONE = { emit: () => {}, drained: async () => {}, signal: new AbortController().signal };

type Used = Parameters<typeof waitingMethods>[1];

const APPROVAL = { kind: 'action', subject: 's', summary: 'may mars write a.js?', createdAt: 20 };
const ID = '01JCQX4M0V7Y8Z9ABCDEFGHJKM';

/** The operations of a node on which something of each kind waits, and the calls that they got. */
function node() {
  const calls: unknown[] = [];
  const note = (method: string) => (params: object) => {
    calls.push([method, params]);
    return {};
  };
  const on = {
    approvals: () => [
      { ...APPROVAL, id: 'A1', details: { agent: 'mars', bytes: 12, correlationId: 'c' }, expiresAt: 99 },
      { ...APPROVAL, id: 'T1', kind: 'definition', summary: 'files.read changed', createdAt: 10, details: {} },
    ],
    'tools.pins': () => [
      { server: 'files', id: 'T1', diff: ['- reads', '+ reads and sends'] },
      { server: 'files', id: null, diff: [] },
    ],
    inbox: () => [{ id: 'M1', from: 'alice', at: 30, expiresAt: null, payload: { text: 'Hello.\nMore.' } }],
    held: () => [{ id: ID, from: 'eve@k', to: 'alice', reason: 'unknown sender', text: 'Let me in.' }],
    runs: () => [{ id: 'R1', status: 'running' }],
    run: () => ({
      ...{ id: 'R1', name: 'plan', status: 'running' },
      tasks: [
        { id: 'a', phase: 'escalated', attempt: 2, by: 'mars', reason: { code: 'X' }, since: 40 },
        { id: 'b', phase: 'done', attempt: 1, by: 'mars', reason: null, since: 41 },
      ],
    }),
    providers: () => [
      { id: 'w1', type: 'acp', phase: 'ready', state: 'degraded', message: 'slow', failureCount: 3 },
      { id: 'w2', type: 'acp', phase: 'ready', state: 'healthy', message: null, failureCount: 0 },
      { id: 'w3', type: 'acp', phase: 'drained', state: 'unavailable', message: null, failureCount: 0 },
    ],
    tasks: () => [{ id: 'Q1', agent: 'mars', text: 'Paint it.' }],
    task: () => {
      const status = { timestamp: new Date(25).toISOString(), message: { parts: [{ text: 'Which one?' }] } };
      return { task: { status } };
    },
    'task.answer': note('task.answer'),
    'approvals.decide': note('approvals.decide'),
    'tools.approve': note('tools.approve'),
    tell: note('tell'),
    'owner.done': note('owner.done'),
    'held.letIn': note('held.letIn'),
    'held.turnAway': note('held.turnAway'),
    'provider.restart': note('provider.restart'),
  } as unknown as Used;
  const answers = new AnswerRecord({
    ...{ runtime: new SimulatedRuntime({ seed: 1 }), observability: { emit: () => {} } as never },
    ...{ approvals: { items: [] }, ownName: 'desk' },
  });
  const context = {
    node: { mail: {}, registry: { nodeKey: 'f'.repeat(64) } },
    dashboard: {},
    loop: {},
    answers,
  } as unknown as ControlContext;
  return { calls, methods: waitingMethods(context, on) };
}

const ANSWERS = [
  ['approval:A1', 'allow-always', 'approvals.decide', { verdict: 'allow-always', ids: ['A1'] }],
  ['approval:A1', 'deny', 'approvals.decide', { verdict: 'deny', ids: ['A1'] }],
  ['tool:T1', 'approve', 'tools.approve', { subject: 'T1' }],
  ['tool:T1', 'deny', 'approvals.decide', { verdict: 'deny', ids: ['T1'] }],
  ['question:Q1', 'reply', 'task.answer', { id: 'Q1', text: 'Yes.' }],
  ['mail:M1', 'reply', 'tell', { to: 'alice', text: 'Yes.', replyTo: 'M1' }],
  ['mail:M1', 'done', 'owner.done', { ids: ['M1'] }],
  [`held:${ID}`, 'let-in', 'held.letIn', { id: ID }],
  ['held:', 'turn-away', 'held.turnAway', { id: ID }],
  [`worker:w1@${'f'.repeat(64)}`, 'restart', 'provider.restart', { id: 'w1' }],
  [`worker:w1@${'f'.repeat(8)}`, 'restart', 'provider.restart', { id: 'w1' }],
  ['worker:w1', 'restart', 'provider.restart', { id: 'w1' }],
] as const satisfies readonly (readonly [string, WaitingAction, string, object])[];

describe('what waits for the owner', () => {
  it('comes from every part of the node, oldest first, with the answers that it takes [FC.10]', async () => {
    const { items, missing } = await node().methods.waiting({});
    expect(missing).toEqual([]);
    expect(items.map(({ id, since, actions }) => [id, since, actions])).toEqual([
      ['tool:T1', 10, ['approve', 'deny']],
      ['approval:A1', 20, ['allow-once', 'allow-always', 'deny']],
      ['question:Q1', 25, ['reply']],
      ['mail:M1', 30, ['reply', 'done']],
      ['task:R1/a', 40, []],
      [`held:${ID}`, expect.any(Number), ['let-in', 'turn-away']],
      ['worker:w1', null, ['restart']],
    ]);
    expect(items[0]).toMatchObject({ from: 'files', diff: ['- reads', '+ reads and sends'] });
    expect(items[1]).toMatchObject({ from: 'mars', until: 99, details: [{ label: 'bytes', text: '12' }] });
    expect(items[2]).toMatchObject({ from: 'mars', title: 'Which one?', details: [{ text: 'Which one?' }, {}] });
    expect(items[3]).toMatchObject({ title: 'Hello.', details: [{ label: 'message', text: 'Hello.\nMore.' }] });
  });

  it.each(ANSWERS)('is answered by the operation of its part: %s %s [FC.10]', async (id, action, method, params) => {
    const { calls, methods } = node();
    await methods['waiting.answer']({ id, action, text: action === 'reply' ? 'Yes.' : undefined }, ALONE);
    expect(calls).toEqual([[method, params]]);
  });

  it('takes no answer that is not offered, and none twice [FC.10]', async () => {
    const { calls, methods } = node();
    const code = (id: string, action: 'retry' | 'restart' | 'reply') =>
      methods['waiting.answer']({ id, action, text: ' ' }, ALONE).catch((error: { code: string }) => error.code);
    expect(await code('task:R1/a', 'retry')).toBe('USAGE');
    expect(await code('worker:w2', 'restart')).toBe('APPROVAL_NOT_FOUND');
    expect(await code('mail:M1', 'reply')).toBe('USAGE');
    expect(calls).toEqual([]);
  });
});
