import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Deadline, DeadlineQueue } from './deadlines.js';
import { Fifo } from './fifo.js';
import type { Logger, Timer } from './runtime.js';
import { SimulatedRuntime } from './simulated-runtime.js';
import { systemRuntime } from './system-runtime.js';
import { UlidSource } from './ulid.js';

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

function expectStrictlyIncreasing(ids: readonly string[]): void {
  const wrong = ids.findIndex((id, index) => index > 0 && !(id > ids[index - 1]!));
  expect(wrong === -1 ? undefined : ids.slice(wrong - 1, wrong + 1)).toBeUndefined();
}

function times(count: number, make: () => string): string[] {
  return Array.from({ length: count }, make);
}

describe('ids', () => {
  it('are 26 Crockford characters [R2.2]', () => {
    for (const runtime of [systemRuntime(), new SimulatedRuntime()]) {
      for (const id of times(2_000, () => runtime.id())) expect(id).toMatch(ULID);
    }
  });

  it('begin with the time, most significant part first [R2.2]', () => {
    const ids = new UlidSource(() => 0);
    expect(ids.next(0).slice(0, 10)).toBe('0000000000');
    expect(ids.next(33).slice(0, 10)).toBe('0000000011');
    // The example of the ULID specification.
    expect(ids.next(1_469_918_176_385).slice(0, 10)).toBe('01ARYZ6S41');
    expect(ids.next(2 ** 48 - 1).slice(0, 10)).toBe('7ZZZZZZZZZ');
  });

  it('strictly increase as text, whatever the clock says, forwards or backwards [R2.2]', () => {
    const arbReadings = fc.array(fc.oneof(fc.nat(50), fc.integer({ min: 0, max: 2 ** 48 - 100 })), { maxLength: 200 });
    fc.assert(
      fc.property(arbReadings, fc.integer(), (readings, seed) => {
        const runtime = new SimulatedRuntime({ seed });
        const source = new UlidSource(() => runtime.random());
        expectStrictlyIncreasing(readings.map((now) => source.next(now)));
      }),
      { numRuns: 300 },
    );
  });

  it('keep increasing when the clock goes back, without running ahead of the latest reading [R2.2]', () => {
    const source = new UlidSource(() => 0.9);
    const ids = [source.next(1_000), source.next(999), source.next(0), source.next(1_000), source.next(1_001)];
    expectStrictlyIncreasing(ids);
    expect(new Set(ids.slice(0, 4).map((id) => id.slice(0, 20))).size).toBe(1);
    expect(ids[4]!.slice(0, 10)).toBe('00000000Z9');
  });

  it('strictly increase when a clock counts fractions of a millisecond [R2.2]', () => {
    let next = 0.95;
    const falling = () => {
      next = Math.max(0, next - 0.05);
      return next;
    };
    const source = new UlidSource(falling);
    expectStrictlyIncreasing([source.next(5.25), source.next(5.5), source.next(5.75)]);
  });

  it('strictly increase on a simulated clock that stops between milliseconds [R2.2]', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const runtime = new SimulatedRuntime({ seed });
      const ids = [runtime.id()];
      for (let step = 0; step < 5; step++) {
        await runtime.advance(0.25);
        ids.push(runtime.id());
      }
      expectStrictlyIncreasing(ids);
    }
  });

  it('strictly increase within one millisecond across many blocks of the counter [R2.2]', () => {
    for (const start of [0, 0.25, 0.999]) {
      const source = new UlidSource(() => start);
      const ids = times(5_000, () => source.next(1));
      expectStrictlyIncreasing(ids);
      expect(new Set(ids.map((id) => id.slice(0, 20))).size).toBe(1);
    }
  });

  it('borrow the next millisecond when the counter of one is exhausted [R2.2]', () => {
    // The sixth random number starts the counter. Beyond its range, it starts it 512 ids before the end.
    let calls = 0;
    const source = new UlidSource(() => (++calls === 6 ? 2 - 2 ** -20 : 0.5));
    const ids = times(2_000, () => source.next(1_000));
    expectStrictlyIncreasing(ids);
    for (const id of ids) expect(id).toMatch(ULID);
    const ofTime = (time: string) => ids.filter((id) => id.startsWith(time)).length;
    expect([ofTime('00000000Z8'), ofTime('00000000Z9')]).toEqual([512, 1_488]);
    expectStrictlyIncreasing([ids.at(-1)!, source.next(1_000), source.next(1_001), source.next(1_002)]);
  });

  it('differ between runtimes [R2.2]', () => {
    const [one, other] = [systemRuntime(), systemRuntime()];
    expect(new Set([...times(1_000, () => one.id()), ...times(1_000, () => other.id())]).size).toBe(2_000);
  });
});

