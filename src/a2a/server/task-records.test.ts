import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Gateway } from '../../http/gateway.js';
import { createNode, type EclipticNode } from '../../node/compose.js';
import { openStore } from '../../node/tables.js';
import type { Store } from '../../store/store.js';
import type { Task } from '../protocol/types.js';
import { projects, sessions } from './tables.js';

let folder: string;
let node: EclipticNode;
let gateway: Gateway;
let runs = 0;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-tasks-'));
  runs = 0;
  await start();
});

afterEach(async () => {
  await node.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe('a task that is kept', () => {
  it('is the same for the same key or message id, also after a restart [A2A-2.5.10]', async () => {
    const first = await send('once', { 'Idempotency-Key': 'key-1' });
    const second = await send('twice');
    await restart();
    expect((await send('another', { 'Idempotency-Key': 'key-1' }, 'once')).id).toBe(first.id);
    expect((await send('twice')).id).toBe(second.id);
    expect((await send('new')).id).not.toBe(second.id);
    expect(runs).toBe(3);
  });

  it('is refused to another request with its key or message id, also after a restart [T-D2]', async () => {
    await send('once', { 'Idempotency-Key': 'key-1' });
    await send('twice');
    await restart();
    const conflict = { code: -32216, data: [{ reason: 'IDEMPOTENCY_CONFLICT' }] };
    await expect(send('more', { 'Idempotency-Key': 'key-1' })).rejects.toMatchObject(conflict);
    await expect(send('twice', {}, 'something else')).rejects.toMatchObject(conflict);
    expect(runs).toBe(2);
  });

  it('keeps a name that ends before a character of two units, never within it [T-D1]', async () => {
    const text = `${'x'.repeat(49)}😀 and more`;
    await send(text);
    const store = await reopened();
    expect(await store.read(sessions)).toMatchObject([{ name: `A2A Task: ${'x'.repeat(49)}`, prompt: text }]);
    await store.close();
    await start();
  });

  it('is listed after a restart as it was before, the latest first', async () => {
    for (const id of ['a', 'b', 'c']) await send(id);
    const before = await rpc('ListTasks', { includeArtifacts: true });
    await restart();
    expect(await rpc('ListTasks', { includeArtifacts: true })).toEqual(before);
    expect((before as { tasks: Task[] }).tasks.map(({ history }) => history?.[0]?.messageId)).toEqual(['c', 'b', 'a']);
  });

  it('has its session in the project of its agent', async () => {
    await send('a');
    const store = await reopened();
    const rows = await store.read(sessions);
    expect(rows).toMatchObject([{ agent: 'mars', project: 'default', source: 'agent', prompt: 'a' }]);
    expect(await store.read(projects)).toMatchObject([{ id: 'default' }]);
    await store.close();
    await start();
  });
});

async function start(): Promise<void> {
  node = await createNode({ store: await openStore(folder) });
  node.agent({ id: 'mars' }).onTask((task) => {
    runs++;
    return `did ${task.text}`;
  });
  gateway = await node.serve({ port: 0 });
}

async function restart(): Promise<void> {
  await node.stop();
  await start();
}

async function reopened(): Promise<Store> {
  await node.stop();
  return openStore(folder);
}

async function send(messageId: string, headers: Record<string, string> = {}, text = messageId): Promise<Task> {
  const message = { messageId, role: 'ROLE_USER', parts: [{ text }] };
  return ((await rpc('SendMessage', { message }, headers)) as { task: Task }).task;
}

async function rpc(method: string, params: object, headers: Record<string, string> = {}): Promise<unknown> {
  const response = await fetch(`${gateway.url}/a2a/rpc`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'A2A-Version': '1.0',
      Authorization: `Bearer ${gateway.tokens.owners}`,
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown };
  if (error !== undefined) throw error;
  return result;
}
