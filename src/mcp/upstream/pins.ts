import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { statement } from '../../network/membership/statement.js';
import { cutText } from '../../runtime/text.js';
import type { ApprovalRequest } from '../../system/approvals/approvals.js';
import { JsonFile } from '../../system/files/private-file.js';
import { type Definition, DefinitionSchema, keyOf } from '../definitions.js';
import { revealed } from '../neutral-text.js';
import type { Listed } from './lists.js';

const PinSchema = z.strictObject({
  /** SHA-256 of what is pinned of the definition. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  definition: DefinitionSchema,
  at: z.number(),
});

const FileSchema = z.strictObject({
  version: z.literal(1),
  /** By the server's name, then by kind and name. */
  servers: z.record(z.string(), z.record(z.string(), PinSchema)),
});

export type Pin = Readonly<z.infer<typeof PinSchema>>;

/** What is to be pinned. */
export interface Fresh {
  readonly definition: Definition;
  readonly slot: string;
  readonly hash: string;
}

export interface PinsInit {
  /** The data folder. Without one, the pins end with the process. */
  folder?: string;
}

/** What upstream servers' definitions were when they were first seen, or last approved. */
export class Pins {
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  #servers: Readonly<Record<string, Readonly<Record<string, Pin>>>>;

  constructor({ folder }: PinsInit = {}) {
    this.#file = folder === undefined ? undefined : new JsonFile(join(folder, 'pins.json'), FileSchema);
    this.#servers = this.#file?.load()?.servers ?? {};
  }

  /** Whether this server was ever seen. */
  knows(server: string): boolean {
    return Object.hasOwn(this.#servers, server);
  }

  of(server: string): Readonly<Record<string, Pin>> {
    return this.knows(server) ? this.#servers[server]! : {};
  }

  get(server: string, slot: string): Pin | undefined {
    const own = this.of(server);
    return Object.hasOwn(own, slot) ? own[slot] : undefined;
  }

  /** Pins definitions of a server as they are now; on disk when this returns. */
  pin(server: string, fresh: readonly Fresh[], at: number): void {
    const made = fresh.map(({ slot, hash, definition }) => [slot, { hash, definition: pinned(definition), at }]);
    const servers = { ...this.#servers, [server]: { ...this.of(server), ...Object.fromEntries(made) } };
    this.#file?.save({ version: 1, servers });
    this.#servers = servers;
  }
}

export function slotOf(definition: Definition): string {
  return `${definition.kind} ${keyOf(definition)}`;
}

/** SHA-256 over everything that a model or a caller goes by, whatever the order of its keys. */
export function fingerprint(definition: Definition): string {
  return createHash('sha256')
    .update(statement('tool definition', pinned(definition)))
    .digest('hex');
}

/** Pictures and notes for programs may change. */
function pinned(definition: Definition): Definition {
  const { _meta, icons, ...rest } = definition;
  return rest as Definition;
}

const MAX_LINES = 100;
const MAX_CHARS = 500;

/** What is different, line by line: `- path: before` and `+ path: after`, with hidden characters made visible. */
export function definitionDiff(before: Definition | undefined, after: Definition): string[] {
  const was = new Map(before ? leaves(before, '') : []);
  const is = new Map(leaves(after, ''));
  const lines: string[] = [];
  for (const [path, value] of was)
    if (is.get(path) !== value) lines.push(...said('-', path, value), ...added(is, path));
  for (const [path, value] of is) if (!was.has(path)) lines.push(...said('+', path, value));
  const more = lines.length - MAX_LINES;
  return more > 0 ? [...lines.slice(0, MAX_LINES), `… and ${more} more lines`] : lines;
}

function added(is: ReadonlyMap<string, string>, path: string): string[] {
  const value = is.get(path);
  return value === undefined ? [] : said('+', path, value);
}

function said(sign: string, path: string, value: string): string[] {
  const text = value.length > MAX_CHARS ? `${cutText(value, MAX_CHARS)}… (${value.length} characters)` : value;
  return [`${sign} ${revealed(path)}: ${revealed(text)}`];
}

/** Every simple value, by its place. */
function leaves(value: unknown, path: string): [string, string][] {
  if (typeof value !== 'object' || value === null) return [[path, JSON.stringify(value) ?? '']];
  const members = Object.entries(value);
  if (members.length === 0) return [[path, Array.isArray(value) ? '[]' : '{}']];
  return members.flatMap(([key, member]) => leaves(member, path === '' ? key : `${path}.${key}`));
}

/** The kind under which a definition waits for approval. */
export const DEFINITION_APPROVAL = 'tool-definition';

/** A definition that is not the one that was pinned. */
export interface Suspect {
  readonly definition: Definition;
  readonly slot: string;
  readonly hash: string;
  readonly change: 'changed' | 'new' | 'renamed';
  readonly summary: string;
  /** What is different, for people. */
  readonly diff: readonly string[];
}

/** Tells the definitions that are as they were pinned from those that are not. Resources are data, and not pinned. */
export function sortOut(
  server: string,
  all: readonly Listed[],
  pins: Pins,
): { readonly trusted: readonly Listed[]; readonly suspects: readonly Suspect[] } {
  const trusted: Listed[] = [];
  const suspects: Suspect[] = [];
  const slots = new Set(all.map(({ slot }) => slot));
  for (const one of all) {
    const { definition, slot, hash } = one;
    const pin = pins.get(server, slot);
    if (definition.kind === 'resource' || pin?.hash === hash) trusted.push(one);
    else suspects.push({ definition, slot, hash, ...describe(server, definition, slots, pins) });
  }
  return { trusted, suspects };
}

/** What the operator is asked about it. It holds the whole definition: that is what is approved, and nothing later. */
export function approvalRequest(server: string, suspect: Suspect): ApprovalRequest {
  const { definition, slot, hash, change, summary, diff } = suspect;
  return {
    kind: DEFINITION_APPROVAL,
    subject: `${server}.${keyOf(definition)}`,
    summary,
    details: { server, slot, hash, change, diff, definition },
  };
}

function describe(
  server: string,
  definition: Definition,
  slots: ReadonlySet<string>,
  pins: Pins,
): Pick<Suspect, 'change' | 'summary' | 'diff'> {
  const { kind } = definition;
  const what = `${kind} "${keyOf(definition)}" of MCP server "${server}"`;
  const pin = pins.get(server, slotOf(definition));
  if (pin) {
    const diff = definitionDiff(pin.definition, definition);
    return { change: 'changed', summary: `${what} is not what it was`, diff };
  }
  const gone = Object.entries(pins.of(server)).filter(([slot]) => slot.startsWith(`${kind} `) && !slots.has(slot));
  const before = gone.find(([, { definition: old }]) => nameless(old) === nameless(definition))?.[1].definition;
  if (!before) return { change: 'new', summary: `${what} is new`, diff: definitionDiff(undefined, definition) };
  const summary = `${what} was "${keyOf(before)}" before`;
  return { change: 'renamed', summary, diff: definitionDiff(before, definition) };
}

/** Everything about a definition but what it is called by. */
function nameless(definition: Definition): string {
  return fingerprint({ ...definition, name: 'any', ...(definition.kind === 'template' && { uriTemplate: 'any' }) });
}
