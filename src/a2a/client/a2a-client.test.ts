import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ForeignServer, ForeignServers } from '../../../test/foreign-servers.js';
import { HurriedRuntime } from '../../../test/hurried-runtime.js';
import { ExternalServiceError } from '../protocol/errors.js';
import { EXTENSION_URIS } from '../protocol/headers.js';
import type { AgentCard, StreamResponse } from '../protocol/types.js';
import { encodeSse } from '../server/event-stream.js';
import { A2AClient } from './a2a-client.js';
import { CardSource } from './card-source.js';
import type { A2AClientInit } from './client-init.js';

/** One call of a remote agent: what it was asked, and the ways to answer. */
interface Call {
  readonly method: string;
  readonly params: Record<string, never>;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  result(value: unknown): void;
  error(code: number, message: string, data?: unknown): void;
  /** Begins or goes on with a stream. */
  event(value: unknown, id?: string): void;
}

const WORKING = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } };
const DONE = { ...WORKING, status: { state: 'TASK_STATE_COMPLETED' } };

const servers = new ForeignServers();
const clients: A2AClient[] = [];
let runtime: HurriedRuntime;

beforeEach(() => {
  runtime = new HurriedRuntime(20);
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await servers.close();
});

describe('an agent’s answer', () => {
  it.each([
    ['is not JSON', ({ response }: Call) => response.end('<html>')],
    ['is no object', ({ response }: Call) => response.end('[]')],
    ['answers something else', ({ response }: Call) => response.end('{"jsonrpc":"2.0","id":"x","result":{}}')],
    ['is neither a result nor an error', ({ request: _, response }: Call) => response.end('{"jsonrpc":"2.0"}')],
    ['is no task', ({ result }: Call) => result({})],
    ['has no such state', ({ result }: Call) => result({ ...DONE, status: { state: 'DANCING' } })],
    ['has an id that is a number', ({ result }: Call) => result({ ...DONE, id: 7 })],
    [
      'has parts without content',
      ({ result }: Call) => result({ ...DONE, artifacts: [{ artifactId: 'a', parts: [{}] }] }),
    ],
  ])('that %s is not taken', async (_, answer) => {
    const { client } = await agent(answer);
    await expect(client.getTask('t')).rejects.toMatchObject({ code: 'INVALID_AGENT_RESPONSE' });
  });

  it.each([
    ['by its number', -32001, undefined, 'TASK_NOT_FOUND'],
    ['by its number', -32009, undefined, 'VERSION_NOT_SUPPORTED'],
    ['by its reason', -32000, info('TASK_NOT_CANCELABLE', 'a2a-protocol.org'), 'TASK_NOT_CANCELABLE'],
    ['by a reason of ours', -32603, info('QUEUE_FULL', 'ecliptic'), 'QUEUE_FULL'],
    ['by nothing', -32000, info('QUEUE_FULL', 'elsewhere.example'), 'REMOTE_FAILED'],
    ['by nothing', -31999, { text: 'task not found' }, 'REMOTE_FAILED'],
  ])('that is an error is known %s, never by its words: %i %j', async (_, number, data, code) => {
    const { client } = await agent(({ error }) => error(number, 'Task not found, TASK_NOT_FOUND', data));
    const thrown = await client.getTask('t').catch((error) => error);
    expect(thrown).toBeInstanceOf(ExternalServiceError);
    expect(thrown).toMatchObject({ code, details: { rpc: number } });
  });

  it.each([
    [401, 'TOKEN_REQUIRED'],
    [413, 'PAYLOAD_TOO_LARGE'],
    [429, 'REMOTE_BUSY'],
    [503, 'REMOTE_BUSY'],
    [500, 'REMOTE_FAILED'],
    [302, 'REMOTE_FAILED'],
  ])('of HTTP %i is %s', async (status, code) => {
    const { client } = await agent(({ response }) => response.writeHead(status, { 'retry-after': '7' }).end('no'));
    await expect(client.getTask('t')).rejects.toMatchObject({ code, status, details: { retryAfterMs: 7_000 } });
  });

  it('is not followed elsewhere', async () => {
    const other = await servers.http((_, response) => response.end());
    const { client } = await agent(({ response }) => response.writeHead(307, { location: other.origin }).end());
    await expect(client.send({ message: 'x' })).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    expect(other.requests).toHaveLength(0);
  });

  it('that is too large is not read', async () => {
    const { client } = await agent(({ response }) => {
      const piece = Buffer.alloc(1_048_576, 0x20);
      const pour = () => void (response.write(piece) ? setImmediate(pour) : response.once('drain', pour));
      pour();
    });
    await expect(client.getTask('t')).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
  });

  it('that drips is not waited for', async () => {
    const { client } = await agent(({ response }) => {
      const drip = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(drip));
    });
    await expect(client.getTask('t')).rejects.toMatchObject({ code: /FETCH_TIMEOUT|REQUEST_TIMEOUT/ });
  });
});

