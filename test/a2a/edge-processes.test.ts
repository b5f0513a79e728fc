import { expect, it } from 'vitest';
import type { Task } from '../../src/a2a/protocol/types.js';
import { inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';
import { eventsOf, kindOf } from './task-node.js';

const STEPS = new URL('./agents/steps.ts', import.meta.url).pathname;
/** A silent node is suspected after 2 s; an answer waits 5 s. */
const SOON_MS = 6_000;

it(
  'a task’s node that hangs, is killed and comes back is away for seconds, and then answers at the other node again [EG.5]',
  { timeout: 90_000 },
  inCluster(async (cluster) => {
    const config = { roster: false, agents: { stubborn: { module: STEPS } } } as const;
    // Both restart, and find each other again by their addresses.
    const args = async () => ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`, '--open'];
    const front = await cluster.start('front', { args: await args(), config: { roster: false } });
    const back = await cluster.start('back', { args: await args(), config });
    await front.admit(back, { owner: true });
    await untilConnected([front, back]);
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'work' }] };
    const sent = await rpc<{ task: Task }>(back, 'SendMessage', { message, tenant: 'stubborn' });
    const { id } = sent.result!.task;
    const get = (node: ProcessNode) => rpc<Task>(node, 'GetTask', { id });
    expect((await get(front)).result?.status.state).toBe('TASK_STATE_COMPLETED');

    back.signal('SIGSTOP');
    const began = performance.now();
    expect((await get(front)).reason).toBe('PEER_UNREACHABLE');
    const took = performance.now() - began;
    expect(took).toBeLessThan(SOON_MS);
    // From now on it is known to be away.
    const again = performance.now();
    expect((await get(front)).reason).toBe('PEER_UNREACHABLE');
    expect(performance.now() - again).toBeLessThan(1_000);
    back.signal('SIGCONT');
    await until(async () => (await get(front)).result, 'the task is there again');

    await back.crash();
    const killed = performance.now();
    expect((await get(front)).reason).toBe('PEER_UNREACHABLE');
    expect(performance.now() - killed).toBeLessThan(SOON_MS);
    // A node that restarts meanwhile still knows whose task it is.
    await front.stop();
    await front.start();
    const restarted = performance.now();
    expect((await get(front)).reason).toBe('PEER_UNREACHABLE');
    expect(performance.now() - restarted).toBeLessThan(SOON_MS);
    await back.start();
    await until(async () => (await get(front)).result, 'the task is there again');
    const resumed = await post(front, 'SubscribeToTask', { id }, { 'Last-Event-ID': `${id}:2` });
    const kinds: string[] = [];
    for await (const event of eventsOf(resumed)) kinds.push(kindOf(event));
    expect(kinds.at(-1)).toBe('completed');
  }),
);

interface Answered<T> {
  readonly result?: T;
  readonly reason?: string;
}

async function rpc<T>(node: ProcessNode, method: string, params: object): Promise<Answered<T>> {
  const answer = (await (await post(node, method, params)).json()) as {
    result?: T;
    error?: { data: { reason: string }[] };
  };
  return {
    ...(answer.result && { result: answer.result }),
    ...(answer.error && { reason: answer.error.data[0]!.reason }),
  };
}

function post(node: ProcessNode, method: string, params: object, headers: Record<string, string> = {}) {
  return fetch(`${node.ready.http}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
}
