import type { Fields } from './reading.js';

/** Objects whose keys are names given by users, not by the protocol. */
const FOREIGN: ReadonlySet<string> = new Set(['metadata', 'data', 'params', 'header']);

/** Requests nest no deeper, apart from foreign members. */
const MAX_DEPTH = 8;

/**
 * ProtoJSON readers take a field by its JSON name and by its name in the proto file. Gives the JSON names everywhere; a
 * value that has no others, as nearly all, is given back as it is. Where both are there, the JSON name counts.
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
