import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AgentCard, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk';
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
  type RequestContext,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, UserBuilder as GrpcUsers, grpcService } from '@a2a-js/sdk/server/grpc';
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import express from 'express';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { A2AClient } from '../../src/a2a/client/a2a-client.js';
import { invokeRemoteAgent } from '../../src/a2a/client/remote-agents.js';
import { textOf } from '../../src/a2a/protocol/simple.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { collect } from './task-node.js';

/** The official server, over every binding and version that it and our client speak. */
const WAYS = [
  { binding: 'JSONRPC', version: '1.0' },
  { binding: 'HTTP+JSON', version: '1.0' },
  { binding: 'JSONRPC', version: '0.3' },
  { binding: 'HTTP+JSON', version: '0.3' },
  { binding: 'GRPC', version: '1.0' },
] as const;

let server: Server;
let url: string;
const grpc = new GrpcServer();
const runtime = systemRuntime();

beforeAll(async () => {
  const app = express();
  server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const port = await new Promise<number>((resolve, reject) => {
    grpc.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  const card = AgentCard.fromJSON({
    name: 'Official',
    description: 'the SDK',
    version: '1',
    capabilities: { streaming: true, pushNotifications: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [],
    supportedInterfaces: [
      { url: `${url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url: `${url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
      { url: `${url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '0.3' },
      { url: `${url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '0.3' },
      { url: `127.0.0.1:${port}`, protocolBinding: 'GRPC', protocolVersion: '1.0' },
    ],
  });
  const pushes = new InMemoryPushNotificationStore();
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Talker(), undefined, pushes);
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat: { enabled: true } };
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
  app.use('/rpc', jsonRpcHandler(options));
  app.use('/rest', restHandler(options));
  grpc.addService(A2AService, grpcService({ requestHandler, userBuilder: GrpcUsers.noAuthentication }));
});

afterAll(() => {
  server.closeAllConnections();
  grpc.forceShutdown();
  return new Promise((resolve) => server.close(resolve));
});

describe.each(WAYS)('our client and the official server over $binding in $version', ({ binding, version }) => {
  const old = version === '0.3';
  let client: A2AClient;

  beforeAll(async () => {
    client = await A2AClient.connect({ runtime }, { url, allowPrivate: true, binding, version });
  });

  afterAll(() => client.close());

  it('speak that binding and that version', () => {
    expect(client.chosen).toMatchObject({ binding, version });
  });

  it('send and wait [GC.1]', async () => {
    const sent = await client.send({ message: 'hello' });
    expect(sent).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
    expect('task' in sent && sent.task.artifacts?.map(({ parts }) => textOf(parts))).toEqual(['you said hello']);
  });

  it('stream', async () => {
    const events = await collect(client.stream({ message: 'hello' }));
    const chunks = events.flatMap((event) => ('artifactUpdate' in event ? [event.artifactUpdate.artifact.parts] : []));
    expect(chunks.map(textOf)).toEqual(['you said hello']);
    expect(events.at(-1)).toMatchObject({ statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } });
  });

  it('start a task without waiting, poll, subscribe, list and cancel', async () => {
    const sent = await client.send({ message: 'wait', configuration: { returnImmediately: true } });
    const id = 'task' in sent ? sent.task.id : '';
    expect(await client.getTask(id)).toMatchObject({ id });
    const events = client.subscribe(id);
    expect(await events.next()).toMatchObject({ value: { task: { id } } });
    if (!old)
      expect((await client.listTasks({ status: 'TASK_STATE_WORKING' })).tasks.map((task) => task.id)).toContain(id);
    expect(await client.cancelTask(id)).toMatchObject({ status: { state: 'TASK_STATE_CANCELED' } });
    // That server ends a stream with its executor, not with its task: our client asks from then on.
    const last = (await collect(events)).at(-1)!;
    const { status } = 'task' in last ? last.task : 'statusUpdate' in last ? last.statusUpdate : {};
    expect(status).toMatchObject({ state: 'TASK_STATE_CANCELED' });
    await expect(client.getTask('nobody')).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' });
    await expect(client.extendedCard()).rejects.toMatchObject({ name: 'ExternalServiceError' });
  });

  it('store push configurations', async () => {
    const sent = await client.send({ message: 'wait', configuration: { returnImmediately: true } });
    const taskId = 'task' in sent ? sent.task.id : '';
    const made = await client.createPushConfig({ taskId, id: 'p', url: 'https://hook.example/' });
    expect(made).toMatchObject({ id: 'p', url: 'https://hook.example/' });
    expect(await client.getPushConfig(taskId, 'p')).toMatchObject({ id: 'p' });
    expect((await client.listPushConfigs(taskId)).configs).toHaveLength(1);
    await client.deletePushConfig(taskId, 'p');
    expect((await client.listPushConfigs(taskId)).configs).toHaveLength(0);
    await client.cancelTask(taskId);
  });

  it('cancel the work at the time limit', async () => {
    const events = client.stream({ message: 'wait' }, { timeoutMs: 300 });
    const first = (await events.next()).value;
    await expect(collect(events)).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' });
    const id = first && 'task' in first ? first.task.id : '';
    expect(await client.getTask(id)).toMatchObject({ status: { state: 'TASK_STATE_CANCELED' } });
  });
});

describe('invokeRemoteAgent', () => {
  it('works with the official server', async () => {
    const result = await invokeRemoteAgent(url, 'hello', { allowPrivate: true });
    expect(result).toEqual({ success: true, taskId: expect.any(String), responseText: 'you said hello' });
  });
});

/** Echoes its messages; `wait` makes it wait until it is canceled. */
class Talker implements AgentExecutor {
  async execute({ taskId, contextId, request }: RequestContext, bus: ExecutionEventBus): Promise<void> {
    const content = request.message?.parts[0]?.content;
    const text = content?.$case === 'text' ? content.value : '';
    bus.publish(AgentEvent.task(Task.fromJSON({ id: taskId, contextId, status: { state: 'TASK_STATE_WORKING' } })));
    if (text === 'wait') return;
    const artifact = { artifactId: 'a', parts: [{ text: `you said ${text}` }] };
    bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({ taskId, contextId, artifact })));
    this.#end(taskId, contextId, 'TASK_STATE_COMPLETED', bus);
  }

  cancelTask = async (taskId: string, bus: ExecutionEventBus): Promise<void> => {
    this.#end(taskId, '', 'TASK_STATE_CANCELED', bus);
  };

  #end(taskId: string, contextId: string, state: string, bus: ExecutionEventBus): void {
    bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, contextId, status: { state } })));
    bus.finished();
  }
}
