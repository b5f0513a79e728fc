import type { Client } from '@a2a-js/sdk/client';
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ForeignServers } from '../foreign-servers.js';
import { asEvent, asTask, clientAt, EdgeNodes, request, until } from './edge-nodes.js';
import { collect, eventsOf, kindOf, said, type TaskNode, type WireTask } from './task-node.js';

type EdgeNode = TaskNode & { readonly key: string };
type ListOf = { tasks: WireTask[]; nextPageToken: string; totalSize: number };

const servers = new ForeignServers();
const mesh = new EdgeNodes();
let one: EdgeNode;
let two: EdgeNode;
let three: EdgeNode;
let hooks: { place: string; origin: string };
const hooked: { path: string | undefined; body: string }[] = [];
/** The official client at the first and at the second node. */
let atOne: Client;
let atTwo: Client;

beforeAll(async () => {
  hooks = await servers.http((incoming, response) => {
    let body = '';
    incoming.on('data', (chunk) => {
      body += chunk;
    });
    incoming.on('end', () => {
      hooked.push({ path: incoming.url, body });
      response.end();
    });
  });
  one = await mesh.add({ grpc: { port: 0 } });
  two = await mesh.add({ allowPrivate: [hooks.place] });
  three = await mesh.add();
  [atOne, atTwo] = [await clientAt(one), await clientAt(two)];
});

afterAll(async () => {
  await mesh.stopAll();
  await servers.close();
});

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const reasonOf = async (node: TaskNode, method: string, params: unknown, headers = {}) =>
  (await node.rpc(method, params, headers)).error?.data[0]?.reason;

