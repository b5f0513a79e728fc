import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { A2AChannel } from '../mesh/channel.js';
import type { A2ALogEvent, A2AMessageType, AgentTier } from '../mesh/schemas.js';
import { createNode, type NodeInit } from '../node/compose.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { Agent } from './agent.js';
import type { Message } from './message.js';

describe('bringing agents to life', () => {
  it('registers a card with the given fields and defaults for the others [R1.1]', async () => {
    const { node, runtime } = await start();
    const agent = node.agent({ id: 'alice', capabilities: ['code.review', { id: 'code.write', name: 'Writes' }] });
    expect(agent.card).toEqual({
      id: 'alice',
      name: 'ALICE',
      version: '1.0.0',
      description: '',
      tier: 3,
      protocols: ['a2a/1.0'],
      endpoints: [{ transport: 'local' }],
      capabilities: [
        { id: 'code.review', name: 'code.review', description: '', inputSchema: {}, outputSchema: {} },
        { id: 'code.write', name: 'Writes', description: '', inputSchema: {}, outputSchema: {} },
      ],
      revision: 0,
      origin: 'local',
      lastSeenAt: runtime.now(),
    });
    expect(node.registry.getById('alice')).toBe(agent.card);
    expect(node.agents).toEqual([agent]);
  });

  it('keeps everything its author chose [R1.1 R10.3]', async () => {
    const { node } = await start();
    const chosen = { id: 'sun', name: 'Sol', description: 'a star', version: '5.0.0', tier: 2 } as const;
    const agent = node.agent({ ...chosen, sandbox: 'lab' });
    expect(agent.card).toMatchObject({ ...chosen, sandboxId: 'lab' });
  });

  it('gives a Planetary agent its tier, and any other the lowest, when none is named [R11.1 UT8]', async () => {
    const { node } = await start();
    const planets: Record<AgentTier, string[]> = {
      0: ['sun'],
      1: ['mercury', 'earth', 'jupiter'],
      2: ['venus', 'mars', 'pluto', 'saturn', 'titan'],
      3: ['enceladus', 'neptune', 'io', 'andromeda', 'some-agent', 'constructor', 'SUN'],
    };
    for (const [tier, ids] of Object.entries(planets)) {
      for (const id of ids) expect([id, node.agent({ id }).card.tier]).toEqual([id, Number(tier)]);
    }
  });

  it('refuses a second live agent with the same id as AGENT_EXISTS, and leaves the first alone', async () => {
    const { node } = await start();
    const first = node.agent({ id: 'alice' });
    expect(() => node.agent({ id: 'alice', tier: 0 })).toThrow(coded('AGENT_EXISTS'));
    expect(first.card).toMatchObject({ tier: 3, revision: 0 });
    expect(node.agents).toEqual([first]);
  });

  it.each(['', 'a b', 'a@b', '*', 'a.b', '-a', 'x'.repeat(65)])(
    'refuses %j as an id [E.INVALID_CARD R1.4]',
    async (id) => {
      const { node } = await start();
      expect(() => node.agent({ id })).toThrow(coded('INVALID_CARD'));
      expect(node.agents).toEqual([]);
      expect(node.registry.size).toBe(0);
    },
  );

  it('publishes a changed card at the next revision, and keeps the unchanged fields [R1.5]', async () => {
    const { node } = await start();
    const agent = node.agent({ id: 'alice', description: 'first', capabilities: ['old'] });
    expect(agent.update({ capabilities: ['new'] })).toMatchObject({ description: 'first', revision: 1 });
    agent.update({ description: 'second' });
    expect(agent.card).toMatchObject({ description: 'second', revision: 2, capabilities: [{ id: 'new' }] });
    expect(node.registry.findByCapability('old')).toEqual([]);
    expect(node.registry.findByCapability('new')).toEqual([agent.card]);
  });

  it('keeps the old card when the new one is not valid [E.INVALID_CARD]', async () => {
    const { node } = await start();
    const agent = node.agent({ id: 'alice', description: 'first' });
    expect(() => agent.update({ tier: 7 as AgentTier })).toThrow(coded('INVALID_CARD'));
    expect(agent.update({ version: '2.0.0' })).toMatchObject({ description: 'first', tier: 3, version: '2.0.0' });
  });

  it('goes by the changed card at once [R4.5]', async () => {
    const { node, alice } = await start(['alice', 'bob']);
    alice.update({ tier: 1 });
    expect(await outcome(alice.send('bob', 1))).toMatchObject({ code: 'TIER_VIOLATION' });
    alice.update({ tier: 0 });
    node.agents.find(({ id }) => id === 'bob')!.onNotification(() => {});
    expect(await outcome(alice.send('bob', 1))).toMatchObject({ value: { delivered: true } });
  });
});

