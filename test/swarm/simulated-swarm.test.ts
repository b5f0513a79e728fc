import { describe, expect, it } from 'vitest';
import { triesSeeds } from '../evidence.js';
import { runSwarmSeed, type SwarmSeedResult } from './simulated-swarm.js';

/** `ECLIPTIC_SEED=17` replays one and shows its log. */
const { ECLIPTIC_SEED, ECLIPTIC_SOAK } = process.env;

const LOGS = [
  ['Raft', undefined, ECLIPTIC_SOAK ? 300 : 2],
  ['a log at the broker', 'broker', ECLIPTIC_SOAK ? 300 : 2],
] as const;

describe.each(LOGS)('a swarm of nine nodes by %s that are killed at random, the creator’s too', (_name, log, count) => {
  const seeds = ECLIPTIC_SEED ? [Number(ECLIPTIC_SEED)] : upTo(count);

  it('completes each of thirty sub-tasks exactly once, or says why it cannot, whatever the seed [R8.5 R8.6]', {
    timeout: 60_000 + seeds.length * 15_000,
  }, async () => {
    const results: SwarmSeedResult[] = [];
    for (const seed of triesSeeds(seeds)) results.push(await runSwarmSeed(seed, log));
    if (ECLIPTIC_SEED) console.log(results[0]!.log.join('\n'));
    const failed = results.filter(({ violations }) => violations.length > 0);
    const report = failed.map(({ seed, violations }) => `seed ${seed}:\n  ${violations.slice(0, 8).join('\n  ')}`);
    expect(report.join('\n')).toBe('');
    if (ECLIPTIC_SEED) return;
    expect(results.reduce((sum, { kills }) => sum + kills, 0)).toBeGreaterThanOrEqual(results.length / 2);
    expect(results.filter(({ end }) => end === 'completed').length).toBeGreaterThan(results.length / 2);
  });
});

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}
