import { z } from 'zod';
import { LIMITS } from '../../mesh/limits.js';
import { EclipticError } from '../../runtime/errors.js';
import { MAX_FRAME_BYTES } from '../links/link.js';
import { ChainSchema, NodeKeySchema } from '../membership/certificate.js';

/** The wire format between nodes; `docs/wire-protocol.md` describes it. A frame is one JSON array that begins with its kind. */
export const FRAME = {
  join: 'join',
  welcome: 'welcome',
  hello: 'hello',
  refused: 'refused',
  incompatible: 'incompatible',
  data: 'd',
  ping: 'p',
  pong: 'q',
  rest: 'rest',
  bye: 'bye',
} as const;

/** The kinds of items in a data frame. The letters are fixed since version 1; a new protocol uses a word of its own. */
export const ITEM = {
  message: 'm',
  cards: 'c',
  cardsGone: 'g',
  channelOpen: 'o',
  channelAnswer: 'y',
  channelMessage: 'x',
  channelClose: 'z',
  removal: 'r',
  members: 'k',
  renewal: 'n',
  doubled: 'i',
  mail: 's',
  receipts: 't',
  receiptsStored: 'u',
  mailProgress: 'v',
  tools: 'e',
  documents: 'w',
  leases: 'l',
  devices: 'devices',
  directory: 'directory',
  edge: 'edge',
  objects: 'objects',
  a2a: 'a2a',
} as const;

export const PROTOCOL = { min: 1, max: 6 } as const;
/** Since version 2, `members` items carry certificates, `doubled` items are understood, and mail progress is told. */
export const CERTIFIED_MEMBERS = 2;
/** Since version 3, certificates may have the `owner` grant, and `devices` items are understood. */
export const OWNER_DEVICES = 3;
/** Since version 4, a list of cards has one signature, nodes keep a directory, and a link may be closed as `idle`. */
export const DIRECTORY = 4;
/** Since version 4, `edge` items are understood. */
export const EDGE = 4;
/** Since version 5, `objects` items are understood. */
export const OBJECTS = 5;
/** Since version 6, `a2a` items are understood. */
export const A2A = 6;

/** The byte of a comma. */
export const COMMA = 0x2c;

const Versions = z.object({ min: z.int(), max: z.int() });
const text = z.string().max(LIMITS.nameChars);
const counter = z.int().nonnegative();
const id = z.string().min(1).max(LIMITS.idChars);