describe('sending', () => {
  it('delivers a notification to the agent it names, and to no other [R4.1]', async () => {
    const { alice, bob, carol } = await start(['alice', 'bob', 'carol']);
    const heard = { bob: hear(bob), carol: hear(carol) };
    const result = await alice.send('bob', { hello: 'bob' });
    expect(result).toMatchObject({ delivered: true, path: 'local', targetAgentId: 'bob' });
    expect(heard.bob).toMatchObject([{ from: 'alice', type: 'notification', payload: { hello: 'bob' } }]);
    expect(heard.carol).toEqual([]);
  });

  it('delivers in the order sent', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    const heard = hear(bob);
    const numbers = Array.from({ length: 1_000 }, (_, n) => n);
    await Promise.all(numbers.map((n) => alice.send('bob', n)));
    expect(heard.map(({ payload }) => payload)).toEqual(numbers);
  });

  it('puts type, thread, time to live and justification on the envelope [R2.4 R11.2]', async () => {
    const { alice, sun } = await start(['alice', 'sun']);
    const heard = hear(sun);
    const options = { type: 'task-proposal', thread: 'plan', ttlMs: 5_000, justification: 'it is urgent' } as const;
    await alice.send('sun', 'plan', options);
    expect(heard).toHaveLength(1);
    expect(heard[0]).toMatchObject({ type: 'task-proposal', thread: 'plan' });
    expect(heard[0]!.envelope).toMatchObject({
      sender: 'alice',
      recipient: 'sun',
      correlationId: 'plan',
      metadata: { ttlMs: 5_000, escalationJustification: 'it is urgent' },
    });
  });

  it('puts no metadata on a plain message', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    const heard = hear(bob);
    await alice.send('bob', 1);
    expect(heard[0]!.envelope.metadata).toBeUndefined();
    expect(heard[0]!.thread).toBeUndefined();
  });

  it('rejects an unjustified proposal upwards as ESCALATION_REQUIRED [E.ESCALATION_REQUIRED R11.2]', async () => {
    const { alice, sun } = await start(['alice', 'sun']);
    const heard = hear(sun);
    expect(await outcome(alice.send('sun', 'plan', { type: 'task-proposal' }))).toMatchObject({
      code: 'ESCALATION_REQUIRED',
    });
    expect(heard).toEqual([]);
  });

  it('drops a message that waited past its time to live, and reports it', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob'], { limits: { concurrency: 1 } });
    const heard: unknown[] = [];
    const gate = deferred<void>();
    bob.onNotification(({ payload }) => {
      heard.push(payload);
      return gate.promise;
    });
    await alice.send('bob', 'first');
    await alice.send('bob', 'short-lived', { ttlMs: 100 });
    await alice.send('bob', 'long-lived', { ttlMs: 10_000 });
    await runtime.advance(101);
    gate.resolve();
    await runtime.advance(0);
    expect(heard).toEqual(['first', 'long-lived']);
    expect(failures(events)).toMatchObject([{ type: 'delivery-failure', recipient: 'bob', code: 'EXPIRED' }]);
  });

  it('finds the recipient by capability [R4.3]', async () => {
    const { node, alice, bob } = await start(['alice', 'bob']);
    const reviewer = node.agent({ id: 'reviewer', capabilities: ['code.review'] });
    const heard = { bob: hear(bob), reviewer: hear(reviewer) };
    expect(await alice.send({ capability: 'code.review' }, 'look')).toMatchObject({ targetAgentId: 'reviewer' });
    expect([heard.bob.length, heard.reviewer.length]).toEqual([0, 1]);
    expect(await outcome(alice.send({ capability: 'code.run' }, 'go'))).toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
  });

  it('rejects with the reason: unknown, not listening, not allowed, not JSON [E.AGENT_NOT_FOUND E.TIER_VIOLATION E.SANDBOX_VIOLATION]', async () => {
    const { node, alice, earth } = await start(['alice', 'earth', 'bob']);
    const boxed = node.agent({ id: 'boxed', sandbox: 'lab' });
    node.registry.register({ ...alice.card, id: 'absent' });
    expect(await outcome(alice.send('nobody', 1))).toMatchObject({ code: 'AGENT_NOT_FOUND' });
    expect(await outcome(alice.send('absent', 1))).toMatchObject({ code: 'AGENT_UNAVAILABLE' });
    expect(await outcome(earth.send('bob', 1))).toMatchObject({ code: 'TIER_VIOLATION' });
    expect(await outcome(boxed.send('bob', 1))).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(await outcome(alice.send('bob', () => {}))).toMatchObject({ code: 'INVALID_ENVELOPE' });
    expect(await outcome(alice.send('bob', undefined))).toMatchObject({ code: 'INVALID_ENVELOPE' });
  });

  it('broadcasts to everyone else and counts whom it reached [R4.2]', async () => {
    const { node, alice, bob, earth } = await start(['alice', 'bob', 'earth']);
    node.registry.register({ ...alice.card, id: 'absent' });
    const heard = { alice: hear(alice), bob: hear(bob), earth: hear(earth) };
    const { broadcast } = await alice.broadcast('all hands');
    expect(broadcast).toEqual({ recipients: 3, delivered: 2, withheld: 0, failed: 1, withheldByCode: {} });
    expect([heard.alice.length, heard.bob.length, heard.earth.length]).toEqual([0, 1, 1]);
    const fromEarth = await earth.broadcast('quietly');
    expect(fromEarth.broadcast).toMatchObject({ delivered: 0, withheld: 3, withheldByCode: { TIER_VIOLATION: 3 } });
  });

  it('lets everyone a broadcast reached reply in its thread, whatever their tier [R4.2 R2.4]', async () => {
    const { alice, bob, earth } = await start(['alice', 'bob', 'earth']);
    const answers = hear(alice);
    for (const agent of [bob, earth]) {
      agent.onNotification((message) => void agent.send(message.from, agent.id, { type: 'response', thread: 'roll' }));
    }
    await alice.broadcast('who is here?', { thread: 'roll' });
    expect(answers.map(({ payload }) => payload)).toEqual(['bob', 'earth']);
  });
});

