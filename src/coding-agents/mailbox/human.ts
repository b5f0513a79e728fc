import { z } from 'zod';
import { type Identity, isSignedBy, NODE_KEY } from '../../network/membership/identity.js';

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
