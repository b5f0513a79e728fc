import { afterEach, describe, expect, it } from 'vitest';
import { expectError } from '../../../test/providers/adapter-contract.js';
import { ScriptedAdapter } from '../../../test/providers/scripted-adapter.js';
import { A2AObservability } from '../../mesh/observability.js';
import type { A2ALogEvent } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { ProviderRegistration } from '../adapter/adapter.js';
import { ProviderEvents } from '../adapter/events.js';
import { ProviderRegistry, type ProviderRegistryInit } from './registry.js';

const INTERVAL = 30_000;
const ROUTE = { type: 'command', workspaceId: 'w' };

const registries: ProviderRegistry[] = [];

afterEach(async () => {
  for (const registry of registries.splice(0)) await registry.close();
});

function setUp(init: ProviderRegistryInit = {}) {
  const runtime = new SimulatedRuntime();
  const observability = new A2AObservability();
  const seen: A2ALogEvent[] = [];
  observability.subscribe((event) => seen.push(event));
  const events = new ProviderEvents(runtime, observability);
  const registry = new ProviderRegistry({ runtime, events }, init);
  registries.push(registry);
  const add = async (id: string, more: Partial<ProviderRegistration> = {}, adapter = new ScriptedAdapter(runtime)) => {
    await registry.register(registration(id, more), adapter);
    await runtime.advance(0);
    return adapter;
  };
  const topics = () => seen.map(({ topic }) => topic);
  return { runtime, events, registry, seen, topics, add };
}

function registration(id: string, more: Partial<ProviderRegistration> = {}): ProviderRegistration {
  return { id, type: 'command', config: {}, workspaceId: 'w', concurrencyLimit: 2, ...more };
}

