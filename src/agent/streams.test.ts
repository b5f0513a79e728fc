import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { A2ALogEvent, A2AMessageType } from '../mesh/schemas.js';
import { createNode, type NodeInit } from '../node/compose.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { Agent } from './agent.js';
import { STREAM_WINDOW, type StreamReader } from './streams.js';

describe('an answer that is a stream', () => {
  it('yields the generator’s items in order, and ends', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(async function* ({ payload }) {
      yield `you said ${payload}`;
      yield { n: 1 };
      yield null;
    });
    expect(await collect(alice.stream('bob', 'hello'))).toEqual({ chunks: ['you said hello', { n: 1 }, null] });
  });

  it('may be empty', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(() => numbers(0));
    expect(await collect(alice.stream('bob', null))).toEqual({ chunks: [] });
  });

  it('may be promised first', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(async () => numbers(3));
    expect(await collect(alice.stream('bob', null))).toEqual({ chunks: [0, 1, 2] });
  });

  it('comes from an agent that offers a capability, and by full address too', async () => {
    const { node, alice } = await start(['alice']);
    node.agent({ id: 'counter', capabilities: ['count'] }).onRequest(() => numbers(1_000));
    for (const to of [{ capability: 'count' }, 'counter', `counter@${node.key}`]) {
      expect(await collect(alice.stream(to, null))).toEqual({ chunks: [...Array(1_000).keys()] });
    }
  });

  it('comes back to an agent whose tier the producer may not address', async () => {
    const { alice, earth } = await start(['alice', 'earth']);
    earth.onRequest(() => numbers(1_000));
    expect((await collect(alice.stream('earth', null))).chunks).toHaveLength(1_000);
  });

  it('brings ten thousand chunks whole and in order to a slow reader, never more than the window ahead of it', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob']);
    let produced = 0;
    let sent = 0;
    let read = 0;
    const ahead = { sent: 0, produced: 0 };
    const measure = () => {
      ahead.sent = Math.max(ahead.sent, sent - read);
      ahead.produced = Math.max(ahead.produced, produced - read);
    };
    bob.onRequest(async function* () {
      for (; produced < 10_000; ) {
        produced++;
        measure();
        yield produced - 1;
      }
    });
    events.listen((event) => {
      if (event.type !== 'message-sent' || event.messageType !== 'stream-data' || event.sender !== 'bob') return;
      sent++;
      measure();
    });
    const chunks: unknown[] = [];
    const reading = (async () => {
      for await (const chunk of alice.stream('bob', null)) {
        chunks.push(chunk);
        read++;
        if (read % 3 === 0) await pause(runtime, 1);
      }
    })();
    await runtime.runUntilIdle();
    await reading;
    expect(chunks).toEqual([...Array(10_000).keys()]);
    expect(ahead.sent).toBeLessThanOrEqual(STREAM_WINDOW);
    expect(ahead.sent).toBeGreaterThan(STREAM_WINDOW / 2);
    expect(ahead.produced).toBeLessThanOrEqual(STREAM_WINDOW + 1);
  });

  it('keeps many streams between the same two agents apart', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async function* ({ payload }) {
      for (let n = 0; n < 300; n++) {
        if (n % 50 === 0) await pause(runtime, 1);
        yield [payload, n];
      }
    });
    const all = Promise.all([...Array(20).keys()].map((id) => collect(alice.stream('bob', id))));
    await runtime.advance(10);
    const results = await all;
    expect(results).toEqual(
      [...Array(20).keys()].map((id) => ({ chunks: [...Array(300).keys()].map((n) => [id, n]) })),
    );
  });

  it('lasts as long as its reader goes on reading, however slowly', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(() => numbers(600));
    let read = 0;
    const reading = outcome(
      (async () => {
        for await (const chunk of alice.stream('bob', null)) {
          expect(chunk).toBe(read++);
          await pause(runtime, 1_000);
        }
      })(),
    );
    await runtime.runUntilIdle();
    expect(await reading).toEqual({});
    expect(read).toBe(600);
  });

  it('stops its generator when the reader leaves the loop', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onRequest(() => source.iterable);
    const chunks: unknown[] = [];
    for await (const chunk of alice.stream('bob', null)) {
      chunks.push(chunk);
      if (chunks.length === 3) break;
    }
    await runtime.advance(0);
    expect(chunks).toEqual([0, 1, 2]);
    expect(source.ended()).toBe(true);
    expect(failures(events.seen)).toEqual([]);
  });

  it('stops its generator when the reader is closed before it read anything', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onRequest(() => source.iterable);
    const reader = alice.stream('bob', null);
    await reader.return();
    await runtime.advance(0);
    expect(source.ended()).toBe(true);
    expect(await reader.next()).toEqual({ value: undefined, done: true });
  });

  it('stops its generator when the reader leaves before the producer began', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onRequest(async () => {
      await pause(runtime, 100);
      return source.iterable;
    });
    const reader = alice.stream('bob', null);
    await reader.return();
    await runtime.advance(100);
    expect(source.produced()).toBeLessThan(STREAM_WINDOW);
    expect(source.ended()).toBe(true);
  });

  it('settles a step that still waits when the reader is closed', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async function* () {
      await new Promise(() => {});
      yield 1;
    });
    const reader = alice.stream('bob', null);
    const seen: unknown[] = [];
    void reader.next().then((step) => seen.push(step));
    await reader.return();
    await runtime.advance(0);
    expect(seen).toEqual([{ value: undefined, done: true }]);
  });

  it('gives the reader the chunks and then the typed error when its generator throws', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob']);
    bob.onRequest(async function* ({ payload }) {
      yield 1;
      yield 2;
      if (payload === 'typed') throw new EclipticError('CAPABILITY_NOT_FOUND', 'no', { tool: 'x' });
      throw new Error('out of paper');
    });
    const plain = collect(alice.stream('bob', 'plain'));
    await runtime.advance(0);
    expect(await plain).toEqual({ chunks: [1, 2], code: 'HANDLER_FAILED' });
    const typed = alice.stream('bob', 'typed');
    await runtime.advance(0);
    expect(await collect(typed)).toEqual({ chunks: [1, 2], code: 'CAPABILITY_NOT_FOUND' });
    expect(failures(events.seen).map(({ recipient, code }) => [recipient, code])).toEqual([
      ['bob', 'HANDLER_FAILED'],
      ['bob', 'CAPABILITY_NOT_FOUND'],
    ]);
  });

  it('ends with a typed error at a chunk that is not JSON, and stops its generator', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(
      (async function* () {
        yield 1;
        yield () => {};
        yield 3;
      })(),
    );
    bob.onRequest(() => source.iterable);
    const result = collect(alice.stream('bob', null));
    await runtime.advance(0);
    expect(await result).toEqual({ chunks: [1], code: 'INVALID_ENVELOPE' });
    expect(source.ended()).toBe(true);
  });

  it('fails after the idle time when its producer falls silent, and not before', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async function* () {
      yield 1;
      await pause(runtime, 900);
      yield 2;
      await pause(runtime, 1_100);
      yield 3;
    });
    const result = collect(alice.stream('bob', null, { timeoutMs: 1_000 }));
    await runtime.advance(1_899);
    let over = false;
    void result.then(() => {
      over = true;
    });
    await runtime.advance(0);
    expect(over).toBe(false);
    await runtime.advance(1);
    expect(await result).toEqual({ chunks: [1, 2], code: 'REQUEST_TIMEOUT' });
  });

  it('stops its generator after the reader gave up waiting', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(
      (async function* () {
        yield 1;
        await pause(runtime, 2_000);
        for (;;) yield 2;
      })(),
    );
    bob.onRequest(() => source.iterable);
    const result = collect(alice.stream('bob', null, { timeoutMs: 1_000 }));
    await runtime.advance(2_000);
    expect(await result).toEqual({ chunks: [1], code: 'REQUEST_TIMEOUT' });
    expect(source.produced()).toBeLessThan(STREAM_WINDOW);
    expect(source.ended()).toBe(true);
  });

  it('waits thirty seconds for a reader that never reads, then stops its generator and says so', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onRequest(() => source.iterable);
    alice.stream('bob', null, { timeoutMs: 600_000 });
    await runtime.advance(29_999);
    expect(source.ended()).toBe(false);
    expect(source.produced()).toBeLessThanOrEqual(STREAM_WINDOW + 1);
    await runtime.advance(1);
    expect(source.ended()).toBe(true);
    expect(failures(events.seen)).toMatchObject([{ recipient: 'bob', code: 'REQUEST_TIMEOUT' }]);
  });

  it('is cancelled by its signal: the reader gets CANCELLED and the generator stops', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(
      (async function* () {
        for (let n = 0; ; n++) {
          yield n;
          await pause(runtime, 10);
        }
      })(),
    );
    bob.onRequest(() => source.iterable);
    const controller = new AbortController();
    const result = collect(alice.stream('bob', null, { signal: controller.signal }));
    await runtime.advance(25);
    controller.abort();
    await runtime.advance(10);
    expect(await result).toEqual({ chunks: [0, 1, 2], code: 'CANCELLED' });
    expect(source.ended()).toBe(true);
  });

  it('is not even asked for when its signal was aborted before', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    let asked = false;
    bob.onRequest(() => {
      asked = true;
      return numbers(3);
    });
    const reader = alice.stream('bob', null, { signal: AbortSignal.abort() });
    await runtime.advance(0);
    expect(await collect(reader)).toEqual({ chunks: [], code: 'CANCELLED' });
    expect(asked).toBe(false);
  });

  it('lets go of its signal when it is over', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(() => numbers(3));
    const controller = new AbortController();
    await collect(alice.stream('bob', null, { signal: controller.signal }));
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('fails a plain request as STREAM_ANSWER, and stops its generator', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onRequest(() => source.iterable);
    expect(await outcome(alice.request('bob', null))).toMatchObject({ code: 'STREAM_ANSWER' });
    await runtime.advance(0);
    expect(source.ended()).toBe(true);
    expect(source.produced()).toBeLessThanOrEqual(1);
    expect(failures(events.seen)).toEqual([]);
  });

  it('is one item long when the answer is a plain one', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(() => 'just this');
    expect(await collect(alice.stream('bob', null))).toEqual({ chunks: ['just this'] });
  });

  it('is read as the error it is when the request fails', async () => {
    const { alice, bob } = await start(['alice', 'bob', 'carol']);
    bob.onRequest(() => {
      throw new Error('no');
    });
    expect(await collect(alice.stream('bob', null))).toEqual({ chunks: [], code: 'HANDLER_FAILED' });
    expect(await collect(alice.stream('carol', null))).toEqual({ chunks: [], code: 'NO_WORKER' });
    expect(await collect(alice.stream('nobody', null))).toEqual({ chunks: [], code: 'AGENT_NOT_FOUND' });
    expect(await collect(alice.stream('bob', () => {}))).toEqual({ chunks: [], code: 'INVALID_ENVELOPE' });
  });

  it('is refused to an agent that asks itself', async () => {
    const { alice } = await start(['alice']);
    const source = observed(numbers(3));
    alice.onRequest(() => source.iterable);
    expect(await collect(alice.stream('alice', null))).toEqual({ chunks: [], code: 'INVALID_ENVELOPE' });
    expect(source.produced()).toBe(0);
  });

  it('is read one step at a time', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async function* () {
      await pause(runtime, 10);
      yield 1;
    });
    const reader = alice.stream('bob', null);
    const first = reader.next();
    expect(await outcome(reader.next())).toMatchObject({ code: 'INVALID_TRANSITION' });
    await runtime.advance(10);
    expect(await first).toEqual({ value: 1, done: false });
  });

  it('leaves nothing behind when it is over: no conversation that waits, no timer that fires', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(() => numbers(1_000));
    expect((await collect(alice.stream('bob', null))).chunks).toHaveLength(1_000);
    expect(node.threads.waiting).toBe(0);
    await runtime.advance(60_000);
    expect(runtime.pending).toBe(0);
  });
});

