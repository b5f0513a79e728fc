import { createHash } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CallLimits } from '../../src/a2a/client/call-limits.js';
import type { Method } from '../../src/a2a/protocol/json-rpc.js';
import type { EclipticError } from '../../src/runtime/errors.js';
import { EdgeNodes } from './edge-nodes.js';
import { collect, eventsOf, kindOf, said, type TaskNode, type TaskResult, type WireTask } from './task-node.js';

const nodes = new EdgeNodes();
let served: TaskNode;
/** A node of another owner, with agents of the names of the callers. */
let front: TaskNode;
let alice: Record<string, string>;
let bob: Record<string, string>;

beforeAll(async () => {
  served = await nodes.add();
  alice = { Authorization: `Bearer ${served.token('alice')}` };
  bob = { Authorization: `Bearer ${served.token('bob')}` };
  front = await nodes.add({ invite: {}, agents: false });
  for (const id of ['owner', 'alice', 'bob']) front.node.agent({ id, tier: 3 });
});

afterAll(() => nodes.stopAll());

const BINDINGS = ['JSON-RPC', 'HTTP', 'mesh'] as const;
type Binding = (typeof BINDINGS)[number];

/** How a request went, whatever the binding: the result, or the reason and number of the error. */
interface Outcome {
  readonly result?: unknown;
  readonly reason?: string | undefined;
  readonly code?: number;
}

const PATHS: Record<string, (params: { id?: string; taskId?: string }) => [verb: string, path: string]> = {
  SendMessage: () => ['POST', '/message:send'],
  GetTask: ({ id }) => ['GET', `/tasks/${id}`],
  ListTasks: () => ['GET', '/tasks'],
  CancelTask: ({ id }) => ['POST', `/tasks/${id}:cancel`],
  SubscribeToTask: ({ id }) => ['POST', `/tasks/${id}:subscribe`],
  CreateTaskPushNotificationConfig: ({ taskId }) => ['POST', `/tasks/${taskId}/pushNotificationConfigs`],
  ListTaskPushNotificationConfigs: ({ taskId }) => ['GET', `/tasks/${taskId}/pushNotificationConfigs`],
  DeleteTaskPushNotificationConfig: ({ taskId, id }) => ['DELETE', `/tasks/${taskId}/pushNotificationConfigs/${id}`],
};

async function askOverMesh(method: string, params: object, headers: Record<string, string>): Promise<Outcome> {
  const { Authorization: bearer, ...service } = headers;
  const as = bearer === alice.Authorization ? 'alice' : bearer === bob.Authorization ? 'bob' : 'owner';
  const limits = new CallLimits(front.node.runtime, {}, 30_000);
  const terms = { limits, headers: { 'A2A-Version': '1.0', ...service } };
  try {
    const transport = front.node.a2aTransport({ node: served.node.key, agent: undefined }, as);
    return { result: await transport.call(method as Method, params, terms) };
  } catch (error) {
    const { rpc, reason } = (error as EclipticError).details as { rpc: number; reason: string };
    return { code: rpc, reason };
  } finally {
    limits.release();
  }
}

/** The same operation over any binding. */
async function ask(
  binding: Binding,
  method: string,
  params: Record<string, unknown>,
  headers: Record<string, string> = {},
  query = '',
): Promise<Outcome> {
  if (binding === 'mesh') return askOverMesh(method, params, headers);
  if (binding === 'JSON-RPC') {
    const answer = await served.post(`/a2a/rpc${query}`, { jsonrpc: '2.0', id: 1, method, params }, headers);
    const { result, error } = (await answer.json()) as Awaited<ReturnType<TaskNode['rpc']>>;
    return error ? { code: error.code, reason: error.data?.[0]?.reason } : { result };
  }
  const [verb, path] = PATHS[method]!(params);
  const texts = Object.entries(params).map(([name, value]) => [name, String(value)] as [string, string]);
  const search = verb === 'GET' ? `?${new URLSearchParams(texts)}${query.replace('?', '&')}` : query;
  const answer = await fetch(`${served.url}/a2a/v1${path}${search}`, {
    method: verb,
    headers: {
      'A2A-Version': '1.0',
      'Content-Type': 'application/a2a+json',
      Authorization: `Bearer ${served.owner}`,
      ...headers,
    },
    ...(verb === 'POST' && { body: JSON.stringify(params) }),
  });
  const body = (await answer.json()) as { error?: { code: number; details: { reason: string }[] } };
  return body.error ? { code: body.error.code, reason: body.error.details[0]?.reason } : { result: body };
}

