import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection, createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectRaw, type RawClient } from '../../../test/raw-client.js';
import { EclipticError, type ErrorCode, isErrorCode } from '../../runtime/errors.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { ControlClient } from './client.js';
import { MAX_FRAME_CHARS } from './protocol.js';
import { type ControlMethod, ControlServer, type ControlServerInit } from './server.js';

const HELLO = '{"hello":{"min":1,"max":1}}\n';
const IDENTITY = { node: 'here', pid: 4711, version: '1.2.3' };
const asRoot = process.getuid?.() === 0;

let folder: string;
let path: string;
let cleanUps: (() => unknown)[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-control-'));
  path = join(folder, 'control.sock');
  cleanUps = [];
});

afterEach(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
  rmSync(folder, { recursive: true, force: true });
});

describe('calls', () => {
  it('begin with what the node says of itself', async () => {
    await serve({});
    const client = await connect();
    expect(client.server).toEqual({ hello: { min: 1, max: 1 }, ...IDENTITY });
  });

  it('carry their parameters there and their result back', async () => {
    await serve({ echo: (params) => params });
    const client = await connect();
    const params = { text: 'ü🌍\n"\u0000', list: [1, 2.5, null, true], deep: { er: {} } };
    expect(await client.call('echo', params)).toEqual(params);
  });

  it('give null for a method that returns nothing, and take no parameters as none', async () => {
    await serve({ nothing: () => undefined, echo: (params) => params });
    const client = await connect();
    expect(await client.call('nothing')).toBeNull();
    const raw = await open();
    raw.socket.write(`${HELLO}{"id":7,"method":"echo"}\n`);
    await raw.next();
    expect(await raw.next()).toEqual({ id: 7, result: {} });
  });

  it('are answered each in its own time', async () => {
    const gate = newGate();
    await serve({ slow: () => gate.passed, quick: () => 'quick' });
    const client = await connect();
    const slow = client.call('slow');
    expect(await client.call('quick')).toBe('quick');
    gate.open('slow');
    expect(await slow).toBe('slow');
  });

  it('give two clients their own answers', async () => {
    await serve({ echo: ({ value }) => value });
    const clients = await Promise.all([connect(), connect(), connect()]);
    const answers = clients.flatMap((client, who) =>
      Array.from({ length: 50 }, (_, nth) => client.call('echo', { value: `${who}/${nth}` })),
    );
    expect(await Promise.all(answers)).toEqual(
      clients.flatMap((_, who) => Array.from({ length: 50 }, (_, nth) => `${who}/${nth}`)),
    );
  });

  it('that a method refuses reject with its code, message and details', async () => {
    await serve({
      refuse: () => {
        throw new EclipticError('AGENT_NOT_FOUND', 'who is that?', { agentId: 'vulcan' });
      },
    });
    const client = await connect();
    const error = await client.call('refuse').catch((thrown) => thrown);
    expect(error).toBeInstanceOf(EclipticError);
    expect(error).toMatchObject({ code: 'AGENT_NOT_FOUND', message: 'who is that?', details: { agentId: 'vulcan' } });
  });

  it.each<[string, ControlMethod]>([
    [
      'throws something foreign',
      () => {
        throw new TypeError('boo');
      },
    ],
    ['rejects with something foreign', () => Promise.reject('boo')],
    ['answers with what JSON cannot hold', () => 10n],
    ['answers with what refers to itself', () => cyclic()],
  ])('to a method that %s reject with HANDLER_FAILED', async (_, method) => {
    await serve({ method });
    const client = await connect();
    await expect(client.call('method')).rejects.toSatisfy(coded('HANDLER_FAILED'));
    await expect(client.call('missing')).rejects.toSatisfy(coded('METHOD_NOT_FOUND'));
  });

  it('are answered even when the error’s details cannot be written as JSON', async () => {
    await serve({
      refuse: () => {
        throw new EclipticError('AGENT_NOT_FOUND', 'who is that?', cyclic());
      },
    });
    const client = await connect();
    expect(await unlessItCrashes(client.call('refuse'))).toBeInstanceOf(EclipticError);
  });

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', '', 'Echo'])(
    'of "%s", which is no method, reject with METHOD_NOT_FOUND',
    async (method) => {
      await serve({ echo: (params) => params });
      const client = await connect();
      await expect(client.call(method)).rejects.toSatisfy(coded('METHOD_NOT_FOUND'));
      expect(await client.call('echo', { still: 'here' })).toEqual({ still: 'here' });
    },
  );

  it('under way when the client closes reject with CANCELLED, as do later ones', async () => {
    await serve({ hang: () => newGate().passed });
    const client = await connect();
    const waiting = client.call('hang');
    client.close();
    await expect(waiting).rejects.toSatisfy(coded('CANCELLED'));
    await expect(client.call('hang')).rejects.toSatisfy(coded('CANCELLED'));
    await client.closed;
  });

  it('whose caller has gone do not disturb the others', async () => {
    const gate = newGate();
    await serve({ slow: () => gate.passed, quick: () => 'quick' });
    const raw = await open();
    raw.socket.write(`${HELLO}{"id":1,"method":"slow"}\n{"id":2,"method":"quick"}\n`);
    await raw.next();
    await raw.next();
    raw.socket.destroy();
    await raw.closed;
    gate.open('late');
    const client = await connect();
    expect(await client.call('quick')).toBe('quick');
  });
});

