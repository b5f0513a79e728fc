import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Upstreaming, until } from './harness.js';

type Answer = (method: string, id: unknown, response: ServerResponse, request: IncomingMessage) => void;

let here: Upstreaming;
let servers: Server[];

beforeEach(async () => {
  here = await Upstreaming.start();
  servers = [];
});

afterEach(async () => {
  await here.end();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(answer: Answer): Promise<URL> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      const { method, id } = request.method === 'POST' ? JSON.parse(body) : {};
      if (method === undefined) response.writeHead(405).end();
      else answer(method, id, response, request);
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
}

const json = (response: ServerResponse, value: object, headers = {}) =>
  void response
    .writeHead(200, { 'content-type': 'application/json', ...headers })
    .end(JSON.stringify({ jsonrpc: '2.0', ...value }));

/** Speaks a protocol of 2025, and leaves calls to the test. */
const legacy =
  (call: Answer): Answer =>
  (method, id, response, request) => {
    const serverInfo = { name: 'rogue', version: '1' };
    const hello = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
    const tools = [{ name: 'work', inputSchema: { type: 'object' } }];
    if (method === 'initialize') json(response, { id, result: hello }, { 'mcp-session-id': 'one' });
    else if (method === 'tools/list') json(response, { id, result: { tools } });
    else if (method === 'tools/call') call(method, id, response, request);
    else if (id === undefined) response.writeHead(202).end();
    else json(response, { id, error: { code: -32601, message: 'no such method' } });
  };

async function add(answer: Answer): Promise<void> {
  here.add(
    'rogue',
    { kind: 'http', url: await listen(answer), headers: { authorization: 'Bearer own-token' } },
    { restart: { startMs: 500 } },
  );
}

describe('a server over HTTP', () => {
  it('that never answers is retried with back-off [UP3]', async () => {
    await add(() => {});
    await until(() => here.status('rogue').reason?.includes('was not ready within 500 ms') === true);
  });

  it('that rejects its token is reported so [UP3]', async () => {
    await add((_method, _id, response) => void response.writeHead(401).end());
    await until(() => here.status('rogue').state === 'backing-off');
    expect(here.status('rogue').reason).toMatch(/refuses what it is sent for a token \(401\)/);
  });

  it('that redirects gets no request at the other address: no header leaks [UP8]', async () => {
    const seen: unknown[] = [];
    const elsewhere = await listen((_method, _id, response, request) => {
      seen.push(request.headers.authorization);
      response.writeHead(200).end();
    });
    await add((_method, _id, response) => void response.writeHead(307, { location: String(elsewhere) }).end());
    await until(() => here.status('rogue').state === 'backing-off');
    expect(seen).toEqual([]);
  });

  it.each(['application/json', 'text/event-stream'])(
    'whose answer has no end (%s) fails that call alone [UP3]',
    async (type) => {
      await add(
        legacy((_method, _id, response) => {
          response.writeHead(200, { 'content-type': type });
          const flood = () => {
            if (!response.destroyed) response.write('x'.repeat(1 << 20), flood);
          };
          flood();
        }),
      );
      await here.running('rogue');
      await expect(here.call('rogue.work')).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
      expect(here.status('rogue').state).toBe('running');
    },
  );

  it('whose answer breaks off fails the call at once, with an unknown outcome [UP4]', async () => {
    let calls = 0;
    await add(
      legacy((_method, _id, response) => {
        calls++;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(': thinking\n\n');
        setTimeout(() => response.destroy(), 50);
      }),
    );
    await here.running('rogue');
    await expect(here.call('rogue.work')).rejects.toMatchObject({
      code: 'PROVIDER_CRASHED',
      details: { outcome: 'unknown' },
    });
    expect(calls).toBe(1);
  });

  it('that loses its session is initialised again, and the call is not repeated [UP4]', async () => {
    let calls = 0;
    await add(
      legacy((_method, id, response) => {
        if (++calls === 1) response.writeHead(404).end();
        else json(response, { id, result: { content: [] } });
      }),
    );
    await here.running('rogue');
    await expect(here.call('rogue.work')).rejects.toMatchObject({
      code: expect.stringMatching(/^PROVIDER_(CRASHED|UNAVAILABLE)$/),
      retryable: false,
    });
    await here.running('rogue');
    expect(calls).toBe(1);
    expect(await here.call('rogue.work')).toMatchObject({ content: [] });
  });
});
