import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Task } from '../../src/a2a/protocol/types.js';
import { SseReader } from '../../src/system/fetch/sse.js';
import { Cluster, type ProcessNode, SOAK } from '../nodes/cluster.js';

const ROUNDS = SOAK ? 100 : 5;
const TASKS_A_ROUND = 6;
const STEPS = new URL('./agents/steps.ts', import.meta.url).pathname;
const ENDED = ['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED'];

/** The events of a task that one reader has seen, by number. */
type Seen = Map<number, string>;

it('a node that is killed loses no acknowledged task and no sent event, invents none, and lets readers resume without a gap [A2A-2.5.10]', {
  timeout: 60_000 + ROUNDS * 20_000,
}, async () => {
  const cluster = new Cluster();
  const agents = { patient: { module: STEPS }, stubborn: { module: STEPS } };
  const node = await cluster.start('tasks', { args: ['--no-dht', '--open'], config: { roster: false, agents } });
  const tasks = new Map<string, Seen>();
  for (let round = 0; round < ROUNDS; round++) {
    const fresh: string[] = [];
    for (let count = 0; count < TASKS_A_ROUND; count++) {
      const agent = count % 2 === 0 ? 'patient' : 'stubborn';
      const task = await send(node, agent, `${round}-${count}`);
      fresh.push(task.id);
      tasks.set(task.id, new Map());
    }
    const readers = fresh.map((id) => read(node, id, tasks.get(id)!));
    await delay(Math.random() * 80);
    await node.crash();
    await Promise.all(readers);
    await node.start();
    // Every reader resumes after its last event, and reaches the end.
    await Promise.all(fresh.map((id) => readOn(node, id, tasks.get(id)!)));
  }
  for (const [id, seen] of tasks) {
    const task = await rpc<Task>(node, 'GetTask', { id });
    expect(ENDED).toContain(task.status.state);
    const numbers = [...seen.keys()].sort((a, b) => a - b);
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    // Events sent before a crash are unchanged after it.
    const again: Seen = new Map();
    await read(node, id, again, 0);
    expect([...again]).toEqual([...seen].sort(([a], [b]) => a - b));
    if (task.status.state === 'TASK_STATE_COMPLETED') {
      expect(task.artifacts?.some(({ parts }) => parts[0]?.text?.startsWith('done with'))).toBe(true);
    }
  }
  await cluster.end();
});

async function send(node: ProcessNode, agent: string, text: string): Promise<Task> {
  const message = { messageId: text, role: 'ROLE_USER', parts: [{ text }] };
  const params = { message, tenant: agent, configuration: { returnImmediately: true } };
  return (await rpc<{ task: Task }>(node, 'SendMessage', params)).task;
}

async function rpc<T>(node: ProcessNode, method: string, params: object): Promise<T> {
  const response = await post(node, method, params);
  const answer = (await response.json()) as { result?: T; error?: { message: string } };
  if (answer.result === undefined) throw new Error(answer.error?.message);
  return answer.result;
}

function post(node: ProcessNode, method: string, params: object, headers: Record<string, string> = {}) {
  return fetch(`${node.ready.http}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
}

/** Reads until the stream ends, be it because the node was killed. */
async function read(node: ProcessNode, id: string, seen: Seen, after = Math.max(0, ...seen.keys())): Promise<void> {
  try {
    const response = await post(node, 'SubscribeToTask', { id }, { 'Last-Event-ID': `${id}:${after}` });
    for await (const event of new SseReader().read(response.body as unknown as AsyncIterable<Buffer>)) {
      const sequence = Number(event.id.split(':')[1]);
      expect(seen.has(sequence)).toBe(false);
      seen.set(sequence, event.data);
    }
  } catch (error) {
    if (error instanceof Error && error.name === 'AssertionError') throw error;
  }
}

async function readOn(node: ProcessNode, id: string, seen: Seen): Promise<void> {
  for (;;) {
    await read(node, id, seen);
    const { status } = await rpc<Task>(node, 'GetTask', { id });
    if (ENDED.includes(status.state)) break;
    await delay(10);
  }
  await read(node, id, seen);
}
