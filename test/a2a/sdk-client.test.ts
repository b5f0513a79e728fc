import { AgentCard, type Message, SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk';
import { type Client, ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MESH_BINDING } from '../../src/a2a/mesh/mesh-protocol.js';
import { MeshTransportFactory } from '../../src/bridges/a2a-sdk.js';
import { EdgeNodes } from './edge-nodes.js';
import { collect, said, type TaskNode } from './task-node.js';

/** The official client, over every binding and version that it and we speak. */
const WAYS = [
  { binding: 'JSONRPC', version: '1.0' },
  { binding: 'HTTP+JSON', version: '1.0' },
  { binding: 'GRPC', version: '1.0' },
  { binding: 'JSONRPC', version: '0.3' },
  { binding: 'HTTP+JSON', version: '0.3' },
  { binding: MESH_BINDING, version: '1.0' },
] as const;

const nodes = new EdgeNodes();
let served: TaskNode;
/** At the other node of the mesh, which belongs to another owner. */
let mesh: MeshTransportFactory;

beforeAll(async () => {
  served = await nodes.add({ allowPrivate: ['127.0.0.1:9'], grpc: { port: 0 } });
  const { node } = await nodes.add({ invite: {}, agents: false });
  node.agent({ id: 'sun', tier: 3 });
  mesh = new MeshTransportFactory(node, { as: 'sun' });
});

afterAll(() => nodes.stopAll());

describe.each(WAYS)('the official client over $binding in $version', ({ binding, version }) => {
  const old = version === '0.3';
  let client: Client;
  /** One that is made from the card of that agent. */
  const clientOf = (agent: string) => clientFor(`/api/agents/${agent}/agent-card`, binding, version);

  beforeAll(async () => {
    client = await clientFor('/.well-known/agent-card.json', binding, version);
  });

  it('speaks that binding and that version', () => {
    expect([client.transport.protocolName, client.protocolVersion]).toEqual([binding, version]);
  });

  it('gets the task that a blocking send ends in', async () => {
    const task = taskIn(await client.sendMessage(request('hello')));
    expect(task).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
    expect(task.artifacts).toMatchObject([{ parts: [{ text: 'you said hello' }] }]);
    expect(task.history?.map(textOf)).toEqual(['hello', 'thinking']);
  });

  it('gets the message that an agent answers with', async () => {
    const message = (await (await clientOf('quick')).sendMessage(request('you'))) as Message;
    expect(message.parts[0]?.content).toEqual({ $case: 'text', value: 'hi you' });
  });

  it('gets the data of an agent that only answers requests', async () => {
    const task = taskIn(await (await clientOf('plain')).sendMessage(request('hello')));
    expect(task.artifacts?.[0]?.parts[0]?.data).toEqual({ got: 'hello' });
  });

  it('gets a running task at once, polls it, and cancels it', async () => {
    const text = `${binding} ${version} cancel`;
    const task = taskIn(await (await clientOf('slow')).sendMessage(request(text, { returnImmediately: true })));
    expect(['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING']).toContain(task.status.state);
    const { task: held } = await served.begun(text);
    expect(held.signal.aborted).toBe(false);
    const known = Task.toJSON(await client.getTask({ tenant: '', id: task.id }));
    expect(known).toMatchObject({ id: task.id, contextId: task.contextId });
    const canceled = Task.toJSON(await client.cancelTask({ tenant: '', id: task.id, metadata: undefined }));
    expect(canceled).toMatchObject({ id: task.id, status: { state: 'TASK_STATE_CANCELED' } });
    await until(() => held.signal.aborted);
  });

  it('answers a question of the agent', async () => {
    const asked = taskIn(await (await clientOf('asker')).sendMessage(request('go')));
    expect(asked.status).toMatchObject({
      state: 'TASK_STATE_INPUT_REQUIRED',
      message: { parts: [{ text: 'which one?' }] },
    });
    const task = taskIn(await client.sendMessage(request('that', { taskId: asked.id, contextId: asked.contextId })));
    expect([task.id, task.status.state]).toEqual([asked.id, 'TASK_STATE_COMPLETED']);
    expect(task.artifacts?.[0]?.parts).toEqual([{ text: 'ok: that' }]);
  });

  it('gets every event of a stream', async () => {
    const seen = await collect((await clientOf('writer')).sendMessageStream(request('poem')));
    const events = seen.map((event) => StreamResponse.toJSON(event) as WireStream);
    expect(events.map(kind)).toEqual([
      'task TASK_STATE_SUBMITTED',
      'TASK_STATE_WORKING',
      'artifact',
      'artifact',
      'artifact',
      'TASK_STATE_COMPLETED',
    ]);
    expect(
      events.flatMap(({ artifactUpdate }) => artifactUpdate?.artifact.parts ?? []).map((part) => part.text),
    ).toEqual(['one ', 'two ', 'three']);
  });

  it('gets a stream with a single message', async () => {
    const events = await collect((await clientOf('quick')).sendMessageStream(request('you')));
    expect(events.map((event) => kind(StreamResponse.toJSON(event) as WireStream))).toEqual(['message']);
  });

  it('follows a task that another send started', async () => {
    const text = `${binding} ${version} follow`;
    const { id } = taskIn(await (await clientOf('slow')).sendMessage(request(text, { returnImmediately: true })));
    const held = await served.begun(text);
    const stream = client.resubscribeTask({ tenant: '', id });
    const first = await stream.next();
    expect(kind(StreamResponse.toJSON(first.value as StreamResponse) as WireStream)).toMatch(/^task/);
    held.task.progress('half');
    held.finish('done');
    const rest = (await collect(stream)).map((event) => kind(StreamResponse.toJSON(event) as WireStream));
    // An agent that is silent for 50 ms is shown as working before its first report; on a slow machine this one is.
    expect([...new Set(rest)]).toEqual(['TASK_STATE_WORKING', 'artifact', 'TASK_STATE_COMPLETED']);
  });

  it('stores push configurations', async () => {
    const text = `${binding} ${version} push`;
    const { id: taskId } = taskIn(
      await (await clientOf('slow')).sendMessage(request(text, { returnImmediately: true })),
    );
    const url = 'http://127.0.0.1:9/hook';
    const wanted = { tenant: '', id: 'hook-1', taskId, url, token: 'secret', authentication: undefined };
    const made = await client.createTaskPushNotificationConfig(wanted);
    expect(made).toMatchObject({ taskId, url, token: 'secret' });
    const one = { tenant: '', taskId, id: made.id };
    expect(await client.getTaskPushNotificationConfig(one)).toMatchObject({ id: made.id, url });
    const list = () => client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' });
    expect((await list()).configs.map(({ id }) => id)).toEqual([made.id]);
    await client.deleteTaskPushNotificationConfig(one);
    await client.deleteTaskPushNotificationConfig(one);
    expect((await list()).configs).toEqual([]);
  });

  it('gets the extended card', async () => {
    const card = await client.getAgentCard();
    expect(card.skills.map(({ id }) => id)).toContain('tooled.github_star_repo');
  });

  it('gets errors as its own error classes', async () => {
    const code = async (work: Promise<unknown>) =>
      work.then(
        () => 'nothing',
        (error: Error) => error.name.replace(/^(JsonRpc|Rest|Grpc)/, ''),
      );
    const done = taskIn(await client.sendMessage(request('done')));
    expect(await code(client.getTask({ tenant: '', id: 'nobody' }))).toBe('TaskNotFoundError');
    expect(await code(client.cancelTask({ tenant: '', id: done.id, metadata: undefined }))).toBe(
      'TaskNotCancelableError',
    );
    expect(await code(collect(client.resubscribeTask({ tenant: '', id: done.id })))).toBe('UnsupportedOperationError');
  });

  if (!old) {
    it('lists tasks by context, state and time, page by page', async () => {
      const contextId = `${binding}-list`;
      for (let i = 0; i < 5; i++) await client.sendMessage(request(`${i}`, { contextId }));
      const base = { tenant: '', contextId, pageSize: 2, pageToken: '', historyLength: undefined };
      const filters = { status: 0, statusTimestampAfter: undefined, includeArtifacts: false };
      const texts: string[] = [];
      let pageToken = '';
      do {
        const page = await client.listTasks({ ...base, ...filters, pageToken });
        expect([page.totalSize, page.tasks.every(({ artifacts }) => artifacts.length === 0)]).toEqual([5, true]);
        texts.push(...page.tasks.map((task) => textOf((Task.toJSON(task) as WireTask).history![0]!)));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      expect(texts.sort()).toEqual(['0', '1', '2', '3', '4']);
      const none = await client.listTasks({ ...base, ...filters, status: 4 });
      expect([none.tasks, none.totalSize]).toEqual([[], 0]);
      const withResults = await client.listTasks({ ...base, ...filters, includeArtifacts: true, pageSize: 100 });
      expect(withResults.tasks.every(({ artifacts }) => artifacts.length === 1)).toBe(true);
      const byAgent = await client.listTasks({ ...base, ...filters, tenant: 'plain' });
      expect(byAgent.totalSize).toBe(0);
    });
  }
});

describe('the official client', () => {
  it('finds the node by its card, and its agents by theirs, as tenants', async () => {
    const factory = new ClientFactory({ transports: transports() });
    const node = await factory.createFromUrl(served.url);
    expect(taskIn(await node.sendMessage(request('hello'))).status.state).toBe('TASK_STATE_COMPLETED');
    const agent = await factory.createFromAgentCard(await cardAt('/api/agents/plain/agent-card'));
    const task = taskIn(await agent.sendMessage(request('hello')));
    expect(task.artifacts?.[0]?.parts[0]?.data).toEqual({ got: 'hello' });
  });
});

interface WireTask {
  id: string;
  contextId: string;
  status: { state: string; message?: object };
  artifacts?: { parts: { text?: string; data?: unknown }[] }[];
  history?: { parts: { text?: string }[] }[];
}

interface WireStream {
  task?: WireTask;
  statusUpdate?: { status: WireTask['status'] };
  artifactUpdate?: { artifact: { parts: { text: string }[] } };
}

function kind({ task, statusUpdate, artifactUpdate }: WireStream): string {
  if (task) return `task ${task.status.state}`;
  return statusUpdate?.status.state ?? (artifactUpdate ? 'artifact' : 'message');
}

function textOf({ parts }: { parts: { text?: string }[] }): string {
  return parts.map(({ text }) => text).join('');
}

function taskIn(result: Message | Task): WireTask {
  expect(result).toHaveProperty('status');
  return Task.toJSON(result as Task) as WireTask;
}

interface Wanted {
  returnImmediately?: boolean;
  taskId?: string;
  contextId?: string;
}

function request(text: string, { returnImmediately = false, ...more }: Wanted = {}): SendMessageRequest {
  const configuration = returnImmediately ? { configuration: { returnImmediately } } : {};
  return SendMessageRequest.fromJSON({ ...said(text, more), ...configuration });
}

function transports() {
  const options = { fetchImpl: authenticated, legacyCompat: { enabled: true } };
  const grpcCallOptions = { interceptors: [bearing] };
  return [
    new JsonRpcTransportFactory(options),
    new RestTransportFactory(options),
    new GrpcTransportFactory({ grpcCallOptions }),
    mesh,
  ];
}

const bearing: Interceptor = (options, nextCall) =>
  new InterceptingCall(nextCall(options), {
    start: (metadata, listener, next) => {
      metadata.set('authorization', `Bearer ${served.owner}`);
      next(metadata, listener);
    },
  });

const authenticated: typeof fetch = (url, init) => {
  const headers = new Headers(init?.headers);
  headers.set('Authorization', `Bearer ${served.owner}`);
  return fetch(url, { ...init, headers });
};

/** The card of an agent or of the node, over the mesh. */
function meshCard(path: string): Promise<AgentCard> {
  const [, agent = ''] = /^\/api\/agents\/([^/]+)\//.exec(path) ?? [];
  return mesh.card(`${agent}@${served.node.key}`);
}

async function cardAt(path: string): Promise<AgentCard> {
  return AgentCard.fromJSON((await (await served.get(path)).json()) as never);
}

async function clientFor(path: string, binding: string, version: string): Promise<Client> {
  const card = binding === MESH_BINDING ? await meshCard(path) : await cardAt(path);
  const supportedInterfaces = card.supportedInterfaces.filter(
    (one) => one.protocolBinding === binding && one.protocolVersion === version,
  );
  expect(supportedInterfaces).not.toEqual([]);
  return new ClientFactory({ transports: transports() }).createFromAgentCard({ ...card, supportedInterfaces });
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !condition(); tries++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(condition()).toBe(true);
}
