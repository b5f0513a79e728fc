import { EclipticError } from '../../runtime/errors.js';

/** Characters of one glob, the globs that its braces may expand to, and the characters of all of these. */
const MAX_CHARS = 500;
const MAX_ALTERNATIVES = 64;
const MAX_EXPANDED_CHARS = 2_048;

/** Ranges of code points in order, both ends included. */
type CharSet = readonly (readonly [number, number])[];
/** One character of a set, or any number of any characters. */
type Token = CharSet | typeof MANY;
/** One segment of a path. */
interface Name {
  readonly text: string;
  readonly tokens: readonly Token[];
}
/** Segments, or any number of any segments. */
type Pattern = readonly (Name | typeof MANY)[];

const MANY = 'many';
const LAST = 0x10ffff;
const SLASH = 0x2f;
const ANY: CharSet = [
  [0, SLASH - 1],
  [SLASH + 1, LAST],
];

/** The canonical form of a glob: relative to the repository, with slashes and in NFC. A folder stands for everything in it. */
export function normalGlob(glob: string): string {
  const text = normalText(glob);
  const names = text.split('/').filter((name) => name !== '' && name !== '.');
  if (text.length > MAX_CHARS) throw refused(glob, `it is longer than ${MAX_CHARS} characters`);
  if (/^([a-zA-Z]:|~)?\//.test(text) || names.includes('..')) throw refused(glob, 'it leads out of the repository');
  while (names.at(-1) === '**') names.pop();
  const normal = names.length === 0 ? '**' : names.join('/');
  if (weightOf(normal) > MAX_EXPANDED_CHARS) {
    throw refused(glob, `its braces stand for more than ${MAX_EXPANDED_CHARS} characters`);
  }
  return normal;
}

export function isNormalGlob(text: string): boolean {
  try {
    return normalGlob(text) === text;
  } catch {
    return false;
  }
}

function normalText(path: string): string {
  return path.normalize('NFC').replaceAll('\\', '/');
}

/** Some file systems take capital letters for small ones, so globs that differ in nothing else stand for the same files. */
function folded(glob: string): string {
  return glob.toLowerCase();
}

export function isSameGlob(one: string, other: string): boolean {
  return folded(one) === folded(other);
}

/** The glob that matches exactly this path. */
export function literalGlob(path: string): string {
  return normalText(path).replace(/[*?[{]/g, (sign) => `[${sign}]`);
}

/** Tells of a path whether the glob matches it. Paths with another beginning are told without a comparison. */
export function coverOf(glob: string): (path: string) => boolean {
  const [beginning = ''] = /^[^*?[{]*/.exec(folded(glob))!;
  return (path) => {
    const literal = folded(literalGlob(path));
    const canMatch = literal.startsWith(beginning) || beginning.startsWith(`${literal}/`) || literal.includes('[');
    return canMatch && overlaps(glob, literal);
  };
}

/** The cost of comparing this glob: the characters of all its brace expansions. */
export function weightOf(glob: string): number {
  return alternatives(glob).reduce((sum, text) => sum + text.length, 0);
}

/** Is there a path that both match? Takes at most the product of both weights in steps. */
export function overlaps(one: string, other: string): boolean {
  const compared = new Map<string, boolean>();
  const same = (a: Name, b: Name) => {
    const key = `${a.text}/${b.text}`;
    const known = compared.get(key) ?? meet(a.tokens, b.tokens, intersect);
    compared.set(key, known);
    return known;
  };
  const others = patterns(folded(other));
  return patterns(folded(one)).some((mine) => others.some((theirs) => meet(mine, theirs, same)));
}

function patterns(glob: string): Pattern[] {
  // Brackets also occur in names of real files, so both readings count.
  return alternatives(glob).flatMap((text) => {
    const readings = text.includes('[') ? [true, false] : [true];
    return readings.map((sets) => withoutRepeats([...text.split('/').map((name) => nameOf(name, sets)), MANY]));
  });
}

/** `MANY` twice in a row is the same as once. */
function withoutRepeats<T>(sequence: readonly (T | typeof MANY)[]): (T | typeof MANY)[] {
  return sequence.filter((element, at) => element !== MANY || sequence[at - 1] !== MANY);
}

function refused(glob: string, why: string): EclipticError {
  return new EclipticError('INVALID_ARGUMENTS', `${JSON.stringify(glob)}: ${why}; nothing was done`);
}

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

/** The first braces with a comma: begin, end and alternatives. */
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

function nameOf(text: string, sets: boolean): Name | typeof MANY {
  if (text === '**') return MANY;
  const tokens: Token[] = [];
  const chars = [...text];
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at]!;
    const set = sets && char === '[' ? bracketed(chars, at) : undefined;
    if (set) {
      tokens.push(set.chars);
      at = set.end;
    } else if (char === '*') {
      tokens.push(MANY);
    } else tokens.push(char === '?' ? ANY : [[char.codePointAt(0)!, char.codePointAt(0)!]]);
  }
  return { text: sets ? text : `[]${text}`, tokens: withoutRepeats(tokens) };
}

/** A set in brackets; undefined where the bracket is a plain character. */
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
  return { chars: negated ? without(ranges) : merged(ranges), end };
}

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

function merged(ranges: readonly [number, number][]): CharSet {
  const whole: [number, number][] = [];
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const last = whole.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else whole.push([from, to]);
  }
  return whole;
}

/**
 * Do two sequences, in which `MANY` stands for any number of anything, have a match in common? Tracks all positions in
 * `other` at once while it advances through `one`, so no pair of elements is compared twice.
 */
function meet<T>(
  one: readonly (T | typeof MANY)[],
  other: readonly (T | typeof MANY)[],
  same: (a: T, b: T) => boolean,
): boolean {
  // reached[at]: the elements of `one` so far can match the first `at` elements of `other`.
  let reached = new Uint8Array(other.length + 1);
  let next = new Uint8Array(other.length + 1);
  reached[0] = 1;
  skipMany(reached, other);
  for (const element of one) {
    if (element === MANY) reached.fill(1, reached.indexOf(1));
    else {
      next.fill(0);
      let any = false;
      for (let at = reached.indexOf(1); at >= 0 && at < other.length; at = reached.indexOf(1, at + 1)) {
        const theirs = other[at]!;
        if (theirs === MANY) next[at] = 1;
        else if (same(element, theirs)) next[at + 1] = 1;
        else continue;
        any = true;
      }
      if (!any) return false;
      [reached, next] = [next, reached];
      skipMany(reached, other);
    }
  }
  return reached[other.length] === 1;
}

function skipMany(reached: Uint8Array, other: readonly unknown[]): void {
  for (let at = reached.indexOf(1); at >= 0 && at < other.length; at = reached.indexOf(1, at + 1)) {
    if (other[at] === MANY) reached[at + 1] = 1;
  }
}

function intersect(one: CharSet, other: CharSet): boolean {
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    const [mine, theirs] = [one[i]!, other[j]!];
    if (mine[0] <= theirs[1] && theirs[0] <= mine[1]) return true;
    if (mine[1] < theirs[1]) i++;
    else j++;
  }
  return false;
}
