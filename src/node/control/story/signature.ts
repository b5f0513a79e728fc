import { isFromPerson, OWNER, readLetter } from '../../../coding-agents/mailbox/letter.js';
import type { StoryEvent } from '../../../http/dashboard/facts.js';
import { fullAddress, splitAddress } from '../../../mesh/address.js';
import type { A2AEnvelope } from '../../../mesh/schemas.js';
import { eventOf } from './told.js';

/** The signature of a person's message, checked again; nothing without one, and once the node has only its text. */
export function signatureEvents(
  envelope: Pick<A2AEnvelope, 'sender' | 'recipient' | 'type' | 'payload'>,
  key: string,
): StoryEvent[] {
  if (typeof envelope.payload !== 'object' || envelope.payload === null) return [];
  const { human, text } = readLetter(envelope);
  const { id, node = key } = splitAddress(envelope.sender);
  if (!human || id !== OWNER) return [];
  const words = { from: `${id}@${node}`, to: fullAddress(envelope.recipient, key), text };
  const isValid = isFromPerson(node, words, human);
  const proof = { kind: 'signature', text: `signature of the owner’s key ${human.key.slice(0, 12)}` } as const;
  if (isValid) return [eventOf(key, { at: human.at, from: envelope.sender, word: 'signed', proof })];
  const rule = 'the signature is not that of the owner of the sender’s node, or the text was changed';
  return [eventOf(key, { at: human.at, from: envelope.sender, word: 'signature wrong', rule, proof })];
}
