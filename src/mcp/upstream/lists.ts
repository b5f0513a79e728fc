import { z } from 'zod';
import { weighJson } from '../../mesh/json-value.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { type Definition, DefinitionSchema, type Kind } from '../definitions.js';
import { neutralise, revealed } from '../neutral-text.js';
import { headerFault } from '../param-headers.js';
import { UriPattern } from '../uri-pattern.js';
import type { Connection } from './connection.js';
import { fingerprint, type Listed, slotOf } from './pins.js';

/** The definitions that a server lists, and the problems of those that cannot be offered. */
export interface Listing {
  readonly listed: readonly Listed[];
  readonly problems: readonly string[];
}

/** Definitions and pages of one kind that are read. */
const MAX_DEFINITIONS = 2_000;
const MAX_PAGES = 100;
const MAX_DEFINITION_BYTES = 262_144;
/** Total size of the definitions of one kind. */
const MAX_LIST_BYTES = 8 * 1_048_576;
/** Problems that are reported one by one. */
const MAX_PROBLEMS = 20;
/** Definitions that are read before other work gets its turn. */
const SLICE = 50;

const LISTS = [
  { kind: 'tool', method: 'tools/list', key: 'tools', capability: 'tools' },
  { kind: 'resource', method: 'resources/list', key: 'resources', capability: 'resources' },
  { kind: 'template', method: 'resources/templates/list', key: 'resourceTemplates', capability: 'resources' },
  { kind: 'prompt', method: 'prompts/list', key: 'prompts', capability: 'prompts' },
] as const;

/** The fields of a definition that are used. */
const FIELDS: Readonly<Record<Kind, readonly string[]>> = {
  tool: ['name', 'title', 'description', 'icons', 'annotations', '_meta', 'inputSchema', 'outputSchema'],
  resource: ['uri', 'name', 'title', 'description', 'icons', 'annotations', '_meta', 'mimeType', 'size'],
  template: ['uriTemplate', 'name', 'title', 'description', 'icons', 'annotations', '_meta', 'mimeType'],
  prompt: ['name', 'title', 'description', 'icons', '_meta', 'arguments'],
};

/** Reads all lists of a server. A definition that cannot be offered is left out. */
export async function readLists(runtime: Runtime, connection: Connection, signal?: AbortSignal): Promise<Listing> {
  const listed = new Map<string, Listed>();
  const problems: string[] = [];
  const capabilities = connection.client.getServerCapabilities() ?? {};
  let seen = 0;
  for (const list of LISTS) {
    if (!capabilities[list.capability]) continue;
    const { items, problem } = await readList(connection, list, signal);
    if (problem !== undefined) problems.push(problem);
    for (const item of items) {
      if (++seen % SLICE === 0) await new Promise<void>((resolve) => runtime.defer(resolve));
      const read = readDefinition(list.kind, item);
      if (typeof read === 'string') problems.push(read);
      else {
        const slot = slotOf(read);
        listed.set(slot, { definition: read, slot, hash: fingerprint(read), neutral: neutralise(read) });
      }
    }
  }
  const more = problems.length - MAX_PROBLEMS;
  return {
    listed: [...listed.values()],
    problems: more > 0 ? [...problems.slice(0, MAX_PROBLEMS), `and ${more} more problems`] : problems,
  };
}

/** Sends the server a cheap request over the connection that calls use. */
export async function askAnything(connection: Connection, signal: AbortSignal): Promise<void> {
  const capabilities = connection.client.getServerCapabilities() ?? {};
  const list = LISTS.find(({ capability }) => capabilities[capability]);
  const method = list?.method ?? (connection.isModern ? 'server/discover' : 'ping');
  await connection.ask((client) => client.request({ method, params: {} }, z.looseObject({}), { signal }));
}

async function readList(
  connection: Connection,
  { method, key }: (typeof LISTS)[number],
  signal: AbortSignal | undefined,
): Promise<{ items: readonly unknown[]; problem?: string }> {
  const page = z.looseObject({ [key]: z.array(z.unknown()), nextCursor: z.string().optional() });
  const items: unknown[] = [];
  let bytes = 0;
  let cursor: string | undefined;
  for (let pages = 1; ; pages++) {
    const params = cursor === undefined ? {} : { cursor };
    let found: z.infer<typeof page>;
    try {
      found = await connection.ask((client) => client.request({ method, params }, page, signal ? { signal } : {}));
    } catch (error) {
      // Some servers announce a list that they do not implement.
      if (pages === 1 && error instanceof EclipticError && error.code === 'NOT_HANDLED') {
        return { items: [], problem: `it does not know ${method}` };
      }
      throw error;
    }
    cursor = found.nextCursor as string | undefined;
    for (const item of found[key] as unknown[]) {
      const weight = weighJson(item, MAX_DEFINITION_BYTES);
      bytes += typeof weight === 'number' ? weight : MAX_DEFINITION_BYTES;
      if (bytes <= MAX_LIST_BYTES && items.length < MAX_DEFINITIONS) items.push(item);
      else
        return {
          items,
          problem: `${method} has more than the ${items.length} entries that are taken; the rest is left out`,
        };
    }
    if (cursor === undefined) return { items };
    if (pages < MAX_PAGES) continue;
    return { items, problem: `${method} has more than ${MAX_PAGES} pages; the rest is left out` };
  }
}

/** The definition, or the reason why there is none. */
export function readDefinition(kind: Kind, item: unknown): Definition | string {
  const given = (typeof item === 'object' && item !== null ? item : {}) as Record<string, unknown>;
  const label = revealed(
    cutText([given.name, given.uri].find((one) => typeof one === 'string') ?? 'one without a name', 128),
  );
  const leftOut = (reason: string) => `${kind} "${label}" is left out: ${reason}`;
  const weight = weighJson(given, MAX_DEFINITION_BYTES);
  if (typeof weight !== 'number') return leftOut(`${weight.path} ${weight.problem}`.trim());
  const taken = FIELDS[kind].filter((field) => given[field] !== undefined && given[field] !== null);
  const parsed = DefinitionSchema.safeParse({
    kind,
    ...Object.fromEntries(taken.map((field) => [field, given[field]])),
  });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return leftOut(`${issue!.path.join('.')}: ${issue!.message}`);
  }
  const fault = parsed.data.kind === 'tool' ? headerFault(parsed.data.inputSchema) : undefined;
  if (fault !== undefined) return leftOut(fault);
  try {
    if (parsed.data.kind === 'template') new UriPattern(parsed.data.uriTemplate);
    return parsed.data;
  } catch (error) {
    return leftOut((error as EclipticError).message);
  }
}
