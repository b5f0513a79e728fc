import { type CheckedBy, readCheck, type Schema, type Shape } from '../mcp/schema.js';
import { describeError, EclipticError } from '../runtime/errors.js';

/** A JSON Schema is compiled with its first use, and the same schema is used many times. */
const checks = new WeakMap<object, Shape['check']>();

/** Throws for something that is no schema. */
export function checkOf(schema: Schema): Shape['check'] {
  const known = checks.get(schema);
  if (known) return known;
  const check = readCheck(schema, 'an expected value');
  checks.set(schema, check);
  return check;
}

/** The value as the schema gives it. Rejects with `code` and the faults of a value that does not match. */
export async function checked<S extends Schema>(
  value: unknown,
  schema: S,
  what: string,
  code: 'INVALID_ARGUMENTS' | 'INVALID_RESULT',
): Promise<CheckedBy<S>> {
  const verdict = await judged(checkOf(schema), value, what, code);
  if ('value' in verdict) return verdict.value as CheckedBy<S>;
  const { faults } = verdict;
  throw new EclipticError(code, `${what} does not match its schema: ${faults.join('; ')}`, { faults });
}

/** A check is code of the author, and may throw anything. */
async function judged(
  check: Shape['check'],
  value: unknown,
  what: string,
  code: 'INVALID_ARGUMENTS' | 'INVALID_RESULT',
) {
  try {
    return await check(value);
  } catch (error) {
    if (error instanceof EclipticError) throw error;
    throw new EclipticError(code, `${what} could not be checked: ${describeError(error)}`, {}, error);
  }
}
