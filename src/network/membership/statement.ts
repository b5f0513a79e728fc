import { EclipticError } from '../../runtime/errors.js';

/**
 * The one text that stands for a value when it is signed: what it is for, then its JSON with every object's keys in
 * order. Two purposes never share a text, so that no signature can be used for something else.
 */
export function statement(purpose: string, value: unknown): Buffer {
  return Buffer.from(`ecliptic ${purpose} 1\n${canonicalJson(value)}`);
}

/** JSON in one spelling (RFC 8785): no spaces, and every object’s keys in the order of their UTF-16 units. */
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