describe('handling', () => {
  const others: A2AMessageType[] = [
    'response',
    'task-proposal',
    'task-accept',
    'task-reject',
    'stream-start',
    'stream-data',
    'stream-end',
    'error',
  ];

  it.each(others)('gives a %s that nothing else takes to onMessage', async (type) => {
    const { alice, bob } = await start(['alice', 'bob']);
    const heard: Message[] = [];
    bob.onMessage((message) => void heard.push(message));
    await alice.send('bob', 'something', { type, thread: 'talk' });
    expect(heard).toMatchObject([{ type, from: 'alice', payload: 'something', thread: 'talk' }]);
  });

  it('gives onMessage the requests and notifications that have no handler of their own', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    const heard: unknown[] = [];
    bob.onMessage(({ type, payload }) => void heard.push([type, payload]));
    await alice.send('bob', 1);
    await alice.send('bob', 2, { type: 'request' });
    bob.onNotification(() => {});
    bob.onRequest(() => null);
    await alice.send('bob', 3);
    await alice.send('bob', 4, { type: 'request' });
    expect(heard).toEqual([
      ['notification', 1],
      ['request', 2],
    ]);
  });

  it('reports a message that nothing handles as NOT_HANDLED', async () => {
    const { alice, events } = await start(['alice', 'bob']);
    await alice.send('bob', 1);
    expect(failures(events)).toMatchObject([{ type: 'error', sender: 'alice', recipient: 'bob', code: 'NOT_HANDLED' }]);
  });

  it('reports a handler that throws or rejects, and goes on', async () => {
    const { alice, bob, events, runtime } = await start(['alice', 'bob']);
    const heard: unknown[] = [];
    bob.onNotification(({ payload }) => {
      heard.push(payload);
      if (payload === 1) throw new Error('careless');
      return payload === 2 ? Promise.reject(new Error('later')) : undefined;
    });
    for (const n of [1, 2, 3]) await alice.send('bob', n);
    await runtime.advance(0);
    expect(heard).toEqual([1, 2, 3]);
    expect(failures(events).map(({ code }) => code)).toEqual(['HANDLER_FAILED', 'HANDLER_FAILED']);
  });
});