describe.each(BINDINGS)('over %s', (binding) => {
  /** Rules of HTTP. */
  const overHttp: typeof it = binding === 'mesh' ? (Object.assign(() => {}, it) as typeof it) : it;
  const send = async (params: Record<string, unknown>, headers = {}) => {
    const { result, ...error } = await ask(binding, 'SendMessage', params, headers);
    expect(error).toEqual({});
    return (result as TaskResult).task;
  };

  overHttp('a request without a version is treated as 0.3 [A2A-1.9.1]', async () => {
    const headers = { 'A2A-Version': '' };
    expect(await ask(binding, 'SendMessage', said('hello'), headers)).not.toHaveProperty('result');
    if (binding === 'JSON-RPC') {
      const message = { kind: 'message', messageId: 'old-1', role: 'user', parts: [{ kind: 'text', text: 'hello' }] };
      const params = { jsonrpc: '2.0', id: 1, method: 'message/send', params: { message } };
      const { result } = (await (await served.post('/a2a/rpc', params, headers)).json()) as { result: object };
      expect(result).toMatchObject({ kind: 'task', status: { state: 'completed' } });
    } else {
      const message = { messageId: 'old-2', role: 'ROLE_USER', content: [{ text: 'hello' }] };
      const answer = await served.post('/a2a/v1/v1/message:send', { message }, headers);
      const { task } = (await answer.json()) as { task: object };
      expect(task).toMatchObject({ status: { state: 'TASK_STATE_COMPLETED' }, history: [message, {}] });
    }
  });

  it.each(['1.0', '1.0.0', '1.0.1'])(
    '%s is treated as 1.0, in a header or in the query [A2A-1.9.2 A2A-1.9.3 A2A-2.5.2]',
    async (version) => {
      expect(await ask(binding, 'SendMessage', said('hi'), { 'A2A-Version': version })).toHaveProperty('result');
      const query = `?A2A-Version=${version}`;
      expect(await ask(binding, 'SendMessage', said('hi'), { 'A2A-Version': '' }, query)).toHaveProperty('result');
    },
  );

  it('an unknown version is refused', async () => {
    const { reason } = await ask(binding, 'SendMessage', said('hi'), { 'A2A-Version': '2.0' });
    expect(reason).toBe('VERSION_NOT_SUPPORTED');
  });

  it('a send waits until the task ends or needs input [A2A-1.9.4 A2A-1.9.8]', async () => {
    expect((await send(said('hello'))).status.state).toBe('TASK_STATE_COMPLETED');
    expect((await send({ ...said('hello'), tenant: 'asker' })).status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    expect((await send({ ...said('hello'), tenant: 'guard' })).status.state).toBe('TASK_STATE_AUTH_REQUIRED');
    expect((await send({ ...said('hello'), tenant: 'choosy' })).status.state).toBe('TASK_STATE_REJECTED');
    expect((await send({ ...said('hello'), tenant: 'broken' })).status).toMatchObject({
      state: 'TASK_STATE_FAILED',
      message: { parts: [{ text: 'no disk' }] },
    });
    const text = `${binding} at once`;
    const task = await send({ ...said(text), tenant: 'slow', configuration: { returnImmediately: true } });
    expect(['TASK_STATE_SUBMITTED', 'TASK_STATE_WORKING']).toContain(task.status.state);
  });

  it('a list without tasks is an empty array [A2A-1.9.9]', async () => {
    expect(await ask(binding, 'ListTasks', { contextId: 'nobody-knows' })).toEqual({
      result: { tasks: [], nextPageToken: '', pageSize: 50, totalSize: 0 },
    });
  });

  it('times are inclusive, and UTC with milliseconds and Z [A2A-1.9.11 A2A-1.9.19 A2A-2.5.4]', async () => {
    const contextId = `${binding}-times`;
    const { id, status } = await send(said('hello', { contextId }));
    expect(status.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const listed = async (statusTimestampAfter: string) => {
      const { result } = await ask(binding, 'ListTasks', { contextId, statusTimestampAfter });
      return (result as { tasks: WireTask[] }).tasks.map((task) => task.id);
    };
    expect(await listed(status.timestamp)).toEqual([id]);
    expect(await listed(new Date(Date.parse(status.timestamp) + 1).toISOString())).toEqual([]);
    expect((await ask(binding, 'GetTask', { id, historyLength: -1 })).reason).toBe('INVALID_PARAMS');
    expect((await ask(binding, 'ListTasks', { pageSize: 101 })).reason).toBe('INVALID_PARAMS');
  });

  it('roles and parts are checked, and null data is kept [A2A-1.9.13 A2A-2.5.3]', async () => {
    const wrong = [
      { parts: [] },
      { role: 'user' },
      { role: undefined },
      { parts: [{}] },
      { parts: [{ text: 'a', url: 'http://a.example/' }] },
      { messageId: '' },
    ];
    for (const more of wrong) {
      const { reason } = await ask(binding, 'SendMessage', said('x', more));
      expect(reason, JSON.stringify(more)).toBe('INVALID_PARAMS');
    }
    const task = await send({ ...said('', { parts: [{ data: null }] }), tenant: 'plain' });
    expect(task.history?.[0]?.parts).toEqual([{ data: null }]);
    expect(task.artifacts?.[0]?.parts).toEqual([{ data: { got: null } }]);
  });

  it('the task of another caller is not found, by any operation [A2A-1.9.14]', async () => {
    const text = `${binding} of alice`;
    const { id } = await send({ ...said(text), tenant: 'slow', configuration: { returnImmediately: true } }, alice);
    const url = 'https://hooks.example.com/';
    for (const [method, params] of [
      ['GetTask', { id }],
      ['CancelTask', { id }],
      ['SubscribeToTask', { id }],
      ['SendMessage', said('more', { taskId: id })],
      ['CreateTaskPushNotificationConfig', { taskId: id, url }],
      ['ListTaskPushNotificationConfigs', { taskId: id }],
      ['DeleteTaskPushNotificationConfig', { taskId: id, id: 'x' }],
    ] as const) {
      expect((await ask(binding, method, params, bob)).reason, method).toBe('TASK_NOT_FOUND');
    }
    const { result } = await ask(binding, 'ListTasks', {}, bob);
    expect((result as { tasks: WireTask[] }).tasks.map((task) => task.id)).not.toContain(id);
    expect(await ask(binding, 'GetTask', { id }, alice)).toHaveProperty('result');
  });

  overHttp('a caller without a token has no tasks at all [A2A-2.5.12]', async () => {
    const answer = await served.post('/a2a/rpc', {}, { Authorization: '' });
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="ecliptic"']);
  });

  it('a push configuration can be deleted twice, and that of an unknown task is not found [A2A-1.9.15]', async () => {
    const text = `${binding} hooks`;
    const { id: taskId } = await send({ ...said(text), tenant: 'slow', configuration: { returnImmediately: true } });
    expect(await ask(binding, 'DeleteTaskPushNotificationConfig', { taskId, id: 'x' })).toEqual({ result: {} });
    expect(await ask(binding, 'DeleteTaskPushNotificationConfig', { taskId, id: 'x' })).toEqual({ result: {} });
    expect((await ask(binding, 'DeleteTaskPushNotificationConfig', { taskId: 'no', id: 'x' })).reason).toBe(
      'TASK_NOT_FOUND',
    );
  });

  it('a canceled task can be canceled again; a completed one cannot be canceled [A2A-1.9.16]', async () => {
    const text = `${binding} cancel twice`;
    const { id } = await send({ ...said(text), tenant: 'slow', configuration: { returnImmediately: true } });
    for (let i = 0; i < 2; i++) {
      const { result } = await ask(binding, 'CancelTask', { id });
      expect((result as WireTask).status.state).toBe('TASK_STATE_CANCELED');
    }
    const done = await send(said('hello'));
    expect(await ask(binding, 'CancelTask', { id: done.id })).toEqual({
      reason: 'TASK_NOT_CANCELABLE',
      code: binding === 'HTTP' ? 400 : -32002,
    });
  });

  it('a context id is taken as the caller writes it, or refused [A2A-1.9.17 A2A-2.5.11]', async () => {
    const contextId = `${binding} ${'c'.repeat(200)}`;
    const asked = await send({ ...said('hi', { contextId }), tenant: 'asker' });
    expect(asked.contextId).toBe(contextId);
    expect((await ask(binding, 'SendMessage', said('x', { contextId: 'c'.repeat(300) }))).reason).toBe(
      'INVALID_PARAMS',
    );
    const other = said('x', { taskId: asked.id, contextId: 'another' });
    expect((await ask(binding, 'SendMessage', other)).reason).toBe('INVALID_PARAMS');
    expect((await send(said('x', { taskId: asked.id }))).contextId).toBe(contextId);
    expect((await ask(binding, 'SendMessage', said('x', { taskId: asked.id }))).reason).toBe('UNSUPPORTED_OPERATION');
    expect((await ask(binding, 'SendMessage', said('x', { taskId: 'mine' }))).reason).toBe('TASK_NOT_FOUND');
  });

  it('a page is correct even if the task of its cursor has changed [A2A-2.5.5]', async () => {
    const contextId = `${binding}-pages`;
    const ids: string[] = [];
    for (let i = 0; i < 4; i++) ids.unshift((await send({ ...said('go', { contextId }), tenant: 'asker' })).id);
    const list = async (pageToken?: string) => {
      const params = { contextId, pageSize: 2, ...(pageToken && { pageToken }) };
      return (await ask(binding, 'ListTasks', params)).result as { tasks: WireTask[]; nextPageToken: string };
    };
    const first = await list();
    expect(first.tasks.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    await send(said('answer', { taskId: ids[1] }));
    const second = await list(first.nextPageToken);
    expect(second.tasks.map(({ id }) => id)).toEqual(ids.slice(2));
    expect(second.nextPageToken).toBe('');
  });

  overHttp(
    'a body of half a megabyte is accepted, and one that is too large is refused in the form of its binding [A2A-2.5.1]',
    async () => {
      const raw = Buffer.alloc(500_000, 7).toString('base64');
      const task = await send({ ...said('', { parts: [{ raw, mediaType: 'image/png' }] }), tenant: 'plain' });
      expect(task.status.state).toBe('TASK_STATE_COMPLETED');
      const path = binding === 'HTTP' ? '/a2a/v1/message:send' : '/a2a/rpc';
      const answer = await served.post(path, `"${'x'.repeat(5_000_000)}"`);
      const { error } = (await answer.json()) as { error: { code: number; details: object[]; data: object[] } };
      const [info] = error.details ?? error.data;
      expect([answer.status, error.code]).toEqual(binding === 'HTTP' ? [413, 413] : [200, -32602]);
      expect(info).toMatchObject({ reason: 'PAYLOAD_TOO_LARGE' });
    },
  );

  it('a message too large for an envelope is refused before a task is created, or while its task keeps waiting for the answer', async () => {
    const parts = [{ text: 'x'.repeat(600_000) }, { text: 'y'.repeat(600_000) }];
    const contextId = `${binding}-heavy`;
    const tooLarge = { code: binding === 'HTTP' ? 413 : -32602, reason: 'PAYLOAD_TOO_LARGE' };
    for (const returnImmediately of [false, true]) {
      const heavy = { ...said('', { parts, contextId }), configuration: { returnImmediately } };
      expect(await ask(binding, 'SendMessage', heavy)).toEqual(tooLarge);
    }
    expect(await ask(binding, 'ListTasks', { contextId })).toMatchObject({ result: { totalSize: 0 } });
    const { id: taskId } = await send({ ...said('hello', { contextId }), tenant: 'asker' });
    expect(await ask(binding, 'SendMessage', said('', { parts, taskId }))).toEqual(tooLarge);
    expect((await send(said('this one', { taskId }))).status.state).toBe('TASK_STATE_COMPLETED');
  });

  overHttp('a body that is not JSON, not an object, or too deep is refused in the form of its binding', async () => {
    const path = binding === 'HTTP' ? '/a2a/v1/message:send' : '/a2a/rpc';
    const deep = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`;
    const params = `{"message":{"messageId":"deep","role":"ROLE_USER","parts":[{"data":${deep}}]}}`;
    const bodies: [body: string, reason: string][] = [
      ['{"a', 'PARSE_ERROR'],
      ['', binding === 'HTTP' ? 'INVALID_PARAMS' : 'PARSE_ERROR'],
      ['[]', binding === 'HTTP' ? 'INVALID_PARAMS' : 'INVALID_REQUEST'],
      ['null', binding === 'HTTP' ? 'INVALID_PARAMS' : 'INVALID_REQUEST'],
      ['<x/>', 'PARSE_ERROR'],
      [
        binding === 'HTTP' ? params : `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":${params}}`,
        'INVALID_PARAMS',
      ],
    ];
    for (const [body, reason] of bodies) {
      const answer = await served.post(path, body);
      const { error } = (await answer.json()) as { error: { details: object[]; data: object[] } };
      expect((error.details ?? error.data)[0], body.slice(0, 20)).toMatchObject({ reason });
      expect(answer.headers.get('content-type')).toBe(binding === 'HTTP' ? 'application/a2a+json' : 'application/json');
    }
  });

  overHttp('a body that is not JSON in UTF-8, or has an encoding, is refused with 415 [T-D12]', async () => {
    const path = binding === 'HTTP' ? '/a2a/v1/message:send' : '/a2a/rpc';
    const body = () =>
      binding === 'HTTP' ? said('typed') : { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: said('typed') };
    const refused: Record<string, string>[] = [
      { 'Content-Type': 'text/plain' },
      { 'Content-Type': 'text/xml' },
      { 'Content-Type': 'application/x-www-form-urlencoded' },
      { 'Content-Type': 'application/json; charset=utf-16' },
      { 'Content-Encoding': 'gzip' },
    ];
    for (const headers of refused) {
      const answer = await served.post(path, body(), headers);
      const { error } = (await answer.json()) as { error: { details: object[]; data: object[] } };
      expect([answer.status, (error.details ?? error.data)[0]], JSON.stringify(headers)).toEqual([
        415,
        expect.objectContaining({ reason: 'UNSUPPORTED_MEDIA_TYPE' }),
      ]);
    }
    for (const type of ['application/json', 'application/a2a+json', 'application/json; charset=UTF-8']) {
      const headers = { 'Content-Type': type, 'Content-Encoding': 'identity' };
      expect((await served.post(path, body(), headers)).status).toBe(200);
    }
  });

  it('names of the proto file, enum numbers and numbers as text are read by the rules of ProtoJSON [T-D10]', async () => {
    const message = { message_id: `${binding}-proto`, role: 1, parts: [{ text: 'hello', media_type: 'text/plain' }] };
    const params = {
      message: { ...message, context_id: `${binding} proto`, metadata: { my_own: { snake_case: 1 } } },
      configuration: { history_length: '1', return_immediately: false },
    };
    const task = await send(params);
    expect(task).toMatchObject({
      contextId: `${binding} proto`,
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ parts: [{ text: 'you said hello' }] }],
    });
    expect(task.history).toHaveLength(1);
    const whole = await ask(binding, 'GetTask', { id: task.id });
    expect(whole.result).toMatchObject({
      history: [{ messageId: `${binding}-proto`, metadata: { my_own: { snake_case: 1 } } }, {}],
    });
    const list = async (filter: object) =>
      (await ask(binding, 'ListTasks', { context_id: `${binding} proto`, page_size: '5', ...filter })).result;
    expect(await list({})).toMatchObject({ totalSize: 1, pageSize: 5 });
    if (binding === 'JSON-RPC') {
      expect(await list({ status: 3 })).toMatchObject({ totalSize: 1 });
      expect(await list({ status: 2 })).toMatchObject({ totalSize: 0 });
    }
    expect((await ask(binding, 'ListTasks', { page_size: 'many' })).reason).toBe('INVALID_PARAMS');
    expect((await ask(binding, 'SendMessage', said('x', { role: 7 }))).reason).toBe('INVALID_PARAMS');
  });

  it('a repeated send returns the same task, while it runs and afterwards', async () => {
    const first = await send(said('once', { messageId: `${binding}-once` }));
    const again = await send(said('once', { messageId: `${binding}-once` }));
    expect(again).toEqual(first);
    const key = { 'Idempotency-Key': `${binding}-key` };
    const text = `${binding} keyed`;
    const params = () => ({ ...said(text), tenant: 'slow', configuration: { returnImmediately: true } });
    const one = await send(params(), key);
    const two = await send(params(), key);
    expect(two.id).toBe(one.id);
    const others = await send(said('once', { messageId: `${binding}-once` }), alice);
    expect(others.id).not.toBe(first.id);
  });

  it('a message id or key that is reused for another request is refused, while its task runs and afterwards [T-D2]', async () => {
    const conflict = { code: binding === 'HTTP' ? 409 : -32216, reason: 'IDEMPOTENCY_CONFLICT' };
    const key = { 'Idempotency-Key': `${binding}-conflict` };
    const messageId = `${binding}-conflict-id`;
    const held = { ...said(`${binding} conflict`), tenant: 'slow', configuration: { returnImmediately: true } };
    const ended = said('done', { messageId, contextId: 'here' });
    const open = await send(held, key);
    const done = await send(ended);
    for (const other of [
      { ...held, message: { ...held.message, parts: [{ text: 'something else' }] } },
      { ...held, message: { ...held.message, contextId: 'elsewhere' } },
      { ...held, tenant: 'echo' },
      { ...held, tenant: 'nobody-at-all' },
      { ...held, metadata: { skill: 'another' } },
    ]) {
      expect(await ask(binding, 'SendMessage', other, key)).toEqual(conflict);
    }
    for (const more of [{ parts: [{ data: { text: 'done' } }] }, { contextId: undefined }, { contextId: 'there' }]) {
      expect(await ask(binding, 'SendMessage', said('done', { messageId, contextId: 'here', ...more }))).toEqual(
        conflict,
      );
    }
    // A retry may carry a trace of its own, and want another view of the task.
    const retried = { ...ended, metadata: { traceparent: '00-1' }, configuration: { historyLength: 0 } };
    expect((await send(retried)).id).toBe(done.id);
    expect((await send(held, key)).id).toBe(open.id);
  });

  it('a message id that is repeated within a task is the same message, or refused [T-G2]', async () => {
    const { id: taskId, status } = await send({ ...said('start'), tenant: 'asker' });
    expect(status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    const text = `${binding} known`;
    const slow = await send({ ...said(text), tenant: 'slow', configuration: { returnImmediately: true } });
    const more = said('and this', { taskId: slow.id });
    const now = { configuration: { returnImmediately: true } };
    await send({ ...more, ...now });
    expect(
      (await send({ ...more, ...now })).history?.filter(({ messageId }) => messageId === more.message.messageId),
    ).toHaveLength(1);
    const other = { message: { ...more.message, parts: [{ text: 'not that' }] }, ...now };
    expect((await ask(binding, 'SendMessage', other)).reason).toBe('IDEMPOTENCY_CONFLICT');
    expect((await send(said('answer', { taskId }))).status.state).toBe('TASK_STATE_COMPLETED');
  });

  it('text that is not Unicode is an invalid parameter, and no character is cut in two [T-G2 T-D1]', async () => {
    const half = String.fromCharCode(0xd83d);
    for (const wrong of [
      said(`broken ${half}`),
      said('', { parts: [{ data: { deep: [half] } }] }),
      said('x', { metadata: { [half]: 1 } }),
      said('x', { contextId: half }),
    ]) {
      expect((await ask(binding, 'SendMessage', wrong)).reason, JSON.stringify(wrong)).toBe('INVALID_PARAMS');
    }
    const text = `${'x'.repeat(49)}😀`;
    expect((await send(said(text))).artifacts?.[0]?.parts).toEqual([{ text: `you said ${text}` }]);
  });
});

