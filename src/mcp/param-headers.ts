import type { ToolDefinition } from './definitions.js';

/** An argument that a tool also wants in a header, so that intermediaries can route by it. */
interface Declaration {
  readonly path: readonly string[];
  readonly header: string;
}

/** Headers and body differ, so an intermediary that routed by the headers was misled. */
export interface Mismatch {
  readonly header: string;
  readonly body: string;
}

export const HEADER_MISMATCH = -32020;

const known = new WeakMap<object, readonly Declaration[]>();

/** Finds a contradiction between the `Mcp-Param-*` headers and the arguments. */
export function contradiction(
  definition: ToolDefinition,
  args: Readonly<Record<string, unknown>>,
  header: (name: string) => string | string[] | null | undefined,
): Mismatch | undefined {
  let declared = known.get(definition);
  if (!declared) {
    declared = [...declarations(definition.inputSchema, [])];
    known.set(definition, declared);
  }
  for (const { path, header: name } of declared) {
    const value = path.reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], args);
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') continue;
    const given = headerValue(header(`mcp-param-${name.toLowerCase()}`));
    if (given === String(value) || (typeof value === 'number' && given !== undefined && Number(given) === value))
      continue;
    const body = `the body carries ${path.join('.')}=${JSON.stringify(value)}`;
    const told = given === undefined ? 'is absent, or not as it should be encoded' : `says ${JSON.stringify(given)}`;
    return { header: `Mcp-Param-${name}`, body: `${body} and the header ${told}` };
  }
  return undefined;
}

export function mismatchMessage({ body }: Mismatch): string {
  return `Bad Request: the request headers and body disagree: ${body}`;
}

function* declarations(schema: unknown, path: readonly string[]): Generator<Declaration> {
  if (typeof schema !== 'object' || schema === null) return;
  const { properties, 'x-mcp-header': header } = schema as Record<string, unknown>;
  if (typeof header === 'string' && path.length > 0) yield { path, header };
  if (typeof properties !== 'object' || properties === null) return;
  for (const [name, child] of Object.entries(properties)) yield* declarations(child, [...path, name]);
}

/** Decodes `=?base64?…?=`, which stands for values that a header cannot hold; undefined if wrongly encoded. */
export function headerValue(value: string | string[] | null | undefined): string | undefined {
  if (typeof value !== 'string') return undefined;
  const text = value.trim();
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(text) ?? [];
  if (encoded === undefined) return text;
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64') === encoded ? bytes.toString() : undefined;
}

const KEY = 'x-mcp-header';
/** The name of an HTTP header (RFC 9110). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);

/**
 * The fault in a tool's `x-mcp-header` annotations, if any. Only a scalar at a fixed place may be repeated in a header,
 * under a unique name.
 */
export function headerFault(schema: unknown): string | undefined {
  const names = new Set<string>();
  return visit(schema, '', true, names);
}

function visit(schema: unknown, path: string, fixed: boolean, names: Set<string>): string | undefined {
  if (typeof schema !== 'object' || schema === null) return undefined;
  if (Object.hasOwn(schema, KEY)) {
    const fault = judge(schema as Record<string, unknown>, path, fixed, names);
    if (fault !== undefined) return `${path || 'the schema'}: ${fault}`;
  }
  for (const [key, value] of Object.entries(schema)) {
    const isProperties = key === 'properties' && typeof value === 'object' && value !== null;
    // Examples and defaults are data, not schema.
    if (key === KEY || key === 'default' || key === 'const' || key === 'enum' || key === 'examples') continue;
    const children: readonly (readonly [string, unknown])[] = isProperties ? Object.entries(value) : [[key, value]];
    for (const [name, child] of children) {
      const fault = visit(child, path === '' ? name : `${path}.${name}`, fixed && isProperties, names);
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}

function judge(
  schema: Readonly<Record<string, unknown>>,
  path: string,
  fixed: boolean,
  names: Set<string>,
): string | undefined {
  const name = schema[KEY];
  if (!fixed || path === '') return `${KEY} is where no argument always is`;
  if (typeof name !== 'string' || !TOKEN.test(name)) return `${KEY} is no name of a header`;
  if (!TYPES.has(schema.type)) return `${KEY} is for strings, integers and booleans`;
  if (names.has(name.toLowerCase())) return `${KEY} "${name}" is given twice`;
  names.add(name.toLowerCase());
  return undefined;
}
