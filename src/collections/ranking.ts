/**
 * Words and their ranking (BM25). Deterministic and without a model: the same entries and the same query give the same
 * order on every node.
 */

/** A text as the ranking sees it: how often it has each word, and how many it has. */
export interface Bag {
  readonly words: ReadonlyMap<string, number>;
  readonly length: number;
}

export interface Ranked<T> {
  readonly item: T;
  readonly score: number;
}

/** The usual constants: how soon repeated words stop counting, and how much long texts lose. */
const SATURATION = 1.2;
const LENGTH_WEIGHT = 0.75;
/** Distinct words of a query that count; the prompt of a task may be long. */
const MAX_QUERY_WORDS = 256;

const WORD = /[\p{L}\p{N}]+/gu;
/** Scripts without spaces: each character counts as a word. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;
const HUMP = /(?<=\p{Ll}|\p{N})(?=\p{Lu})/u;

/** English words that tell nothing. */
const COMMON: ReadonlySet<string> = new Set(
  'a an and are as at be by do for from has have how i if in into is it its may must not of on or our should so than that the their then there these they this to use was we what when which who will with you your'.split(
    ' ',
  ),
);

export function bagOf(text: string): Bag {
  const words = new Map<string, number>();
  let length = 0;
  for (const word of wordsOf(text)) {
    words.set(word, (words.get(word) ?? 0) + 1);
    length++;
  }
  return { words, length };
}

/** The items that share a word with the query, best first; equal ones stay in their order. */
export function rank<T extends { readonly bag: Bag }>(items: readonly T[], query: string): Ranked<T>[] {
  const wanted = [...bagOf(query).words.keys()].slice(0, MAX_QUERY_WORDS);
  const average = items.reduce((sum, { bag }) => sum + bag.length, 0) / Math.max(1, items.length) || 1;
  const weights = wanted.map((word) => {
    let having = 0;
    for (const { bag } of items) if (bag.words.has(word)) having++;
    return Math.log(1 + (items.length - having + 0.5) / (having + 0.5));
  });
  const found: Ranked<T>[] = [];
  for (const item of items) {
    const { words, length } = item.bag;
    let score = 0;
    for (const [index, word] of wanted.entries()) {
      const count = words.get(word);
      if (count === undefined) continue;
      const norm = SATURATION * (1 - LENGTH_WEIGHT + (LENGTH_WEIGHT * length) / average);
      score += (weights[index]! * count * (SATURATION + 1)) / (count + norm);
    }
    if (score > 0) found.push({ item, score });
  }
  return found.sort((a, b) => b.score - a.score);
}

function* wordsOf(text: string): Generator<string> {
  for (const [run] of text.normalize('NFKC').matchAll(WORD)) {
    if (UNSPACED.test(run)) {
      for (const char of run) yield char;
      continue;
    }
    const whole = stem(run.toLowerCase());
    if (!COMMON.has(whole)) yield whole;
    // Names in code are found by their parts too.
    const parts = run.split(HUMP);
    if (parts.length > 1) for (const part of parts) yield stem(part.toLowerCase());
  }
}

/** One form for the inflections of an English word: deploy, deploys, deployed, deploying. */
function stem(word: string): string {
  if (word.length < 5) return word.length === 4 && /[^su]s$/.test(word) ? word.slice(0, 3) : word;
  const base = word
    .replace(/ies$/, 'y')
    .replace(/(ss|x|ch|sh)es$/, '$1')
    .replace(/([^su])s$/, '$1');
  const cut = base.replace(/(?:ing|ed)$/, '');
  const kept = cut.length >= 3 && /[aeiouy]/.test(cut) ? cut : base;
  // `committing`, `committed` and `commit` end alike; so do `cache` and `caching`.
  return kept.replace(/([b-df-hj-kmnp-rtv-y])\1$/, '$1').replace(/e$/, '');
}
