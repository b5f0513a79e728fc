import { describe, expect, it } from 'vitest';
import { completeHierarchy, HierarchySchema } from './hierarchy.js';

describe('the hierarchy’s configuration [RL6]', () => {
  it('has an answer for every tier where nothing is said', () => {
    const { concurrency, tiers, escalation } = completeHierarchy();
    expect(concurrency).toBe(10);
    expect(Object.values(tiers).map((tier) => [tier.timeoutMs, tier.concurrency, tier.retries])).toEqual([
      [300_000, 1, 2],
      [600_000, 3, 2],
      [1_800_000, 5, 3],
      [1_800_000, 10, 5],
    ]);
    expect(escalation).toEqual({ policy: 'auto', successRate: 0.5, afterTasks: 4 });
  });

  it('is read from JSON, and omitted settings keep their defaults', () => {
    const text = '{ "tiers": { "2": { "retries": 0 } }, "escalation": { "policy": "threshold", "agent": "jupiter" } }';
    const { tiers, escalation } = completeHierarchy(HierarchySchema.parse(JSON.parse(text)));
    expect(tiers[2]).toEqual({ timeoutMs: 1_800_000, concurrency: 5, retries: 0 });
    expect(escalation).toEqual({ policy: 'threshold', agent: 'jupiter', successRate: 0.5, afterTasks: 4 });
  });

  it.each([
    { tiers: { 4: {} } },
    { tiers: { 0: { concurrency: 0 } } },
    { escalation: { policy: 'never' } },
    { escalation: { successRate: 2 } },
    { retryDelayMs: -1 },
  ])('is refused where it makes no sense: %j', (config) => {
    expect(HierarchySchema.safeParse(config).success).toBe(false);
  });
});