describe('asking', () => {
  it('resolves with the handler’s value, at once or later', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(({ payload }) => (payload === 'later' ? Promise.resolve({ late: true }) : { echo: payload }));
    expect(await alice.request('bob', 'now')).toEqual({ echo: 'now' });
    expect(await alice.request('bob', 'later')).toEqual({ late: true });
  });

  it('have an answer of no type, until the caller names one [T-B7]', async () => {
    const { node } = await start();
    node.agent({ id: 'bob' }).onRequest(() => 'a text');
    const alice = node.agent({ id: 'alice' });
    // @ts-expect-error: an answer is unknown; that it is a number was only hoped
    const hoped: number = await alice.request('bob', 1);
    const named: string = await alice.request<string>('bob', 1);
    expect([hoped, named]).toEqual(['a text', 'a text']);
  });

  it('resolves with null when the handler returned nothing', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(() => undefined);
    expect(await alice.request('bob', 1)).toBeNull();
  });

  it('shows the handler the sender and the thread, and keeps the whole conversation in that thread [R2.4]', async () => {
    const { node, alice, bob } = await start(['alice', 'bob']);
    const heard: Message[] = [];
    bob.onRequest((message) => {
      heard.push(message);
      return 'answer';
    });
    await alice.request('bob', 'question');
    expect(heard).toMatchObject([{ from: 'alice', type: 'request', payload: 'question' }]);
    const thread = node.threads.get(heard[0]!.thread!);
    expect(thread.map(({ sender, type, payload }) => [sender, type, payload])).toEqual([
      ['alice', 'request', 'question'],
      ['bob', 'response', 'answer'],
    ]);
  });

  it('gets the answer of an agent whose tier could not have begun the talk [R4.5]', async () => {
    const { alice, earth } = await start(['alice', 'earth']);
    earth.onRequest(() => 'granted');
    expect(await alice.request('earth', 'please')).toBe('granted');
    expect(await outcome(earth.request('alice', 'please'))).toMatchObject({ code: 'TIER_VIOLATION' });
  });

  it('asks an agent that offers a capability [R4.3]', async () => {
    const { node, alice } = await start(['alice']);
    const reviewer = node.agent({ id: 'reviewer', capabilities: ['code.review'] });
    reviewer.onRequest(() => 'looks good');
    expect(await alice.request({ capability: 'code.review' }, 'diff')).toBe('looks good');
    expect(await outcome(alice.request({ capability: 'code.run' }, 1))).toMatchObject({ code: 'CAPABILITY_NOT_FOUND' });
  });

  it('asks an agent of this node by its full address too', async () => {
    const { node, alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(() => 'here');
    expect(await alice.request(`bob@${node.key}`, 1)).toBe('here');
  });

  it('may ask itself', async () => {
    const { alice } = await start(['alice']);
    alice.onRequest(({ payload }) => `re: ${payload}`);
    expect(await alice.request('alice', 'well?')).toBe('re: well?');
  });

  it('lets handlers ask on while they answer', async () => {
    const { alice, bob, carol } = await start(['alice', 'bob', 'carol']);
    carol.onRequest(({ payload }) => Number(payload) * 2);
    bob.onRequest(async ({ payload }) => Number(await bob.request('carol', payload)) + 1);
    expect(await alice.request('bob', 20)).toBe(41);
  });

  it('answers ten thousand concurrent requests, each with its own answer', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async ({ payload }) => {
      await pause(runtime, 1);
      return Number(payload) * 2;
    });
    const numbers = Array.from({ length: 10_000 }, (_, n) => n);
    const answers = Promise.all(numbers.map((n) => alice.request<number>('bob', n)));
    await runtime.advance(100);
    expect(await answers).toEqual(numbers.map((n) => n * 2));
  });

  it('times out once, at its deadline, and drops the late answer as NOT_HANDLED', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob']);
    const gate = deferred<string>();
    bob.onRequest(() => gate.promise);
    const seen: Outcome<unknown>[] = [];
    void outcome(alice.request('bob', 1, { timeoutMs: 1_000 })).then((result) => seen.push(result));
    await runtime.advance(999);
    expect(seen).toEqual([]);
    await runtime.advance(1);
    expect(seen).toMatchObject([{ code: 'REQUEST_TIMEOUT' }]);
    gate.resolve('too late');
    await runtime.advance(60_000);
    expect(seen).toHaveLength(1);
    expect(failures(events)).toMatchObject([
      { type: 'error', sender: 'bob', recipient: 'alice', messageType: 'response', code: 'NOT_HANDLED' },
    ]);
  });

  it('waits thirty seconds unless told otherwise', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(() => new Promise(() => {}));
    const seen: Outcome<unknown>[] = [];
    void outcome(alice.request('bob', 1)).then((result) => seen.push(result));
    await runtime.advance(29_999);
    expect(seen).toEqual([]);
    await runtime.advance(1);
    expect(seen).toMatchObject([{ code: 'REQUEST_TIMEOUT' }]);
  });

  it('takes the first answer only', async () => {
    const { alice, bob, events, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async (message) => {
      await bob.send(message.from, 'first', { type: 'response', thread: message.thread });
      return 'second';
    });
    expect(await alice.request('bob', 1)).toBe('first');
    await runtime.advance(0);
    expect(failures(events)).toMatchObject([{ messageType: 'response', code: 'NOT_HANDLED' }]);
  });

  it('gets a typed error with its code and details', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(() => {
      throw new EclipticError('CAPABILITY_NOT_FOUND', 'not today', { capability: 'x.y', tries: [1, 2] });
    });
    expect(await outcome(alice.request('bob', 1))).toEqual({
      code: 'CAPABILITY_NOT_FOUND',
      details: { capability: 'x.y', tries: [1, 2], from: 'bob' },
    });
  });

  it('gets a plain error as HANDLER_FAILED, with its message and without its stack', async () => {
    const { node, alice, bob, events } = await start(['alice', 'bob']);
    let thread: string | undefined;
    bob.onRequest(async (message) => {
      thread = message.thread;
      throw new Error('out of paper');
    });
    const error: unknown = await alice.request('bob', 1).catch((reason) => reason);
    expect(error).toMatchObject({ code: 'HANDLER_FAILED', message: 'out of paper', details: { from: 'bob' } });
    const answer = node.threads.get(thread!).find(({ type }) => type === 'error');
    expect(JSON.stringify(answer)).not.toContain('agent.test.ts');
    expect((error as Error).cause).toBeUndefined();
    expect(failures(events)).toMatchObject([{ type: 'error', recipient: 'bob', code: 'HANDLER_FAILED' }]);
  });

  it.each([undefined, null, 'text', 7, { code: 'CANCELLED' }])(
    'gets HANDLER_FAILED when the handler threw %j',
    async (thrown) => {
      const { alice, bob } = await start(['alice', 'bob']);
      bob.onRequest(() => {
        throw thrown;
      });
      expect(await outcome(alice.request('bob', 1))).toMatchObject({ code: 'HANDLER_FAILED' });
    },
  );

  it('gets a typed error whatever the details of the error were', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    const poisoned = JSON.parse('{"__proto__": {"admin": true}}') as Record<string, unknown>;
    const cases = [circular, { size: 1n }, { handler: () => {} }, { huge: 'x'.repeat(2_000_000) }, poisoned];
    bob.onRequest(({ payload }) => {
      throw new EclipticError('CAPABILITY_NOT_FOUND', 'no', cases[payload as number]!);
    });
    const answers = cases.map((_, n) => outcome(alice.request('bob', n)));
    await runtime.advance(30_000);
    expect((await Promise.all(answers)).map(({ code }) => code)).toEqual(cases.map(() => 'CAPABILITY_NOT_FOUND'));
  });

  it.each<[string, unknown, string]>([
    ['a function', () => {}, 'INVALID_ENVELOPE'],
    ['a date', new Date(0), 'INVALID_ENVELOPE'],
    ['not a number', { n: Number.NaN }, 'INVALID_ENVELOPE'],
    ['a promise of a map', Promise.resolve(new Map()), 'INVALID_ENVELOPE'],
    ['two megabytes', 'x'.repeat(2_000_000), 'PAYLOAD_TOO_LARGE'],
  ])('gets a typed error when the answer is %s', async (_, answer, code) => {
    const { alice, bob, events } = await start(['alice', 'bob']);
    bob.onRequest(() => answer);
    expect(await outcome(alice.request('bob', 1))).toMatchObject({ code, details: { from: 'bob' } });
    expect(failures(events)).toMatchObject([{ type: 'error', recipient: 'bob', code }]);
  });

  it('gets NO_WORKER from an agent without a request handler', async () => {
    const { alice } = await start(['alice', 'bob']);
    expect(await outcome(alice.request('bob', 1))).toMatchObject({ code: 'NO_WORKER' });
  });

  it('fails at once when the request cannot be sent, and leaves nothing waiting', async () => {
    const { node, alice } = await start(['alice']);
    node.registry.register({ ...alice.card, id: 'absent' });
    expect(await outcome(alice.request('nobody', 1))).toMatchObject({ code: 'AGENT_NOT_FOUND' });
    expect(await outcome(alice.request('absent', 1))).toMatchObject({ code: 'AGENT_UNAVAILABLE' });
    expect(await outcome(alice.request('absent', Symbol('x')))).toMatchObject({ code: 'INVALID_ENVELOPE' });
    expect(node.threads.waiting).toBe(0);
  });

  it('fails at once when the answer could not come back out of a sandbox', async () => {
    const { node, alice } = await start(['alice']);
    let asked = false;
    const boxed = node.agent({ id: 'boxed', sandbox: 'lab' });
    boxed.onRequest(() => {
      asked = true;
    });
    expect(await outcome(alice.request('boxed', 1))).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(asked).toBe(false);
  });

  it('gets MAILBOX_FULL when the other side cannot take more', async () => {
    const { alice, bob } = await start(['alice', 'bob'], { limits: { mailboxCapacity: 1, concurrency: 1 } });
    const gate = deferred<string>();
    bob.onRequest(() => gate.promise);
    const running = alice.request('bob', 1);
    const waiting = alice.request('bob', 2);
    expect(await outcome(alice.request('bob', 3))).toMatchObject({ code: 'MAILBOX_FULL' });
    gate.resolve('done');
    expect(await Promise.all([running, waiting])).toEqual(['done', 'done']);
  });

  it('is cancelled by its signal while it waits', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(() => new Promise(() => {}));
    const controller = new AbortController();
    const answer = outcome(alice.request('bob', 1, { signal: controller.signal }));
    await runtime.advance(10);
    controller.abort();
    expect(await answer).toMatchObject({ code: 'CANCELLED' });
  });

  it('is cancelled, and not sent, when its signal was aborted before', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    let asked = false;
    bob.onRequest(() => {
      asked = true;
      return 'answer';
    });
    expect(await outcome(alice.request('bob', 1, { signal: AbortSignal.abort() }))).toMatchObject({
      code: 'CANCELLED',
    });
    expect(asked).toBe(false);
  });

  it('keeps its answer when the signal is aborted afterwards, and lets go of the signal', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(() => 'answer');
    const controller = new AbortController();
    const answer = alice.request('bob', 1, { signal: controller.signal });
    expect(await answer).toBe('answer');
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    controller.abort();
    expect(await answer).toBe('answer');
  });

  it.each<A2AMessageType>(['response', 'error', 'stream-start', 'stream-data', 'stream-end', 'task-accept'])(
    'takes no %s from a stranger that guessed the thread, whatever its rank',
    async (type) => {
      const { alice, bob, sun, runtime, events } = await start(['alice', 'bob', 'sun']);
      const gate = deferred<string>();
      let thread: string | undefined;
      bob.onRequest((message) => {
        thread = message.thread;
        return gate.promise;
      });
      const seen: Outcome<unknown>[] = [];
      void outcome(alice.request('bob', 1)).then((result) => seen.push(result));
      await sun.send('alice', { code: 'CANCELLED', message: 'forged' }, { type, thread });
      await runtime.advance(0);
      expect(seen).toEqual([]);
      expect(failures(events).filter(({ sender }) => sender === 'sun')).toMatchObject([
        { recipient: 'alice', messageType: type, code: 'NOT_HANDLED' },
      ]);
      gate.resolve('true answer');
      await runtime.advance(0);
      expect(seen).toEqual([{ value: 'true answer' }]);
    },
  );

  it('takes no answer from a stranger to a request by capability', async () => {
    const { node, alice, sun, runtime } = await start(['alice', 'sun']);
    const gate = deferred<string>();
    let thread: string | undefined;
    node.agent({ id: 'reviewer', capabilities: ['code.review'] }).onRequest((message) => {
      thread = message.thread;
      return gate.promise;
    });
    const answer = outcome(alice.request({ capability: 'code.review' }, 1));
    await sun.send('alice', 'forged', { type: 'response', thread });
    gate.resolve('true answer');
    await runtime.advance(0);
    expect(await answer).toEqual({ value: 'true answer' });
  });

  it('is not answered by something that is no answer from the agent it asked', async () => {
    const { alice, bob } = await start(['alice', 'bob']);
    bob.onRequest(async (message) => {
      await bob.send(message.from, 'a plan', { type: 'task-proposal', thread: message.thread });
      return 'answer';
    });
    const plans: unknown[] = [];
    alice.onMessage(({ payload }) => void plans.push(payload));
    expect(await outcome(alice.request('bob', 1))).toEqual({ value: 'answer' });
    expect(plans).toEqual(['a plan']);
  });
});

