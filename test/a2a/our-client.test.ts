import { text as bodyText } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { A2AClient } from '../../src/a2a/client/a2a-client.js';
import type { A2AClientInit } from '../../src/a2a/client/client-init.js';
import { invokeRemoteAgent } from '../../src/a2a/client/remote-agents.js';
import { MESH_BINDING } from '../../src/a2a/mesh/mesh-protocol.js';
import { EXTENSION_URIS } from '../../src/a2a/protocol/headers.js';
import { textOf } from '../../src/a2a/protocol/simple.js';
import type { AgentCard, StreamResponse } from '../../src/a2a/protocol/types.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { ForeignServers } from '../foreign-servers.js';
import { HurriedRuntime } from '../hurried-runtime.js';
import { type CardProxy, cardProxy } from './card-proxy.js';
import { EdgeNodes } from './edge-nodes.js';
import { collect, type TaskNode } from './task-node.js';

const WAYS = [
  { binding: 'JSONRPC', version: '1.0' },
  { binding: 'HTTP+JSON', version: '1.0' },
  { binding: 'JSONRPC', version: '0.3' },
  { binding: 'HTTP+JSON', version: '0.3' },
  { binding: MESH_BINDING, version: '1.0' },
  { binding: 'GRPC', version: '1.0' },
] as const;

const servers = new ForeignServers();
const clients: A2AClient[] = [];
const nodes = new EdgeNodes();
let served: TaskNode;
/** A node of another owner in the same mesh. */
let front: TaskNode;
let runtime = new HurriedRuntime();

beforeAll(async () => {
  served = await nodes.add({ allowPrivate: ['127.0.0.1:9'], grpc: { port: 0 } });
  front = await nodes.add({ invite: {}, agents: false });
  for (const id of ['sun', 'lister']) front.node.agent({ id, tier: 3 });
});

afterAll(() => nodes.stopAll());

beforeEach(() => {
  runtime = new HurriedRuntime();
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await servers.close();
});

async function connect(url: string, init: Partial<A2AClientInit> = {}): Promise<A2AClient> {
  const credentials = { bearer: served.owner };
  const client = await A2AClient.connect({ runtime }, { url, credentials, allowPrivate: true, ...init });
  clients.push(client);
  return client;
}

/** Of an agent, or of the node itself. */
async function overMesh(agent: string, { agent: own, chain }: Partial<A2AClientInit>, as: string): Promise<A2AClient> {
  const client = await front.node.a2a(`${agent}@${served.node.key}`, {
    as,
    ...(own !== undefined && { agent: own }),
    ...(chain && { chain }),
  });
  clients.push(client);
  return client;
}

const agentCard = (agent: string) => `${served.url}/api/agents/${agent}/agent-card`;

