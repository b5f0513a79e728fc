import { EclipticError } from '../../runtime/errors.js';

/** The bytes that are signed for a value. They begin with the purpose, so a signature for one cannot serve another. */
export function statement(purpose: string, value: unknown): Buffer {
  return Buffer.from(`ecliptic ${purpose} 1\n${canonicalJson(value)}`);
}

/** Canonical JSON (RFC 8785): no spaces, and every object's keys in the order of their UTF-16 units. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${Array.from(value, canonicalJson).join(',')}]`;
  if (isPlain(value)) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
    return `{${members.join(',')}}`;
  }
  const simple = value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
  if (!simple) throw new EclipticError('INVALID_ENVELOPE', 'only JSON can be signed');
  return JSON.stringify(value);
}

function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