describe('leaving', () => {
  it('takes the agent off the mesh, and its name is free again', async () => {
    const { node, alice, bob } = await start(['alice', 'bob']);
    bob.leave();
    expect(node.agents).toEqual([alice]);
    expect(node.registry.getById('bob')).toBeUndefined();
    expect(await outcome(alice.send('bob', 1))).toMatchObject({ code: 'AGENT_NOT_FOUND' });
    const heard = hear(node.agent({ id: 'bob' }));
    await alice.send('bob', 2);
    expect(heard.map(({ payload }) => payload)).toEqual([2]);
  });

  it('rejects the agent’s open requests, and everything it tries afterwards, as NODE_STOPPED', async () => {
    const { alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(() => new Promise(() => {}));
    const waiting = outcome(alice.request('bob', 1));
    alice.leave();
    alice.leave();
    expect(await waiting).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await outcome(alice.send('bob', 1))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await outcome(alice.broadcast(1))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await outcome(alice.request('bob', 1))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await outcome(alice.stream('bob', 1).next())).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await outcome(alice.sendStream('bob', [1]))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(() => alice.update({ tier: 0 })).toThrow(coded('NODE_STOPPED'));
    await runtime.advance(0);
  });

  it('reports messages that still waited for the agent as not delivered', async () => {
    const { alice, bob, events } = await start(['alice', 'bob'], { limits: { concurrency: 1 } });
    bob.onNotification(() => new Promise(() => {}));
    for (const n of [1, 2, 3]) await alice.send('bob', n);
    bob.leave();
    expect(failures(events).map(({ type, code }) => [type, code])).toEqual([
      ['delivery-failure', 'AGENT_UNAVAILABLE'],
      ['delivery-failure', 'AGENT_UNAVAILABLE'],
    ]);
  });

  it('sends no answer any more, and does not fail over it', async () => {
    const { alice, bob, runtime, events } = await start(['alice', 'bob']);
    const gate = deferred<string>();
    bob.onRequest(() => gate.promise);
    const answer = outcome(alice.request('bob', 1, { timeoutMs: 1_000 }));
    bob.leave();
    gate.resolve('from the beyond');
    await runtime.advance(1_000);
    expect(await answer).toMatchObject({ code: 'REQUEST_TIMEOUT' });
    expect(failures(events)).toEqual([]);
  });

  it('closes the agent’s channels at both ends [R3.3]', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    let far: A2AChannel | undefined;
    bob.onChannel((channel) => {
      far = channel;
      return true;
    });
    const near = await alice.openChannel('bob');
    bob.leave();
    await runtime.advance(0);
    expect([near.status, far!.status]).toEqual(['closed', 'closed']);
    expect(node.channels.listChannels()).toEqual([]);
  });

  it('leaves no acceptor behind for the next agent of that name', async () => {
    const { node, alice, bob } = await start(['alice', 'bob']);
    bob.onChannel(() => true);
    bob.leave();
    node.agent({ id: 'bob' });
    expect(await outcome(alice.openChannel('bob'))).toMatchObject({ code: 'CHANNEL_CLOSED' });
  });
});