describe.each(WAYS)('our client and our node over $binding in $version', ({ binding, version }) => {
  const old = version === '0.3';
  const way = `${binding} ${version}`;
  const isMesh = binding === MESH_BINDING;
  const isHttp = !isMesh && binding !== 'GRPC';
  const to = async (agent: string, init: Partial<A2AClientInit> = {}) =>
    binding === MESH_BINDING ? overMesh(agent, init, 'sun') : connect(agentCard(agent), { binding, version, ...init });
  const toNode = (init: Partial<A2AClientInit> = {}) =>
    binding === MESH_BINDING ? overMesh('', init, 'lister') : connect(served.url, { binding, version, ...init });
  /** Properties of HTTP. */
  const overHttp: Pick<typeof it, 'each'> & ((title: string, test: () => Promise<void>) => void) = !isHttp
    ? Object.assign(() => {}, { each: (() => () => {}) as unknown as (typeof it)['each'] })
    : it;

  it('speak that binding and that version', async () => {
    expect((await toNode()).chosen).toMatchObject({ binding, version });
  });

  it('send, wait, and get the task with its result [A2A-1.9.8]', async () => {
    const sent = await (await to('echo')).send({ message: 'hello' });
    expect(sent).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } });
    expect('task' in sent && sent.task.artifacts?.map(({ parts }) => textOf(parts))).toEqual(['you said hello']);
  });

  it('reply with a message alone', async () => {
    const client = await to('quick');
    expect(await client.send({ message: 'you' })).toMatchObject({ message: { parts: [{ text: 'hi you' }] } });
    expect(await collect(client.stream({ message: 'you' }))).toMatchObject([
      { message: { parts: [{ text: 'hi you' }] } },
    ]);
  });

  it('stream events as they happen [A2A-1.9.5]', async () => {
    const events = await collect((await to('writer')).stream({ message: 'a poem' }));
    expect(events[0]).toHaveProperty('task');
    const chunks = events.flatMap((event) =>
      'artifactUpdate' in event ? [textOf(event.artifactUpdate.artifact.parts)] : [],
    );
    expect(chunks).toEqual(['one ', 'two ', 'three']);
    expect(states(events).at(-1)).toBe('TASK_STATE_COMPLETED');
  });

  it('start a task without waiting, poll it, subscribe to it and cancel it', async () => {
    const client = await to('slow');
    const message = `${way} cancel`;
    const sent = await client.send({ message, configuration: { returnImmediately: true } });
    const { task } = sent as Extract<typeof sent, { task: unknown }>;
    const { task: held } = await served.begun(message);
    expect(await client.getTask(task.id)).toMatchObject({ id: task.id, contextId: task.contextId });
    const events: StreamResponse[] = [];
    const following = (async () => {
      for await (const event of client.subscribe(task.id)) events.push(event);
    })();
    await until(() => events.length > 0);
    expect(await client.cancelTask(task.id)).toMatchObject({ status: { state: 'TASK_STATE_CANCELED' } });
    expect(held.signal.aborted).toBe(true);
    await following;
    expect(events[0]).toHaveProperty('task');
    expect(states(events).at(-1)).toBe('TASK_STATE_CANCELED');
    await expect(client.getTask('nobody’s')).rejects.toMatchObject({
      code: 'TASK_NOT_FOUND',
      name: 'ExternalServiceError',
    });
  });

  it('relay a question of the agent and its answer [A2A-1.9.4]', async () => {
    const client = await to('asker');
    const events = await collect(client.stream({ message: 'choose' }));
    expect(states(events).at(-1)).toBe('TASK_STATE_INPUT_REQUIRED');
    const id = idIn(events);
    const sent = await client.send({ message: 'the red one', taskId: id });
    expect(sent).toMatchObject({ task: { id, status: { state: 'TASK_STATE_COMPLETED' } } });
    await expect(client.send({ message: 'again', taskId: id })).rejects.toMatchObject({
      code: 'OPERATION_NOT_SUPPORTED',
    });
  });

  it('report the reason of a failed or rejected task', async () => {
    expect(states(await collect((await to('broken')).stream({ message: 'x' }))).at(-1)).toBe('TASK_STATE_FAILED');
    expect(states(await collect((await to('choosy')).stream({ message: 'x' }))).at(-1)).toBe('TASK_STATE_REJECTED');
  });

  it.skipIf(old && binding === 'JSONRPC')('list tasks', async () => {
    const client = await toNode({
      credentials: { bearer: served.token(`lister-${way.replaceAll(/[^A-Z0-9]/g, '-')}`) },
    });
    const sent = await client.send({ message: 'x', skill: 'tooled.github_star_repo' });
    const { tasks, nextPageToken } = await client.listTasks({ status: 'TASK_STATE_COMPLETED', pageSize: 10 });
    expect([tasks.map(({ id }) => id), nextPageToken]).toEqual([['task' in sent && sent.task.id], '']);
  });

  it('store push configurations', async () => {
    const client = await to('slow');
    const message = `${way} push`;
    const sent = await client.send({ message, configuration: { returnImmediately: true } });
    const taskId = 'task' in sent ? sent.task.id : '';
    const made = await client.createPushConfig({ taskId, url: 'http://127.0.0.1:9/hook', token: 't' });
    expect(made).toMatchObject({ id: expect.any(String), url: 'http://127.0.0.1:9/hook' });
    expect(await client.getPushConfig(taskId, made.id!)).toMatchObject({ id: made.id, token: 't' });
    expect((await client.listPushConfigs(taskId)).configs).toHaveLength(1);
    await client.deletePushConfig(taskId, made.id!);
    await client.deletePushConfig(taskId, made.id!);
    expect((await client.listPushConfigs(taskId)).configs).toHaveLength(0);
    await client.cancelTask(taskId);
  });

  it('have an extended card for authenticated callers', async () => {
    expect(await (await toNode()).extendedCard()).toMatchObject({ name: 'Ecliptic' });
  });

  it('cancel the work at the time limit, or when its caller leaves', async () => {
    const client = await to('slow');
    for (const [message, call] of [
      [`${way} late`, (text: string) => collect(client.stream({ message: text }, { timeoutMs: 300 }))],
      [`${way} late send`, (text: string) => client.send({ message: text }, { timeoutMs: 300 })],
    ] as const) {
      await expect(call(message)).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT', message: 'Timed out after 300ms' });
      expect((await served.begun(message)).task.signal.aborted).toBe(true);
    }
    const left = new AbortController();
    const events = client.stream({ message: `${way} left` }, { signal: left.signal });
    await events.next();
    const { task } = await served.begun(`${way} left`);
    left.abort();
    // Nobody reads any more, and yet.
    await until(() => task.signal.aborted);
    await expect(events.next().then(() => events.next())).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  it('leave a task running when its reader stops', async () => {
    const message = `${way} unread`;
    for await (const _ of (await to('slow')).stream({ message })) break;
    const held = await served.begun(message);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(held.task.signal.aborted).toBe(false);
    held.finish('x');
  });

  overHttp('refuse a caller without a valid token', async () => {
    const client = await toNode({ credentials: { bearer: 'ecl_wrong' } });
    await expect(client.send({ message: 'x' })).rejects.toMatchObject({
      code: 'TOKEN_REQUIRED',
      details: { status: 401 },
    });
  });

  it('pass the chain of callers on, and refuse circular delegation', async () => {
    const chain = ['venus@elsewhere'];
    const client = await to('echo', { agent: 'mars@here', chain });
    const sent = await client.send({ message: 'x' });
    expect('task' in sent && sent.task.metadata?.[EXTENSION_URIS.delegation]).toEqual([...chain, 'mars@here']);
    const circle = await to('echo', { agent: 'mars@here', chain: [served.node.agentById('echo').address] });
    await expect(circle.send({ message: 'x' })).rejects.toMatchObject({
      code: old && binding === 'JSONRPC' ? expect.any(String) : 'DELEGATION_REFUSED',
    });
    await expect(to('echo', { agent: 'a', chain: ['a'] })).rejects.toMatchObject({ code: 'DELEGATION_REFUSED' });
  });

  overHttp.each([
    ['where it was', (card: AgentCard) => card],
    ['from the task as it is by then', without(EXTENSION_URIS.resume)],
  ])('go on %s when the connection breaks', async (_, change) => {
    const proxy = await proxied(change, 'slow');
    const client = await connect(proxy.origin, binding === MESH_BINDING ? {} : { binding, version });
    const message = `${way} broken ${_}`;
    const events: StreamResponse[] = [];
    const reading = (async () => {
      for await (const event of client.stream({ message })) events.push(event);
    })();
    const { task, finish } = await served.begun(message);
    const artifact = task.artifact('one ', { name: 'n', lastChunk: false });
    await until(() => events.some((event) => 'artifactUpdate' in event));
    proxy.closed = true;
    proxy.cut();
    task.artifact('two ', { id: artifact, append: true, lastChunk: false });
    await new Promise((resolve) => setTimeout(resolve, 100));
    proxy.closed = false;
    await until(() => texts(events).includes('one two '));
    task.artifact('three', { id: artifact, append: true });
    finish();
    await reading;
    expect(texts(events)).toContain('one two three');
    expect(states(events).at(-1)).toBe('TASK_STATE_COMPLETED');
    expect(
      proxy.requests.filter(({ method, url }) => method === 'POST' && url?.includes('message:')).length,
    ).toBeLessThan(2);
  });
});

