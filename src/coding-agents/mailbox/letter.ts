import { z } from 'zod';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import { LIMITS } from '../../mesh/limits.js';
import { type Identity, isSignedBy, NODE_KEY } from '../../network/membership/identity.js';
import { attachmentsIn, type ObjectRef, sizeText } from '../../objects/reference.js';
import { cutText } from '../../runtime/text.js';

/** The name under which the owner of a node writes. */
export const OWNER = 'operator';
/** Names that agents may use for the owner; no agent can have them. */
const PERSON: ReadonlySet<string> = new Set([OWNER, 'human', 'user']);

export function isPerson(name: string): boolean {
  return PERSON.has(name.toLowerCase());
}

const KEY = 'a person’s key';
const WORDS = 'a person’s words';
const signature = z.string().max(128);

export const SealSchema = z.object({
  key: z.string().regex(NODE_KEY),
  /** The node's signature over the owner's key. */
  vouch: signature,
  at: z.number(),
  signature,
});
export type Seal = z.infer<typeof SealSchema>;

/** A person's message; both addresses with their node. */
export interface Words {
  readonly from: string;
  readonly to: string;
  readonly text: string;
  readonly at: number;
}

/** Signs messages of this node's owner. No agent can reach it. */
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

/** Did the owner of that node write exactly this? */
export function isFromPerson(node: string, words: Omit<Words, 'at'>, seal: Seal): boolean {
  const { key, vouch, at, signature: signed } = seal;
  return isSignedBy(node, KEY, { key }, vouch) && isSignedBy(key, WORDS, { ...words, at }, signed);
}

export const NEEDS = ['none', 'reply', 'ack'] as const;
export type Needs = (typeof NEEDS)[number];

export const MAX_TEXT_CHARS = 100_000;

const LetterSchema = z.object({
  text: z.string().max(MAX_TEXT_CHARS),
  mesh: z.object({
    needs: z.enum(NEEDS),
    /** The length of the reply chain that led to it. */
    hops: z.int().nonnegative().max(1_000),
    inReplyTo: z.string().max(LIMITS.idChars).optional(),
    /** The signature of a person's message. */
    human: SealSchema.optional(),
    /** From the recipient's node. Only counts in mail that an agent's own node sends under the agent's name. */
    notice: z.literal(true).optional(),
  }),
});

/** Everything but the text is made by the sender's node. */
export type Letter = z.infer<typeof LetterSchema>['mesh'] & {
  readonly text: string;
  readonly attachments: readonly ObjectRef[];
};

/** Reads any message as a letter: the payload of a foreign agent becomes its text. */
export function readLetter({ type, payload }: Pick<ValidEnvelope, 'type' | 'payload'>): Letter {
  const letter = LetterSchema.safeParse(payload);
  const attachments = attachmentsIn(payload);
  if (letter.success) return { ...letter.data.mesh, text: letter.data.text + listed(attachments), attachments };
  const needs = type === 'request' || type === 'task-proposal' ? 'reply' : 'none';
  const { attachments: _, ...rest } = (payload ?? {}) as { attachments?: unknown };
  const text = cutText(textOf(attachments.length > 0 ? rest : payload), MAX_TEXT_CHARS);
  return { text: text + listed(attachments), needs, hops: 0, attachments };
}

/** Names of files are the writer's words, as the text is. */
function listed(attachments: readonly ObjectRef[]): string {
  return attachments.map(({ name, mediaType, size }) => `\n[file: ${name}, ${mediaType}, ${sizeText(size)}]`).join('');
}

function textOf(payload: unknown): string {
  if (typeof payload === 'string') return payload;
  const { text, ...rest } = (payload ?? {}) as { text?: unknown };
  return typeof text === 'string' && Object.keys(rest).length === 0 ? text : JSON.stringify(payload);
}
