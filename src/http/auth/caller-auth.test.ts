import { expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { RateLimiter } from './caller-auth.js';

it('lets each caller make so many requests, and says how long the next must wait', async () => {
  const runtime = new SimulatedRuntime();
  const limiter = new RateLimiter(runtime, 60);
  const taken = (caller: string) => {
    let count = 0;
    try {
      for (; count < 1_000; count++) limiter.take(caller);
    } catch (error) {
      expect(error).toMatchObject({ code: 'RATE_LIMITED', details: { retryAfterMs: 1_000 } });
    }
    return count;
  };
  expect(taken('alice')).toBe(30);
  expect(taken('bob')).toBe(30);
  await runtime.advance(5_000);
  expect(taken('alice')).toBe(5);
  await runtime.advance(3_600_000);
  expect(taken('alice')).toBe(30);
  expect(() => limiter.take('alice')).toThrow(EclipticError);
});

it('limits no caller if the limit is infinite', () => {
  const limiter = new RateLimiter(new SimulatedRuntime(), Number.POSITIVE_INFINITY);
  for (let count = 0; count < 100_000; count++) limiter.take('alice');
});
