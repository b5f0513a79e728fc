import { EclipticError } from '../../runtime/errors.js';
import { languageOf } from './code-text.js';
import { readSchemaFile, reviewData, validateFile } from './data-files.js';
import { byImportance, type Finding } from './finding.js';
import { hotSpots, readHistory } from './history.js';
import { reviewImports } from './imports.js';
import { findLeftovers, outlineOf, searchFiles } from './outline.js';
import { reviewPackages } from './package-files.js';
import { changedLines, historyLog } from './repository.js';
import { findSecrets } from './secrets.js';
import {
  failuresOf,
  findFocusedTests,
  isReport,
  type ReportFormat,
  readTestReport,
  type TestReport,
} from './test-reports.js';
import type { ToolCall, ToolReport } from './tool-report.js';
import { counted } from './tool-text.js';
import { readText, readWorkspace, type SourceFile, type WorkspaceFiles } from './workspace-files.js';

/** What a tool found, before it is put in order. */
interface Result {
  readonly findings: readonly Finding[];
  readonly summary: (count: string) => string;
  readonly facts?: Readonly<Record<string, unknown>>;
}

type Args = ToolCall['args'];
type Run = (files: WorkspaceFiles, args: Args) => Result;

const MAX_FINDINGS = 300;
const MAX_REPORT_BYTES = 16 * 1_048_576;
const MAX_SYMBOLS = 2_000;
const MAX_LISTED = 10;

/** The tools by their full names. Each blocks: they belong into a process of their own. */
const TOOLS: Readonly<Record<string, Run>> = {
  'enceladus.secrets': ({ files }) => ({
    findings: findSecrets(files),
    summary: (count) => `looked for secrets in ${counted(files.length, 'file')}: ${count}`,
  }),

  'jupiter.imports': ({ root, files, isIgnored }) => {
    const { graph, findings } = reviewImports(root, files, isIgnored);
    const used = new Map<string, number>();
    for (const to of new Set(graph.imports.map(({ from, to }) => `${from}\0${to}`))) {
      const target = to.split('\0')[1]!;
      used.set(target, (used.get(target) ?? 0) + 1);
    }
    const mostImported = [...used].sort((a, b) => b[1] - a[1]).slice(0, MAX_LISTED);
    return {
      findings,
      summary: (count) =>
        `followed ${counted(graph.imports.length, 'import')} of ${counted(graph.modules.length, 'module')}: ${count}`,
      facts: {
        modules: graph.modules.length,
        imports: graph.imports.length,
        mostImported: mostImported.map(([file, importers]) => ({ file, importers })),
      },
    };
  },

  'neptune.history': ({ root, files }) => {
    const log = historyLog(root);
    if (log === undefined) return { findings: [], summary: () => 'found no history of git here', facts: {} };
    const history = readHistory(log, files);
    const { commits, authors } = history;
    return {
      findings: hotSpots(history),
      summary: (count) => `read ${counted(commits, 'commit')} by ${counted(authors, 'author')}: ${count}`,
      facts: { commits, authors, mostChanged: history.files.slice(0, MAX_LISTED) },
    };
  },

  'uranus.leftovers': ({ files }) => {
    const languages = new Map<string, { files: number; lines: number }>();
    for (const { path, text } of files) {
      const language = languageOf(path);
      if (language === undefined) continue;
      const known = languages.get(language) ?? { files: 0, lines: 0 };
      languages.set(language, { files: known.files + 1, lines: known.lines + linesOf(text) });
    }
    return {
      findings: findLeftovers(files),
      summary: (count) =>
        `looked for merge conflicts and debugger statements in ${counted(files.length, 'file')}: ${count}`,
      facts: { languages: Object.fromEntries([...languages].sort((a, b) => b[1].lines - a[1].lines)) },
    };
  },

  'uranus.search': ({ files }, args) => {
    const {
      pattern,
      regex,
      ignoreCase,
      path,
      limit = 100,
    } = args as {
      pattern: string;
      regex?: boolean;
      ignoreCase?: boolean;
      path?: string;
      limit?: number;
    };
    const query = {
      pattern,
      limit,
      ...(regex && { regex }),
      ...(ignoreCase && { ignoreCase }),
      ...(path !== undefined && { path }),
    };
    const { hits, more } = searchFiles(files, query);
    const found = `${more ? 'the first ' : ''}${counted(hits.length, 'line')}`;
    return {
      findings: [],
      summary: () => `searched ${counted(files.length, 'file')}: ${found}`,
      facts: { hits, more },
    };
  },

  'uranus.outline': ({ files }, { path }) => {
    const chosen = typeof path === 'string' ? files.filter((file) => file.path.includes(path)) : files;
    const symbols = chosen.flatMap(outlineOf);
    const shown = symbols.slice(0, MAX_SYMBOLS);
    const summary = () => `${counted(symbols.length, 'symbol')} in ${counted(chosen.length, 'file')}`;
    return { findings: [], summary, facts: { symbols: shown, more: symbols.length - shown.length } };
  },

  'mercury.validate': ({ root, files, isIgnored }, { file, schema }) => {
    if (typeof file !== 'string') {
      const findings = [...reviewData(files), ...reviewPackages(root, files, isIgnored)];
      const data = files.filter(({ path }) => /\.(jsonc?|ya?ml)$/.test(path)).length;
      return { findings, summary: (count) => `checked ${counted(data, 'file')} of JSON and YAML: ${count}` };
    }
    const subject = named(root, file);
    const by =
      typeof schema === 'string'
        ? { schema: readSchemaFile(named(root, schema)), name: schema }
        : { schema: {}, name: 'JSON' };
    const findings = validateFile({ file: subject, ...by });
    return { findings, summary: (count) => `checked ${file}${schema === undefined ? '' : ` by ${schema}`}: ${count}` };
  },

  'saturn.report': ({ root, files }, { report, format }) => {
    const focused = report === undefined ? findFocusedTests(files) : [];
    const sources = typeof report === 'string' ? [named(root, report)] : files.filter(({ path }) => isReport(path));
    const read = sources.flatMap(({ path, text }): { path: string; tests: TestReport }[] => {
      if (report !== undefined) return [{ path, tests: readTestReport(text, format as ReportFormat | undefined) }];
      try {
        return [{ path, tests: readTestReport(text) }];
      } catch {
        return []; // Another file of that name.
      }
    });
    const tests = read.map(({ path, tests: { failures: _, ...counts } }) => ({ report: path, ...counts }));
    const sum = (of: 'passed' | 'failed' | 'skipped') => tests.reduce((all, one) => all + one[of], 0);
    const said =
      tests.length === 0
        ? 'no report of tests'
        : `${counted(tests.length, 'report')} of tests, ${sum('passed')} passed, ${sum('failed')} failed, ${sum('skipped')} skipped`;
    return {
      findings: [...read.flatMap(({ path, tests }) => failuresOf(tests, root, path, files)), ...focused],
      summary: (count) => `read ${said}; no test was run: ${count}`,
      facts: { tests },
    };
  },

  /** The output of a run, which the node has started. */
  'saturn.output': ({ root, files }, args) => {
    const { output, code, command } = args as { output: string; code: number; command: string };
    const manifest = ['package.json', 'pyproject.toml', 'go.mod', 'Cargo.toml'].find((path) =>
      files.some((file) => file.path === path),
    );
    const place = manifest ?? files[0]?.path ?? '.';
    let tests: TestReport | undefined;
    try {
      tests = readTestReport(output);
    } catch {
      // The exit code is all that is known.
    }
    const failures = tests ? failuresOf(tests, root, place, files) : [];
    const ended = `${command} ended with code ${code}`;
    const unexplained: Finding = {
      ...{ agent: 'saturn', rule: 'test/run', severity: 'high', file: place, line: 1, message: ended },
      evidence: output.trim().split('\n').at(-1)?.slice(0, 200) ?? '',
    };
    const counts = tests
      ? `${tests.passed} passed, ${tests.failed} failed, ${tests.skipped} skipped`
      : 'its output is no known report';
    return {
      findings: code !== 0 && failures.length === 0 ? [unexplained] : failures,
      summary: (count) => `ran ${command}, which ended with code ${code}; ${counts}: ${count}`,
      facts: { code, command, ...(tests && { passed: tests.passed, failed: tests.failed, skipped: tests.skipped }) },
    };
  },
};

