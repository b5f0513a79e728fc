import { z } from 'zod';
import { LIMITS } from '../mesh/limits.js';
import { ProofSchema } from './equivocation.js';
import { ClaimSchema, MAX_STREAMS, streamName, unreadable } from './segment.js';

/** How many segments of each author stream a replica has. */
export type VectorClock = Readonly<Record<string, number>>;

export const MAX_SEGMENTS = 512;

const VectorSchema = z
  .record(z.string().max(LIMITS.nameChars), z.int().positive())
  .refine((vector) => Object.keys(vector).length <= MAX_STREAMS, 'names too many streams');

const segments = z.array(z.unknown()).max(MAX_SEGMENTS);

const BodySchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('update'), segments }),
  /** The sender's report: its presence, a digest of each stream, and the first refused number of quarantined streams. */
  z.strictObject({
    kind: z.literal('have'),
    presence: z.unknown(),
    sums: z.record(z.string().max(LIMITS.nameChars), z.string().max(32)).optional(),
    quarantined: VectorSchema.optional(),
  }),
  /** The sender asks for the segments that it lacks. */
  z.strictObject({ kind: z.literal('want') }),
  z.strictObject({ kind: z.literal('part'), segments, more: z.boolean() }),
  /** The signature of the segment that results from merging these segments of one stream. */
  z.strictObject({
    kind: z.literal('merged'),
    stream: z.string().max(LIMITS.nameChars),
    first: z.int().positive(),
    number: z.int().positive(),
    signature: z.string().max(128),
  }),
  /** The sender's claims of a stream whose digest differs from the receiver's. */
  z.strictObject({ kind: z.literal('claims'), stream: streamName, claims: z.array(ClaimSchema).max(MAX_SEGMENTS) }),
  /** An author signed contradicting segments. */
  z.strictObject({ kind: z.literal('equivocation'), proof: ProofSchema }),
]);
export type SyncBody = z.infer<typeof BodySchema>;

/** An update in the form of the specification. */
export const CRDTSyncMessageSchema = z.object({
  sourceAgentId: z.string().max(LIMITS.nameChars),
  vectorClock: VectorSchema,
  payload: z.unknown(),
  timestamp: z.number(),
});
export type CRDTSyncMessage = z.infer<typeof CRDTSyncMessageSchema>;

/** The payload of an envelope in a document's thread. */
const SyncMessageSchema = CRDTSyncMessageSchema.extend({ payload: BodySchema });
export interface SyncMessage {
  readonly sourceAgentId: string;
  /** Of an `update`, the place of its segments; otherwise the sender's vector. */
  readonly vectorClock: VectorClock;
  readonly payload: SyncBody;
  readonly timestamp: number;
}

const MADE_HERE = Symbol('made here');
type Made = SyncMessage & { [MADE_HERE]?: SyncMessage };

/** Marks a message of this process, which its own replicas get by reference, so that these need not check it. */
export function markMadeHere(message: SyncMessage): SyncMessage {
  // Its own reference, so that a copy is not marked.
  (message as Made)[MADE_HERE] = message;
  return message;
}

export function readMessage(value: unknown): SyncMessage {
  if (typeof value === 'object' && value !== null && (value as Made)[MADE_HERE] === value) return value as Made;
  const read = SyncMessageSchema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw unreadable(`${issue?.path.join('.') || 'it'}: ${issue?.message}`);
}
