import { floorOf } from './floors.js';
import { isRepeat, roundsOf, sized } from './settings.js';

/** One comparison of our path with a peer's or with the bare mechanism, measured in turn. */
export interface Comparison {
  readonly suite: string;
  readonly name: string;
  readonly ours: number;
  readonly theirs: number;
  /** Above 1, ours is faster, unless `lowerIsBetter`. */
  readonly ratio: number;
  /** The lowest and the highest ratio of a round. */
  readonly spread?: readonly [number, number];
  /** What `ratio` compares: the CPU time of all processes that do the work, or the time by the clock. */
  readonly measured?: 'cpu' | 'clock';
  /** The ratio of the rates by the clock, where `ratio` is that of the CPU time. */
  readonly byClock?: number;
  /** The ratio of the CPU time, where `ratio` is that of the clock. */
  readonly byCpu?: number;
  readonly unit: string;
  /** The ratio is ours divided by theirs: how many times as much it costs. */
  readonly lowerIsBetter?: boolean;
}

export interface Report {
  comparison(comparison: Comparison): void;
  /** A figure without a counterpart; with the lowest and the highest one if there were several. */
  figure(suite: string, name: string, value: number, unit: string, spread?: readonly [number, number]): void;
}

/** Runs `count` operations. */
export type Runner = (count: number) => void | Promise<void>;

const CLOCK_ROUNDS = 9;
const CPU_ROUNDS = 7;
const ROUND_MS = sized(250, 40);

/** One round: its operations, the CPU time of all processes involved in microseconds, and the time by the clock. */
export interface Round {
  readonly count: number;
  readonly micros: number;
  readonly ms: number;
}

type Measure = () => Round | Promise<Round>;

/** Is this row to be measured in this run? One without a floor is measured in the first run only. */
export function isWanted(suite: string, name: string): boolean {
  return !isRepeat() || floorOf(suite, name) !== undefined;
}

/** CPU time for an operation of both, in alternating rounds; the median ratio counts, and the spread is shown. */
export async function compareCpu(
  suite: string,
  name: string,
  ours: Measure,
  theirs: Measure,
  rounds = roundsOf(CPU_ROUNDS),
): Promise<Comparison> {
  const pairs = await inTurn(ours, theirs, rounds, cpuRatio);
  const middle = median(pairs);
  return {
    suite,
    name,
    ours: round(middle.ours.micros / middle.ours.count),
    theirs: round(middle.theirs.micros / middle.theirs.count),
    ratio: round(middle.ratio),
    spread: spreadOf(pairs),
    measured: 'cpu',
    byClock: round(clockRatio(middle)),
    unit: 'µs CPU',
  };
}

/** As `compareCpu`, by the clock, for work that waits for a disk; the CPU time is shown if the rounds count all of it. */
export async function compareClock(
  suite: string,
  name: string,
  ours: Measure,
  theirs: Measure,
  { unit, allCpu = false }: { readonly unit: string; readonly allCpu?: boolean },
): Promise<Comparison> {
  const pairs = await inTurn(ours, theirs, roundsOf(CLOCK_ROUNDS), clockRatio);
  const middle = median(pairs);
  return {
    suite,
    name,
    ours: Math.round((middle.ours.count / middle.ours.ms) * 1_000),
    theirs: Math.round((middle.theirs.count / middle.theirs.ms) * 1_000),
    ratio: round(middle.ratio),
    spread: spreadOf(pairs),
    measured: 'clock',
    ...(allCpu && { byCpu: round(cpuRatio(middle)) }),
    unit,
  };
}

/** How many times the CPU time an operation takes when there is much of something, compared with little of it. */
export async function compareGrowth(
  suite: string,
  name: string,
  much: Measure,
  little: Measure,
  rounds = roundsOf(CPU_ROUNDS),
): Promise<Comparison> {
  return (await compareCosts(suite, name, much, little, rounds)).cpu;
}

