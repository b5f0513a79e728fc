import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { IDLE, RESTART_POLICY, type Supervision, type SupervisionEvent, supervise } from './supervision.js';

const reason = new EclipticError('PROCESS_ENDED', 'gone');
const policy = { ...RESTART_POLICY, maxCrashes: 4 };

function follow(events: readonly SupervisionEvent[], from: Supervision = IDLE): Supervision {
  return events.reduce((now, event) => supervise(now, event, policy).state, from);
}

const crashed = (at: number, jitter = 1): SupervisionEvent => ({ type: 'crashed', at, reason, jitter });
const due: SupervisionEvent = { type: 'due' };
const start: SupervisionEvent = { type: 'start' };

/** Any history, with a clock that never goes back. */
const histories = fc
  .array(
    fc.record({
      type: fc.constantFrom('start', 'restart', 'stop', 'started', 'crashed', 'stopped', 'due'),
      passed: fc.oneof(fc.nat(10), fc.nat(100_000)),
      jitter: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    }),
    { maxLength: 60 },
  )
  .map((steps) => {
    let at = 0;
    return steps.map(({ type, passed, jitter }): SupervisionEvent => {
      at += passed;
      if (type === 'started') return { type, at };
      return type === 'crashed' ? crashed(at, jitter) : { type: type as 'start' };
    });
  });

describe('supervision', () => {
  it('never has two at once, nor a timer too many or too few', () => {
    fc.assert(
      fc.property(histories, (events) => {
        let now = IDLE;
        let alive = 0;
        let timers = 0;
        for (const event of events) {
          // Only what was launched can crash or stop, and only a timer that was set falls due.
          const ends = event.type === 'crashed' || event.type === 'stopped';
          if ((ends && alive === 0) || (event.type === 'due' && timers === 0)) continue;
          if (event.type === 'stopped' && now.state.kind !== 'stopping') continue;
          if (event.type === 'crashed' && now.state.kind === 'stopping') continue;
          if (ends) alive--;
          if (event.type === 'due') timers--;
          const { state: next, effects } = supervise(now, event, policy);
          for (const effect of effects) {
            if (effect.type === 'launch') alive++;
            if (effect.type === 'set-timer') timers++;
            if (effect.type === 'cancel-timer') timers--;
            if (effect.type === 'set-timer') {
              expect(effect.ms).toBeGreaterThanOrEqual(policy.firstDelayMs / 2);
              expect(effect.ms).toBeLessThanOrEqual(policy.maxDelayMs);
            }
          }
          now = next;
          const { kind } = now.state;
          expect(alive).toBe(kind === 'starting' || kind === 'running' || kind === 'stopping' ? 1 : 0);
          expect(timers).toBe(kind === 'backing-off' ? 1 : 0);
          expect(now.crashes.length).toBeLessThanOrEqual(policy.maxCrashes);
        }
      }),
    );
  });

  it('ends idle from any state once it has stopped', () => {
    fc.assert(
      fc.property(histories, (events) => {
        expect(follow([...events, { type: 'stop' }, { type: 'stopped' }]).state).toEqual({ kind: 'idle' });
      }),
    );
  });

  it('doubles the delay with each crash up to a limit, with random jitter', () => {
    let now = follow([start]);
    const delays: number[] = [];
    for (let at = 0; delays.length < 10; at += policy.withinMs) {
      now = follow([crashed(at)], now);
      delays.push(now.state.kind === 'backing-off' ? now.state.delayMs : 0);
      now = follow([due, { type: 'started', at }], now);
      // It never runs long enough to be forgiven, and never crashes often enough to be given up.
      now = { ...now, state: { kind: 'running', since: at + policy.withinMs - 1 } };
    }
    expect(delays).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    expect(follow([start, crashed(0, 0)]).state).toMatchObject({ kind: 'backing-off', delayMs: 125 });
  });

  it('begins with the first delay again after a long run', () => {
    const running = follow([start, crashed(0), due, crashed(10), due, { type: 'started', at: 1_000 }]);
    expect(follow([crashed(1_000 + policy.wellMs - 1)], running).state).toMatchObject({ delayMs: 1_000 });
    expect(follow([crashed(1_000 + policy.wellMs)], running).state).toMatchObject({ delayMs: 250 });
  });

  it('gives up at once after a final error', () => {
    const final = follow([start, { type: 'crashed', at: 0, reason, jitter: 1, final: true }]);
    expect(final.state).toEqual({ kind: 'failed', reason });
    expect(follow([{ type: 'restart' }], final).state).toEqual({ kind: 'starting' });
  });

  it('gives up after too many crashes in a short time, until start or restart is called', () => {
    const failed = follow([start, crashed(0), due, crashed(1), due, crashed(2), due, crashed(policy.withinMs - 1)]);
    expect(failed.state).toEqual({ kind: 'failed', reason });
    expect(follow([due, crashed(70_000), { type: 'started', at: 70_000 }], failed)).toEqual(failed);
    for (const type of ['start', 'restart'] as const) {
      expect(follow([{ type }], failed)).toEqual({ state: { kind: 'starting' }, crashes: [], streak: 0 });
    }
    const slower = follow([start, crashed(0), due, crashed(1), due, crashed(2), due, crashed(policy.withinMs)]);
    expect(slower.state.kind).toBe('backing-off');
  });

  it('follows the last request while it stops', () => {
    const stopping = follow([start, { type: 'stop' }]);
    expect(follow([start, { type: 'stopped' }], stopping).state.kind).toBe('starting');
    expect(follow([{ type: 'restart' }, { type: 'stop' }, { type: 'stopped' }], stopping).state.kind).toBe('idle');
  });
});
