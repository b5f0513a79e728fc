import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, type WithTasksOptions } from '@modelcontextprotocol/ext-tasks/client';
import { afterEach, describe, expect, it } from 'vitest';
import type { Agent } from '../../src/agent/agent.js';
import type { Gateway } from '../../src/http/gateway.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import { MemoryStore } from '../../src/store/memory-store.js';

const REVISION = '2026-07-28';
const EXTENSION = 'io.modelcontextprotocol/tasks';
const KEY = 'io.modelcontextprotocol/';
const CAPABILITIES = { elicitation: { form: {} } };
const ERAS = ['modern', 'legacy'] as const;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Runs {
  begun: number;
  aborted: number;
}

/** A node with an agent whose tools take as long as the test wants. */
class Bench {
  readonly runs: Runs = { begun: 0, aborted: 0 };
  finish: (value: string) => void = () => {};

  readonly node: EclipticNode;
  readonly gateway: Gateway;
  readonly store: MemoryStore;

  private constructor(node: EclipticNode, gateway: Gateway, store: MemoryStore) {
    this.node = node;
    this.gateway = gateway;
    this.store = store;
  }

  static async start(store = new MemoryStore(), runs?: Runs): Promise<Bench> {
    const node = await createNode({ store });
    cleanups.push(() => node.stop());
    const bench = new Bench(node, await node.serve({ port: 0 }), store);
    if (runs) Object.assign(bench.runs, runs);
    bench.#offer(node.agent({ id: 'worker' }));
    return bench;
  }