describe('subscriptions', () => {
  it('pass on events in order, then the result', async () => {
    await serve({
      count(_, { emit }) {
        for (let n = 0; n < 100; n++) emit({ n });
        return 'done';
      },
    });
    const client = await connect();
    const events: unknown[] = [];
    expect(await client.call('count', {}, (event) => events.push(event))).toBe('done');
    expect(events).toEqual(Array.from({ length: 100 }, (_, n) => ({ n })));
  });

  it('reach only the call that subscribed', async () => {
    await serve({
      greet({ name }, { emit }) {
        emit(`hello ${name}`);
      },
    });
    const client = await connect();
    const heard: Record<string, unknown[]> = { one: [], other: [] };
    await Promise.all(
      Object.keys(heard).map((name) => client.call('greet', { name }, (event) => heard[name]!.push(event))),
    );
    expect(heard).toEqual({ one: ['hello one'], other: ['hello other'] });
  });

  it('end when the client closes', async () => {
    const ended = newGate();
    await serve({
      follow: (_, { emit, signal }) => {
        signal.addEventListener('abort', () => ended.open('ended'));
        emit('first');
        return newGate().passed;
      },
    });
    const client = await connect();
    const first = newGate();
    client.call('follow', {}, (event) => first.open(event)).catch(() => {});
    expect(await first.passed).toBe('first');
    client.close();
    expect(await ended.passed).toBe('ended');
  });

  it('end when the client’s process dies', async () => {
    const ended = newGate();
    const follows = newGate();
    await serve({
      follow: (_, { signal }) => {
        signal.addEventListener('abort', () => ended.open('ended'));
        follows.open('follows');
        return newGate().passed;
      },
    });
    const script = `const { createConnection } = require('node:net');
      const socket = createConnection(process.argv[1], () => {
        socket.write(${JSON.stringify(`${HELLO}{"id":1,"method":"follow"}\n`)});
      });`;
    const child = spawn(process.execPath, ['-e', script, path]);
    const exit = once(child, 'exit');
    // A request of a process that dies before the server has read it need not be served.
    await follows.passed;
    child.kill('SIGKILL');
    const [, signal] = await exit;
    expect(signal).toBe('SIGKILL');
    expect(await ended.passed).toBe('ended');
  });

  it('of a connection that never reads are dropped at the backlog limit, and only those', async () => {
    const ended = newGate();
    const backlogBytes = 256 * 1024;
    let emitted = 0;
    await serve(
      {
        flood: (_, { emit, signal }) => {
          const event = 'x'.repeat(16 * 1024);
          const more = () => {
            if (signal.aborted) return ended.open('ended');
            emit(event);
            emitted += event.length;
            setImmediate(more);
          };
          more();
          return newGate().passed;
        },
        quick: () => 'quick',
      },
      { backlogBytes },
    );
    const deaf = createConnection(path);
    deaf.on('error', () => {});
    deaf.pause();
    deaf.write(`${HELLO}{"id":1,"method":"flood"}\n`);
    const client = await connect();
    expect(await ended.passed).toBe('ended');
    expect(emitted).toBeGreaterThan(backlogBytes);
    expect(emitted).toBeLessThan(64 * 1_048_576);
    expect(await client.call('quick')).toBe('quick');
    deaf.resume();
    await closing(deaf);
  });

  it('that read keep up with far more than the backlog limit', async () => {
    const total = 2_000;
    await serve(
      {
        flood: (_, { emit }) =>
          new Promise((resolve) => {
            let sent = 0;
            const more = () => {
              if (sent++ === total) return resolve('done');
              emit('x'.repeat(1_024));
              setImmediate(more);
            };
            more();
          }),
      },
      { backlogBytes: 1_048_576 },
    );
    const client = await connect();
    let events = 0;
    expect(await client.call('flood', {}, () => events++)).toBe('done');
    expect(events).toBe(total);
  });
});

