import { posix } from 'node:path';
import { findNodeAtLocation, type Node, type ParseError, parseTree, printParseErrorCode, visit } from 'jsonc-parser';
import { type Document, isAlias, LineCounter, parseAllDocuments } from 'yaml';
import { EclipticError } from '../../runtime/errors.js';
import { BUILT_IN_SCHEMAS } from './data-schemas.js';
import { evidenceOf, type Finding, isSample, type Severity } from './finding.js';
import { checkBySchema, type Fault, type JsonSchema } from './json-schema.js';
import type { SourceFile } from './workspace-files.js';

/** Files whose readers take neither comments nor trailing commas. */
const STRICT = /(^|\/)(package|composer|manifest|bower)\.json$|\.webmanifest$/;
/** Files of JSON whose readers take comments and trailing commas. */
const RELAXED =
  /(^|\/)([tj]sconfig|typedoc|tslint|api-extractor|devcontainer|deno|turbo|nx|project|wrangler|biome|renovate|angular|rush|language-configuration)([.-][\w.-]*)?\.json$|(^|\/)\.[^/]+\.json$|(^|\/)\.(vscode|devcontainer|zed|cursor)\/|\.jsonc$/i;
const LOCK_FILE = /(^|\/)(package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.ya?ml|composer\.lock)$/;
/** Not data yet, but a text that a program makes data of. */
const TEMPLATE = /\{\{|\{%|<%|^\s*#\{|\$\{\{?\s*cookiecutter|^[ \t]*@[\w.]+@/m;
const MAX_YAML_CHARS = 524_288;
const MAX_YAML_DEPTH = 200;
const MAX_YAML_INDENT = 2 * MAX_YAML_DEPTH;
/** Keys within keys on one line, for which the parser takes the cube of their number. */
const MAX_YAML_KEYS = 20;
const MAX_OF_FILE = 20;

type Format = 'json' | 'yaml';

interface Parsed {
  readonly value: unknown;
  readonly faults: readonly Fault[];
  lineOf(path: readonly (string | number)[]): number;
}

const TOO_DEEP: Parsed = {
  value: undefined,
  faults: [{ rule: 'syntax', line: 1, message: 'nested too deeply to be read' }],
  lineOf: () => 1,
};

export interface CheckedBySchema {
  readonly file: SourceFile;
  readonly schema: JsonSchema;
  /** How the findings name the schema. */
  readonly name: string;
}

/** MERCURY: JSON and YAML that cannot be read, says a key twice, or does not match its schema. */
export function reviewData(files: readonly SourceFile[]): Finding[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  return files.flatMap((file) => {
    const format = formatOf(file.path);
    if (format === undefined || isSample(file.path) || LOCK_FILE.test(file.path)) return [];
    if (format === 'yaml' && (file.text.length > MAX_YAML_CHARS || TEMPLATE.test(withoutExpressions(file)))) return [];
    const parsed = parse(file, format);
    const faults = parsed.faults.map((fault) =>
      findingOf(file, fault.line, `data/${fault.rule}`, 'medium', fault.message),
    );
    if (parsed.faults.some(({ rule }) => rule === 'syntax')) return faults.slice(0, MAX_OF_FILE);
    const schema = schemaOf(file, parsed.value, byPath);
    return [...faults, ...(schema ? mismatches(file, parsed, schema.schema, schema.name) : [])].slice(0, MAX_OF_FILE);
  });
}

/** Checks one file by a schema that the caller names. */
export function validateFile({ file, schema, name }: CheckedBySchema): Finding[] {
  const format = formatOf(file.path);
  if (format === undefined) {
    throw new EclipticError('INVALID_ARGUMENTS', `${file.path} is neither JSON nor YAML by its name`, {
      path: file.path,
    });
  }
  const parsed = parse(file, format);
  const faults = parsed.faults.map((fault) =>
    findingOf(file, fault.line, `data/${fault.rule}`, 'medium', fault.message),
  );
  if (parsed.faults.some(({ rule }) => rule === 'syntax')) return faults.slice(0, MAX_OF_FILE);
  return [...faults, ...mismatches(file, parsed, schema, name)];
}

/** The schema in a file of the workspace. */
export function readSchemaFile({ path, text }: SourceFile): JsonSchema {
  const { value, faults } = parse({ path, text }, formatOf(path) ?? 'json');
  if (faults.length > 0 || typeof value !== 'object' || value === null) {
    throw new EclipticError('INVALID_ARGUMENTS', `${path} is no JSON Schema: ${faults[0]?.message ?? 'no object'}`, {
      path,
    });
  }
  return value as JsonSchema;
}

function formatOf(path: string): Format | undefined {
  if (/\.(jsonc?|webmanifest)$/.test(path)) return 'json';
  return /\.ya?ml$/.test(path) ? 'yaml' : undefined;
}

/** Expressions of GitHub's workflows are texts of YAML. */
function withoutExpressions({ path, text }: SourceFile): string {
  return path.includes('.github/') ? text.replaceAll('${{', '') : text;
}

function parse({ path, text }: SourceFile, format: Format): Parsed {
  try {
    return format === 'json' ? parseJson(text, strictnessOf(path)) : parseYaml(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return TOO_DEEP;
  }
}

type Strictness = 'strict' | 'usual' | 'relaxed';

function strictnessOf(path: string): Strictness {
  if (STRICT.test(path)) return 'strict';
  return RELAXED.test(path) ? 'relaxed' : 'usual';
}

function parseJson(text: string, strictness: Strictness): Parsed {
  const lineOf = lineCounter(text);
  const isStrict = strictness === 'strict';
  const errors: ParseError[] = [];
  const options = { allowTrailingComma: true, disallowComments: isStrict, allowEmptyContent: !isStrict };
  const tree = parseTree(text, errors, options);
  const [first] = errors;
  const comma = first || strictness === 'relaxed' ? undefined : trailingComma(text, isStrict);
  const said = first && { at: first.offset, what: words(printParseErrorCode(first.error)) };
  const wrong = said ?? (comma === undefined ? undefined : { at: comma, what: 'a comma after the last item' });
  const faults: Fault[] = wrong
    ? [{ rule: 'syntax', line: lineOf(wrong.at), message: `not valid JSON: ${wrong.what}` }]
    : [];
  if (tree) repeatedKeys(tree, (key, offset) => faults.push(duplicate(key, lineOf(offset))));
  return {
    value: tree && jsonValue(tree),
    faults,
    lineOf(path) {
      const node = tree && findNodeAtLocation(tree, [...path]);
      return lineOf(node?.parent?.type === 'property' ? node.parent.offset : (node?.offset ?? 0));
    },
  };
}

/** The place of a comma that no item follows. A file with comments is for a reader that takes such commas too. */
function trailingComma(text: string, isStrict: boolean): number | undefined {
  let comma: number | undefined;
  let found: number | undefined;
  let hasComments = false;
  const item = () => {
    comma = undefined;
  };
  const end = () => {
    found ??= comma;
    comma = undefined;
  };
  visit(text, {
    onSeparator: (character, offset) => {
      comma = character === ',' ? offset : undefined;
    },
    onComment: () => {
      hasComments = true;
    },
    ...{ onObjectProperty: item, onLiteralValue: item, onObjectBegin: item, onArrayBegin: item },
    ...{ onObjectEnd: end, onArrayEnd: end },
  });
  return hasComments && !isStrict ? undefined : found;
}

/** `CommaExpected` as words. */
function words(code: string): string {
  return code.replace(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();
}

function duplicate(key: string, line: number): Fault {
  return {
    rule: 'duplicate-key',
    line,
    message: `the key "${key.slice(0, 80)}" stands twice; only the last one counts`,
  };
}

function repeatedKeys(node: Node, report: (key: string, offset: number) => void): void {
  const open = [node];
  for (let next = open.pop(); next; next = open.pop()) {
    const seen = new Set<string>();
    for (const child of next.children ?? []) {
      const [key] = child.children ?? [];
      if (child.type === 'property' && key) {
        const name = String(key.value);
        // Comments of package.json and of schemas are often written as keys.
        if (seen.has(name) && !/^(\/\/|\$comment|_comment|#)/.test(name)) report(name, key.offset);
        seen.add(name);
      }
      open.push(child);
    }
  }
}

function jsonValue(node: Node): unknown {
  switch (node.type) {
    case 'array':
      return (node.children ?? []).map(jsonValue);
    case 'object': {
      const entries = (node.children ?? []).flatMap(({ children: [key, value] = [] }) =>
        key && value ? [[String(key.value), jsonValue(value)] as const] : [],
      );
      return Object.fromEntries(entries);
    }
    default:
      return node.value;
  }
}

function parseYaml(text: string): Parsed {
  if (nestsTooDeeply(text)) return TOO_DEEP;
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: lines, logLevel: 'silent', prettyErrors: false });
  const all = Array.isArray(documents) ? (documents as Document[]) : [];
  const faults = all.flatMap(({ errors }) =>
    errors.map(({ code, message, pos }): Fault => {
      const { line } = lines.linePos(pos[0]);
      if (code === 'DUPLICATE_KEY') return duplicate(keyAt(text, pos[0]), line);
      return { rule: 'syntax', line, message: `not valid YAML: ${message.split('\n')[0]!.slice(0, 200)}` };
    }),
  );
  const [first] = all;
  return {
    value: first && all.length === 1 && faults.length === 0 ? toValue(first) : undefined,
    faults,
    lineOf(path) {
      const node = path.length > 0 ? first?.getIn(path, true) : first?.contents;
      const range = (node as { range?: readonly [number, number, number] } | undefined)?.range;
      return range ? lines.linePos(range[0]).line : 1;
    },
  };
}

/** The parser calls itself for each level, and at the end of the stack it can end the process. */
function nestsTooDeeply(text: string): boolean {
  for (const [indicators] of text.matchAll(/^[ \t?:-]+/gm)) {
    if (indicators.length > MAX_YAML_INDENT || indicators.split('?').length > MAX_YAML_KEYS) return true;
  }
  let depth = 0;
  for (const [bracket] of text.matchAll(/[[\]{}]/g)) {
    depth = bracket === '[' || bracket === '{' ? depth + 1 : Math.max(0, depth - 1);
    if (depth > MAX_YAML_DEPTH) return true;
  }
  return false;
}

function keyAt(text: string, offset: number): string {
  return /^[^:\n]{0,80}/.exec(text.slice(offset, offset + 100))![0];
}

/** Undefined where aliases would make it too large. */
function toValue(document: Document): unknown {
  if (isAlias(document.contents)) return undefined;
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    return undefined;
  }
}

const schemas = new WeakMap<SourceFile, JsonSchema>();

function schemaOf(
  { path, text }: SourceFile,
  value: unknown,
  files: ReadonlyMap<string, SourceFile>,
): { schema: JsonSchema; name: string } | undefined {
  const said =
    (value as { $schema?: unknown } | undefined | null)?.$schema ??
    /^# yaml-language-server: \$schema=(\S+)/m.exec(text.slice(0, 2_000))?.[1];
  if (typeof said === 'string' && !/^[a-z][\w+.-]*:/i.test(said)) {
    const file = files.get(posix.normalize(posix.join(posix.dirname(path), said)));
    if (file && file.path !== path) {
      const schema = schemas.get(file) ?? readSchemaFile(file);
      schemas.set(file, schema);
      return { schema, name: file.path };
    }
  }
  const known = BUILT_IN_SCHEMAS.find(({ files: pattern }) => pattern.test(path));
  return known && { schema: known.schema, name: known.name };
}

function mismatches(file: SourceFile, parsed: Parsed, schema: JsonSchema, name: string): Finding[] {
  if (parsed.value === undefined) return [];
  return checkBySchema(parsed.value, schema).map(({ path, message }) => {
    const place = path.length === 0 ? '' : `${path.join('.')}: `;
    return findingOf(file, parsed.lineOf(path), 'data/schema', 'medium', `${place}${message} (by ${name})`);
  });
}

function findingOf(
  { path, text }: SourceFile,
  line: number,
  rule: string,
  severity: Severity,
  message: string,
): Finding {
  const evidence = evidenceOf(text.split('\n', line)[line - 1] ?? '');
  return { agent: 'mercury', rule, severity, file: path, line, message, evidence };
}

function lineCounter(text: string): (offset: number) => number {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return (offset) => {
    let [low, high] = [0, starts.length];
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (starts[middle]! <= offset) low = middle;
      else high = middle;
    }
    return low + 1;
  };
}
