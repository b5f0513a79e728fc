import { describe, expect, it } from 'vitest';
import type { Network } from '../../network/peers/network.js';
import type { Item } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { Outcome } from '../server/operations.js';
import { edgeProtocol, type Question } from './edge-question.js';
import { type NumberedEvent, SharedWindow, StreamWindow } from './edge-stream.js';
import { OperationExchange } from './operation-exchange.js';

const QUESTION: Question = { operation: 'GetTask', params: { id: 'x' }, caller: 'alice', sandbox: null };
type Answer = (question: Question, onGone: (callback: () => void) => () => void) => Promise<Outcome>;

/** Two nodes, whose items arrive in order after a turn of the event loop. */
function pair(answer: Answer) {
  const runtime = new SimulatedRuntime({ seed: 3 });
  const exchanges = new Map<string, OperationExchange<Question>>();
  const state = { reachable: true, silent: false, owners: true, full: (_item: Item): boolean => false };
  const items: [from: string, verb: unknown][] = [];
  const make = (own: string, other: string, answers: Answer) => {
    const peers = {
      get: () => ({ conversing: true }),
      reachable: () => state.reachable,
      speaks: () => true,
      onRemoved: () => {},
      report: () => {},
      sendConfirmed: async (_node: string, text: string) => {
        if (state.silent) return new Promise<void>(() => {});
        await Promise.resolve();
        const item = JSON.parse(text) as Item;
        if (state.full(item)) throw new EclipticError('QUEUE_FULL', 'too many items wait for the other node already');
        items.push([own, item[1]]);
        exchanges.get(other)!.take(own, item);
      },
    };
    const network = { peers, isOwnerDevice: () => state.owners } as unknown as Network;
    exchanges.set(own, new OperationExchange({ runtime, network, answer: answers }, edgeProtocol(network)));
  };
  make('A', 'B', async () => ({ result: 'A' }));
  make('B', 'A', answer);
  const [a, b] = [exchanges.get('A')!, exchanges.get('B')!];
  return { runtime, a, b, state, items, turn: () => runtime.advance(1) };
}

const failure = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing',
    (error: EclipticError) => error.code,
  );

/** An endless task, and how many of its events were taken. */
function endless(text: string) {
  const taken = { count: 0, left: false };
  const events: AsyncIterator<NumberedEvent> = {
    async next() {
      taken.count++;
      return { done: false, value: { sequence: taken.count, event: { message: text } as never } };
    },
    async return() {
      taken.left = true;
      return { done: true, value: undefined };
    },
  };
  return { taken, answer: async (): Promise<Outcome> => ({ stream: { taskId: 't', events } }) };
}