describe('a caller that never reads its answers', () => {
  it('is dropped at the backlog limit', async () => {
    const deaf = new Socket();
    const outcome = newGate();
    let asked = 0;
    const ask = () => deaf.write(`{"id":${asked++},"method":"big"}\n`);
    await serve(
      {
        big: (_, { signal }) => {
          if (asked === 1) signal.addEventListener('abort', () => outcome.open('dropped'));
          if (asked < 200) setImmediate(ask);
          else outcome.open('every answer was kept');
          return 'x'.repeat(64 * 1024);
        },
      },
      { backlogBytes: 512 * 1024 },
    );
    deaf.on('error', () => {});
    cleanUps.push(() => deaf.destroy());
    deaf.connect(path).pause();
    deaf.write(HELLO);
    ask();
    expect(await outcome.passed).toBe('dropped');
  });
});

describe('faulty traffic', () => {
  const faults: [string, string, ErrorCode][] = [
    ['a line that is not JSON', `${HELLO}{"id":1,\n`, 'INVALID_FRAME'],
    ['bytes that are not text', `${HELLO}\u0000\u0001\ufffd\n`, 'INVALID_FRAME'],
    ['another protocol', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 'INVALID_FRAME'],
    ['a call before the hello', '{"id":1,"method":"note"}\n', 'INVALID_FRAME'],
    ['a hello without versions', '{"hello":{}}\n', 'INVALID_FRAME'],
    ['a hello with versions that are no numbers', '{"hello":{"min":"1","max":"1"}}\n', 'INVALID_FRAME'],
    ['a hello that is null', 'null\n', 'INVALID_FRAME'],
    ['a hello of a later protocol only', '{"hello":{"min":2,"max":9}}\n', 'PROTOCOL_MISMATCH'],
    ['a hello of an earlier protocol only', '{"hello":{"min":0,"max":0}}\n', 'PROTOCOL_MISMATCH'],
    ['a hello whose versions are the wrong way round', '{"hello":{"min":2,"max":1}}\n', 'PROTOCOL_MISMATCH'],
    ['a second hello', `${HELLO}${HELLO}`, 'INVALID_FRAME'],
    ['a frame that is null', `${HELLO}null\n`, 'INVALID_FRAME'],
    ['a frame that is a list', `${HELLO}[1,"note"]\n`, 'INVALID_FRAME'],
    ['a frame that is a number', `${HELLO}42\n`, 'INVALID_FRAME'],
    ['a call without an id', `${HELLO}{"method":"note"}\n`, 'INVALID_FRAME'],
    ['a call whose id is text', `${HELLO}{"id":"1","method":"note"}\n`, 'INVALID_FRAME'],
    ['a call whose id is no safe integer', `${HELLO}{"id":9007199254740993,"method":"note"}\n`, 'INVALID_FRAME'],
    ['a call without a method', `${HELLO}{"id":1}\n`, 'INVALID_FRAME'],
    ['a call whose method is a list', `${HELLO}{"id":1,"method":["note"]}\n`, 'INVALID_FRAME'],
    ['a call whose params are a list', `${HELLO}{"id":1,"method":"note","params":[]}\n`, 'INVALID_FRAME'],
    ['a call whose params are null', `${HELLO}{"id":1,"method":"note","params":null}\n`, 'INVALID_FRAME'],
    ['a call whose params are text', `${HELLO}{"id":1,"method":"note","params":"x"}\n`, 'INVALID_FRAME'],
  ];

  it.each(faults)('of %s gets a typed error and the end of the connection', async (_, sent, code) => {
    let notes = 0;
    await serve({ note: () => ++notes });
    const raw = await open();
    raw.socket.write(sent);
    const frames = await raw.closed;
    expect(frames.slice(1)).toEqual([{ id: -1, error: expect.objectContaining({ code }) }]);
    expect(notes).toBe(0);
    expect(await (await connect()).call('note')).toBe(1);
  });

  it('names both sides’ versions when they do not meet', async () => {
    await serve({});
    const raw = await open();
    raw.socket.write('{"hello":{"min":2,"max":9}}\n');
    const [, refusal] = await raw.closed;
    expect(refusal).toMatchObject({
      error: { code: 'PROTOCOL_MISMATCH', details: { ours: { min: 1, max: 1 }, theirs: { min: 2, max: 9 } } },
    });
  });

  it('may offer later versions too, as long as this one is among them', async () => {
    await serve({ echo: (params) => params });
    const raw = await open();
    raw.socket.write('{"hello":{"min":0,"max":99}}\n{"id":1,"method":"echo","params":{"a":1}}\n');
    await raw.next();
    expect(await raw.next()).toEqual({ id: 1, result: { a: 1 } });
  });

  it.each([
    ['a line that is not JSON', `${HELLO}oops\n`],
    ['a frame that is no call', `${HELLO}[]\n`],
    ['a hello of another version', `{"hello":{"min":2,"max":2}}\n${HELLO}`],
    ['a hello without versions', `{}\n${HELLO}`],
  ])('after %s is not carried out any more', async (_, sent) => {
    let notes = 0;
    await serve({ note: () => ++notes });
    const raw = await open();
    raw.socket.write(`${sent}{"id":1,"method":"note"}\n`);
    await raw.closed;
    expect(notes).toBe(0);
  });

  it('that says no hello in time is ended with INVALID_FRAME', async () => {
    await serve({}, { helloMs: 30 });
    const silent = await open();
    const half = await open();
    half.socket.write(HELLO.slice(0, -1));
    for (const frames of await Promise.all([silent.closed, half.closed])) {
      expect(frames[1]).toMatchObject({ id: -1, error: { code: 'INVALID_FRAME' } });
    }
  });

  it('does not count a connection that said hello as late', async () => {
    await serve({ echo: (params) => params }, { helloMs: 30 });
    const patient = await connect();
    const silent = await open();
    await silent.closed;
    expect(await patient.call('echo', { a: 1 })).toEqual({ a: 1 });
  });

  it('of a line past the limit, in pieces, is ended with INVALID_FRAME', async () => {
    await serve({ echo: (params) => params });
    const raw = await open();
    raw.socket.write(`${HELLO}{"id":1,"method":"echo","params":{"x":"`);
    const piece = 'x'.repeat(1_048_576);
    for (let sent = 0; sent <= MAX_FRAME_CHARS; sent += piece.length) raw.socket.write(piece);
    const frames = await raw.closed;
    expect(frames.slice(1)).toEqual([{ id: -1, error: expect.objectContaining({ code: 'INVALID_FRAME' }) }]);
    expect(await (await connect()).call('echo', { a: 1 })).toEqual({ a: 1 });
  });

  it('stops short of a line that is just as long as the limit allows', async () => {
    await serve({ measure: ({ x }) => (x as string).length });
    const raw = await open();
    const start = '{"id":1,"method":"measure","params":{"x":"';
    const room = MAX_FRAME_CHARS - start.length - 3;
    raw.socket.write(`${HELLO}${start}${'x'.repeat(room)}"}}\n`);
    await raw.next();
    expect(await raw.next()).toEqual({ id: 1, result: room });
  });

  it('is not what comes one byte at a time', async () => {
    await serve({ echo: (params) => params });
    const raw = await open();
    raw.socket.setNoDelay(true);
    const bytes = Buffer.from(`${HELLO}\n\n{"id":1,"method":"echo","params":{"text":"ü🌍"}}\n`);
    for (const byte of bytes) await new Promise((resolve) => raw.socket.write(Uint8Array.of(byte), resolve));
    await raw.next();
    expect(await raw.next()).toEqual({ id: 1, result: { text: 'ü🌍' } });
  });

  it('is not what comes all at once', async () => {
    await serve({ echo: ({ n }) => n });
    const raw = await open();
    const calls = Array.from({ length: 200 }, (_, n) => `{"id":${n},"method":"echo","params":{"n":${n}}}\n`);
    raw.socket.write(HELLO + calls.join(''));
    await raw.next();
    for (let n = 0; n < 200; n++) expect(await raw.next()).toEqual({ id: n, result: n });
  });

  it('on 300 connections leaves the server serving', async () => {
    await serve({ echo: (params) => params });
    const garbage = Array.from({ length: 300 }, (_, n) => {
      const socket = createConnection(path);
      socket.on('error', () => {});
      const closed = closing(socket);
      socket.resume();
      socket.write(n % 3 === 0 ? HELLO : '');
      socket.write(`${'\u0007}{'.repeat(n + 1)}\n`);
      return closed;
    });
    await Promise.all(garbage);
    expect(await (await connect()).call('echo', { a: 1 })).toEqual({ a: 1 });
  });

  it('of any bytes leaves the server serving', async () => {
    await serve({ echo: (params) => params });
    let lines = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.array(fc.uint8Array({ maxLength: 200 }), { minLength: 1, maxLength: 12 }),
        async (greets, garbage) => {
          const socket = createConnection(path);
          socket.on('error', () => {});
          const closed = closing(socket);
          socket.resume();
          if (greets) socket.write(HELLO);
          for (const bytes of garbage) socket.write(Buffer.concat([bytes, Buffer.from('\n')]));
          socket.end();
          lines += garbage.length;
          await closed;
        },
      ),
      { numRuns: 600 },
    );
    expect(lines).toBeGreaterThanOrEqual(2_000);
    expect(await (await connect()).call('echo', { a: 1 })).toEqual({ a: 1 });
  });

  it('of any JSON after the hello is answered with frames of the protocol only', async () => {
    await serve({ echo: (params) => params });
    const frame = fc.oneof(
      fc.jsonValue(),
      fc.record(
        {
          id: fc.oneof(fc.integer(), fc.jsonValue()),
          method: fc.oneof(fc.constantFrom('echo', '__proto__', 'constructor', 'then'), fc.jsonValue()),
          params: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()),
        },
        { requiredKeys: [] },
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { maxLength: 5 }), async (frames) => {
        const raw = await open();
        raw.socket.end(HELLO + frames.map((sent) => `${JSON.stringify(sent)}\n`).join(''));
        const [hello, ...answers] = (await raw.closed) as Record<string, unknown>[];
        expect(hello).toMatchObject(IDENTITY);
        for (const { id, error, ...rest } of answers) {
          expect(Number.isSafeInteger(id)).toBe(true);
          if (error === undefined) expect(Object.keys(rest)).toEqual(['result']);
          else expect((error as EclipticError).code).toSatisfy(isErrorCode);
        }
      }),
      { numRuns: 300 },
    );
    expect(await (await connect()).call('echo', { a: 1 })).toEqual({ a: 1 });
  });
});