/** Runs a tool on a folder. With `since`, only findings on lines that changed since that revision are reported. */
export function runTool({ tool, folder, hidden, args }: ToolCall): ToolReport {
  const run = Object.hasOwn(TOOLS, tool) ? TOOLS[tool]! : undefined;
  if (!run) throw new EclipticError('TOOL_NOT_FOUND', `there is no tool "${tool}"`, { tool });
  const workspace = readWorkspace(folder, { hidden });
  const { files, skipped, root } = workspace;
  const { findings, summary, facts = {} } = run(workspace, args);
  const { since } = args;
  const changed = typeof since === 'string' ? changedLines(root, since, files) : undefined;
  const relevant = changed ? findings.filter((finding) => isOf(finding, changed)) : findings;
  const sorted = [...relevant].sort(byImportance);
  const shown = sorted.slice(0, MAX_FINDINGS);
  const count = counted(sorted.length, 'finding');
  return {
    agent: tool.split('.')[0]!,
    tool,
    summary: summary(changed ? `${count} on lines changed since ${since}` : count),
    findings: shown,
    more: sorted.length - shown.length,
    scanned: { files: files.length, lines: files.reduce((sum, { text }) => sum + linesOf(text), 0) },
    skipped,
    facts,
  };
}

/** Observations about a whole file belong to no change; a failed test does wherever it is. */
function isOf({ severity, rule, file, line }: Finding, changed: ReadonlyMap<string, ReadonlySet<number>>): boolean {
  if (severity === 'info') return false;
  return rule.startsWith('test/failed') || rule === 'test/run' || changed.get(file)?.has(line) === true;
}

/** A file that the caller names, ignored or not, within the workspace. */
function named(root: string, path: string): SourceFile {
  const inside = path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
  const outside = inside.startsWith('/') || /^[A-Za-z]:/.test(inside) || inside.split(/[\\/]/).includes('..');
  const read =
    outside || inside.includes('\0') ? ({ skipped: 'links' } as const) : readText(root, inside, MAX_REPORT_BYTES);
  if (read.skipped === 'links') {
    throw new EclipticError('INVALID_ARGUMENTS', `${path} is outside the workspace, or a link`, { path });
  }
  if (read.skipped !== undefined) {
    const why = { tooLarge: 'is too large', binary: 'is binary', unreadable: 'cannot be read' }[read.skipped];
    throw new EclipticError('RESOURCE_NOT_FOUND', `${path} ${why}`, { path });
  }
  return { path: inside, text: read.text };
}

function linesOf(text: string): number {
  let lines = text.endsWith('\n') || text === '' ? 0 : 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}