describe('ProviderRegistry', () => {
  it('registers, lists and unregisters providers, with an event each [FR-025-001 FR-025-002]', async () => {
    const { registry, add, seen } = setUp();
    const adapter = await add('a');
    await add('b', { type: 'mcp', workspaceId: 'v', healthCheckIntervalMs: 5_000, priority: 3, capabilities: ['x'] });
    expect(registry.get('a')).toMatchObject({ state: 'healthy', phase: 'ready', healthCheckIntervalMs: 30_000 });
    expect(registry.listByType('mcp').map(({ id }) => id)).toEqual(['b']);
    expect(registry.listByWorkspace('w').map(({ id }) => id)).toEqual(['a']);
    await expectError(registry.register(registration('a'), adapter), 'PROVIDER_EXISTS');
    await registry.unregister('a');
    expect(adapter.terminations).toBe(1);
    expect(() => registry.get('a')).toThrowError(expect.objectContaining({ code: 'PROVIDER_NOT_FOUND' }));
    expect(seen).toMatchObject([
      { topic: 'provider.registered', provider: 'a', providerType: 'command' },
      { topic: 'provider.registered', provider: 'b', providerType: 'mcp' },
      { topic: 'provider.unregistered', provider: 'a' },
    ]);
  });

  it.each([
    ['no id', { id: undefined }],
    ['an id with spaces', { id: 'a b' }],
    ['no config', { config: undefined }],
    ['no workspace', { workspaceId: undefined }],
    ['an unknown type', { type: 'smtp' }],
    ['no concurrency', { concurrencyLimit: 0 }],
    ['too much concurrency', { concurrencyLimit: 101 }],
    ['half a concurrency', { concurrencyLimit: 1.5 }],
    ['too short an interval', { healthCheckIntervalMs: 4_999 }],
  ])('refuses a registration with %s [FR-025-002]', async (_, wrong) => {
    const { runtime, registry } = setUp();
    const made = registration('a', wrong as Partial<ProviderRegistration>);
    await expectError(registry.register(made, new ScriptedAdapter(runtime)), 'PROVIDER_INIT_FAILED');
    expect(registry.list()).toEqual([]);
  });

  it('gives a provider 5 s to start, keeps one that fails, and tries it again [NFR-025-001]', async () => {
    const { runtime, registry, seen } = setUp();
    const adapter = new ScriptedAdapter(runtime);
    adapter.ready = 'never';
    const registered = registry.register(registration('a'), adapter);
    registered.catch(() => {});
    await runtime.advance(4_999);
    expect(registry.get('a').phase).toBe('starting');
    await runtime.advance(1);
    await expectError(registered, 'PROVIDER_INIT_FAILED');
    expect(registry.get('a')).toMatchObject({ phase: 'failed', state: 'unavailable' });
    expect(adapter.terminations).toBe(1);
    expect(seen.map(({ topic }) => topic)).toEqual(['provider.capability.unavailable', 'provider.init.failed']);
    // A program that is not there is not waited for.
    await expectError(registry.execute(ROUTE, 'x', 'c-1'), 'PROVIDER_INIT_FAILED');
    adapter.ready = 'no';
    await runtime.advance(INTERVAL);
    expect(adapter.inits).toBe(2);
    adapter.ready = 'yes';
    await runtime.advance(INTERVAL);
    expect(await registry.execute(ROUTE, 'x', 'c-2')).toBe('x');
    expect(registry.get('a')).toMatchObject({ phase: 'ready', state: 'healthy' });
  });

  it('terminates a provider that was unregistered while it started', async () => {
    const { runtime, registry } = setUp();
    const adapter = new ScriptedAdapter(runtime);
    let ready = () => {};
    adapter.init = () => new Promise((resolve) => (ready = resolve));
    const registered = registry.register(registration('a'), adapter);
    registered.catch(() => {});
    await registry.unregister('a');
    ready();
    await expectError(registered, 'PROVIDER_UNAVAILABLE');
    expect(adapter.terminations).toBe(2);
  });

  it('gives work to the selected provider, and emits the outcome [T018.2a T018.3a T020.6b]', async () => {
    const { runtime, registry, add, events, seen } = setUp();
    const [first, second] = [await add('first'), await add('second', { priority: 1 })];
    expect(await registry.execute(ROUTE, 'x', 'c-1', { caller: 'sun', laneId: 'l' })).toBe('x');
    first.crash();
    expect(await registry.execute(ROUTE, 'x', 'c-2')).toBe('x');
    first.comeBack();
    await runtime.advance(0);
    expect(await registry.execute(ROUTE, 'x', 'c-3')).toBe('x');
    expect([first.came, second.came]).toEqual([['c-1', 'c-3'], ['c-2']]);
    expect(events.of('c-1')).toMatchObject([
      {
        topic: 'provider.execute.completed',
        provider: 'first',
        correlationId: 'c-1',
        sender: 'sun',
        success: true,
        details: { laneId: 'l' },
      },
    ]);
    expect(seen.filter(({ topic }) => topic === 'provider.failover.activated')).toMatchObject([
      { details: { from: 'first', to: 'second' } },
      { details: { from: 'second', to: 'first' } },
    ]);
    expect(registry.get('first')).toMatchObject({ completed: 2, failed: 0, inFlight: 0 });
  });

  it('recalculates its table on transitions, not on requests [T018.3b T018.V3]', async () => {
    const { registry, add } = setUp();
    await add('a');
    let changes = 0;
    registry.failover.onChange(() => changes++);
    for (let call = 0; call < 50; call++) await registry.execute(ROUTE, call, `c-${call}`);
    expect(changes).toBe(0);
  });

  it('does not retry work in flight when its provider crashed [T018.4 T018.V4]', async () => {
    const { registry, add } = setUp();
    const [first, second] = [await add('first'), await add('second', { priority: 1 })];
    first.holds = true;
    const work = registry.execute(ROUTE, 'x', 'c-1');
    work.catch(() => {});
    first.crash();
    await expectError(work, 'PROVIDER_CRASHED', 'c-1');
    expect(second.came).toEqual([]);
    expect(registry.get('first')).toMatchObject({ failed: 1, inFlight: 0 });
  });

  it('limits the work of one provider at a time', async () => {
    const { registry, add } = setUp();
    const adapter = await add('a');
    adapter.holds = true;
    const work = [registry.execute(ROUTE, 1, 'c-1'), registry.execute(ROUTE, 2, 'c-2')];
    expect(registry.get('a').inFlight).toBe(2);
    await expectError(registry.execute(ROUTE, 3, 'c-3', { wait: false }), 'PROVIDER_CONCURRENCY_EXCEEDED', 'c-3');
    adapter.held[0]!.finish();
    expect(await work[0]).toBe(1);
    adapter.held[1]!.fail(new Error('no'));
    await expectError(work[1]!, 'PROVIDER_EXECUTE_FAILED', 'c-2');
    adapter.holds = false;
    expect(await registry.execute(ROUTE, 3, 'c-4')).toBe(3);
  });

  it('queues further work in order without a time limit, and refuses work beyond the queue limit [T-E17]', async () => {
    const { runtime, registry, add } = setUp({ waiting: { queueLimit: 2, queueMs: 1_000 } });
    const adapter = await add('a', { concurrencyLimit: 1 });
    adapter.holds = true;
    const work = ['c-1', 'c-2', 'c-3'].map((id) => registry.execute(ROUTE, id, id));
    await expectError(registry.execute(ROUTE, 4, 'c-4'), 'PROVIDER_QUEUE_FULL', 'c-4');
    await runtime.advance(5_000);
    expect(adapter.came).toEqual(['c-1']);
    for (const n of [0, 1, 2]) {
      await runtime.advance(0);
      adapter.held[n]!.finish();
      expect(await work[n]).toBe(`c-${n + 1}`);
    }
    expect(adapter.came).toEqual(['c-1', 'c-2', 'c-3']);
  });

  it('gives a rate-limited program no work for a while, longer each time [T-G3]', async () => {
    const { runtime, registry, add } = setUp();
    const adapter = await add('a');
    adapter.holds = true;
    const limit = async (id: string, details = {}) => {
      const work = registry.execute(ROUTE, 1, id);
      await runtime.advance(0);
      adapter.held.at(-1)!.fail(new EclipticError('RATE_LIMITED', 'slow down', details));
      await expectError(work, 'PROVIDER_RATE_LIMITED', id);
    };
    await limit('c-1');
    const waiting = registry.execute(ROUTE, 2, 'c-2');
    await runtime.advance(4_900);
    expect(adapter.came).toEqual(['c-1']);
    await runtime.advance(200);
    expect(adapter.came).toEqual(['c-1', 'c-2']);
    adapter.held.at(-1)!.fail(new EclipticError('RATE_LIMITED', 'slow down'));
    await expectError(waiting, 'PROVIDER_RATE_LIMITED', 'c-2');
    const longer = registry.execute(ROUTE, 3, 'c-3');
    await runtime.advance(9_900);
    expect(adapter.came).toEqual(['c-1', 'c-2']);
    await runtime.advance(200);
    adapter.held.at(-1)!.finish();
    expect(await longer).toBe(3);
    await limit('c-4', { retryAfterMs: 50 });
    adapter.holds = false;
    const soon = registry.execute(ROUTE, 5, 'c-5');
    await runtime.advance(100);
    expect(await soon).toBe(5);
  });

  it('queues work while all are down, alerts, and drains the queue in order within the limits of the recovered provider [T017.5b T017.V4]', async () => {
    const { runtime, registry, add, topics } = setUp({ waiting: { queueLimit: 5 } });
    const adapter = await add('a');
    adapter.crash();
    expect(topics()).toContain('provider.capability.unavailable');
    const done: number[] = [];
    const work = [1, 2, 3, 4, 5].map((one) =>
      registry.execute<number>(ROUTE, one, `c-${one}`).then((output) => void done.push(output)),
    );
    expect(registry.waiting).toBe(5);
    await expectError(registry.execute(ROUTE, 6, 'c-6'), 'PROVIDER_QUEUE_FULL', 'c-6');
    adapter.holds = true;
    await runtime.advance(INTERVAL);
    expect(adapter.came).toEqual(['c-1', 'c-2']);
    // Whoever comes now waits behind the others.
    const late = registry.execute<number>(ROUTE, 7, 'c-7').then((output) => void done.push(output));
    for (let round = 0; round < 6; round++) {
      adapter.held.shift()!.finish();
      await runtime.advance(0);
      expect(registry.get('a').inFlight).toBeLessThanOrEqual(2);
    }
    await Promise.all([...work, late]);
    expect(done).toEqual([1, 2, 3, 4, 5, 7]);
    expect(topics()).toContain('provider.capability.available');
  });

  it('fails waiting work when its caller cancels, when it waits too long, and when the registry closes', async () => {
    const { runtime, registry, add } = setUp({ waiting: { queueMs: 10_000 } });
    (await add('a')).crash();
    const caller = new AbortController();
    const left = registry.execute(ROUTE, 1, 'c-1', { signal: caller.signal });
    left.catch(() => {});
    caller.abort();
    await expectError(left, 'PROVIDER_CANCELLED', 'c-1');
    await expectError(registry.execute(ROUTE, 1, 'c-2', { signal: caller.signal }), 'PROVIDER_CANCELLED', 'c-2');
    const late = registry.execute(ROUTE, 1, 'c-3');
    late.catch(() => {});
    await runtime.advance(10_000);
    await expectError(late, 'PROVIDER_UNAVAILABLE', 'c-3');
    const last = registry.execute(ROUTE, 1, 'c-4');
    last.catch(() => {});
    await registry.close();
    await expectError(last, 'PROVIDER_TERMINATED', 'c-4');
    expect(registry.waiting).toBe(0);
    await expectError(registry.register(registration('b'), new ScriptedAdapter(runtime)), 'PROVIDER_TERMINATED');
  });

  it('refuses at once work that no provider can do', async () => {
    const { registry, add, events } = setUp();
    await add('a', { capabilities: ['dig'] });
    const route = { ...ROUTE, capabilities: ['fly'] };
    await expectError(registry.execute(route, 1, 'c-1'), 'PROVIDER_NO_CAPABLE_ENDPOINT', 'c-1');
    expect(events.of('c-1')).toMatchObject([
      { topic: 'provider.execute.failed', code: 'PROVIDER_NO_CAPABLE_ENDPOINT' },
    ]);
  });

  it('drains a provider, and brings it back', async () => {
    const { runtime, registry, add } = setUp();
    const adapter = await add('a');
    adapter.holds = true;
    const work = registry.execute(ROUTE, 1, 'c-1');
    let drained = false;
    const draining = registry.drain('a').then(() => {
      drained = true;
    });
    await runtime.advance(0);
    expect([drained, registry.get('a').phase]).toEqual([false, 'draining']);
    await expectError(registry.execute(ROUTE, 2, 'c-2'), 'PROVIDER_UNAVAILABLE');
    adapter.held[0]!.finish();
    await Promise.all([work, draining]);
    expect(registry.get('a').phase).toBe('drained');
    adapter.holds = false;
    expect((await registry.restart('a')).phase).toBe('ready');
    expect(await registry.execute(ROUTE, 2, 'c-3')).toBe(2);
    expect([adapter.inits, adapter.terminations]).toEqual([2, 1]);
  });

  it('reports a provider that fails to restart', async () => {
    const { runtime, registry, add, topics } = setUp();
    const adapter = await add('a');
    adapter.ready = 'no';
    await expectError(registry.restart('a'), 'PROVIDER_INIT_FAILED');
    expect(registry.get('a')).toMatchObject({ phase: 'failed', state: 'unavailable' });
    expect(topics()).toEqual(expect.arrayContaining(['provider.init.failed', 'provider.health.changed']));
    adapter.ready = 'yes';
    await runtime.advance(INTERVAL);
    expect(registry.get('a')).toMatchObject({ phase: 'ready', state: 'healthy' });
  });

  it('adds no delay of its own to a call [NFR-025-003]', async () => {
    const { runtime, registry, add } = setUp();
    await add('a');
    const [began, timers] = [runtime.now(), runtime.pending];
    for (let call = 0; call < 2_000; call++) expect(await registry.execute(ROUTE, call, `c-${call}`)).toBe(call);
    expect([runtime.now(), runtime.pending]).toEqual([began, timers]);
  });

  it('runs restarts one at a time, and none after termination', async () => {
    const { runtime, registry, add } = setUp();
    const adapter = await add('a');
    let running = 0;
    let most = 0;
    adapter.init = async () => {
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => runtime.setTimer(resolve, 1_000));
      running--;
    };
    const restarts = [registry.restart('a'), registry.restart('a'), registry.restart('a')];
    await runtime.advance(3_000);
    await Promise.all(restarts);
    expect([registry.get('a').phase, most]).toEqual(['ready', 1]);
    const last = [registry.restart('a'), registry.restart('a')];
    for (const one of last) one.catch(() => {});
    await runtime.advance(0);
    await registry.unregister('a');
    await runtime.advance(5_000);
    for (const one of last) await expectError(one, 'PROVIDER_UNAVAILABLE');
    expect([running, most]).toEqual([0, 1]);
  });

  it('ends the providers of a lane, and no others [FR-025-008]', async () => {
    const { registry, add } = setUp();
    const inside = [await add('a', { laneId: 'one' }), await add('b')];
    const outside = await add('c', { laneId: 'two' });
    registry.bindToLane('b', 'one');
    expect(registry.getProvidersForLane('one')).toEqual(['a', 'b']);
    await registry.closeLane('one');
    expect(inside.map(({ terminations }) => terminations)).toEqual([1, 1]);
    expect(outside.terminations).toBe(0);
    expect(registry.get('c')).toMatchObject({ laneId: 'two', state: 'healthy' });
    registry.unbindFromLane('c');
    expect(registry.get('c').laneId).toBeNull();
  });

  it('runs many providers of one workspace at once, each failing alone [NFR-025-005 T016.8d T016.V2 T020.2b]', async () => {
    const { registry, add } = setUp();
    const ids = Array.from({ length: 25 }, (_, index) => `p${index}`);
    const adapters = await Promise.all(ids.map((id) => add(id, { capabilities: [id], laneId: id })));
    adapters[7]!.holds = true;
    const failing = registry.execute({ ...ROUTE, capabilities: ['p7'] }, 0, 'lane-7', { laneId: 'p7' });
    failing.catch(() => {});
    const others = ids.filter((id) => id !== 'p7');
    const work = others.map((id) => registry.execute({ ...ROUTE, capabilities: [id] }, id, id, { laneId: id }));
    adapters[7]!.crash();
    await expectError(failing, 'PROVIDER_CRASHED', 'lane-7');
    expect(await Promise.all(work)).toEqual(others);
    expect(others.every((id) => registry.getHealthStatus(id).state === 'healthy')).toBe(true);
  });
});
