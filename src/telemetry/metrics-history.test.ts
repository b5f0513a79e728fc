import { describe, expect, it } from 'vitest';
import { Histogram, quantileOf, STEP_BOUNDS_MS } from '../mesh/histogram.js';
import { HISTORY_SAMPLES, SampleRing } from './metrics-history.js';

describe('the history of metrics', () => {
  it('has the latest 720 samples, oldest first, however many were taken [FC.46]', () => {
    const ring = new SampleRing(['a', 'b']);
    for (let n = 0; n < 2_000; n++) ring.add(n * 5_000, { a: n });
    const { at, series, everyMs } = ring.read(5_000);
    expect(everyMs).toBe(5_000);
    expect(at).toHaveLength(HISTORY_SAMPLES);
    expect(series.a).toEqual(Array.from({ length: 720 }, (_, index) => 1_280 + index));
    expect(at[0]).toBe(1_280 * 5_000);
    // A series without a value has zeros, so that all series have the same length.
    expect(series.b).toEqual(Array(720).fill(0));
    expect(ring.read(5_000, 2).series.a).toEqual([1_998, 1_999]);
    expect(ring.read(5_000, 0).at).toEqual([]);
  });

  it('has null where there was nothing to measure, and 0 where 0 was measured [FC.46]', () => {
    const ring = new SampleRing(['a']);
    for (const a of [null, 0, 3]) ring.add(1, { a });
    expect(ring.read(5_000).series.a).toEqual([null, 0, 3]);
  });

  it('is empty before the first sample [FC.46]', () => {
    expect(new SampleRing(['a']).read(5_000)).toEqual({ everyMs: 5_000, at: [], series: { a: [] } });
  });

  it('has quantiles of the durations between two samples [FC.46]', () => {
    const histogram = new Histogram(STEP_BOUNDS_MS);
    for (let n = 0; n < 1_000; n++) histogram.observe(40_000);
    const before = histogram.snapshot();
    // No durations, no quantile.
    expect(quantileOf(0.99, histogram.snapshot(), before)).toBeNull();
    for (let n = 0; n < 98; n++) histogram.observe(0.3);
    for (let n = 0; n < 2; n++) histogram.observe(70);
    const now = histogram.snapshot();
    expect(quantileOf(0.5, now, before)).toBeGreaterThan(0.25);
    expect(quantileOf(0.5, now, before)).toBeLessThanOrEqual(0.5);
    expect(quantileOf(0.99, now, before)).toBeGreaterThan(50);
    expect(quantileOf(0.99, now, before)).toBeLessThanOrEqual(100);
    // Beyond the last bound nothing is known but the bound.
    histogram.observe(1e9);
    expect(quantileOf(1, histogram.snapshot(), now)).toBe(60_000);
  });
});
