import { z } from 'zod';
import { EclipticError } from '../runtime/errors.js';
import { isWellFormed } from '../runtime/text.js';

/** What agents and people have noted, the rules of the house, and what its people like. */
export const COLLECTIONS = ['memory', 'rules', 'taste'] as const;
export type CollectionName = (typeof COLLECTIONS)[number];

export const ENTRY_LIMITS = {
  textBytes: 8_192,
  tags: 16,
  tagChars: 64,
  queryChars: 1_000,
  found: 50,
} as const;

export interface Share {
  readonly entries: number;
  readonly bytes: number;
}

/** Of one author and of one node, in one collection. */
export interface CollectionShares {
  readonly author: Share;
  readonly node: Share;
}

export const SHARES: CollectionShares = {
  author: { entries: 1_000, bytes: 1_048_576 },
  node: { entries: 5_000, bytes: 8_388_608 },
};

const { textBytes, tags, tagChars } = ENTRY_LIMITS;
const ID = /^[0-9A-HJKMNP-TV-Z]{26}$/;
/** Line ends and tabs are the only control characters of a text. */
const HIDDEN = /[^\P{Cc}\n\t]/u;

const TextSchema = z
  .string('must be text')
  .trim()
  .min(1, 'must not be empty')
  .refine((text) => Buffer.byteLength(text) <= textBytes, `must have at most ${textBytes} bytes`)
  .refine((text) => isWellFormed(text) && !HIDDEN.test(text), 'must have no control characters');
const TagSchema = z
  .string('must be a word')
  .min(1, 'must not be empty')
  .max(tagChars, `must have at most ${tagChars} characters`)
  .regex(/^[\p{L}\p{N}._/:-]+$/u, 'may have letters, digits and . _ / : -');

export const GivenSchema = z.strictObject({
  text: TextSchema,
  tags: z.array(TagSchema).max(tags, `at most ${tags} tags`).default([]),
});

/** An entry as it is in the document. Everything in it is its writer's claim. */
const StoredSchema = GivenSchema.extend({
  author: z.string().min(1).max(256),
  at: z.int().nonnegative(),
});

export type Stored = z.output<typeof StoredSchema>;

export interface Entry extends Stored {
  readonly id: string;
  readonly collection: CollectionName;
  /** The full address of the agent whose node signed the entry. */
  readonly origin: string;
  /** Did the owner of this node write it, here or on another device? */
  readonly owner: boolean;
  /** The sandbox that it stays in. */
  readonly sandbox: string | null;
}

/** Checks what a caller gives, and says what is wrong. */
export function readGiven(given: { text: unknown; tags?: unknown }): z.output<typeof GivenSchema> {
  const parsed = GivenSchema.safeParse(given);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new EclipticError('INVALID_ARGUMENTS', `${path.join('.') || 'the entry'} ${message}`);
}

/** The value under a key of the document, or undefined if it is no entry. Other writers may write anything. */
export function readStored(id: string, value: unknown): Stored | undefined {
  if (!ID.test(id)) return undefined;
  const parsed = StoredSchema.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}