describe('a stream', () => {
  it.each([
    ['of another task', [{ task: WORKING }, { task: { ...DONE, id: 'other' } }]],
    ['with two things at once', [{ task: WORKING, message: {} }]],
    ['with nothing', []],
  ])('%s is not taken', async (_, events) => {
    const { client } = await agent(({ event, response }) => {
      for (const one of events) event(one);
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end();
    }, streaming());
    await expect(collect(client.stream({ message: 'x' }))).rejects.toMatchObject({ code: 'INVALID_AGENT_RESPONSE' });
  });

  it('ends with its task, whatever is said after that', async () => {
    const { client } = await agent(({ event }) => {
      event({ task: DONE });
      event({ task: WORKING });
    }, streaming());
    expect(await collect(client.stream({ message: 'x' }))).toEqual([{ task: DONE }]);
  });

  it('may be one answer, and may begin with an update', async () => {
    const single = await agent(({ result }) => result({ task: DONE }), streaming());
    expect(await collect(single.client.stream({ message: 'x' }))).toEqual([{ task: DONE }]);
    const statusUpdate = { taskId: 't', contextId: 'c', status: { state: 'TASK_STATE_FAILED' } };
    const early = await agent(({ event }) => event({ statusUpdate }), streaming());
    expect(await collect(early.client.stream({ message: 'x' }))).toEqual([{ statusUpdate }]);
  });

  it('that breaks is resumed by subscription, or by polling', async () => {
    for (const [known, last] of [
      [true, 'SubscribeToTask'],
      [false, 'GetTask'],
    ] as const) {
      const asked: string[] = [];
      const { client } = await agent(({ method, event, result, error, response }) => {
        asked.push(method);
        if (method === 'SendStreamingMessage') {
          event({ task: WORKING }, 't:1');
          setTimeout(() => response.destroy(), 20);
        } else if (method === 'SubscribeToTask' && known) event({ task: DONE });
        else if (method === 'SubscribeToTask') error(-32601, 'what?');
        else result(DONE);
      }, streaming());
      expect(await collect(client.stream({ message: 'x' }))).toEqual([{ task: WORKING }, { task: DONE }]);
      expect([asked[0], asked.at(-1)]).toEqual(['SendStreamingMessage', last]);
    }
  });

  it('sends Last-Event-ID only to agents that support it', async () => {
    for (const extensions of [[EXTENSION_URIS.resume], []]) {
      const ids: unknown[] = [];
      const { client } = await agent(({ method, request, event, response }) => {
        ids.push(request.headers['last-event-id']);
        if (method === 'SubscribeToTask') return event({ task: DONE });
        event({ task: WORKING }, 't:1');
        setTimeout(() => response.destroy(), 20);
      }, streaming(extensions));
      await collect(client.stream({ message: 'x' }));
      expect(ids).toEqual([undefined, extensions.length > 0 ? 't:1' : undefined]);
    }
  });

  it('that ends too early again and again becomes questions', async () => {
    let questions = 0;
    const { client } = await agent(({ method, event, result, response }) => {
      if (method === 'GetTask') return result(++questions < 3 ? WORKING : DONE);
      event({ task: WORKING });
      response.end();
    }, streaming());
    expect(await collect(client.stream({ message: 'x' }))).toEqual([{ task: WORKING }, { task: DONE }]);
    expect(questions).toBe(3);
  });

  it('is subscribed to by POST, and by GET after a 405 [A2A-1.9.6]', async () => {
    const verbs: unknown[] = [];
    const { client } = await agent(
      ({ request, event, response }) => {
        verbs.push(request.method);
        if (request.method === 'GET') event({ task: DONE });
        else response.writeHead(405).end();
      },
      { ...streaming(), binding: 'HTTP+JSON' },
    );
    expect(await collect(client.subscribe('t'))).toEqual([{ task: DONE }]);
    expect(await collect(client.subscribe('t'))).toEqual([{ task: DONE }]);
    expect(verbs).toEqual(['POST', 'GET', 'GET']);
  });
});

