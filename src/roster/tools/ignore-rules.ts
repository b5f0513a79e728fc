/** One character of a set, any one character, or any number of them. */
type Token = ((char: string) => boolean) | string | typeof MANY;
type Segment = readonly Token[] | typeof MANY;

interface Rule {
  readonly isNegated: boolean;
  readonly foldersOnly: boolean;
  readonly segments: readonly Segment[];
}

const MANY: unique symbol = Symbol('many');
const MAX_PATTERN_CHARS = 1_000;
const MAX_RULES = 5_000;

/**
 * The rules of one `.gitignore`. A pattern takes at most the product of its length and that of the path, where regular
 * expressions of the same patterns can take for ever. Longer patterns, and rules beyond the limit, do not count.
 */
export class IgnoreRules {
  /** The last rule that matches wins. */
  readonly #rules: readonly Rule[];

  constructor(text: string) {
    this.#rules = text.split('\n', MAX_RULES).flatMap(readRule).reverse();
  }

  /** Is the path ignored, or taken back? Undefined where no rule says so. A folder has a slash at its end. */
  test(path: string): boolean | undefined {
    const isFolder = path.endsWith('/');
    const names = path.split('/').filter((name) => name !== '');
    const rule = this.#rules.find(
      ({ foldersOnly, segments }) => (isFolder || !foldersOnly) && matches(segments, names, nameMatches),
    );
    return rule && !rule.isNegated;
  }
}

function readRule(given: string): Rule[] {
  const line = given.replace(/\r$/, '').replace(/(?<![\\ ]) +$/, '');
  if (line === '' || line.startsWith('#') || line.length > MAX_PATTERN_CHARS) return [];
  const isNegated = line.startsWith('!');
  const pattern = isNegated ? line.slice(1) : line;
  const foldersOnly = pattern.endsWith('/');
  const whole = foldersOnly ? pattern.slice(0, -1) : pattern;
  const names = whole.split('/');
  const isAnchored = names.length > 1;
  if (names[0] === '') names.shift();
  // `folder/**` matches the entries of a folder, and not the folder itself.
  if (names.at(-1) === '**' && isAnchored) names.push('*');
  const segments = names.map((name): Segment => (name === '**' ? MANY : tokensOf(name)));
  const all: readonly Segment[] = isAnchored ? segments : [MANY, ...segments];
  const once = all.filter((segment, at) => segment !== MANY || all[at - 1] !== MANY);
  return once.length === 0 ? [] : [{ isNegated, foldersOnly, segments: once }];
}

function tokensOf(name: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < name.length; at++) {
    const char = name[at]!;
    const set = char === '[' ? setAt(name, at) : undefined;
    if (char === '*') {
      if (tokens.at(-1) !== MANY) tokens.push(MANY);
    } else if (char === '?') tokens.push(() => true);
    else if (set) {
      tokens.push(set.has);
      at = set.end;
    } else tokens.push(char === '\\' ? (name[++at] ?? '\\') : char);
  }
  return tokens;
}

/** A set in brackets; undefined where the bracket is not closed. */
function setAt(name: string, start: number): { has: (char: string) => boolean; end: number } | undefined {
  const isNegated = /[!^]/.test(name[start + 1] ?? '');
  const first = start + (isNegated ? 2 : 1);
  const end = name.indexOf(']', first + 1);
  if (end < 0) return undefined;
  const ranges: (readonly [string, string])[] = [];
  for (let at = first; at < end; at++) {
    const isRange = name[at + 1] === '-' && at + 2 < end;
    ranges.push([name[at]!, name[isRange ? at + 2 : at]!]);
    if (isRange) at += 2;
  }
  const has = (char: string) => ranges.some(([from, to]) => from <= char && char <= to) !== isNegated;
  return { has, end };
}

function nameMatches(segment: Exclude<Segment, typeof MANY>, name: string): boolean {
  return matches(segment, [...name], (token, char) => (typeof token === 'string' ? token === char : token(char)));
}

/** Goes back to the last `MANY` only: an earlier one cannot do better. */
function matches<P, T>(
  pattern: readonly (P | typeof MANY)[],
  text: readonly T[],
  same: (pattern: P, one: T) => boolean,
): boolean {
  let [at, next, many, from] = [0, 0, -1, 0];
  while (at < text.length) {
    const element = pattern[next];
    if (element === MANY) {
      many = next++;
      from = at;
    } else if (next < pattern.length && same(element as P, text[at]!)) {
      next++;
      at++;
    } else if (many >= 0) {
      next = many + 1;
      at = ++from;
    } else return false;
  }
  while (pattern[next] === MANY) next++;
  return next === pattern.length;
}