describe('the limits', () => {
  it('let no more connections in than configured, and the next one when another has left', async () => {
    await serve({ echo: (params) => params }, { connections: 3 });
    const clients = [await connect(), await connect(), await connect()];
    await expect(ControlClient.connect(path)).rejects.toSatisfy(coded('NO_NODE'));
    for (const client of clients) expect(await client.call('echo', { a: 1 })).toEqual({ a: 1 });
    clients[0]!.close();
    await clients[0]!.closed;
    expect(await (await connect()).call('echo', { a: 1 })).toEqual({ a: 1 });
  });

  it('end a connection with too many calls under way as QUEUE_FULL, and no other', async () => {
    const aborted = newGate();
    await serve(
      {
        hang: (_, { signal }) => {
          signal.addEventListener('abort', () => aborted.open('aborted'));
          return newGate().passed;
        },
        quick: () => 'quick',
      },
      { callsPerConnection: 2 },
    );
    const other = await connect();
    const greedy = await connect();
    const calls = [greedy.call('hang'), greedy.call('hang'), greedy.call('hang')];
    for (const call of calls) await expect(call).rejects.toSatisfy(coded('QUEUE_FULL'));
    await greedy.closed;
    expect(await aborted.passed).toBe('aborted');
    expect(await other.call('quick')).toBe('quick');
  });

  it('count only the calls that are under way', async () => {
    await serve({ quick: () => 'quick' }, { callsPerConnection: 1 });
    const client = await connect();
    for (let n = 0; n < 20; n++) expect(await client.call('quick')).toBe('quick');
  });
});