describe('a send', () => {
  it('that may have arrived is not repeated', async () => {
    for (const capabilities of [{}, { streaming: true }]) {
      const { client, calls } = await agent(({ response }) => response.destroy(), { capabilities });
      await expect(collect(client.stream({ message: 'x' }))).rejects.toMatchObject({ code: 'FETCH_FAILED' });
      await expect(client.send({ message: 'x' })).rejects.toMatchObject({ code: 'FETCH_FAILED' });
      expect(calls).toHaveLength(2);
    }
  });

  it('is repeated with the same key where the agent takes both for one', async () => {
    const { client, calls } = await agent(
      ({ response, result }) => {
        if (calls.length % 2 === 1) response.destroy();
        else result({ task: DONE });
      },
      streaming([EXTENSION_URIS.idempotency]),
    );
    expect(await client.send({ message: 'x', messageId: 'm' })).toEqual({ task: DONE });
    expect(await collect(client.stream({ message: 'x', messageId: 'n' }))).toEqual([{ task: DONE }]);
    expect(calls.map(({ request }) => request.headers['idempotency-key'])).toEqual(['m', 'm', 'n', 'n']);
  });

  it('that certainly did not arrive is repeated', async () => {
    const gone = await servers.raw(() => {});
    const { client } = await agent(() => {}, { url: gone.origin });
    await servers.close();
    const { timers } = runtime;
    await expect(client.send({ message: 'x' })).rejects.toMatchObject({ code: 'FETCH_FAILED' });
    expect(timers.filter((ms) => ms === 250 || ms === 500)).toEqual([250, 500]);
  });

  it('is not sent to an agent that requires an unknown extension', async () => {
    const required = { capabilities: { extensions: [{ uri: 'urn:x', required: true }] } };
    await expect(agent(() => {}, required)).rejects.toMatchObject({
      code: 'EXTENSION_REQUIRED',
      details: { missing: ['urn:x'] },
    });
    const { client, calls } = await agent(({ result }) => result({ task: DONE }), required, { extensions: ['urn:x'] });
    await client.send({ message: 'x' });
    expect(calls[0]?.request.headers).toMatchObject({ 'a2a-extensions': 'urn:x', 'a2a-version': '1.0' });
  });

  it('is canceled by an agent that can be asked which task it made', async () => {
    const { client, calls } = await agent(
      ({ method, params, result }) => {
        const { returnImmediately } = (params.configuration ?? {}) as { returnImmediately?: boolean };
        if (method === 'CancelTask') result({ ...DONE, status: { state: 'TASK_STATE_CANCELED' } });
        else if (returnImmediately) result({ task: WORKING });
      },
      { capabilities: { extensions: [{ uri: EXTENSION_URIS.idempotency }] } },
    );
    await expect(client.send({ message: 'x' }, { timeoutMs: 10_000 })).rejects.toMatchObject({
      code: 'REQUEST_TIMEOUT',
    });
    expect(calls.map(({ method }) => method)).toEqual(['SendMessage', 'SendMessage', 'CancelTask']);
  });
});

describe('credentials', () => {
  it('goes to where the card is, and to no other place that the card names', async () => {
    const credentials = { bearer: 'secret', headers: { 'x-api-key': 'key' } };
    const near = await servers.http((_, response) => response.writeHead(401).end());
    const stray = await agent(() => {}, { url: near.origin }, { credentials });
    await expect(stray.client.getTask('t')).rejects.toMatchObject({ code: 'TOKEN_REQUIRED' });
    expect(near.requests[0]?.headers).not.toMatchObject({ authorization: expect.anything() });
    expect(near.requests[0]?.headers['x-api-key']).toBeUndefined();
    expect(stray.server.requests[0]?.headers).toMatchObject({ authorization: 'Bearer secret', 'x-api-key': 'key' });
    const meant = await agent(
      () => {},
      { url: near.origin },
      { credentials: { ...credentials, origins: [near.origin] } },
    );
    await expect(meant.client.getTask('t')).rejects.toMatchObject({ code: 'TOKEN_REQUIRED' });
    expect(near.requests[1]?.headers).toMatchObject({ authorization: 'Bearer secret' });
  });

  it('keeps cards apart', async () => {
    const cards = new CardSource(runtime);
    const server = await servers.http((request, response) => {
      response.end(JSON.stringify({ name: request.headers.authorization ?? 'public', version: '1' }));
    });
    const names = [];
    for (const bearer of ['a', undefined, 'b', 'a']) {
      names.push((await cards.fetch(server.origin, { allowPrivate: true, credentials: { bearer } })).card.name);
    }
    expect(names).toEqual(['Bearer a', 'public', 'Bearer b', 'Bearer a']);
    expect(server.requests).toHaveLength(3);
  });
});

