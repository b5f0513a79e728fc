import { z } from 'zod';
import { NodeKeySchema } from '../membership/certificate.js';
import { isNodeKey } from '../membership/identity.js';
import { ConfirmationSchema } from './directory-entry.js';
import { malformed } from './wire.js';

/** Entries that one node keeps. */
export const MAX_ENTRIES = 10_000;
/** Entries in one item. */
export const MAX_LISTED = 1_000;

/** The entries that a node has: of whom, which version, and how many milliseconds ago that node was last heard of. */
export type Had = readonly [node: string, version: number, ageMs: number];
export const DigestSchema = z.string().length(43);
export const WantSchema = z.array(NodeKeySchema).max(MAX_LISTED);
export const ConfirmedSchema = z.tuple([z.string(), ConfirmationSchema]);
export const EntriesSchema = z.array(ConfirmedSchema).max(MAX_LISTED);

/** An entry that a neighbour says it has. */
export interface Offer {
  readonly version: number;
  readonly ageMs: number;
  /** When it was offered, by the stopwatch. */
  readonly at: number;
}

export interface Neighbour {
  /** Entries that it is to be told of with the next gathering. */
  readonly have: Set<string>;
  /** Its entries that are news here and were not asked for yet, because another neighbour was asked first. */
  readonly offers: Map<string, Offer>;
  /** Its entries that were asked for: when, and how long ago their nodes had been heard of. */
  readonly asked: Map<string, { readonly at: number; readonly ageMs: number }>;
  /** Characters of entries that it was given since the last tick. */
  given: number;
  /** It said that it stops. */
  stopped: boolean;
}

/** Checks by hand what comes from every neighbour about every node. */
export function readHad(said: unknown): Had {
  const [node, version, ageMs] = Array.isArray(said) && said.length === 3 ? (said as unknown[]) : [];
  const isVersion = Number.isSafeInteger(version) && (version as number) >= 0;
  const isAge = typeof ageMs === 'number' && ageMs >= 0;
  if (!isVersion || !isAge || typeof node !== 'string' || !isNodeKey(node)) throw malformed('no list of known entries');
  return said as unknown as Had;
}

/** The list of an item, whose elements are checked one by one: most of them say what is known. */
export function listOf(body: unknown, most: number): readonly unknown[] {
  if (!Array.isArray(body) || body.length > most) throw malformed('the directory item has no list, or too long a one');
  return body;
}
