const VARIABLE = 'ECLIPTIC_BENCH_QUICK';

/** Whether this run only shows that the benchmarks work. The processes that a benchmark starts know it, too. */
export const QUICK = process.argv.includes('--quick') || process.env[VARIABLE] !== undefined;
if (QUICK) process.env[VARIABLE] = '1';

/** Which of how many runs this is; set by `main`. */
export const series = { run: 0, runs: 1 };

/** Is this a further run of the same suite? Then rows without a floor are not measured again, where that takes long. */
export function isRepeat(): boolean {
  return series.run > 0;
}

/** Rounds of one run. Several runs together make more of them in any case. */
export function roundsOf(full: number, quick = 3): number {
  if (QUICK) return quick;
  return series.runs > 1 ? Math.max(3, Math.ceil(full / 3)) : full;
}

/** The first value, or the second one in a quick run. */
export function sized(full: number, quick: number): number {
  return QUICK ? quick : full;
}
