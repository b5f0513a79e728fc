import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { ForeignServers } from '../../../test/foreign-servers.js';
import type { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { guardedFetch } from './guarded-fetch.js';
import { SseReader } from './sse.js';

const HEAD = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${HEAD}transfer-encoding: chunked\r\n\r\n`;

const system = systemRuntime();
const servers = new ForeignServers();

afterEach(() => servers.close());

describe('the size of an answer', () => {
  it('is refused by its length before anything is read [SF4]', async () => {
    const server = await servers.raw(saying(`${HEAD}content-length: 1048577\r\n\r\n`));
    await expect(fetchFrom(server.place)).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      details: { maxBytes: 1_048_576 },
    });
    await closed(server.sockets);
  });

  it('is counted without a length header, and an endless body is cut off [SF4]', async () => {
    for (const head of [CHUNKED, `${HEAD}\r\n`]) {
      const server = await servers.raw(saying(head, () => `3e8\r\n${'x'.repeat(1_000)}\r\n`));
      await expect(fetchFrom(server.place, { maxBytes: 50_000 })).rejects.toMatchObject({
        code: 'PAYLOAD_TOO_LARGE',
        details: { maxBytes: 50_000 },
      });
      await closed(server.sockets);
    }
  });

  it('may be exactly the limit', async () => {
    const server = await servers.http((_, response) => response.end('x'.repeat(1_000)));
    expect((await fetchFrom(server.place, { maxBytes: 1_000 })).body).toHaveLength(1_000);
    await expect(fetchFrom(server.place, { maxBytes: 999 })).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
  });

  it('is limited for its headers: many, long, endless, as trailers or between chunks [SF4]', async () => {
    const endless: [string, string][] = [
      [HEAD, 'a: b\r\n'.repeat(100)],
      [`${HEAD}a: `, 'x'.repeat(1_000)],
      ['HTTP/1.1 200 ', 'x'.repeat(1_000)],
      [`${CHUNKED}0\r\n`, 'a: b\r\n'.repeat(100)],
      [`${CHUNKED}1;`, 'x'.repeat(1_000)],
    ];
    for (const [head, more] of endless) {
      const server = await servers.raw(saying(head, () => more));
      const error: EclipticError = await fetchFrom(server.place, { timeoutMs: 5_000 }).then(
        () => expect.fail(),
        caught,
      );
      expect([head, error.code]).toEqual([head, expect.stringMatching(/^(PAYLOAD_TOO_LARGE|FETCH_FAILED)$/)]);
      await closed(server.sockets);
    }
  });
});

describe('the time of a fetch', () => {
  it('is limited as a whole, however steadily data arrives [SF4]', async () => {
    const drips: [string, string][] = [
      [`${HEAD}content-length: 1000000\r\n\r\n`, 'x'],
      [CHUNKED, '1\r\nx\r\n'],
      [HEAD, 'a: b\r\n'],
      ['', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
    ];
    for (const [head, drop] of drips) {
      const server = await servers.raw(saying(head, () => drop, 20));
      const started = system.stopwatch();
      await expect(fetchFrom(server.place, { timeoutMs: 200 })).rejects.toMatchObject({
        code: 'FETCH_TIMEOUT',
        details: { limit: 'timeoutMs', ms: 200 },
      });
      expect(system.stopwatch() - started).toBeLessThan(2_000);
      await closed(server.sockets);
    }
  });

  it('is limited over redirects together [SF4]', async () => {
    const server = await servers.http((_, response) => {
      system.setTimer(() => response.writeHead(302, { location: '/' }).end(), 60);
    });
    await expect(fetchFrom(server.place, { timeoutMs: 200, redirects: 100 })).rejects.toMatchObject({
      code: 'FETCH_TIMEOUT',
    });
    expect(server.requests.length).toBeLessThan(6);
  });

  it('ends on silence within a body [SF4]', async () => {
    const server = await servers.raw(saying(`${CHUNKED}1\r\nx\r\n`));
    await expect(fetchFrom(server.place, { idleMs: 100 })).rejects.toMatchObject({
      code: 'FETCH_TIMEOUT',
      details: { limit: 'idleMs', ms: 100 },
    });
    await closed(server.sockets);
  });

  it('ends without an answer, a connection or an address', async () => {
    const server = await servers.raw((socket) => void socket.resume());
    const end = { code: 'FETCH_TIMEOUT', details: { limit: 'timeoutMs' } };
    await expect(fetchFrom(server.place, { timeoutMs: 100 })).rejects.toMatchObject(end);
    await closed(server.sockets);
    await expect(
      guardedFetch(system, 'http://a.test/', { timeoutMs: 100, resolve: () => new Promise(() => {}) }),
    ).rejects.toMatchObject(end);
    await expect(
      guardedFetch(system, `https://${server.place}/`, { timeoutMs: 100, allowPrivate: [server.place] }),
    ).rejects.toMatchObject(end);
  });
});

