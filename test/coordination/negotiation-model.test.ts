import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../evidence.js';
import { type Plan, runPlan, violations } from './simulated-negotiation.js';

const RUNS = process.env.ECLIPTIC_SOAK ? 1_000 : 100;

const crash = fc.record({
  who: fc.constantFrom('proposer' as const, 'addressee' as const),
  atMs: fc.nat(12_000),
  forMs: fc.nat(12_000),
});

const plans: fc.Arbitrary<Plan> = fc.record({
  seed: fc.nat(),
  durable: fc.boolean(),
  deadlineMs: fc.integer({ min: 100, max: 8_000 }),
  answer: fc.constantFrom('accept', 'accept', 'accept', 'reject', 'nothing'),
  answerAfterMs: fc.oneof(fc.constant(0), fc.nat(9_000)),
  workMs: fc.nat(6_000),
  workFails: fc.boolean(),
  withdrawAtMs: fc.option(fc.nat(10_000), { nil: undefined, freq: 3 }),
  loss: fc.constantFrom(0, 0.2, 0.5, 0.8),
  repeats: fc.constantFrom(0, 0.3, 0.8),
  delayMs: fc.constantFrom(1, 50, 500, 2_000),
  crashes: fc.array(crash, { maxLength: 3 }),
  forgeries: fc.array(
    fc.record({ type: fc.constantFrom('task-accept' as const, 'task-reject' as const), atMs: fc.nat(15_000) }),
    { maxLength: 3 },
  ),
});

describe('a negotiation over a network that loses, repeats and reorders, between sides that crash', () => {
  it('ends in the same state on both sides, or with the proposer timed out, and neither side sees two outcomes [R7.4]', {
    timeout: 60_000 + RUNS * 1_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const outcome = await runPlan(plan);
        expect(violations(plan, outcome), JSON.stringify(outcome.end)).toEqual([]);
      }),
      { numRuns: tries(RUNS, 'random histories') },
    );
  });

  it('repeats the same history with the same plan', async () => {
    const [plan] = fc.sample(plans, { numRuns: 1, seed: 7 });
    expect(await runPlan(plan!)).toEqual(await runPlan(plan!));
  });
});
