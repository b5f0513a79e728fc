import { afterEach, describe, expect, it } from 'vitest';
import { A2AObservability } from '../../src/mesh/observability.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { A2ARouterAdapter, type A2ARouterComponents } from '../../src/providers/a2a/a2a-router.js';
import type { A2AConfig, A2AEndpoint, A2AResult } from '../../src/providers/a2a/a2a-types.js';
import type { ProviderUpdate } from '../../src/providers/adapter/adapter.js';
import { ProviderEvents } from '../../src/providers/adapter/events.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { ForeignServers } from '../foreign-servers.js';
import { adapterContract, expectError } from './adapter-contract.js';
import { delegation, RemoteAgent } from './remote-agent.js';

const runtime = systemRuntime();
const remotes: RemoteAgent[] = [];
const adapters: A2ARouterAdapter[] = [];
const servers = new ForeignServers();

afterEach(async () => {
  for (const adapter of adapters.splice(0)) await adapter.terminate();
  for (const remote of remotes.splice(0)) await remote.stop();
  await servers.close();
});

async function remote(name: string): Promise<RemoteAgent> {
  const started = await RemoteAgent.start(name);
  remotes.push(started);
  return started;
}

interface Made {
  readonly adapter: A2ARouterAdapter;
  readonly events: A2ALogEvent[];
}

function make(known: readonly RemoteAgent[], more: Partial<A2ARouterComponents> = {}): Made {
  const observability = new A2AObservability();
  const events: A2ALogEvent[] = [];
  observability.subscribe((event) => events.push(event));
  const adapter = new A2ARouterAdapter('fleet', {
    runtime,
    events: new ProviderEvents(runtime, observability),
    reach: { allowPrivate: true },
    credentials: ({ url }) => known.find((one) => url.startsWith(one.url))?.credentials ?? {},
    ...more,
  });
  adapters.push(adapter);
  return { adapter, events };
}

function config(endpoints: readonly A2AEndpoint[], more: Partial<A2AConfig> = {}): A2AConfig {
  return { endpoints, timeoutMs: 20_000, failoverEnabled: true, ...more };
}

adapterContract('A2ARouterAdapter', async () => {
  const behind = await RemoteAgent.start('remote');
  const { adapter } = make([behind]);
  let stopped = false;
  return {
    adapter,
    config: config([behind.endpoint(1)]),
    badConfig: config([{ id: 'x', url: 'ftp://x', priority: 1, capabilities: [] }]),
    input: delegation('hello'),
    check: (output) => {
      const { endpointId, result, duration } = output as A2AResult;
      expect([endpointId, result]).toEqual(['remote', 'remote did hello']);
      expect(duration).toBeGreaterThan(0);
    },
    endless: delegation('wait'),
    begun: () => behind.begun('wait'),
    failing: delegation('fail'),
    invalid: { taskDescription: 7 },
    break: async () => {
      stopped = true;
      await behind.stop();
    },
    close: async () => {
      if (!stopped) await behind.stop();
    },
  };
});