describe('cancelling', () => {
  it('ends the fetch and closes the connection at any moment', async () => {
    const says: [string, (() => string) | undefined][] = [
      ['', undefined],
      [HEAD, undefined],
      [CHUNKED, () => '1\r\nx\r\n'],
    ];
    for (const [head, more] of says) {
      const server = await servers.raw(saying(head, more, 10));
      const controller = new AbortController();
      const end = fetchFrom(server.place, { signal: controller.signal });
      system.setTimer(() => controller.abort(), 100);
      await expect(end).rejects.toMatchObject({ code: 'CANCELLED' });
      await closed(server.sockets);
    }
  });

  it('before the fetch begins sends nothing', async () => {
    let asked = 0;
    const resolve = async () => [String(asked++)];
    await expect(
      guardedFetch(system, 'http://a.test/', { signal: AbortSignal.abort(), resolve }),
    ).rejects.toMatchObject({ code: 'CANCELLED' });
    expect(asked).toBe(0);
  });

  it('a fetch leaves no timer behind, however it ends, and its signal is free', async () => {
    const { runtime, pending } = countingRuntime();
    const server = await servers.http((request, response) => {
      if (request.url === '/redirect') response.writeHead(302, { location: '/' });
      if (request.url !== '/hang') response.end('x'.repeat(100));
    });
    const { signal } = new AbortController();
    const options = { allowPrivate: [server.place], signal, timeoutMs: 1_000 };
    await guardedFetch(runtime, `${server.origin}/redirect`, options);
    await guardedFetch(runtime, server.origin, { ...options, maxBytes: 5 }).catch(() => {});
    await guardedFetch(runtime, 'http://127.0.0.1:1/', options).catch(() => {});
    await guardedFetch(runtime, `${server.origin}/hang`, { ...options, timeoutMs: 50 }).catch(() => {});
    const { body } = await guardedFetch(runtime, server.origin, { ...options, stream: true });
    for await (const _ of body);
    (await guardedFetch(runtime, server.origin, { ...options, stream: true })).close();
    expect(pending()).toBe(0);
  });
});

