/** Over a series of values at equal distances. */
export interface Trend {
  readonly median: number;
  /** What the line through the values gains from the first to the last. */
  readonly growth: number;
  /** The part of the growth that scatter alone can make: three standard errors. */
  readonly noise: number;
}

/** A line through the values, by least squares. */
export function trendOf(values: readonly number[]): Trend {
  const { length } = values;
  if (length < 3) throw new Error('a trend needs at least three values');
  const meanX = (length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / length;
  let above = 0;
  let below = 0;
  for (const [x, value] of values.entries()) {
    above += (x - meanX) * (value - mean);
    below += (x - meanX) ** 2;
  }
  const slope = above / below;
  const squares = values.reduce((sum, value, x) => sum + (value - mean - slope * (x - meanX)) ** 2, 0);
  const error = Math.sqrt(squares / (length - 2) / below);
  const median = [...values].sort((a, b) => a - b)[length >> 1]!;
  return { median, growth: slope * (length - 1), noise: 3 * error * (length - 1) };
}

/** Does it not grow by more than its scatter, or by more than a share of its size? */
export function isFlat({ median, growth, noise }: Trend, share: number): boolean {
  return growth <= noise || growth <= median * share;
}