describe('a stream sent to another agent', () => {
  it.each<[string, () => AsyncIterable<unknown> | Iterable<unknown>]>([
    ['an async generator', () => numbers(1_000)],
    ['an array', () => [...Array(1_000).keys()]],
  ])('arrives whole and in order from %s', async (_, source) => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const results: unknown[] = [];
    bob.onStream(async (stream, message) => {
      results.push([message.from, message.type, await collect(stream)]);
    });
    const sent = outcome(alice.sendStream('bob', source()));
    await runtime.advance(0);
    expect(await sent).toEqual({});
    expect(results).toEqual([['alice', 'stream-start', { chunks: [...Array(1_000).keys()] }]]);
  });

  it('arrives whole by full address too', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    const results: Collected[] = [];
    bob.onStream(async (stream) => void results.push(await collect(stream)));
    const sent = outcome(alice.sendStream(`bob@${node.key}`, numbers(1_000)));
    await runtime.advance(60_000);
    expect(await sent).toEqual({});
    expect(results).toEqual([{ chunks: [...Array(1_000).keys()] }]);
  });

  it('never runs more than the window ahead of a slow reader', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(numbers(2_000));
    let read = 0;
    let ahead = 0;
    bob.onStream(async (stream) => {
      for await (const chunk of stream) {
        expect(chunk).toBe(read++);
        ahead = Math.max(ahead, source.produced() - read);
        await pause(runtime, 5);
      }
    });
    const sent = outcome(alice.sendStream('bob', source.iterable));
    await runtime.runUntilIdle();
    expect(await sent).toEqual({});
    expect(read).toBe(2_000);
    expect(ahead).toBeLessThanOrEqual(STREAM_WINDOW + 1);
    expect(ahead).toBeGreaterThan(STREAM_WINDOW / 2);
  });

  it('stops when the reader leaves the loop: the sender gets CANCELLED and its generator ends', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onStream(async (stream) => {
      for await (const chunk of stream) if (chunk === 5) break;
    });
    const sent = outcome(alice.sendStream('bob', source.iterable));
    await runtime.advance(0);
    expect(source.ended()).toBe(true);
    expect(await sent).toMatchObject({ code: 'CANCELLED' });
  });

  it('tells a sandboxed sender the same of an agent outside and of none [T-F14]', async () => {
    const { node, alice } = await start(['alice', 'hidden']);
    const boxed = node.agent({ id: 'boxed', sandbox: 'lab' });
    const told = async (to: string) => {
      const error = await boxed.sendStream(to, [1]).catch((thrown: EclipticError) => thrown);
      return JSON.parse(JSON.stringify(error).replaceAll(to, 'NAME'));
    };
    const unknown = await told('unknown');
    expect(unknown).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(await told('hidden')).toEqual(unknown);
    expect(await told(`hidden@${node.key}`)).toEqual(await told(`unknown@${node.key}`));
    expect(await outcome(alice.sendStream('unknown', [1]))).toMatchObject({ code: 'AGENT_NOT_FOUND' });
  });

  it('gives the reader the chunks and then a typed error when the source throws', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const results: Collected[] = [];
    bob.onStream(async (stream) => void results.push(await collect(stream)));
    const failing = (async function* () {
      yield 1;
      throw new EclipticError('CAPABILITY_NOT_FOUND', 'no');
    })();
    expect(await outcome(alice.sendStream('bob', failing))).toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
    await runtime.advance(0);
    expect(results).toEqual([{ chunks: [1], code: 'CAPABILITY_NOT_FOUND' }]);
  });

  it('fails as REQUEST_TIMEOUT, and its generator ends, when the reader never reads', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onStream(() => new Promise(() => {}));
    const source = observed(endless());
    const sent = outcome(alice.sendStream('bob', source.iterable));
    await runtime.advance(30_000);
    expect(source.ended()).toBe(true);
    expect(source.produced()).toBeLessThanOrEqual(STREAM_WINDOW + 1);
    expect(await sent).toMatchObject({ code: 'REQUEST_TIMEOUT' });
  });

  it('fails with the reason when it cannot be sent, and takes nothing from its source', async () => {
    const { node, alice, earth } = await start(['alice', 'earth']);
    const boxed = node.agent({ id: 'boxed', sandbox: 'lab' });
    const attempts: [Agent, string, string][] = [
      [alice, 'nobody', 'AGENT_NOT_FOUND'],
      [earth, 'alice', 'TIER_VIOLATION'],
      [boxed, 'alice', 'SANDBOX_VIOLATION'],
    ];
    for (const [from, to, code] of attempts) {
      const source = observed(numbers(3));
      expect(await outcome(from.sendStream(to, source.iterable))).toMatchObject({ code });
      expect(source.produced()).toBe(0);
    }
  });

  it('is refused to an agent that addresses itself, by id or by full address', async () => {
    const { node, alice } = await start(['alice']);
    alice.onStream(async (stream) => void (await collect(stream)));
    expect(await outcome(alice.sendStream('alice', [1]))).toMatchObject({ code: 'INVALID_ENVELOPE' });
    expect(await outcome(alice.sendStream(`alice@${node.key}`, [1]))).toMatchObject({ code: 'INVALID_ENVELOPE' });
  });

  it('is reported as NOT_HANDLED when it begins outside of a thread', async () => {
    const { alice, bob, events } = await start(['alice', 'bob']);
    bob.onStream(() => {});
    await alice.send('bob', null, { type: 'stream-start' });
    expect(failures(events.seen)).toMatchObject([{ recipient: 'bob', code: 'NOT_HANDLED' }]);
  });

  it('ends as QUEUE_FULL for the reader when its producer ignores the window', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const results: Promise<Collected>[] = [];
    const gate = pause(runtime, 1_000);
    bob.onStream((stream) => void results.push(gate.then(() => collect(stream))));
    await alice.send('bob', null, { type: 'stream-start', thread: 'flood' });
    for (let n = 0; n < 300; n++) await alice.send('bob', n, { type: 'stream-data', thread: 'flood' }).catch(() => {});
    await runtime.advance(1_000);
    expect(await results[0]).toEqual({ chunks: [...Array(STREAM_WINDOW).keys()], code: 'QUEUE_FULL' });
  });

  it('leaves no conversation waiting once it has been read', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onStream(async (stream) => void (await collect(stream)));
    await alice.sendStream('bob', [1, 2, 3]);
    await runtime.advance(0);
    expect(node.threads.waiting).toBe(0);
  });
});

