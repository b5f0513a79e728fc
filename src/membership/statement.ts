import { EclipticError } from '../runtime/errors.js';

/**
 * The one text that stands for a value when it is signed: what it is for, then its JSON with every object's keys in
 * order. Two purposes never share a text, so that no signature can be used for something else.
 */
export function statement(purpose: string, value: unknown): Buffer {
  return Buffer.from(`ecliptic ${purpose} 1\n${canonical(value)}`);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${Array.from(value, canonical).join(',')}]`;
  if (isPlain(value)) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`);
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
