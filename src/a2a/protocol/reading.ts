import { weighJson } from '../../mesh/json-value.js';
import { EclipticError } from '../../runtime/errors.js';
import { isWellFormed } from '../../runtime/text.js';
import { A2A_LIMITS } from './limits.js';
import type { Metadata } from './types.js';

const LONE_SURROGATE = 'contains a lone surrogate, which is not Unicode text';

/**
 * The parts of the readers of untrusted JSON. In ProtoJSON a field that is absent, `null` or (for text) empty is unset.
 * Places become text only for an error message, so that they cost nothing on the hot path.
 */

const INTEGER = /^-?\d{1,15}$/;

export type Fields = Readonly<Record<string, unknown>>;

/** A path, or an entry of the list at a path. */
export type Place = string | readonly [list: string, index: number];

export function refuse(place: Place, problem: string): never {
  const field = typeof place === 'string' ? place : `${place[0]}[${place[1]}]`;
  throw new EclipticError('INVALID_PARAMS', `${field} ${problem}`, { field, problem });
}

export function within(place: Place, member: string): string {
  const above = typeof place === 'string' ? place : `${place[0]}[${place[1]}]`;
  return above === '' ? member : `${above}.${member}`;
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function readObject(value: unknown, place: Place): Fields {
  if (!isFields(value)) refuse(place, 'must be an object');
  return value;
}

/** Required, non-empty text. */
export function readText(from: Fields, member: string, place: Place, maxChars: number): string {
  const value = from[member];
  if (typeof value !== 'string' || value === '') refuse(within(place, member), 'must be a non-empty string');
  if (value.length > maxChars) refuse(within(place, member), `is longer than ${maxChars} characters`);
  if (!isWellFormed(value)) refuse(within(place, member), LONE_SURROGATE);
  return value;
}

export function readOptionalText(from: Fields, member: string, place: Place, maxChars: number): string | undefined {
  const value = from[member];
  if (value === undefined || value === null || value === '') return undefined;
  return readText(from, member, place, maxChars);
}

export function readId(from: Fields, member: string, place: Place): string {
  return readText(from, member, place, A2A_LIMITS.idChars);
}

export function readOptionalId(from: Fields, member: string, place: Place): string | undefined {
  return readOptionalText(from, member, place, A2A_LIMITS.idChars);
}

/** Required text that may be empty. */
export function readAnyText(from: Fields, member: string, place: Place, maxChars: number): string {
  return from[member] === '' ? '' : readText(from, member, place, maxChars);
}

export function readFlag(from: Fields, member: string, place: Place): boolean | undefined {
  const value = from[member];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'boolean') refuse(within(place, member), 'must be true or false');
  return value;
}

export function readInteger(
  from: Fields,
  member: string,
  place: Place,
  smallest: number,
  largest: number = 2 ** 31 - 1,
): number | undefined {
  const given = from[member];
  if (given === undefined || given === null) return undefined;
  // ProtoJSON readers accept numbers as text too.
  const value = typeof given === 'string' && INTEGER.test(given) ? Number(given) : given;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < smallest || value > largest) {
    refuse(within(place, member), `must be a whole number from ${smallest} to ${largest}`);
  }
  return value;
}

/** An empty list counts as unset. */
export function readTexts(
  from: Fields,
  member: string,
  place: Place,
  maxChars: number = A2A_LIMITS.urlChars,
  maxEntries: number = A2A_LIMITS.listEntries,
): readonly string[] | undefined {
  const value = from[member];
  if (value === undefined || value === null) return undefined;
  const list = readList(value, within(place, member), maxEntries);
  if (list.length === 0) return undefined;
  for (let index = 0; index < list.length; index++) {
    const entry = list[index];
    if (typeof entry !== 'string' || entry.length > maxChars) {
      refuse([within(place, member), index], `must be a string of at most ${maxChars} characters`);
    }
  }
  return [...(list as string[])];
}

export function readList(value: unknown, place: Place, maxEntries: number): readonly unknown[] {
  if (!Array.isArray(value)) refuse(place, 'must be a list');
  if (value.length > maxEntries) refuse(place, `has more than ${maxEntries} entries`);
  return value;
}