describe('a stream and a third agent that knows its thread', () => {
  const parts: A2AMessageType[] = ['stream-start', 'stream-data', 'stream-end', 'error', 'response'];

  it.each(parts)('takes no %s from it, before or after the first true chunk', async (type) => {
    const { alice, bob, sun, runtime } = await start(['alice', 'bob', 'sun']);
    let thread: string | undefined;
    bob.onRequest(async function* (message) {
      thread = message.thread;
      await pause(runtime, 10);
      yield 'one';
      await pause(runtime, 10);
      yield 'two';
    });
    alice.onStream(() => {});
    const result = collect(alice.stream('bob', null));
    for (const ms of [5, 10, 10]) {
      await runtime.advance(ms);
      await sun.send('alice', 'forged', { type, thread });
    }
    await runtime.advance(30_000);
    expect(await result).toEqual({ chunks: ['one', 'two'] });
  });

  it.each(parts)('that was sent takes no %s from it', async (type) => {
    const { alice, bob, sun, runtime } = await start(['alice', 'bob', 'sun']);
    let thread: string | undefined;
    const results: Collected[] = [];
    bob.onStream(async (stream, message) => {
      if (message.from !== 'alice') return;
      thread = message.thread;
      results.push(await collect(stream));
    });
    const sent = outcome(
      alice.sendStream(
        'bob',
        (async function* () {
          yield 'one';
          await pause(runtime, 10);
          yield 'two';
        })(),
      ),
    );
    await runtime.advance(5);
    await sun.send('bob', 'forged', { type, thread });
    await runtime.advance(60_000);
    expect(await sent).toEqual({});
    expect(results).toEqual([{ chunks: ['one', 'two'] }]);
  });

  it.each(parts)('takes no advice to its producer, as %s, from it', async (type) => {
    const { alice, bob, sun, runtime } = await start(['alice', 'bob', 'sun']);
    let thread: string | undefined;
    bob.onStream(() => {});
    const source = observed(numbers(400));
    bob.onRequest((message) => {
      thread = message.thread;
      return source.iterable;
    });
    const reader = alice.stream('bob', null);
    await runtime.advance(0);
    await sun.send('bob', { credit: 100 }, { type, thread });
    await runtime.advance(0);
    expect(source.produced()).toBeLessThanOrEqual(STREAM_WINDOW + 1);
    expect(source.ended()).toBe(false);
    expect(await collect(reader)).toEqual({ chunks: [...Array(400).keys()] });
  });

  it('gives it none of another’s chunks when it asks the producer in the same thread', async () => {
    const { alice, bob, sun, runtime } = await start(['alice', 'bob', 'sun']);
    let thread: string | undefined;
    bob.onRequest(async function* (message) {
      thread ??= message.thread;
      for (let n = 0; n < 5; n++) {
        await pause(runtime, 10);
        yield `for ${message.from}`;
      }
    });
    const overheard: unknown[] = [];
    sun.onMessage(({ payload }) => void overheard.push(payload));
    const result = collect(alice.stream('bob', null));
    await runtime.advance(15);
    await sun.send('bob', null, { type: 'request', thread });
    await runtime.advance(60_000);
    expect(await result).toEqual({ chunks: Array(5).fill('for alice') });
    expect(overheard).not.toContain('for alice');
  });
});

