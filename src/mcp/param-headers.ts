import type { ToolDefinition } from './definitions.js';

/** An argument that a tool wants to see in a header too, so that what stands between can route by it. */
interface Declaration {
  readonly path: readonly string[];
  readonly header: string;
}

/** Headers and body say different things: whoever routed by the headers was misled. */
export interface Mismatch {
  readonly header: string;
  readonly body: string;
}

/** The JSON-RPC code for it. */
export const HEADER_MISMATCH = -32020;

const known = new WeakMap<object, readonly Declaration[]>();

/** Says where the `Mcp-Param-*` headers contradict the arguments; undefined where they do not. */
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

/** A value that a header cannot hold as it is comes as `=?base64?…?=`; one that is wrongly encoded is none. */
export function headerValue(value: string | string[] | null | undefined): string | undefined {
  if (typeof value !== 'string') return undefined;
  const text = value.trim();
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(text) ?? [];
  if (encoded === undefined) return text;
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64') === encoded ? bytes.toString() : undefined;
}