describe('A2ARouterAdapter', () => {
  it('delegates to a real agent with the correlation id, and emits events [T016.1 T016.2 T016.3 T016.4 T016.5 T016.6 T016.8b T016.8c T016.V1 T020.2a T020.2c FR-025-005]', async () => {
    const mars = await remote('mars');
    const { adapter, events } = make([mars]);
    await adapter.init(config([mars.endpoint(1)]));
    const input = { taskDescription: 'data', requiredCapabilities: [], context: { ticket: 7 } };
    const { duration, ...result } = await adapter.execute(input, 'corr-1', { caller: 'sun' });
    expect(duration).toBeGreaterThan(0);
    expect(result).toEqual({
      endpointId: 'mars',
      correlationId: 'corr-1',
      result: { from: 'mars', context: { ticket: 7 } },
    });
    expect(mars.tasks[0]!.metadata).toMatchObject({ correlationId: 'corr-1' });
    await expectError(adapter.execute(delegation('fail'), 'corr-2'), 'PROVIDER_EXECUTE_FAILED', 'corr-2');
    const told = events.filter(({ correlationId }) => correlationId !== undefined);
    expect(told).toMatchObject([
      {
        topic: 'provider.a2a.delegation.completed',
        correlationId: 'corr-1',
        provider: 'fleet',
        sender: 'sun',
        success: true,
        details: { endpointId: 'mars' },
      },
      {
        topic: 'provider.a2a.delegation.failed',
        correlationId: 'corr-2',
        code: 'PROVIDER_EXECUTE_FAILED',
        details: { endpointId: 'mars' },
      },
    ]);
  });

  it.each([
    ['two of the same id', [endpoint('a', 1), endpoint('a', 2)]],
    ['one that is no web address', [{ ...endpoint('a', 1), url: 'mailto:x' }]],
    ['one without a priority', [{ ...endpoint('a', 1), priority: undefined }]],
    ['none at all', []],
  ])('refuses endpoints with %s [T016.7a]', async (_, endpoints) => {
    const { adapter } = make([]);
    await expectError(adapter.init(config(endpoints as A2AEndpoint[])), 'PROVIDER_INIT_FAILED');
  });

  it('probes every endpoint first, and sorts them by priority, then id [T016.7b T016.7c]', async () => {
    const [mars, moon] = [await remote('mars'), await remote('moon')];
    const gone = await remote('gone');
    const endpoints = [moon.endpoint(2), gone.endpoint(1), { ...mars.endpoint(2), id: 'a-mars' }];
    await remotes.pop()!.stop();
    const { adapter, events } = make([mars, moon]);
    await adapter.init(config(endpoints));
    expect(adapter.endpoints.map(({ id, down }) => [id, down === null])).toEqual([
      ['gone', false],
      ['a-mars', true],
      ['moon', true],
    ]);
    expect(events.filter(({ topic }) => topic === 'provider.a2a.endpoint.changed')).toHaveLength(2);
    expect(await adapter.health()).toMatchObject({ state: 'healthy', message: expect.stringContaining('gone: ') });
    expect(await adapter.execute(delegation('x'), 'c')).toMatchObject({ endpointId: 'a-mars' });
  });

  it('does not become ready while no endpoint answers', async () => {
    const gone = await remote('gone');
    const at = gone.endpoint(1);
    await remotes.pop()!.stop();
    const { adapter } = make([]);
    await expectError(adapter.init(config([at])), 'PROVIDER_INIT_FAILED');
  });

  it('does not count an endpoint that denies access as healthy', async () => {
    const mars = await remote('mars');
    const { adapter } = make([], { credentials: () => ({ bearer: 'wrong' }) });
    await expectError(adapter.init(config([mars.endpoint(1)])), 'PROVIDER_INIT_FAILED');
  });

  it('chooses by capability, configured or on the card, and by priority [T016.8a]', async () => {
    const [mars, moon] = [await remote('mars'), await remote('moon')];
    const { adapter } = make([mars, moon]);
    await adapter.init(config([mars.endpoint(1, ['dig']), moon.endpoint(2, ['dig', 'fly'])]));
    const chosen = async (...required: string[]) =>
      (await adapter.execute(delegation('x', ...required), 'c')).endpointId;
    expect(await chosen()).toBe('mars');
    expect(await chosen('dig')).toBe('mars');
    expect(await chosen('dig', 'fly')).toBe('moon');
    const [skill] = adapter.endpoints[0]!.capabilities.filter((one) => one.includes('translate'));
    expect(await chosen(skill!, 'fly')).toBe('moon');
    await expectError(adapter.execute(delegation('x', 'swim'), 'c'), 'PROVIDER_NO_CAPABLE_ENDPOINT');
  });

  it('moves the next call, never one in flight, and returns to the first endpoint [T016.10 T016.V3 T018.4 T018.V4]', async () => {
    const [mars, moon] = [await remote('mars'), await remote('moon')];
    const { adapter } = make([mars, moon]);
    await adapter.init(config([mars.endpoint(1), moon.endpoint(2)]));
    const waiting = adapter.execute(delegation('wait'), 'c-1');
    waiting.catch(() => {});
    await mars.begun('wait');
    const { port } = mars;
    await mars.stop();
    const failure = await waiting.catch((error) => error);
    expect(failure).toMatchObject({ correlationId: 'c-1', retryable: true });
    expect(moon.tasks).toHaveLength(0);
    // The first call may still discover the outage; no call is made twice.
    await adapter.health();
    expect((await adapter.execute(delegation('x'), 'c-2')).endpointId).toBe('moon');
    await mars.start(port);
    await adapter.health();
    expect((await adapter.execute(delegation('x'), 'c-3')).endpointId).toBe('mars');
  }, 40_000);

  it('sends a call that did not arrive to the next endpoint, once, and emits the failover [T-E9]', async () => {
    const [mars, moon] = [await remote('mars'), await remote('moon')];
    const { adapter, events } = make([mars, moon]);
    await adapter.init(config([mars.endpoint(1), moon.endpoint(2)]));
    const { port } = mars;
    await mars.stop();
    const failovers = () => events.filter(({ topic }) => topic === 'provider.failover.activated');
    expect(failovers()).toEqual([]);
    expect((await adapter.execute(delegation('x'), 'c-1')).endpointId).toBe('moon');
    expect(moon.tasks).toHaveLength(1);
    expect((await adapter.execute(delegation('x'), 'c-2')).endpointId).toBe('moon');
    expect(failovers()).toMatchObject([
      { provider: 'fleet', providerType: 'a2a', details: { from: 'mars', to: 'moon' } },
    ]);
    await mars.start(port);
    await adapter.health();
    expect(failovers()[1]).toMatchObject({ details: { from: 'moon', to: 'mars' } });
    await mars.stop();
    await moon.stop();
    await expectError(adapter.execute(delegation('x'), 'c-3'), 'PROVIDER_UNAVAILABLE', 'c-3');
    await moon.start();
    await mars.start();
  });

  it('stays with the first endpoint without failover', async () => {
    const [mars, moon] = [await remote('mars'), await remote('moon')];
    const { adapter } = make([mars, moon]);
    await adapter.init(config([mars.endpoint(1), moon.endpoint(2)], { failoverEnabled: false }));
    await remotes.shift()!.stop();
    expect((await adapter.health()).state).toBe('degraded');
    await expectError(adapter.execute(delegation('x'), 'c-1'), 'PROVIDER_UNAVAILABLE', 'c-1');
    expect(moon.tasks).toHaveLength(0);
  });

  it('cancels work in flight when it is terminated, at the remote agent too, and drops its endpoints [T016.9a T016.9b]', async () => {
    const mars = await remote('mars');
    const { adapter } = make([mars]);
    await adapter.init(config([mars.endpoint(1)]));
    const waiting = adapter.execute(delegation('wait'), 'c-1');
    waiting.catch(() => {});
    const task = await mars.begun('wait');
    const canceled = new Promise((resolve) => task.signal.addEventListener('abort', resolve));
    await adapter.terminate();
    await expectError(waiting, 'PROVIDER_TERMINATED', 'c-1');
    await canceled;
    expect(adapter.endpoints).toEqual([]);
  });

  it('ends a delegation at its time limit', async () => {
    const mars = await remote('mars');
    const { adapter } = make([mars]);
    await adapter.init(config([mars.endpoint(1)], { timeoutMs: 300 }));
    await expectError(adapter.execute(delegation('wait'), 'c-1'), 'PROVIDER_TIMEOUT', 'c-1');
  });

  it('passes on updates and questions of the agent', async () => {
    const mars = await remote('mars');
    const { adapter } = make([mars]);
    await adapter.init(config([mars.endpoint(1)]));
    const updates: ProviderUpdate[] = [];
    const onUpdate = (update: ProviderUpdate) => void updates.push(update);
    expect((await adapter.execute(delegation('tell'), 'c-1', { onUpdate })).result).toBe('one two');
    expect(updates.filter(({ kind }) => kind === 'progress').map(({ text }) => text)).toEqual(['half way']);
    expect(updates.flatMap(({ kind, text }) => (kind === 'text' ? [text] : [])).join('')).toBe('one two');
    const onQuestion = async ({ text }: ProviderUpdate) => `${text} this one`;
    const answered = await adapter.execute(delegation('ask'), 'c-2', { onQuestion });
    expect(answered.result).toBe('you said which one? this one');
    await expectError(adapter.execute(delegation('ask'), 'c-3'), 'PROVIDER_INVALID_INPUT', 'c-3');
    await expectError(adapter.execute(delegation('reject'), 'c-4'), 'PROVIDER_EXECUTE_FAILED', 'c-4');
  });

  it('refuses circular delegation', async () => {
    const mars = await remote('mars');
    const { adapter } = make([mars], { self: 'fleet@here' });
    await adapter.init(config([mars.endpoint(1)]));
    await adapter.execute(delegation('x'), 'c-1', { chain: ['sun@there'] });
    expect(JSON.stringify(mars.tasks[0]!.metadata)).toContain('fleet@here');
    const looping = adapter.execute(delegation('x'), 'c-2', { chain: ['fleet@here', 'sun@there'] });
    await expectError(looping, 'PROVIDER_POLICY_DENIED', 'c-2');
  });

  it('uses a new credential for the next call, and interrupts none [T020.4a T020.4b SC-025-005]', async () => {
    const mars = await remote('mars');
    let bearer = mars.credentials.bearer!;
    const { adapter } = make([], { credentials: () => ({ bearer }) });
    await adapter.init(config([mars.endpoint(1)]));
    const waiting = adapter.execute(delegation('wait'), 'c-1', {});
    waiting.catch(() => {});
    const task = await mars.begun('wait');
    bearer = 'revoked';
    await expectError(adapter.execute(delegation('x'), 'c-2'), 'PROVIDER_CREDENTIAL_DENIED', 'c-2');
    bearer = mars.credentials.bearer!;
    await adapter.health();
    expect((await adapter.execute(delegation('x'), 'c-3')).result).toBe('mars did x');
    expect(task.signal.aborted).toBe(false);
    await adapter.terminate();
    await expectError(waiting, 'PROVIDER_TERMINATED', 'c-1');
  });
});

function endpoint(id: string, priority: number): A2AEndpoint {
  return { id, url: 'http://127.0.0.1:9', priority, capabilities: [] };
}