describe('the simulated runtime', () => {
  it('starts where it is told, and its clock moves only when told to [R2.2]', async () => {
    const runtime = new SimulatedRuntime({ start: 5_000 });
    expect(runtime.now()).toBe(5_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(runtime.now()).toBe(5_000);
    await runtime.advance(10);
    expect(runtime.now()).toBe(5_010);
    expect(runtime.stopwatch()).toBe(5_010);
  });

  it('runs timers in order of their due time, each at its own time', async () => {
    const runtime = new SimulatedRuntime({ start: 0 });
    const ran: [string, number][] = [];
    for (const ms of [30, 10, 50, 20, 40]) runtime.setTimer(() => ran.push([`after ${ms}`, runtime.now()]), ms);
    await runtime.advance(40);
    expect(ran).toEqual([
      ['after 10', 10],
      ['after 20', 20],
      ['after 30', 30],
      ['after 40', 40],
    ]);
    expect(runtime.pending).toBe(1);
    await runtime.advance(9);
    expect(ran).toHaveLength(4);
    await runtime.advance(1);
    expect(ran).toHaveLength(5);
    expect(runtime.pending).toBe(0);
  });

  it('runs any set of timers in order of due time, never before', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(1_000), { maxLength: 40 }), fc.integer(), async (delays, seed) => {
        const runtime = new SimulatedRuntime({ seed, start: 0 });
        const ran: number[] = [];
        for (const ms of delays) {
          runtime.setTimer(() => {
            expect(runtime.now()).toBe(ms);
            ran.push(ms);
          }, ms);
        }
        await runtime.runUntilIdle();
        expect(ran).toEqual(delays.toSorted((a, b) => a - b));
      }),
      { numRuns: 100 },
    );
  });

  it('runs what a task schedules, if it falls due in the same advance', async () => {
    const runtime = new SimulatedRuntime({ start: 0 });
    const ran: number[] = [];
    const again = () => {
      ran.push(runtime.now());
      runtime.setTimer(again, 10);
    };
    runtime.setTimer(again, 10);
    await runtime.advance(35);
    expect(ran).toEqual([10, 20, 30]);
    expect(runtime.now()).toBe(35);
  });

  it('runs a deferred task and one with a negative delay at once, never synchronously', async () => {
    const runtime = new SimulatedRuntime({ start: 0 });
    const ran: number[] = [];
    runtime.defer(() => ran.push(runtime.now()));
    runtime.setTimer(() => ran.push(runtime.now()), -5);
    expect(ran).toEqual([]);
    await runtime.advance(0);
    expect(ran).toEqual([0, 0]);
  });

  it('does not run a cancelled timer, even one cancelled by a task of the same instant', async () => {
    const runtime = new SimulatedRuntime();
    let ran = 0;
    const early = runtime.setTimer(() => ran++, 5);
    early.cancel();
    early.cancel();
    const timers: Timer[] = [];
    const onlyOne = (other: number) => () => {
      ran++;
      timers[other]!.cancel();
    };
    timers.push(runtime.setTimer(onlyOne(1), 10), runtime.setTimer(onlyOne(0), 10));
    expect(runtime.pending).toBe(2);
    await runtime.runUntilIdle();
    expect(ran).toBe(1);
    expect(runtime.pending).toBe(0);
  });

  it('takes the cancelling of a timer that has run', async () => {
    const runtime = new SimulatedRuntime();
    let ran = 0;
    const timer = runtime.setTimer(() => ran++, 1);
    await runtime.advance(1);
    timer.cancel();
    await runtime.advance(10);
    expect(ran).toBe(1);
  });

  it('lets promises settle before the clock moves on', async () => {
    const runtime = new SimulatedRuntime({ start: 0 });
    const seen: number[] = [];
    runtime.setTimer(async () => {
      for (let turn = 0; turn < 20; turn++) await Promise.resolve();
      seen.push(runtime.now());
    }, 10);
    runtime.setTimer(() => seen.push(runtime.now()), 11);
    await runtime.advance(20);
    expect(seen).toEqual([10, 11]);
  });

  it('runs until nothing is left, and says how much time passed', async () => {
    const runtime = new SimulatedRuntime();
    const start = runtime.now();
    runtime.setTimer(() => runtime.setTimer(() => {}, 70), 30);
    expect(await runtime.runUntilIdle()).toBe(100);
    expect(runtime.now()).toBe(start + 100);
    expect(await runtime.runUntilIdle()).toBe(0);
  });

  it('stops at the limit when there is always more to do', async () => {
    const runtime = new SimulatedRuntime();
    let ran = 0;
    const forever = () => {
      ran++;
      runtime.setTimer(forever, 10);
    };
    forever();
    expect(await runtime.runUntilIdle(95)).toBe(90);
    expect(ran).toBe(10);
    expect(runtime.pending).toBe(1);
  });

  /** What a small world of timers, random numbers and ids does under a seed. */
  async function history(seed: number): Promise<string[]> {
    const runtime = new SimulatedRuntime({ seed });
    const log: string[] = [];
    for (let task = 0; task < 8; task++) {
      runtime.setTimer(() => {
        log.push(`${task} at ${runtime.now()}: ${runtime.id()} ${runtime.random()}`);
        if (runtime.random() < 0.5) runtime.defer(() => log.push(`deferred by ${task}: ${runtime.id()}`));
      }, 10);
    }
    await runtime.runUntilIdle();
    return log;
  }

  it('gives the same history, random numbers and ids for the same seed [R2.2]', async () => {
    for (const seed of [1, 2, -7, 123_456_789]) expect(await history(seed)).toEqual(await history(seed));
    expect(new SimulatedRuntime().id()).toBe(new SimulatedRuntime({ seed: 1 }).id());
  });

  it('runs simultaneous tasks in another order for another seed', async () => {
    const orders = new Set<string>();
    for (let seed = 1; seed <= 20; seed++) {
      const runtime = new SimulatedRuntime({ seed });
      const order: number[] = [];
      for (let task = 0; task < 8; task++) runtime.setTimer(() => order.push(task), 10);
      await runtime.advance(10);
      expect(order.toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
      orders.add(order.join(' '));
    }
    expect(orders.size).toBeGreaterThan(15);
  });

  it('draws numbers from 0 up to but not including 1, evenly', () => {
    const runtime = new SimulatedRuntime({ seed: 3 });
    const buckets = new Array<number>(10).fill(0);
    for (let draw = 0; draw < 10_000; draw++) {
      const number = runtime.random();
      expect(number >= 0 && number < 1).toBe(true);
      buckets[Math.floor(number * 10)]!++;
    }
    for (const count of buckets) expect(Math.abs(count - 1_000)).toBeLessThan(150);
  });
});

