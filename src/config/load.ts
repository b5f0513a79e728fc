import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { findNodeAtLocation, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { describeError, EclipticError } from '../runtime/errors.js';
import { type Config, ConfigSchema } from './schema.js';

export interface LoadedConfig {
  readonly config: Config;
  /** The file it came from; undefined when there is none. */
  readonly file: string | undefined;
  /** What relative paths in it are relative to. */
  readonly folder: string;
}

/** Reads a configuration file; without a name, `ecliptic.json` in the working folder if it is there. */
export function loadConfig(name: string | undefined, cwd: string): LoadedConfig {
  const file = resolve(cwd, name ?? 'ecliptic.json');
  if (name === undefined && !existsSync(file)) return { config: {}, file: undefined, folder: cwd };
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new EclipticError(
      'INVALID_CONFIG',
      `cannot read ${file}: ${describeError(error)}`,
      { file, faults: [] },
      error,
    );
  }
  return { config: parseConfig(text, file), file, folder: dirname(file) };
}

/** Checks a configuration text; comments and trailing commas are welcome. Reports every fault with its place. */
export function parseConfig(text: string, file: string): Config {
  const errors: ParseError[] = [];
  const tree = parseTree(text, errors, { allowTrailingComma: true });
  const place = placeIn(text, file);
  if (errors.length > 0 || !tree) {
    throw invalid(
      file,
      errors.length > 0
        ? errors.map(({ error, offset }) => `${place(offset)}: ${readable(printParseErrorCode(error))}`)
        : [`${place(0)}: the file is empty`],
    );
  }
  const parsed = ConfigSchema.safeParse(toValue(tree));
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((issue) => {
    const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
    return `${place(closest(tree, path).offset)}: ${path.join('.') || 'the file'}: ${issue.message}`;
  });
  throw invalid(file, faults);
}

/** The node at a path, or the nearest one above it that exists. */
function closest(tree: Node, path: (string | number)[]): Node {
  for (let length = path.length; length > 0; length--) {
    const found = findNodeAtLocation(tree, path.slice(0, length));
    if (found) return found;
  }
  return tree;
}

/** The value of a parsed tree. Keys are defined, not assigned, so that `__proto__` stays a key and is refused as one. */
function toValue(node: Node): unknown {
  if (node.type === 'array') return (node.children ?? []).map(toValue);
  if (node.type !== 'object') return node.value;
  const value = {};
  for (const { children } of node.children ?? []) {
    const [key, member] = children ?? [];
    if (!key || !member) continue;
    Object.defineProperty(value, key.value, { value: toValue(member), enumerable: true, configurable: true });
  }
  return value;
}

function placeIn(text: string, file: string): (offset: number) => string {
  return (offset) => {
    const before = text.slice(0, offset).split('\n');
    return `${file}:${before.length}:${before.at(-1)!.length + 1}`;
  };
}

function readable(code: string): string {
  return code.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
}

function invalid(file: string, faults: readonly string[]): EclipticError {
  return new EclipticError('INVALID_CONFIG', `the configuration has faults:\n  ${faults.join('\n  ')}`, {
    file,
    faults,
  });
}
