import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';

/** Nothing that an agent calls takes longer than this, whatever it asks for. */
export const LONGEST_WAIT_S = 25;

/** Reads the arguments of a call; the error says which one to change. */
export function read<T>(schema: z.ZodType<T>, args: unknown): T {
  const parsed = schema.safeParse(args ?? {});
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue?.code === 'unrecognized_keys' && issue.path.length === 0 && schema instanceof z.ZodObject) {
    const wrong = issue.keys.map((key) => JSON.stringify(key.slice(0, 100))).join(', ');
    const known = Object.keys(schema.shape).join(', ');
    throw new EclipticError(
      'INVALID_ARGUMENTS',
      `there is no argument ${wrong}; there are: ${known}; nothing was done`,
    );
  }
  const where = issue?.path.join('.') || 'the arguments';
  throw new EclipticError('INVALID_ARGUMENTS', `${where}: ${issue?.message}; nothing was done`);
}
