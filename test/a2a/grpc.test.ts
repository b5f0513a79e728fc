import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type ClientReadableStream,
  credentials,
  Metadata,
  makeGenericClientConstructor,
  type ServiceClientConstructor,
  type ServiceDefinition,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { loadSync, type MessageTypeDefinition } from '@grpc/proto-loader';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { A2AClient } from '../../src/a2a/client/a2a-client.js';
import type { A2AClientInit } from '../../src/a2a/client/client-init.js';
import { createNode } from '../../src/node/compose.js';
import { readTls } from '../../src/node/grpc-tls.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { selfSigned } from '../tls-certificate.js';
import { said, TaskNode } from './task-node.js';

const includeDirs = [fileURLToPath(new URL('../../proto', import.meta.url))];
const options = { enums: String, bytes: String, longs: Number, includeDirs };
const service = loadSync('a2a.proto', options)['lf.a2a.v1.A2AService'] as ServiceDefinition;
const rpc = loadSync('status.proto', options) as Record<string, MessageTypeDefinition<object, never>>;

type Client = InstanceType<ServiceClientConstructor>;
type Answer = Record<string, never> & {
  id: string;
  task: { id: string; status: { state: string }; artifacts: never[] };
};

const clients: Client[] = [];
let served: TaskNode;
let client: Client;

beforeAll(async () => {
  served = await TaskNode.start({ grpc: { port: 0 } });
  client = clientAt(served.gateway.grpcAddress!);
});

afterAll(async () => {
  for (const one of clients) one.close();
  await served.stop();
});

function clientAt(address: string, channel = credentials.createInsecure()): Client {
  const Constructor = makeGenericClientConstructor(service, 'A2AService');
  const made = new Constructor(address, channel, { 'grpc.ssl_target_name_override': 'localhost' });
  clients.push(made);
  return made;
}

function metadataOf(entries: Record<string, string>): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries({ authorization: `Bearer ${served.owner}`, ...entries })) {
    if (value !== '') metadata.set(name, value);
  }
  return metadata;
}

function ask(method: string, params: object, headers: Record<string, string> = {}, to = client): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const answer = (error: ServiceError | null, value: Answer) => (error ? reject(error) : resolve(value));
    (to[method] as (...args: unknown[]) => unknown).call(to, params, metadataOf(headers), answer);
  });
}

function open(method: string, params: object, headers: Record<string, string> = {}): ClientReadableStream<Answer> {
  return (client[method] as (...args: unknown[]) => ClientReadableStream<Answer>).call(
    client,
    params,
    metadataOf(headers),
  );
}

/** How a call was refused: its status, and the reason in its details. */
async function refusal(work: Promise<unknown>): Promise<[code: string | undefined, reason: string]> {
  const error = (await work.then(
    () => undefined,
    (thrown) => thrown,
  )) as ServiceError;
  return [status[error.code], reasonIn(error)];
}

function reasonIn({ metadata }: ServiceError): string {
  const [bytes] = metadata.get('grpc-status-details-bin') as Buffer[];
  const { details } = rpc['google.rpc.Status']!.deserialize(bytes!) as { details: { value: string }[] };
  const info = rpc['google.rpc.ErrorInfo']!.deserialize(Buffer.from(details[0]!.value, 'base64'));
  return (info as { reason: string }).reason;
}

const failed = (stream: ClientReadableStream<Answer>) =>
  new Promise<ServiceError>((resolve) => stream.on('error', (error) => resolve(error as ServiceError)));

