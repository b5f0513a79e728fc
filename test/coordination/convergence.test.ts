import { describe, expect, it } from 'vitest';
import { triesSeeds } from '../evidence.js';
import { HostileReplicas } from './hostile-replicas.js';

const RUNS = process.env.ECLIPTIC_SOAK ? 2_000 : 20;
const STEPS = 60;

/** One run: random changes, partitions, crashes and lies; then peace. */
async function run(seed: number): Promise<HostileReplicas> {
  const world = new HostileReplicas(seed);
  for (const place of world.places) await world.start(place);
  for (let step = 0; step < STEPS; step++) {
    const draw = world.random(100);
    const down = world.places.filter(({ document }) => !document);
    if (draw < 60) {
      const place = world.pick(world.live);
      for (let count = 1 + world.random(3); count > 0; count--) world.operate(place);
    } else if (draw < 72) world.forge();
    else if (draw < 80) world.cuts.add([world.pick(world.places).name, world.pick(world.places).name].sort().join());
    else if (draw < 86) world.cuts.clear();
    else if (draw < 89 && world.live.length > 2) await world.crash(world.pick(world.live));
    else if (draw < 94 && down.length > 0) await world.start(world.pick(down));
    await world.runtime.advance(world.random(60));
  }
  for (const place of world.places) if (!place.document) await world.start(place);
  await world.settle();
  return world;
}

describe('replicas of one document', () => {
  it('converge despite network faults, crashes and a lying member [P28 R9.3 R9.5 RS4 E.CRDT_DESERIALIZATION_FAILED]', {
    timeout: 3_600_000,
  }, async () => {
    const totals: Record<string, number> = {};
    const first = Number(process.env.ECLIPTIC_SEED ?? 1);
    for (const seed of triesSeeds(Array.from({ length: RUNS }, (_, index) => first + index))) {
      const world = await run(seed);
      const violations = world.violations();
      expect(violations, `seed ${seed}; replay with ECLIPTIC_SEED=${seed}`).toEqual([]);
      for (const [what, count] of Object.entries(world.counts)) totals[what] = (totals[what] ?? 0) + count;
      for (const { document } of world.live) void document.close();
    }
    // Everything that was to be tried was tried.
    for (const [what, count] of Object.entries(totals)) expect(count, what).toBeGreaterThan(0);
  });
});