describe('questions between the owner’s nodes', () => {
  it('are answered, or fail with the code of the other node [EG.2]', async () => {
    const { a } = pair(async ({ params }) => {
      if ((params as { id: string }).id !== 'x') throw new EclipticError('TASK_NOT_FOUND', 'none');
      return { result: { id: 'x' } };
    });
    expect(await a.ask('B', QUESTION, {})).toEqual({ result: { id: 'x' } });
    expect(await failure(a.ask('B', { ...QUESTION, params: { id: 'y' } }, {}))).toBe('TASK_NOT_FOUND');
  });

  it('fail after their deadline, at once when the node is away, and when it is lost in the middle [EG.5]', async () => {
    const gone: string[] = [];
    const { runtime, a, b, state } = pair((_question, onGone) => {
      onGone(() => gone.push('gone'));
      return new Promise(() => {});
    });
    const late = failure(a.ask('B', QUESTION, { answerMs: 3_000 }));
    await runtime.advance(2_900);
    const lost = failure(a.ask('B', QUESTION, {}));
    await runtime.advance(200);
    expect(await late).toBe('PEER_UNREACHABLE');
    expect(gone).toEqual(['gone']);
    // A question without a deadline, such as a message to an agent, waits for as long as the node is there.
    await runtime.advance(600_000);
    a.interrupted('B');
    expect(await lost).toBe('PEER_UNREACHABLE');
    b.ended('A');
    state.silent = true;
    const untaken = failure(a.ask('B', QUESTION, {}));
    await runtime.advance(5_100);
    expect(await untaken).toBe('PEER_UNREACHABLE');
    state.reachable = false;
    expect(await failure(a.ask('B', QUESTION, {}))).toBe('PEER_UNREACHABLE');
  });

  it('end when the caller disconnects [EG.2]', async () => {
    let ended = false;
    const { a, turn } = pair((_question, onGone) => {
      onGone(() => {
        ended = true;
      });
      return new Promise(() => {});
    });
    let leave = () => {};
    const onGone = (callback: () => void) => {
      leave = callback;
      return () => {};
    };
    const asked = failure(a.ask('B', QUESTION, { onGone }));
    await turn();
    leave();
    await turn();
    expect([await asked, ended]).toEqual(['CANCELLED', true]);
  });

  it('have a share per node, and a part of it per caller [EG.10]', async () => {
    const { a, turn } = pair(() => new Promise(() => {}));
    const refused: string[] = [];
    const ask = (caller: string) => {
      a.ask('B', { ...QUESTION, caller }, {}).catch((error: EclipticError) => refused.push(`${caller} ${error.code}`));
    };
    for (let index = 0; index < 1_001; index++) ask('greedy');
    await turn();
    expect(refused).toEqual(['greedy QUEUE_FULL']);
    ask('modest');
    await turn();
    expect(refused).toHaveLength(1);
  });

  it('are not sent if they are malformed: a caller must not make its node break the protocol [EG.10]', async () => {
    const { a, items } = pair(async () => ({ result: 'x' }));
    const wrong = [
      { key: 'k'.repeat(10_000) },
      { chain: ['x'.repeat(2_000)] },
      { caller: 'mars@node' },
      { caller: '' },
    ];
    for (const change of wrong)
      expect(await failure(a.ask('B', { ...QUESTION, ...change }, {}))).toBe('INVALID_PARAMS');
    expect(items).toEqual([]);
  });

  it('fail as soon as there is room, if the queue to the asking node was full [EG.10]', async () => {
    const { runtime, a, state } = pair(async () => ({ result: 'x' }));
    const full = { answers: true };
    state.full = ([, verb]) => full.answers && (verb === 'answer' || verb === 'failed');
    const later = async (clock: SimulatedRuntime) => {
      await clock.advance(2_000);
      full.answers = false;
    };
    const asked = failure(a.ask('B', QUESTION, {}));
    await later(runtime);
    await runtime.advance(1_000);
    expect(await asked).toBe('QUEUE_FULL');
    const { runtime: clock, a: other, state: others } = pair(endless('x').answer);
    full.answers = true;
    let events = 0;
    others.full = ([, verb]) => (verb === 'event' && ++events > 3) || (verb === 'failed' && full.answers);
    const outcome = await other.ask('B', QUESTION, {});
    if (!('stream' in outcome)) throw new Error('no stream');
    for (let index = 0; index < 3; index++) expect((await outcome.stream.events.next()).done).toBe(false);
    const rest = failure(outcome.stream.events.next());
    await later(clock);
    await clock.advance(1_000);
    expect(await rest).toBe('QUEUE_FULL');
  });

  it('of a node that is no device of the owner are refused, and answers from it too [EG.6]', async () => {
    const { a, b, state } = pair(async () => ({ result: 'secret' }));
    state.owners = false;
    expect(await failure(a.ask('B', QUESTION, {}))).toBe('NOT_GRANTED');
    for (const verb of ['ask', 'part', 'whole', 'stop', 'read', 'answer', 'nonsense']) {
      expect(() => b.take('A', ['edge', verb, 0, QUESTION])).toThrow(/owner’s invite/);
    }
  });

  it('and answers that no honest node sends are violations [EG.10]', async () => {
    const { a, b, turn } = pair(() => new Promise(() => {}));
    void a.ask('B', QUESTION, {}).catch(() => {});
    await turn();
    const bad: Item[] = [
      ['edge', 'nonsense', 1],
      ['edge', 'ask', 'x', QUESTION],
      ['edge', 'ask', 9, { ...QUESTION, caller: `mars@${'ab'.repeat(32)}` }],
      ['edge', 'ask', 0, QUESTION],
      ['edge', 'whole'],
      ['edge', 'part', 'x'.repeat(300_000)],
      ['edge', 'read', 0, -1],
    ];
    for (const item of bad) expect(() => b.take('A', item)).toThrow(/malformed/);
    expect(() => a.take('C', ['edge', 'answer', 0, 'forged'])).toThrow(/another node/);
    expect(() => a.take('B', ['edge', 'event', 0, {}])).toThrow(/not awaited/);
    for (let index = 0; index < 64; index++) b.take('A', ['edge', 'part', 'x']);
    expect(() => b.take('A', ['edge', 'part', 'x'])).toThrow(/too many parts/);
    // An answer to a question that is over is ignored.
    a.take('B', ['edge', 'answer', 77, 'late']);
  });
});

