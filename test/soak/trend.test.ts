import { describe, expect, it } from 'vitest';
import { isFlat, trendOf } from './trend.js';

const series = (value: (x: number) => number) => Array.from({ length: 60 }, (_, x) => value(x));
const scatter = (x: number) => ((x * 7_919) % 13) - 6;

describe('the trend of a series', () => {
  it('tells growth from scatter [FX.8]', () => {
    expect(isFlat(trendOf(series((x) => 100 + scatter(x))), 0.03)).toBe(true);
    expect(isFlat(trendOf(series((x) => 100 - x / 10)), 0.03)).toBe(true);
    expect(isFlat(trendOf(series((x) => 100 + x / 20)), 0.05)).toBe(true);
    expect(isFlat(trendOf(series((x) => 100 + x / 2 + scatter(x))), 0.05)).toBe(false);
    expect(trendOf(series((x) => 100 + x))).toMatchObject({ growth: expect.closeTo(59), noise: expect.closeTo(0) });
    expect(() => trendOf([1, 2])).toThrow('at least three');
  });
});
