import { cutText } from '../../runtime/text.js';
import type { Definition } from '../definitions.js';
import { revealed } from '../neutral-text.js';

const MAX_LINES = 100;
const MAX_CHARS = 500;

/** What is different, line by line: `- path: before` and `+ path: after`, with hidden characters made visible. */
export function definitionDiff(before: Definition | undefined, after: Definition): string[] {
  const was = new Map(before ? leaves(before, '') : []);
  const is = new Map(leaves(after, ''));
  const lines: string[] = [];
  for (const [path, value] of was)
    if (is.get(path) !== value) lines.push(...said('-', path, value), ...added(is, path));
  for (const [path, value] of is) if (!was.has(path)) lines.push(...said('+', path, value));
  const more = lines.length - MAX_LINES;
  return more > 0 ? [...lines.slice(0, MAX_LINES), `… and ${more} more lines`] : lines;
}

function added(is: ReadonlyMap<string, string>, path: string): string[] {
  const value = is.get(path);
  return value === undefined ? [] : said('+', path, value);
}

function said(sign: string, path: string, value: string): string[] {
  const text = value.length > MAX_CHARS ? `${cutText(value, MAX_CHARS)}… (${value.length} characters)` : value;
  return [`${sign} ${revealed(path)}: ${revealed(text)}`];
}

/** Every simple value, by its place. */
function leaves(value: unknown, path: string): [string, string][] {
  if (typeof value !== 'object' || value === null) return [[path, JSON.stringify(value) ?? '']];
  const members = Object.entries(value);
  if (members.length === 0) return [[path, Array.isArray(value) ? '[]' : '{}']];
  return members.flatMap(([key, member]) => leaves(member, path === '' ? key : `${path}.${key}`));
}