describe('any node of the owner', () => {
  it('answers for a task of another: get, cancel, and an unknown id [EG.1] [EG.2]', async () => {
    const sent = asTask(await atTwo.sendMessage(request('cancel me', 'slow', {}, { returnImmediately: true })));
    expect(sent.id).toMatch(new RegExp(`^[0-9A-Z]{26}\\.${two.key}$`));
    const { task: held } = await two.begun('cancel me');
    const known = asTask(await atOne.getTask({ tenant: '', id: sent.id }));
    expect(known).toMatchObject({ id: sent.id, contextId: sent.contextId });
    const canceled = asTask(await atOne.cancelTask({ tenant: '', id: sent.id, metadata: undefined }));
    expect(canceled).toMatchObject({ id: sent.id, status: { state: 'TASK_STATE_CANCELED' } });
    await until(() => held.signal.aborted);
    await expect(atOne.cancelTask({ tenant: '', id: sent.id, metadata: undefined })).resolves.toBeDefined();
    const unknown = `01M7QBG5PGA3SZH1TRX51JNPQ8.${two.key}`;
    await expect(atOne.getTask({ tenant: '', id: unknown })).rejects.toThrow(/no task/);
    expect(await reasonOf(one, 'GetTask', { id: unknown })).toBe('TASK_NOT_FOUND');
    expect(await reasonOf(one, 'GetTask', { id: `X.${'ab'.repeat(32)}` })).toBe('TASK_NOT_FOUND');
  });

  it('answers at every node for the task of an agent on a third [EG.2]', async () => {
    const agent = `echo@${three.key}`;
    const sent = asTask(await atOne.sendMessage(request('hello', agent)));
    expect([sent.status.state, sent.id.endsWith(one.key)]).toEqual(['TASK_STATE_COMPLETED', true]);
    for (const node of [one, two, three]) {
      const task = asTask(await (await clientAt(node)).getTask({ tenant: '', id: sent.id }));
      expect(task.artifacts?.[0]?.parts).toEqual([{ text: 'you said hello' }]);
    }
  });

  it('continues a task of another that waits for its caller [EG.2]', async () => {
    const asked = asTask(await atTwo.sendMessage(request('go', 'asker')));
    expect(asked.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    const { id: taskId, contextId } = asked;
    const task = asTask(await atOne.sendMessage(request('that', '', { taskId, contextId })));
    expect([task.id, task.status.state]).toEqual([asked.id, 'TASK_STATE_COMPLETED']);
    expect(task.artifacts?.[0]?.parts).toEqual([{ text: 'ok: that' }]);
  });

  it('answers over the simple interface [EG.2]', async () => {
    const id = await two.hold('simple');
    const answer = await one.get(`/a2a/tasks/${id}`);
    expect([answer.status, await answer.json()]).toMatchObject([200, { id, state: 'working' }]);
    const unknown = await one.get(`/a2a/tasks/01M7QBG5PGA3SZH1TRX51JNPQ8.${two.key}`);
    expect([unknown.status, await unknown.json()]).toMatchObject([404, { code: 'TASK_NOT_FOUND' }]);
  });

  it('streams a task of another to its end, and resumes the stream without a gap [EG.3]', async () => {
    const id = await two.hold('follow');
    const stream = atOne.resubscribeTask({ tenant: '', id });
    expect(asEvent((await stream.next()).value as never).task?.id).toBe(id);
    const answer = await one.post('/a2a/rpc', { jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id } });
    const raw = eventsOf(answer);
    await raw.next();
    const { task, finish } = await two.begun('follow');
    task.artifact('part 1');
    const last = (await raw.next()).value!;
    expect([kindOf(last), last.id?.startsWith(`${id}:`)]).toEqual(['artifact', true]);
    await raw.return(undefined);
    task.artifact('part 2');
    finish('done');
    const rest = (await collect(stream)).map(asEvent);
    expect(rest.at(-1)?.statusUpdate?.status.state).toBe('TASK_STATE_COMPLETED');
    expect(rest.filter(({ artifactUpdate }) => artifactUpdate)).toHaveLength(3);
    // From the event after the last one that was read, at a third node.
    const resumed = await three.post(
      '/a2a/rpc',
      { jsonrpc: '2.0', id: 2, method: 'SubscribeToTask', params: { id } },
      { 'Last-Event-ID': last.id! },
    );
    const missed = await collect(eventsOf(resumed));
    expect(missed.map(kindOf)).toEqual(['artifact', 'artifact', 'completed']);
    const numbers = [last, ...missed].map((event) => Number(event.id!.split(':').at(-1)));
    expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index));
  });

  it.each([
    ['HTTP+JSON', '1.0'],
    ['GRPC', '1.0'],
    ['JSONRPC', '0.3'],
    ['HTTP+JSON', '0.3'],
  ])('answers for a task of another over %s in %s [EG.2] [EG.3]', async (binding, version) => {
    const client = await clientAt(one, binding, version);
    const text = `over ${binding} ${version}`;
    const id = await two.hold(text);
    expect(asTask(await client.getTask({ tenant: '', id }))).toMatchObject({ id });
    const stream = client.resubscribeTask({ tenant: '', id });
    expect(asEvent((await stream.next()).value!).task?.id).toBe(id);
    (await two.begun(text)).finish('done');
    const rest = (await collect(stream)).map(asEvent);
    expect(rest.at(-1)?.statusUpdate?.status.state).toBe('TASK_STATE_COMPLETED');
    const asked = (await two.result('SendMessage', { ...said('go'), tenant: 'asker' })).task;
    const { id: taskId, contextId } = asked;
    const task = asTask(await client.sendMessage(request('that', '', { taskId, contextId })));
    expect([task.id, task.status.state]).toEqual([taskId, 'TASK_STATE_COMPLETED']);
    await expect(client.getTask({ tenant: '', id: `nothing.${two.key}` })).rejects.toThrow(/no task|not found/i);
  });

  it('refuses headers that are too long for another node, and stays connected to it [EG.10]', async () => {
    const asked = (await two.result('SendMessage', { ...said('go'), tenant: 'asker' })).task;
    const params = said('that', { taskId: asked.id });
    const headers = { 'Idempotency-Key': 'k'.repeat(8_000) };
    expect(await reasonOf(one, 'SendMessage', params, headers)).toBe('INVALID_PARAMS');
    expect(one.node.network!.peers.reachable(two.key)).toBe(true);
    expect(await one.result<WireTask>('GetTask', { id: asked.id })).toMatchObject({ id: asked.id });
  });

  it('ends the work for a reader that has left [EG.3]', async () => {
    const id = await two.hold('leave');
    const answer = await one.post('/a2a/rpc', { jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id } });
    const events = eventsOf(answer);
    await events.next();
    await events.return(undefined);
    // The node of the task sends no more: the task itself goes on.
    (await two.begun('leave')).finish('done');
    await one.inState(id, 'TASK_STATE_COMPLETED');
  });

  it('configures webhooks for a task of another, which that node calls [EG.8]', async () => {
    const id = await two.hold('push');
    const url = `${hooks.origin}/from-two`;
    const config = { tenant: '', id: 'hook', taskId: id, url, token: 'secret', authentication: undefined };
    expect(await atOne.createTaskPushNotificationConfig(config)).toMatchObject({ taskId: id, url });
    const named = { tenant: '', taskId: id, id: 'hook' };
    expect(await atOne.getTaskPushNotificationConfig(named)).toMatchObject({ url });
    const list = (client: Client) =>
      client.listTaskPushNotificationConfig({ tenant: '', taskId: id, pageSize: 0, pageToken: '' });
    expect((await list(atOne)).configs.map((one) => one.id)).toEqual(['hook']);
    expect((await list(atTwo)).configs.map((one) => one.id)).toEqual(['hook']);
    (await two.begun('push')).finish('done');
    await until(() => hooked.some(({ path, body }) => path === '/from-two' && body.includes('TASK_STATE_COMPLETED')));
    await atOne.deleteTaskPushNotificationConfig(named);
    expect((await list(atTwo)).configs).toEqual([]);
  });

  it('passes on results that are larger than a frame between nodes [EG.10]', async () => {
    const text = 'é"'.repeat(150_000);
    const id = await two.hold('large');
    (await two.begun('large')).task.artifact(text);
    (await two.begun('large')).task.artifact(text);
    (await two.begun('large')).task.artifact(text);
    (await two.begun('large')).finish('done');
    await two.inState(id, 'TASK_STATE_COMPLETED');
    const { artifacts } = await one.result<WireTask>('GetTask', { id });
    expect(artifacts!.slice(0, 3).map(({ parts }) => parts[0]!.text === text)).toEqual([true, true, true]);
    const again = await one.post(
      '/a2a/rpc',
      { jsonrpc: '2.0', id: 2, method: 'SubscribeToTask', params: { id } },
      { 'Last-Event-ID': `${id}:0` },
    );
    const events = await collect(eventsOf(again));
    expect(events.filter((event) => kindOf(event) === 'artifact')).toHaveLength(4);
    expect(kindOf(events.at(-1)!)).toBe('completed');
  });

  it('gives tasks for a skill that it lacks to the node that has the fewest open ones [EG.12]', async () => {
    const began: string[] = [];
    const finish: (() => void)[] = [];
    for (const { node, key } of [two, three]) {
      node.agent({ id: 'mason', capabilities: ['lay bricks'] }).onTask(async () => {
        began.push(key);
        await new Promise<void>((resolve) => finish.push(resolve));
        return 'laid';
      });
    }
    await until(() => [two, three].every(({ key }) => one.node.registry.entry(`mason@${key}`) !== undefined));
    const ids: string[] = [];
    for (let sent = 1; sent <= 6; sent++) {
      const params = {
        ...said(`${sent}`),
        metadata: { skill: 'lay bricks' },
        configuration: { returnImmediately: true },
      };
      ids.push((await one.result<{ task: WireTask }>('SendMessage', params)).task.id);
      await until(() => began.length === sent);
    }
    for (const { key } of [two, three]) expect(began.filter((node) => node === key)).toHaveLength(3);
    for (const end of finish) end();
    const open = () => [two, three].map(({ key }) => one.node.registry.entry(`mason@${key}`)!.sending);
    await until(() => open().every((count) => count === 0));
    for (const id of ids)
      expect((await one.result<WireTask>('GetTask', { id })).status.state).toBe('TASK_STATE_COMPLETED');
  });

  it('lists and calls the tools of the whole mesh over MCP [EG.11]', async () => {
    const client = new McpClient({ name: 'test', version: '1' });
    const requestInit = { headers: bearer(one.owner) };
    await client.connect(new StreamableHTTPClientTransport(new URL(one.gateway.mcpUrl), { requestInit }));
    const { tools } = await client.listTools();
    const stars = tools.filter(({ name }) => name.includes('github_star_repo')).map(({ name }) => name);
    expect(stars).toHaveLength(3);
    for (const name of stars) expect(JSON.stringify(await client.callTool({ name }))).toContain('starred');
    await client.close();
  });
});

