import type { Mode } from './results.js';

/** What a part's output says. */
interface Reading {
  readonly figures: Readonly<Record<string, number | string>>;
  readonly failures: readonly string[];
  /** How often it checked each line of the contract, by its subject. */
  readonly checks?: Readonly<Record<string, number>>;
}

/** One command whose JSON output has the figures. */
interface Part {
  readonly name: string;
  readonly what: string;
  /** The npm script and its arguments. */
  readonly command: Readonly<Record<Mode, readonly string[]>>;
  /** A command that takes longer is ended, and has failed. */
  readonly minutes: Readonly<Record<Mode, number>>;
  /** Of the JSON values that the command printed; throws if they do not say what they should. */
  readonly read: (output: readonly unknown[]) => Reading;
}

/** Everything but the tests that `docs/contract.md` names. */
export const PARTS: readonly Part[] = [
  {
    name: 'simulate',
    what: 'whole nodes on a simulated clock, network and disk, under random work and faults; the contract is checked after each',
    command: {
      full: ['simulate', '--seeds', '2000', '--events', '20000', '--json'],
      quick: ['simulate', '--seeds', '6', '--events', '2000', '--json'],
    },
    minutes: { full: 24 * 60, quick: 4 },
    read: (output) => {
      const { seeds, events, failures, checks } = object(output.at(-1));
      const counts = Object.entries(object(checks)).map(([subject, count]) => [subject, number(count)] as const);
      const all = counts.reduce((sum, [, count]) => sum + count, 0);
      return {
        figures: { seeds: number(seeds), events: number(events), checks: all },
        failures: list(failures).map(brief),
        checks: Object.fromEntries(counts),
      };
    },
  },
  {
    name: 'planted',
    what: 'bugs planted one at a time; each must be found',
    command: { full: ['planted', '--json'], quick: ['planted', '--json', '01', '08', '13', '26'] },
    minutes: { full: 24 * 60, quick: 6 },
    read: (output) => {
      const bugs = rows(output).map((bug) => ({ name: String(bug.name), foundBy: bug.foundBy, s: bug.seconds }));
      const missed = bugs.filter(({ foundBy }) => !foundBy);
      const longest = Math.max(0, ...bugs.map(({ s }) => Number(s ?? 0)));
      return {
        figures: {
          planted: atLeastOne(bugs),
          found: bugs.length - missed.length,
          'longest search, s': Math.round(longest),
        },
        failures: missed.map(({ name }) => `nothing finds ${name}`),
      };
    },
  },
  {
    name: 'fuzz',
    what: 'coverage-guided inputs for every parser, each within a time and a memory limit',
    command: { full: ['fuzz', '--until', '1000000', '--json'], quick: ['fuzz', '--runs', '1000', '--json'] },
    minutes: { full: 24 * 60, quick: 4 },
    read: (output) => {
      const targets = rows(output);
      const failed = targets.filter(
        ({ failures }) => (Array.isArray(failures) ? failures.length : Number(failures)) > 0,
      );
      return {
        figures: {
          targets: atLeastOne(targets),
          'fewest inputs of a target': Math.min(...targets.map(inputsOf)),
          'inputs in all': targets.reduce((sum, target) => sum + inputsOf(target), 0),
        },
        failures: failed.map(brief),
      };
    },
  },
  {
    name: 'soak:load',
    what: 'three nodes under mixed load: memory, descriptors, timers and disk stay flat',
    command: { full: ['soak:load', '--minutes', '60', '--json'], quick: ['soak:load', '--minutes', '1', '--json'] },
    minutes: { full: 90, quick: 3 },
    read: reportOf,
  },
  {
    name: 'sbom',
    what: 'the licence of every package in the lock, and the bill of materials',
    command: { full: ['sbom', '--check', '--json'], quick: ['sbom', '--check', '--json'] },
    minutes: { full: 5, quick: 2 },
    read: reportOf,
  },
  {
    name: 'reproduce',
    what: 'two builds of the package in two folders, compared byte for byte',
    command: { full: ['reproduce', '--json'], quick: ['reproduce', '--json'] },
    minutes: { full: 15, quick: 5 },
    read: reportOf,
  },
];

/** The output of commands of this repository that exist for the evidence: `{figures, failures}`. */
function reportOf(output: readonly unknown[]): Reading {
  const { figures, failures } = object(output.at(-1));
  const entries = Object.entries(object(figures));
  for (const [name, value] of entries) {
    if (typeof value !== 'number' && typeof value !== 'string') throw new Error(`${name} is no figure`);
  }
  return { figures: Object.fromEntries(entries) as Reading['figures'], failures: list(failures).map(brief) };
}

/** Of this run, or of all runs since the code of the target changed. */
function inputsOf({ inputs, total }: Record<string, unknown>): number {
  return number(total ?? inputs);
}

/** The rows of an array, or of one value a line. */
function rows(output: readonly unknown[]): Record<string, unknown>[] {
  const last = output.at(-1);
  return (Array.isArray(last) ? last : output).map(object);
}

function object(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw new Error('the command printed no result');
  return value as Record<string, unknown>;
}

function list(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Error('the command did not print its failures');
  return value;
}

function number(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error('the command printed no count');
  return value;
}

function atLeastOne(found: readonly unknown[]): number {
  if (found.length === 0) throw new Error('the command tried nothing');
  return found.length;
}

function brief(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
