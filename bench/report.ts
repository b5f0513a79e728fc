import type { Comparison } from './compare.js';
import { type Floor, floorOf, judge, type Verdict } from './floors.js';

/** A figure without a counterpart. */
export interface Figure {
  readonly suite: string;
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly spread?: readonly [number, number];
}

export type Row = Comparison | Figure;

/** The circumstances of a suite's rows. */
export interface Circumstances {
  readonly suite: string;
  readonly at: Date;
  readonly machine: string;
  /** The load average of a minute, before and after. */
  readonly load: readonly [number, number];
  readonly runs: number;
  /** Did later runs leave out rows without a floor? */
  readonly shortened?: boolean;
}

interface Judged {
  readonly floor: Floor | undefined;
  readonly verdict: Verdict | undefined;
}

const NUMBER = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });

export function isComparison(row: Row): row is Comparison {
  return 'ratio' in row;
}

function judged(row: Row): Judged {
  const floor = floorOf(row.suite, row.name);
  if (!isComparison(row)) return { floor, verdict: floor && judge(row.value, row.spread, floor) };
  return { floor, verdict: judge(row.ratio, row.spread, floor) };
}

export function isBelowFloor(row: Row): boolean {
  return judged(row).verdict?.startsWith('below') ?? false;
}

/** One row as a line of JSON. */
export function jsonOf(row: Row): string {
  const { floor, verdict } = judged(row);
  return JSON.stringify({ ...row, ...(floor && { floor: floor.value }), ...(verdict && { verdict }) });
}

/** One row as a line for a terminal. */
export function lineOf(row: Row): string {
  const { floor, verdict } = judged(row);
  const head = `${row.suite.padEnd(14)}${row.name.padEnd(44)}`;
  const end = floor ? `  floor ${floorText(floor)}: ${verdict}` : verdict ? `  ${verdict}` : '';
  if (!isComparison(row)) {
    const more = row.spread ? ` (${span(row.spread)})` : '';
    return `${head}${number(row.value).padStart(8)}   ${row.unit}${more}${end}`;
  }
  const { ratio, ours, theirs, unit, spread, byClock, byCpu, lowerIsBetter } = row;
  const notes = [
    spread ? span(spread) : 'no spread',
    ...(byClock === undefined ? [] : [`${byClock}× by the clock`]),
    ...(byCpu === undefined ? [] : [`${byCpu}× by CPU time`]),
    ...(lowerIsBetter ? ['lower is better'] : []),
  ];
  return `${head}${`${ratio}×`.padStart(8)}   ${number(ours)} vs ${number(theirs)} ${unit} (${notes.join('; ')})${end}`;
}

/** The same rows of several runs: the one with the median, and the spread over all runs. */
export function merged(runs: readonly (readonly Row[])[]): Row[] {
  return runs[0]!.map((first, index) => {
    // A later run may have left out rows without a floor.
    const rows = runs.flatMap((run) => {
      const alike = run.length === runs[0]!.length ? run[index] : undefined;
      return run.find(({ name }) => name === first.name) ?? alike ?? [];
    });
    const of = (row: Row) => (isComparison(row) ? row.ratio : row.value);
    const sorted = rows.toSorted((a, b) => of(a) - of(b));
    const middle = sorted[sorted.length >> 1]!;
    const all = rows.flatMap((row) => row.spread ?? [of(row)]);
    const spread = [Math.min(...all), Math.max(...all)] as const;
    return { ...middle, ...(rows.length > 1 && { spread }) };
  });
}