export function readMetadata(from: Fields, member: string, place: Place): Metadata | undefined {
  const value = from[member];
  if (value === undefined || value === null) return undefined;
  const metadata = readObject(value, within(place, member));
  const problem = jsonProblem(metadata);
  if (problem) refuse(within(place, `${member}${problem.at}`), problem.text);
  return metadata;
}

/** Checks that JSON which is stored and passed on is shallow and small; returns the problem and its place. */
export function jsonProblem(value: unknown): { readonly at: string; readonly text: string } | undefined {
  const weighed = weighJson(value, A2A_LIMITS.dataBytes);
  if (typeof weighed === 'number') return undefined;
  const { path, problem } = weighed;
  return { at: path === '' || path.startsWith('[') ? path : `.${path}`, text: problem };
}

/** A copy without undefined members. */
export function compact<T extends object>(value: { [K in keyof T]: T[K] | undefined }): T {
  const kept: Record<string, unknown> = {};
  for (const key in value) if (value[key] !== undefined) kept[key] = value[key];
  return kept as T;
}

/** Refuses lone surrogates: protobuf text is UTF-8, which cannot hold them. */
export function requireUnicode(value: unknown, place: Place): void {
  if (!isUnicode(value)) refuse(place, LONE_SURROGATE);
}

function isUnicode(value: unknown): boolean {
  if (typeof value === 'string') return isWellFormed(value);
  if (Array.isArray(value)) return value.every(isUnicode);
  if (typeof value !== 'object' || value === null) return true;
  for (const name in value) if (!isWellFormed(name) || !isUnicode((value as Fields)[name])) return false;
  return true;
}

/** RFC 3339, as in ProtoJSON. */
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

let lastMs = 0;
let lastText = new Date(lastMs).toISOString();

/** UTC with milliseconds and `Z`. Cached, because many events share one millisecond and formatting is slow. */
export function writeTimestamp(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}

/** Reads any RFC 3339 time and normalizes it. */
export function readTimestamp(value: unknown, place: Place): string {
  const ms = typeof value === 'string' && TIMESTAMP.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms)) refuse(place, 'must be an RFC 3339 time, such as 2026-01-31T08:00:00.000Z');
  return writeTimestamp(ms);
}

export function readOptionalTimestamp(value: unknown, place: Place): string | undefined {
  return value === undefined || value === null || value === '' ? undefined : readTimestamp(value, place);
}

const INTEGERS: ReadonlySet<string> = new Set(['pageSize', 'historyLength']);
const FLAGS: ReadonlySet<string> = new Set(['includeArtifacts']);
/** Service parameters in the query are no parameters of the operation. */
const SERVICE_PARAMETER = /^a2a-/i;

/**
 * The query of an HTTP+JSON request as parameters. Invalid numbers and flags stay text, so that the reader reports
 * them.
 */
export function paramsOfQuery(query: URLSearchParams): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const [name, text] of query) {
    if (SERVICE_PARAMETER.test(name)) continue;
    if (INTEGERS.has(name)) params[name] = /^-?\d{1,15}$/.test(text) ? Number(text) : text;
    else if (FLAGS.has(name)) params[name] = text === 'true' ? true : text === 'false' ? false : text;
    else params[name] = text;
  }
  return params;
}

/** Members whose keys are user data, not field names. */
const FOREIGN: ReadonlySet<string> = new Set(['metadata', 'data', 'params', 'header']);

/** Deeper than any request, apart from user data. */
const MAX_DEPTH = 8;

/**
 * Renames fields from their proto names to their JSON names: ProtoJSON readers accept both, and the JSON name wins. A
 * value without proto names, the usual case, is returned unchanged.
 */
export function withJsonNames(value: unknown): unknown {
  return hasProtoName(value) ? renamed(value) : value;
}

function hasProtoName(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return false;
  if (Array.isArray(value)) return value.some((entry) => hasProtoName(entry, depth + 1));
  for (const name in value) {
    if (name.includes('_')) return true;
    if (!FOREIGN.has(name) && hasProtoName((value as Fields)[name], depth + 1)) return true;
  }
  return false;
}

function renamed(value: unknown, depth = 0): unknown {
  if (Array.isArray(value)) return value.map((entry) => renamed(entry, depth + 1));
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return value;
  const result: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    const json = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
    if (json !== name && json in value) continue;
    result[json] = FOREIGN.has(name) ? member : renamed(member, depth + 1);
  }
  return result;
}
