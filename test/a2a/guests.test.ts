import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { said, TaskNode, type WireTask } from './task-node.js';

let served: TaskNode;

beforeAll(async () => {
  served = await TaskNode.start({ open: true });
});

afterAll(() => served.stop());

/** Over a connection of its own, and without a token. */
async function ask(method: string, params: object, headers: Record<string, string> = {}) {
  const answer = await fetch(`${served.url}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Connection: 'close', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return (await answer.json()) as { result: { task: WireTask } & Record<string, unknown>; error: { code: number } };
}

const send = async (params: object, headers = {}) => (await ask('SendMessage', params, headers)).result.task;

describe('guests of an open node [A2A-2.5.12]', () => {
  it('find a task by its id, which reveals no other id', async () => {
    const [one, other] = await Promise.all([send(said('one')), send(said('other'))]);
    expect((await ask('GetTask', { id: one.id })).result).toMatchObject({ id: one.id });
    expect(one.id).toMatch(/^[0-9a-f]{32}$/);
    expect(one.id.slice(0, 16)).not.toBe(other.id.slice(0, 16));
  });

  it('list no tasks, neither their own nor those of others', async () => {
    const { contextId } = await send(said('kept to myself', { contextId: 'chat' }));
    for (const filter of [{}, { contextId }]) {
      expect((await ask('ListTasks', filter)).result).toMatchObject({ tasks: [], totalSize: 0 });
    }
  });

  it('cannot get another guest’s task by its message id, and get their own again by an idempotency key', async () => {
    const params = said('mine', { messageId: '1' });
    const first = await send(params);
    expect((await send(params)).id).not.toBe(first.id);
    const headers = { 'Idempotency-Key': crypto.randomUUID() };
    const keyed = await send(said('once'), headers);
    expect((await send(said('once'), headers)).id).toBe(keyed.id);
  });

  it('do not share tasks with named callers', async () => {
    const { id } = await send(said('a guest’s'));
    const alice = { Authorization: `Bearer ${served.token('alice')}` };
    expect((await ask('GetTask', { id }, alice)).error.code).toBe(-32001);
    const hers = await send(said('alice’s'), alice);
    expect((await ask('GetTask', { id: hers.id })).error.code).toBe(-32001);
    expect((await ask('ListTasks', {}, alice)).result).toMatchObject({ totalSize: 1 });
  });
});
