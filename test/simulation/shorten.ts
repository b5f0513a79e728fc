import { type Outcome, type PlannedEvent, type SimulationOptions, simulate } from './simulation.js';

/** A failed history with as few events as were found to be enough. */
export interface Shortened {
  /** The numbers of the events, in the plan of the whole history. */
  readonly kept: readonly number[];
  readonly outcome: Outcome;
  readonly runs: number;
}

/** Leaves out events for as long as the same line of the contract is broken, in at most so many runs. */
export async function shorten(failed: Outcome, options: SimulationOptions, maxRuns = 40): Promise<Shortened> {
  const { subject, at } = failed.violations[0]!;
  const early = failed.plan.flatMap((event, number) => (event.at <= at ? [number] : []));
  const endAt = Math.min(failed.endAt, Math.ceil(at) + 1);
  let runs = 0;
  let best = failed;
  const fails = async (kept: readonly number[]): Promise<boolean> => {
    if (runs >= maxRuns) return false;
    runs++;
    const outcome = await replay(options, failed.plan, kept, endAt);
    const same = outcome.violations.some((violation) => violation.subject === subject);
    if (same) best = outcome;
    return same;
  };
  const all = failed.plan.map((_, number) => number);
  // Faults that end the history earlier may hide the failure.
  const start = (await fails(early)) ? early : all;
  const kept = await minimal(start, fails);
  return { kept, outcome: best, runs };
}

/** Runs a history again with some of its events only. */
export function replay(
  options: SimulationOptions,
  plan: readonly PlannedEvent[],
  kept: readonly number[],
  endAt: number,
): Promise<Outcome> {
  const wanted = new Set(kept);
  const events = plan.filter((_, number) => wanted.has(number));
  return simulate({ ...options, replay: { plan: events, endAt } });
}

/** Delta debugging: a list from which no tested part can be left out without the failure going away. */
export async function minimal<T>(items: readonly T[], fails: (items: readonly T[]) => Promise<boolean>): Promise<T[]> {
  let current = [...items];
  for (let parts = 2; current.length >= 2; ) {
    const size = Math.ceil(current.length / parts);
    let reduced = false;
    for (let at = 0; at < current.length; at += size) {
      const without = [...current.slice(0, at), ...current.slice(at + size)];
      if (!(await fails(without))) continue;
      current = without;
      parts = Math.max(2, parts - 1);
      reduced = true;
      break;
    }
    if (reduced) continue;
    if (size === 1) break;
    parts = Math.min(current.length, 2 * parts);
  }
  return current;
}
