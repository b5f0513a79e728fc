import { EclipticError } from '../../runtime/errors.js';

/** Ids that an error names at most. */
const NAMED = 10;

/** Candidates that are looked up for a shortened id: one more than an error names. */
export const CANDIDATES = NAMED + 1;

/**
 * The id that a person has shortened. One that nothing begins with stays as it is, for its owner to refuse; where
 * several begin with it, the error names them.
 */
export function completeId(given: string, found: Iterable<string>): string {
  const candidates = [...new Set(found)].sort();
  if (candidates.length === 0 || candidates.includes(given)) return given;
  if (candidates.length === 1) return candidates[0]!;
  const more = candidates.length > NAMED ? ', …' : '';
  const named = candidates.slice(0, NAMED);
  throw new EclipticError('AMBIGUOUS_ID', `several ids begin with "${given}": ${named.join(', ')}${more}`, {
    candidates: named,
  });
}
