import { createHash } from 'node:crypto';
import { guarantees } from './contract.js';
import { PARTS } from './parts.js';
import type { FileResult, Mode, PartResult, Results, Tried } from './results.js';

const MARK = 'sha256 of the lines above: ';

/** The page, from the contract and the results. Its last line is a digest, so that a figure typed by hand shows. */
export function renderPage(results: Results, rows = guarantees()): string {
  const failures: string[] = [];
  const lines = [
    '# Evidence',
    '',
    'For each line of the [contract](contract.md): what was run, how much of it, when, at which commit, and the command that repeats it.',
    'Written by `npm run evidence` from the results in `docs/evidence.json`; `npm run evidence -- --list` names the parts. A *full* run takes',
    'hours and can be interrupted; `npm run evidence -- --quick` takes minutes, and its figures show only where there are no full ones.',
    '',
    '## The contract',
    '',
    '| subject | outcome | tests | tried | also | run | date | commit | command |',
    '|---|---|---|---|---|---|---|---|---|',
    ...rows.map((row) => {
      const found = row.paths.map((path) => ({ path, ...filesOf(results, path) }));
      const files = found.flatMap((entry) => entry.files);
      const parts = row.parts.map((name) => ({ name, ...partOf(results, name) }));
      const failed = files.flatMap(([path, file]) => file.failed.map((title) => `${path}: ${title}`));
      failures.push(...failed);
      const missing = [
        ...found.filter((entry) => entry.files.length === 0).map(({ path }) => `\`${path}\``),
        ...parts.filter(({ result }) => !result).map(({ name }) => `\`${name}\``),
      ];
      const broken = failed.length > 0 || parts.some(({ result }) => result && !result.passed);
      const runs = [...files.map(([, file]) => file), ...parts.flatMap(({ result }) => result ?? [])];
      const modes = new Set(
        [...found.filter((entry) => entry.files.length > 0), ...parts.filter((p) => p.result)].map(({ mode }) => mode),
      );
      const skipped = sum(files.map(([, file]) => file.skipped));
      return cells([
        row.subject,
        broken
          ? '**failed**'
          : runs.length === 0
            ? 'not run'
            : missing.length > 0
              ? `not run: ${missing.join(', ')}`
              : 'passed',
        `${count(sum(files.map(([, file]) => file.passed)))}${skipped > 0 ? ` (${skipped} skipped)` : ''}`,
        triedBy(files.map(([, file]) => file)),
        [
          ...parts.flatMap(({ name, result }) => (result ? `${name}: ${figuresOf(result)}` : [])),
          ...checksOf(results, row.subject),
        ].join('; '),
        [...modes].join(', '),
        oldest(runs.map(({ at }) => at)).slice(0, 10),
        commitsOf(runs),
        row.paths.length > 0 ? `\`${commandOf(row.paths, modes.has('quick') ? 'quick' : 'full')}\`` : '',
      ]);
    }),
    '',
    '## The other parts',
    '',
    '| part | what | outcome | figures | run | date | commit | seconds | command |',
    '|---|---|---|---|---|---|---|---|---|',
    ...PARTS.map(({ name, what }) => {
      const { mode, result } = partOf(results, name);
      if (!result) return cells([name, what, 'not run', '', '', '', '', '', '']);
      failures.push(...result.failures.map((failure) => `${name}: ${failure}`));
      const { passed, at, commit, seconds, command } = result;
      const outcome = passed ? 'passed' : '**failed**';
      return cells([
        name,
        what,
        outcome,
        figuresOf(result),
        mode,
        at.slice(0, 10),
        `\`${commit}\``,
        count(seconds),
        `\`${command}\``,
      ]);
    }),
    '',
  ];
  if (failures.length > 0)
    lines.push('## Failures', '', ...[...new Set(failures)].map((line) => `- ${plain(line)}`), '');
  const text = lines.join('\n');
  return `${text}\n${MARK}${digest(text)}\n`;
}

/** Does the last line of a page fit the others? */
export function isGenuine(page: string): boolean {
  const at = page.lastIndexOf(`\n${MARK}`);
  return at > 0 && page.slice(at + 1 + MARK.length).trim() === digest(page.slice(0, at));
}

/** The results of a path: of the full run, or of the quick one if there is no full one, or if it failed later. */
function filesOf(results: Results, path: string): { mode: Mode; files: [string, FileResult][] } {
  const of = (mode: Mode) =>
    Object.entries(results[mode].tests).filter(([file]) =>
      path.endsWith('/') ? file.startsWith(path) : file === path,
    );
  const [full, quick] = [of('full'), of('quick')];
  const since = oldest(full.map(([, { at }]) => at));
  const brokenSince = quick.some(([, { at, failed }]) => failed.length > 0 && at > since);
  return full.length === 0 || brokenSince ? { mode: 'quick', files: quick } : { mode: 'full', files: full };
}

function partOf({ full, quick }: Results, name: string): { mode: Mode; result: PartResult | undefined } {
  const [thorough, short] = [full.parts[name], quick.parts[name]];
  const shortCounts = !thorough || (short && !short.passed && short.at > thorough.at);
  return shortCounts ? { mode: 'quick', result: short } : { mode: 'full', result: thorough };
}

/** What the parts that check several lines say of this one. */
function checksOf(results: Results, subject: string): string[] {
  return PARTS.flatMap(({ name }) => {
    const { mode, result } = partOf(results, name);
    const times = result?.checks?.[subject];
    return times ? [`${name} (${mode}): ${count(times)} checks`] : [];
  });
}

function commandOf(paths: readonly string[], mode: Mode): string {
  return `${mode === 'full' ? 'npm run soak --' : 'npx vitest run'} ${paths.join(' ')}`;
}

function figuresOf({ figures }: PartResult): string {
  return Object.entries(figures)
    .map(([name, value]) => `${name} ${typeof value === 'number' ? count(value) : value}`)
    .join(', ');
}

/** Seeds as ranges, other things as sums. */
function triedBy(files: readonly FileResult[]): string {
  const sums = new Map<string, number>();
  const ranges: Range[] = [];
  for (const { what, count: times, first, last } of files.flatMap((file): readonly Tried[] => file.tried)) {
    if (first === undefined || last === undefined) sums.set(what, (sums.get(what) ?? 0) + times);
    else ranges.push({ first, last });
  }
  const seeds = joined(ranges).map(({ first, last }) => (first === last ? `${first}` : `${first}–${last}`));
  const others = [...sums].sort().map(([what, times]) => `${count(times)} ${what}`);
  return [...(seeds.length > 0 ? [`seeds ${seeds.join(' ')}`] : []), ...others].join(', ');
}

interface Range {
  readonly first: number;
  readonly last: number;
}

/** Ranges that touch become one. */
function joined(ranges: readonly Range[]): Range[] {
  const found: Range[] = [];
  for (const range of [...ranges].sort((a, b) => a.first - b.first)) {
    const before = found.at(-1);
    if (before && range.first <= before.last + 1) {
      found[found.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
    } else found.push(range);
  }
  return found;
}

function commitsOf(runs: readonly { commit: string }[]): string {
  return [...new Set(runs.map(({ commit }) => commit))]
    .sort()
    .map((commit) => `\`${commit}\``)
    .join(', ');
}

function cells(values: readonly string[]): string {
  return `| ${values.map(plain).join(' | ')} |`;
}

function plain(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|');
}

function oldest(times: readonly string[]): string {
  return [...times].sort()[0] ?? '';
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function count(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 2 });
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