/** How many times as much ours costs, by CPU time and by the clock, from the same rounds. */
export async function compareCosts(
  suite: string,
  name: string,
  ours: Measure,
  theirs: Measure,
  rounds = roundsOf(CPU_ROUNDS),
): Promise<{ readonly cpu: Comparison; readonly clock: Comparison }> {
  const growth = (pair: Omit<Pair, 'ratio'>) => 1 / cpuRatio(pair);
  const pairs = await inTurn(ours, theirs, rounds, growth);
  const slower = pairs.map((pair) => ({ ...pair, ratio: 1 / clockRatio(pair) })).sort((a, b) => a.ratio - b.ratio);
  const row = (sorted: readonly Pair[], cost: (round: Round) => number) => {
    const { ours, theirs, ratio } = median(sorted);
    const values = { ours: round(cost(ours)), theirs: round(cost(theirs)), ratio: round(ratio) };
    return { suite, name, ...values, spread: spreadOf(sorted), lowerIsBetter: true } as const;
  };
  const byClock = round(median(slower).ratio);
  return {
    cpu: { ...row(pairs, ({ micros, count }) => micros / count), measured: 'cpu', byClock, unit: 'µs CPU' },
    clock: { ...row(slower, ({ ms, count }) => ms / count), measured: 'clock', unit: 'ms' },
  };
}

/**
 * As `compareCpu`, for two runners in this process: calibrated rounds whose CPU time counts the garbage collector's
 * threads, too.
 */
export async function compareRunners(
  suite: string,
  name: string,
  ours: Runner,
  theirs: Runner,
  roundMs = ROUND_MS,
): Promise<Comparison> {
  const [ourCount, theirCount] = [await calibrate(ours, roundMs), await calibrate(theirs, roundMs)];
  return compareCpu(
    suite,
    name,
    () => cpuRound(ours, ourCount),
    () => cpuRound(theirs, theirCount),
  );
}

/** Runs so many operations, and measures the CPU time of this process, and of others that report theirs. */
export async function cpuRound(
  runner: Runner,
  count: number,
  otherMicros: () => number | Promise<number> = () => 0,
): Promise<Round> {
  const [before, others, started] = [process.cpuUsage(), await otherMicros(), performance.now()];
  await runner(count);
  const ms = performance.now() - started;
  const { user, system } = process.cpuUsage(before);
  return { count, micros: user + system + (await otherMicros()) - others, ms };
}

/** A busy machine gives a process that computes at least this part of the time. */
const LEAST_SHARE = 1 / 8;

/**
 * How many operations fill a round, once the code is warm. CPU time counts: by the clock, a round would be shorter on a busy
 * machine, and its code not warm.
 */
export async function calibrate(runner: Runner, roundMs = ROUND_MS): Promise<number> {
  let count = 100;
  for (;;) {
    const { micros, ms } = await cpuRound(runner, count);
    const wanted = Math.ceil((count * roundMs) / Math.max(micros / 1_000, ms * LEAST_SHARE));
    if (count >= wanted / 2) return wanted;
    count = Math.min(wanted, count * 10);
  }
}

interface Pair {
  readonly ours: Round;
  readonly theirs: Round;
  readonly ratio: number;
}

/** Alternating rounds, so that a slow spell of the machine hits both; sorted by their ratio. */
async function inTurn(
  ours: Measure,
  theirs: Measure,
  rounds: number,
  ratio: (pair: Omit<Pair, 'ratio'>) => number,
): Promise<Pair[]> {
  const pairs: Pair[] = [];
  for (let round = 0; round < rounds; round++) {
    const first = round % 2 === 0;
    const early = first ? await ours() : await theirs();
    const late = first ? await theirs() : await ours();
    const pair = first ? { ours: early, theirs: late } : { ours: late, theirs: early };
    pairs.push({ ...pair, ratio: ratio(pair) });
  }
  return pairs.sort((a, b) => a.ratio - b.ratio);
}

function cpuRatio({ ours, theirs }: Omit<Pair, 'ratio'>): number {
  return theirs.micros / theirs.count / (ours.micros / ours.count);
}

function clockRatio({ ours, theirs }: Omit<Pair, 'ratio'>): number {
  return ours.count / ours.ms / (theirs.count / theirs.ms);
}

function median(sorted: readonly Pair[]): Pair {
  return sorted[sorted.length >> 1]!;
}

function spreadOf(sorted: readonly Pair[]): [number, number] {
  return [round(sorted[0]!.ratio), round(sorted.at(-1)!.ratio)];
}

/** To hundredths, or to thousandths below 1. */
export function round(value: number): number {
  const parts = Math.abs(value) < 1 ? 1_000 : 100;
  return Math.round(value * parts) / parts;
}