describe('JSON-RPC', () => {
  it('answers -32600 to an invalid request, with its id [A2A-2.5.6]', async () => {
    const wrong = [{ id: 5 }, { jsonrpc: '1.0', id: 5, method: 'GetTask' }, { jsonrpc: '2.0', id: 5, method: 7 }];
    for (const body of wrong) {
      const answer = await (await served.post('/a2a/rpc', body)).json();
      expect(answer).toMatchObject({ jsonrpc: '2.0', id: 5, error: { code: -32600 } });
    }
    expect(await served.rpc('NoSuchThing', {})).toMatchObject({ id: 7, error: { code: -32601 } });
    expect(await served.rpc('GetTask', {})).toMatchObject({ id: 7, error: { code: -32602 } });
  });
});

describe('a JSON-RPC notification', () => {
  it('is executed and gets no answer, whether valid or not [T-D13]', async () => {
    const notify = async (method: string, params: object) => {
      const answer = await served.post('/a2a/rpc', { jsonrpc: '2.0', method, params });
      return [answer.status, await answer.text()];
    };
    const id = await served.hold('notified');
    expect(await notify('CancelTask', { id })).toEqual([204, '']);
    await served.inState(id, 'TASK_STATE_CANCELED');
    expect(await notify('SendMessage', { ...said('go on'), tenant: 'slow' })).toEqual([204, '']);
    await served.begun('go on');
    const other = await served.hold('streamed to nobody');
    expect(await notify('SubscribeToTask', { id: other })).toEqual([204, '']);
    expect(await notify('NoSuchThing', {})).toEqual([204, '']);
    expect(await notify('GetTask', {})).toEqual([204, '']);
    // An input that is not a request is answered with a null id.
    const answer = await served.post('/a2a/rpc', { method: 'GetTask' });
    expect(await answer.json()).toMatchObject({ id: null, error: { code: -32600 } });
  });
});

