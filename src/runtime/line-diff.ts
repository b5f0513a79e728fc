import { cutText } from './text.js';

/** Unchanged lines shown around a change. */
const CONTEXT = 3;
const MAX_LINES = 150;
const LINE_CHARS = 300;
/** Lines before times lines after; a larger change is shown as removed and added as a whole. */
const MAX_CELLS = 1_000_000;

/**
 * The change of a text as lines that begin with `+`, `-` or a space, with some unchanged lines around each change. A line
 * with `…` stands for lines that are left out.
 */
export function lineDiff(before: string, after: string): string[] {
  const [old, fresh] = [linesOf(before), linesOf(after)];
  const shortest = Math.min(old.length, fresh.length);
  let head = 0;
  while (head < shortest && old[head] === fresh[head]) head++;
  let tail = 0;
  while (tail < shortest - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail++;
  const middle = changes(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail));
  const same = (lines: readonly string[]) => lines.map((line) => ` ${line}`);
  const all = [...same(old.slice(0, head)), ...middle, ...same(old.slice(old.length - tail))];
  return withContext(all).map((line) => (line.length > LINE_CHARS ? `${cutText(line, LINE_CHARS - 1)}…` : line));
}

function linesOf(text: string): string[] {
  const lines = text.split('\n');
  // A final line break ends the last line; it begins no other.
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** By the longest common subsequence. */
function changes(old: readonly string[], fresh: readonly string[]): string[] {
  const removed = (line: string) => `-${line}`;
  const added = (line: string) => `+${line}`;
  if (old.length * fresh.length > MAX_CELLS) return [...old.map(removed), ...fresh.map(added)];
  const width = fresh.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = fresh.length - 1; column >= 0; column--) {
      const at = row * width + column;
      common[at] =
        old[row] === fresh[column] ? common[at + width + 1]! + 1 : Math.max(common[at + width]!, common[at + 1]!);
    }
  }
  const lines: string[] = [];
  let [row, column] = [0, 0];
  while (row < old.length && column < fresh.length) {
    const at = row * width + column;
    if (old[row] === fresh[column]) {
      lines.push(` ${old[row++]}`);
      column++;
    } else if (common[at + width]! >= common[at + 1]!) lines.push(removed(old[row++]!));
    else lines.push(added(fresh[column++]!));
  }
  return [...lines, ...old.slice(row).map(removed), ...fresh.slice(column).map(added)];
}

function withContext(all: readonly string[]): string[] {
  const near = new Uint8Array(all.length);
  for (const [at, line] of all.entries()) {
    if (!line.startsWith(' ')) near.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  }
  const lines: string[] = [];
  for (const [at, line] of all.entries()) {
    if (lines.length >= MAX_LINES) return [...lines, ` … ${all.length - at} more lines`];
    if (near[at]) lines.push(line);
    else if (near[at - 1]) lines.push(' …');
  }
  return lines;
}
