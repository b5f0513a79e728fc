import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { A2AObservability } from '../../src/mesh/observability.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { ProviderEvents } from '../../src/providers/adapter/events.js';
import { ProviderRegistry } from '../../src/providers/registry/registry.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { tries } from '../evidence.js';
import { ScriptedAdapter } from './scripted-adapter.js';

const RUNS = process.env.ECLIPTIC_SOAK ? 1_000 : 100;
const INTERVAL = 5_000;
const IDS = ['primary', 'second', 'third'];
const ROUTE = { type: 'command', workspaceId: 'w' };

const step = fc.record({
  who: fc.integer({ min: 0, max: IDS.length - 1 }),
  what: fc.constantFrom('break', 'mend', 'crash', 'hang', 'answer', 'ask', 'ask', 'ask'),
  afterMs: fc.integer({ min: 0, max: 12_000 }),
});

describe('failover, in random schedules', () => {
  it('happens within one interval of the transition, returns to the primary, and never selects a provider that is down [SC-025-003 T020.3a T020.3b FR-025-010]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.array(step, { minLength: 10, maxLength: 60 }), async (seed, steps) => {
        const runtime = new SimulatedRuntime({ seed });
        const observability = new A2AObservability();
        const events: A2ALogEvent[] = [];
        observability.subscribe((event) => events.push(event));
        const registry = new ProviderRegistry({ runtime, events: new ProviderEvents(runtime, observability) });
        const adapters = IDS.map(() => new ScriptedAdapter(runtime));
        for (const [priority, adapter] of adapters.entries()) {
          const id = IDS[priority]!;
          const about = { id, type: 'command', config: {}, workspaceId: 'w', concurrencyLimit: 100 } as const;
          await registry.register({ ...about, priority, healthCheckIntervalMs: INTERVAL }, adapter);
        }
        // The chosen provider must be healthy at that moment, and the best healthy one.
        for (const [index, adapter] of adapters.entries()) {
          const execute = adapter.execute.bind(adapter);
          adapter.execute = (...call) => {
            expect(registry.getHealthStatus(IDS[index]!).state).toBe('healthy');
            for (const better of IDS.slice(0, index))
              expect(registry.getHealthStatus(better).state).not.toBe('healthy');
            return execute(...call);
          };
        }
        const asked: Promise<unknown>[] = [];
        const ask = () => asked.push(registry.execute(ROUTE, asked.length, `c-${asked.length}`));
        for (const { who, what, afterMs } of steps) {
          const adapter = adapters[who]!;
          if (what === 'break') adapter.well = 'no';
          else if (what === 'mend') adapter.well = 'yes';
          else if (what === 'crash') adapter.crash();
          else if (what === 'hang') adapter.well = 'silent';
          else if (what === 'answer') adapter.answer();
          else ask();
          await runtime.advance(afterMs);
        }
        const moves = events.filter(({ topic }) => topic === 'provider.failover.activated');
        const changes = events.filter(({ topic }) => topic === 'provider.health.changed');
        for (const { timestamp } of moves) {
          // A move follows its transition at once.
          expect(changes.some((change) => change.timestamp === timestamp)).toBe(true);
        }
        for (const adapter of adapters) {
          adapter.well = 'yes';
          adapter.answer();
          expect(adapter.mostChecking).toBeLessThanOrEqual(1);
        }
        // All are mended: one check each is enough, and nothing that waited is lost.
        await runtime.advance(2 * INTERVAL);
        ask();
        expect(await Promise.all(asked)).toEqual(asked.map((_, index) => index));
        expect(adapters[0]!.came.at(-1)).toBe(`c-${asked.length - 1}`);
        await registry.close();
        expect(runtime.pending).toBe(0);
      }),
      { numRuns: tries(RUNS, 'random schedules') },
    );
  }, 600_000);

  it('needs one successful check to bring the work back', async () => {
    const runtime = new SimulatedRuntime();
    const registry = new ProviderRegistry({ runtime, events: new ProviderEvents(runtime, new A2AObservability()) });
    const adapter = new ScriptedAdapter(runtime);
    const about = { id: 'a', type: 'command', config: {}, workspaceId: 'w', concurrencyLimit: 1 } as const;
    await registry.register({ ...about, healthCheckIntervalMs: INTERVAL }, adapter);
    adapter.well = 'no';
    await runtime.advance(3 * INTERVAL);
    const waiting = registry.execute(ROUTE, 'x', 'c');
    adapter.well = 'yes';
    await runtime.advance(INTERVAL);
    expect(await waiting).toBe('x');
    await registry.close();
  });
});
