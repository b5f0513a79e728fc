import { z } from 'zod';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import { LIMITS } from '../../mesh/limits.js';
import { cutText } from '../../runtime/text.js';
import { SealSchema } from './human.js';

export const NEEDS = ['none', 'reply', 'ack'] as const;
export type Needs = (typeof NEEDS)[number];

/** Characters of one message between agents: what a model can be expected to read. */
export const MAX_TEXT_CHARS = 100_000;

const LetterSchema = z.object({
  text: z.string().max(MAX_TEXT_CHARS),
  mesh: z.object({
    needs: z.enum(NEEDS),
    /** How many answers to answers led to it. */
    hops: z.int().nonnegative().max(1_000),
    inReplyTo: z.string().max(LIMITS.idChars).optional(),
    /** Of words that a person wrote: the proof. */
    human: SealSchema.optional(),
  }),
});

/** What one agent writes to another. Everything but the text was made by the sender's node. */
export type LetterPayload = z.infer<typeof LetterSchema>;
export type Letter = LetterPayload['mesh'] & { readonly text: string };

/** Reads a message as a letter. What any other agent sends is a letter too: its text is what it says. */
export function readLetter({ type, payload }: Pick<ValidEnvelope, 'type' | 'payload'>): Letter {
  const letter = LetterSchema.safeParse(payload);
  if (letter.success) return { text: letter.data.text, ...letter.data.mesh };
  const needs = type === 'request' || type === 'task-proposal' ? 'reply' : 'none';
  return { text: cutText(textOf(payload), MAX_TEXT_CHARS), needs, hops: 0 };
}

function textOf(payload: unknown): string {
  if (typeof payload === 'string') return payload;
  const { text, ...rest } = (payload ?? {}) as { text?: unknown };
  return typeof text === 'string' && Object.keys(rest).length === 0 ? text : JSON.stringify(payload);
}
