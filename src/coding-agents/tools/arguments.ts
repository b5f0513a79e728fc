import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';

/** Nothing that an agent calls takes longer than this, whatever it asks for. */
export const LONGEST_WAIT_S = 25;

/** Reads the arguments of a call; the error says which one to change. */
export function read<T>(schema: z.ZodType<T>, args: unknown): T {
  const parsed = schema.safeParse(args ?? {});
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // A misspelt name is also missing under its right one: say what can be mended.
  const strange = issues.find((each) => each.code === 'unrecognized_keys' && each.path.length === 0);
  if (strange?.code === 'unrecognized_keys' && schema instanceof z.ZodObject) {
    const wrong = strange.keys.map((key) => JSON.stringify(key.slice(0, 100))).join(', ');
    const known = Object.keys(schema.shape).join(', ');
    throw new EclipticError(
      'INVALID_ARGUMENTS',
      `there is no argument ${wrong}; there are: ${known}; nothing was done`,
    );
  }
  const [issue] = issues;
  const where = issue?.path.join('.') || 'the arguments';
  throw new EclipticError('INVALID_ARGUMENTS', `${where}: ${issue?.message}; nothing was done`);
}
