import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ScriptedAdapter } from '../../../test/providers/scripted-adapter.js';
import { A2AObservability } from '../../mesh/observability.js';
import type { A2ALogEvent } from '../../mesh/schemas.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { ProviderEvents } from '../adapter/events.js';
import { HealthCoordinator } from './health.js';
import { HEALTH_POLICY, type Health, type HealthEvent, newHealth, stepHealth } from './health-machine.js';

const INTERVAL = 30_000;

function setUp(policy = {}) {
  const runtime = new SimulatedRuntime();
  const observability = new A2AObservability();
  const events: A2ALogEvent[] = [];
  observability.subscribe((event) => events.push(event));
  const health = new HealthCoordinator({ runtime, events: new ProviderEvents(runtime, observability) }, policy);
  const add = (id: string, intervalMs = INTERVAL) => {
    const adapter = new ScriptedAdapter(runtime);
    health.register(id, adapter, intervalMs, { type: 'acp' });
    return adapter;
  };
  const state = (id: string) => health.getStatus(id).state;
  return { runtime, events, health, add, state };
}

describe('HealthCoordinator', () => {
  it('checks each provider at once, then at its own interval [T017.1 T017.2a T017.3a T017.V1 FR-025-009 NFR-025-002]', async () => {
    const { runtime, health, add } = setUp();
    const [slow, quick] = [add('slow'), add('quick', 5_000)];
    await runtime.advance(0);
    expect([slow.checks, quick.checks]).toEqual([1, 1]);
    await runtime.advance(60_000);
    expect([slow.checks, quick.checks]).toEqual([3, 13]);
    const hasty = add('hasty', 10);
    await runtime.advance(20_000);
    expect(hasty.checks).toBe(5);
    health.close();
    expect(runtime.pending).toBe(0);
  });

  it('calls a provider degraded after 3 failures in a row, unavailable after 5, and healthy after one success [T017.3b T017.4b]', async () => {
    const { runtime, add, state } = setUp();
    const adapter = add('p');
    await runtime.advance(0);
    adapter.well = 'no';
    const seen = [];
    for (let check = 1; check <= 6; check++) {
      await runtime.advance(INTERVAL);
      seen.push(state('p'));
    }
    expect(seen).toEqual(['healthy', 'healthy', 'degraded', 'degraded', 'unavailable', 'unavailable']);
    adapter.well = 'yes';
    await runtime.advance(INTERVAL);
    expect(state('p')).toBe('healthy');
    adapter.well = 'degraded';
    await runtime.advance(3 * INTERVAL);
    expect(state('p')).toBe('degraded');
  });

  it('requires the configured number of successes', async () => {
    const { runtime, add, state } = setUp({ recoveryThreshold: 3 });
    const adapter = add('p');
    await runtime.advance(0);
    adapter.well = 'no';
    await runtime.advance(3 * INTERVAL);
    const seen = [];
    for (const well of ['yes', 'yes', 'no', 'yes', 'yes', 'yes'] as const) {
      adapter.well = well;
      await runtime.advance(INTERVAL);
      seen.push(state('p'));
    }
    expect(seen).toEqual([...Array(5).fill('degraded'), 'healthy']);
  });

  it('emits transitions only, with the provider, its type and both states [T017.3c T017.V2]', async () => {
    const { runtime, add, events, health } = setUp();
    const heard: unknown[] = [];
    health.onTransition((id, transition) =>
      heard.push([id, transition.from, transition.to, health.getStatus(id).state]),
    );
    const adapter = add('p');
    await runtime.advance(10 * INTERVAL);
    expect(events).toEqual([]);
    adapter.well = 'no';
    await runtime.advance(10 * INTERVAL);
    adapter.well = 'yes';
    await runtime.advance(10 * INTERVAL);
    expect(events).toMatchObject([
      {
        type: 'provider',
        topic: 'provider.health.changed',
        provider: 'p',
        providerType: 'acp',
        details: { from: 'healthy', to: 'degraded', failureCount: 3 },
      },
      { topic: 'provider.health.changed', details: { from: 'degraded', to: 'unavailable', failureCount: 5 } },
      { topic: 'provider.health.changed', details: { from: 'unavailable', to: 'healthy', failureCount: 0 } },
    ]);
    expect(heard).toEqual([
      ['p', 'healthy', 'degraded', 'degraded'],
      ['p', 'degraded', 'unavailable', 'unavailable'],
      ['p', 'unavailable', 'healthy', 'healthy'],
    ]);
  });

  it('starts no second check while one is unanswered, and counts that as a failure', async () => {
    const { runtime, add, state } = setUp();
    const adapter = add('p', 5_000);
    await runtime.advance(0);
    adapter.well = 'silent';
    await runtime.advance(60_000);
    expect([adapter.checks, adapter.mostChecking]).toEqual([2, 1]);
    expect(state('p')).toBe('unavailable');
    adapter.well = 'yes';
    adapter.answer();
    await runtime.advance(5_000);
    expect([adapter.checks, state('p')]).toEqual([3, 'healthy']);
  });

  it('counts a crash at once, and ignores a check that began before it', async () => {
    const { runtime, add, state } = setUp();
    const adapter = add('p');
    adapter.well = 'silent';
    await runtime.advance(INTERVAL);
    adapter.crash();
    expect(state('p')).toBe('degraded');
    adapter.well = 'yes';
    adapter.answer();
    await runtime.advance(1);
    expect(state('p')).toBe('degraded');
    adapter.comeBack();
    await runtime.advance(1);
    expect(state('p')).toBe('healthy');
  });

  it('calls a crash loop unavailable, reported or observed [T019.3c]', async () => {
    const { runtime, add, state } = setUp();
    const [told, seen] = [add('told'), add('seen')];
    await runtime.advance(0);
    told.crash(true);
    expect(state('told')).toBe('unavailable');
    for (let crash = 1; crash <= 5; crash++) {
      seen.crash();
      expect(state('seen')).toBe(crash < 5 ? 'degraded' : 'unavailable');
      if (crash === 5) break;
      seen.comeBack();
      await runtime.advance(1_000);
      expect(state('seen')).toBe('healthy');
    }
  });

  it('gives the status of one provider, of all, and the healthy ones of a type [T017.2b T017.2c T017.2d T017.2e T017.V3]', async () => {
    const { runtime, health, add } = setUp();
    const b = add('b');
    add('a');
    health.register('c', new ScriptedAdapter(runtime), INTERVAL, { type: 'mcp' });
    await runtime.advance(0);
    expect(health.getHealthyProviders('acp')).toEqual(['a', 'b']);
    b.crash();
    expect(health.getHealthyProviders('acp')).toEqual(['a']);
    expect([...health.getAllStatuses()].map(([id, { state }]) => [id, state])).toEqual([
      ['b', 'degraded'],
      ['a', 'healthy'],
      ['c', 'healthy'],
    ]);
    expect(health.getStatus('b')).toMatchObject({ failureCount: 1, message: expect.any(String) });
    expect(health.getStatus('b').lastCheck).toEqual(new Date(runtime.now()));
    health.unregister('b');
    expect(b.listeners).toBe(0);
    const { checks } = b;
    await runtime.advance(10 * INTERVAL);
    expect(b.checks).toBe(checks);
    expect(() => health.getStatus('b')).toThrowError(expect.objectContaining({ code: 'PROVIDER_NOT_FOUND' }));
  });
});

