import { describe, expect, it } from 'vitest';
import { aborted, Deferred, untilAborted, wait, within } from './async.js';
import { Backoff, backoffMs } from './backoff.js';
import { EclipticError } from './errors.js';
import { SimulatedRuntime } from './simulated-runtime.js';

const late = () => {
  throw new EclipticError('REQUEST_TIMEOUT', 'late');
};

describe('wait', () => {
  it('resolves after its time, on the given clock', async () => {
    const runtime = new SimulatedRuntime();
    let over = false;
    void wait(runtime, 100).then(() => {
      over = true;
    });
    await runtime.advance(99);
    expect(over).toBe(false);
    await runtime.advance(1);
    expect(over).toBe(true);
  });

  it('resolves early when its signal aborts, and leaves no timer', async () => {
    const runtime = new SimulatedRuntime();
    const controller = new AbortController();
    const waiting = wait(runtime, 100, controller.signal);
    controller.abort();
    await waiting;
    await wait(runtime, 100, controller.signal);
    expect(runtime.pending).toBe(0);
  });
});

describe('within', () => {
  it('settles as its work does, and leaves no timer', async () => {
    const runtime = new SimulatedRuntime();
    await expect(within(runtime, Promise.resolve(1), 100, late)).resolves.toBe(1);
    await expect(within(runtime, Promise.reject(new EclipticError('CANCELLED', 'no')), 100, late)).rejects.toThrow(
      'no',
    );
    expect(runtime.pending).toBe(0);
  });

  it('ends with the value or the error of `late` when the work takes too long', async () => {
    const runtime = new SimulatedRuntime();
    const never = new Promise<number>(() => {});
    const failed = expect(within(runtime, never, 100, late)).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' });
    const replaced = expect(within(runtime, never, 100, () => 'late')).resolves.toBe('late');
    await runtime.advance(100);
    await Promise.all([failed, replaced]);
  });
});

describe('a signal', () => {
  it('ends the wait for work that does not listen to it', async () => {
    const controller = new AbortController();
    const work = untilAborted(new Promise(() => {}), controller.signal);
    const gone = aborted(controller.signal);
    controller.abort(new EclipticError('CANCELLED', 'gone'));
    await expect(work).rejects.toMatchObject({ code: 'CANCELLED' });
    await gone;
    await aborted(controller.signal);
  });
});

describe('a deferred promise', () => {
  it('settles once, whether it was asked for before or after its outcome', async () => {
    const early = new Deferred<number>();
    const asked = early.promise;
    early.resolve(1);
    early.reject(new EclipticError('CANCELLED', 'too late'));
    await expect(asked).resolves.toBe(1);
    const failed = new Deferred<number>();
    failed.reject(new EclipticError('CANCELLED', 'no'));
    await expect(failed.promise).rejects.toMatchObject({ code: 'CANCELLED' });
  });
});

describe('back-off', () => {
  it('doubles with each failure up to its limit', () => {
    expect([0, 1, 2, 3, 5_000].map((failures) => backoffMs(failures, 100, 500))).toEqual([100, 200, 400, 500, 500]);
    expect(backoffMs(5_000, 0)).toBe(0);
  });

  it('begins again after a success', () => {
    const backoff = new Backoff(100, 500);
    expect([backoff.next(), backoff.next()]).toEqual([100, 200]);
    backoff.reset();
    expect(backoff.next()).toBe(100);
  });
});
