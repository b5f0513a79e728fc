const VARIABLE = 'ECLIPTIC_BENCH_QUICK';

/** Whether this run only shows that the benchmarks work. The processes that a benchmark starts know it, too. */
export const QUICK = process.argv.includes('--quick') || process.env[VARIABLE] !== undefined;
if (QUICK) process.env[VARIABLE] = '1';

/** The first value, or the second one in a quick run. */
export function sized(full: number, quick: number): number {
  return QUICK ? quick : full;
}