describe('a list of tasks', () => {
  const contextId = 'listed-everywhere';
  const page = (node: TaskNode, params: object = {}, headers = {}) =>
    node.result<ListOf>('ListTasks', { contextId, ...params }, headers);

  beforeAll(async () => {
    for (let index = 0; index < 12; index++) {
      const node = [one, two, three][index % 3]!;
      await node.result('SendMessage', { ...said(`${index}`, { contextId }), tenant: 'echo' });
    }
  });

  it('has the tasks of all nodes, latest first, the same at every node [EG.4]', async () => {
    const lists = await Promise.all([page(one), page(two), page(three)]);
    const ids = lists.map(({ tasks }) => tasks.map(({ id }) => id));
    expect(ids[0]).toHaveLength(12);
    expect([ids[1], ids[2]]).toEqual([ids[0], ids[0]]);
    expect(lists.map(({ totalSize, nextPageToken }) => [totalSize, nextPageToken])).toEqual(
      Array.from({ length: 3 }, () => [12, '']),
    );
    const times = lists[0]!.tasks.map(({ status }) => status.timestamp);
    expect(times).toEqual([...times].sort().reverse());
  });

  it('goes on at another node by its cursor, each task once [EG.4]', async () => {
    const seen: string[] = [];
    let pageToken = '';
    for (let turn = 0; turn === 0 || pageToken !== ''; turn++) {
      const filters = { historyLength: undefined, status: 0, statusTimestampAfter: undefined, includeArtifacts: false };
      const client = turn % 2 === 0 ? atOne : atTwo;
      const answer = await client.listTasks({ tenant: '', contextId, pageSize: 5, pageToken, ...filters });
      seen.push(...answer.tasks.map(({ id }) => id));
      pageToken = answer.nextPageToken;
      expect(answer.tasks.length).toBeLessThanOrEqual(5);
    }
    expect(seen).toEqual((await page(three)).tasks.map(({ id }) => id));
  });

  it('of one agent has its tasks, wherever they are kept, and none of its namesakes’ [EG.4]', async () => {
    const within = { contextId: 'by-agent' };
    const far = `echo@${three.key}`;
    await one.result('SendMessage', { ...said('far', within), tenant: far });
    await three.result('SendMessage', { ...said('near', within), tenant: 'echo' });
    await one.result('SendMessage', { ...said('namesake', within), tenant: 'echo' });
    const textsAt = async (node: TaskNode, tenant: string) => {
      const { tasks } = await page(node, { ...within, tenant });
      return tasks.map(({ history }) => history![0]!.parts[0]!.text).sort();
    };
    for (const node of [one, two, three]) expect(await textsAt(node, far)).toEqual(['far', 'near']);
    expect(await textsAt(three, 'echo')).toEqual(['far', 'near']);
    expect(await textsAt(one, 'echo')).toEqual(['namesake']);
  });

  it('shows a caller its own tasks only [EG.7]', async () => {
    const [alice, bob] = [two.token('lister'), one.token('other-lister')];
    const namesake = one.token('lister');
    await two.result('SendMessage', { ...said('mine', { contextId }), tenant: 'echo' }, bearer(alice));
    expect((await page(one, {}, bearer(bob))).tasks).toEqual([]);
    expect((await page(one, {}, bearer(namesake))).tasks).toHaveLength(1);
  });

  it('names the nodes whose tasks it lacks [EG.4] [EG.5]', async () => {
    const away = await mesh.add();
    const { key } = away;
    await away.result('SendMessage', { ...said('away', { contextId }), tenant: 'echo' });
    const first = await page(one, { pageSize: 4 });
    expect(first.totalSize).toBe(13);
    await mesh.stop(away);
    const began = performance.now();
    const answer = await one.get(`/a2a/v1/tasks?contextId=${contextId}&pageToken=${first.nextPageToken}`);
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(answer.headers.get('Ecliptic-Missing-Nodes')).toBe(`${key} PEER_UNREACHABLE`);
    // The cursor is a place in the order, so the rest of the list is complete without that node.
    const { tasks } = (await answer.json()) as ListOf;
    expect([...first.tasks, ...tasks].filter(({ id }) => !id.endsWith(key))).toHaveLength(12);
    one.node.network!.remove(key);
    const whole = await one.get(`/a2a/v1/tasks?contextId=${contextId}`);
    expect(whole.headers.get('Ecliptic-Missing-Nodes')).toBeNull();
  });
});