describe('a public document', () => {
  it('is served at its own path only, and not below it [T-G2]', async () => {
    const get = (path: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const { hostname: host, port } = new URL(served.url);
        const request = httpRequest({ host, port, path }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        request.on('error', reject);
        request.end();
      });
    for (const path of ['/.well-known/agent-card.json', '/.well-known/jwks.json', '/health']) {
      expect(await get(path)).toBe(200);
      expect(await get(`${path}?x=1`)).toBe(200);
      for (const below of ['/../../x', '/', '/x']) expect(await get(`${path}${below}`), below).toBe(401);
    }
  });
});

describe('the HTTP binding', () => {
  it('reports every error as google.rpc.Status with an ErrorInfo, in its own media type [A2A-1.9.10 A2A-1.9.18]', async () => {
    const answers = await Promise.all([
      served.get('/a2a/v1/tasks/nobody'),
      served.get('/a2a/v1/no/such/path'),
      served.get('/a2a/v1/message:send'),
      served.get('/a2a/v1/tasks?pageSize=x'),
      served.post('/a2a/v1/message:send', '{"'),
      served.get('/a2a/v1/tasks', { Authorization: '' }),
      served.get('/a2a/v1/tasks', { Authorization: 'Bearer wrong' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 400, 400, 401, 401]);
    for (const answer of answers) {
      expect(answer.headers.get('content-type')).toBe('application/a2a+json');
      expect(await answer.json()).toEqual({
        error: {
          code: answer.status,
          status: expect.stringMatching(/^[A-Z_]+$/),
          message: expect.any(String),
          details: expect.arrayContaining([
            expect.objectContaining({
              '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
              reason: expect.stringMatching(/^[A-Z_]+$/),
            }),
          ]),
        },
      });
    }
  });

  it('serves a subscription by POST and by GET [A2A-1.9.6]', async () => {
    const id = await served.hold('both verbs');
    const readers = [
      eventsOf(await served.get(`/a2a/v1/tasks/${id}:subscribe`)),
      eventsOf(await served.post(`/a2a/v1/tasks/${id}:subscribe`, '')),
    ];
    const firsts = await Promise.all(readers.map((reader) => reader.next()));
    expect(firsts.map(({ value }) => kindOf(value!))).toEqual([expect.stringMatching(/^task /), expect.any(String)]);
    served.held.get('both verbs')!.finish('done');
    const rests = await Promise.all(readers.map((reader) => collect(reader)));
    expect(rests.map((rest) => rest.map(kindOf).at(-1))).toEqual(['completed', 'completed']);
  });

  it('takes a tenant in the path, and gives it back exactly or not at all [A2A-1.9.20]', async () => {
    const answer = await served.post('/a2a/v1/plain/message:send', said('hello'));
    const { task } = (await answer.json()) as TaskResult;
    expect(task.artifacts?.[0]?.parts[0]?.data).toEqual({ got: 'hello' });
    const list = async (path: string) => ((await (await served.get(path)).json()) as { totalSize: number }).totalSize;
    expect(await list('/a2a/v1/plain/tasks')).toBeGreaterThan(0);
    expect(await list('/a2a/v1/nobody/tasks')).toBe(0);
    const { supportedInterfaces: own } = (await (await served.get('/api/agents/plain/agent-card')).json()) as Card;
    expect(own.filter((one) => one.protocolVersion === '1.0').map((one) => one.tenant)).toEqual(['plain', 'plain']);
    const { supportedInterfaces } = (await (await served.get('/.well-known/agent-card.json')).json()) as Card;
    expect(supportedInterfaces.filter((one) => 'tenant' in one)).toEqual([]);
    const id = await served.hold('tenant of a hook');
    const config = { url: 'https://1.1.1.1/hook', taskId: id, tenant: 'slow' };
    expect(await served.result('CreateTaskPushNotificationConfig', config)).toMatchObject({ tenant: 'slow' });
  });
});

interface Card {
  supportedInterfaces: { protocolVersion: string; tenant?: string; url: string }[];
}

describe('a stream', () => {
  it('begins with a task or a message, a subscription with a task [A2A-1.9.5]', async () => {
    const stream = async (tenant: string) =>
      (await collect(eventsOf(await served.post('/a2a/v1/message:stream', { ...said('x'), tenant })))).map(kindOf);
    expect(await stream('echo')).toEqual(['task submitted', 'working', 'artifact', 'completed']);
    expect(await stream('quick')).toEqual(['message']);
    expect(await stream('broken')).toEqual(['task submitted', 'failed']);
    const id = await served.hold('first of all');
    const reader = eventsOf(await served.post(`/a2a/v1/tasks/${id}:subscribe`, ''));
    expect(kindOf((await reader.next()).value!)).toMatch(/^task /);
    served.held.get('first of all')!.finish();
    await collect(reader);
  });

  it('continues while the task is interrupted, and ends with the task [A2A-1.9.7]', async () => {
    const reader = eventsOf(await served.post('/a2a/v1/message:stream', { ...said('x'), tenant: 'asker' }));
    const { value: first } = await reader.next();
    const { id } = first!.data.task!;
    expect([kindOf(first!), kindOf((await reader.next()).value!), kindOf((await reader.next()).value!)]).toEqual([
      'task submitted',
      'working',
      'input_required',
    ]);
    const answer = await collect(
      eventsOf(await served.post('/a2a/v1/message:stream', said('that one', { taskId: id }))),
    );
    // The stream of the answer does not repeat the question.
    expect(answer.map(kindOf)).toEqual(['task working', 'artifact', 'completed']);
    expect((await collect(reader)).map(kindOf)).toEqual(['working', 'artifact', 'completed']);
  });

  it('has an id on every event, from which it can be resumed without a gap [A2A-2.5.9]', async () => {
    const id = await served.hold('resume me');
    const held = served.held.get('resume me')!;
    const first = eventsOf(await served.get(`/a2a/v1/tasks/${id}:subscribe`));
    await first.next();
    for (let i = 0; i < 5; i++) held.task.progress(`${i}`);
    const seen = [];
    for (let i = 0; i < 2; i++) seen.push((await first.next()).value!);
    await first.return(undefined);
    const last = seen.at(-1)!.id!;
    expect(last).toMatch(new RegExp(`^${id}:\\d+$`));
    held.task.progress('5');
    held.finish();
    const rest = await collect(eventsOf(await served.get(`/a2a/v1/tasks/${id}:subscribe`, { 'Last-Event-ID': last })));
    const numbers = [...seen, ...rest].map((event) => Number(event.id!.split(':')[1]));
    expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index));
    expect(kindOf(rest.at(-1)!)).toBe('completed');
    // After the end too; only a new reading of it is refused.
    const again = await collect(eventsOf(await served.get(`/a2a/v1/tasks/${id}:subscribe`, { 'Last-Event-ID': last })));
    expect(again).toEqual(rest);
    expect((await served.get(`/a2a/v1/tasks/${id}:subscribe`)).status).toBe(400);
    const foreign = await served.get(`/a2a/v1/tasks/${id}:subscribe`, { 'Last-Event-ID': 'other:1' });
    expect(foreign.status).toBe(400);
  });

  it('starts at once, even before the first event', async () => {
    const id = await served.hold('quiet');
    const reader = eventsOf(await served.get(`/a2a/v1/tasks/${id}:subscribe`));
    const { value } = await reader.next();
    await reader.return(undefined);
    const again = await served.get(`/a2a/v1/tasks/${id}:subscribe`, { 'Last-Event-ID': value!.id! });
    expect(again.headers.get('content-type')).toBe('text/event-stream');
    served.held.get('quiet')!.finish();
    expect((await collect(eventsOf(again))).map(kindOf)).toEqual(['completed']);
  });

  it('that its reader leaves does not affect the task or other readers', async () => {
    const id = await served.hold('left');
    const stays = eventsOf(await served.get(`/a2a/v1/tasks/${id}:subscribe`));
    await stays.next();
    const leaves = httpRequest(`${served.url}/a2a/v1/tasks/${id}:subscribe`, {
      headers: { 'A2A-Version': '1.0', Authorization: `Bearer ${served.owner}` },
    });
    await new Promise<void>((resolve) => {
      leaves.on('response', (response) => response.once('data', () => resolve()));
      leaves.on('error', () => {});
      leaves.end();
    });
    leaves.destroy();
    served.held.get('left')!.finish('done');
    expect((await collect(stays)).map(kindOf)).toEqual(['artifact', 'completed']);
  });
});