describe('the card cache', () => {
  it('holds a limited number of cards and drops stale ones', async () => {
    runtime = new HurriedRuntime();
    const cards = new CardSource(runtime);
    const server = await servers.http((_, response) => response.end('{"name":"n","version":"1"}'));
    const fetch = (path: number) => cards.fetch(`${server.origin}/${path}`, { allowPrivate: true });
    for (let path = 0; path < 140; path++) await fetch(path);
    expect(cards.size).toBe(128);
    runtime.pass(300_000);
    await fetch(1_000);
    expect(cards.size).toBe(1);
  });

  it('goes on for the other callers when one gives up', async () => {
    const cards = new CardSource(runtime);
    const server = await servers.http((_, response) => {
      setTimeout(() => response.end('{"name":"n","version":"1"}'), 50);
    });
    const init = { url: server.origin, allowPrivate: true };
    const left = new AbortController();
    const first = A2AClient.connect({ runtime, cards }, init, { signal: left.signal });
    const second = A2AClient.connect({ runtime, cards }, init);
    left.abort();
    await expect(first).rejects.toMatchObject({ code: 'CANCELLED' });
    clients.push(await second);
    expect(server.requests).toHaveLength(1);
  });
});

interface AgentSay {
  readonly capabilities?: AgentCard['capabilities'];
  readonly binding?: 'JSONRPC' | 'HTTP+JSON';
  /** Where its interface is, in place of where its card is. */
  readonly url?: string;
}

/** A remote agent that answers as it is told, and a client of it. */
async function agent(
  answer: (call: Call) => unknown,
  { capabilities = {}, binding = 'JSONRPC', url }: AgentSay = {},
  init: Partial<A2AClientInit> = {},
): Promise<{ client: A2AClient; server: ForeignServer; calls: Call[] }> {
  const calls: Call[] = [];
  const server: ForeignServer = await servers.http(async (request, response) => {
    if (request.url?.endsWith('agent-card.json')) {
      const supportedInterfaces = [
        { url: url ?? `${server.origin}/at`, protocolBinding: binding, protocolVersion: '1.0' },
      ];
      return void response.end(JSON.stringify({ name: 'Rogue', version: '1', capabilities, supportedInterfaces }));
    }
    const body = JSON.parse((await text(request)) || '{}');
    const wrap = (value: unknown) => (binding === 'JSONRPC' ? { jsonrpc: '2.0', id: body.id, result: value } : value);
    const call: Call = {
      method: body.method,
      params: body.params,
      request,
      response,
      result: (value) => response.end(JSON.stringify(wrap(value))),
      error: (code, message, data) =>
        response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, error: { code, message, data } })),
      event: (value, id) => {
        if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(encodeSse(JSON.stringify(wrap(value)), id));
      },
    };
    calls.push(call);
    answer(call);
  });
  const client = await A2AClient.connect({ runtime }, { url: server.origin, allowPrivate: true, ...init });
  clients.push(client);
  return { client, server, calls };
}

function streaming(uris: readonly string[] = []): { capabilities: AgentCard['capabilities'] } {
  return { capabilities: { streaming: true, extensions: uris.map((uri) => ({ uri })) } };
}

function info(reason: string, domain: string): unknown {
  return [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain }];
}

async function collect(events: AsyncIterable<StreamResponse>): Promise<StreamResponse[]> {
  const all: StreamResponse[] = [];
  for await (const event of events) all.push(event);
  return all;
}