describe('a caller', () => {
  it('cannot see or change another caller’s task through another node [EG.7]', async () => {
    const [alice, mallory] = [two.token('alice'), one.token('mallory')];
    const id = await two.hold('alice’s', bearer(alice));
    const unknown = id.replace(/^.{4}/, '0000');
    const operations: [string, (id: string) => object][] = [
      ['GetTask', (id) => ({ id })],
      ['CancelTask', (id) => ({ id })],
      ['SubscribeToTask', (id) => ({ id })],
      ['SendMessage', (taskId) => said('me too', { taskId })],
      ['CreateTaskPushNotificationConfig', (taskId) => ({ taskId, url: `${hooks.origin}/stolen` })],
      ['ListTaskPushNotificationConfigs', (taskId) => ({ taskId })],
      ['GetTaskPushNotificationConfig', (taskId) => ({ taskId, id: 'x' })],
      ['DeleteTaskPushNotificationConfig', (taskId) => ({ taskId, id: 'x' })],
    ];
    for (const [method, params] of operations) {
      const real = (await one.rpc(method, params(id), bearer(mallory))).error!;
      const absent = (await one.rpc(method, params(unknown), bearer(mallory))).error!;
      expect([method, real.data[0]?.reason]).toEqual([method, 'TASK_NOT_FOUND']);
      expect(JSON.stringify(real).replaceAll(id, 'ID')).toBe(JSON.stringify(absent).replaceAll(unknown, 'ID'));
    }
    // The same name is the same caller at every device of the owner, but not in another sandbox.
    const same = one.token('alice');
    expect(await one.result<WireTask>('GetTask', { id }, bearer(same))).toMatchObject({ id });
    const { token: inSandbox } = three.gateway.tokens.create('alice', 'lab');
    expect(await reasonOf(three, 'GetTask', { id }, bearer(inSandbox))).toBe('TASK_NOT_FOUND');
    expect((await three.result<ListOf>('ListTasks', {}, bearer(inSandbox))).tasks).toEqual([]);
  });

  it('that has the name of an agent has its tasks at that agent’s node only [EG.7]', async () => {
    const agents = two.gateway.tokens.lend('echo', undefined);
    const id = await two.hold('agent’s own', bearer(agents));
    expect(await two.result<WireTask>('GetTask', { id }, bearer(agents))).toMatchObject({ id });
    const namesake = one.token('echo');
    expect(await reasonOf(one, 'GetTask', { id }, bearer(namesake))).toBe('TASK_NOT_FOUND');
    expect((await one.result<ListOf>('ListTasks', {}, bearer(namesake))).tasks).toEqual([]);
    // An agent of the one node, and an outside caller of the other.
    one.node.agent({ id: 'only-at-one' });
    const [agent, caller] = [one.gateway.tokens.lend('only-at-one', undefined), two.token('only-at-one')];
    for (const [at, its, other, others] of [
      [two, caller, one, agent],
      [one, agent, two, caller],
    ] as const) {
      const kept = (await at.result('SendMessage', { ...said('mine'), tenant: 'echo' }, bearer(its))).task;
      expect(await reasonOf(other, 'GetTask', { id: kept.id }, bearer(others))).toBe('TASK_NOT_FOUND');
      expect((await other.result<ListOf>('ListTasks', {}, bearer(others))).tasks.map(({ id }) => id)).not.toContain(
        kept.id,
      );
    }
  });
});

