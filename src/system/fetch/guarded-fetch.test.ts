import { once } from 'node:events';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { type ForeignServer, ForeignServers } from '../../../test/foreign-servers.js';
import { selfSigned } from '../../../test/tls-certificate.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Connections } from './exchange.js';
import { guardedFetch } from './guarded-fetch.js';
import type { Resolve } from './target.js';

const runtime = systemRuntime();
const servers = new ForeignServers();
const pools: Connections[] = [];

afterEach(async () => {
  for (const pool of pools.splice(0)) pool.close();
  await servers.close();
});

describe('a guarded fetch', () => {
  it('sends method, headers and body, and gives status, headers, body and URL', async () => {
    const server = await servers.http(async (request, response) => {
      response.writeHead(201, { 'x-two': ['a', 'b'] });
      response.end(`${request.method} ${request.url} ${await text(request)}`);
    });
    const answer = await guardedFetch(runtime, `${server.origin}/a?b=c#d`, {
      method: 'post',
      headers: { Authorization: 'Bearer t', Host: 'evil', 'Accept-Encoding': 'gzip', Connection: 'upgrade' },
      body: 'höhö',
      allowPrivate: [server.place],
    });
    expect(answer).toMatchObject({ status: 201, url: `${server.origin}/a?b=c` });
    expect(answer.headers.get('x-two')).toBe('a, b');
    expect(String(answer.body)).toBe('POST /a?b=c höhö');
    expect(server.requests[0]!.headers).toEqual({
      authorization: 'Bearer t',
      host: server.place,
      'user-agent': 'ecliptic',
      'accept-encoding': 'identity',
      'content-length': '6',
      connection: 'close',
    });
  });

  it('returns answers of any status', async () => {
    const server = await servers.http((request, response) => response.writeHead(Number(request.url!.slice(1))).end());
    for (const status of [204, 300, 304, 404, 500]) {
      const answer = await guardedFetch(runtime, `${server.origin}/${status}`, { allowPrivate: [server.place] });
      expect(answer.status).toBe(status);
    }
  });

  it('refuses headers that would break out of their line', async () => {
    const headers = { 'x-a': 'b\r\nhost: evil' };
    await expect(
      guardedFetch(runtime, 'http://a.test/', { headers, resolve: async () => ['93.184.216.34'] }),
    ).rejects.toMatchObject({ code: 'FETCH_REFUSED', details: { reason: 'header' } });
  });

  it('reports whether the request may have arrived when the connection fails', async () => {
    const gone = await servers.http(() => {});
    await servers.close();
    await expect(guardedFetch(runtime, `${gone.origin}/secret`, { allowPrivate: [gone.place] })).rejects.toMatchObject({
      code: 'FETCH_FAILED',
      details: { cause: 'ECONNREFUSED', sent: false },
    });
    const rude = await servers.raw((socket) => socket.once('data', () => socket.destroy()));
    await expect(guardedFetch(runtime, rude.origin, { allowPrivate: [rude.place] })).rejects.toMatchObject({
      code: 'FETCH_FAILED',
      details: { sent: true },
    });
  });

  it.each([
    ['nonsense', 'this is not HTTP\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab'],
    ['an upgrade nobody asked for', 'HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
    ['half a body', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf'],
    ['half a chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\nhalf'],
    ['nothing', ''],
  ])('fails on %s', async (_, says) => {
    const server = await servers.raw((socket) => socket.once('data', () => socket.end(says)));
    await expect(guardedFetch(runtime, server.origin, { allowPrivate: [server.place] })).rejects.toMatchObject({
      code: 'FETCH_FAILED',
    });
  });

  it.each([
    ['content-encoding', 'gzip'],
    ['content-encoding', 'identity, br'],
    ['transfer-encoding', 'gzip, chunked'],
  ])('reads no answer with %s: %s, which it did not ask for [SF4]', async (name, value) => {
    const server = await servers.raw((socket) =>
      socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\n${name}: ${value}\r\n\r\n`)),
    );
    await expect(guardedFetch(runtime, server.origin, { allowPrivate: [server.place] })).rejects.toMatchObject({
      code: 'FETCH_REFUSED',
      details: { reason: 'encoding' },
    });
  });
});

describe('the address', () => {
  it('is resolved once, and the connection goes there, with the name in Host [SF2]', async () => {
    const good = await servers.http((_, response) => response.end('good'));
    const inside = await servers.http((_, response) => response.end('inside'), { host: '127.0.0.2', port: good.port });
    let asked = 0;
    const resolve: Resolve = async () => [asked++ === 0 ? '127.0.0.1' : '127.0.0.2'];
    const answer = await guardedFetch(runtime, `http://rebind.test:${good.port}/`, {
      resolve,
      allowPrivate: ['127.0.0.1/32'],
    });
    expect(String(answer.body)).toBe('good');
    expect(asked).toBe(1);
    expect(good.requests[0]!.headers.host).toBe(`rebind.test:${good.port}`);
    expect(inside.sockets).toHaveLength(0);
  });

  it('is resolved and checked again for the next hop and the next fetch [SF2 SF3]', async () => {
    const server = await servers.http((_, response) => response.writeHead(302, { location: '/again' }).end());
    const inside = await servers.http((_, response) => response.end(), { host: '127.0.0.2', port: server.port });
    const answers = ['127.0.0.1', '127.0.0.2'];
    await expect(
      guardedFetch(runtime, `http://rebind.test:${server.port}/`, {
        resolve: async () => [answers.shift()!],
        allowPrivate: ['127.0.0.1/32'],
      }),
    ).rejects.toMatchObject({ code: 'FETCH_REFUSED', details: { reason: 'address', kind: 'loopback' } });
    expect(inside.sockets).toHaveLength(0);
  });

  it('is the next of its name where the first does not answer', async () => {
    const server = await servers.http((_, response) => response.end('second'), { host: '127.0.0.2' });
    const answer = await guardedFetch(runtime, `http://two.test:${server.port}/`, {
      resolve: async () => ['127.0.0.1', '127.0.0.2'],
      allowPrivate: ['127.0.0.0/8'],
    });
    expect(String(answer.body)).toBe('second');
  });

  it('does not change which certificate is required', async () => {
    const tls = selfSigned('agent.test');
    const server = await servers.http((_, response) => response.end('safe'), { tls });
    const options = { resolve: async () => ['127.0.0.1'], allowPrivate: [server.place], ca: tls.cert };
    const answer = await guardedFetch(runtime, `https://agent.test:${server.port}/`, options);
    expect(String(answer.body)).toBe('safe');
    expect((server.requests[0]!.socket as { servername?: string }).servername).toBe('agent.test');
    await expect(guardedFetch(runtime, `https://other.test:${server.port}/`, options)).rejects.toMatchObject({
      code: 'FETCH_FAILED',
      details: { cause: 'ERR_TLS_CERT_ALTNAME_INVALID', sent: false },
    });
    const { ca: _, ...trustingTheWorld } = options;
    await expect(guardedFetch(runtime, `https://agent.test:${server.port}/`, trustingTheWorld)).rejects.toMatchObject({
      code: 'FETCH_FAILED',
      details: { sent: false },
    });
    expect(server.requests).toHaveLength(1);
  });
});

describe('a redirect', () => {
  const INSIDE = (port: number) => [
    `http://127.0.0.2:${port}/`,
    `//127.0.0.2:${port}/`,
    `http://2130706434:${port}/`,
    `http://0x7f.2:${port}/`,
    `http://0177.0.0.2:${port}/`,
    `http://127.2:${port}/`,
    `http://[::ffff:127.0.0.2]:${port}/`,
    `http://[::1]:${port}/`,
    `\\\\127.0.0.2:${port}\\`,
    `http:\t//127.0.0.2:${port}/`,
    'http://169.254.169.254/latest/meta-data/',
    'http://[fe80::1]/',
    'http://0/',
  ];

  it('to a private address is refused in any spelling [SF3 SF5]', async () => {
    let location = '';
    const server = await servers.http((_, response) => response.writeHead(302, { location }).end());
    const inside = await servers.http((_, response) => response.end('inside'), {
      host: '127.0.0.2',
      port: server.port,
    });
    for (location of INSIDE(server.port)) {
      await expect(
        guardedFetch(runtime, server.origin, { allowPrivate: [server.place] }),
        location,
      ).rejects.toMatchObject({ code: 'FETCH_REFUSED', details: { reason: 'address' } });
    }
    expect(inside.sockets).toHaveLength(0);
  });

  it.each([
    ['http://localhost/', 'name'],
    ['http://metadata.google.internal/', 'name'],
    ['file:///etc/passwd', 'scheme'],
    ['http://user:secret@a.test/', 'userinfo'],
    ['http://a.test:0/', 'port'],
    ['http://[', 'url'],
  ])('to %s is refused: %s [SF3]', async (location, reason) => {
    const server = await redirecting(() => location);
    const options = { allowPrivate: [server.place], resolve: async () => ['93.184.216.34'] };
    const error = await guardedFetch(runtime, server.origin, options).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'FETCH_REFUSED', details: { reason } });
    expect(JSON.stringify(error)).not.toContain('secret');
  });

  it('from https to http is refused [SF3]', async () => {
    const tls = selfSigned('agent.test');
    const plain = await servers.http((_, response) => response.end());
    const server = await servers.http(
      (_, response) => response.writeHead(302, { location: `http://agent.test:${plain.port}/` }).end(),
      { tls },
    );
    await expect(
      guardedFetch(runtime, `https://agent.test:${server.port}/`, {
        resolve: async () => ['127.0.0.1'],
        allowPrivate: ['127.0.0.1/32'],
        ca: tls.cert,
      }),
    ).rejects.toMatchObject({ code: 'FETCH_REFUSED', details: { reason: 'downgrade' } });
    expect(plain.sockets).toHaveLength(0);
  });

  it('is followed as often as allowed and no more [SF3]', async () => {
    const server = await redirecting((request) =>
      request.url === '/0' ? undefined : `/${Number(request.url!.slice(1)) - 1}`,
    );
    const options = { allowPrivate: [server.place] };
    expect(await guardedFetch(runtime, `${server.origin}/5`, options)).toMatchObject({
      status: 200,
      url: `${server.origin}/0`,
    });
    const refusal = { code: 'FETCH_REFUSED', details: { reason: 'redirects' } };
    await expect(guardedFetch(runtime, `${server.origin}/6`, options)).rejects.toMatchObject(refusal);
    await expect(guardedFetch(runtime, `${server.origin}/1`, { ...options, redirects: 0 })).rejects.toMatchObject(
      refusal,
    );
    expect(server.requests).toHaveLength(6 + 6 + 1);
  });

  it.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [302, 'PUT', 'PUT'],
    [307, 'POST', 'POST'],
    [308, 'POST', 'POST'],
  ])('with %i makes of %s a %s, and the body goes along only with its method', async (status, method, then) => {
    let last: string | undefined;
    const server = await servers.http(async (request, response) => {
      last = await text(request);
      if (request.url === '/') response.writeHead(status, { location: '/then' });
      response.end();
    });
    await guardedFetch(runtime, server.origin, {
      method,
      ...(method === 'HEAD' ? {} : { body: 'b', headers: { 'content-type': 'text/plain' } }),
      allowPrivate: [server.place],
    });
    const request = server.requests[1]!;
    expect(request.method).toBe(then);
    expect(last).toBe(then === method && method !== 'HEAD' ? 'b' : '');
    expect(request.headers['content-type'] !== undefined).toBe(last === 'b');
  });

  it('sends credentials to the same origin only [SF3]', async () => {
    const other = await servers.http((_, response) => response.end());
    const server = await redirecting((request) => (request.url === '/' ? '/here' : `${other.origin}/there`));
    await guardedFetch(runtime, server.origin, {
      headers: { authorization: 'a', cookie: 'b', 'x-api-key': 'c', 'x-a2a-notification-token': 'd', accept: 'e' },
      allowPrivate: [server.place, other.place],
    });
    const secrets = { authorization: 'a', cookie: 'b', 'x-api-key': 'c', 'x-a2a-notification-token': 'd' };
    expect(server.requests[1]!.headers).toMatchObject({ ...secrets, accept: 'e' });
    const { headers } = other.requests[0]!;
    for (const name of Object.keys(secrets)) expect(headers).not.toHaveProperty(name);
    expect(headers).toMatchObject({ accept: 'e', host: other.place });
  });

  it('to another listed place is followed, to a place beside it is not [SF5]', async () => {
    const [one, two] = [await servers.http((_, response) => response.end()), await servers.http(() => {})];
    for (const [to, code] of [
      [one, undefined],
      [two, 'FETCH_REFUSED'],
    ] as const) {
      const server = await redirecting(() => to.origin);
      const end = guardedFetch(runtime, server.origin, { allowPrivate: [server.place, one.place] });
      if (code) await expect(end).rejects.toMatchObject({ code });
      else expect((await end).status).toBe(200);
    }
    expect(two.sockets).toHaveLength(0);
  });
});