describe('A2A over gRPC', () => {
  it('is announced on the card with its version', async () => {
    const card = (await (await served.get('/.well-known/agent-card.json')).json()) as never;
    const url = served.gateway.grpcAddress;
    expect(card).toMatchObject({
      supportedInterfaces: expect.arrayContaining([{ url, protocolBinding: 'GRPC', protocolVersion: '1.0' }]),
    });
    const stream = open('SendStreamingMessage', said('hello'), {
      'a2a-extensions': 'urn:ecliptic:a2a:resume:1, urn:no',
    });
    const [greeting] = await new Promise<[Metadata]>((resolve) => stream.on('metadata', (one) => resolve([one])));
    expect(greeting.get('a2a-version')).toEqual(['1.0']);
    expect(greeting.get('a2a-extensions')).toEqual(['urn:ecliptic:a2a:resume:1']);
    stream.on('error', () => {}).cancel();
  });

  it('accepts only callers whose token has the scope for tasks', async () => {
    expect(await refusal(ask('ListTasks', {}, { authorization: '' }))).toEqual(['UNAUTHENTICATED', 'TOKEN_REQUIRED']);
    expect(await refusal(ask('ListTasks', {}, { authorization: 'Bearer no' }))).toEqual([
      'UNAUTHENTICATED',
      'TOKEN_REQUIRED',
    ]);
    const { token } = served.gateway.tokens.create('toolsmith', undefined, ['tools']);
    expect(await refusal(ask('ListTasks', {}, { authorization: `Bearer ${token}` }))).toEqual([
      'PERMISSION_DENIED',
      'SCOPE_REQUIRED',
    ]);
  });

  it('shows each caller only its own tasks, and makes one task of a repeated send [A2A-1.9.14 T-D2]', async () => {
    const alice = { authorization: `Bearer ${served.token('alice')}`, 'idempotency-key': 'k' };
    const { task } = await ask('SendMessage', said('hers'), alice);
    expect((await ask('SendMessage', said('hers'), alice)).task.id).toBe(task.id);
    const conflict = ['FAILED_PRECONDITION', 'IDEMPOTENCY_CONFLICT'];
    expect(await refusal(ask('SendMessage', said('another'), alice))).toEqual(conflict);
    expect(await refusal(ask('GetTask', { id: task.id }))).toEqual(['NOT_FOUND', 'TASK_NOT_FOUND']);
  });

  it('maps every error as the protocol says [A2A-1.9.16]', async () => {
    const { task } = await ask('SendMessage', said('done'));
    const parts = [{ text: 'x'.repeat(1_200_000) }];
    const cases: [work: () => Promise<unknown>, code: string, reason: string][] = [
      [() => ask('CancelTask', { id: task.id }), 'FAILED_PRECONDITION', 'TASK_NOT_CANCELABLE'],
      [() => ask('SendMessage', said('on', { taskId: task.id })), 'FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION'],
      [() => ask('SendMessage', said('', { parts: [] })), 'INVALID_ARGUMENT', 'INVALID_PARAMS'],
      [() => ask('SendMessage', said('', { parts: [{}] })), 'INVALID_ARGUMENT', 'INVALID_PARAMS'],
      [() => ask('SendMessage', said('', { parts })), 'RESOURCE_EXHAUSTED', 'PAYLOAD_TOO_LARGE'],
      [() => ask('ListTasks', { statusTimestampAfter: { seconds: 9e15 } }), 'INVALID_ARGUMENT', 'INVALID_PARAMS'],
      [() => ask('ListTasks', {}, { 'a2a-version': '0.3' }), 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED'],
      [() => ask('ListTasks', {}, { 'a2a-version': '2.0' }), 'FAILED_PRECONDITION', 'VERSION_NOT_SUPPORTED'],
      [() => ask('GetTaskPushNotificationConfig', { taskId: 'no', id: 'no' }), 'NOT_FOUND', 'TASK_NOT_FOUND'],
    ];
    for (const [work, code, reason] of cases) expect(await refusal(work())).toEqual([code, reason]);
    const over = await failed(open('SubscribeToTask', { id: task.id }));
    expect([status[over.code], reasonIn(over)]).toEqual(['FAILED_PRECONDITION', 'UNSUPPORTED_OPERATION']);
  });

  it('refuses circular delegation, which comes in its own metadata', async () => {
    const chain = encodeURIComponent(served.node.agentById('echo').address);
    expect(await refusal(ask('SendMessage', said('round'), { 'ecliptic-delegation': chain }))).toEqual([
      'PERMISSION_DENIED',
      'DELEGATION_REFUSED',
    ]);
  });

  it('carries bytes and any data, including null [A2A-1.9.13]', async () => {
    const { task } = await ask('SendMessage', {
      ...said('', { parts: [{ raw: 'AAEC', mediaType: 'image/png' }, { data: { nullValue: 'NULL_VALUE' } }] }),
      tenant: 'plain',
    });
    const record = (await served.gateway.tasks.get(task.id)).model.task;
    expect(record.history?.[0]?.parts).toEqual([{ raw: 'AAEC', mediaType: 'image/png' }, { data: null }]);
    expect(task.artifacts).toMatchObject([
      { parts: [{ data: { structValue: { fields: { got: { structValue: {} } } } } }] },
    ]);
  });

  it('lets a task run on when its reader leaves, and sends no further events', async () => {
    const first = open('SendStreamingMessage', { ...said('grpc leaves'), tenant: 'slow' });
    const { task } = await new Promise<Answer>((resolve) => first.once('data', resolve));
    const held = await served.begun('grpc leaves');
    const gone = failed(first);
    first.cancel();
    expect(status[(await gone).code]).toBe('CANCELLED');
    held.task.progress('half');
    held.finish('done');
    await expect
      .poll(async () => (await ask('GetTask', { id: task.id })) as never)
      .toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
  });

  it('waits for a slow reader, which gets every event', async () => {
    const stream = open('SendStreamingMessage', { ...said('grpc slow'), tenant: 'slow' });
    const seen: string[] = [];
    const chunk = 'x'.repeat(100_000);
    await new Promise((resolve) => stream.once('data', resolve));
    stream.pause();
    const held = await served.begun('grpc slow');
    for (let i = 0; i < 100; i++) held.task.progress(`${i} ${chunk}`);
    held.finish();
    // The task is done while this reader has not begun.
    await expect
      .poll(async () => (await ask('GetTask', { id: held.task.id, historyLength: 0 })) as never)
      .toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' } });
    stream.on(
      'data',
      ({ statusUpdate }: { statusUpdate?: { status: { message?: { parts: { text: string }[] } } } }) => {
        const text = statusUpdate?.status.message?.parts[0]?.text;
        if (text) seen.push(text.split(' ')[0]!);
      },
    );
    await new Promise((resolve) => stream.on('end', resolve).resume());
    expect(seen).toEqual(Array.from({ length: 100 }, (_, i) => `${i}`));
  });

  it('closes a stream when its token is revoked', async () => {
    const { token, id } = served.gateway.tokens.create('brief');
    const params = { ...said('grpc revoked'), tenant: 'slow' };
    const stream = open('SendStreamingMessage', params, { authorization: `Bearer ${token}` });
    await new Promise((resolve) => stream.once('data', resolve));
    const ended = failed(stream);
    served.gateway.revoke(id);
    expect(status[(await ended).code]).toBe('UNAUTHENTICATED');
  });

  it('is served on loopback or with TLS, and refuses a port in use', async () => {
    const node = await createNode();
    const port = Number(served.gateway.grpcAddress!.split(':')[1]);
    try {
      await expect(node.serve({ port: 0, host: '0.0.0.0', grpc: { port: 0 } })).rejects.toMatchObject({
        code: 'INVALID_CONFIG',
      });
      await expect(node.serve({ port: 0, grpc: { port } })).rejects.toMatchObject({ code: 'ADDRESS_UNUSABLE' });
      node.agent({ id: 'echo' }).onTask(({ text }) => `you said ${text}`);
      const { cert, key } = selfSigned('localhost');
      const gateway = await node.serve({ port: 0, grpc: { port: 0, tls: { cert, key } } });
      const secure = clientAt(gateway.grpcAddress!, credentials.createSsl(Buffer.from(cert)));
      const headers = { authorization: `Bearer ${gateway.tokens.owners}` };
      const { task } = await ask('SendMessage', said('hello'), headers, secure);
      expect(task.status.state).toBe('TASK_STATE_COMPLETED');
    } finally {
      await node.stop();
    }
  });

  it('asks for a certificate of its callers where that is configured, and our client shows one [GC.2]', async () => {
    const node = await createNode();
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-grpc-'));
    try {
      node.agent({ id: 'echo' }).onTask(({ text }) => `you said ${text}`);
      const [server, caller, stranger] = [selfSigned('localhost'), selfSigned('caller'), selfSigned('stranger')];
      for (const [name, text] of Object.entries({ cert: server.cert, key: server.key, ca: caller.cert })) {
        writeFileSync(join(folder, `${name}.pem`), text);
      }
      const tls = await readTls(folder, { cert: 'cert.pem', key: 'key.pem', clientCa: 'ca.pem' });
      await expect(readTls(folder, { cert: 'none.pem', key: 'key.pem' })).rejects.toMatchObject({
        code: 'INVALID_CONFIG',
      });
      const gateway = await node.serve({ port: 0, host: 'localhost', grpc: { port: 0, tls } });
      const send = async (shown: Partial<A2AClientInit>) => {
        const init = { url: gateway.url, binding: 'GRPC', credentials: { bearer: gateway.tokens.owners } } as const;
        const made = await A2AClient.connect({ runtime: systemRuntime() }, { ...init, allowPrivate: true, ...shown });
        try {
          return await made.send({ message: 'hello' });
        } finally {
          made.close();
        }
      };
      expect(await send({ ca: server.cert, certificate: caller })).toMatchObject({
        task: { status: { state: 'TASK_STATE_COMPLETED' } },
      });
      for (const wrong of [
        {},
        { ca: server.cert },
        { ca: server.cert, certificate: stranger },
        { ca: stranger.cert, certificate: caller },
      ]) {
        await expect(send(wrong)).rejects.toMatchObject({ code: 'FETCH_FAILED' });
      }
    } finally {
      await node.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  }, 60_000);
});