export const AddressSchema = z
  .string()
  .max(LIMITS.nameChars)
  // A host and a port only: another node must not choose a user, path or query that this one would send.
  .regex(/^wss?:\/\/(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i);
const addresses = z.array(AddressSchema).max(8);

/** The beginning of every opening frame. The rest is read only after the versions agree. */
export const OpeningSchema = z.object({ protocol: Versions, software: text });

export const HelloSchema = OpeningSchema.extend({
  time: z.number(),
  chain: z.unknown(),
  proof: z.unknown(),
  session: id,
  /** The other side's session id, if the sender remembers a conversation. */
  knows: id.nullable().optional(),
  /** Tells processes with one key apart. */
  instance: id.optional(),
  addresses,
  /** The sender's signature under its addresses, which others pass on. */
  announced: z.object({ at: z.number(), signature: text }).optional(),
});

export const JoinSchema = OpeningSchema.extend({ invite: id, proof: text, name: text });

export const WelcomeSchema = z.object({
  proof: text,
  mesh: NodeKeySchema,
  meetingSecret: z.string().regex(/^[0-9a-f]{64}$/),
  chain: ChainSchema,
  bootstrap: z.array(text).max(16),
});

export const RefusedSchema = z.object({ code: text, reason: z.string().max(LIMITS.textChars) });

export type Hello = z.infer<typeof HelloSchema>;

export type Refusal = readonly [seq: number, code: string, reason: string];

export interface DataFrame {
  readonly first: number;
  /** The lowest number that the sender may still send again. */
  readonly base: number;
  /** Acknowledges the other side's items up to this number. */
  readonly received: number;
  readonly refusals: readonly Refusal[];
  readonly items: readonly Item[];
}

export type Item = readonly [kind: string, ...rest: unknown[]];

export type Frame = readonly [kind: string, ...rest: unknown[]];

const RefusalsSchema = z.array(z.tuple([counter, text, z.string()])).max(10_000);
/** The end of a conversation by agreement: the items that were taken until then. */
export const RestedSchema = z.tuple([counter, RefusalsSchema]);

/** Other members. Entries without a certificate, as version 1 sends them, are ignored. */
export const MembersSchema = z.array(z.unknown()).max(256);
export const KnownSchema = z.union([
  z.tuple([NodeKeySchema, addresses]),
  z.tuple([NodeKeySchema, addresses, ChainSchema, z.number(), text]),
]);
export const AnnouncedSchema = z.tuple([NodeKeySchema, addresses, z.number(), text]);
export type Known = z.infer<typeof KnownSchema>;
export const CardsSchema = z.array(z.unknown()).max(1_000);
export const IdsSchema = z.array(id).max(1_000);
export const ChannelOpenSchema = z.tuple([id, text, text]);
export const ChannelAnswerSchema = z.tuple([id, z.string().max(LIMITS.textChars).nullable()]);

export function encodeFrame(frame: Frame): Uint8Array {
  return Buffer.from(JSON.stringify(frame));
}

/** A data frame. Its items are runs of JSON texts with commas between them. */
export function encodeData(
  first: number,
  base: number,
  received: number,
  refusals: readonly Refusal[],
  runs: readonly Uint8Array[],
): Uint8Array {
  const refused = refusals.length === 0 ? '[]' : JSON.stringify(refusals);
  const head = `["${FRAME.data}",${first},${base},${received},${refused},[`;
  // Reasons of refusals are the only text that may be anything but ASCII.
  let length = (refusals.length === 0 ? head.length : Buffer.byteLength(head)) + 2;
  for (const { byteLength } of runs) length += byteLength + 1;
  if (runs.length > 0) length--;
  const frame = Buffer.allocUnsafe(length);
  let at = frame.write(head);
  runs.forEach((run, index) => {
    if (index > 0) frame[at++] = COMMA;
    frame.set(run, at);
    at += run.byteLength;
  });
  frame.write(']]', at, 'latin1');
  return frame;
}

export function decodeFrame(bytes: Uint8Array): Frame {
  if (bytes.byteLength > MAX_FRAME_BYTES) throw malformed(`it has ${bytes.byteLength} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  } catch {
    throw malformed('it is not JSON');
  }
  if (!Array.isArray(value) || typeof value[0] !== 'string') throw malformed('it has no kind');
  return value as unknown as Frame;
}

/** Reads a data frame. By hand, because a hundred thousand may arrive in a second. */
export function readData(frame: Frame): DataFrame {
  const first = frame[1];
  const base = frame[2];
  const received = frame[3];
  const refusals = frame[4];
  const items = frame[5];
  const numbered = isCounter(first) && isCounter(base) && isCounter(received) && 0 < base && base <= first;
  if (!numbered || !Array.isArray(items)) throw malformed('its numbers are wrong');
  const refused = Array.isArray(refusals) && refusals.length === 0 ? [] : parsed(RefusalsSchema, refusals);
  for (const item of items)
    if (!Array.isArray(item) || typeof item[0] !== 'string') throw malformed('an item is wrong');
  return { first, base, received, refusals: refused, items: items as unknown as Item[] };
}

/** Reads part of a frame by its schema; throws `INVALID_FRAME`. */
export function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw malformed(`${issue?.path.join('.') || 'it'}: ${issue?.message}`);
}

export function malformed(reason: string): EclipticError {
  return new EclipticError('INVALID_FRAME', `a frame is malformed: ${reason}`, { reason });
}

function isCounter(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
