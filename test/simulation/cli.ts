import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { replay, type Shortened, shorten } from './shorten.js';
import { type Outcome, simulate } from './simulation.js';

const HELP = `Runs whole meshes of nodes through random work and faults, and checks every line of docs/contract.md.

  npm run simulate                                      20 histories
  npm run simulate -- --seeds 2000 --events 20000       resumes where it was interrupted
  npm run simulate -- --seed 17 --log                   one history, with everything that happened
  npm run simulate -- --seed 17 --keep 3,8,21           one history with these of its events only

  --seed N      the only seed, or with --seeds the first one
  --seeds K     how many seeds (default 20)
  --events M    frames, timers and writes of each history before its faults end (default 5000)
  --keep LIST   with --seed: the numbers of the events that happen
  --log         prints the history
  --json        prints {seeds, events, failures, commit, checks}
  --state FILE  where a long run is noted, so that it can be resumed (default: a file for each commit and --events)
  --find        ends with the first seed that fails, and does not shorten it
  --fresh       begins at the first seed again
`;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string' },
    events: { type: 'string', default: '5000' },
    keep: { type: 'string' },
    log: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    state: { type: 'string' },
    fresh: { type: 'boolean', default: false },
    find: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** From this many seeds on, a run is noted without being asked. */
const LONG = 100;

interface Failure {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly kept: readonly number[];
}

interface State {
  readonly commit: string;
  readonly eventsEach: number;
  readonly first: number;
  seeds: number;
  events: number;
  readonly failures: Failure[];
  readonly checks: Record<string, number>;
}

const say = (text: string) => void process.stderr.write(`${text}\n`);

function git(...args: string[]): string {
  return spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' }).stdout?.trim() ?? '';
}

/** With a mark if what runs is not what was committed. */
function presentCommit(): string {
  const commit = git('rev-parse', '--short=12', 'HEAD') || 'unknown';
  return git('status', '--porcelain', '--', 'src', 'test') === '' ? commit : `${commit}+changes`;
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  say(`--${name} must be a whole number above 0, not "${text}"`);
  process.exit(2);
}

async function runOne(seed: number, events: number, keep: string | undefined): Promise<Outcome> {
  const whole = await simulate({ seed, events });
  if (keep === undefined) return whole;
  const kept = keep.split(',').map(Number);
  return replay({ seed, events }, whole.plan, kept, whole.endAt);
}

function describe({ seed, violations, plan, events, hash, endAt }: Outcome): string {
  const found = violations
    .slice(0, 8)
    .map(({ subject, text, at }) => `  ✗ ${(at / 1_000).toFixed(1)} s ${subject}: ${text}`);
  const end = violations.length === 0 ? 'all is well' : `${violations.length} promise(s) broken`;
  const size = `${events} events, ${plan.length} of them drawn, ${Math.round(endAt / 1_000)} s`;
  return [`seed ${seed}: ${end}; ${size}, history ${hash}`, ...found].join('\n');
}

function describeShortened({ kept, outcome, runs }: Shortened, events: number): string {
  return [
    `  ${kept.length} events are enough (${runs} runs): npm run simulate -- --seed ${outcome.seed} --events ${events} --keep ${kept.join()}`,
    ...outcome.log.slice(-60).map((line) => `    ${line}`),
  ].join('\n');
}

function readState(file: string, fresh: State): State {
  try {
    const state = JSON.parse(readFileSync(file, 'utf8')) as State;
    const same = state.commit === fresh.commit && state.eventsEach === fresh.eventsEach && state.first === fresh.first;
    return same ? state : fresh;
  } catch {
    return fresh;
  }
}

function writeState(file: string, state: State): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, JSON.stringify(state));
  renameSync(`${file}.new`, file);
}

async function runMany(first: number, count: number, events: number): Promise<State> {
  const commit = presentCommit();
  const fresh: State = { commit, eventsEach: events, first, seeds: 0, events: 0, failures: [], checks: {} };
  const given =
    values.state ?? (count >= LONG ? `node_modules/.cache/ecliptic/simulate-${events}-${first}.json` : undefined);
  const file = given === undefined ? undefined : join(ROOT, given);
  const state = file === undefined || values.fresh ? fresh : readState(file, fresh);
  if (state.seeds > 0) say(`resuming after ${state.seeds} seeds`);
  while (state.seeds < count) {
    const seed = first + state.seeds;
    const outcome = await simulate({ seed, events });
    state.seeds++;
    state.events += outcome.events;
    for (const [subject, times] of outcome.checks) state.checks[subject] = (state.checks[subject] ?? 0) + times;
    if (outcome.violations.length > 0) {
      say(describe(outcome));
      const violations = outcome.violations.slice(0, 8).map(({ subject, text }) => `${subject}: ${text}`);
      if (values.find) {
        state.failures.push({ seed, violations, kept: [] });
        break;
      }
      const shortened = await shorten(outcome, { seed, events });
      say(describeShortened(shortened, events));
      state.failures.push({ seed, violations, kept: shortened.kept });
    } else if (state.seeds % 50 === 0) say(`${state.seeds} of ${count} seeds, ${state.events} events`);
    if (file !== undefined) writeState(file, state);
  }
  return state;
}

async function main(): Promise<number> {
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const events = positive('events', values.events);
  const first = positive('seed', values.seed ?? '1');
  if (values.seed !== undefined && values.seeds === undefined) {
    const outcome = await runOne(first, events, values.keep);
    if (values.log) process.stdout.write(`${outcome.log.join('\n')}\n`);
    say(describe(outcome));
    if (values.keep === undefined && outcome.violations.length > 0 && !values.log) {
      say(describeShortened(await shorten(outcome, { seed: first, events }), events));
    }
    const failures = outcome.violations.map(({ subject, text }) => `${subject}: ${text}`);
    const told = { seeds: 1, events: outcome.events, failures, commit: presentCommit() };
    if (values.json) process.stdout.write(`${JSON.stringify(told)}\n`);
    return failures.length === 0 ? 0 : 1;
  }
  const count = positive('seeds', values.seeds ?? '20');
  const { seeds, events: all, failures, commit, checks } = await runMany(first, count, events);
  if (values.json) process.stdout.write(`${JSON.stringify({ seeds, events: all, failures, commit, checks })}\n`);
  else {
    const examined = Object.values(checks).reduce((sum, times) => sum + times, 0);
    const lines = Object.keys(checks).length;
    say(
      `${seeds} seeds, ${all} events, ${failures.length} failures; ${examined} checks of ${lines} lines of the contract`,
    );
  }
  return failures.length === 0 ? 0 : 1;
}

process.exitCode = await main();