describe('leaving during a stream', () => {
  it('as the reader ends the reading at once and the generator with its next chunk', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(
      (async function* () {
        for (let n = 0; ; n++) {
          yield n;
          await pause(runtime, 10);
        }
      })(),
    );
    bob.onRequest(() => source.iterable);
    const result = collect(alice.stream('bob', null));
    await runtime.advance(15);
    alice.leave();
    expect(await result).toEqual({ chunks: [0, 1], code: 'NODE_STOPPED' });
    await runtime.advance(10);
    expect(source.ended()).toBe(true);
  });

  it('as the reader of a full window ends the generator within the idle time', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onRequest(() => source.iterable);
    alice.stream('bob', null);
    await runtime.advance(0);
    alice.leave();
    await runtime.advance(30_000);
    expect(source.ended()).toBe(true);
  });

  it('as the producer ends the generator with its next chunk and the reading within the idle time', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(
      (async function* () {
        for (let n = 0; ; n++) {
          yield n;
          await pause(runtime, 10);
        }
      })(),
    );
    bob.onRequest(() => source.iterable);
    const result = collect(alice.stream('bob', null, { timeoutMs: 1_000 }));
    await runtime.advance(15);
    bob.leave();
    await runtime.advance(10);
    expect(source.ended()).toBe(true);
    await runtime.advance(1_000);
    expect(await result).toMatchObject({ chunks: [0, 1], code: expect.any(String) });
  });

  it('as the sender of a stream fails the sending as NODE_STOPPED', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onStream(() => new Promise(() => {}));
    const source = observed(endless());
    const sent = outcome(alice.sendStream('bob', source.iterable));
    await runtime.advance(0);
    alice.leave();
    await runtime.advance(0);
    expect(await sent).toMatchObject({ code: 'NODE_STOPPED' });
    expect(source.ended()).toBe(true);
  });

  it('ends both sides when the whole node stops', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    const source = observed(endless());
    bob.onRequest(() => source.iterable);
    const reader = alice.stream('bob', null);
    await runtime.advance(0);
    await node.stop();
    await runtime.advance(0);
    expect(source.ended()).toBe(true);
    expect(await collect(reader)).toMatchObject({ code: 'NODE_STOPPED' });
    expect(runtime.pending).toBe(0);
  });
});