  #offer(worker: Agent): void {
    worker.tool('wait', { description: 'Waits', tasks: 'optional' }, (_, call) => {
      this.runs.begun++;
      call.progress(1, 2);
      call.signal.addEventListener('abort', () => {
        this.runs.aborted++;
      });
      return new Promise((resolve) => {
        this.finish = resolve;
      });
    });
    worker.tool('ask', { description: 'Asks', tasks: 'required' }, (args, { answers, ask, state }) => {
      const { content } = (answers.which ?? {}) as { content?: { color?: string } };
      if (state === 'again' && content) return `${content.color} for ${(args as { who: string }).who}`;
      const requestedSchema = { type: 'object' as const, properties: { color: { type: 'string' as const } } };
      const request = { method: 'elicitation/create' as const, params: { message: 'Which color?', requestedSchema } };
      return content ? ask({ which: request }, 'again') : ask({ which: request });
    });
    worker.tool('open', { description: 'Asks without a state', tasks: 'required' }, (_, { answers, ask }) => {
      const requestedSchema = { type: 'object' as const, properties: { ok: { type: 'boolean' as const } } };
      const request = { method: 'elicitation/create' as const, params: { message: 'Go on?', requestedSchema } };
      return answers.sure ? `sure: ${JSON.stringify(answers.sure)}` : ask({ sure: request });
    });
  }

  get token(): string {
    return this.gateway.tokens.owners;
  }

  /** One request of 2026-07-28. */
  async ask(method: string, params: Record<string, unknown>, { token = this.token, extensions = true } = {}) {
    const clientCapabilities = { ...CAPABILITIES, ...(extensions && { extensions: { [EXTENSION]: {} } }) };
    const meta = { [`${KEY}protocolVersion`]: REVISION, [`${KEY}clientCapabilities`]: clientCapabilities };
    const response = await fetch(this.gateway.mcpUrl, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        'MCP-Protocol-Version': REVISION,
        'Mcp-Method': method,
        'Mcp-Name': String(params.name ?? params.taskId),
        Authorization: `Bearer ${token}`,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }),
    });
    const text = await response.text();
    // An answer may come as the only event of a stream.
    const json = text.startsWith('{') ? text : text.slice(text.indexOf('data: ') + 6);
    return JSON.parse(json) as { result?: Record<string, unknown>; error?: { code: number; message: string } };
  }

  /** The session of the official client for tasks. */
  async session(era: (typeof ERAS)[number], onInputRequest?: WithTasksOptions['onInputRequest']) {
    const mode = era === 'modern' ? { pin: REVISION } : 'legacy';
    const clientInfo = { name: 'test', version: '1' };
    const client = new Client(clientInfo, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
    const requestInit = { headers: { Authorization: `Bearer ${this.token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(this.gateway.mcpUrl), { requestInit }));
    cleanups.push(() => client.close());
    const { tools } = await client.listTools();
    const session = createTaskSessionFromClient(client, {
      endpointId: 'node',
      ...(onInputRequest && { onInputRequest }),
      tools: { currentTool: (name) => declared(tools.find((tool) => tool.name === name)) },
      ...(era === 'modern' && {
        v2RequestFraming: { protocolVersion: REVISION, clientInfo, clientCapabilities: CAPABILITIES },
        rawDispatch: async (request: unknown) => {
          const { method, params } = request as { method: string; params: Record<string, unknown> };
          const { result, error } = await this.ask(method, params);
          return error ? { kind: 'error', error } : { kind: 'result', result };
        },
      }),
    } as Parameters<typeof createTaskSessionFromClient>[1]);
    cleanups.push(() => session.close());
    return session;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a tool of the SDK, as the package for tasks wants it
function declared(tool: any) {
  return tool && { ...tool, taskSupport: tool.execution?.taskSupport };
}

describe.each(ERAS)('a tool call as a task, with the official client of the %s era', (era) => {
  it('is followed to its result [MT.1]', async () => {
    const bench = await Bench.start();
    const session = await bench.session(era);
    const execution = await session.callTool('worker__wait', {}, { task: { preference: 'prefer' } });
    expect(execution.kind).toBe('task');
    const seen: unknown[] = [];
    const settled = execution.settle({
      onEvent: (event) => {
        if (event.type === 'task') seen.push(event.task.statusMessage);
        if (event.type === 'task' && event.task.statusMessage) bench.finish('done at last');
      },
    });
    const { outcome } = await settled;
    expect(outcome).toMatchObject({
      status: 'completed',
      result: { content: [{ type: 'text', text: 'done at last' }] },
    });
    expect(seen).toContain('1 of 2');
  });

  it('asks its caller, as often as the tool needs [MT.2]', async () => {
    const bench = await Bench.start();
    const colors = ['red', 'green'];
    const asked: unknown[] = [];
    const session = await bench.session(era, async (request) => {
      asked.push(request.params?.message);
      return { action: 'accept', content: { color: colors.shift()! } } as never;
    });
    const execution = await session.callTool('worker__ask', { who: 'mars' });
    const { outcome } = await execution.settle();
    expect(outcome).toMatchObject({ status: 'completed', result: { content: [{ text: 'green for mars' }] } });
    expect(asked).toEqual(['Which color?', 'Which color?']);
  });

  it('is cancelled, and its handler is told [MT.3]', async () => {
    const bench = await Bench.start();
    const session = await bench.session(era);
    const execution = await session.callTool('worker__wait', {}, { task: { preference: 'prefer' } });
    await execution.cancel();
    await expect(execution.settle()).resolves.toMatchObject({ outcome: { status: 'cancelled' } });
    expect(bench.runs).toEqual({ begun: 1, aborted: 1 });
  });
});

describe('a tool call as a task', () => {
  it('has failed after a crash, is not made again, and what had ended is still readable [MT.4]', async () => {
    const first = await Bench.start();
    const [ended, waiting] = [await begin(first, 'wait'), await begin(first, 'open')];
    first.finish('kept');
    await state(first, ended, 'completed');
    const lost = await begin(first, 'wait');
    await state(first, waiting, 'input_required');

    const second = await Bench.start(new MemoryStore(first.store.snapshot()), first.runs);
    const { token } = second;
    expect(await get(second, ended, token)).toMatchObject({
      status: 'completed',
      result: { content: [{ text: 'kept' }] },
    });
    const failed = await get(second, lost, token);
    expect(failed).toMatchObject({ status: 'failed', error: { data: { code: 'NODE_STOPPED', outcome: 'unknown' } } });
    expect(second.runs.begun).toBe(2);

    const { inputRequests } = await get(second, waiting, token);
    const inputResponses = Object.fromEntries(
      Object.keys(inputRequests as object).map((key) => [key, { action: 'accept', content: { ok: true } }]),
    );
    expect(await second.ask('tasks/update', { taskId: waiting, inputResponses })).toHaveProperty('result');
    expect(await state(second, waiting, 'completed')).toMatchObject({
      result: { content: [{ text: 'sure: {"action":"accept","content":{"ok":true}}' }] },
    });
  });

  it('has failed once its node was stopped, and says that it may have had effects [MT.4]', async () => {
    const first = await Bench.start();
    const id = await begin(first, 'wait');
    const { store } = first;
    const close = store.close.bind(store);
    let left: MemoryStore | undefined;
    store.close = async () => {
      left = new MemoryStore(store.snapshot());
      return close();
    };
    await first.node.stop();
    const second = await Bench.start(left);
    expect(await get(second, id, second.token)).toMatchObject({
      status: 'failed',
      error: { message: expect.stringMatching(/may have had effects/) },
    });
  });

  it('does not exist for other callers [MT.5]', async () => {
    const bench = await Bench.start();
    const { token } = await bench.gateway.tokens.create('other');
    const id = await begin(bench, 'wait');
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { error } = await bench.ask(method, { taskId: id, inputResponses: {} }, { token });
      expect([method, error?.code, error?.message]).toEqual([method, -32602, `there is no task "${id}"`]);
    }
    expect(await get(bench, id, bench.token)).toMatchObject({ status: 'working' });
    bench.finish('');
  });

  it('is one of at most 100 under way for a caller, who lists them in pages [MT.6]', async () => {
    const bench = await Bench.start();
    const begun: string[] = [];
    for (let number = 0; number < 100; number++) begun.push(await begin(bench, 'open'));
    const { result } = await bench.ask('tools/call', { name: 'worker__open', arguments: {} });
    expect(result).toMatchObject({
      isError: true,
      _meta: { 'ecliptic/error': { code: 'QUEUE_FULL', retryable: true } },
    });
    await bench.ask('tasks/cancel', { taskId: begun[0] });
    begun.push(await begin(bench, 'open'));

    const session = await bench.session('legacy');
    const first = await session.listTasks();
    const second = await session.listTasks(first.nextCursor);
    const ids = [...first.tasks, ...second.tasks].map(({ taskId }) => taskId);
    expect([first.tasks.length, ids, second.nextCursor]).toEqual([100, begun, undefined]);
  });

  it('is an ordinary call for agents, and for clients without tasks where the tool allows it [MT.7]', async () => {
    const bench = await Bench.start();
    const called = bench.ask('tools/call', { name: 'worker__wait', arguments: {} }, { extensions: false });
    await expect.poll(() => bench.runs.begun).toBe(1);
    bench.finish('at once');
    expect((await called).result).toMatchObject({ resultType: 'complete', content: [{ text: 'at once' }] });
    const refused = await bench.ask('tools/call', { name: 'worker__open', arguments: {} }, { extensions: false });
    expect(refused.error?.code).toBe(-32021);
    const sun = bench.node.agent({ id: 'sun' });
    const asked = sun.mcp.call('worker.wait', {});
    await expect.poll(() => bench.runs.begun).toBe(2);
    bench.finish('for an agent');
    expect((await asked).content).toEqual([{ type: 'text', text: 'for an agent' }]);
  });
});

async function begin(bench: Bench, tool: string): Promise<string> {
  const { result } = await bench.ask('tools/call', { name: `worker__${tool}`, arguments: {} });
  expect(result).toMatchObject({ resultType: 'task', status: 'working' });
  return String(result!.taskId);
}

async function get(bench: Bench, taskId: string, token: string): Promise<Record<string, unknown>> {
  const { result, error } = await bench.ask('tasks/get', { taskId }, { token });
  expect(error).toBeUndefined();
  return result!;
}

async function state(bench: Bench, taskId: string, status: string): Promise<Record<string, unknown>> {
  let task: Record<string, unknown> = {};
  await expect
    .poll(async () => {
      task = await get(bench, taskId, bench.token);
      return task.status;
    })
    .toBe(status);
  return task;
}
