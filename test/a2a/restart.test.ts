import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { textOf } from '../../src/a2a/protocol/simple.js';
import type { AgentTask } from '../../src/agent/agent-tasks.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import { openStore } from '../../src/node/tables.js';
import { collect, eventsOf, kindOf, type RpcAnswer, said, type WireTask } from './task-node.js';

let folder: string;
const nodes: EclipticNode[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-tasks-'));
});

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** One life of a node with a store; its agents work until they are told to end. */
async function life(): Promise<{ url: string; working: Map<string, (value: unknown) => void>; stop(): Promise<void> }> {
  const node = await createNode({ store: await openStore(folder) });
  nodes.push(node);
  const working = new Map<string, (value: unknown) => void>();
  const handler = (task: AgentTask) => {
    task.progress(task.resumed ? 'again' : 'once');
    return new Promise((resolve) => working.set(task.text, resolve));
  };
  node.agent({ id: 'steady' }).onTask(handler, { resumable: true });
  node.agent({ id: 'frail' }).onTask(handler);
  const asked = async (task: AgentTask) => {
    const name = textOf((await task.ask('Who are you?')).parts);
    if (task.text === 'twice') task.progress(`hello ${name}`);
    const way = task.text === 'auth' ? await task.askAuth('May I?') : await task.ask('Which way?');
    return `${name} goes ${textOf(way.parts)}${task.resumed ? ', at last' : ''}`;
  };
  node.agent({ id: 'asker' }).onTask(asked, { resumable: true });
  node.agent({ id: 'forgetful' }).onTask(asked);
  const { url } = await node.serve({ port: 0, open: true });
  const stop = async () => {
    nodes.splice(nodes.indexOf(node), 1);
    await node.stop();
  };
  return { url, working, stop };
}

async function rpc<T>(url: string, method: string, params: object): Promise<T> {
  const answer = await fetch(`${url}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const { result, error } = (await answer.json()) as RpcAnswer;
  if (error) throw new Error(JSON.stringify(error));
  return result as T;
}

const subscribe = (url: string, id: string, lastEventId?: string) =>
  fetch(`${url}/a2a/v1/tasks/${id}:subscribe`, {
    headers: { 'A2A-Version': '1.0', ...(lastEventId !== undefined && { 'Last-Event-ID': lastEventId }) },
  });

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1_000 && !condition(); tries++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(condition()).toBe(true);
}

describe('tasks of a node with a store', () => {
  it('continue after a restart, and so do their streams, without a gap [A2A-2.5.10]', async () => {
    const first = await life();
    const send = async (text: string, tenant: string) => {
      const params = { ...said(text), tenant, configuration: { returnImmediately: true } };
      return (await rpc<{ task: WireTask }>(first.url, 'SendMessage', params)).task.id;
    };
    const [steady, frail] = [await send('steady', 'steady'), await send('frail', 'frail')];
    const done = (
      await rpc<{ task: WireTask }>(first.url, 'SendMessage', {
        ...said('asked'),
        tenant: 'frail',
        configuration: { returnImmediately: true },
      })
    ).task.id;
    await until(() => first.working.size === 3);
    first.working.get('asked')!('result');
    const reader = eventsOf(await subscribe(first.url, steady, `${steady}:0`));
    const seen = [(await reader.next()).value!, (await reader.next()).value!];
    await reader.return(undefined);
    await until(() => first.working.size === 3);
    await first.stop();

    const second = await life();
    await until(() => second.working.has('steady'));
    expect(second.working.has('frail')).toBe(false);
    expect(await rpc<WireTask>(second.url, 'GetTask', { id: done })).toMatchObject({
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ parts: [{ text: 'result' }] }],
    });
    expect(await rpc<WireTask>(second.url, 'GetTask', { id: frail })).toMatchObject({
      status: { state: 'TASK_STATE_FAILED', message: { parts: [{ text: expect.stringContaining('stopped') }] } },
    });
    const rest = collect(eventsOf(await subscribe(second.url, steady, seen.at(-1)!.id)));
    second.working.get('steady')!('at last');
    const events = [...seen, ...(await rest)];
    expect(events.map(({ id }) => Number(id!.split(':')[1]))).toEqual(events.map((_, index) => index + 1));
    expect(events.map(kindOf)).toEqual(['task submitted', 'working', 'working', 'artifact', 'completed']);
    await second.stop();
  });

  it('keep their open questions after a restart, and continue with the answers [T-D3]', async () => {
    const first = await life();
    const send = async (url: string, text: string, more: object) =>
      (await rpc<{ task: WireTask }>(url, 'SendMessage', { ...said(text, more) })).task;
    const open = async (text: string, tenant: string) =>
      (await rpc<{ task: WireTask }>(first.url, 'SendMessage', { ...said(text), tenant })).task;
    const [fresh, twice, auth, lost] = [
      await open('once', 'asker'),
      await open('twice', 'asker'),
      await open('auth', 'asker'),
      await open('lost', 'forgetful'),
    ];
    for (const { id } of [twice, auth]) await send(first.url, 'Ann', { taskId: id });
    const states = async (url: string) =>
      Promise.all(
        [fresh, twice, auth, lost].map(async ({ id }) => {
          const { status } = await rpc<WireTask>(url, 'GetTask', { id });
          return [status.state, status.message?.parts[0]?.text];
        }),
      );
    const before = await states(first.url);
    expect(before.map(([state]) => state)).toEqual([
      'TASK_STATE_INPUT_REQUIRED',
      'TASK_STATE_INPUT_REQUIRED',
      'TASK_STATE_AUTH_REQUIRED',
      'TASK_STATE_INPUT_REQUIRED',
    ]);
    await first.stop();

    const second = await life();
    expect((await states(second.url)).slice(0, 3)).toEqual(before.slice(0, 3));
    expect((await states(second.url))[3]![0]).toBe('TASK_STATE_FAILED');
    // The first question is asked again by no one: its answer is known.
    expect(await send(second.url, 'left', { taskId: twice.id })).toMatchObject({
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ parts: [{ text: 'Ann goes left, at last' }] }],
    });
    expect(await send(second.url, 'yes', { taskId: auth.id })).toMatchObject({
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ parts: [{ text: 'Ann goes yes, at last' }] }],
    });
    const asked = await send(second.url, 'Bob', { taskId: fresh.id });
    expect(asked.status).toMatchObject({
      state: 'TASK_STATE_INPUT_REQUIRED',
      message: { parts: [{ text: 'Which way?' }] },
    });
    expect(await send(second.url, 'home', { taskId: fresh.id })).toMatchObject({
      artifacts: [{ parts: [{ text: 'Bob goes home, at last' }] }],
    });
    await second.stop();
  });
});
