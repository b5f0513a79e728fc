import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ASLEEP, seesMailBy, stepWake, type WakeEffect, type WakeEvent, type WakeState } from './wake-machine.js';

const RULES = { perHour: 3, readWithinMs: 300_000, testWithinMs: 60_000 };
const HOUR = 3_600_000;

/** Runs events one second apart; what came of it. */
function run(events: readonly WakeEvent[], quietMs = 0, from: WakeState = ASLEEP) {
  let state = from;
  const effects: WakeEffect[] = [];
  events.forEach((event, index) => {
    const step = stepWake(state, event, { at: index * 1_000, quietMs }, RULES);
    state = step.state;
    effects.push(...step.effects);
  });
  const surfaced = effects.flatMap((effect) => (effect.type === 'surface' ? [effect.id] : []));
  return { state, effects, surfaced, says: seesMailBy(state, { quietMs }) };
}

const open: WakeEvent = { type: 'path', open: true };
const arrived = (id: string): WakeEvent => ({ type: 'arrived', id });
const read = (id: string): WakeEvent => ({ type: 'read', id });
const late = (id: string): WakeEvent => ({ type: 'late', id });

describe('the wake machine', () => {
  it('wakes for mail that is worth a turn, once there is an adapter [ON6]', () => {
    expect(run([arrived('a')]).surfaced).toEqual([]);
    expect(run([open, arrived('a')]).surfaced).toEqual(['a']);
  });

  it('has one pointer outstanding, and submits the next when that was read', () => {
    const events = [open, arrived('a'), arrived('b'), arrived('c')];
    expect(run(events).surfaced).toEqual(['a']);
    expect(run([...events, read('b'), read('a')]).surfaced).toEqual(['a', 'c']);
  });

  it('continues once the message was shown, or the turn ended without a look at it [T-A10]', () => {
    const shown = (id: string): WakeEvent => ({ type: 'shown', id });
    const turn = (...unread: string[]): WakeEvent => ({ type: 'turn', unread });
    expect(run([open, arrived('a'), shown('a'), arrived('b'), shown('b'), arrived('c')]).surfaced).toEqual([
      'a',
      'b',
      'c',
    ]);
    expect(run([open, arrived('a'), shown('a'), late('a')]).state.path).toBe('untested');
    expect(run([open, arrived('a'), turn('a'), arrived('b')]).surfaced).toEqual(['a', 'b']);
    const prolonged = [open, turn('a'), turn('a'), arrived('b')];
    expect(run(prolonged).effects.filter(({ type }) => type === 'continue')).toHaveLength(1);
    expect(run(prolonged).surfaced).toEqual(['b']);
    const proven = [open, { type: 'test', id: 'n' } as const, shown('n')];
    expect(run(proven).says).toBe('polls');
    const ignored = [...proven, read('n'), arrived('a'), turn('a')];
    expect(run(ignored).says).toBe('next_turn');
    expect(run([...ignored, read('a')]).says).toBe('wakes');
  });

  it('claims wakes only after a self-test was read [ON6]', () => {
    expect(run([open]).says).toBe('polls');
    expect(run([open, arrived('a'), read('a')]).says).toBe('polls');
    expect(run([open, { type: 'test', id: 'n' }]).says).toBe('polls');
    expect(run([open, { type: 'test', id: 'n' }, read('n')]).says).toBe('wakes');
    expect(run([open, { type: 'test', id: 'n' }, late('n'), read('n')]).says).toBe('polls');
  });

  it('stops claiming wakes when a pointer is refused or not followed in time, or the adapter closes [ON6]', () => {
    const proven = [open, { type: 'test', id: 'n' } as const, read('n'), arrived('a')];
    expect(run([...proven, late('a')]).says).toBe('polls');
    expect(run([...proven, { type: 'refused', id: 'a' }]).says).toBe('polls');
    expect(run([...proven, { type: 'path', open: false }]).says).toBe('polls');
    expect(run([...proven, late('a'), arrived('b')]).surfaced).toEqual(['n', 'a']);
  });

  it('claims wakes again when the missed message is read after all', () => {
    const proven = [open, { type: 'test', id: 'n' } as const, read('n'), arrived('a'), late('a')];
    expect(run([...proven, read('a')]).says).toBe('wakes');
    expect(run([open, arrived('a'), late('a'), read('a'), arrived('b')]).surfaced).toEqual(['a', 'b']);
  });

  it('keeps its hourly limit and quiet hours, and continues after them', () => {
    const many = ['a', 'b', 'c', 'd'].flatMap((id) => [arrived(id), read(id)]);
    const spent = run([open, ...many.slice(0, -1)]);
    expect(spent.surfaced).toEqual(['a', 'b', 'c']);
    const [pause] = spent.effects.flatMap((effect) => (effect.type === 'tick' ? [effect.ms] : []));
    expect(pause).toBeGreaterThan(HOUR - 10_000);
    const later = stepWake(spent.state, { type: 'tick' }, { at: HOUR + 10_000, quietMs: 0 }, RULES);
    expect(later.effects).toContainEqual({ type: 'surface', id: 'd' });
    const quiet = run([open, arrived('a')], 5_000);
    expect(quiet.effects).toEqual([{ type: 'tick', ms: 5_000 }]);
    const proven = [open, { type: 'test', id: 'n' } as const, read('n')];
    expect(run(proven, 5_000).says).toBe('polls');
  });

  it('prolongs a turn once for a message, and not again before it was read', () => {
    const turn: WakeEvent = { type: 'turn', unread: ['a'] };
    const first = run([turn]);
    expect(first.effects).toContainEqual({ type: 'continue', id: 'a' });
    expect(first.says).toBe('next_turn');
    expect(run([turn, turn]).effects.filter(({ type }) => type === 'continue')).toHaveLength(1);
    expect(run([turn, late('a')]).says).toBe('polls');
    expect(run([turn, late('a'), turn]).effects.filter(({ type }) => type === 'continue')).toHaveLength(1);
    expect(run([{ type: 'turn', unread: [] }]).says).toBe('next_turn');
  });

  it('never claims more than was proven, nor has two pointers outstanding, for any sequence of events', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd');
    const event: fc.Arbitrary<WakeEvent> = fc.oneof(
      fc.record({ type: fc.constant('path' as const), open: fc.boolean() }),
      fc.record({ type: fc.constant('arrived' as const), id }),
      fc.record({ type: fc.constantFrom('test', 'refused', 'shown', 'read', 'late', 'needless'), id }),
      fc.record({ type: fc.constant('turn' as const), unread: fc.array(id, { maxLength: 2 }) }),
      fc.constant<WakeEvent>({ type: 'tick' }),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
        let state = ASLEEP;
        let tests = 0;
        for (const [index, each] of events.entries()) {
          const before = state;
          const step = stepWake(state, each, { at: index * 1_000, quietMs: 0 }, RULES);
          state = step.state;
          const pointers = step.effects.filter(({ type }) => type === 'surface' || type === 'continue');
          expect(pointers.length).toBeLessThanOrEqual(1);
          if (pointers.length > 0) expect(state.outstanding).toBeDefined();
          if (before.outstanding && pointers.length > 0) expect(state.outstanding).not.toBe(before.outstanding);
          tests += step.effects.filter((effect) => effect.type === 'tested' && effect.passed).length;
          if (seesMailBy(state, { quietMs: 0 }) === 'wakes') expect(tests).toBeGreaterThan(0);
          expect(state.wokenAt.length).toBeLessThanOrEqual(RULES.perHour);
        }
      }),
    );
  });
});
