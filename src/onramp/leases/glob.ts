import { EclipticError } from '../../runtime/errors.js';

/** Characters of one glob, and how many plain ones its braces and brackets may stand for. */
const MAX_CHARS = 500;
const MAX_ALTERNATIVES = 64;

/** Ranges of code points, first and last of each. */
type CharSet = readonly (readonly [number, number])[];
/** One character of a set, or any number of any. */
type Token = CharSet | typeof STAR;
/** One name of a path, or any number of them. */
type Segment = readonly Token[] | typeof ANY_DEPTH;
type Pattern = readonly Segment[];

const STAR = 'star';
const ANY_DEPTH = 'any depth';
const LAST = 0x10ffff;
const SLASH = 0x2f;
const ANY: CharSet = [
  [0, SLASH - 1],
  [SLASH + 1, LAST],
];

/**
 * The one way to write a glob: within the repository, with slashes, in lower case and composed letters, for some
 * machines do not tell such names apart. A folder stands for all that is in it.
 */
export function normalGlob(glob: string): string {
  const text = normalText(glob);
  const names = text.split('/').filter((name) => name !== '' && name !== '.');
  if (text.length > MAX_CHARS) throw refused(glob, `it is longer than ${MAX_CHARS} characters`);
  if (/^([a-z]:|~)?\//.test(text) || names.includes('..')) throw refused(glob, 'it leads out of the repository');
  while (names.at(-1) === '**') names.pop();
  const normal = names.length === 0 ? '**' : names.join('/');
  alternatives(normal);
  return normal;
}

function normalText(path: string): string {
  return path.normalize('NFC').toLowerCase().replaceAll('\\', '/');
}

/** A path as it is, where nothing in it is a sign. */
export function literalGlob(path: string): string {
  return normalText(path).replace(/[*?[{]/g, (sign) => `[${sign}]`);
}

/** Is there a path that both mean? */
export function overlaps(one: string, other: string): boolean {
  const others = patterns(other);
  return patterns(one).some((mine) => others.some((theirs) => meet(mine, theirs, 0, 0, new Map())));
}

function patterns(glob: string): Pattern[] {
  // Brackets are in the names of real files, too: both readings count.
  return alternatives(glob).flatMap((text) => {
    const readings = text.includes('[') ? [true, false] : [true];
    return readings.map((sets) => [...text.split('/').map((name) => segment(name, sets)), ANY_DEPTH]);
  });
}

function refused(glob: string, why: string): EclipticError {
  return new EclipticError('INVALID_ARGUMENTS', `${JSON.stringify(glob)}: ${why}; nothing was done`);
}

/** Everything without braces that a glob stands for. */
function alternatives(glob: string): string[] {
  const whole = [...expand(glob)];
  if (whole.length > MAX_ALTERNATIVES) throw refused(glob, `its braces stand for more than ${MAX_ALTERNATIVES} globs`);
  return whole;
}

function* expand(glob: string): Generator<string> {
  const braces = firstBraces(glob);
  if (!braces) return yield glob;
  const [start, end, parts] = braces;
  let count = 0;
  for (const part of parts) {
    for (const text of expand(`${glob.slice(0, start)}${part}${glob.slice(end)}`)) {
      yield text.split('/').filter(Boolean).join('/') || '**';
      if (++count > MAX_ALTERNATIVES) return;
    }
  }
}

/** The first braces that hold a choice: where they begin and end, and what there is to choose from. */
function firstBraces(glob: string): readonly [number, number, string[]] | undefined {
  for (let start = glob.indexOf('{'); start >= 0; start = glob.indexOf('{', start + 1)) {
    if (glob[start - 1] === '[' && glob[start + 1] === ']') continue;
    const parts: string[] = [];
    let depth = 0;
    let from = start + 1;
    for (let at = start; at < glob.length; at++) {
      if (glob[at] === '{') depth++;
      else if (glob[at] === ',' && depth === 1) {
        parts.push(glob.slice(from, at));
        from = at + 1;
      } else if (glob[at] === '}' && --depth === 0) {
        if (parts.length > 0) return [start, at + 1, [...parts, glob.slice(from, at)]];
        break;
      }
    }
  }
  return undefined;
}

function segment(text: string, sets: boolean): Segment {
  if (text === '**') return ANY_DEPTH;
  const tokens: Token[] = [];
  const chars = [...text];
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at]!;
    const set = sets && char === '[' ? bracketed(chars, at) : undefined;
    if (set) {
      tokens.push(set.chars);
      at = set.end;
    } else if (char === '*') {
      if (tokens.at(-1) !== STAR) tokens.push(STAR);
    } else tokens.push(char === '?' ? ANY : [[char.codePointAt(0)!, char.codePointAt(0)!]]);
  }
  return tokens;
}

/** A set in brackets; undefined where the bracket is only a character. */
function bracketed(text: readonly string[], start: number): { chars: CharSet; end: number } | undefined {
  const negated = text[start + 1] === '!' || text[start + 1] === '^';
  const first = start + (negated ? 2 : 1);
  const end = text.indexOf(']', first + 1);
  if (end < 0) return undefined;
  const ranges: [number, number][] = [];
  for (let at = first; at < end; at++) {
    const from = text[at]!.codePointAt(0)!;
    const isRange = text[at + 1] === '-' && at + 2 < end;
    const to = isRange ? text[at + 2]!.codePointAt(0)! : from;
    ranges.push([Math.min(from, to), Math.max(from, to)]);
    if (isRange) at += 2;
  }
  return { chars: negated ? without(ranges) : ranges, end };
}

/** All characters of a name but those. */
function without(ranges: readonly [number, number][]): CharSet {
  const sorted = [...ranges, [SLASH, SLASH] as const].sort(([a], [b]) => a - b);
  const left: [number, number][] = [];
  let next = 0;
  for (const [from, to] of sorted) {
    if (from > next) left.push([next, from - 1]);
    next = Math.max(next, to + 1);
  }
  if (next <= LAST) left.push([next, LAST]);
  return left;
}

/** Can the rest of both patterns mean one path? */
function meet(one: Pattern, other: Pattern, i: number, j: number, known: Map<number, boolean>): boolean {
  return search(one, other, i, j, known, ANY_DEPTH, (a, b) => {
    return search(a as readonly Token[], b as readonly Token[], 0, 0, new Map(), STAR, (x, y) =>
      intersect(x as CharSet, y as CharSet),
    );
  });
}

/** Do two sequences, in which `many` stands for any number of anything, have something in common? */
function search<T>(
  one: readonly T[],
  other: readonly T[],
  i: number,
  j: number,
  known: Map<number, boolean>,
  many: T,
  same: (a: T, b: T) => boolean,
): boolean {
  const key = i * (other.length + 1) + j;
  const before = known.get(key);
  if (before !== undefined) return before;
  const on = (di: number, dj: number) => search(one, other, i + di, j + dj, known, many, same);
  let found: boolean;
  if (i === one.length && j === other.length) found = true;
  else if (i < one.length && one[i] === many) found = on(1, 0) || (j < other.length && on(0, 1));
  else if (j < other.length && other[j] === many) found = on(0, 1) || (i < one.length && on(1, 0));
  else found = i < one.length && j < other.length && same(one[i]!, other[j]!) && on(1, 1);
  known.set(key, found);
  return found;
}

function intersect(one: CharSet, other: CharSet): boolean {
  return one.some(([from, to]) => other.some(([start, end]) => from <= end && start <= to));
}
