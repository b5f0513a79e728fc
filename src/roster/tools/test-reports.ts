import { EclipticError } from '../../runtime/errors.js';
import { codeOf, languageOf } from './code-text.js';
import { evidenceOf, type Finding } from './finding.js';
import type { SourceFile } from './workspace-files.js';
import { readXml } from './xml.js';

export const REPORT_FORMATS = ['junit', 'tap', 'vitest', 'jest', 'pytest', 'go'] as const;
export type ReportFormat = (typeof REPORT_FORMATS)[number];

/** A test that failed, with its place as far as the report tells it. */
interface Failure {
  readonly name: string;
  readonly message: string;
  readonly place?: { readonly file: string; readonly line: number } | undefined;
}

export interface TestReport {
  readonly format: ReportFormat;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly failures: readonly Failure[];
}

const MAX_FAILURES = 500;
/** A path and a line, as stack traces and reporters write them. */
const PLACE =
  /(?:file:\/\/)?((?:[A-Za-z]:)?[\w@./\\+-]{1,300}\.(?:[cm]?[jt]sx?|py|go|rb|rs|java|kt|php|cs|swift|vue|svelte|sh)):(\d{1,7})\b/g;
const NO_COLOR = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g');

/** SATURN: reads a report of tests. Throws `INVALID_ARGUMENTS` for a text that is none. */
export function readTestReport(given: string, format?: ReportFormat): TestReport {
  const text = given.replace(NO_COLOR, '');
  const found = format ?? formatOf(text);
  const report = found && READERS[found](text);
  if (report) return { ...report, format: found, failures: report.failures.slice(0, MAX_FAILURES) };
  const known = REPORT_FORMATS.join(', ');
  throw new EclipticError('INVALID_ARGUMENTS', `this is no report of tests that can be read (${known})`);
}

/** By what only that format has. */
function formatOf(text: string): ReportFormat | undefined {
  const start = text.trimStart().slice(0, 2_000);
  if (/^(<\?xml[^>]*>\s*)?(<!--[\s\S]*?-->\s*)?<testsuites?\b/.test(start)) return 'junit';
  if (/^TAP version \d+|^\s*(?:not )?ok \d+\b/m.test(start)) return 'tap';
  if (start.startsWith('{') && /"testResults"|"numTotalTests"/.test(text)) return 'jest';
  if (
    /"Action":"(?:run|pass|fail|start)"/.test(start) ||
    /^(?:--- (?:FAIL|PASS): |=== RUN |ok {2}\t|FAIL\t)/m.test(text)
  )
    return 'go';
  if (/^=+ (?:test session starts|FAILURES|short test summary info|\d+ (?:passed|failed))/m.test(text)) return 'pytest';
  if (/^\s*Tests? {2}.*\d+ (?:passed|failed)/m.test(text) || /^ *RUN +v\d/m.test(text)) return 'vitest';
  return /^Tests: +.*\d+ total/m.test(text) || /^(?:PASS|FAIL) \S+\.[jt]sx?/m.test(text) ? 'jest' : undefined;
}

type Read = Omit<TestReport, 'format'>;

const READERS: Readonly<Record<ReportFormat, (text: string) => Read | undefined>> = {
  junit: readJUnit,
  tap: readTap,
  vitest: readVitest,
  jest: (text) => (text.trimStart().startsWith('{') ? readJestJson(text) : readJest(text)),
  pytest: readPytest,
  go: (text) => (text.trimStart().startsWith('{') ? readGoJson(text) : readGo(text)),
};

function readJUnit(text: string): Read {
  const failures: Failure[] = [];
  let [passed, skipped] = [0, 0];
  let current:
    | { attributes: Readonly<Record<string, string>>; state: 'passed' | 'failed' | 'skipped'; message: string }
    | undefined;
  for (const event of readXml(text)) {
    if (event.type === 'open' && event.name === 'testcase')
      current = { attributes: event.attributes, state: 'passed', message: '' };
    else if (!current) continue;
    else if (event.type === 'open' && (event.name === 'failure' || event.name === 'error')) {
      current.state = 'failed';
      current.message = `${event.attributes.message ?? event.attributes.type ?? ''}\n`;
    } else if (event.type === 'open' && event.name === 'skipped') current.state = 'skipped';
    else if (event.type === 'text' && current.state === 'failed') current.message += event.text;
    if (event.type !== 'close' || event.name !== 'testcase') continue;
    const { attributes, state, message } = current;
    current = undefined;
    if (state === 'passed') passed++;
    else if (state === 'skipped') skipped++;
    else {
      const name = [attributes.classname, attributes.name].filter(Boolean).join(' › ');
      const own = attributes.file !== undefined && /^\d+$/.test(attributes.line ?? '');
      const place = own
        ? { file: attributes.file!, line: Math.max(1, Number(attributes.line)) }
        : placeIn(message, attributes.file);
      failures.push({ name, message: firstLine(message), place });
    }
  }
  return { passed, failed: failures.length, skipped, failures };
}