describe('a node that is away', () => {
  const others: TaskNode[] = [];
  afterEach(async () => {
    for (const node of others.splice(0)) await mesh.stop(node);
  });

  it('is a typed error within seconds for every operation, also for one under way [EG.5]', async () => {
    const away = await mesh.add();
    const id = await away.hold('unfinished');
    const asked = (await away.result('SendMessage', { ...said('go'), tenant: 'asker' })).task;
    const stream = atOne.resubscribeTask({ tenant: '', id });
    await stream.next();
    const ended = collect(stream).then(
      () => 'ended',
      () => 'broke off',
    );
    const began = performance.now();
    await mesh.stop(away);
    expect(await ended).toBeDefined();
    const url = `${hooks.origin}/none`;
    expect(
      await Promise.all([
        reasonOf(one, 'GetTask', { id }),
        reasonOf(one, 'CancelTask', { id }),
        reasonOf(one, 'SubscribeToTask', { id }),
        reasonOf(one, 'SendMessage', said('that', { taskId: asked.id })),
        reasonOf(one, 'CreateTaskPushNotificationConfig', { taskId: id, url }),
      ]),
    ).toEqual(Array.from({ length: 5 }, () => 'PEER_UNREACHABLE'));
    expect(performance.now() - began).toBeLessThan(6_000);
    const simple = await one.get(`/a2a/tasks/${id}`);
    expect(simple.status).toBe(504);
  });
});

