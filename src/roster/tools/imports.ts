import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { codeOf, languageOf } from './code-text.js';
import { shortestCycle, stronglyConnected } from './cycles.js';
import { evidenceOf, type Finding, isSample } from './finding.js';
import type { SourceFile } from './workspace-files.js';

/** One import of a file of the workspace. */
export interface Import {
  readonly from: string;
  readonly to: string;
  readonly line: number;
  /** In TypeScript: the names that the file gives to what it takes. */
  readonly locals?: readonly string[] | undefined;
}

export interface ImportGraph {
  readonly modules: readonly string[];
  readonly imports: readonly Import[];
}

/** An import as it is written, before it is resolved. */
interface Written {
  readonly specifier: string;
  readonly at: number;
  /** The names that it takes, where they are written. */
  readonly names?: readonly string[] | undefined;
  readonly locals?: readonly string[] | undefined;
  readonly isLazy?: boolean;
}

const MAX_CYCLES = 100;
const MAX_MISSING = 100;
const JS_ENDINGS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json', '.vue', '.svelte', '.d.ts'];
/** Minified code is generated, and its imports are those of its sources. */
const MAX_LINE_CHARS = 5_000;

/** JUPITER: which file imports which, and what is wrong with it: cycles, and files that do not exist. */
export function reviewImports(
  root: string,
  files: readonly SourceFile[],
  isIgnored: (path: string) => boolean,
): { graph: ImportGraph; findings: Finding[] } {
  const modules = new Map(files.filter(isModule).map((file) => [file.path, file]));
  const imports: Import[] = [];
  const findings: Finding[] = [];
  for (const file of modules.values()) {
    const { path, text } = file;
    const language = languageOf(path)!;
    for (const written of importsIn(text, language)) {
      const target = resolve(path, written.specifier, language, modules);
      const line = lineAt(text, written.at);
      if (target === undefined) {
        const missing = language === 'js' && findings.length < MAX_MISSING && isMissing(root, file, written, isIgnored);
        if (missing) findings.push(missingImport(file, written, line));
      } else if (target !== path && !written.isLazy && !isOfTypes(written, modules.get(target)!)) {
        imports.push({ from: path, to: target, line, locals: /\.[cm]?tsx?$/.test(path) ? written.locals : undefined });
      }
    }
  }
  const graph = { modules: [...modules.keys()], imports };
  return { graph, findings: [...findings, ...cyclesIn(graph, modules)] };
}

function isModule({ path, text }: SourceFile): boolean {
  const language = languageOf(path);
  if (language !== 'js' && language !== 'py' && language !== 'ruby') return false;
  return !/\.d\.[cm]?ts$/.test(path) && !text.split('\n', 50).some((line) => line.length > MAX_LINE_CHARS);
}

function importsIn(text: string, language: string): Written[] {
  const code = codeOf(text, language);
  if (language === 'py') return pythonImports(code);
  const written = language === 'ruby' ? rubyImports(text, code) : javascriptImports(text, code);
  return written;
}

