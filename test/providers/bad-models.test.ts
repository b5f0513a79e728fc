import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { A2AObservability } from '../../src/mesh/observability.js';
import type { ProviderAdapter } from '../../src/providers/adapter/adapter.js';
import { ProviderEvents } from '../../src/providers/adapter/events.js';
import type { ModelConfig } from '../../src/providers/model/model-adapter.js';
import { ProviderRegistry } from '../../src/providers/registry/registry.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { event, type Reply, type Script } from '../scripted-model.js';
import { fastRuntime, ModelWorld } from './model-world.js';
import { openFiles, until } from './processes.js';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Its timers are 100 times as fast once it has started. */
async function start(script: Script, config: Partial<ModelConfig> = {}, speed = 100) {
  const runtime = fastRuntime();
  const world = await ModelWorld.start(script, { config, runtime });
  cleanups.push(() => world.stop());
  runtime.speed = speed;
  return Object.assign(world, { clock: runtime });
}

const EVENTS = { 'content-type': 'text/event-stream' };
const stream =
  (write: (response: ServerResponse) => unknown): Reply =>
  (response) => {
    response.writeHead(200, EVENTS);
    response.flushHeaders();
    write(response);
  };
const word = (content: string) => event({ delta: { content } });
/** Writes for as long as the other side reads. */
function endlessly(text: string): Reply {
  return stream((response) => {
    const more = () => {
      while (!response.destroyed && response.write(text));
      if (!response.destroyed) response.once('drain', more);
    };
    more();
  });
}
const call = (name: string, args: unknown): Reply => ({ calls: [[name, args]] });
const refusal = (status: number, headers: Record<string, string> = {}): Reply => ({
  status,
  headers,
  body: `{"error":{"message":"no: ${status}"}}`,
});

interface Case {
  readonly what: string;
  readonly reply: Reply;
  readonly code: string;
  readonly says: RegExp;
  /** Requests that the endpoint gets. */
  readonly asks?: number;
  /** Silence that is allowed, in milliseconds of a clock that is 100 times as fast. */
  readonly silenceMs?: number;
}