describe('a node', () => {
  it('has a key of its own, or the one it was given', async () => {
    const runtime = new SimulatedRuntime();
    const [first, second] = [await createNode({ runtime }), await createNode({ runtime })];
    expect(first.key).not.toBe(second.key);
    expect((await createNode({ runtime, nodeKey: 'home' })).key).toBe('home');
  });

  it('goes by the tier and sandbox rules it was given [R4.5 R10.1]', async () => {
    const rules = [
      { sourceTier: 3 as const, allowedTargetTiers: [3 as const], requiresEscalationJustification: false },
    ];
    const { node, alice, bob } = await start(['alice', 'bob', 'earth'], {
      tiers: { rules },
      sandbox: { enforced: true, allow: { lab: ['bob'] } },
    });
    const heard = hear(bob);
    await alice.send('bob', 1);
    expect(await outcome(alice.send('earth', 1))).toMatchObject({ code: 'TIER_VIOLATION' });
    const boxed = node.agent({ id: 'boxed', sandbox: 'lab' });
    await boxed.send('bob', 2);
    expect(await outcome(boxed.send('alice', 2))).toMatchObject({ code: 'SANDBOX_VIOLATION' });
    expect(heard.map(({ payload }) => payload)).toEqual([1, 2]);
  });

  it('refuses rules that make no sense as INVALID_CONFIG', async () => {
    const rule = { sourceTier: 0 as const, allowedTargetTiers: [], requiresEscalationJustification: false };
    expect(await outcome(createNode({ tiers: { rules: [rule, rule] } }))).toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('takes nothing more once stopped: everything is NODE_STOPPED', async () => {
    const { node, alice } = await start(['alice', 'bob']);
    await node.stop();
    await node.stop();
    expect(() => node.agent({ id: 'carol' })).toThrow(coded('NODE_STOPPED'));
    expect(await outcome(alice.send('bob', 1))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await outcome(alice.request('bob', 1))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(node.agents).toEqual([]);
    expect(node.registry.size).toBe(0);
  });

  it('ends everything that runs when it stops, and leaves nothing pending or unhandled', async () => {
    const unhandled: unknown[] = [];
    const onUnhandled = (reason: unknown) => void unhandled.push(reason);
    process.on('unhandledRejection', onUnhandled);
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(({ payload }) => (payload === 'stream' ? endless() : new Promise(() => {})));
    bob.onStream(() => {});
    bob.onChannel(() => true);
    const answer = outcome(alice.request('bob', 1));
    const reader = alice.stream('bob', 'stream');
    await reader.next();
    const unread = alice.stream('bob', 'stream');
    const sending = outcome(alice.sendStream('bob', endless()));
    const channel = await alice.openChannel('bob');
    const queued = outcome(
      channel.send(node.envelopes.create({ sender: 'alice', recipient: 'bob', type: 'request', payload: 1 })),
    );
    await runtime.advance(0);
    await node.stop();
    await runtime.advance(0);
    expect(await answer).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await sending).toMatchObject({ code: 'NODE_STOPPED' });
    expect(await queued).toMatchObject({ code: 'CHANNEL_CLOSED' });
    expect(channel.status).toBe('closed');
    for (const stream of [reader, unread]) {
      expect(await outcome(drain(stream))).toMatchObject({ code: 'NODE_STOPPED' });
    }
    expect(runtime.pending).toBe(0);
    process.off('unhandledRejection', onUnhandled);
    expect(unhandled).toEqual([]);
  });

  it('lets open work finish when it stops with time to drain, and begins nothing new', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async () => {
      await pause(runtime, 1_000);
      return 'done';
    });
    const answer = outcome(alice.request('bob', 1));
    const stopped: number[] = [];
    const begun = runtime.now();
    void node.stop({ drainMs: 5_000 }).then(() => stopped.push(runtime.now() - begun));
    expect(await outcome(alice.request('bob', 2))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(() => node.agent({ id: 'carol' })).toThrow(coded('NODE_STOPPED'));
    await runtime.advance(10_000);
    expect(await answer).toEqual({ value: 'done' });
    expect(stopped).toEqual([1_000]);
    expect(runtime.pending).toBe(0);
  });

  it('lets a stream under way finish when it stops with time to drain', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(async function* () {
      for (let n = 0; n < 1_000; n++) {
        yield n;
        if (n % 100 === 0) await pause(runtime, 10);
      }
    });
    const read: unknown[] = [];
    const reading = outcome(
      (async () => {
        for await (const chunk of alice.stream('bob', 1)) read.push(chunk);
      })(),
    );
    await runtime.advance(1);
    void node.stop({ drainMs: 5_000 });
    await runtime.advance(10_000);
    expect(await reading).toEqual({});
    expect(read).toHaveLength(1_000);
  });

  it('ends work that does not finish within the time to drain', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onRequest(() => new Promise(() => {}));
    const answer = outcome(alice.request('bob', 1));
    let stopped = false;
    void node.stop({ drainMs: 5_000 }).then(() => {
      stopped = true;
    });
    await runtime.advance(4_999);
    expect(stopped).toBe(false);
    await runtime.advance(1);
    expect(stopped).toBe(true);
    expect(await answer).toMatchObject({ code: 'NODE_STOPPED' });
    expect(runtime.pending).toBe(0);
  });

  it('does not wait, when it stops, for a channel that the other side has not answered', async () => {
    const { node, alice, bob, runtime } = await start(['alice', 'bob']);
    bob.onChannel(() => new Promise(() => {}));
    const seen: Outcome<A2AChannel>[] = [];
    void outcome(alice.openChannel('bob')).then((result) => seen.push(result));
    await runtime.advance(0);
    await node.stop();
    await runtime.advance(0);
    expect(seen).toMatchObject([{ code: 'CHANNEL_CLOSED' }]);
    expect(runtime.pending).toBe(0);
  });
});