describe('our client', () => {
  it('chooses version 1.0, and then the first binding on the card', async () => {
    expect((await connect(served.url)).chosen).toMatchObject({ binding: 'JSONRPC', version: '1.0' });
    const only =
      (...kept: readonly string[]) =>
      (card: AgentCard): AgentCard => ({
        ...card,
        supportedInterfaces: card.supportedInterfaces.filter((one) =>
          kept.includes(`${one.protocolBinding} ${one.protocolVersion}`),
        ),
      });
    for (const [kept, binding, version] of [
      [['JSONRPC 0.3', 'HTTP+JSON 1.0'], 'HTTP+JSON', '1.0'],
      [['HTTP+JSON 0.3', 'JSONRPC 0.3'], 'JSONRPC', '0.3'],
      [['HTTP+JSON 0.3'], 'HTTP+JSON', '0.3'],
      [[], 'simple', undefined],
    ] as const) {
      const proxy = await proxied(only(...kept));
      const client = await connect(proxy.origin);
      expect(client.chosen).toMatchObject({ binding, ...(version && { version }) });
      const sent = await client.send({ message: `by ${binding}` });
      expect('task' in sent && sent.task.status.state).toBe('TASK_STATE_COMPLETED');
    }
  });

  it('polls every three seconds when an agent does not stream', async () => {
    const change = (card: AgentCard): AgentCard => ({ ...card, capabilities: { extensions: [] } });
    const proxy = await proxied(change, 'slow');
    runtime = new HurriedRuntime(20);
    const client = await connect(proxy.origin);
    const message = 'polled';
    const reading = collect(client.stream({ message }));
    const { task, finish } = await served.begun(message);
    task.artifact('half');
    await until(() => runtime.timers.filter((ms) => ms === 3_000).length > 2);
    finish();
    const events = await reading;
    expect(events.every((event) => 'task' in event)).toBe(true);
    expect(states(events).at(-1)).toBe('TASK_STATE_COMPLETED');
    // An unchanged task is not reported again.
    expect(new Set(events.map((event) => JSON.stringify(event))).size).toBe(events.length);
  });

  it('uses the simple routes for the functions of the specification, unless the card declares more', async () => {
    runtime = new HurriedRuntime(50);
    const options = { runtime, allowPrivate: true, token: served.owner };
    for (const change of [(card: AgentCard) => card, (card: AgentCard) => ({ ...card, supportedInterfaces: [] })]) {
      const proxy = await proxied(change);
      expect(await invokeRemoteAgent(proxy.origin, 'hello', options)).toEqual({
        success: true,
        taskId: expect.any(String),
        responseText: 'you said hello',
      });
    }
    const proxy = await proxied((card) => card, 'asker');
    const asked = await invokeRemoteAgent(proxy.origin, 'x', options);
    expect(asked).toMatchObject({ success: false, error: 'Input required: which one?' });
  });

  it('distinguishes valid from invalid signatures', async () => {
    expect(await (await connect(served.url)).verdict()).toMatchObject({ signed: true, verified: true });
    const altered = await proxied((card) => ({ ...card, name: 'Somebody' }));
    const verdict = await (await connect(altered.origin)).verdict();
    expect(verdict).toMatchObject({ signed: true, verified: false, reasons: [expect.any(String), expect.any(String)] });
    await expect(connect(altered.origin, { requireSignature: true })).rejects.toMatchObject({ code: 'CARD_REFUSED' });
    const unsigned = await proxied(({ signatures: _, ...card }) => card);
    expect(await (await connect(unsigned.origin)).verdict()).toEqual({ signed: false, verified: false, reasons: [] });
    await expect(connect(unsigned.origin, { requireSignature: true })).rejects.toMatchObject({ code: 'CARD_REFUSED' });
  });

  it('echoes a tenant exactly, and omits it when there is none [A2A-1.9.20]', async () => {
    const bodies: unknown[] = [];
    const paths: (string | undefined)[] = [];
    const agent = await servers.http(async (request, response) => {
      const base = `http://${request.headers.host}`;
      if (request.url?.includes('agent-card')) {
        const tenant = request.url.includes('tenant') ? { tenant: 'a b/ç' } : {};
        const at = (protocolBinding: string, url: string) => ({
          protocolBinding,
          protocolVersion: '1.0',
          url,
          ...tenant,
        });
        const supportedInterfaces = [at('JSONRPC', `${base}/rpc`), at('HTTP+JSON', `${base}/rest`)];
        return void response.end(JSON.stringify({ name: 'x', version: '1', supportedInterfaces }));
      }
      paths.push(request.url);
      const body = JSON.parse((await bodyText(request)) || '{}');
      bodies.push(body.params ?? body);
      const task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_COMPLETED' } };
      response.end(JSON.stringify(body.id === undefined ? task : { jsonrpc: '2.0', id: body.id, result: task }));
    });
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const) {
      for (const where of ['/tenant/agent-card.json', '/agent-card.json']) {
        await (await connect(agent.origin + where, { binding })).getTask('t');
      }
    }
    expect(bodies).toEqual([{ id: 't', tenant: 'a b/ç' }, { id: 't' }, {}, {}]);
    expect(paths.slice(2)).toEqual(['/rest/a%20b%2F%C3%A7/tasks/t', '/rest/tasks/t']);
  });
});

