import { z } from 'zod';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import { LIMITS } from '../../mesh/limits.js';
import { type Identity, isSignedBy, NODE_KEY } from '../../network/membership/identity.js';
import { cutText } from '../../runtime/text.js';

/** The name under which the owner of a node speaks. */
export const OWNER = 'operator';
/** What agents call the person, besides that; no agent can have these names. */
const PERSON: ReadonlySet<string> = new Set([OWNER, 'human', 'user']);

export function isPerson(name: string): boolean {
  return PERSON.has(name.toLowerCase());
}

const KEY = 'a person’s key';
const WORDS = 'a person’s words';
const signature = z.string().max(128);

export const SealSchema = z.object({
  key: z.string().regex(NODE_KEY),
  /** The node's word that this is its owner's key. */
  vouch: signature,
  at: z.number(),
  signature,
});
export type Seal = z.infer<typeof SealSchema>;

/** What a person says, and to whom: both addresses in full. */
export interface Words {
  readonly from: string;
  readonly to: string;
  readonly text: string;
  readonly at: number;
}

/** Seals what the owner of this node says. Nothing that agents can call leads here. */
export class HumanSeal {
  readonly #person: Identity;
  readonly #vouch: string;

  constructor(node: Identity, person: Identity) {
    this.#person = person;
    this.#vouch = node.sign(KEY, { key: person.key });
  }

  seal(words: Words): Seal {
    const { key } = this.#person;
    return { key, vouch: this.#vouch, at: words.at, signature: this.#person.sign(WORDS, words) };
  }
}

/** Did the owner of that node say exactly this? */
export function isFromPerson(node: string, words: Omit<Words, 'at'>, seal: Seal): boolean {
  const { key, vouch, at, signature: signed } = seal;
  return isSignedBy(node, KEY, { key }, vouch) && isSignedBy(key, WORDS, { ...words, at }, signed);
}

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
