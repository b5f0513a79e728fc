import { EclipticError } from '../runtime/errors.js';

const PAGE_SIZE = 1_000;

/** One page of a list, and the cursor of the next: the place to go on from. */
export function pageOf<K extends string, T>(
  items: readonly T[],
  key: K,
  cursor: string | undefined,
): { [P in K]: T[] } & { nextCursor?: string } {
  const start = cursor === undefined ? 0 : Number(Buffer.from(cursor, 'base64url').toString());
  if (!Number.isSafeInteger(start) || start < 0 || (cursor !== undefined && start === 0)) {
    throw new EclipticError('INVALID_ARGUMENTS', 'the cursor was not made here');
  }
  const end = start + PAGE_SIZE;
  const more = end < items.length && { nextCursor: Buffer.from(String(end)).toString('base64url') };
  return { [key]: items.slice(start, end), ...more } as { [P in K]: T[] } & { nextCursor?: string };
}