describe('the client', () => {
  it('says NO_NODE where there is no socket', async () => {
    await expect(ControlClient.connect(path)).rejects.toSatisfy(coded('NO_NODE'));
  });

  it('says NO_NODE where a dead process left its socket', async () => {
    const left = createServer().listen(join(folder, 'first.sock'));
    await once(left, 'listening');
    renameSync(join(folder, 'first.sock'), path);
    left.close();
    await once(left, 'close');
    expect(existsSync(path)).toBe(true);
    await expect(ControlClient.connect(path)).rejects.toSatisfy(coded('NO_NODE'));
  });

  it('says NO_NODE when the other side closes without a word', async () => {
    await pretend((socket) => socket.end());
    await expect(ControlClient.connect(path)).rejects.toSatisfy(coded('NO_NODE'));
  });

  it('says DATA_FOLDER where a socket cannot be', async () => {
    writeFileSync(path, '');
    await expect(ControlClient.connect(join(path, 'control.sock'))).rejects.toSatisfy(coded('DATA_FOLDER'));
  });

  it('refuses a node of another protocol version as PROTOCOL_MISMATCH', async () => {
    await pretend((socket) => socket.write('{"hello":{"min":2,"max":3},"node":"x","pid":1,"version":"9"}\n'));
    const error = await ControlClient.connect(path).catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'PROTOCOL_MISMATCH', details: { theirs: { min: 2, max: 3 } } });
  });

  it.each(['HTTP/1.1 400 Bad Request\r\n\r\n', '{}\n', 'null\n', '[]\n', '{"hello":1}\n'])(
    'refuses somebody who greets with %j as INVALID_FRAME',
    async (greeting) => {
      await pretend((socket) => socket.write(greeting));
      await expect(ControlClient.connect(path)).rejects.toSatisfy(coded('INVALID_FRAME'));
    },
  );

  it.each(['oops\n', 'null\n', '7\n', '"text"\n'])(
    'rejects its calls with INVALID_FRAME when the node answers with %j',
    async (answer) => {
      await pretend((socket) => {
        socket.write('{"hello":{"min":1,"max":1},"node":"x","pid":1,"version":"9"}\n');
        socket.on('data', (data) => String(data).includes('method') && socket.write(answer));
      });
      const client = await connectRaw(path);
      expect(await unlessItCrashes(client.call('anything'))).toSatisfy(coded('INVALID_FRAME'));
    },
  );

  it('takes an error code it does not know as INVALID_FRAME', async () => {
    await pretend((socket) => {
      socket.write('{"hello":{"min":1,"max":1},"node":"x","pid":1,"version":"9"}\n');
      const answer = '{"id":1,"error":{"code":"NEVER_HEARD_OF","message":"?"}}\n';
      socket.on('data', (data) => String(data).includes('method') && socket.write(answer));
    });
    const client = await connectRaw(path);
    await expect(client.call('anything')).rejects.toSatisfy(coded('INVALID_FRAME'));
  });

  it('rejects calls under way with NO_NODE when the node dies', async () => {
    await pretend((socket) => {
      socket.write('{"hello":{"min":1,"max":1},"node":"x","pid":1,"version":"9"}\n');
      socket.on('data', (data) => String(data).includes('method') && socket.destroy());
    });
    const client = await connectRaw(path);
    await expect(client.call('anything')).rejects.toSatisfy(coded('NO_NODE'));
    await client.closed;
    await expect(client.call('anything')).rejects.toSatisfy(coded('NO_NODE'));
  });
});

