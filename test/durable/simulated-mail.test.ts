import { describe, expect, it } from 'vitest';
import { triesSeeds } from '../evidence.js';
import { describeFailure, runSeed, type SeedOptions, type SeedResult } from './simulated-mail.js';

/** As many as take about a quarter of a minute. `ECLIPTIC_SEEDS=500` soaks, `ECLIPTIC_SEED=17` replays one and shows its log. */
const DEFAULT_SEEDS = 20;
const { ECLIPTIC_SEED, ECLIPTIC_SEEDS } = process.env;
const seeds = ECLIPTIC_SEED ? [Number(ECLIPTIC_SEED)] : upTo(Number(ECLIPTIC_SEEDS ?? DEFAULT_SEEDS));
const timeout = 60_000 + seeds.length * 8_000;

describe('durable mail between nodes that crash, over a network that loses, repeats, reorders and cuts', () => {
  it('is never lost, committed twice or reordered, and has the same receipt on both sides, whatever the seed [DM11 RC2]', {
    timeout,
  }, async () => {
    const results = await runAll(seeds, { times: true });
    const totals = new Map<string, number>();
    for (const { counts } of results) {
      for (const [what, count] of Object.entries(counts)) totals.set(what, (totals.get(what) ?? 0) + count);
    }
    if (ECLIPTIC_SEED) console.log(results[0]!.log.join('\n'));
    if (ECLIPTIC_SEED || ECLIPTIC_SEEDS)
      console.log(
        [...totals]
          .sort()
          .map(([k, v]) => `${v} ${k}`)
          .join('\n'),
      );
    expectNoFailure(results);
  });

  it('keeps these promises when a custodian that loses and repeats batches relays it too [NM.15]', {
    timeout,
  }, async () => {
    const results = await runAll(seeds, { times: true, relay: true });
    if (ECLIPTIC_SEED) console.log(results[0]!.log.join('\n'));
    const batches = results.reduce((sum, { counts }) => sum + (counts.batches ?? 0), 0);
    if (!ECLIPTIC_SEED) expect(batches).toBeGreaterThan(10 * seeds.length);
    expectNoFailure(results);
  });

  it('repeats the same history with the same seed', { timeout: 60_000 }, async () => {
    for (const seed of [3, 11]) expect((await runSeed(seed)).log).toEqual((await runSeed(seed)).log);
  });

  it('also survives orderly stops of nodes', { timeout }, async () => {
    expectNoFailure(await runAll(upTo(Math.ceil(seeds.length / 5)), { times: true, drain: true }));
  });
});

async function runAll(all: readonly number[], options?: SeedOptions): Promise<SeedResult[]> {
  const results: SeedResult[] = [];
  for (const seed of triesSeeds(all)) results.push(await runSeed(seed, options));
  return results;
}

function expectNoFailure(results: readonly SeedResult[]): void {
  const failed = results.filter(({ violations }) => violations.length > 0);
  const report = failed.map((result) => describeFailure(result, ECLIPTIC_SEED ? 0 : 5)).join('\n\n');
  expect(report, `${failed.length} of ${results.length} seeds failed`).toBe('');
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}