describe('connections that are kept', () => {
  it('are used again for the same address', async () => {
    const server = await servers.http((_, response) => response.end('x'));
    const connections = pool();
    for (let i = 0; i < 5; i++) {
      await guardedFetch(runtime, server.origin, { connections, allowPrivate: [server.place] });
    }
    expect(server.requests).toHaveLength(5);
    expect(server.sockets).toHaveLength(1);
  });

  it('are used again for streams that ask for it and are read to their end, and for no others', async () => {
    const server = await servers.http((_, response) => response.end('x'));
    const options = { connections: pool(), allowPrivate: [server.place], stream: true } as const;
    const read = async (reuse: boolean) => {
      const { body } = await guardedFetch(runtime, server.origin, { ...options, reuse });
      for await (const chunk of body) expect(String(chunk)).toBe('x');
    };
    for (let i = 0; i < 3; i++) await read(true);
    expect(server.sockets).toHaveLength(1);
    for (let i = 0; i < 3; i++) await read(false);
    expect(server.sockets).toHaveLength(4);
    const { body } = await guardedFetch(runtime, server.origin, { ...options, reuse: true });
    for await (const _ of body) break;
    await read(true);
    expect(server.sockets).toHaveLength(5);
  });

  it('do not bypass the check [SF2 SF5]', async () => {
    const server = await servers.http((_, response) => response.end('x'));
    const connections = pool();
    const url = `http://rebind.test:${server.port}/`;
    const resolve: Resolve = async () => ['127.0.0.1'];
    await guardedFetch(runtime, url, { connections, resolve, allowPrivate: ['127.0.0.1/32'] });
    await expect(guardedFetch(runtime, url, { connections, resolve })).rejects.toMatchObject({ code: 'FETCH_REFUSED' });
    // The name now means another address: the kept connection to the old one is not for it.
    const other = await servers.http((_, response) => response.end('y'), { host: '127.0.0.2', port: server.port });
    const options = { connections, resolve: async () => ['127.0.0.2'], allowPrivate: ['127.0.0.2/32'] };
    expect(String((await guardedFetch(runtime, url, options)).body)).toBe('y');
    expect(other.sockets).toHaveLength(1);
  });

  it('may have ended meanwhile: an idempotent request is sent again on a new one', async () => {
    let answered = 0;
    const server = await servers.raw((socket) => {
      let first = true;
      socket.on('data', () => {
        if (!first) return void socket.destroy();
        first = false;
        answered++;
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx');
      });
    });
    const options = { connections: pool(), allowPrivate: [server.place] };
    await guardedFetch(runtime, server.origin, options);
    await guardedFetch(runtime, server.origin, options);
    expect(answered).toBe(2);
    await guardedFetch(runtime, server.origin, options);
    await expect(guardedFetch(runtime, server.origin, { ...options, method: 'POST' })).rejects.toMatchObject({
      code: 'FETCH_FAILED',
      details: { sent: true },
    });
  });
});

function pool(): Connections {
  const connections = new Connections();
  pools.push(connections);
  return connections;
}

function redirecting(to: (request: IncomingMessage) => string | undefined): Promise<ForeignServer> {
  const answer: RequestListener = (request, response: ServerResponse) => {
    const location = to(request);
    if (location !== undefined) response.writeHead(302, { location });
    response.end();
  };
  return servers.http(answer);
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(request, 'end');
  return String(Buffer.concat(chunks));
}
