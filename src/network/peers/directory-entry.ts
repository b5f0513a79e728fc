import { createHash } from 'node:crypto';
import { z } from 'zod';
import { LIMITS } from '../../mesh/limits.js';
import type { DirectoryEntry } from '../directory/directory.js';
import { type Chain, ChainSchema, NodeKeySchema, refusedMember } from '../membership/certificate.js';
import { type Identity, isSignedBy } from '../membership/identity.js';
import { AddressSchema, type Item, malformed, parsed } from './wire.js';

/** Characters of an entry. A node with more to say is talked to directly by every other. */
export const MAX_ENTRY_CHARS = 524_288;

const ENTRY_PURPOSE = 'directory entry';
const CONFIRMATION_PURPOSE = 'directory confirmation';

const text = z.string().max(LIMITS.nameChars);
const version = z.int().nonnegative();

const AboutSchema = z.object({
  node: NodeKeySchema,
  version,
  /** The latest version of the wire protocol that the node speaks. */
  protocol: z.int().positive(),
  software: text,
  chain: ChainSchema,
  addresses: z.array(AddressSchema).max(8),
  /** Are the node's announcements all in this entry? */
  complete: z.boolean(),
  /** The node stops, and has nothing to announce. */
  gone: z.boolean(),
  items: z.array(z.custom<Item>((item) => Array.isArray(item) && typeof item[0] === 'string')).max(100_000),
});

/** What a node says of itself: its membership, where it listens, and what its protocols announce. */
export interface NodeAbout {
  readonly node: string;
  readonly version: number;
  readonly protocol: number;
  readonly software: string;
  readonly chain: Chain;
  readonly addresses: readonly string[];
  readonly complete: boolean;
  readonly gone: boolean;
  readonly items: readonly Item[];
}

const SignedSchema = z.tuple([NodeKeySchema, version, z.string().max(MAX_ENTRY_CHARS), text]);

/** A node's word that the entry of this version still holds. */
export const ConfirmationSchema = z.tuple([NodeKeySchema, version, z.number(), text]);
export type Confirmation = z.infer<typeof ConfirmationSchema>;

export function signEntry(identity: Identity, about: Omit<NodeAbout, 'node'>): DirectoryEntry {
  const node = identity.key;
  const body = JSON.stringify({ node, ...about });
  const signature = identity.sign(ENTRY_PURPOSE, { digest: digestOf(body) });
  return { node, version: about.version, text: JSON.stringify([node, about.version, body, signature]) };
}

/** The node and version of an entry, unproven: enough to tell whether it is worth reading. */
export function headOf(entryText: string): EntryHead {
  if (lastHead?.text !== entryText) {
    const [node, version] = readSigned(entryText);
    lastHead = { text: entryText, head: { node, version } };
  }
  return lastHead.head;
}

interface EntryHead {
  readonly node: string;
  readonly version: number;
}

/** Each part that an entry passes through asks for its head. */
let lastHead: { readonly text: string; readonly head: EntryHead } | undefined;

/** Entries that were read lately: every directory and every node of this process reads the same ones. */
const readLately = new Map<string, NodeAbout>();
const MAX_READ_CHARS = 1_048_576;
let readChars = 0;

/** Reads an entry. Throws `INVALID_FRAME` unless its node has signed it, and `MEMBERSHIP_REFUSED` if the node wrote nonsense. */
export function readEntry(entryText: string): NodeAbout {
  const known = readLately.get(entryText);
  if (known) return known;
  const about = checkEntry(entryText);
  readLately.set(entryText, about);
  readChars += entryText.length;
  for (const [oldest] of readLately) {
    if (readChars <= MAX_READ_CHARS) break;
    readLately.delete(oldest);
    readChars -= oldest.length;
  }
  return about;
}

function checkEntry(entryText: string): NodeAbout {
  const [node, entryVersion, body, signature] = readSigned(entryText);
  if (!isSignedBy(node, ENTRY_PURPOSE, { digest: digestOf(body) }, signature)) {
    throw malformed('a directory entry has the wrong signature');
  }
  const { success, data: about, error } = AboutSchema.safeParse(parseJson(body));
  // Another node may pass it on in good faith: the fault is that of the node which signed it.
  if (!success) throw refusedMember(node, `its directory entry: ${error.issues[0]?.message}`);
  if (about.node !== node || about.version !== entryVersion) {
    throw refusedMember(node, 'its directory entry names another node or version');
  }
  return about;
}

export function signConfirmation(identity: Identity, entryVersion: number, at: number): Confirmation {
  const { key: node } = identity;
  return [node, entryVersion, at, identity.sign(CONFIRMATION_PURPOSE, { node, version: entryVersion, at })];
}

export function isConfirmed([node, entryVersion, at, signature]: Confirmation): boolean {
  return isSignedBy(node, CONFIRMATION_PURPOSE, { node, version: entryVersion, at }, signature);
}

function readSigned(entryText: string): z.infer<typeof SignedSchema> {
  if (entryText.length > 2 * MAX_ENTRY_CHARS) throw malformed('a directory entry is too long');
  return parsed(SignedSchema, parseJson(entryText));
}

/** Undefined if it is not JSON, which no schema takes. */
function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function digestOf(body: string): string {
  return createHash('sha256').update(body).digest('hex');
}
