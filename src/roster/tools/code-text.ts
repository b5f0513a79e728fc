/** How a language writes comments and texts. */
interface Syntax {
  readonly line: readonly string[];
  readonly block: readonly (readonly [string, string])[];
  readonly quotes: readonly string[];
  /** Quotes whose text may span lines. */
  readonly long: readonly string[];
}

const C: Syntax = { line: ['//'], block: [['/*', '*/']], quotes: ['"', "'"], long: [] };
const JAVASCRIPT: Syntax = { ...C, long: ['`'] };
const PYTHON: Syntax = { line: ['#'], block: [], quotes: ['"', "'"], long: ['"""', "'''"] };
const SHELL: Syntax = { line: ['#'], block: [], quotes: ['"', "'"], long: [] };
const SYNTAXES: Readonly<Record<string, Syntax>> = {
  js: JAVASCRIPT,
  py: PYTHON,
  go: { ...C, long: ['`'] },
  rust: { ...C, quotes: ['"'] },
  c: C,
  java: C,
  csharp: C,
  php: { ...C, line: ['//', '#'] },
  swift: { ...C, quotes: ['"'], long: ['"""'] },
  kotlin: { ...C, long: ['"""'] },
  ruby: SHELL,
  shell: SHELL,
};

const LANGUAGES: readonly (readonly [string, RegExp])[] = [
  ['js', /\.(?:[cm]?[jt]sx?|vue|svelte)$/],
  ['py', /\.pyi?$/],
  ['go', /\.go$/],
  ['rust', /\.rs$/],
  ['c', /\.(?:[ch]|cc|cpp|cxx|hh|hpp|hxx|m|mm)$/],
  ['java', /\.java$/],
  ['csharp', /\.cs$/],
  ['php', /\.php$/],
  ['swift', /\.swift$/],
  ['kotlin', /\.kts?$/],
  ['ruby', /\.(?:rb|rake)$|(?:^|\/)(?:Rakefile|Gemfile)$/],
  ['shell', /\.(?:sh|bash|zsh)$/],
];

/** The language of a file of code, by its name. */
export function languageOf(path: string): string | undefined {
  return LANGUAGES.find(([, pattern]) => pattern.test(path))?.[0];
}

/**
 * The text with comments and, unless `keepTexts`, the inside of texts as spaces; every line keeps its number and length.
 * It reads each character once.
 */
export function codeOf(text: string, language: string, keepTexts = false): string {
  const syntax = SYNTAXES[language];
  if (!syntax) return text;
  const out: string[] = [];
  let from = 0;
  let at = 0;
  const blank = (end: number): void => {
    out.push(
      text.slice(from, at),
      text.slice(at, end).replace(/[^\n]+/g, (part) => ' '.repeat(part.length)),
    );
    at = end;
    from = end;
  };
  const starts = new Set(
    [...syntax.line, ...syntax.block.map(([begin]) => begin), ...syntax.quotes, ...syntax.long].map((one) => one[0]!),
  );
  while (at < text.length) {
    if (!starts.has(text[at]!)) {
      at++;
      continue;
    }
    const line = syntax.line.find((mark) => text.startsWith(mark, at));
    const block = syntax.block.find(([begin]) => text.startsWith(begin, at));
    const long = syntax.long.find((mark) => text.startsWith(mark, at));
    const quote = long ?? syntax.quotes.find((mark) => text.startsWith(mark, at));
    const pattern = language === 'js' && text[at] === '/' && !block && line === undefined ? endOfPattern(text, at) : 0;
    if (pattern > 0) blank(pattern);
    else if (block) blank(endOf(text.indexOf(block[1], at + block[0].length), block[1].length, text));
    else if (line !== undefined) blank(endOf(text.indexOf('\n', at), 0, text));
    else if (quote !== undefined) {
      const isTemplate = quote === '`' && language === 'js';
      const end = isTemplate ? endOfTemplate(text, at) : endOfQuoted(text, at, quote, long !== undefined);
      if (keepTexts) at = end;
      else {
        at += quote.length;
        blank(Math.max(at, end - quote.length));
        at = end;
      }
    } else at++;
  }
  out.push(text.slice(from));
  return out.join('');
}

function endOf(found: number, length: number, text: string): number {
  return found < 0 ? text.length : found + length;
}

/** Words after which a slash begins a regular expression. */
const BEFORE_PATTERN = /(?:^|[^\w$.])(?:return|typeof|case|in|of|delete|void|throw|new|else|do|await|yield)$/;

/** Behind the regular expression of JavaScript that begins there; 0 where the slash divides. */
function endOfPattern(text: string, start: number): number {
  let before = start - 1;
  while (before >= 0 && (text[before] === ' ' || text[before] === '\t')) before--;
  const char = text[before] ?? '\n';
  const begins =
    /[(,=:[!&|?{};+*%~^<>\n-]/.test(char) || BEFORE_PATTERN.test(text.slice(Math.max(0, before - 11), before + 1));
  if (!begins) return 0;
  let inClass = false;
  for (let at = start + 1; at < text.length && text[at] !== '\n'; at++) {
    const one = text[at];
    if (one === '\\') at++;
    else if (one === '[') inClass = true;
    else if (one === ']') inClass = false;
    else if (one === '/' && !inClass) return at + 1;
  }
  return 0;
}

/** Deeper templates within templates are not followed. */
const MAX_TEMPLATES = 16;

/** Behind the closing back-quote of a template of JavaScript; code within `${…}` may hold texts and templates. */
function endOfTemplate(text: string, start: number, level = 0): number {
  let at = start + 1;
  while (at < text.length) {
    if (text[at] === '\\') at += 2;
    else if (text[at] === '`') return at + 1;
    else if (text[at] === '$' && text[at + 1] === '{') at = endOfInsertion(text, at + 2, level);
    else at++;
  }
  return text.length;
}

function endOfInsertion(text: string, start: number, level: number): number {
  let depth = 1;
  let at = start;
  while (at < text.length && depth > 0) {
    const char = text[at]!;
    if (char === '{') depth++;
    else if (char === '}') depth--;
    if (char === '`' && level < MAX_TEMPLATES) at = endOfTemplate(text, at, level + 1);
    else if (char === '"' || char === "'") at = endOfQuoted(text, at, char, false);
    else at++;
  }
  return at;
}

/** Behind the closing quote; at the end of the line, if the text may not span lines. */
function endOfQuoted(text: string, start: number, quote: string, isLong: boolean): number {
  for (let at = start + quote.length; at < text.length; at++) {
    const char = text[at];
    if (char === '\\') at++;
    else if (char === '\n' && !isLong) return at;
    else if (text.startsWith(quote, at)) return at + quote.length;
  }
  return text.length;
}
