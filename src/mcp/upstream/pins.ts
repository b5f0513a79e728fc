import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { statement } from '../../network/membership/statement.js';
import { cutText } from '../../runtime/text.js';
import type { ApprovalRequest } from '../../system/approvals/approvals.js';
import { JsonFile } from '../../system/files/private-file.js';
import { type Definition, DefinitionSchema, keyOf } from '../definitions.js';
import { type neutralise, revealed } from '../neutral-text.js';

const PinSchema = z.strictObject({
  /** SHA-256 of the pinned part of the definition. */
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

export interface Fresh {
  readonly definition: Definition;
  /** Its kind and key. */
  readonly slot: string;
  readonly hash: string;
}

/** A definition as a server lists it. */
export interface Listed extends Fresh {
  readonly neutral: ReturnType<typeof neutralise<Definition>>;
}

/** A definition that differs from the pinned one, or was never pinned. */
export interface Suspect extends Fresh {
  readonly change: 'changed' | 'new' | 'renamed';
  readonly summary: string;
  readonly diff: readonly string[];
}

/** The kind of approval that a suspect waits for. */
export const DEFINITION_APPROVAL = 'tool-definition';
const MAX_LINES = 100;
const MAX_CHARS = 500;

/** The definitions of upstream servers as they were first seen, or last approved. */
export class Pins {
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  #servers: Readonly<Record<string, Readonly<Record<string, Pin>>>>;

  /** Without a data folder, pins end with the process. */
  constructor({ folder }: { folder?: string } = {}) {
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

  /** Pins definitions of a server; on disk when this returns. */
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

/** SHA-256 over everything that a model or a caller relies on, independent of key order. */
export function fingerprint(definition: Definition): string {
  const text = statement('tool definition', pinned(definition));
  return createHash('sha256').update(text).digest('hex');
}

/** Icons and `_meta` may change without approval. */
function pinned(definition: Definition): Definition {
  const { _meta, icons, ...rest } = definition;
  return rest as Definition;
}

/** Separates definitions that match their pins from those that do not. Resources are data, and are not pinned. */
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

/** Contains the whole definition: that definition is approved, and no later one. */
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
    return { change: 'changed', summary: `${what} has changed`, diff };
  }
  const gone = Object.entries(pins.of(server)).filter(([slot]) => slot.startsWith(`${kind} `) && !slots.has(slot));
  const before = gone.find(([, { definition: old }]) => nameless(old) === nameless(definition))?.[1].definition;
  if (!before) return { change: 'new', summary: `${what} is new`, diff: definitionDiff(undefined, definition) };
  const summary = `${what} was "${keyOf(before)}" before`;
  return { change: 'renamed', summary, diff: definitionDiff(before, definition) };
}

/** The fingerprint without the name, by which a renamed definition is recognised. */
function nameless(definition: Definition): string {
  return fingerprint({ ...definition, name: 'any', ...(definition.kind === 'template' && { uriTemplate: 'any' }) });
}

/** The changes, line by line: `- path: before` and `+ path: after`, with hidden characters made visible. */
function definitionDiff(before: Definition | undefined, after: Definition): string[] {
  const was = new Map(before ? leaves(before, '') : []);
  const is = new Map(leaves(after, ''));
  const lines: string[] = [];
  for (const [path, value] of was) {
    const now = is.get(path);
    if (now === value) continue;
    lines.push(diffLine('-', path, value));
    if (now !== undefined) lines.push(diffLine('+', path, now));
  }
  for (const [path, value] of is) if (!was.has(path)) lines.push(diffLine('+', path, value));
  const more = lines.length - MAX_LINES;
  return more > 0 ? [...lines.slice(0, MAX_LINES), `… and ${more} more lines`] : lines;
}

function diffLine(sign: string, path: string, value: string): string {
  const text = value.length > MAX_CHARS ? `${cutText(value, MAX_CHARS)}… (${value.length} characters)` : value;
  return `${sign} ${revealed(path)}: ${revealed(text)}`;
}

/** Every scalar, with its path. */
function leaves(value: unknown, path: string): [string, string][] {
  if (typeof value !== 'object' || value === null) return [[path, JSON.stringify(value) ?? '']];
  const members = Object.entries(value);
  if (members.length === 0) return [[path, Array.isArray(value) ? '[]' : '{}']];
  return members.flatMap(([key, member]) => leaves(member, path === '' ? key : `${path}.${key}`));
}