describe('a stream between nodes', () => {
  it('goes no faster than it is read, and ends with its reader [EG.10]', async () => {
    const { taken, answer } = endless('x'.repeat(10_000));
    const { a, turn, items } = pair(answer);
    const outcome = await a.ask('B', QUESTION, {});
    if (!('stream' in outcome)) throw new Error('no stream');
    const { events } = outcome.stream;
    await turn();
    const first = taken.count;
    // About a mebibyte.
    expect(first).toBeGreaterThan(90);
    expect(first).toBeLessThan(120);
    await turn();
    expect(taken.count).toBe(first);
    for (let index = 1; index <= 60; index++) expect((await events.next()).value?.sequence).toBe(index);
    await turn();
    expect(taken.count).toBeGreaterThan(first);
    expect(taken.count).toBeLessThan(first + 61);
    const confirmed = items.filter(([from, verb]) => from === 'A' && verb === 'read');
    expect(confirmed.length).toBeLessThan(5);
    await events.return?.();
    await turn();
    expect(taken.left).toBe(true);
  });

  it('leaves room on the link when many are open at one node [EG.10]', async () => {
    const shared = new SharedWindow(1_000_000);
    const windows = Array.from({ length: 100 }, () => new StreamWindow(shared));
    const waits = new Set<StreamWindow>();
    const fill = async (window: StreamWindow) => {
      for (let sent = 0; sent < 1_000; sent++) {
        const marked = window.sent(9_744);
        waits.add(window);
        await window.room();
        waits.delete(window);
        counts.set(window, { sent: sent + 1, marked });
      }
    };
    const counts = new Map<StreamWindow, object>();
    for (const window of windows) void fill(window);
    for (let turn = 0; turn < 200; turn++) await Promise.resolve();
    // All wait: the first have filled the window, and each of the others has one event under way.
    expect([waits.size, shared.full]).toEqual([100, true]);
    for (const window of windows) window.read(1_000);
    for (let turn = 0; turn < 200; turn++) await Promise.resolve();
    expect([waits.size, shared.full]).toEqual([100, true]);
    for (const window of windows) window.close();
    expect(shared.full).toBe(false);
  });

  it('carries events that are longer than a part in their order [EG.10]', async () => {
    const texts = ['short', 'y'.repeat(900_000), 'short again', 'z'.repeat(300_000)];
    const { a } = pair(async () => ({ stream: { taskId: 't', events: listOf(texts) } }));
    const outcome = await a.ask('B', QUESTION, {});
    if (!('stream' in outcome)) throw new Error('no stream');
    const seen: unknown[] = [];
    for (let next = await outcome.stream.events.next(); !next.done; next = await outcome.stream.events.next()) {
      seen.push((next.value.event as unknown as { text: string }).text);
    }
    expect(seen.map((text) => texts.indexOf(text as string))).toEqual([0, 1, 2, 3]);
  });

  it('breaks off with a typed error when the node is lost, or the stream fails there [EG.5]', async () => {
    const { a, turn } = pair(endless('x').answer);
    const outcome = await a.ask('B', QUESTION, {});
    if (!('stream' in outcome)) throw new Error('no stream');
    await turn();
    a.interrupted('B');
    const read = async () => {
      for (;;) if ((await outcome.stream.events.next()).done) return;
    };
    expect(await failure(read())).toBe('PEER_UNREACHABLE');
    const { a: other } = pair(async () => ({ stream: { events: failing() } }));
    const broken = await other.ask('B', QUESTION, {});
    if (!('stream' in broken)) throw new Error('no stream');
    expect(await failure(broken.stream.events.next())).toBe('QUEUE_FULL');
  });
});

async function* listOf(texts: readonly string[]): AsyncGenerator<NumberedEvent> {
  for (const text of texts) yield { event: { text } as never };
}

// biome-ignore lint/correctness/useYield: it fails before its first event.
async function* failing(): AsyncGenerator<NumberedEvent> {
  throw new EclipticError('QUEUE_FULL', 'the reader fell too far behind');
}