function readTap(text: string): Read {
  const failures: Failure[] = [];
  let [passed, skipped] = [0, 0];
  const lines = text.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const [, indent, not, said = ''] = /^(\s*)(not )?ok\b(?: \d+)?(?: - | )?(.*)$/.exec(lines[at]!) ?? [];
    if (indent === undefined) continue;
    const [name = '', directive] = said.split(/\s#\s?(?=skip|todo|time)/i);
    if (directive && /^(skip|todo)/i.test(directive)) {
      skipped++;
      continue;
    }
    if (!not) {
      passed++;
      continue;
    }
    const block: string[] = [];
    if (/^\s*---\s*$/.test(lines[at + 1] ?? '')) {
      for (at += 2; at < lines.length && !/^\s*\.\.\.\s*$/.test(lines[at]!) && block.length < 500; at++)
        block.push(lines[at]!);
    }
    const detail = block.join('\n');
    // A test that failed because one within it did says nothing more.
    if (/failureType: ['"]?subtestsFailed/.test(detail)) continue;
    const message = /^\s*(?:error|message): *(?:['"](.+)['"]|([^|>\s].*))$/m.exec(detail);
    const where = /^\s*(?:location|at): *['"]?(.+?)['"]?$/m.exec(detail)?.[1];
    const place = placeIn(where ?? '') ?? placeIn(detail);
    failures.push({ name: name.trim(), message: message?.[1] ?? message?.[2] ?? firstLine(detail), place });
  }
  return { passed, failed: failures.length, skipped, failures };
}

interface JestResult {
  readonly testResults?: readonly {
    readonly name?: string;
    readonly message?: string;
    readonly status?: string;
    readonly assertionResults?: readonly {
      readonly status?: string;
      readonly fullName?: string;
      readonly failureMessages?: readonly string[];
      readonly location?: { readonly line?: number } | null;
    }[];
  }[];
}

/** Vitest's JSON has the same form. */
function readJestJson(text: string): Read | undefined {
  let results: JestResult['testResults'];
  try {
    results = (JSON.parse(text) as JestResult).testResults;
  } catch {
    return undefined;
  }
  if (!Array.isArray(results)) return undefined;
  const failures: Failure[] = [];
  let [passed, skipped] = [0, 0];
  for (const { name: file = '', message = '', status: ofFile, assertionResults = [] } of results as NonNullable<
    typeof results
  >) {
    if (assertionResults.length === 0 && ofFile === 'failed') {
      failures.push({
        name: 'the file',
        message: firstLine(message),
        place: placeIn(message, file) ?? { file, line: 1 },
      });
    }
    for (const { status, fullName = '', failureMessages = [], location } of assertionResults) {
      if (status === 'passed') passed++;
      else if (status !== 'failed') skipped++;
      else {
        const said = failureMessages.join('\n');
        const own = location?.line === undefined ? undefined : { file, line: location.line };
        failures.push({
          name: fullName,
          message: firstLine(said),
          place: placeIn(said, file) ?? own ?? { file, line: 1 },
        });
      }
    }
  }
  return { passed, failed: failures.length, skipped, failures };
}

function readVitest(text: string): Read | undefined {
  if (text.trimStart().startsWith('{')) return readJestJson(text);
  const failures: Failure[] = [];
  const blocks = text.split(/^ *FAIL {2}(?=\S)/m).slice(1);
  const seen = new Set<string>();
  for (const block of blocks) {
    const [head = '', ...rest] = block.split('\n');
    const name = head.trim();
    const file = name
      .split(' > ')[0]!
      .replace(/^\|[^|]*\| /, '')
      .split(/[ []/)[0]!;
    if (seen.has(name)) continue;
    seen.add(name);
    const body = rest.join('\n').split(/^⎯{5,}/m)[0]!;
    failures.push({ name, message: firstLine(body), place: placeIn(body, file) ?? { file, line: 1 } });
  }
  const counts = /^\s*Tests {2}(.*)$/m.exec(text)?.[1] ?? '';
  return { ...countsOf(counts), failed: Math.max(failures.length, countsOf(counts).failed), failures };
}

function readJest(text: string): Read {
  const failures: Failure[] = [];
  const seen = new Set<string>();
  let file = '';
  for (const part of text.split(/^(?=(?:FAIL|PASS) \S| {2}● )/m)) {
    const suite = /^(?:FAIL|PASS) (\S+)/.exec(part)?.[1];
    if (suite !== undefined) file = suite;
    const name = /^ {2}● (.+)$/m.exec(part)?.[1];
    if (name === undefined || !part.startsWith('  ● ') || seen.has(`${file} ${name}`)) continue;
    seen.add(`${file} ${name}`);
    const body = part.split('\n').slice(1).join('\n');
    failures.push({ name, message: firstLine(body), place: placeIn(body, file) ?? { file, line: 1 } });
  }
  const counts = countsOf(/^Tests: +(.*)$/m.exec(text)?.[1] ?? '');
  return { ...counts, failed: Math.max(failures.length, counts.failed), failures };
}

function readPytest(text: string): Read {
  const failures: Failure[] = [];
  for (const [, file, name, said] of text.matchAll(/^(?:FAILED|ERROR) ([^\s:]+\.py)(?:::(\S+))?(?: - (.*))?$/gm)) {
    // The place of the failure ends its section; its heading names the test.
    const short = name?.split('::').at(-1)?.replace(/\[.*$/s, '');
    const at =
      short === undefined ? -1 : text.search(new RegExp(`^_{3,} .*\\b${short.replace(/\W/g, '.')}\\b.* _{3,}$`, 'm'));
    const section = at < 0 ? '' : text.slice(text.indexOf('\n', at)).split(/^_{3,} /m)[0]!;
    const line = [...section.matchAll(new RegExp(`^${file!.replace(/\W/g, '.')}:(\\d+):`, 'gm'))].at(-1)?.[1];
    failures.push({
      name: name ?? 'the file',
      message: said ?? 'failed',
      place: { file: file!, line: Number(line ?? 1) },
    });
  }
  const summary = [...text.matchAll(/^=+ (.*\b\d+ (?:passed|failed|error|skipped).*?) =+$/gm)].at(-1)?.[1];
  const counts = countsOf(summary ?? /^(\d+ (?:passed|failed|error).*)$/m.exec(text)?.[1] ?? '');
  return { ...counts, failed: Math.max(failures.length, counts.failed), failures };
}

function readGo(text: string): Read {
  const failures: Failure[] = [];
  const count = (word: string) => [...text.matchAll(new RegExp(`^\\s*--- ${word}: `, 'gm'))].length;
  const lines = text.split('\n');
  for (const [at, line] of lines.entries()) {
    const [, indent, name] = /^(\s*)--- FAIL: (\S+)/.exec(line) ?? [];
    if (name === undefined) continue;
    const body: string[] = [];
    // What a test says is indented more than its own line.
    for (let next = at + 1; next < lines.length && lines[next]!.startsWith(`${indent}    `); next++)
      body.push(lines[next]!);
    // A test that failed because one within it did says nothing more.
    if (/^\s*--- FAIL: /.test(body[0] ?? '')) continue;
    const said = body.filter((one) => !/^\s*--- /.test(one)).join('\n');
    failures.push({ name, message: firstLine(said.replace(/^\s*[\w./-]+\.go:\d+: */, '')), place: placeIn(said) });
  }
  return { passed: count('PASS'), failed: failures.length, skipped: count('SKIP'), failures };
}

function readGoJson(text: string): Read | undefined {
  const output = new Map<string, string>();
  const failures: Failure[] = [];
  const failed = new Map<string, string>();
  let [passed, skipped] = [0, 0];
  for (const line of text.split('\n')) {
    if (!line.startsWith('{')) continue;
    let event: { Action?: string; Test?: string; Package?: string; Output?: string };
    try {
      event = JSON.parse(line) as typeof event;
    } catch {
      continue;
    }
    const { Action: action, Test: test, Package: module = '', Output: said = '' } = event;
    if (test === undefined) continue;
    const key = `${module}\0${test}`;
    if (action === 'output') output.set(key, `${output.get(key) ?? ''}${said}`.slice(0, 20_000));
    else if (action === 'pass') passed++;
    else if (action === 'skip') skipped++;
    else if (action === 'fail') failed.set(key, test);
  }
  for (const [key, name] of failed) {
    if ([...failed.keys()].some((other) => other.startsWith(`${key}/`))) continue;
    const said = (output.get(key) ?? '')
      .split('\n')
      .filter((line) => !/^\s*(===|---)/.test(line))
      .join('\n');
    failures.push({ name, message: firstLine(said.replace(/^\s*[\w./-]+\.go:\d+: */, '')), place: placeIn(said) });
  }
  return { passed, failed: failures.length, skipped, failures };
}

function countsOf(text: string): { passed: number; failed: number; skipped: number } {
  const count = (words: string) => Number(new RegExp(`(\\d+) (?:${words})\\b`).exec(text)?.[1] ?? 0);
  return {
    passed: count('passed'),
    failed: count('failed') + count('errors?'),
    skipped: count('skipped|todo|pending'),
  };
}

/** The first place in the text that is not of a library; of one file, if that is there. */
function placeIn(text: string, preferred?: string): Failure['place'] {
  const all = [...text.matchAll(PLACE)].map(([, file, line]) => ({ file: file!, line: Math.max(1, Number(line)) }));
  const own = all.filter(({ file }) => !/node_modules|site-packages|^node:|\/internal\//.test(file));
  const base = preferred?.split(/[\\/]/).at(-1);
  return own.find(({ file }) => base !== undefined && file.endsWith(base)) ?? own[0];
}

function firstLine(text: string): string {
  const line = text.split('\n').find((one) => one.trim() !== '') ?? 'failed';
  return line.trim().slice(0, 300);
}

/** The failures of a report as findings; a place outside the workspace becomes the report itself. */
export function failuresOf(
  report: TestReport,
  root: string,
  reportFile: string,
  files: readonly SourceFile[],
): Finding[] {
  const paths = new Set(files.map(({ path }) => path));
  return report.failures.map(({ name, message, place }): Finding => {
    const file = place && within(place.file, root, paths);
    const shown = `the test "${name.slice(0, 200)}" failed`;
    return {
      ...{ agent: 'saturn', rule: 'test/failed', severity: 'high', message: shown, evidence: evidenceOf(message) },
      ...(file === undefined ? { file: reportFile, line: 1 } : { file, line: place!.line }),
    };
  });
}

/** The path in the workspace; a path of another machine or a short one, if exactly one file ends with it. */
function within(given: string, root: string, paths: ReadonlySet<string>): string | undefined {
  const path = given.replaceAll('\\', '/').replace(/^\.\//, '');
  const inside = path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
  if (paths.has(inside)) return inside;
  const parts = inside.split('/').filter(Boolean);
  for (let from = 0; from < parts.length; from++) {
    const end = parts.slice(from).join('/');
    if (paths.has(end)) return end;
  }
  const ends = [...paths].filter((one) => one.endsWith(`/${parts.join('/')}`));
  return ends.length === 1 ? ends[0] : undefined;
}

/** Files that tools write reports into, by their names. */
export function isReport(path: string): boolean {
  return /(^|\/)(junit[\w.-]*|TEST-[\w.-]+|test-results?|[\w.-]*-junit|test-report|vitest-report|jest-report)\.(xml|json)$|\.tap$/i.test(
    path,
  );
}

/** SATURN: tests that keep all others of their file from running. */
export function findFocusedTests(files: readonly SourceFile[]): Finding[] {
  return files.flatMap(({ path, text }) => {
    if (
      languageOf(path) !== 'js' ||
      !/[._-](test|spec|e2e)s?\.[cm]?[jt]sx?$|(^|\/)(__tests__|tests?|spec)\//.test(path)
    )
      return [];
    if (!/\.only\b|\bfdescribe\b|\bfit\b/.test(text)) return [];
    const lines = text.split('\n');
    return codeOf(text, 'js')
      .split('\n')
      .flatMap((line, at): Finding[] => {
        if (line.length > 2_000) return [];
        if (
          !/^\s*(?:(?:describe|it|test|suite|context|specify|bench)(?:\.\w+){0,3}\.only\b\s*(?:\(|\.|$)|(?:fdescribe|fit)\s*\()/.test(
            line,
          )
        )
          return [];
        const message = 'a focused test keeps the other tests of its file from running';
        return [
          {
            agent: 'saturn',
            rule: 'test/focused',
            severity: 'medium',
            file: path,
            line: at + 1,
            message,
            evidence: evidenceOf(lines[at]!),
          },
        ];
      })
      .slice(0, 20);
  });
}