const BROKEN = { code: 'PROVIDER_CRASHED', asks: 3 };
const CASES: readonly Case[] = [
  { what: '401', reply: refusal(401), code: 'PROVIDER_CREDENTIAL_MISSING', says: /HTTP 401: no: 401/, asks: 1 },
  { what: '403', reply: refusal(403), code: 'PROVIDER_CREDENTIAL_DENIED', says: /HTTP 403/, asks: 1 },
  { what: '404', reply: refusal(404), code: 'PROVIDER_UNAVAILABLE', says: /not serve model "test-model"/, asks: 1 },
  { what: 'endless 429', reply: refusal(429), code: 'PROVIDER_RATE_LIMITED', says: /429/, asks: 6 },
  {
    what: 'endless 429 with Retry-After',
    reply: refusal(429, { 'retry-after': '20' }),
    ...{ code: 'PROVIDER_RATE_LIMITED', says: /429/, asks: 6 },
  },
  {
    what: '429 with a long Retry-After',
    reply: refusal(429, { 'retry-after': '3600' }),
    ...{ code: 'PROVIDER_RATE_LIMITED', says: /429/, asks: 1 },
  },
  {
    what: '429 until a distant date',
    reply: refusal(429, { 'retry-after': 'Fri, 01 Jan 2100 00:00:00 GMT' }),
    ...{ code: 'PROVIDER_RATE_LIMITED', says: /429/, asks: 1 },
  },
  { what: 'endless 500', reply: refusal(500), code: 'PROVIDER_EXECUTE_FAILED', says: /HTTP 500/, asks: 3 },
  { what: 'endless 503', reply: refusal(503), code: 'PROVIDER_UNAVAILABLE', says: /HTTP 503/, asks: 3 },
  {
    what: 'an error of 1 MB',
    reply: { status: 400, body: 'x'.repeat(1_000_000) },
    ...{ code: 'PROVIDER_INVALID_INPUT', says: /^.{100,700}$/ },
  },
  {
    what: 'HTML',
    reply: { status: 200, headers: { 'content-type': 'text/html' }, body: '<html><body>Welcome' },
    ...{ code: 'PROVIDER_PROTOCOL_MISMATCH', says: /it sent no events/, asks: 1 },
  },
  {
    what: 'invalid JSON',
    reply: { status: 200, body: '{"choices":[' },
    ...{ code: 'PROVIDER_PROTOCOL_MISMATCH', says: /is no JSON/ },
  },
  {
    what: 'events that are no JSON',
    reply: stream((response) => response.end('data: hello\n\n')),
    ...{ code: 'PROVIDER_PROTOCOL_MISMATCH', says: /is no JSON/ },
  },
  {
    what: 'events that are no objects',
    reply: stream((response) => response.end('data: [1]\n\n')),
    ...{ code: 'PROVIDER_PROTOCOL_MISMATCH', says: /is no object/ },
  },
  {
    what: 'an empty stream',
    reply: stream((response) => response.end()),
    ...{ code: 'PROVIDER_PROTOCOL_MISMATCH', says: /it sent no events/ },
  },
  {
    what: 'an error in the stream',
    reply: stream((response) => response.end(`${word('a')}data: {"error":{"message":"out of memory","code":502}}\n\n`)),
    ...{ code: 'PROVIDER_UNAVAILABLE', says: /reports: out of memory/ },
  },
  { what: 'half a stream', reply: stream((response) => response.end(word('half'))), ...BROKEN, says: /broke off/ },
  {
    what: 'a connection that is reset within a stream',
    reply: stream((response) => response.write(word('half'), () => response.socket!.resetAndDestroy())),
    ...BROKEN,
    says: /ECONNRESET|ended|failed/,
  },
  {
    what: 'a connection that is reset before the answer',
    reply: (response) => void response.socket!.resetAndDestroy(),
    ...BROKEN,
    says: /ECONNRESET/,
  },
  {
    what: 'an endless stream of words',
    reply: endlessly(word('many words ').repeat(100)),
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /answer is longer than 524288/, asks: 1 },
  },
  {
    what: 'an endless stream of events without words',
    reply: endlessly(event({ delta: { reasoning_content: 'hm '.repeat(1_000) } })),
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /too large/, asks: 1 },
  },
  {
    what: 'an endless stream of nothing',
    reply: stream((response) => response.write(': hello\n\n')),
    ...{ code: 'PROVIDER_TIMEOUT', says: /./, asks: 1, silenceMs: 20_000 },
  },
  {
    what: 'headers that never come',
    reply: () => {},
    ...{ code: 'PROVIDER_TIMEOUT', says: /./, asks: 1, silenceMs: 20_000 },
  },
  {
    what: '1 MB of text',
    reply: 'x'.repeat(1_000_000),
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /answer is longer than 524288/, asks: 1 },
  },
  {
    what: '10 MB in one event',
    reply: stream((response) => response.end(word('x'.repeat(10_000_000)))),
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /too large/, asks: 1 },
  },
  {
    what: '1,000 tool calls in one answer',
    reply: { calls: Array.from({ length: 1_000 }, () => ['list_files', {}] as const) },
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /list of tool calls is longer than 64/, asks: 1 },
  },
  {
    what: '2 MB of tool arguments',
    reply: stream((response) => {
      const piece = { index: 0, id: 'a', function: { name: 'write_file', arguments: 'x'.repeat(100_000) } };
      for (let n = 0; n < 20; n++) response.write(event({ delta: { tool_calls: [piece] } }));
    }),
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /tool arguments is longer than 1048576/, asks: 1 },
  },
  {
    what: 'wrong tool arguments for ever',
    reply: call('read_file', { file: 'x' }),
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /called tools wrongly 9 times/, asks: 9 },
  },
  {
    what: 'unknown tools for ever',
    reply: call('sudo', {}),
    ...{ code: 'PROVIDER_EXECUTE_FAILED', says: /called tools wrongly 9 times/, asks: 9 },
  },
  {
    what: 'a redirect to another place',
    reply: { status: 302, headers: { location: 'http://169.254.169.254/latest' } },
    ...{ code: 'PROVIDER_POLICY_DENIED', says: /link-local/, asks: 1 },
  },
];

