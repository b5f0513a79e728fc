import type { Finding } from './finding.js';
import type { CodeSymbol, Hit } from './outline.js';
import type { ToolReport } from './tool-report.js';
import type { Skipped } from './workspace-files.js';

const MAX_TEXT_CHARS = 40_000;

/** A report as a model or a person reads it: each finding on one line, with its evidence on the next. */
export function reportAsText(report: ToolReport): string {
  const { agent, findings, more, facts } = report;
  const { hits, symbols, mostImported, mostChanged } = facts as {
    hits?: readonly Hit[];
    symbols?: readonly CodeSymbol[];
    mostImported?: readonly { file: string; importers: number }[];
    mostChanged?: readonly { file: string; commits: number; authors: readonly (readonly [string, number])[] }[];
  };
  const lines = [
    `${agent.toUpperCase()} ${report.summary}.`,
    ...findings.flatMap(findingLines),
    ...(more > 0 ? [`… and ${more} more findings`] : []),
    ...(hits ?? []).map(({ file, line, text }) => `${placeOf(file, line)}: ${text}`),
    ...(symbols ?? []).map(
      ({ kind, name, file, line, exported }) => `${placeOf(file, line)}: ${exported ? '' : 'private '}${kind} ${name}`,
    ),
    ...listed('Most imported', mostImported, ({ file, importers }) => `${shownPath(file)} (${importers} importers)`),
    ...listed('Most changed', mostChanged, ({ file, commits, authors }) => {
      return `${shownPath(file)} (${commits} commits, most by ${shownText(authors[0]?.[0] ?? 'unknown')})`;
    }),
    ...skippedLines(report.skipped),
  ];
  const text = lines.join('\n');
  return text.length > MAX_TEXT_CHARS
    ? `${text.slice(0, MAX_TEXT_CHARS)}\n… cut; ask for a part of the workspace`
    : text;
}

function findingLines(finding: Finding): string[] {
  const { file, line, severity, message, rule, evidence } = finding;
  return [
    `${placeOf(file, line)}: ${severity}: ${shownText(message)} [${rule}]`,
    ...(evidence === '' ? [] : [`    ${shownText(evidence)}`]),
  ];
}

function listed<T>(title: string, items: readonly T[] | undefined, text: (item: T) => string): string[] {
  return items && items.length > 0 ? [`${title}: ${items.map(text).join(', ')}`] : [];
}

/** What was not looked at. */
export function skippedLines({ links, tooLarge, unreadable, beyondLimits }: Skipped): string[] {
  const parts = [
    links > 0 && `${counted(links, 'link')}, which ${links === 1 ? 'was' : 'were'} not followed`,
    tooLarge > 0 && `${counted(tooLarge, 'file')} that ${tooLarge === 1 ? 'is' : 'are'} too large`,
    unreadable > 0 && `${unreadable} that could not be read`,
    beyondLimits > 0 && `${beyondLimits} beyond the limits of a review`,
  ].filter(Boolean);
  return parts.length === 0 ? [] : [`Not looked at: ${parts.join('; ')}.`];
}

/** `1 file`, `2 files`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

export function placeOf(file: string, line: number): string {
  return `${shownPath(file)}:${line}`;
}

/** A path on one line: a control character in a name is shown as its code. */
export function shownPath(path: string): string {
  return path.replace(UNSHOWN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

export function shownText(text: string): string {
  return text.replace(UNSHOWN, ' ');
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
const UNSHOWN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
