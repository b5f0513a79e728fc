import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ProviderState } from '../adapter/adapter.js';
import {
  type Candidate,
  EMPTY_TABLE,
  isServed,
  type RoutingEffect,
  type RoutingEvent,
  type RoutingTable,
  select,
  stepRouting,
} from './failover-machine.js';

const STATES: readonly ProviderState[] = ['healthy', 'degraded', 'unavailable'];

function candidate(id: string, more: Partial<Candidate> = {}): Candidate {
  const base = { id, type: 'a2a', workspaceId: 'w', capabilities: [], priority: 1, state: 'healthy', phase: 'ready' };
  return { ...base, ...more } as Candidate;
}

function run(...events: RoutingEvent[]): { table: RoutingTable; effects: RoutingEffect[] } {
  const effects: RoutingEffect[] = [];
  const table = events.reduce((now, event) => {
    const step = stepRouting(now, event);
    effects.push(...step.effects);
    return step.state;
  }, EMPTY_TABLE);
  return { table, effects };
}

const added = (...candidates: Candidate[]) =>
  candidates.map((one): RoutingEvent => ({ type: 'added', candidate: one }));
const becomes = (id: string, state: ProviderState): RoutingEvent => ({ type: 'changed', id, state });

describe('the failover machine', () => {
  it('chooses by priority, then id, among healthy, capable providers of the type and workspace [T018.1a T018.1b]', () => {
    const { table } = run(
      ...added(
        candidate('c', { capabilities: ['dig', 'fly'] }),
        candidate('b', { capabilities: ['dig'] }),
        candidate('a', { priority: 2 }),
        candidate('other', { type: 'mcp', priority: 0 }),
        candidate('elsewhere', { workspaceId: 'v', priority: 0 }),
      ),
    );
    expect(select(table, 'a2a', [], 'w')).toBe('b');
    expect(select(table, 'a2a', ['dig', 'fly'], 'w')).toBe('c');
    expect(select(table, 'a2a', ['swim'], 'w')).toBeNull();
    expect(select(table, 'mcp', [], 'w')).toBe('other');
    expect(select(table, 'a2a', [], 'v')).toBe('elsewhere');
    expect(select(table, 'acp', [], 'w')).toBeNull();
    expect([isServed(table, 'a2a', ['dig'], 'w'), isServed(table, 'a2a', ['swim'], 'w')]).toEqual([true, false]);
  });

  it('moves to the next provider when the first is degraded, back when it recovers, and emits both [T018.1c T018.2b T018.V1 T018.V2]', () => {
    const start = added(candidate('a', { capabilities: ['x'] }), candidate('b', { priority: 2, capabilities: ['x'] }));
    const { table, effects } = run(...start, becomes('a', 'degraded'));
    expect(select(table, 'a2a', ['x'], 'w')).toBe('b');
    expect(effects).toEqual([
      {
        type: 'failover',
        pool: 'a2a',
        from: 'a',
        to: 'b',
        providerType: 'a2a',
        workspaceId: 'w',
        capabilities: ['x'],
        wholeType: true,
      },
    ]);
    const back = run(...start, becomes('a', 'degraded'), becomes('a', 'healthy'));
    expect(select(back.table, 'a2a', [], 'w')).toBe('a');
    expect(back.effects.at(-1)).toMatchObject({ type: 'failover', from: 'b', to: 'a' });
  });

  it('selects none when all are down, and alerts once [T018.1d T017.5a]', () => {
    const { table, effects } = run(
      ...added(candidate('a', { capabilities: ['x'] }), candidate('b', { priority: 2 })),
      becomes('a', 'degraded'),
      becomes('b', 'degraded'),
      becomes('a', 'unavailable'),
    );
    expect(select(table, 'a2a', [], 'w')).toBeNull();
    expect(isServed(table, 'a2a', ['x'], 'w')).toBe(true);
    expect(effects.map(({ type, capabilities, wholeType }) => [type, capabilities, wholeType])).toEqual([
      ['failover', [], true],
      ['unavailable', ['x'], false],
      ['unavailable', [], true],
    ]);
    expect(stepRouting(table, becomes('a', 'healthy')).effects).toMatchObject([
      { type: 'failover', from: 'b', to: 'a', wholeType: true },
      { type: 'available', capabilities: ['x'], wholeType: true },
    ]);
  });

  it('raises no alert for a starting provider, and gives no work to a held one', () => {
    const { table, effects } = run(...added(candidate('a', { phase: 'starting' })));
    expect([select(table, 'a2a', [], 'w'), effects]).toEqual([null, []]);
    expect(stepRouting(table, { type: 'changed', id: 'a', phase: 'ready' }).effects).toEqual([]);
    expect(stepRouting(table, { type: 'changed', id: 'a', phase: 'held' }).effects).toMatchObject([
      { type: 'unavailable' },
    ]);
    expect(stepRouting(table, { type: 'removed', id: 'a' }).state.groups.size).toBe(0);
    expect(stepRouting(table, { type: 'removed', id: 'nobody' }).state).toBe(table);
  });

  it('never selects an unhealthy provider, and emits every change of the selection [T017.4a]', () => {
    const step = fc.record({ who: fc.integer({ min: 0, max: 4 }), state: fc.constantFrom(...STATES) });
    const priorities = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(priorities, fc.array(step, { maxLength: 40 }), (list, steps) => {
        const all = list.map((priority, index) => candidate(`p${index}`, { priority }));
        let { table } = run(...added(...all));
        const states = new Map<string, ProviderState>(all.map(({ id }) => [id, 'healthy']));
        let last = select(table, 'a2a', [], 'w')!;
        for (const { who, state } of steps) {
          const id = `p${who % all.length}`;
          states.set(id, state);
          const taken = stepRouting(table, becomes(id, state));
          table = taken.state;
          const now = select(table, 'a2a', [], 'w');
          const best = all
            .filter((one) => states.get(one.id) === 'healthy')
            .sort((a, b) => a.priority - b.priority || (a.id < b.id ? -1 : 1))[0];
          expect(now).toBe(best?.id ?? null);
          const moves = taken.effects.filter(({ type }) => type === 'failover');
          if (now !== null && now !== last) expect(moves).toMatchObject([{ from: last, to: now }]);
          else expect(moves).toEqual([]);
          last = now ?? last;
        }
      }),
    );
  });
});
