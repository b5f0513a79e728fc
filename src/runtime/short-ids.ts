import { EclipticError } from './errors.js';

/** An `AMBIGUOUS_ID` error names at most this many ids. */
const NAMED = 10;

/** How many candidates to look up for a shortened id. */
export const CANDIDATES = NAMED + 1;

/** Names some of the ids that a shortened one may mean. */
export function ambiguousId(given: string, candidates: readonly string[]): EclipticError {
  const more = candidates.length > NAMED ? ', …' : '';
  const named = candidates.slice(0, NAMED);
  // The part of a task id after the dot is the key of its node, which is of no use in a list to choose from.
  const shown = named.map((id) => id.split('.', 1)[0]);
  return new EclipticError('AMBIGUOUS_ID', `several ids begin with "${given}": ${shown.join(', ')}${more}`, {
    candidates: named,
  });
}
