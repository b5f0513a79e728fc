const KEY = 'x-mcp-header';
/** A name of an HTTP header (RFC 9110). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'integer', 'boolean']);

/**
 * What is wrong with how a tool's input schema has arguments repeated in HTTP headers; nothing, if all is well. Only a
 * plain value at a fixed place can be, under a name of its own.
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
    // What examples and defaults hold is data, and says nothing.
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