/** The section of one suite in `docs/benchmarks.md`. */
export function section(rows: readonly Row[], about: Circumstances): string {
  const at = about.at.toISOString().slice(0, 16).replace('T', ' ');
  const once = about.shortened ? ' Some rows without a floor are of the first run alone.' : '';
  const times = about.runs > 1 ? ` Medians of ${about.runs} runs.${once}` : '';
  const runs = about.runs > 1 ? ` --runs ${about.runs}` : '';
  const parts = [
    `## ${about.suite}`,
    `${at} UTC, load ${about.load.map(number).join(' to ')}, ${about.machine}.${times} Repeat with \`npm run bench -- ${about.suite}${runs} --write\`.`,
  ];
  const compared = rows.filter(isComparison);
  if (compared.length > 0) {
    const lines = compared.map((row) => {
      const { floor, verdict } = judged(row);
      const note = row.byCpu !== undefined ? `; ${row.byCpu}× by CPU` : '';
      const unit = `${row.unit}${row.lowerIsBetter ? '; lower is better' : ''}${row.measured === 'clock' ? '; by the clock' : ''}${note}`;
      const cells = [code(row.name), `${row.ratio}×`, row.spread ? span(row.spread) : 'none'];
      return [...cells, number(row.ours), number(row.theirs), unit, floor ? floorText(floor) : '', verdict ?? ''];
    });
    parts.push(table(['comparison', 'ratio', 'spread', 'ours', 'theirs', 'unit', 'floor', ''], lines));
  }
  const figures = rows.filter((row): row is Figure => !isComparison(row));
  if (figures.length > 0) {
    const lines = figures.map((row) => {
      const { floor, verdict } = judged(row);
      const cells = [row.name, number(row.value), row.spread ? span(row.spread) : '', row.unit];
      return [...cells, floor ? floorText(floor) : '', verdict ?? ''];
    });
    parts.push(table(['figure', 'value', 'spread', 'unit', 'floor', ''], lines));
  }
  const limits = rows.flatMap((row) => {
    const { floor } = judged(row);
    return floor?.limit && isBelowFloor(row) ? [`${code(row.name)}: ${floor.limit}`] : [];
  });
  return [...parts, ...limits].join('\n\n');
}

const HEAD = `# Benchmarks

\`npm run bench -- --write\` measures and writes this page; \`npm run bench -- SUITE --write\` replaces the section of one suite.
\`npm run bench -- --help\` lists suites and options. \`--quick\` only shows that everything runs.

How it is measured:
- Each comparison runs ours and theirs in turn, on the same machine, in the same minutes. The ratio is the median of the
  rounds, the spread its lowest and highest round. Above 1, ours is better, unless "lower is better" is said.
- The figures are CPU time of all processes that do the work, with their garbage collection and store threads, also of a
  broker. They hardly depend on what else the machine does. "By the clock" marks work that waits for a disk; such rows do.
- Where a server is measured, the client is the same for both sides, and its time does not count.
- "Not in every round" says that the spread reaches to the other side of the floor, "unclear" that it includes 1: such a
  row proves little.

What cannot be compared:
- A bare mechanism (\`bare-ws\`, \`bare-stream\`, \`bare-publish\`, \`sqlite-batch\`, \`bare-http\`) promises less: no encryption,
  addresses, rules or acknowledgement. \`same-promises\` is a short program written for the purpose that encrypts, orders,
  addresses and acknowledges, or syncs the same transactions, as ours does. It has no rules, limits or resumption.
- Moleculer's \`call\` waits for an answer and our \`send\` does not; \`request\` is its counterpart. \`moleculer-full\` has the
  checks switched on that ours always makes.
- Sections of different dates or loads are not comparable with each other, nor are absolute figures of other machines.`;

/** The page with these sections replaced or added, in the order of `suites`; all other sections stay as they are. */
export function pageWith(page: string, sections: ReadonlyMap<string, string>, suites: readonly string[]): string {
  const kept = page
    .split(/^(?=## )/m)
    .slice(1)
    .map((text) => [/^## (.*)/.exec(text)![1]!, text.trim()] as const);
  const all = new Map([...kept, ...sections]);
  const order = (suite: string) => (suites.includes(suite) ? suites.indexOf(suite) : suites.length);
  const sorted = [...all].sort(([a], [b]) => order(a) - order(b)).map(([, text]) => text);
  return `${[HEAD, ...sorted].join('\n\n')}\n`;
}

function floorText({ value, atMost }: Floor): string {
  return `${atMost ? '≤' : '≥'} ${number(value)}`;
}

function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...lines.map(line)].join('\n');
}

function span([low, high]: readonly [number, number]): string {
  return `${number(low)}–${number(high)}`;
}

function code(text: string): string {
  return `\`${text}\``;
}

function number(value: number): string {
  return NUMBER.format(value);
}