describe('a member that is no device of the owner', () => {
  it('is refused, whatever it asks for, and finds no task at its own edge [EG.6]', async () => {
    const stranger = await mesh.add({ invite: {} });
    const id = await two.hold('secret');
    const ask = (operation: string, params: object) => {
      const question = { operation, params, caller: 'operator', sandbox: null };
      return stranger.node
        .network!.peers.sendConfirmed(two.key, JSON.stringify(['edge', 'ask', 1, question]))
        .catch((error: Error & { code: string }) => `${error.code} ${error.message}`);
    };
    const refusals = [
      await ask('GetTask', { id }),
      await ask('GetTask', { id: `nothing.${two.key}` }),
      await ask('ListTasks', {}),
      await ask('Nonsense', {}),
    ];
    expect(new Set(refusals).size).toBe(1);
    expect(refusals[0]).toMatch(/^NOT_GRANTED/);
    expect(await reasonOf(stranger, 'GetTask', { id })).toBe('TASK_NOT_FOUND');
    expect(await reasonOf(one, 'GetTask', { id: await stranger.hold('theirs') })).toBe('TASK_NOT_FOUND');
    expect((await stranger.result<ListOf>('ListTasks', {})).totalSize).toBe(1);
    await mesh.stop(stranger);
  });
});