interface Outcome<T> {
  value?: T;
  code?: string;
  details?: Readonly<Record<string, unknown>>;
}

/** How a promise ended, without anything left unhandled while the clock stands still. */
function outcome<T>(promise: Promise<T>): Promise<Outcome<T>> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => {
      if (!(error instanceof EclipticError)) throw error;
      return { code: error.code, details: error.details };
    },
  );
}

function coded(code: string) {
  return expect.objectContaining({ code });
}

function deferred<T>() {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

function pause(runtime: SimulatedRuntime, ms: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(resolve, ms);
  });
}

async function* endless() {
  for (let n = 0; ; n++) yield n;
}

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const chunk of stream) void chunk;
}

/** Everything that is not a success: handler errors and messages that did not arrive. */
function failures(events: readonly A2ALogEvent[]): A2ALogEvent[] {
  return events.filter(({ type }) => type === 'error' || type === 'delivery-failure');
}

/** Every message that no other handler of the agent takes, from now on. */
function hear(agent: Agent): Message[] {
  const heard: Message[] = [];
  agent.onMessage((message) => void heard.push(message));
  return heard;
}

/** A node on a simulated clock with agents of the given ids, and everything that happens on it from then on. */
async function start<Id extends string>(ids: readonly Id[] = [], init: NodeInit = {}) {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime, ...init });
  const agents = Object.fromEntries(ids.map((id) => [id, node.agent({ id })])) as Record<Id, Agent>;
  const events: A2ALogEvent[] = [];
  node.observability.subscribe((event) => events.push(event));
  return { ...agents, node, runtime, events };
}
