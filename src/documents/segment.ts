import { createHash } from 'node:crypto';
import * as Y from 'yjs';
import { z } from 'zod';
import { splitAddress } from '../mesh/address.js';
import { LIMITS } from '../mesh/limits.js';
import { isSignedBy } from '../network/membership/identity.js';
import { EclipticError } from '../runtime/errors.js';

/** Bytes of one update. In base64, with the other fields, it fits into an envelope. */
export const MAX_UPDATE_BYTES = 524_288;
/** Author streams of one document: one for each session in which an author wrote. */
export const MAX_STREAMS = 4_096;

const SIGNED_FOR = 'state-segment';
const count = z.int().positive();
export const streamName = z
  .string()
  .max(LIMITS.nameChars)
  .regex(/^[^@/\s]+@[^@/\s]+\/[0-9a-z]{1,32}$/);

const WireSchema = z.strictObject({
  stream: streamName,
  first: count,
  number: count,
  after: z.record(streamName, count),
  update: z.base64().max(4 * Math.ceil(MAX_UPDATE_BYTES / 3)),
  signature: z.string().max(128),
});
export type SegmentWire = z.infer<typeof WireSchema>;

/** The signed part of a segment: all fields, with a digest in place of the update. */
export const ClaimSchema = z.strictObject({
  first: count,
  number: count,
  after: z.record(streamName, count),
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  signature: z.string().max(128),
});
export type Claim = z.infer<typeof ClaimSchema>;

export interface Signer {
  sign(purpose: string, value: unknown): string;
}

export interface SegmentInit {
  /** `author@node/session`: each session of an author numbers from one, so that no number is used twice. */
  readonly stream: string;
  /** The lowest number that it covers: lower than `number` if it was merged from several. */
  readonly first: number;
  readonly number: number;
  /** The segments of other streams that its author has applied since its previous segment. */
  readonly after: Readonly<Record<string, number>>;
  readonly update: Uint8Array;
}

/** Payloads are shared by reference within a process. A weak map instead would cost as much as the rest of a message. */
const SEGMENT = Symbol('segment');
interface Referring {
  [SEGMENT]?: Segment;
}

/** The changes of one author in one turn: signed by its node, and relayed unchanged. */
export class Segment implements SegmentInit {
  readonly stream: string;
  readonly first: number;
  readonly number: number;
  readonly after: Readonly<Record<string, number>>;
  readonly update: Uint8Array;
  /** When this process made or received it; undefined if it was read from the store. */
  seenAt: number | undefined;
  /** The end of its author's changes; known if a replica of this process has made or inspected it. */
  end: number | undefined;
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

  /** Reads a segment. For a reference that this process made, returns the original. */
  static read(value: unknown): Segment {
    const referenced = Segment.referencedBy(value);
    if (referenced) return referenced;
    const wire = WireSchema.safeParse(value);
    if (!wire.success) {
      const [issue] = wire.error.issues;
      throw unreadable(`${issue?.path.join('.') || 'it'}: ${issue?.message}`);
    }
    const { stream, first, number, after, update, signature } = wire.data;
    if (first > number) throw unreadable('it ends before it begins');
    return new Segment({ stream, first, number, after, update: decoded(update) }, signature);
  }

  /** The segment that a reference of this process stands for. Nothing that was JSON is one, so it cannot be forged. */
  static referencedBy(value: unknown): Segment | undefined {
    return typeof value === 'object' && value !== null ? (value as Referring)[SEGMENT] : undefined;
  }

  get author(): string {
    return authorOf(this.stream);
  }

  get turns(): number {
    return this.number - this.first + 1;
  }

  get signature(): string {
    return this.#signature;
  }

  /** Signs it, unless it is signed; only its author's node can. */
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

  /** For a member on another node. */
  wire(): SegmentWire {
    const { stream, first, number, after } = this;
    const update = Buffer.from(this.update).toString('base64');
    return { stream, first, number, after, update, signature: this.#signature };
  }

  /** For a member on this node: the same reference gives it this segment. */
  reference(): unknown {
    const { stream, first, number } = this;
    return this.referred({ stream, first, number });
  }

  /** Makes an object refer to this segment, for as long as it stays in this process. */
  referred<T extends object>(value: T): T {
    (value as Referring)[SEGMENT] = this;
    return value;
  }
}

/** Merges consecutive segments of one author into one. The same segments always give the same result. */
export function mergeSegments(run: readonly Segment[]): Segment {
  const [{ stream, first, after }] = run as [Segment, ...Segment[]];
  const update = Y.mergeUpdates(run.map((segment) => segment.update));
  return new Segment({ stream, first, number: run.at(-1)!.number, after, update });
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

/** Copied out of Buffer's pool: documents keep their segments, and a small slice would retain 8 KiB of pool. */
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
 * The Yjs client of a stream. It is a digest of the name, so that an author cannot choose the client of another author;
 * a collision takes about 2^52 names for one document.
 */
export function clientOf(thread: string, stream: string): number {
  const digest = createHash('sha256').update(`${thread}\n${stream}`).digest();
  return digest.readUIntBE(0, 6) * 16 + (digest[6]! >> 4);
}