describe('a message to a running task', () => {
  const now = { configuration: { returnImmediately: true } };
  const tell = (taskId: string, text: string) => served.result('SendMessage', { ...said(text, { taskId }), ...now });

  it('reaches a listening handler while it works [T-D4]', async () => {
    const { task } = await served.result('SendMessage', { ...said('go'), tenant: 'listener', ...now });
    for (const text of ['one', 'two', 'enough']) await tell(task.id, text);
    const done = await served.inState(task.id, 'TASK_STATE_COMPLETED');
    expect(done.artifacts?.map(({ parts }) => parts[0]?.text)).toEqual(['one, two, enough']);
    expect(done.history?.map(({ parts }) => parts[0]?.text)).toEqual(['go', 'one', 'two', 'enough']);
  });

  it.each(['slow', 'silent'])('starts the next turn of %s, which does not listen [T-D4]', async (tenant) => {
    const first = `${tenant} first turn`;
    const { task } = await served.result('SendMessage', { ...said(first), tenant, ...now });
    const begun = await served.begun(first);
    await tell(task.id, `${tenant} second turn`);
    begun.finish('one');
    (await served.begun(`${tenant} second turn`)).finish('two');
    const done = await served.inState(task.id, 'TASK_STATE_COMPLETED');
    expect(done.artifacts?.map(({ parts }) => parts[0]?.text)).toEqual(['one', 'two']);
    expect((await served.rpc('SendMessage', said('late', { taskId: task.id }))).error?.code).toBe(-32004);
  });

  it('is refused when a hundred already wait [T-D4]', async () => {
    const id = await served.hold('a patient one');
    for (let i = 0; i < 100; i++) await tell(id, `${i}`);
    const { error } = await served.rpc('SendMessage', { ...said('one more', { taskId: id }), ...now });
    expect(error?.data[0]).toMatchObject({ reason: 'QUEUE_FULL' });
  });
});