describe('the end of the server', () => {
  it('lets calls under way finish and refuses new ones with NODE_STOPPED', async () => {
    const gate = newGate();
    const server = await serve({ slow: () => gate.passed, quick: () => 'quick' });
    const client = await connect();
    const slow = client.call('slow');
    expect(await client.call('quick')).toBe('quick');
    server.refuse();
    await expect(client.call('quick')).rejects.toSatisfy(coded('NODE_STOPPED'));
    gate.open('finished');
    expect(await slow).toBe('finished');
  });

  it('takes the socket file away at once, so that nobody new comes', async () => {
    const server = await serve({});
    server.refuse();
    expect(existsSync(path)).toBe(false);
    await expect(ControlClient.connect(path)).rejects.toSatisfy(coded('NO_NODE'));
  });

  it('leaves no connection, no subscription and no socket file', async () => {
    const ended = newGate();
    const server = await serve({
      follow: (_, { emit, signal }) => {
        signal.addEventListener('abort', () => ended.open('ended'));
        emit('first');
        return newGate().passed;
      },
    });
    const idle = await connect();
    const follower = await connect();
    const first = newGate();
    const following = follower.call('follow', {}, (event) => first.open(event)).catch((error) => error);
    await first.passed;
    await server.close();
    await Promise.all([idle.closed, follower.closed]);
    expect(await following).toSatisfy(coded('NO_NODE'));
    expect(await ended.passed).toBe('ended');
    expect(existsSync(path)).toBe(false);
  });

  it('does not wait for a connection that never closes its end', async () => {
    const server = await serve({});
    const stubborn = createConnection({ path, allowHalfOpen: true });
    stubborn.on('error', () => {});
    cleanUps.push(() => stubborn.destroy());
    await once(stubborn, 'data');
    await server.close();
    expect(existsSync(path)).toBe(false);
  });

  it('can be asked for twice', async () => {
    const server = await serve({});
    await server.close();
    await server.close();
    expect(existsSync(path)).toBe(false);
  });
});