describe('a model endpoint that answers with', () => {
  it.each(CASES)('$what: a typed error in bounded time, and the next task succeeds [WK.M5]', async (bad) => {
    const { reply, code, says, asks, silenceMs = 120_000 } = bad;
    const world = await start(() => reply, { limits: { silenceMs } });
    const before = { memory: process.memoryUsage().rss, began: Date.now() };
    const error = await world.fails('do it');
    expect(error).toMatchObject({ code, message: expect.stringMatching(says) });
    if (asks !== undefined) expect(world.model.completions).toHaveLength(asks);
    expect(Date.now() - before.began).toBeLessThan(10_000);
    expect(process.memoryUsage().rss - before.memory).toBeLessThan(300 * 1_048_576);
    world.model.script = () => 'well again';
    world.clock.speed = 1;
    expect(await world.run('do it')).toBe('well again');
    expect(await world.adapter.health()).toMatchObject({ state: 'healthy' });
  });

  it('a failure once: the completion is repeated, and half an answer is replaced [WK.M5]', async () => {
    const half = stream((response) => response.end(word('half an')));
    const world = await start(
      (_, count) => [half, refusal(500), refusal(429, { 'retry-after': '1' })][count - 1] ?? 'whole',
    );
    expect(await world.run('do it')).toBe('whole');
    expect(world.updates.filter(({ kind }) => kind === 'text')).toEqual([
      { kind: 'text', text: 'half an' },
      { kind: 'text', text: 'whole', replaces: true },
    ]);
    expect(world.texts('progress')).toEqual([
      expect.stringMatching(/broke off.*trying again in 500 ms/),
      expect.stringMatching(/HTTP 500.*trying again in 1000 ms/),
      expect.stringMatching(/HTTP 429.*trying again in 2000 ms/),
    ]);
  });

  it('nothing at all: it is refused as unavailable, and works when it is back [WK.M5]', async () => {
    const world = await start(() => 'back');
    await world.model.stop();
    expect(await world.fails('do it')).toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    world.clock.speed = 1;
    await expect(world.adapter.health()).rejects.toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    await world.model.listen();
    expect(await world.run('do it')).toBe('back');
  });
});

