import { z } from 'zod';
import { LIMITS } from '../mesh/limits.js';
import { AskSchema } from './call.js';
import type { Entry } from './catalogue.js';
import { DefinitionSchema } from './definitions.js';

/** Longer items travel in parts, so that they do not block those behind them. */
export const PART_CHARS = 262_144;
const MAX_SECRETS = 256;

const text = z.string().min(1).max(LIMITS.nameChars);
/** A name within one node: a node speaks for its own agents only. */
export const OwnNameSchema = text.regex(/^[^@]+$/, 'is of another node');
const record = z.record(z.string(), z.unknown());

export const CallSchema = z.strictObject({
  agent: OwnNameSchema,
  ask: AskSchema,
  /** The caller's name and sandbox on the calling node. */
  caller: OwnNameSchema,
  sandbox: text.nullable(),
  capabilities: record,
  answers: record,
  state: z.string().nullable(),
  thread: text.optional(),
  meta: record,
  /** When the caller gives up, by the clock of its node. */
  deadlineAt: z.number().optional(),
});

const OfferedSchema = z.strictObject({
  definition: DefinitionSchema,
  timeoutMs: z.number().positive().nullable(),
  /** Arguments that the caller's node also keeps out of its records. */
  secrets: z.array(z.string()).max(MAX_SECRETS),
});
export type Offered = z.infer<typeof OfferedSchema>;
export const OffersSchema = z.array(OfferedSchema).min(1);

/** What an agent offers, in items that are not too long. */
export function offerItems(agent: string, entries: readonly Entry[]): (readonly unknown[])[] {
  const items: (readonly unknown[])[] = [];
  let chunk: Offered[] = [];
  let chars = 0;
  for (const { definition, offer } of entries) {
    chunk.push({ definition, timeoutMs: offer.timeoutMs ?? null, secrets: [...(offer.secrets ?? [])] });
    chars += JSON.stringify(definition).length;
    if (chars < PART_CHARS) continue;
    items.push(['offer', agent, chunk]);
    chunk = [];
    chars = 0;
  }
  if (chunk.length > 0) items.push(['offer', agent, chunk]);
  return items;
}
