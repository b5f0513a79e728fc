/** One comparison of our path with a peer's or with the bare mechanism, measured in turn in one process. */
export interface Comparison {
  readonly suite: string;
  readonly name: string;
  readonly ours: number;
  readonly theirs: number;
  /** Above 1, ours is faster. */
  readonly ratio: number;
  /** The lowest and the highest ratio of a round. */
  readonly spread?: readonly [number, number];
  /** The ratio of the rates by the clock, where `ratio` is that of the CPU time. */
  readonly byClock?: number;
  readonly unit: string;
}

export interface Report {
  comparison(comparison: Comparison): void;
  /** A figure without a counterpart. */
  figure(suite: string, name: string, value: number, unit: string): void;
}

/** Runs `count` operations. */
export type Runner = (count: number) => void | Promise<void>;

const ROUNDS = 9;
const ROUND_MS = 250;

/**
 * Operations per second of both, in alternating rounds, so that a slow spell of the machine hits both; the median
 * ratio of the rounds is what counts.
 */
export async function compare(
  suite: string,
  name: string,
  ours: Runner,
  theirs: Runner,
  unit = 'ops/s',
  roundMs = ROUND_MS,
): Promise<Comparison> {
  const ourCount = await calibrate(ours, roundMs);
  const theirCount = await calibrate(theirs, roundMs);
  const rounds: { ours: number; theirs: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const first = round % 2 === 0;
    const a = first ? await rate(ours, ourCount) : await rate(theirs, theirCount);
    const b = first ? await rate(theirs, theirCount) : await rate(ours, ourCount);
    rounds.push(first ? { ours: a, theirs: b } : { ours: b, theirs: a });
  }
  rounds.sort((x, y) => x.ours / x.theirs - y.ours / y.theirs);
  const middle = rounds[ROUNDS >> 1]!;
  const ratio = middle.ours / middle.theirs;
  return {
    suite,
    name,
    ours: Math.round(middle.ours),
    theirs: Math.round(middle.theirs),
    ratio: round(ratio),
    unit,
  };
}

/** One round: its operations, the CPU time of all processes involved in microseconds, and the time by the clock. */
export interface Round {
  readonly count: number;
  readonly micros: number;
  readonly ms: number;
}

const CPU_ROUNDS = 7;

/** CPU time for an operation of both, in alternating rounds; the median ratio counts, and the spread is shown. */
export async function compareCpu(
  suite: string,
  name: string,
  ours: () => Promise<Round>,
  theirs: () => Round | Promise<Round>,
): Promise<Comparison> {
  const rounds: { ours: Round; theirs: Round; ratio: number; byClock: number }[] = [];
  for (let round = 0; round < CPU_ROUNDS; round++) {
    const first = round % 2 === 0;
    const early = first ? await ours() : await theirs();
    const late = first ? await theirs() : await ours();
    const [a, b] = first ? [early, late] : [late, early];
    const ratio = b.micros / b.count / (a.micros / a.count);
    rounds.push({ ours: a, theirs: b, ratio, byClock: a.count / a.ms / (b.count / b.ms) });
  }
  rounds.sort((a, b) => a.ratio - b.ratio);
  const middle = rounds[CPU_ROUNDS >> 1]!;
  return {
    suite,
    name,
    ours: round(middle.ours.micros / middle.ours.count),
    theirs: round(middle.theirs.micros / middle.theirs.count),
    ratio: round(middle.ratio),
    spread: [round(rounds[0]!.ratio), round(rounds.at(-1)!.ratio)],
    byClock: round(middle.byClock),
    unit: 'µs CPU',
  };
}

/** How many operations fill a round, once the code is warm. */
async function calibrate(runner: Runner, roundMs: number): Promise<number> {
  let count = 100;
  for (;;) {
    const perSecond = await rate(runner, count);
    const wanted = Math.ceil((perSecond * roundMs) / 1000);
    if (count >= wanted / 2) return wanted;
    count = Math.min(wanted, count * 10);
  }
}

async function rate(runner: Runner, count: number): Promise<number> {
  const started = performance.now();
  await runner(count);
  return (count / (performance.now() - started)) * 1000;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
