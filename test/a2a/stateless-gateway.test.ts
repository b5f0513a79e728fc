import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asEvent, asTask, clientAt, EdgeNodes, request, until } from './edge-nodes.js';
import { collect, said, type TaskNode, type TaskResult, type WireTask } from './task-node.js';

type EdgeNode = TaskNode & { readonly key: string };

/** Two nodes with agents, and two gateways without any, as behind a load balancer. */
const mesh = new EdgeNodes();
let workers: [EdgeNode, EdgeNode];
let gateways: [EdgeNode, EdgeNode];

beforeAll(async () => {
  workers = [await mesh.add(), await mesh.add()];
  for (const { node } of workers) {
    node.agent({ id: 'builder', capabilities: ['build'] }).onTask(({ text }) => `built ${text}`);
  }
  gateways = [await mesh.add({ agents: false, gateway: true }), await mesh.add({ agents: false, gateway: true })];
  await until(() =>
    gateways.every((gateway) => gateway.node.registry.findByCapability('build').length === workers.length),
  );
});

afterAll(() => mesh.stopAll());

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const kept = async (node: TaskNode) => (await node.gateway.tasks.list({ limit: 1_000 })).length;

describe('a stateless gateway', () => {
  it('creates tasks at the agent’s node, and keeps none [EG.9]', async () => {
    const [first, second] = gateways;
    const agent = `echo@${workers[1].key}`;
    const sent = asTask(await (await clientAt(first)).sendMessage(request('hello', agent)));
    expect([sent.status.state, sent.id.endsWith(workers[1].key)]).toEqual(['TASK_STATE_COMPLETED', true]);
    const seen = asTask(await (await clientAt(second)).getTask({ tenant: '', id: sent.id }));
    expect(seen.artifacts?.[0]?.parts).toEqual([{ text: 'you said hello' }]);
    const quick = await (await clientAt(first)).sendMessage(request('you', `quick@${workers[1].key}`));
    expect(JSON.stringify(quick)).toContain('hi you');
    expect([await kept(first), await kept(second)]).toEqual([0, 0]);
    expect(first.node.agents).toEqual([]);
  });

  it('streams a task that begins there, and is replaced by another in the middle [EG.9]', async () => {
    const agent = `slow@${workers[0].key}`;
    const replaced = await mesh.add({ agents: false, gateway: true });
    const stream = (await clientAt(replaced)).sendMessageStream(request('long', agent));
    const { id } = asEvent((await stream.next()).value!).task!;
    const rest = collect(stream).then(
      () => 'ended',
      () => 'broke off',
    );
    await mesh.stop(replaced);
    await rest;
    const resumed = (await clientAt(gateways[1])).resubscribeTask({ tenant: '', id });
    expect(asEvent((await resumed.next()).value!).task?.id).toBe(id);
    (await workers[0].begun('long')).finish('done');
    const events = (await collect(resumed)).map(asEvent);
    expect(events.at(-1)?.statusUpdate?.status.state).toBe('TASK_STATE_COMPLETED');
  });

  it('spreads tasks over the nodes that have a skill, and finds the task of a repeated send [EG.9]', async () => {
    const sent: string[] = [];
    for (let index = 0; index < 24; index++) {
      const params = { ...said(`${index}`, { messageId: `spread-${index}` }), metadata: { skill: 'build' } };
      const { task } = await gateways[index % 2]!.result('SendMessage', params);
      const again = await gateways[(index + 1) % 2]!.result<TaskResult>('SendMessage', params);
      expect(again.task.id).toBe(task.id);
      sent.push(task.id);
    }
    for (const { key } of workers) expect(sent.filter((id) => id.endsWith(key)).length).toBeGreaterThan(3);
    const { totalSize } = await gateways[0].result<{ totalSize: number }>('ListTasks', {});
    expect(totalSize).toBeGreaterThanOrEqual(24);
  });

  it('serves the simple interface [EG.9]', async () => {
    const answer = await gateways[0].post('/a2a/tasks/send', { message: 'simply', skill: 'build' });
    const { id } = (await answer.json()) as { id: string };
    expect(workers.some(({ key }) => id.endsWith(key))).toBe(true);
    await gateways[1].inState(id, 'TASK_STATE_COMPLETED');
    expect(await (await gateways[1].get(`/a2a/tasks/${id}`)).json()).toMatchObject({ id, state: 'completed' });
  });

  it('passes on the caller and its sandbox, and is refused for another sandbox of that name [EG.7] [EG.9]', async () => {
    const [first, second] = gateways;
    const { token } = first.gateway.tokens.create('lab-rat', 'lab');
    const params = { ...said('let me out'), tenant: `echo@${workers[0].key}` };
    const { task } = await first.result('SendMessage', params, bearer(token));
    // The agent is outside of the sandbox.
    expect(task.status).toMatchObject({ state: 'TASK_STATE_FAILED' });
    expect(workers[0].node.registry.entry('lab-rat')?.sandboxId).toBe('lab');
    const free = second.gateway.tokens.create('lab-rat').token;
    const refused = await second.rpc('SendMessage', { ...params, ...said('as another') }, bearer(free));
    expect(refused.error?.data[0]?.reason).toBe('SENDER_REFUSED');
    const agents = second.gateway.tokens.create('echo').token;
    const posing = await second.rpc('SendMessage', { ...params, ...said('as an agent') }, bearer(agents));
    expect(posing.error?.data[0]?.reason).toBe('SENDER_REFUSED');
    expect(await first.result<WireTask>('GetTask', { id: task.id }, bearer(token))).toMatchObject({ id: task.id });
  });

  it('answers with a typed error while the agent’s node is away [EG.5] [EG.9]', async () => {
    const away = await mesh.add();
    const agent = `echo@${away.key}`;
    const id = await away.hold('held');
    await mesh.stop(away);
    const began = performance.now();
    const failed = await gateways[0].rpc('SendMessage', { ...said('hello'), tenant: agent });
    const read = await gateways[0].rpc('GetTask', { id });
    expect(failed.error?.data[0]?.reason).toMatch(/^(PEER_UNREACHABLE|AGENT_NOT_FOUND)$/);
    expect(read.error?.data[0]?.reason).toBe('PEER_UNREACHABLE');
    expect(performance.now() - began).toBeLessThan(6_000);
  });
});
