import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createNode, type EclipticNode, type NodeInit } from '../../src/node/compose.js';
import { openStore } from '../../src/node/tables.js';
import { type RpcAnswer, said, type WireTask } from './task-node.js';

const nodes: EclipticNode[] = [];
const folders: string[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

interface Spent {
  readonly metadata?: { readonly usage?: unknown; readonly [key: string]: unknown };
}

async function start(init: NodeInit = {}) {
  const node = await createNode(init);
  nodes.push(node);
  return node;
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

const CALL = { inputTokens: 10, outputTokens: 2, modelCalls: 1 };

describe('the usage of a task over A2A', () => {
  it('is added up in the metadata of the task, beside those of the caller [WK.A5]', async () => {
    const node = await start();
    node.agent({ id: 'mars' }).onTask(async (task) => {
      task.usage(CALL);
      task.progress('half');
      task.usage({ ...CALL, costUsd: 0.5 });
      return 'done';
    });
    node.agent({ id: 'venus' }).onTask(() => 'done');
    const { url } = await node.serve({ port: 0, open: true });
    const params = { ...said('dig'), tenant: 'mars', metadata: { topic: 'holes', usage: 'forged' } };
    const { task } = await rpc<{ task: WireTask & Spent }>(url, 'SendMessage', params);
    const usage = { inputTokens: 20, outputTokens: 4, modelCalls: 2, costUsd: 0.5 };
    expect(task).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' }, metadata: { topic: 'holes', usage } });
    expect(await rpc(url, 'GetTask', { id: task.id })).toMatchObject({ metadata: { topic: 'holes', usage } });
    const free = await rpc<{ task: WireTask & Spent }>(url, 'SendMessage', { ...said('dig'), tenant: 'venus' });
    expect(free.task.metadata?.usage).toBeUndefined();
  });

  it('comes with the message of an agent that answers without a task [WK.A5]', async () => {
    const node = await start();
    node.agent({ id: 'mars' }).onTask((task) => {
      task.usage(CALL);
      task.usage(CALL);
      task.reply('hi');
    });
    const { url } = await node.serve({ port: 0, open: true });
    expect(await rpc(url, 'SendMessage', { ...said('hello'), tenant: 'mars' })).toMatchObject({
      message: { parts: [{ text: 'hi' }], metadata: { usage: { inputTokens: 20, outputTokens: 4, modelCalls: 2 } } },
    });
  });

  it('is kept on disk, and a resumed task adds to it [WK.A5]', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-usage-'));
    folders.push(folder);
    const life = async () => {
      const node = await start({ store: await openStore(folder) });
      const begun = new Promise<(value: unknown) => void>((resolve) => {
        node.agent({ id: 'mars' }).onTask(
          (task) => {
            task.usage(CALL);
            return new Promise((done) => resolve(done));
          },
          { resumable: true },
        );
      });
      const { url } = await node.serve({ port: 0, open: true });
      return { node, url, begun };
    };
    const first = await life();
    const params = { ...said('dig'), tenant: 'mars', configuration: { returnImmediately: true } };
    const { task } = await rpc<{ task: WireTask }>(first.url, 'SendMessage', params);
    await first.begun;
    await expect
      .poll(() => rpc<Spent>(first.url, 'GetTask', { id: task.id }))
      .toMatchObject({ metadata: { usage: CALL } });
    await nodes.pop()!.stop();
    const second = await life();
    (await second.begun)('done');
    await expect
      .poll(() => rpc(second.url, 'GetTask', { id: task.id }))
      .toMatchObject({
        status: { state: 'TASK_STATE_COMPLETED' },
        metadata: { usage: { inputTokens: 20, outputTokens: 4, modelCalls: 2 } },
      });
  });
});
