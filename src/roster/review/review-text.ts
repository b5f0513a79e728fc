import type { Finding } from '../tools/finding.js';
import { counted, placeOf, shownPath, shownText, skippedLines } from '../tools/tool-text.js';
import { countText, faultsOf, type ReviewReport } from './review-report.js';

/** For a terminal. */
export function reviewText(report: ReviewReport): string {
  const { findings, parts, scanned, ms } = report;
  const notes = findings.filter(({ severity }) => severity === 'info');
  const lines = [
    ...faultsOf(report).flatMap(faultLines),
    ...(notes.length > 0 ? ['Worth knowing', ...notes.map((note) => `  ${noteText(note)}`), ''] : []),
    ...parts.map(
      ({ agent, summary, more }) =>
        `${agent.toUpperCase().padEnd(10)} ${shownText(summary)}${more > 0 ? ` (${more} are left out here)` : ''}`,
    ),
    ...skippedLines(report.skipped),
    '',
    `${counted(scanned.files, 'file')}, ${counted(scanned.lines, 'line')} in ${(ms / 1_000).toFixed(1)} s: ${countText(report)}`,
  ];
  return lines.join('\n');
}

function faultLines({ file, line, severity, message, rule, agent, evidence }: Finding): string[] {
  return [
    placeOf(file, line),
    `  ${severity}: ${shownText(message)} [${rule}, ${agent.toUpperCase()}]`,
    ...(evidence === '' ? [] : [`  | ${shownText(evidence)}`]),
    '',
  ];
}

function noteText({ file, line, message, evidence }: Finding): string {
  return `${placeOf(file, line)} ${shownText(message)} (${shownText(evidence)})`;
}

/** As a document. */
export function reviewMarkdown(report: ReviewReport): string {
  const { workspace, since, findings, parts, scanned, ms } = report;
  const faults = faultsOf(report);
  const notes = findings.filter(({ severity }) => severity === 'info');
  const change = since === undefined ? '' : `, lines changed since ${code(since)}`;
  const lines = [
    `# Review of ${code(workspace.split('/').at(-1) || workspace)}`,
    '',
    `${counted(scanned.files, 'file')}, ${counted(scanned.lines, 'line')}${change}${ms > 0 ? ` in ${(ms / 1_000).toFixed(1)} s` : ''}: **${countText(report)}**.`,
    '',
    ...(faults.length === 0 ? [] : ['## Findings', '', ...faults.flatMap(faultMarkdown), '']),
    ...(notes.length === 0
      ? []
      : [
          '## Worth knowing',
          '',
          ...notes.map(
            (note) => `- ${code(placeOf(note.file, note.line))} ${plain(note.message)} (${plain(note.evidence)})`,
          ),
          '',
        ]),
    '## What was looked at',
    '',
    '| agent | tool | result |',
    '|---|---|---|',
    ...parts.map(({ agent, tool, summary }) => `| ${agent.toUpperCase()} | ${code(tool)} | ${plain(summary)} |`),
    '',
    ...skippedLines(report.skipped),
  ];
  return `${lines.join('\n').trimEnd()}\n`;
}

function faultMarkdown({ file, line, severity, message, rule, agent, evidence }: Finding): string[] {
  return [
    `- **${severity}** ${code(placeOf(file, line))} ${plain(message)} (${code(rule)}, ${agent.toUpperCase()})`,
    ...(evidence === '' ? [] : [`  ${code(evidence)}`]),
  ];
}

/** As code, whatever back-quotes the text has. */
function code(text: string): string {
  const shown = shownPath(text);
  const longest = Math.max(0, ...[...shown.matchAll(/`+/g)].map(([run]) => run.length));
  const mark = '`'.repeat(longest + 1);
  const pad = /^`|`$/.test(shown) ? ' ' : '';
  return `${mark}${pad}${shown.replaceAll('|', '\\|')}${pad}${mark}`;
}

/** Text of a repository that neither formats nor links anything. */
function plain(text: string): string {
  return shownText(text).replace(/[\\`*_[\]<>|#]/g, (char) => `\\${char}`);
}
