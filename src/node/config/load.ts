import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { findNodeAtLocation, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import type { z } from 'zod';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { type Config, ConfigSchema, inOneForm } from './schema.js';

export interface LoadedConfig {
  readonly config: Config;
  /** Undefined without a file. */
  readonly file: string | undefined;
  /** The base of relative paths. */
  readonly folder: string;
}

export type Path = readonly (string | number)[];

/** Reads a configuration file; without a name, `ecliptic.json` in the working folder if it exists. */
export function loadConfig(name: string | undefined, cwd: string): LoadedConfig {
  const file = resolve(cwd, name ?? 'ecliptic.json');
  if (name === undefined && !existsSync(file)) return { config: {}, file: undefined, folder: cwd };
  return { config: parseConfig(readText(file), file), file, folder: dirname(file) };
}

/** Throws `INVALID_CONFIG` for values of a loaded file, each with its line and column. */
export function refuseValues(file: string, faults: readonly (readonly [path: Path, message: string])[]): never {
  const text = readText(file);
  const tree = parseTree(text, [], { allowTrailingComma: true })!;
  const place = placeIn(text, file);
  throw invalid(
    file,
    faults.map(([path, message]) => `${place(closest(tree, path).offset)}: ${path.join('.')}: ${message}`),
  );
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8').replace(/^\ufeff/, '');
  } catch (error) {
    throw new EclipticError(
      'INVALID_CONFIG',
      `cannot read ${file}: ${describeError(error)}`,
      { file, faults: [] },
      error,
    );
  }
}

/** Checks a configuration text with comments and trailing commas; reports every fault with line and column. */
export function parseConfig(text: string, file: string): Config {
  const errors: ParseError[] = [];
  const tree = parseTree(text, errors, { allowTrailingComma: true });
  const place = placeIn(text, file);
  if (errors.length > 0 || !tree) {
    const faults = errors.map(({ error, offset }) => `${place(offset)}: ${readable(printParseErrorCode(error))}`);
    throw invalid(file, faults);
  }
  const reserved = reservedKeys(tree).map((node) => `${place(node.offset)}: ${node.value}: is a reserved key`);
  const parsed = ConfigSchema.safeParse(toValue(tree));
  if (parsed.success && reserved.length === 0) return inOneForm(parsed.data);
  const faults = (parsed.error?.issues ?? []).flatMap(ofFittingBranch).flatMap((issue) => {
    const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => {
        const at = [...path, key];
        return `${place(keyOf(closest(tree, at)).offset)}: ${at.join('.')}: is not a key that belongs here`;
      });
    }
    const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
    return [`${place(closest(tree, path).offset)}: ${path.join('.') || 'the file'}: ${message}`];
  });
  throw invalid(file, [...reserved, ...faults]);
}

/** The faults in the only alternative that has the value's type, where a union has no message of its own. */
function ofFittingBranch(issue: z.core.$ZodIssue): readonly z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union' || issue.message !== 'Invalid input') return [issue];
  const isOtherType = ({ path, code }: z.core.$ZodIssue) => path.length === 0 && code === 'invalid_type';
  const [fitting, ...others] = issue.errors.filter((faults) => !faults.some(isOtherType));
  if (!fitting || others.length > 0) return [issue];
  return fitting.map((fault) => ({ ...fault, path: [...issue.path, ...fault.path] })).flatMap(ofFittingBranch);
}

/** The key of a value. */
function keyOf(value: Node): Node {
  return value.parent?.type === 'property' ? value.parent.children![0]! : value;
}

/** `__proto__` keys, which would change a prototype. */
function reservedKeys(node: Node): Node[] {
  const own = node.type === 'property' && node.children?.[0]?.value === '__proto__' ? [node.children[0]] : [];
  return [...own, ...(node.children ?? []).flatMap(reservedKeys)];
}

/** The node at a path, or the nearest one above it that exists. */
function closest(tree: Node, path: Path): Node {
  for (let length = path.length; length > 0; length--) {
    const found = findNodeAtLocation(tree, path.slice(0, length));
    if (found) return found;
  }
  return tree;
}

/** The value of a parsed tree, without reserved keys. */
function toValue(node: Node): unknown {
  if (node.type === 'array') return (node.children ?? []).map(toValue);
  if (node.type !== 'object') return node.value;
  const value: Record<string, unknown> = {};
  for (const { children } of node.children ?? []) {
    const [key, member] = children ?? [];
    if (key && member && key.value !== '__proto__') value[key.value] = toValue(member);
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
