import { readFileSync, type Stats, statSync } from 'node:fs';
import { basename, isAbsolute, join, relative, resolve, sep } from 'node:path';
import type { Environment } from '../../system/process/environment.js';
import { VARIABLE } from '../config/providers.js';

/** Longer paths are none that a system would open. */
const MAX_PATH_CHARS = 1_000;
const MAX_NAME_BYTES = 255;
/** Files, their size, the folders that words may start from, and questions to the file system. */
const MAX_NAMED = 100;
const MAX_NAMED_BYTES = 16 * 1_048_576;
const MAX_FOLDERS = 50;
const MAX_LOOKS = 200_000;

/** What an interpreter adds to a name. */
const ENDINGS = ['.js', '.mjs', '.cjs', '.ts', '.mts', '.cts', '.json', '.py', '.sh', '.rb', '.pl'];
/** What an interpreter runs in a folder. */
const ENTRIES = ['package.json', 'index.js', 'index.mjs', 'index.cjs', 'index.json', 'index.ts', '__main__.py'];
/** What these programs read in their working folder. */
const READ_BY = new Map<string, readonly string[]>([
  ...['npm', 'npx', 'pnpm', 'yarn', 'bun'].map((name) => [name, ['package.json']] as const),
  ...['make', 'gmake'].map((name) => [name, ['Makefile', 'makefile', 'GNUmakefile']] as const),
]);

/** Undefined where there are too many. */
type NamedFiles = readonly string[] | undefined;

/**
 * Files of a project among the words of its settings: programs, scripts and prompts, relative to the project. A word may
 * start from the project or from any folder of it that the settings name, such as a working folder.
 */
export function filesNamed(project: string, texts: readonly string[], env: Environment): NamedFiles {
  const search = new Search(project);
  const words = new Set(texts.flatMap((text) => wordsOf(text, env)));
  return search.all([...words]) ? [...search.files].sort() : undefined;
}

/** A text as a whole, and what shells and options would make of it. */
function wordsOf(text: string, env: Environment): string[] {
  const filled = text.replace(VARIABLE, (_, name: string, otherwise = '') => env[name] || otherwise);
  return [text, filled].flatMap((said) => [
    said,
    ...said.split(/[\s'"=]+/),
    ...said.split(/[\s'"=;&|()<>{}[\]$`,:@!#?*]+/),
    ...said.replace(/['"\\]/g, '').split(/[\s=;&|()<>{}$`,:@]+/),
  ]);
}

class Search {
  readonly files = new Set<string>();
  readonly #project: string;
  readonly #folders = new Set<string>();
  #bytes = 0;
  #looks = 0;

  constructor(project: string) {
    this.#project = project;
    this.#folders.add('');
  }

  all(words: readonly string[]): boolean {
    // A set yields what is added while it is read: a folder can be named within one that was found.
    for (const folder of this.#folders) {
      for (const word of words) if (!this.#word(folder, word)) return false;
    }
    return true;
  }

  #word(folder: string, word: string): boolean {
    if (word === '' || word.includes('\0') || word.length > MAX_PATH_CHARS) return true;
    const module = /^[\w.]+$/.test(word) ? [`${word.replaceAll('.', '/')}.py`] : [];
    const read = READ_BY.get(basename(word)) ?? [];
    return [word, ...ENDINGS.map((ending) => word + ending), ...module, ...read].every((name) =>
      this.#look(folder, name, word),
    );
  }

  #look(folder: string, name: string, word: string): boolean {
    const path = relative(this.#project, resolve(this.#project, folder, name));
    if (path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path)) return true;
    if (this.files.has(path) || (this.#folders.has(path) && path !== '')) return true;
    if (++this.#looks > MAX_LOOKS) return false;
    const found = statOf(join(this.#project, path));
    if (found?.isDirectory() && name === word) return this.#folder(path);
    return !found?.isFile() || this.#file(path, found.size);
  }

  #file(path: string, size: number): boolean {
    this.#bytes += size;
    this.files.add(path);
    return this.#bytes <= MAX_NAMED_BYTES && this.files.size <= MAX_NAMED;
  }

  #folder(path: string): boolean {
    this.#folders.add(path);
    if (this.#folders.size > MAX_FOLDERS) return false;
    return [...ENTRIES, ...mainOf(join(this.#project, path))].every((entry) => this.#look(path, entry, ''));
  }
}

/** The file that `node FOLDER` runs. */
function mainOf(folder: string): string[] {
  try {
    const { main } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { main?: unknown };
    if (typeof main !== 'string' || main.length > MAX_PATH_CHARS) return [];
    return [main, ...ENDINGS.map((ending) => main + ending), ...ENTRIES.map((entry) => join(main, entry))];
  } catch {
    return [];
  }
}

/** A word of a prompt need not be a possible path. */
function statOf(path: string): Stats | undefined {
  if (path.split(sep).some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES)) return undefined;
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