interface Collected {
  chunks: unknown[];
  code?: string;
}

/** Reads a stream to its end: the chunks, and the code of the error it ended with, if it did. */
async function collect(stream: StreamReader): Promise<Collected> {
  const chunks: unknown[] = [];
  try {
    for await (const chunk of stream) chunks.push(chunk);
    return { chunks };
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    return { chunks, code: error.code };
  }
}

/** How a promise ended, without anything left unhandled while the clock stands still. */
function outcome<T>(promise: Promise<T>): Promise<{ value?: T; code?: string }> {
  return promise.then(
    (value) => (value === undefined ? {} : { value }),
    (error: unknown) => {
      if (!(error instanceof EclipticError)) throw error;
      return { code: error.code };
    },
  );
}

function pause(runtime: SimulatedRuntime, ms: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(resolve, ms);
  });
}

async function* numbers(count: number) {
  for (let n = 0; n < count; n++) yield n;
}

const endless = () => numbers(Number.POSITIVE_INFINITY);

/** The same items, with a count of those produced and whether the end was reached, by itself or by being stopped. */
function observed(source: AsyncIterable<unknown>) {
  let count = 0;
  let over = false;
  const iterable = (async function* () {
    try {
      for await (const item of source) {
        count++;
        yield item;
      }
    } finally {
      over = true;
    }
  })();
  return { iterable, produced: () => count, ended: () => over };
}

/** Everything that is not a success: handler errors and messages that did not arrive. */
function failures(events: readonly A2ALogEvent[]): A2ALogEvent[] {
  return events.filter(({ type }) => type === 'error' || type === 'delivery-failure');
}

/** A node on a simulated clock with agents of the given ids, and everything that happens on it from then on. */
async function start<Id extends string>(ids: readonly Id[] = [], init: NodeInit = {}) {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime, ...init });
  const agents = Object.fromEntries(ids.map((id) => [id, node.agent({ id })])) as Record<Id, Agent>;
  const seen: A2ALogEvent[] = [];
  node.observability.subscribe((event) => seen.push(event));
  const events = { seen, listen: (listener: (event: A2ALogEvent) => void) => node.observability.subscribe(listener) };
  return { ...agents, node, runtime, events };
}