describe('a stream', () => {
  it('is read with back-pressure', async () => {
    let written = 0;
    const server = await servers.http((_, response) => {
      const fill = () => {
        do written += 65_536;
        while (response.write(Buffer.alloc(65_536)));
        response.once('drain', fill);
      };
      fill();
    });
    const answer = await stream(server.place);
    const body = answer.body[Symbol.asyncIterator]();
    await body.next();
    await pause(300);
    const before = written;
    await pause(300);
    expect(written).toBe(before);
    expect(written).toBeLessThan(32 * 1_048_576);
    for (let i = 0; i < 200; i++) await body.next();
    await pause(50);
    expect(written).toBeGreaterThan(before);
    answer.close();
    await closed(server.sockets);
  });

  it('may last longer than the limit for its head while data arrives', async () => {
    const server = await servers.raw(saying(CHUNKED, () => '7\r\n: beat\n\r\n', 30));
    const answer = await stream(server.place, { timeoutMs: 100, idleMs: 1_000 });
    let chunks = 0;
    for await (const _ of answer.body) if (++chunks === 10) break;
    await closed(server.sockets);
  });

  it('ends on silence, on its time limit, read or not, and on its size [SF4]', async () => {
    const silent = await servers.raw(saying(`${CHUNKED}1\r\nx\r\n`));
    await expect(drain(await stream(silent.place, { idleMs: 100 }))).rejects.toMatchObject({
      code: 'FETCH_TIMEOUT',
      details: { limit: 'idleMs' },
    });
    const steady = await servers.raw(saying(CHUNKED, () => '1\r\nx\r\n', 20));
    await expect(drain(await stream(steady.place, { streamMs: 200 }))).rejects.toMatchObject({
      code: 'FETCH_TIMEOUT',
      details: { limit: 'streamMs' },
    });
    await expect(drain(await stream(steady.place, { maxBytes: 5 }))).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
    });
    const untaken = await stream(steady.place, { streamMs: 100 });
    await closed(steady.sockets);
    await expect(drain(untaken)).rejects.toMatchObject({ code: 'FETCH_TIMEOUT', details: { limit: 'streamMs' } });
  });

  it('does not count the silence of its reader', async () => {
    const server = await servers.raw(saying(CHUNKED, () => '1\r\nx\r\n', 20));
    const answer = await stream(server.place, { idleMs: 100 });
    let chunks = 0;
    for await (const _ of answer.body) {
      if (++chunks === 3) break;
      await pause(250);
    }
    expect(chunks).toBe(3);
  });

  it('is cancelled in the middle, also while it is not read', async () => {
    const server = await servers.raw(saying(CHUNKED, () => '1\r\nx\r\n', 20));
    const controller = new AbortController();
    const answer = await stream(server.place, { signal: controller.signal });
    system.setTimer(() => controller.abort(), 100);
    await closed(server.sockets);
    await expect(drain(answer)).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  it('that is cut off fails for its reader only', async () => {
    const server = await servers.raw((socket) => {
      socket.once('data', () => {
        socket.write(`${CHUNKED}1\r\nx\r\n`);
        system.setTimer(() => socket.destroy(), 50);
      });
    });
    await expect(drain(await stream(server.place))).rejects.toMatchObject({ code: 'FETCH_FAILED' });
    await stream(server.place);
    await pause(100);
  });

  it('carries server-sent events', async () => {
    const server = await servers.http((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('id: 1\nda');
      system.setTimer(() => response.end('ta: {"a":1}\n\ndata: 2\n\n'), 30);
    });
    const answer = await stream(server.place);
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    const data: string[] = [];
    for await (const event of new SseReader().read(answer.body)) data.push(event.data);
    expect(data).toEqual(['{"a":1}', '2']);
  });

  it('closes its connection when an event is too large [SF6]', async () => {
    const server = await servers.raw(saying(CHUNKED, () => 'a\r\ndata: xxx\n\r\n'.repeat(100)));
    const answer = await stream(server.place);
    const read = async () => {
      for await (const _ of new SseReader({ maxEventBytes: 1_000 }).read(answer.body));
    };
    await expect(read()).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    await closed(server.sockets);
  });
});

type Options = Omit<NonNullable<Parameters<typeof guardedFetch>[2]>, 'stream'>;

function fetchFrom(place: string, options: Options = {}) {
  return guardedFetch(system, `http://${place}/`, { allowPrivate: [place], ...options });
}

function stream(place: string, options: Options & { streamMs?: number } = {}) {
  return guardedFetch(system, `http://${place}/`, { allowPrivate: [place], ...options, stream: true });
}

async function drain(answer: { body: AsyncIterable<Buffer> }): Promise<void> {
  for await (const _ of answer.body);
}

/** Answers every request with `head` and then, as fast as it is read or once in `everyMs`, with more, for ever. */
function saying(head: string, more?: () => string, everyMs?: number): (socket: Socket) => void {
  return (socket) => {
    const go = () => {
      if (!more || socket.destroyed) return;
      if (everyMs === undefined) {
        while (socket.write(more())) if (socket.destroyed) return;
        socket.once('drain', go);
      } else {
        socket.write(more());
        system.setTimer(go, everyMs);
      }
    };
    socket.once('data', () => {
      socket.write(head);
      go();
    });
    socket.resume();
  };
}

/** Waits until the other side has closed every connection; the test's own time limit watches over it. */
async function closed(sockets: readonly Socket[]): Promise<void> {
  await Promise.all(
    sockets.map((socket) => socket.destroyed || new Promise((resolve) => socket.once('close', resolve))),
  );
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    system.setTimer(resolve, ms);
  });
}

function caught(error: unknown): EclipticError {
  return error as EclipticError;
}

function countingRuntime(): { runtime: Runtime; pending: () => number } {
  const open = new Set<Timer>();
  const setTimer = (task: () => void, ms: number): Timer => {
    const timer = system.setTimer(() => {
      open.delete(handle);
      task();
    }, ms);
    const handle: Timer = {
      cancel: () => {
        open.delete(handle);
        timer.cancel();
      },
    };
    open.add(handle);
    return handle;
  };
  const runtime = Object.assign(Object.create(system) as Runtime, { setTimer });
  return { runtime, pending: () => open.size };
}
