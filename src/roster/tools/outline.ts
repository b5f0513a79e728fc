import { codeOf, languageOf } from './code-text.js';
import { evidenceOf, type Finding, isSample } from './finding.js';
import type { SourceFile } from './workspace-files.js';

export interface CodeSymbol {
  readonly kind: 'function' | 'class' | 'type' | 'constant' | 'module';
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly exported: boolean;
}

interface Pattern {
  readonly kind: CodeSymbol['kind'];
  /** The last group is the name; a group before it says that the symbol is exported. Runs on lines without comments. */
  readonly pattern: RegExp;
  readonly isExported?: (name: string, line: string) => boolean;
}

const isUpper = (name: string) => /^[A-Z]/.test(name);
const isPublic = (_: string, line: string) => /\b(public|pub|export|open)\b/.test(line);
const isPlain = (name: string) => !name.startsWith('_');

const PATTERNS: Readonly<Record<string, readonly Pattern[]>> = {
  js: [
    {
      kind: 'function',
      pattern: /^\s{0,2}(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*([\w$]+)/,
      isExported: isPublic,
    },
    {
      kind: 'class',
      pattern: /^\s{0,2}(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?class\s+([\w$]+)/,
      isExported: isPublic,
    },
    {
      kind: 'type',
      pattern: /^\s{0,2}(?:export\s+)?(?:declare\s+)?(?:interface|type|(?:const\s+)?enum)\s+([\w$]+)/,
      isExported: isPublic,
    },
    { kind: 'constant', pattern: /^(?:export\s+)(?:declare\s+)?(?:const|let|var)\s+([\w$]+)/, isExported: isPublic },
    {
      kind: 'function',
      pattern: /^(?:const|let|var)\s+([\w$]+)\s*=\s*(?:async\s*)?(?:function\b|\([^)]{0,300}\)\s*=>|[\w$]+\s*=>)/,
    },
    { kind: 'function', pattern: /^(?:module\.)?exports\.([\w$]+)\s*=/, isExported: () => true },
  ],
  py: [
    { kind: 'function', pattern: /^(?: {4})?(?:async\s+)?def\s+(\w+)/, isExported: isPlain },
    { kind: 'class', pattern: /^class\s+(\w+)/, isExported: isPlain },
  ],
  go: [
    { kind: 'function', pattern: /^func\s+(?:\([^)]{0,200}\)\s*)?(\w+)/, isExported: isUpper },
    { kind: 'type', pattern: /^type\s+(\w+)/, isExported: isUpper },
  ],
  rust: [
    {
      kind: 'function',
      pattern: /^\s*(?:pub(?:\([^)]{0,40}\))?\s+)?(?:const\s+)?(?:async\s+)?(?:unsafe\s+)?fn\s+(\w+)/,
      isExported: isPublic,
    },
    {
      kind: 'type',
      pattern: /^\s*(?:pub(?:\([^)]{0,40}\))?\s+)?(?:struct|enum|trait|type|union)\s+(\w+)/,
      isExported: isPublic,
    },
    { kind: 'module', pattern: /^\s*(?:pub\s+)?mod\s+(\w+)/, isExported: isPublic },
  ],
  java: [
    { kind: 'class', pattern: /^\s*(?:[a-z]+\s+){0,4}(?:class|interface|enum|record)\s+(\w+)/, isExported: isPublic },
  ],
  csharp: [
    {
      kind: 'class',
      pattern: /^\s*(?:[a-z]+\s+){0,4}(?:class|interface|enum|record|struct)\s+(\w+)/,
      isExported: isPublic,
    },
  ],
  kotlin: [
    { kind: 'class', pattern: /^\s*(?:[a-z]+\s+){0,4}(?:class|interface|object)\s+(\w+)/, isExported: () => true },
    {
      kind: 'function',
      pattern: /^\s*(?:[a-z]+\s+){0,4}fun\s+(?:<[^>]{0,80}>\s*)?(?:[\w.]+\.)?(\w+)/,
      isExported: () => true,
    },
  ],
  swift: [
    {
      kind: 'class',
      pattern: /^\s*(?:[a-z]+\s+){0,4}(?:class|struct|enum|protocol|actor|extension)\s+(\w+)/,
      isExported: isPublic,
    },
    { kind: 'function', pattern: /^\s*(?:[a-z]+\s+){0,4}func\s+(\w+)/, isExported: isPublic },
  ],
  ruby: [
    { kind: 'class', pattern: /^\s*class\s+([\w:]+)/, isExported: () => true },
    { kind: 'module', pattern: /^\s*module\s+([\w:]+)/, isExported: () => true },
    { kind: 'function', pattern: /^\s*def\s+([\w.?!=]+)/, isExported: () => true },
  ],
  php: [
    {
      kind: 'class',
      pattern: /^\s*(?:abstract\s+|final\s+)?(?:class|interface|trait|enum)\s+(\w+)/,
      isExported: () => true,
    },
    { kind: 'function', pattern: /^\s*(?:[a-z]+\s+){0,3}function\s+(\w+)/, isExported: () => true },
  ],
  c: [
    { kind: 'type', pattern: /^(?:typedef\s+)?(?:struct|enum|union|class)\s+(\w+)\s*\{?\s*$/ },
    { kind: 'function', pattern: /^[A-Za-z_][\w\s*]{0,100}?\b(\w+)\s*\([^;]{0,300}$/ },
  ],
  shell: [{ kind: 'function', pattern: /^(?:function\s+)?(\w[\w-]*)\s*\(\)/ }],
};

const MAX_LINE_CHARS = 1_000;

/** URANUS: what a file of code declares. It reads lines and no grammar, so nested declarations are left out. */
export function outlineOf({ path, text }: SourceFile): CodeSymbol[] {
  const language = languageOf(path);
  const patterns = language === undefined ? undefined : PATTERNS[language];
  if (!patterns) return [];
  return codeOf(text, language!)
    .split('\n')
    .flatMap((line, at) => {
      if (line.length > MAX_LINE_CHARS) return [];
      for (const { kind, pattern, isExported } of patterns) {
        const name = pattern.exec(line)?.[1];
        if (name === undefined || /^(if|for|while|switch|return|else)$/.test(name)) continue;
        return [{ kind, name, file: path, line: at + 1, exported: isExported?.(name, line) ?? false }];
      }
      return [];
    });
}

export interface Hit {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

export interface SearchQuery {
  readonly pattern: string;
  /** Is the pattern a regular expression? */
  readonly regex?: boolean;
  readonly ignoreCase?: boolean;
  /** Paths that contain this text. */
  readonly path?: string;
  readonly limit: number;
}

/** URANUS: lines that contain a text. A regular expression may take for ever: the process that runs it is ended in time. */
export function searchFiles(files: readonly SourceFile[], query: SearchQuery): { hits: Hit[]; more: boolean } {
  const { pattern, regex, ignoreCase, path, limit } = query;
  const source = regex ? pattern : pattern.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const expression = new RegExp(source, ignoreCase ? 'iu' : 'u');
  const hits: Hit[] = [];
  for (const { path: file, text } of files) {
    if (path !== undefined && !file.includes(path)) continue;
    for (const [at, line] of text.split('\n').entries()) {
      if (!expression.test(line)) continue;
      if (hits.length >= limit) return { hits, more: true };
      hits.push({ file, line: at + 1, text: evidenceOf(line) });
    }
  }
  return { hits, more: false };
}

/** What authors leave behind by mistake. */
export function findLeftovers(files: readonly SourceFile[]): Finding[] {
  return files.flatMap((file) => {
    if (isSample(file.path)) return [];
    return [...conflictMarkers(file), ...debuggerStatements(file)];
  });
}

/** All three marks in their order: a line of equals signs alone underlines headings. */
function conflictMarkers({ path, text }: SourceFile): Finding[] {
  if (!text.includes('<<<<<<< ')) return [];
  const found: Finding[] = [];
  let state: 'none' | 'ours' | 'theirs' = 'none';
  let begin = 0;
  const lines = text.split('\n');
  for (const [at, line] of lines.entries()) {
    if (line.startsWith('<<<<<<< ')) [state, begin] = ['ours', at];
    else if (state === 'ours' && /^=======\r?$/.test(line)) state = 'theirs';
    else if (state === 'theirs' && line.startsWith('>>>>>>> ')) {
      const message = `a merge conflict that was not resolved, up to line ${at + 1}`;
      const evidence = evidenceOf(lines[begin]!);
      found.push({
        agent: 'uranus',
        rule: 'leftover/conflict',
        severity: 'high',
        file: path,
        line: begin + 1,
        message,
        evidence,
      });
      state = 'none';
    }
  }
  return found.slice(0, 20);
}

function debuggerStatements({ path, text }: SourceFile): Finding[] {
  if (languageOf(path) !== 'js' || !text.includes('debugger')) return [];
  const lines = text.split('\n');
  return codeOf(text, 'js')
    .split('\n')
    .flatMap((line, at): Finding[] => {
      // A linter was told that it is meant.
      if (/no-debugger|noDebugger/.test(`${lines[at - 1]} ${lines[at]}`.slice(0, MAX_LINE_CHARS))) return [];
      if (line.length > MAX_LINE_CHARS || !/^\s{0,200}debugger\s{0,8};?\s{0,200}$/.test(line)) return [];
      const message = 'a debugger statement stops the program where a debugger is attached';
      return [
        {
          agent: 'uranus',
          rule: 'leftover/debugger',
          severity: 'low',
          file: path,
          line: at + 1,
          message,
          evidence: evidenceOf(lines[at]!),
        },
      ];
    })
    .slice(0, 20);
}
