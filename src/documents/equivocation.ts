import { z } from 'zod';
import { canonicalJson } from '../network/membership/statement.js';
import {
  type Claim,
  ClaimSchema,
  digestOf,
  isClaimSigned,
  MAX_UPDATE_BYTES,
  mergeSegments,
  Segment,
  streamName,
} from './segment.js';

/** Segments that a merged segment in a proof can cover. */
const MAX_RUN = 4_096;

/**
 * Proves by the author's own signatures that it signed contradicting segments of one stream: either two that cannot both
 * be honest, or a merged one that is not the merge of the segments it covers, whose updates are then included.
 */
export const ProofSchema = z.strictObject({
  stream: streamName,
  claim: ClaimSchema,
  against: z.array(ClaimSchema).min(1).max(MAX_RUN),
  updates: z.array(z.base64()).max(MAX_RUN),
});
export type Proof = z.infer<typeof ProofSchema>;

/** The first number of the stream that every replica refuses; undefined if the proof does not hold. */
export function quarantinePoint(thread: string, proof: Proof): number | undefined {
  const { stream, claim, against } = proof;
  // The cheap checks first.
  if (!isClaimSigned(thread, stream, claim)) return undefined;
  const holds = against.length === 1 ? contradicts(claim, against[0]!) : isFalseMerge(proof);
  if (!holds || !against.every((one) => isClaimSigned(thread, stream, one))) return undefined;
  return claimedPoint(proof);
}

/** The `quarantinePoint`, without a check of the proof. */
export function claimedPoint({ claim, against }: Proof): number {
  return Math.min(claim.first, against[0]!.first);
}

export function weightOf({ against, updates }: Proof): number {
  let bytes = 512 * (1 + against.length);
  for (const update of updates) bytes += update.length;
  return bytes;
}

export function isSame(a: Claim, b: Claim): boolean {
  return a.first === b.first && a.number === b.number && !contradicts(a, b);
}

/** A proof that this claim contradicts segments of the same stream, if it does. */
export function proofAgainst(
  stream: string,
  claim: Claim,
  run: readonly Segment[],
  refused?: Claim,
): Proof | undefined {
  const claims = run.map((segment) => segment.claim());
  const single = [...claims, ...(refused ? [refused] : [])].find((known) => contradicts(claim, known));
  if (single) return { stream, claim, against: [single], updates: [] };
  let bytes = 0;
  for (const { update } of run) bytes += update.length;
  // An honest author merges at most half of that.
  if (run.length < 2 || bytes > MAX_UPDATE_BYTES) return undefined;
  const updates = run.map(({ update }) => Buffer.from(update).toString('base64'));
  const proof = { stream, claim, against: claims, updates };
  return isFalseMerge(proof) ? proof : undefined;
}

function overlap(a: { first: number; number: number }, b: { first: number; number: number }): boolean {
  return a.first <= b.number && b.first <= a.number;
}

/**
 * An honest author signs each number once, and merges only whole segments, of which only the first depends on other
 * streams. So the ranges of two of its segments are disjoint, equal, or nested.
 */
function contradicts(a: Claim, b: Claim): boolean {
  if (!overlap(a, b)) return false;
  const sameAfter = () => canonicalJson(a.after) === canonicalJson(b.after);
  if (a.first === b.first && a.number === b.number) return a.digest !== b.digest || !sameAfter();
  const [outer, inner] = a.number - a.first > b.number - b.first ? [a, b] : [b, a];
  if (inner.first < outer.first || inner.number > outer.number) return true;
  return inner.first === outer.first ? !sameAfter() : Object.keys(inner.after).length > 0;
}

function isFalseMerge({ stream, claim, against, updates }: Proof): boolean {
  if (updates.length !== against.length) return false;
  const run: Segment[] = [];
  let next = claim.first;
  for (const [index, { first, number, after, digest }] of against.entries()) {
    const update = new Uint8Array(Buffer.from(updates[index]!, 'base64'));
    if (first !== next || digestOf(update) !== digest) return false;
    run.push(new Segment({ stream, first, number, after, update }));
    next = number + 1;
  }
  if (next !== claim.number + 1) return false;
  try {
    return contradicts(claim, mergeSegments(run).claim());
  } catch {
    return false;
  }
}
