import { createHash } from 'node:crypto';
import { z } from 'zod';
import { splitAddress } from '../mesh/address.js';
import { LIMITS } from '../mesh/limits.js';
import { isSignedBy } from '../network/membership/identity.js';
import { EclipticError } from '../runtime/errors.js';

/** Bytes of one update. With what is around it in base64, it fits into an envelope. */
export const MAX_UPDATE_BYTES = 524_288;
/** Author streams of one document: one for each time that an author started and wrote. */
export const MAX_STREAMS = 4_096;

const SIGNED_FOR = 'state-segment';
const count = z.int().positive();
export const streamName = z
  .string()
  .max(LIMITS.nameChars)
  .regex(/^[^@/\s]+@[^@/\s]+\/[0-9a-z]{1,32}$/);

/** A segment as it travels and is kept. */
const WireSchema = z.strictObject({
  stream: streamName,
  first: count,
  number: count,
  after: z.record(streamName, count),
  update: z.base64().max(4 * Math.ceil(MAX_UPDATE_BYTES / 3)),
  signature: z.string().max(128),
});
export type SegmentWire = z.infer<typeof WireSchema>;

/** What an author's node signs of a segment: everything but the update itself, which has a digest. */
export const ClaimSchema = z.strictObject({
  first: count,
  number: count,
  after: z.record(streamName, count),
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  signature: z.string().max(128),
});
export type Claim = z.infer<typeof ClaimSchema>;

/** What an author's node signs with. */
export interface Signer {
  sign(purpose: string, value: unknown): string;
}

export interface SegmentInit {
  /** `author@node/session`: numbers of one author begin anew in each session, so that none is ever given twice. */
  readonly stream: string;
  /** The lowest number that it stands for: lower than its own if it was made of several. */
  readonly first: number;
  readonly number: number;
  /** What the author had seen of other streams, as far as that is more than with its segment before. */
  readonly after: Readonly<Record<string, number>>;
  readonly update: Uint8Array;
}

/** What one author changed in one turn: signed by its node, and passed on as it is. */
export class Segment implements SegmentInit {
  readonly stream: string;
  readonly first: number;
  readonly number: number;
  readonly after: Readonly<Record<string, number>>;
  readonly update: Uint8Array;
  /** When this process made it or got it from another node; unknown of those read from the store. */
  seenAt: number | undefined;
  #signature: string;
  #digest: string | undefined;

  constructor(init: SegmentInit, signature = '') {
    this.stream = init.stream;
    this.first = init.first;
    this.number = init.number;
    this.after = init.after;
    this.update = init.update;
    this.#signature = signature;
  }

  /** Reads what claims to be a segment. Of one that was made in this process, this is it. */
  static read(value: unknown): Segment {
    const made = typeof value === 'object' && value !== null ? MADE_HERE.get(value) : undefined;
    if (made) return made;
    const wire = WireSchema.safeParse(value);
    if (!wire.success) {
      const [issue] = wire.error.issues;
      throw unreadable(`${issue?.path.join('.') || 'it'}: ${issue?.message}`);
    }
    const { stream, first, number, after, update, signature } = wire.data;
    if (first > number) throw unreadable('it ends before it begins');
    return new Segment({ stream, first, number, after, update: decoded(update) }, signature);
  }

  /** Was exactly this value made by a segment of this process? Then nobody else can have touched it. */
  static isMadeHere(value: unknown): boolean {
    return typeof value === 'object' && value !== null && MADE_HERE.has(value);
  }

  get author(): string {
    return authorOf(this.stream);
  }

  /** How many turns it stands for. */
  get turns(): number {
    return this.number - this.first + 1;
  }

  get signature(): string {
    return this.#signature;
  }

  /** Signs it, if that was not done before; only its author's node can. */
  sign(thread: string, signer: Signer): void {
    if (this.#signature === '')
      this.#signature = signer.sign(SIGNED_FOR, statementOf(thread, this.stream, this.claim()));
  }

  isSigned(thread: string): boolean {
    return isClaimSigned(thread, this.stream, this.claim());
  }

  claim(): Claim {
    const { first, number, after } = this;
    this.#digest ??= digestOf(this.update);
    return { first, number, after, digest: this.#digest, signature: this.#signature };
  }

  /** Agents of this node need no signature; other nodes do. */
  wire(signed: boolean): SegmentWire {
    const { stream, first, number, after } = this;
    const update = Buffer.from(this.update).toString('base64');
    const wire = { stream, first, number, after, update, signature: signed ? this.#signature : '' };
    MADE_HERE.set(wire, this);
    return wire;
  }
}

export function isClaimSigned(thread: string, stream: string, claim: Claim): boolean {
  const node = splitAddress(authorOf(stream)).node!;
  return isSignedBy(node, SIGNED_FOR, statementOf(thread, stream, claim), claim.signature);
}

function statementOf(thread: string, stream: string, { first, number, after, digest }: Claim): unknown {
  return [thread, stream, first, number, after, digest];
}

export function digestOf(update: Uint8Array): string {
  return createHash('sha256').update(update).digest('hex');
}

/** Payloads are shared by reference within a process: such a one need not be read, nor its signature checked. */
const MADE_HERE = new WeakMap<object, Segment>();

/** A document keeps its segments, and a small slice of Buffer's pool would keep eight kilobytes with each of them. */
function decoded(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

export function unreadable(reason: string, details: Record<string, unknown> = {}): EclipticError {
  const text = `an update cannot be taken: ${reason}`;
  return new EclipticError('CRDT_DESERIALIZATION_FAILED', text, { reason, ...details });
}

export function authorOf(stream: string): string {
  return stream.slice(0, stream.indexOf('/'));
}

/**
 * The Yjs client of a stream. It follows from the name, so that nobody can make one under which another's changes
 * would pass as its own; not without trying 2^52 names for one document.
 */
export function clientOf(thread: string, stream: string): number {
  const digest = createHash('sha256').update(`${thread}\n${stream}`).digest();
  return digest.readUIntBE(0, 6) * 16 + (digest[6]! >> 4);
}
