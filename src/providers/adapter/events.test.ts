import { describe, expect, it } from 'vitest';
import { A2AObservability } from '../../mesh/observability.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { ProviderEvents } from './events.js';

describe('the kept changes of providers', () => {
  it('are the latest of each provider, newest first, without its work [FC.64]', async () => {
    const runtime = new SimulatedRuntime();
    const events = new ProviderEvents(runtime, new A2AObservability());
    events.emit('provider.registered', { provider: 'quiet' });
    for (let count = 0; count < 200; count++) {
      await runtime.advance(1_000);
      const [from, to] = count % 2 === 0 ? ['healthy', 'degraded'] : ['degraded', 'healthy'];
      events.emit('provider.health.changed', { provider: 'flapping', reason: `check ${count}`, details: { from, to } });
      events.emit('provider.execute.completed', { provider: 'flapping', correlationId: `work-${count}` });
    }
    const kept = events.changes('flapping');
    expect(kept).toHaveLength(50);
    expect(kept[0]).toEqual({
      ...{ at: runtime.now(), provider: 'flapping', what: 'health.changed' },
      ...{ from: 'degraded', to: 'healthy', reason: 'check 199' },
    });
    expect(kept.at(-1)).toMatchObject({ reason: 'check 150' });
    // A provider that changes often does not displace the others.
    expect(events.changes().at(-1)).toMatchObject({ provider: 'quiet', what: 'registered', from: null, reason: null });
  });

  it('are of a limited number of providers', () => {
    const events = new ProviderEvents(new SimulatedRuntime(), new A2AObservability());
    for (let count = 0; count < 1_100; count++) events.emit('provider.registered', { provider: `p${count}` });
    expect(events.changes()).toHaveLength(1_000);
    expect(events.changes('p0')).toEqual([]);
    expect(events.changes('p1099')).toHaveLength(1);
  });
});