describe('work of a model that is ended', () => {
  const silent = stream((response) => response.write(word('I begin')));

  it('by its caller or its deadline within a stream closes the connection [WK.M5]', async () => {
    const world = await start(() => silent, { limits: { executeMs: 30_000 } }, 100);
    const caller = new AbortController();
    const cancelled = world.fails('1', { signal: caller.signal });
    await until(() => world.texts('text').length === 1);
    caller.abort();
    expect(await cancelled).toMatchObject({ code: 'PROVIDER_CANCELLED' });
    expect(await world.fails('2')).toMatchObject({ code: 'PROVIDER_TIMEOUT', message: /within 30000 ms/ });
    await until(() => world.model.connections === 0);
    world.model.script = () => 'well';
    expect(await world.run('3')).toBe('well');
  });

  it('while it waits for a retry, a tool or an approval ends at once [WK.M5]', async () => {
    const world = await start(() => refusal(429, { 'retry-after': '50' }), {}, 1);
    world.node
      .agent({ id: 'venus' })
      .tool('hang', { annotations: { readOnlyHint: true } }, () => new Promise(() => {}));
    const ended = async (begun: () => boolean) => {
      const caller = new AbortController();
      const work = world.fails('x', { signal: caller.signal });
      await until(begun);
      caller.abort();
      expect(await work).toMatchObject({ code: 'PROVIDER_CANCELLED' });
    };
    await ended(() => world.texts('progress').length === 1);
    world.model.script = () => call('mesh_call', { tool: 'venus.hang' });
    await ended(() => world.texts('tool-call').length === 1);
    world.node.agentById('venus').tool('ask', {}, () => 'never');
    world.model.script = () => call('mesh_call', { tool: 'venus.ask' });
    await ended(() => world.approvals.waiting.length === 1);
    expect(world.approvals.waiting).toEqual([]);
    world.model.script = () => 'well';
    expect(await world.run('x')).toBe('well');
  });

  it('does not lose the time that its owner takes to decide, and tells its caller of it [AP.6]', async () => {
    const script: Script = ({ messages }) =>
      messages.at(-1)?.role === 'tool' ? 'well' : call('mesh_call', { tool: 'venus.ask' });
    const world = await start(script, { limits: { executeMs: 100_000 } });
    world.node.agent({ id: 'venus' }).tool('ask', {}, () => 'fine');
    const work = world.run('x');
    await until(() => world.approvals.waiting.length === 1);
    const waiting = () => world.updates.filter(({ kind }) => kind === 'waiting').map(({ data }) => data);
    expect(waiting()).toEqual([1]);
    let isOver = false;
    world.clock.setTimer(() => (isOver = true), 300_000);
    await until(() => isOver);
    world.approvals.decide('allow-once', 'test', world.approvals.waiting[0]!.id);
    expect(await work).toBe('well');
    expect(waiting()).toEqual([1, 0]);
  });

  it('by the end of the provider, in a stream and at its start, leaves nothing open [WK.M5]', async () => {
    const world = await start(() => silent);
    const work = world.fails('1');
    await until(() => world.texts('text').length === 1);
    await world.adapter.terminate();
    expect(await work).toMatchObject({ code: 'PROVIDER_TERMINATED' });
    world.clock.speed = 1;
    const starting = world.adapter.init(world.config);
    await world.adapter.terminate();
    await expect(starting).rejects.toMatchObject({ code: 'PROVIDER_TERMINATED' });
    expect(await world.fails('2')).toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    await until(() => world.model.connections === 0);
  });
});

describe('many tasks of a model', () => {
  it('100 at once with 10 places all succeed, on few connections [WK.M5]', async () => {
    let [now, most] = [0, 0];
    const world = await start(
      async ({ messages }) => {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setTimeout(resolve, 5));
        now--;
        return messages.at(-1)!.role === 'tool' ? messages[1]!.content! : call('list_files', {});
      },
      {},
      1,
    );
    const runtime = systemRuntime();
    const registry = new ProviderRegistry({ runtime, events: new ProviderEvents(runtime, new A2AObservability()) });
    cleanups.push(() => registry.close());
    await registry.register(
      { id: 'mars', type: 'model', config: world.config, workspaceId: 'default', concurrencyLimit: 10 },
      world.adapter as ProviderAdapter,
    );
    const files = openFiles();
    const task = (n: number) => ({ text: `task ${n}.`, context: {}, payload: null, from: 'sun' });
    const run = (n: number) => registry.execute({ type: 'model' }, task(n), `c-${n}`);
    const all = await Promise.all(Array.from({ length: 100 }, (_, n) => run(n)));
    expect(all).toEqual(all.map((_, n) => `Task from sun:\ntask ${n}.`));
    expect(most).toBe(10);
    expect(world.model.opened).toBeLessThan(40);
    expect(openFiles()).toBeLessThan(files + 40);
  });

  it('a kept connection that ended meanwhile is replaced at once [WK.M5]', async () => {
    const world = await start(() => 'well', {}, 1);
    for (let n = 0; n < 20; n++) expect(await world.run('1')).toBe('well');
    expect(world.model.opened).toBeLessThan(6);
    world.model.script = (_, count) => (count === 21 ? (response) => void response.socket!.destroy() : 'well again');
    expect(await world.run('2')).toBe('well again');
    expect(world.texts('progress')).toEqual([]);
  });
});