describe('the deadline queue', () => {
  class Alarm extends Deadline {
    readonly expiredAt: number[] = [];
    readonly #now: () => number;
    readonly #then: () => void;

    constructor(runtime: SimulatedRuntime, then = () => {}) {
      super();
      this.#now = () => runtime.now();
      this.#then = then;
    }

    override expire(): void {
      this.expiredAt.push(this.#now());
      this.#then();
    }
  }

  /** A simulated runtime that counts the timers asked of it. */
  class CountingRuntime extends SimulatedRuntime {
    timers = 0;

    override setTimer(task: () => void, ms: number): Timer {
      this.timers++;
      return super.setTimer(task, ms);
    }
  }

  it('expires each deadline once, when due or at most its resolution later, and none that was removed', async () => {
    const arbDeadlines = fc.array(
      fc.record({ after: fc.nat(100), ms: fc.nat(500), removedAfter: fc.option(fc.nat(800), { nil: undefined }) }),
      { maxLength: 30 },
    );
    await fc.assert(
      fc.asyncProperty(arbDeadlines, fc.integer({ min: 1, max: 60 }), async (deadlines, resolution) => {
        const runtime = new SimulatedRuntime({ start: 1_003 });
        const queue = new DeadlineQueue(runtime, resolution);
        const expected = deadlines.map(({ after, ms, removedAfter }) => {
          const alarm = new Alarm(runtime);
          runtime.setTimer(() => queue.add(alarm, ms), after);
          if (removedAfter !== undefined) runtime.setTimer(() => queue.remove(alarm), after + 1 + removedAfter);
          return {
            alarm,
            due: 1_003 + after + ms,
            removed: 1_003 + after + 1 + (removedAfter ?? Number.POSITIVE_INFINITY),
          };
        });
        await runtime.runUntilIdle();
        for (const { alarm, due, removed } of expected) {
          if (removed < due) expect(alarm.expiredAt).toEqual([]);
          else if (removed >= due + resolution) expect(alarm.expiredAt).toHaveLength(1);
          for (const at of alarm.expiredAt)
            expect(at - due).toSatisfy((late: number) => late >= 0 && late < resolution);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('sets one timer for all deadlines of one rounded instant', async () => {
    const runtime = new CountingRuntime({ start: 1_000 });
    const queue = new DeadlineQueue(runtime, 20);
    const alarms = Array.from({ length: 1_000 }, () => new Alarm(runtime));
    alarms.forEach((alarm, index) => {
      queue.add(alarm, index % 2 === 0 ? 81 + (index % 20) : 501);
    });
    expect(runtime.timers).toBe(2);
    await runtime.advance(100);
    expect(alarms.filter(({ expiredAt }) => expiredAt.length === 1)).toHaveLength(500);
    await runtime.advance(420);
    expect(alarms.every(({ expiredAt }) => expiredAt.length === 1)).toBe(true);
    expect(runtime.timers).toBe(2);
  });

  it('sets a new timer for an instant that has passed and comes again', async () => {
    const runtime = new CountingRuntime({ start: 1_000 });
    const queue = new DeadlineQueue(runtime, 20);
    const alarm = new Alarm(runtime);
    for (let round = 1; round <= 3; round++) {
      queue.add(alarm, 20);
      await runtime.advance(20);
      expect(alarm.expiredAt).toHaveLength(round);
      expect(runtime.timers).toBe(round);
    }
  });

  it('expires a deadline that is added for the very instant that has just passed', async () => {
    const runtime = new SimulatedRuntime({ start: 1_000 });
    const queue = new DeadlineQueue(runtime, 20);
    const late = new Alarm(runtime);
    const early = new Alarm(runtime, () => queue.add(late, 0));
    queue.add(early, 20);
    await runtime.advance(20);
    expect(late.expiredAt).toEqual([1_020]);
    queue.add(late, 0);
    await runtime.advance(0);
    expect(late.expiredAt).toEqual([1_020, 1_020]);
  });

  it('removes the first, the last, a middle and the only deadline of an instant, and takes a second removal', async () => {
    for (const removed of [[0], [1], [2], [0, 1], [2, 1], [0, 2], [0, 1, 2]]) {
      const runtime = new SimulatedRuntime();
      const queue = new DeadlineQueue(runtime);
      const alarms = [0, 1, 2].map(() => new Alarm(runtime));
      for (const alarm of alarms) queue.add(alarm, 50);
      for (const index of [...removed, ...removed]) queue.remove(alarms[index]!);
      await runtime.runUntilIdle();
      expect(alarms.map(({ expiredAt }) => expiredAt.length)).toEqual(
        [0, 1, 2].map((index) => (removed.includes(index) ? 0 : 1)),
      );
    }
  });

  it('takes a deadline again after it was removed or has expired', async () => {
    const runtime = new SimulatedRuntime({ start: 1_000 });
    const queue = new DeadlineQueue(runtime, 20);
    const alarm = new Alarm(runtime);
    queue.add(alarm, 20);
    queue.remove(alarm);
    queue.add(alarm, 40);
    await runtime.advance(100);
    expect(alarm.expiredAt).toEqual([1_040]);
    queue.remove(alarm);
    queue.add(alarm, 20);
    await runtime.advance(100);
    expect(alarm.expiredAt).toEqual([1_040, 1_120]);
  });

  it('lets a deadline that expires add itself again, and remove another of the same instant', async () => {
    const runtime = new SimulatedRuntime({ start: 1_000 });
    const queue = new DeadlineQueue(runtime, 20);
    const repeating: Alarm = new Alarm(runtime, () => {
      if (repeating.expiredAt.length < 3) queue.add(repeating, 20);
    });
    queue.add(repeating, 20);
    const pair: Alarm[] = [];
    for (const other of [1, 0]) pair.push(new Alarm(runtime, () => queue.remove(pair[other]!)));
    for (const alarm of pair) queue.add(alarm, 60);
    await runtime.runUntilIdle();
    expect(repeating.expiredAt).toEqual([1_020, 1_040, 1_060]);
    expect(pair.flatMap(({ expiredAt }) => expiredAt)).toEqual([1_060]);
  });

  it('drops every deadline and timer when cleared, and can be used again', async () => {
    const runtime = new SimulatedRuntime();
    const queue = new DeadlineQueue(runtime);
    const alarms = [10, 10, 200].map((ms) => {
      const alarm = new Alarm(runtime);
      queue.add(alarm, ms);
      return alarm;
    });
    queue.clear();
    expect(runtime.pending).toBe(0);
    queue.remove(alarms[0]!);
    queue.add(alarms[1]!, 10);
    await runtime.runUntilIdle();
    expect(alarms.map(({ expiredAt }) => expiredAt.length)).toEqual([0, 1, 0]);
  });

  it('drops the other deadlines of an instant when one of them clears the queue', async () => {
    const runtime = new SimulatedRuntime();
    const queue = new DeadlineQueue(runtime);
    const alarms = [0, 1, 2].map(() => new Alarm(runtime, () => queue.clear()));
    for (const alarm of alarms) queue.add(alarm, 50);
    await runtime.runUntilIdle();
    expect(alarms.flatMap(({ expiredAt }) => expiredAt)).toHaveLength(1);
  });
});

describe('the queue on a ring', () => {
  const arbStep = fc.oneof(
    { weight: 6, arbitrary: fc.record({ does: fc.constant('push' as const), count: fc.integer({ min: 1, max: 20 }) }) },
    {
      weight: 1,
      arbitrary: fc.record({ does: fc.constant('push' as const), count: fc.integer({ min: 500, max: 3_000 }) }),
    },
    {
      weight: 6,
      arbitrary: fc.record({ does: fc.constant('shift' as const), count: fc.integer({ min: 1, max: 20 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ does: fc.constant('shift' as const), count: fc.integer({ min: 500, max: 3_000 }) }),
    },
    { weight: 1, arbitrary: fc.record({ does: fc.constant('drain' as const), count: fc.constant(0) }) },
  );

  it('behaves as a list that is filled at one end and emptied at the other [R3.4]', () => {
    fc.assert(
      fc.property(fc.array(arbStep, { maxLength: 40 }), (steps) => {
        const fifo = new Fifo<number>();
        const model: number[] = [];
        let next = 0;
        for (const { does, count } of steps) {
          if (does === 'drain') expect(fifo.drain()).toEqual(model.splice(0));
          for (let turn = 0; turn < count; turn++) {
            if (does === 'push') {
              fifo.push(next);
              model.push(next++);
            } else if (fifo.shift() !== model.shift()) {
              expect.unreachable('another item came first');
            }
          }
          expect(fifo.length).toBe(model.length);
          expect(fifo.peek()).toBe(model[0]);
        }
        expect(fifo.drain()).toEqual(model);
        expect(fifo.length).toBe(0);
      }),
      { numRuns: 200 },
    );
  });

  it('holds items that are falsy, and has nothing to give when empty [R3.4]', () => {
    const fifo = new Fifo<unknown>();
    expect(fifo.shift()).toBeUndefined();
    expect(fifo.peek()).toBeUndefined();
    expect(fifo.drain()).toEqual([]);
    for (const item of [0, '', false, null]) fifo.push(item);
    expect(fifo.peek()).toBe(0);
    expect(fifo.drain()).toEqual([0, '', false, null]);
    expect(fifo.length).toBe(0);
  });
});

describe('the system runtime', () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

  /** Timers that keep this process alive. */
  function holders(): number {
    return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
  }

  it('reads the system clock again on each turn of the event loop [R2.2]', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_000 });
    const runtime = systemRuntime();
    expect(runtime.now()).toBe(1_000);
    for (const now of [61_000, 61_001, 5_000]) {
      vi.setSystemTime(now);
      await nextTurn();
      expect(runtime.now()).toBe(now);
    }
  });

  it('is close to the real clock [R2.2]', async () => {
    const runtime = systemRuntime();
    runtime.now();
    await nextTurn();
    const before = Date.now();
    const now = runtime.now();
    expect(now).toBeGreaterThanOrEqual(before);
    expect(now).toBeLessThanOrEqual(Date.now());
  });

  it('reads the clock at most once in 64 calls within one turn, and at least once in 100', () => {
    const clock = vi.spyOn(Date, 'now');
    const runtime = systemRuntime();
    for (let call = 0; call < 6_400; call++) runtime.now();
    expect(clock.mock.calls.length).toBeLessThanOrEqual(100);
    expect(clock.mock.calls.length).toBeGreaterThanOrEqual(64);
  });

  it('gives ids that strictly increase over turns, even when the clock is set back [R2.2]', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_000 });
    const runtime = systemRuntime();
    const ids = times(3_000, () => runtime.id());
    for (const now of [1_600_000_000_000, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_000]) {
      vi.setSystemTime(now);
      await nextTurn();
      ids.push(...times(3_000, () => runtime.id()));
    }
    expectStrictlyIncreasing(ids);
  });

  it('measures durations on a clock that never goes back', () => {
    const runtime = systemRuntime();
    const readings = Array.from({ length: 1_000 }, () => runtime.stopwatch());
    expect(readings).toEqual(readings.toSorted((a, b) => a - b));
  });

  it('draws numbers from 0 up to but not including 1, no two alike', () => {
    const runtime = systemRuntime();
    const numbers = Array.from({ length: 1_000 }, () => runtime.random());
    expect(numbers.every((number) => number >= 0 && number < 1)).toBe(true);
    expect(new Set(numbers).size).toBe(1_000);
  });

  it('runs a timer once after its time, unless it was cancelled', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const runtime = systemRuntime();
    const ran: string[] = [];
    runtime.setTimer(() => ran.push('kept'), 100);
    const cancelled = runtime.setTimer(() => ran.push('cancelled'), 50);
    cancelled.cancel();
    vi.advanceTimersByTime(99);
    expect(ran).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(ran).toEqual(['kept']);
    cancelled.cancel();
    vi.advanceTimersByTime(1_000);
    expect(ran).toEqual(['kept']);
  });

  it.each([2 ** 31, 30 * 24 * 3_600_000, Number.POSITIVE_INFINITY])('does not run a timer of %d ms at once', (ms) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let ran = 0;
    const timer = systemRuntime().setTimer(() => ran++, ms);
    vi.advanceTimersByTime(60_000);
    timer.cancel();
    expect(ran).toBe(0);
  });

  it('does not keep the process alive for a pending timer', () => {
    const before = holders();
    const timer = systemRuntime().setTimer(() => {}, 60_000);
    expect(holders()).toBe(before);
    timer.cancel();
  });

  it('keeps the process alive while held, until cancelled', () => {
    const before = holders();
    const runtime = systemRuntime();
    const [one, other] = [runtime.hold(), runtime.hold()];
    expect(holders()).toBe(before + 2);
    one.cancel();
    one.cancel();
    expect(holders()).toBe(before + 1);
    other.cancel();
    expect(holders()).toBe(before);
  });

  it('runs a deferred task on a later turn, after what was promised before', async () => {
    const order: string[] = [];
    systemRuntime().defer(() => order.push('deferred'));
    Promise.resolve().then(() => order.push('promised'));
    order.push('now');
    await nextTurn();
    expect(order).toEqual(['now', 'promised', 'deferred']);
  });

  it('logs to the given logger', () => {
    const lines: string[] = [];
    const write = (level: string) => (fields: Record<string, unknown>, message: string) => {
      lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
    };
    const logger: Logger = { debug: write('d'), info: write('i'), warn: write('w'), error: write('e') };
    for (const runtime of [systemRuntime({ logger }), new SimulatedRuntime({ logger })]) {
      for (const level of ['debug', 'info', 'warn', 'error'] as const) runtime.logger[level]({ n: 1 }, 'said');
    }
    expect(lines).toEqual(['d', 'i', 'w', 'e', 'd', 'i', 'w', 'e'].map((level) => `${level} said {"n":1}`));
  });
});
