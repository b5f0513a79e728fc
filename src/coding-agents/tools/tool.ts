import { z } from 'zod';
import { EclipticError } from '../../runtime/errors.js';
import type { Member } from '../mailbox/member.js';

/** The text for the model. There is no structured data, because several clients would show their model nothing else. */
export interface Answer {
  readonly text: string;
  /** Set where the tool of another agent failed. */
  readonly isError?: boolean;
  /** Ids of the messages that the text contains in full. */
  readonly shown?: readonly string[];
}

export interface MeshCall {
  /** Grows with each call of a session. */
  readonly number: number;
  readonly signal: AbortSignal;
}

export type MeshTool = (member: Member, args: unknown, call: MeshCall) => Promise<Answer>;

/** The longest a call may wait: well below the time after which clients give up. */
export const LONGEST_WAIT_S = 25;

/** Reads the arguments of a call; the error says which one to change. */
export function read<T>(schema: z.ZodType<T>, args: unknown): T {
  const parsed = schema.safeParse(args ?? {});
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // A misspelt argument is also missing under its right name: report the misspelling.
  const strange = issues.find((each) => each.code === 'unrecognized_keys' && each.path.length === 0);
  if (strange?.code === 'unrecognized_keys' && schema instanceof z.ZodObject) {
    const wrong = strange.keys.map((key) => JSON.stringify(key.slice(0, 100))).join(', ');
    const known = Object.keys(schema.shape).join(', ');
    throw invalid(`there is no argument ${wrong}; there are: ${known}; nothing was done`);
  }
  const [issue] = issues;
  const where = issue?.path.join('.') || 'the arguments';
  throw invalid(`${where}: ${issue?.message}; nothing was done`);
}

export function invalid(message: string): EclipticError {
  return new EclipticError('INVALID_ARGUMENTS', message);
}