describe('the health machine', () => {
  const event = fc.oneof(
    fc.constant({ type: 'passed' as const }),
    fc.constant({ type: 'failed' as const, reason: 'x' }),
    fc.record({ type: fc.constant('crashed' as const), reason: fc.constant('x'), looping: fc.boolean() }),
  );

  it('is healthy only after enough checks passed since the last failure that counted [T017.V2]', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (events, recoveryThreshold) => {
        const policy = { ...HEALTH_POLICY, recoveryThreshold };
        let health: Health = newHealth('healthy', 0);
        let at = 0;
        for (const one of events) {
          const before = health;
          const { next, transition } = stepHealth(health, { ...one, at: ++at } as HealthEvent, policy);
          health = next;
          expect(transition !== undefined).toBe(before.state !== next.state);
          if (one.type === 'passed') expect(next.failures).toBe(0);
          else
            expect(next.state === 'healthy').toBe(
              before.state === 'healthy' && one.type === 'failed' && next.failures < 3,
            );
          if (one.type === 'crashed') expect(next.state).not.toBe('healthy');
          if (next.failures >= 5) expect(next.state).toBe('unavailable');
          if (transition?.to === 'healthy') expect(before.passes + 1).toBe(recoveryThreshold);
        }
      }),
    );
  });
});
