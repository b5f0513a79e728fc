import { TestRunner } from 'vitest';
import type { Tried } from '../scripts/evidence/results.js';

declare module 'vitest' {
  interface TaskMeta {
    tried?: Tried[];
  }
}

/** Tells the evidence page how much the running test tries, and returns it. Tests that run concurrently cannot use it. */
export function tries(count: number, what: string): number {
  note({ what, count });
  return count;
}

/** The same, of seeds. */
export function triesSeeds(seeds: readonly number[]): readonly number[] {
  note({ what: 'seeds', count: seeds.length, first: Math.min(...seeds), last: Math.max(...seeds) });
  return seeds;
}

/** The numbers from 1 on. */
export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

function note(tried: Tried): void {
  const test = TestRunner.getCurrentTest();
  if (!test) throw new Error('no test is running');
  const others = (test.meta.tried ?? []).filter((other) => JSON.stringify(other) !== JSON.stringify(tried));
  test.meta.tried = [...others, tried];
}