/** The inside of texts is blank in `code`, so that a keyword within a text is none; the specifier is read from the text. */
function javascriptImports(text: string, code: string): Written[] {
  const found: Written[] = [];
  for (const match of code.matchAll(
    /(?<![\w$.])(import|export)\b(\s*type\b(?!\s*(?:,|from\b)))?([^'"`;()=]{0,4000}?)(["'])/g,
  )) {
    const [whole, keyword, isType, clause] = match;
    const isBare = keyword === 'import' && clause!.trim() === '';
    if (isType || !(isBare || /(?:^|[\s}*])from\s*$/.test(clause!))) continue;
    const specifier = quotedAt(text, match.index + whole.length - 1);
    const names = namesIn(clause!);
    if (names?.length === 0 && !isBare) continue;
    const locals = keyword === 'import' ? localsIn(clause!) : undefined;
    if (specifier !== undefined) found.push({ specifier, at: match.index, names, locals });
  }
  let depth = 0;
  let counted = 0;
  for (const match of code.matchAll(/(?<![\w$.])(require|import)\s{0,8}\(\s{0,8}(["'])/g)) {
    for (; counted < match.index; counted++) {
      if (code[counted] === '{') depth++;
      else if (code[counted] === '}') depth--;
    }
    const specifier = quotedAt(text, match.index + match[0].length - 1);
    const isLazy = match[1] === 'import' || depth > 0;
    if (specifier !== undefined) found.push({ specifier, at: match.index, isLazy });
  }
  return found;
}

/** The names in braces; none of them if all are types. Undefined where the clause takes more than names. */
function namesIn(clause: string): string[] | undefined {
  const braces = /^\s*\{([^}]*)\}\s*from\s*$/.exec(clause)?.[1];
  if (braces === undefined) return undefined;
  const names = braces.split(',').map((name) => name.trim());
  return names.flatMap((name) => (name === '' || name.startsWith('type ') ? [] : [name.split(/\s/)[0]!]));
}

/** The names that an import gives to what it takes; undefined where it takes nothing by name. */
function localsIn(clause: string): string[] | undefined {
  const names = clause
    .replace(/\bfrom\s*$/, '')
    .split(/[{},]/)
    .map((part) => part.trim().split(/\s/).at(-1)!)
    .filter((name) => /^[\w$]+$/.test(name));
  return names.length > 0 ? names : undefined;
}

/** Does TypeScript drop the import, because the file uses its names as types only? Compilers keep what they cannot tell. */
function isOnlyTyped(code: string, locals: readonly string[]): boolean {
  return locals.every((name) => {
    const uses = code.matchAll(new RegExp(`(?<![\\w$.])${name.replaceAll('$', '\\$')}(?![\\w$])`, 'g'));
    return [...uses].every(({ index }) => isTypeUse(code.slice(Math.max(0, index - 200), index)));
  });
}

function isTypeUse(before: string): boolean {
  const line = before.slice(before.lastIndexOf('\n') + 1);
  if (/^\s*(import\b|export\s+(declare\s+)?(type|interface)\b|type\b|interface\b)/.test(line)) return true;
  if (/\bextends\s+$/.test(before)) return !/\bclass\b/.test(line);
  return (
    /(?:[:<|&]|\b(?:as|typeof|keyof|implements|is|satisfies|type))\s*$/.test(before) || /[<:][^()=;{}]*,\s*$/.test(line)
  );
}

function quotedAt(text: string, start: number): string | undefined {
  const end = text.indexOf(text[start]!, start + 1);
  const specifier = text.slice(start + 1, end);
  return end < 0 || specifier.length > 500 || /[\s$`]/.test(specifier) ? undefined : specifier;
}

/** Statements at the beginning of a line: others run later, or only for a type checker. */
function pythonImports(code: string): Written[] {
  const found: Written[] = [];
  for (const match of code.matchAll(
    /^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]{0,4000}\)|[^\n(]{1,1000})|import[ \t]+([^\n]{1,1000}))/gm,
  )) {
    const [, module, names, modules] = match;
    if (module !== undefined) {
      const taken = names!
        .replace(/[()\\\n]/g, ' ')
        .split(',')
        .map((name) => name.trim().split(/\s/)[0]!);
      for (const name of taken.filter((one) => /^\w+$/.test(one))) {
        found.push({ specifier: `${module}${module.endsWith('.') ? '' : '.'}${name}`, at: match.index, names: [name] });
      }
    } else {
      for (const one of modules!.split(',')) found.push({ specifier: one.trim().split(/\s/)[0]!, at: match.index });
    }
  }
  return found;
}

function rubyImports(text: string, code: string): Written[] {
  return [...code.matchAll(/^require_relative[ \t(]{1,8}(["'])/gm)].flatMap((match) => {
    const specifier = quotedAt(text, match.index + match[0].length - 1);
    return specifier === undefined ? [] : [{ specifier, at: match.index }];
  });
}

function resolve(
  from: string,
  specifier: string,
  language: string,
  modules: ReadonlyMap<string, SourceFile>,
): string | undefined {
  if (language === 'py') return pythonModule(from, specifier, modules);
  if (language === 'js' && !isRelative(specifier)) return undefined;
  const path = posix.normalize(posix.join(posix.dirname(from), specifier.replace(/[?#].*$/, '')));
  if (language === 'ruby') return [path, `${path}.rb`].find((one) => modules.has(one));
  return jsCandidates(path).find((one) => modules.has(one));
}

function isRelative(specifier: string): boolean {
  return /^\.{1,2}(\/|$)/.test(specifier);
}

/** A file by its name, its name without ending, or as the index of a folder; `.js` may stand for a file of TypeScript. */
function jsCandidates(path: string): string[] {
  const bare = path.replace(/\/$/, '');
  const stem = bare.replace(/\.([cm]?)jsx?$/, '');
  const typed =
    stem === bare ? [] : ['.ts', '.tsx', '.mts', '.cts', '.d.ts', '.d.mts', '.d.cts'].map((end) => stem + end);
  const index = JS_ENDINGS.map((end) => posix.join(bare, `index${end}`));
  return [bare, ...typed, ...JS_ENDINGS.map((end) => bare + end), ...index];
}

function pythonModule(from: string, specifier: string, modules: ReadonlyMap<string, SourceFile>): string | undefined {
  const dots = /^\.*/.exec(specifier)![0].length;
  const parts = specifier.slice(dots).split('.').filter(Boolean);
  const folder = posix.dirname(from);
  const up = posix.normalize(posix.join(folder, '../'.repeat(Math.max(0, dots - 1))));
  // A script finds the modules beside it first.
  const beside = modules.has(posix.join(folder, '__init__.py')) ? [] : [folder];
  const roots = dots > 0 ? [up] : [...beside, '', 'src'];
  for (const root of roots) {
    // The last part may be a name within the module.
    for (const length of [parts.length, parts.length - 1]) {
      if (length < 0 || (length === 0 && dots === 0)) continue;
      const path = posix.normalize(posix.join(root, ...parts.slice(0, length)));
      const found = [`${path}.py`, posix.join(path, '__init__.py')].find((one) => modules.has(one));
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** Does the import take only types, which are gone at run time? */
function isOfTypes({ names }: Written, { path, text }: SourceFile): boolean {
  if (!names || names.length === 0 || !/\.[cm]?tsx?$/.test(path)) return false;
  return names.every((name) => {
    const escaped = name.replaceAll('$', '\\$');
    return new RegExp(`^\\s{0,8}export (?:declare )?(?:interface|type) ${escaped}\\b`, 'm').test(text);
  });
}

/** Tests mock files that do not exist, and builds make files that are ignored. */
function isMissing(
  root: string,
  { path }: SourceFile,
  { specifier, isLazy }: Written,
  isIgnored: (path: string) => boolean,
): boolean {
  // Compiled code may stand in another folder than its source.
  if (/\.tsx?$/.test(path) && specifier.endsWith('.json')) return false;
  if (isLazy || !isRelative(specifier) || isSample(path) || /[+$*!|]/.test(specifier)) return false;
  const target = posix.normalize(posix.join(posix.dirname(path), specifier.replace(/[?#].*$/, '')));
  if (target === '..' || target.startsWith('../')) return false;
  const candidates = jsCandidates(target);
  return !candidates.some((one) => isIgnored(one) || existsSync(join(root, one)));
}

function missingImport({ path, text }: SourceFile, { specifier }: Written, line: number): Finding {
  const message = `it imports ${specifier}, which does not exist`;
  const evidence = evidenceOf(text.split('\n', line)[line - 1]!);
  return { agent: 'jupiter', rule: 'import/missing', severity: 'high', file: path, line, message, evidence };
}

/** One finding for each group of files that import each other, with the shortest way round. */
function cyclesIn({ modules, imports }: ImportGraph, files: ReadonlyMap<string, SourceFile>): Finding[] {
  const written = targetsOf(modules, imports);
  const inCycles = new Set(stronglyConnected(written.targets).flat());
  const real = imports.filter(({ from, to, locals }) => {
    if (!inCycles.has(from) || !inCycles.has(to)) return false;
    return !(locals && isOnlyTyped(withoutImports(files.get(from)!.text), locals));
  });
  const { targets, lines } = targetsOf(modules, real);
  const groups = stronglyConnected(targets).filter((group) => !group.every(isSample));
  return groups.slice(0, MAX_CYCLES).map((group) => {
    const cycle = shortestCycle(targets, group);
    const [file, next] = [cycle[0]!, cycle[1]!];
    const line = lines.get(`${file}\0${next}`)!;
    const size = group.length > cycle.length - 1 ? `; ${group.length} files import each other in all` : '';
    const shown = cycle.length > 8 ? [...cycle.slice(0, 7), '…', file] : cycle;
    const message = `import cycle: ${shown.join(' → ')}${size}`;
    const evidence = evidenceOf(files.get(file)!.text.split('\n', line)[line - 1]!);
    return { agent: 'jupiter', rule: 'import/cycle', severity: 'medium', file, line, message, evidence };
  });
}

function targetsOf(modules: readonly string[], imports: readonly Import[]) {
  const targets = new Map<string, string[]>(modules.map((path) => [path, []]));
  const lines = new Map<string, number>();
  for (const { from, to, line } of imports) {
    const key = `${from}\0${to}`;
    if (lines.has(key)) continue;
    lines.set(key, line);
    targets.get(from)!.push(to);
  }
  return { targets, lines };
}

/** The code of a file of TypeScript behind its imports, whose names are no uses. */
function withoutImports(text: string): string {
  const blank = (part: string) => part.replace(/[^\n]/g, ' ');
  return codeOf(text, 'js').replace(/(?<![\w$.])import\b[^'"`;()]{0,4000}?\bfrom\s*["'][^"'\n]*["']/g, blank);
}

function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at >= 0 && at < offset; at = text.indexOf('\n', at + 1)) line++;
  return line;
}
