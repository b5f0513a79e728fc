/** A simple command as its words without quotes, or a list of commands that runs in a shell of its own. */
export type ShellCommand =
  | {
      readonly words: readonly string[];
      /** What separates it from the next one: `&&`, `||`, `|`, `&`, or nothing for all others. */
      readonly then: string;
    }
  | { readonly inner: readonly ShellCommand[] };

/** Stands in a word for what a substitution will print. */
export const UNKNOWN = '$';
const MAX_DEPTH = 50;
/** The beginning of a text that follows on later lines, up to a line with this word. */
const HERE_DOCUMENT = /<<-?[ \t]*(\\?)(['"]?)([\w.-]+)\2/y;
const REDIRECTION = /&?[<>]+[&|]?/y;
const SEPARATOR = /&&|\|\||\|&?|&|[;\n]/y;

/** The commands of a shell text. A substitution comes before the command in whose words it is. */
export function shellCommands(text: string): readonly ShellCommand[] {
  return new ShellReader(text).read('', 0);
}

class ShellReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Up to this closing character, or the end of the text. */
  read(close: string, depth: number, isArithmetic = false): ShellCommand[] {
    const text = this.#text;
    const commands: ShellCommand[] = [];
    let words: string[] = [];
    let word: string | undefined;
    let isTarget = false;
    const documents: { readonly word: string; readonly isQuoted: boolean }[] = [];
    const endWord = () => {
      if (word !== undefined && !isTarget) words.push(word);
      if (word !== undefined) isTarget = false;
      word = undefined;
    };
    const endCommand = (then = '') => {
      endWord();
      if (words.length > 0) commands.push({ words, then });
      words = [];
      isTarget = false;
    };
    const inner = (until: string, arithmetic = false) => {
      if (depth < MAX_DEPTH) commands.push({ inner: this.read(until, depth + 1, arithmetic) });
    };
    while (this.#at < text.length) {
      const char = text[this.#at]!;
      const next = text[this.#at + 1];
      if (char === close) {
        this.#at++;
        break;
      }
      if (char === "'" || (char === '$' && next === "'")) {
        word = (word ?? '') + this.#quoted(char === '$');
      } else if (char === '"') {
        this.#at++;
        word = (word ?? '') + this.#doubleQuoted('"', inner);
      } else if (char === '\\') {
        if (next !== '\n') word = (word ?? '') + (next ?? '');
        this.#at += 2;
      } else if (char === '#' && word === undefined && !isArithmetic) {
        const end = text.indexOf('\n', this.#at);
        this.#at = end < 0 ? text.length : end;
      } else if (char === '`' || (char === '$' && next === '(')) {
        word = (word ?? '') + this.#substitution(inner);
      } else if (char === '<' && next === '<' && !isArithmetic && this.#hereDocument(documents)) {
        endWord();
      } else if (this.#matches(REDIRECTION) && !isArithmetic) {
        // The number before it is one of a file.
        if (word !== undefined && /^\d+$/.test(word)) word = undefined;
        endWord();
        this.#at = REDIRECTION.lastIndex;
        if (text[this.#at] !== '(') isTarget = true;
      } else if (char === '(') {
        endCommand();
        this.#at++;
        inner(')', isArithmetic || next === '(');
      } else if (char === ')') {
        endCommand();
        this.#at++;
      } else if (this.#matches(SEPARATOR)) {
        endCommand(text.slice(this.#at, SEPARATOR.lastIndex).trim());
        this.#at = SEPARATOR.lastIndex;
        if (char === '\n') for (const document of documents.splice(0)) this.#skipDocument(document, inner);
      } else if (/\s/.test(char)) {
        endWord();
        this.#at++;
      } else {
        word = (word ?? '') + char;
        this.#at++;
      }
    }
    endCommand();
    return commands;
  }

  #matches(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    return pattern.test(this.#text);
  }

  /** The text in single quotes; with `$` before them, a backslash escapes a quote. */
  #quoted(escapes: boolean): string {
    const pattern = escapes ? /\$'([^'\\]*(?:\\[\s\S][^'\\]*)*)/y : /'([^']*)/y;
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)!;
    this.#at = pattern.lastIndex + 1;
    return found[1]!;
  }

  #substitution(inner: (until: string, arithmetic?: boolean) => void): string {
    if (this.#text[this.#at] === '`') {
      this.#at++;
      inner('`');
    } else {
      this.#at += 2;
      inner(')', this.#text[this.#at] === '(');
    }
    return UNKNOWN;
  }

  /** Text in which only substitutions and backslashes have a meaning. */
  #doubleQuoted(close: string, inner: (until: string, arithmetic?: boolean) => void, end = this.#text.length): string {
    let said = '';
    while (this.#at < end) {
      const char = this.#text[this.#at]!;
      const next = this.#text[this.#at + 1] ?? '';
      if (char === close) {
        this.#at++;
        break;
      }
      if (char === '\\' && /["\\$`\n]/.test(next)) {
        if (next !== '\n') said += next;
        this.#at += 2;
      } else if (char === '`' || (char === '$' && next === '(')) said += this.#substitution(inner);
      else {
        said += char;
        this.#at++;
      }
    }
    return said;
  }

  #hereDocument(documents: { readonly word: string; readonly isQuoted: boolean }[]): boolean {
    if (this.#text[this.#at + 2] === '<') return false;
    HERE_DOCUMENT.lastIndex = this.#at;
    const found = HERE_DOCUMENT.exec(this.#text);
    if (!found) return false;
    documents.push({ word: found[3]!, isQuoted: found[1] !== '' || found[2] !== '' });
    this.#at = HERE_DOCUMENT.lastIndex;
    return true;
  }

  /** Goes on after the document that begins here. Substitutions in it run unless its word is quoted. */
  #skipDocument({ word, isQuoted }: { word: string; isQuoted: boolean }, inner: (until: string) => void): void {
    const text = this.#text;
    let from = this.#at;
    let end = text.length;
    while (from < text.length) {
      const lineEnd = text.indexOf('\n', from);
      const line = text.slice(from, lineEnd < 0 ? undefined : lineEnd);
      end = from;
      from = lineEnd < 0 ? text.length : lineEnd + 1;
      if (line.trim() === word) break;
      end = text.length;
    }
    if (!isQuoted) this.#doubleQuoted('', inner, end);
    this.#at = Math.max(this.#at, from);
  }
}
