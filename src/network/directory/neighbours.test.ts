import { describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { FULL_MESH, Ring } from './neighbours.js';

function keys(count: number): string[] {
  const runtime = new SimulatedRuntime({ seed: count });
  return Array.from({ length: count }, () => Buffer.from(runtime.bytes(32)).toString('hex'));
}

function neighboursOf(ring: Ring, all: readonly string[]): string[] {
  return all.filter((key) => ring.isNeighbour(key));
}

describe('the ring', () => {
  it.each([2, FULL_MESH + 1])('of %i nodes links all of them', (count) => {
    const all = keys(count);
    for (const key of all) expect(neighboursOf(new Ring(key, all), all)).toHaveLength(count - 1);
  });

  it.each([
    [10, 9],
    [60, 17],
    [300, 22],
  ])('of %i nodes links each to about %i, and both ends agree [DR.7]', (count, most) => {
    const all = keys(count);
    const rings = new Map(all.map((key) => [key, new Ring(key, all)]));
    const links = all.map((key) => new Set(neighboursOf(rings.get(key)!, all)));
    const byKey = new Map(all.map((key, index) => [key, links[index]!]));
    for (const [key, near] of byKey) for (const other of near) expect(byKey.get(other)!.has(key)).toBe(true);
    expect(links.reduce((sum, { size }) => sum + size, 0) / count).toBeLessThan(most);
    expect(Math.min(...links.map(({ size }) => size))).toBeGreaterThan(3);
  });
});