/** The node's card, or that of one of its agents, as another server would show it. */
function proxied(change?: (card: AgentCard) => AgentCard, agent?: string): Promise<CardProxy> {
  const path = agent === undefined ? '/.well-known/agent-card.json' : `/api/agents/${agent}/agent-card`;
  return cardProxy(servers, served.url, { path, token: served.owner }, change);
}

function without(uri: string): (card: AgentCard) => AgentCard {
  return (card) => {
    const extensions = (card.capabilities.extensions ?? []).filter((extension) => extension.uri !== uri);
    return { ...card, capabilities: { ...card.capabilities, extensions } };
  };
}

function states(events: readonly StreamResponse[]): string[] {
  return events.flatMap((event) => {
    if ('task' in event) return [event.task.status.state];
    return 'statusUpdate' in event ? [event.statusUpdate.status.state] : [];
  });
}

function idIn(events: readonly StreamResponse[]): string {
  const [first] = events;
  return first && 'task' in first ? first.task.id : '';
}

/** The artifact of a reader after each event. */
function texts(events: readonly StreamResponse[]): string[] {
  let text = '';
  return events.map((event) => {
    if ('artifactUpdate' in event) {
      const { artifact, append } = event.artifactUpdate;
      text = (append ? text : '') + textOf(artifact.parts);
    } else if ('task' in event && event.task.artifacts) text = textOf(event.task.artifacts[0]!.parts);
    return text;
  });
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const { stopwatch } = systemRuntime();
  const start = stopwatch();
  while (!(await holds())) {
    if (stopwatch() - start > 2_000) throw new Error('it did not happen');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
