import { LIMITS } from './limits.js';

/**
 * A payload must mean the same to an agent in this process and to one that gets it as JSON, so anything JSON would
 * change or drop is refused: functions, dates, class instances, NaN, cycles. So are keys that poison prototypes.
 */
export interface JsonFault {
  readonly path: string;
  readonly problem: string;
  readonly tooLarge: boolean;
}

const BAD = -1;
/** Past this a value is too large for any use, and need not be weighed to its end. */
const ENOUGH = 2 * LIMITS.payloadBytes;
/** Escapes make a JSON string at most six times longer than its characters, and no number takes more than 24 bytes. */
const WORST_EXPANSION = 8;

/** The approximate weight of a JSON value in bytes, or the fault that makes it none. */
export function weighJson(value: unknown, maxBytes: number = LIMITS.payloadBytes): number | JsonFault {
  const weight = weigh(value, 0);
  if (weight === BAD) return findFault(value, '', 0, new Set()) ?? tooDeep('');
  if (weight > maxBytes / WORST_EXPANSION) {
    const bytes = weight > ENOUGH ? weight : Buffer.byteLength(JSON.stringify(value));
    if (bytes > maxBytes) return { path: '', problem: `takes more than ${maxBytes} bytes as JSON`, tooLarge: true };
    return bytes;
  }
  return weight;
}

function weigh(value: unknown, depth: number): number {
  switch (typeof value) {
    case 'string':
      return value.length + 2;
    case 'number':
      return Number.isFinite(value) ? 8 : BAD;
    case 'boolean':
      return 5;
    case 'object':
      if (value === null) return 4;
      if (depth === LIMITS.payloadDepth) return BAD;
      return Array.isArray(value)
        ? weighArray(value, depth + 1)
        : weighObject(value as Record<string, unknown>, depth + 1);
    default:
      return BAD;
  }
}

function weighArray(value: readonly unknown[], depth: number): number {
  let total = 2;
  for (let i = 0; i < value.length; i++) {
    const member = value[i];
    const part = typeof member === 'string' ? member.length + 2 : weigh(member, depth);
    if (part === BAD) return BAD;
    total += part + 1;
    if (total > ENOUGH) return total;
  }
  return total;
}

function weighObject(value: Record<string, unknown>, depth: number): number {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return BAD;
  let total = 2;
  for (const key in value) {
    if (key === '__proto__') return BAD;
    const member = value[key];
    if (member === undefined) continue;
    const part = typeof member === 'string' ? member.length + 2 : weigh(member, depth);
    if (part === BAD) return BAD;
    total += part + key.length + 4;
    if (total > ENOUGH) return total;
  }
  return total;
}

/** The slow second look, only taken after `weigh` refused: where is the fault, and what is it? */
function findFault(value: unknown, path: string, depth: number, above: Set<object>): JsonFault | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return fault(path, `is ${value}, which JSON cannot hold`);
  if (value === undefined || typeof value === 'function' || typeof value === 'symbol' || typeof value === 'bigint') {
    return fault(path, `is ${value === undefined ? 'undefined' : `a ${typeof value}`}, which JSON cannot hold`);
  }
  if (typeof value !== 'object' || value === null) return undefined;
  if (above.has(value)) return fault(path, 'refers back to itself');
  if (depth === LIMITS.payloadDepth) return tooDeep(path);
  above.add(value);
  const found = Array.isArray(value)
    ? findIn(Array.from(value.keys(), String), value as unknown as Record<string, unknown>, path, depth, above, true)
    : findInObject(value as Record<string, unknown>, path, depth, above);
  above.delete(value);
  return found;
}

function findInObject(value: Record<string, unknown>, path: string, depth: number, above: Set<object>) {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    const name = typeof value.constructor === 'function' ? value.constructor.name : 'class instance';
    return fault(path, `is a ${name}, not a plain object; send its JSON form instead`);
  }
  return findIn(Object.keys(value), value, path, depth, above, false);
}

function findIn(
  keys: readonly string[],
  value: Record<string, unknown>,
  path: string,
  depth: number,
  above: Set<object>,
  inArray: boolean,
): JsonFault | undefined {
  for (const key of keys) {
    const at = inArray ? `${path}[${key}]` : path ? `${path}.${key}` : key;
    if (key === '__proto__') return fault(at, 'is a reserved key');
    const member = value[key];
    if (member === undefined && !inArray) continue;
    const found = findFault(member, at, depth + 1, above);
    if (found) return found;
  }
  return undefined;
}

function fault(path: string, problem: string): JsonFault {
  return { path, problem, tooLarge: false };
}

function tooDeep(path: string): JsonFault {
  return { path, problem: `is nested more than ${LIMITS.payloadDepth} levels deep`, tooLarge: true };
}