describe('the socket', () => {
  it('is its owner’s only, whatever the process’s umask, which stays as it was', async () => {
    const before = process.umask(0);
    try {
      await serve({});
      expect(process.umask()).toBe(0);
    } finally {
      process.umask(before);
    }
    expect(statSync(path).isSocket()).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it.skipIf(!asRoot)('does not let another user’s process in', async () => {
    chmodSync(folder, 0o755);
    await serve({});
    const script = `require('node:net').createConnection(process.argv[1])
      .on('connect', function () { console.log('connected'); this.destroy(); })
      .on('error', (error) => console.log(error.code));`;
    const attempt = (user: object) => {
      const child = spawn(process.execPath, ['-e', script, path], { cwd: '/', ...user });
      return text(child.stdout);
    };
    expect((await attempt({})).trim()).toBe('connected');
    expect((await attempt({ uid: 65534, gid: 65534 })).trim()).toBe('EACCES');
  });

  it('that another server holds is refused as DATA_FOLDER, and stays that server’s', async () => {
    await serve({ who: () => 'the first' });
    const second = new ControlServer({ runtime: systemRuntime(), methods: {}, identity: IDENTITY });
    await expect(second.listen(path)).rejects.toSatisfy(coded('DATA_FOLDER'));
    await second.close();
    expect(await (await connect()).call('who')).toBe('the first');
  });
});

async function serve(methods: Record<string, ControlMethod>, init?: ControlServerInit): Promise<ControlServer> {
  const server = new ControlServer({ runtime: systemRuntime(), methods, identity: IDENTITY }, init);
  await server.listen(path);
  cleanUps.push(() => server.close());
  return server;
}

async function connect(): Promise<RawClient> {
  const client = await connectRaw(path);
  cleanUps.push(() => client.close());
  return client;
}

/** Somebody else's server on the socket. */
async function pretend(greet: (socket: Socket) => unknown): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    greet(socket);
  });
  server.listen(path);
  await once(server, 'listening');
  cleanUps.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
}