describe('a task of an agent that reports nothing', () => {
  it.each(['slow', 'silent'])('shows that %s works [T-D6]', async (tenant) => {
    const text = `quietly ${tenant}`;
    const configuration = { returnImmediately: true };
    const { task } = await served.result('SendMessage', { ...said(text), tenant, configuration });
    await served.inState(task.id, 'TASK_STATE_WORKING');
    (await served.begun(text)).finish('done');
    await served.inState(task.id, 'TASK_STATE_COMPLETED');
    // A waiting caller gets the task when it is done, and a reader sees the earlier events.
    const reader = collect(eventsOf(await served.post('/a2a/v1/message:stream', { ...said(`${text} again`), tenant })));
    await new Promise((resolve) => setTimeout(resolve, 100));
    (await served.begun(`${text} again`)).finish('done');
    expect((await reader).map(kindOf)).toEqual(['task submitted', 'working', 'artifact', 'completed']);
  });
});

describe('the card', () => {
  it('is public, cacheable, and has an ETag of its content', async () => {
    const answer = await fetch(`${served.url}/.well-known/agent-card.json`);
    const text = await answer.text();
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'public, max-age=300']);
    const etag = answer.headers.get('etag')!;
    const headers = { 'If-None-Match': etag };
    expect((await fetch(`${served.url}/.well-known/agent-card.json`, { headers })).status).toBe(304);
    const hash = createHash('sha256').update(text).digest('hex');
    served.node.agentById('plain').tool('fresh_tool', { description: 'New.' }, () => 'x');
    const changed = await fetch(`${served.url}/.well-known/agent-card.json`, { headers });
    expect([changed.status, changed.headers.get('etag') === etag]).toEqual([200, false]);
    expect(
      createHash('sha256')
        .update(await changed.text())
        .digest('hex'),
    ).not.toBe(hash);
  });
});
