import { LIMITS } from './limits.js';

/**
 * The reason why a value is not valid JSON. A payload must be the same to an agent in this process and to one that gets it
 * as JSON, so values that JSON would change or drop are refused: functions, dates, class instances, NaN, cycles. So are
 * keys that poison prototypes.
 */
export interface JsonFault {
  readonly path: string;
  readonly problem: string;
  readonly tooLarge: boolean;
}

const BAD = -1;
/** A weight differs from the real bytes by at most this factor: escapes lengthen, short numbers shorten. */
const WORST_EXPANSION = 8;
/** Beyond this weight a value is too large in any case, and need not be weighed to its end. */
const ENOUGH = WORST_EXPANSION * LIMITS.payloadBytes;

/** The approximate weight of a JSON value in bytes, or its fault. */
export function weighJson(value: unknown, maxBytes: number = LIMITS.payloadBytes): number | JsonFault {
  try {
    return weighReadable(value, maxBytes);
  } catch {
    // A getter or a proxy that throws.
    return fault('', 'cannot be read');
  }
}

/** The weight of a valid value that is far below the limit of a payload; negative for any other. */
export function lightWeight(value: unknown): number {
  if (value === null) return 4;
  try {
    const weight = weigh(value, 0);
    return weight <= LIMITS.payloadBytes / WORST_EXPANSION ? weight : BAD;
  } catch {
    return BAD;
  }
}

function weighReadable(value: unknown, maxBytes: number): number | JsonFault {
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
  if ((value as { toJSON?: unknown }).toJSON !== undefined) return BAD;
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

/** Locates the fault of a value that `weigh` has refused. Slow. */
function findFault(value: unknown, path: string, depth: number, above: Set<object>): JsonFault | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return fault(path, `is ${value}, which JSON cannot hold`);
  if (value === undefined || typeof value === 'function' || typeof value === 'symbol' || typeof value === 'bigint') {
    return fault(path, `is ${value === undefined ? 'undefined' : `a ${typeof value}`}, which JSON cannot hold`);
  }
  if (typeof value !== 'object' || value === null) return undefined;
  if (above.has(value)) return fault(path, 'refers back to itself');
  if (depth === LIMITS.payloadDepth) return tooDeep(path);
  above.add(value);
  const found = Array.isArray(value) ? findInArray(value, path, depth, above) : findInObject(value, path, depth, above);
  above.delete(value);
  return found;
}

function findInArray(value: readonly unknown[], path: string, depth: number, above: Set<object>) {
  if ('toJSON' in value) return fault(path, 'has a toJSON of its own');
  for (let index = 0; index < value.length; index++) {
    const found = findFault(value[index], `${path}[${index}]`, depth + 1, above);
    if (found) return found;
  }
  return undefined;
}

function findInObject(value: object, path: string, depth: number, above: Set<object>): JsonFault | undefined {
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    const name: unknown = value.constructor?.name;
    const kind = typeof name === 'string' && name !== '' ? name : 'class instance';
    return fault(path, `is a ${kind}, not a plain object; send its JSON form instead`);
  }
  for (const [key, member] of Object.entries(value)) {
    const at = path ? `${path}.${key}` : key;
    if (key === '__proto__') return fault(at, 'is a reserved key');
    const found = member === undefined ? undefined : findFault(member, at, depth + 1, above);
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