interface RawConnection {
  readonly socket: Socket;
  /** The next frame. */
  next(): Promise<unknown>;
  /** Every frame, once the connection has ended. */
  readonly closed: Promise<unknown[]>;
}

async function open(): Promise<RawConnection> {
  const socket = createConnection(path);
  socket.on('error', () => {});
  cleanUps.push(() => socket.destroy());
  const frames: unknown[] = [];
  const arrived: ((frame: unknown) => void)[] = [];
  let taken = 0;
  createInterface({ input: socket }).on('line', (line) => {
    const frame = JSON.parse(line);
    frames.push(frame);
    const waiting = arrived.shift();
    if (!waiting) return;
    taken++;
    waiting(frame);
  });
  return {
    socket,
    next: () => (taken < frames.length ? Promise.resolve(frames[taken++]) : new Promise((take) => arrived.push(take))),
    closed: closing(socket).then(() => frames),
  };
}

function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

interface Gate {
  readonly passed: Promise<unknown>;
  open(value: unknown): void;
}

function newGate(): Gate {
  let open!: (value: unknown) => void;
  const passed = new Promise((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

/** What the promise rejects with, or what would have ended the process meanwhile. */
async function unlessItCrashes(work: Promise<unknown>): Promise<unknown> {
  const crash = newGate();
  const events = ['uncaughtException', 'unhandledRejection'] as const;
  const others = events.map((event) => process.listeners(event as 'uncaughtException'));
  for (const event of events) process.removeAllListeners(event).on(event, (error) => crash.open({ crash: error }));
  const outcome = await Promise.race([work.catch((error) => error), crash.passed]);
  for (const [at, event] of events.entries()) {
    process.removeAllListeners(event);
    for (const listener of others[at]!) process.on(event, listener);
  }
  return outcome;
}

function cyclic(): Record<string, unknown> {
  const value: Record<string, unknown> = {};
  value.self = value;
  return value;
}

function coded(code: ErrorCode): (error: unknown) => boolean {
  return (error) => error instanceof EclipticError && error.code === code;
}
