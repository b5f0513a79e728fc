import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import { type AddressInfo, connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Agent } from '../agent/agent.js';
import type { A2ALogEvent } from '../mesh/schemas.js';
import { createNode, type EclipticNode, type NodeInit } from '../node/compose.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Gateway, GatewayInit } from './gateway.js';

const REVISION = '2026-07-28';
const KEY = 'io.modelcontextprotocol/';
const ERAS = ['legacy', 'modern'] as const;
type Era = (typeof ERAS)[number];

const cleanups: (() => unknown)[] = [];
/** Everything that went wrong where nobody was looking, and everything that was logged. */
const accidents: unknown[] = [];
const logged: unknown[] = [];
const noteAccident = (error: unknown) => {
  accidents.push(error);
};

beforeAll(() => {
  process.on('uncaughtException', noteAccident);
  process.on('unhandledRejection', noteAccident);
});

afterAll(() => {
  process.off('uncaughtException', noteAccident);
  process.off('unhandledRejection', noteAccident);
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  expect(accidents.splice(0)).toEqual([]);
});

describe('a caller', () => {
  it.each([
    ['a Host of somebody else', { host: 'evil.example' }],
    ['a Host that begins like this one', { host: '127.0.0.1.evil.example' }],
    ['a Host with a user before it', { host: 'evil@127.0.0.1' }],
    ['a Host with a path after it', { host: '127.0.0.1/x' }],
    ['an Origin with a user before it', { origin: 'http://evil@127.0.0.1' }],
    ['an Origin of somebody else', { origin: 'http://evil.example' }],
    ['an Origin that hides', { origin: 'null' }],
    ['an Origin that begins like this one', { origin: 'http://localhost.evil.example' }],
  ])('is refused with %s, token or not [MC6 T-D13]', async (_, headers) => {
    const { gateway } = await start();
    const answer = await raw(gateway, { headers: { ...bearer(gateway.tokens.owners), ...headers } });
    expect([answer.status, answer.json]).toEqual([
      403,
      { error: { code: 'HOST_REFUSED', message: expect.any(String) } },
    ]);
    expect((await raw(gateway, { path: '/health', headers })).status).toBe(403);
  });

  it('may ask for the health of the node by any name, as the supervisor of a container does', async () => {
    const { gateway } = await start();
    expect((await raw(gateway, { path: '/healthz', headers: { host: '10.1.2.3:3000' } })).status).toBe(200);
  });

  it('is refused with two Hosts, although the first is right [T-D13]', async () => {
    const { gateway } = await start();
    const { hostname, port, host } = new URL(gateway.url);
    const socket = connectSocket(Number(port), hostname);
    socket.end(`GET /health HTTP/1.1\r\nHost: ${host}\r\nhOST: evil.example\r\nConnection: close\r\n\r\n`);
    let answer = '';
    for await (const chunk of socket) answer += chunk;
    expect(answer).toMatch(/^HTTP\/1.1 403 /);
  });

  it('may name the node by any of its names [MC6]', async () => {
    const { gateway } = await start({ hosts: ['mesh.example'] });
    for (const host of ['127.0.0.1', 'localhost:1', '[::1]', 'MESH.example']) {
      expect((await raw(gateway, { path: '/health', headers: { host } })).status).toBe(200);
    }
    const page = { origin: 'http://localhost:5173' };
    expect((await raw(gateway, { path: '/health', headers: page })).status).toBe(200);
  });

  it.each([
    ['no token', {}],
    ['a made-up token', bearer('ecl_made-up')],
    ['an empty token', { authorization: 'Bearer ' }],
    ['another scheme', { authorization: 'Basic b3BlcmF0b3I6' }],
  ])('is refused with %s, and told how to come in [MC6]', async (_, headers) => {
    for (const open of [false, true]) {
      if (open && !('authorization' in headers)) continue;
      const { gateway } = await start({ open });
      for (const path of ['/mcp', '/metrics', '/nothing']) {
        const answer = await raw(gateway, { path, headers });
        expect(answer.status).toBe(401);
        expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
        expect(answer.json).toMatchObject({ error: { code: 'TOKEN_REQUIRED' } });
      }
    }
  });

  it('is let in by a token until it is revoked; only its hash is kept [MC6]', async () => {
    const folder = temporaryFolder();
    const { gateway } = await start({ folder });
    const { token, id } = gateway.tokens.create('alice');
    expect(await listTools(gateway, token)).toContain('mars__build');
    const file = join(folder, 'tokens.json');
    expect(readFileSync(file, 'utf8')).not.toContain(token);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    gateway.tokens.revoke(id);
    expect((await raw(gateway, { headers: bearer(token) })).status).toBe(401);
    expect(() => gateway.tokens.revoke(id)).toThrow(expect.objectContaining({ code: 'TOKEN_NOT_FOUND' }));
    for (const name of ['operator', 'guest', 'a b', '']) {
      expect(() => gateway.tokens.create(name)).toThrow(expect.objectContaining({ code: 'USAGE' }));
    }
  });

  it('is the owner by a token that outlives a restart and can be replaced, whatever the node’s key is [T-F14]', async () => {
    const folder = temporaryFolder();
    const { gateway, node } = await start({ folder });
    const before = gateway.tokens.owners;
    expect(statSync(join(folder, 'owner.token')).mode & 0o777).toBe(0o600);
    expect((await raw(gateway, { headers: bearer(before) })).status).not.toBe(401);
    const after = gateway.rotateOwners();
    expect(after).not.toBe(before);
    expect((await raw(gateway, { headers: bearer(before) })).status).toBe(401);
    expect((await raw(gateway, { headers: bearer(after) })).status).not.toBe(401);
    await node.stop();
    const again = await start({ folder });
    expect(again.gateway.tokens.owners).toBe(after);
    writeFileSync(join(folder, 'owner.token'), 'short');
    await again.node.stop();
    await expect(start({ folder })).rejects.toMatchObject({ code: 'DATA_FOLDER' });
  });

  it('cannot come over gRPC without TLS from another machine [T-G4]', async () => {
    await expect(start({ host: '0.0.0.0', grpc: { port: 0 } })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('sees and calls, with a sandboxed token, its subset only; each attempt is one security event [MC2]', async () => {
    const { gateway, node, security } = await start();
    node.agent({ id: 'rat', sandbox: 'lab' }).tool('squeak', {}, () => 'squeak');
    const { token } = gateway.tokens.create('ci', 'lab');
    expect(await listTools(gateway, token)).toEqual(['rat__squeak']);
    const hidden = await callTool(gateway, 'mars__build', {}, token);
    const unknown = await callTool(gateway, 'mars__never', {}, token);
    expect(JSON.stringify(hidden.json).replaceAll('build', 'never')).toBe(JSON.stringify(unknown.json));
    expect(security).toMatchObject([{ sender: 'ci', recipient: 'mars', code: 'SANDBOX_VIOLATION' }]);
    expect((await callTool(gateway, 'rat__squeak', {}, token)).json).toMatchObject({
      result: { content: [{ text: 'squeak' }] },
    });
  });

  it('is a guest of an open node, and an open node listens on loopback only [MC6]', async () => {
    const { gateway, mars, node } = await start({ open: true });
    mars.tool('who', {}, (_, call) => call.caller);
    expect((await callTool(gateway, 'mars__who', {}, undefined)).json).toMatchObject({
      result: { content: [{ text: 'guest' }] },
    });
    const other = await createNode();
    cleanups.push(() => other.stop());
    await expect(other.serve({ open: true, host: '0.0.0.0', port: 0 })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
    });
    await expect(node.serve({ port: 0 })).rejects.toMatchObject({ code: 'ADDRESS_UNUSABLE' });
  });

  it('finds the node at the next free port where the wanted one is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    cleanups.push(() => taken.close());
    const { port } = taken.address() as AddressInfo;
    const { gateway } = await start({ port });
    expect(Number(new URL(gateway.url).port)).toBeGreaterThan(port);
  });
});

describe('a request', () => {
  it('of more than 4 MiB is refused, said or not', async () => {
    const { gateway } = await start();
    const headers = bearer(gateway.tokens.owners);
    const said = await raw(gateway, { method: 'POST', headers: { ...headers, 'content-length': '5000000' }, body: '' });
    expect([said.status, said.json]).toMatchObject([413, { error: { code: 'PAYLOAD_TOO_LARGE' } }]);
    const chunked = await raw(gateway, { method: 'POST', headers, body: Buffer.alloc(4 * 1_048_576 + 1) });
    expect(chunked.status).toBe(413);
  });

  it('that is refused does not hold its connection with a body that never comes', async () => {
    const { gateway } = await start();
    const { port } = new URL(gateway.url);
    const socket = connectSocket(Number(port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{`);
    let said = '';
    socket.on('data', (chunk) => {
      said += chunk;
    });
    await once(socket, 'close');
    expect(said).toMatch(/^HTTP\/1.1 401 /);
  });

  it.each<[string, Record<string, string>, object]>([
    ['another name in its headers', { 'mcp-name': 'mars__other' }, {}],
    ['another method in its headers', { 'mcp-method': 'tools/list' }, {}],
    ['another version in its headers', { 'mcp-protocol-version': '2099-01-01' }, {}],
    ['another argument in its headers', { 'mcp-param-region': 'us' }, { region: 'eu' }],
  ])('with %s than in its body is refused [MC9]', async (_, headers, args) => {
    const { gateway, mars } = await start();
    let calls = 0;
    const region = { type: 'string', 'x-mcp-header': 'Region' };
    mars.tool('route', { inputSchema: { type: 'object', properties: { region } } }, () => ++calls);
    const answer = await callTool(gateway, 'mars__route', args, gateway.tokens.owners, { headers });
    expect([answer.status, calls]).toEqual([400, 0]);
    expect(answer.json).toMatchObject({ error: { code: expect.any(Number) } });
    const right = { 'mcp-param-region': 'eu' };
    const taken = await callTool(gateway, 'mars__route', { region: 'eu' }, gateway.tokens.owners, { headers: right });
    expect(taken.json).toMatchObject({ result: { content: [{ text: '1' }] } });
  });

  it('goes on from the state that it was given, and from no other [MC9]', async () => {
    const { gateway, mars } = await start();
    const question = {
      method: 'elicitation/create',
      params: { mode: 'form', message: '?', requestedSchema: { type: 'object', properties: {} } },
    };
    mars.tool('ask', {}, (_, call) =>
      call.state === undefined ? call.ask({ a: question as never }, 7) : String(call.state),
    );
    const owner = gateway.tokens.owners;
    const capabilities = { elicitation: { form: {} } };
    const first = await callTool(gateway, 'mars__ask', {}, owner, { capabilities });
    const { requestState } = (first.json as { result: { requestState: string } }).result;
    const inputResponses = { a: { action: 'accept', content: {} } };
    const again = (state: string, token = owner) =>
      callTool(gateway, 'mars__ask', {}, token, { capabilities, params: { requestState: state, inputResponses } });
    expect((await again(requestState)).json).toMatchObject({ result: { content: [{ text: '7' }] } });
    const other = gateway.tokens.create('mallory').token;
    for (const answer of [
      await again(`${requestState}x`),
      await again(`${requestState}.x`),
      await again(requestState.replace(/^./, (letter) => (letter === 'A' ? 'B' : 'A'))),
      await again(requestState, other),
    ]) {
      expect(answer.json).toMatchObject({ error: { code: -32602, data: { code: 'INVALID_REQUEST_STATE' } } });
    }
  });

  it('never tells a tool, a log or an event the token that it brought [MC10]', async () => {
    const { gateway, mars, events } = await start();
    const seen: unknown[] = [];
    mars.tool('spy', {}, (args, call) => {
      seen.push(args, call.caller, call.meta, call.capabilities, call.answers, call.state);
    });
    const { token } = gateway.tokens.create('alice');
    await callTool(gateway, 'mars__spy', {}, token);
    const client = await connect(gateway, 'legacy', token);
    await client.callTool({ name: 'mars__spy', arguments: {} });
    await raw(gateway, { headers: bearer(`${token}x`) });
    expect(seen).toHaveLength(12);
    for (const secret of [token, gateway.tokens.owners]) {
      expect(JSON.stringify([seen, events, logged, gateway.tokens.list])).not.toContain(secret.slice(4));
    }
  });

  it('is answered on the short way exactly as by the SDK [MC8]', async () => {
    const { gateway, mars } = await start();
    mars.tool(
      'echo',
      { inputSchema: z.object({ value: z.unknown(), fail: z.boolean().optional() }) },
      ({ value, fail }) => {
        if (fail) throw new Error(`failed with ${JSON.stringify(value)}`);
        return value;
      },
    );
    mars.tool('block', {}, () => ({ content: [{ type: 'text', text: 'x' }], isError: true, _meta: { a: 1 } }));
    mars.tool('rubbish', {}, () => 10n);
    mars.tool('ask', {}, (_, call) => call.ask({ a: { method: 'roots/list' } }));
    const arbArguments = fc.record({ value: fc.jsonValue(), fail: fc.boolean() }, { requiredKeys: [] });
    const arbCall = fc.record({
      name: fc.constantFrom('mars__echo', 'mars.echo', 'mars__block', 'mars__rubbish', 'mars__ask', 'mars__none'),
      args: fc.oneof(arbArguments, fc.constantFrom({ fail: 'yes' }, {})),
      capabilities: fc.constantFrom({}, { roots: {} }),
      id: fc.oneof(fc.integer(), fc.string({ minLength: 1 })),
    });
    await fc.assert(
      fc.asyncProperty(arbCall, async ({ name, args, capabilities, id }) => {
        const { owners } = gateway.tokens;
        const quick = await callTool(gateway, name, args, owners, { capabilities, id });
        // Written otherwise, the same type is left to the SDK.
        const headers = { 'content-type': 'Application/JSON' };
        const slow = await callTool(gateway, name, args, owners, { capabilities, id, headers });
        expect([slow.status, slow.json]).toEqual([quick.status, quick.json]);
        expect(slow.headers['content-type']).toContain(quick.headers['content-type']);
      }),
      { numRuns: 150 },
    );
  });
});

describe.each(ERAS)('a client of the %s era', (era) => {
  it('gets no structured data that would hide a tool’s words from its model, unless a schema promises it [T-A1]', async () => {
    const { gateway, mars } = await start();
    const weighed = { content: [{ type: 'text', text: 'Weighed.' }], structuredContent: { kg: 12.5 } };
    const schema = { type: 'object', properties: { kg: { type: 'number' } } };
    mars.tool('plain', {}, () => weighed);
    mars.tool('promised', { outputSchema: schema }, () => weighed);
    mars.tool('failed', { outputSchema: schema }, () => ({ ...weighed, isError: true }));
    mars.tool('data', {}, () => ({ kg: 12.5 }));
    const client = await connect(gateway, era);
    const words = [{ type: 'text', text: 'Weighed.' }];
    const data = { type: 'text', text: '{"kg":12.5}' };
    const call = async (name: string) => {
      const { content, structuredContent } = await client.callTool({ name: `mars__${name}`, arguments: {} });
      return { content, structuredContent };
    };
    expect(await call('plain')).toEqual({ content: [...words, data] });
    expect(await call('promised')).toEqual({ content: [...words, data], structuredContent: { kg: 12.5 } });
    expect(await call('failed')).toEqual({ content: [...words, data] });
    expect(await call('data')).toEqual({ content: [data], structuredContent: { kg: 12.5 } });
  });

  it('lists, calls, reads and fills in, with the SDK’s own client [MC7 R5.2 R5.3 R6.2 R6.5]', async () => {
    const { gateway, mars } = await start();
    offerSome(mars);
    const client = await connect(gateway, era);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(['mars__add', 'mars__build', 'mars__slow']);
    expect(tools[0]).toMatchObject({
      description: 'adds',
      inputSchema: { type: 'object' },
      _meta: { 'ecliptic/name': 'mars.add', 'ecliptic/agent': 'mars' },
    });
    expect(await client.callTool({ name: 'mars__add', arguments: { a: 1, b: 2 } })).toMatchObject({
      structuredContent: { sum: 3 },
    });
    expect(await client.callTool({ name: 'mars.add', arguments: { a: 1, b: 2 } })).toMatchObject({
      structuredContent: { sum: 3 },
    });
    expect(await client.callTool({ name: 'mars__add', arguments: { a: 'x' } })).toMatchObject({
      isError: true,
      _meta: { 'ecliptic/error': { code: 'INVALID_ARGUMENTS', agent: 'mars', message: expect.stringContaining('a:') } },
    });
    await expect(client.callTool({ name: 'mars__none', arguments: {} })).rejects.toMatchObject({ code: -32602 });
    expect((await client.listResources()).resources).toMatchObject([
      { uri: 'memory://rules', mimeType: 'text/markdown' },
    ]);
    expect((await client.listResourceTemplates()).resourceTemplates).toMatchObject([{ uriTemplate: 'note://{id}' }]);
    expect(await client.readResource({ uri: 'memory://rules' })).toMatchObject({
      contents: [{ uri: 'memory://rules', mimeType: 'text/markdown', text: '# Rules' }],
    });
    expect(await client.readResource({ uri: 'note://7' })).toMatchObject({ contents: [{ text: 'note 7' }] });
    await expect(client.readResource({ uri: 'memory://none' })).rejects.toThrow(/memory:\/\/none/);
    expect((await client.listPrompts()).prompts).toMatchObject([{ name: 'mars__plan' }]);
    expect(await client.getPrompt({ name: 'mars__plan', arguments: { who: 'you' } })).toMatchObject({
      messages: [{ role: 'user', content: { type: 'text', text: 'for you' } }],
    });
    await expect(client.getPrompt({ name: 'mars__plan', arguments: {} })).rejects.toThrow(/who/);
  });

  it('hears of progress, and its cancelling reaches the handler [MC7]', async () => {
    const { gateway, mars } = await start();
    const seen = offerSome(mars);
    const client = await connect(gateway, era);
    const told: unknown[] = [];
    const controller = new AbortController();
    const onprogress = (one: unknown) => {
      told.push(one);
      controller.abort();
    };
    const call = client.callTool({ name: 'mars__slow', arguments: {} }, { onprogress, signal: controller.signal });
    await expect(call).rejects.toThrow();
    expect(told).toMatchObject([{ progress: 1, total: 2 }]);
    await until(() => seen[0]?.aborted === true);
  });

  it('is told when lists and resources change, as far as it may see them [MC2 MC7]', async () => {
    const { gateway, mars, node } = await start();
    offerSome(mars);
    node.agent({ id: 'rat', sandbox: 'lab' }).tool('squeak', {}, () => 1);
    const owner = await listener(gateway, era, gateway.tokens.owners);
    const boxed = await listener(gateway, era, gateway.tokens.create('ci', 'lab').token);
    mars.tool('more', {}, () => 1).prompt({ name: 'more', template: '' });
    mars.resourceUpdated('memory://rules');
    await until(() => owner.length >= 3);
    expect([...owner].sort()).toEqual(['prompts', 'tools', 'updated memory://rules']);
    node.agentById('rat').tool('bite', {}, () => 1);
    await until(() => boxed.length > 0);
    expect(boxed).toEqual(['tools']);
  });
});

describe('a session of 2025', () => {
  it('is of no use to another principal [MC9]', async () => {
    const { gateway } = await start();
    const client = await connect(gateway, 'legacy');
    const { sessionId } = client.transport as StreamableHTTPClientTransport;
    expect(sessionId).toMatch(/.{20}/);
    const list = (token: string) =>
      raw(gateway, {
        method: 'POST',
        headers: {
          ...bearer(token),
          ...JSON_HEADERS,
          'mcp-session-id': sessionId!,
          'mcp-protocol-version': '2025-11-25',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      });
    expect((await list(gateway.tokens.owners)).status).toBe(200);
    expect((await list(gateway.tokens.create('mallory').token)).status).toBe(404);
    const gone = await raw(gateway, {
      method: 'DELETE',
      headers: { ...bearer(gateway.tokens.create('eve').token), 'mcp-session-id': sessionId! },
    });
    expect(gone.status).toBe(404);
    expect((await list(gateway.tokens.owners)).status).toBe(200);
  });
});

describe('closing', () => {
  it('ends open requests and leaves nothing behind', async () => {
    const { gateway, mars, node } = await start();
    const seen = offerSome(mars);
    const before = handles();
    for (const era of ERAS) {
      await listener(gateway, era, gateway.tokens.owners);
      const client = await connect(gateway, era);
      void client.callTool({ name: 'mars__slow', arguments: {} }).catch(() => {});
    }
    await until(() => seen.length === 2);
    await gateway.close();
    await until(() => seen.every(({ aborted }) => aborted));
    await node.stop();
    await expect(fetch(`${gateway.url}/health`)).rejects.toThrow();
    await until(() => !handles().includes('TCPServerWrap'));
    expect(before).toContain('TCPServerWrap');
  });
});

const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

async function start(init: GatewayInit = {}, nodeInit: NodeInit = {}) {
  const note = (...entry: unknown[]) => void logged.push(entry);
  const logger = { debug: note, info: note, warn: note, error: note };
  const node = await createNode({ runtime: systemRuntime({ logger: logger as never }), ...nodeInit });
  cleanups.push(() => node.stop());
  const events: A2ALogEvent[] = [];
  const security: A2ALogEvent[] = [];
  node.observability.subscribe((event) => (event.type === 'security' ? security : events).push(event));
  const mars = node.agent({ id: 'mars' }).tool('build', {}, () => 'built');
  const gateway = await node.serve({ port: 0, ...init });
  return { node: node as EclipticNode, gateway, mars, events, security };
}

/** Something of each kind. Returns the signals of the calls of the slow tool. */
function offerSome(agent: Agent): AbortSignal[] {
  const signals: AbortSignal[] = [];
  const inputSchema = z.object({ a: z.number(), b: z.number() });
  const outputSchema = z.object({ sum: z.number() });
  agent.tool('add', { description: 'adds', inputSchema, outputSchema }, ({ a, b }) => ({ sum: a + b }));
  agent.tool('slow', {}, (_, call) => {
    signals.push(call.signal);
    call.progress(1, 2);
    return new Promise(() => {});
  });
  agent.resource({ uri: 'memory://rules', name: 'Rules', mimeType: 'text/markdown' }, () => '# Rules');
  agent.resource({ uriTemplate: 'note://{id}', name: 'Note' }, (_, { id }) => `note ${id}`);
  agent.prompt({ name: 'plan', arguments: [{ name: 'who', required: true }], template: 'for {{who}}' });
  return signals;
}

async function connect(gateway: Gateway, era: Era, token = gateway.tokens.owners): Promise<Client> {
  const mode = era === 'legacy' ? ('legacy' as const) : { pin: REVISION };
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(new URL(gateway.mcpUrl), {
    requestInit: { headers: bearer(token) },
  });
  cleanups.push(() => client.close());
  await client.connect(transport);
  return client;
}

/** What a client is told of changes. */
async function listener(gateway: Gateway, era: Era, token: string): Promise<string[]> {
  const client = await connect(gateway, era, token);
  const heard: string[] = [];
  client.setNotificationHandler('notifications/tools/list_changed', () => void heard.push('tools'));
  client.setNotificationHandler('notifications/prompts/list_changed', () => void heard.push('prompts'));
  client.setNotificationHandler(
    'notifications/resources/updated',
    ({ params }) => void heard.push(`updated ${params.uri}`),
  );
  const uri = 'memory://rules';
  if (era === 'legacy') await client.subscribeResource({ uri });
  else await client.listen({ toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: [uri] });
  return heard;
}

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

interface RawInit {
  method?: string;
  path?: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

interface RawAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  json: unknown;
}

/** A request with any headers whatsoever. */
function raw({ url }: Gateway, { method = 'GET', path = '/mcp', headers = {}, body }: RawInit): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${url}${path}`, { method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const json = text.startsWith('{') ? (JSON.parse(text) as unknown) : text;
        resolve({ status: response.statusCode!, headers: response.headers, json });
        request.destroy();
      });
    });
    request.on('error', reject);
    if (body === '') request.flushHeaders();
    else request.end(body);
  });
}

interface CallInit {
  id?: string | number;
  headers?: Record<string, string>;
  capabilities?: object;
  params?: object;
}

/** A `tools/call` of 2026. */
function callTool(gateway: Gateway, name: string, args: object, token: string | undefined, init: CallInit = {}) {
  const { id = 1, capabilities = {}, params = {} } = init;
  const _meta = {
    [`${KEY}protocolVersion`]: REVISION,
    [`${KEY}clientCapabilities`]: capabilities,
    [`${KEY}clientInfo`]: { name: 'test', version: '1' },
  };
  const headers = {
    ...JSON_HEADERS,
    ...(token && bearer(token)),
    'mcp-protocol-version': REVISION,
    'mcp-method': 'tools/call',
    'mcp-name': name,
    ...init.headers,
  };
  const body = { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args, _meta, ...params } };
  return raw(gateway, { method: 'POST', headers, body: JSON.stringify(body) });
}

async function listTools(gateway: Gateway, token: string): Promise<string[]> {
  const client = await connect(gateway, 'modern', token);
  return (await client.listTools()).tools.map(({ name }) => name);
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-gateway-'));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function handles(): string[] {
  return process.getActiveResourcesInfo();
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`never so: ${condition}`);
}
