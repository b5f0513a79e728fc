import { splitAddress } from '../mesh/address.js';
import { EclipticError } from '../runtime/errors.js';
import { authorOf, MAX_STREAMS, unreadable } from './segment.js';

/** Bytes of all segments of one document. */
const MAX_DOCUMENT_BYTES = 64 * 1_048_576;
/** From this part of a limit on, only nodes with less than an equal part of it may add more. */
const OPEN_TO_ALL = 0.75;

class Part {
  streams = 0;
  bytes = 0;
}

/**
 * How much of a document each author's node takes up. A node may use up to three quarters of it alone; the rest is for
 * nodes that have less than an equal part, so that no node can make the document unwritable for the others.
 */
export class AuthorShares {
  readonly #nodes = new Map<string, Part>();
  readonly #all = new Part();
  readonly #streams = new Set<string>();

  /** Counts a stream, once. */
  addStream(stream: string): void {
    if (this.#streams.has(stream)) return;
    this.#streams.add(stream);
    for (const part of [this.#all, this.#partOf(stream)]) part.streams++;
  }

  addBytes(stream: string, bytes: number): void {
    for (const part of [this.#all, this.#partOf(stream)]) part.bytes += bytes;
  }

  /** Is the stream counted, or may its author's node have a further one? */
  hasRoomFor(stream: string): boolean {
    return this.#streams.has(stream) || this.#hasRoom(stream, 'streams', 1, MAX_STREAMS);
  }

  /** Throws when the author's node may have no further stream. */
  assertStream(stream: string): void {
    if (this.hasRoomFor(stream)) return;
    throw unreadable(`the document has ${this.#all.streams} author streams, and too many are of this node`);
  }

  /** Throws when the author's node may add no further bytes. */
  assertBytes(stream: string, bytes: number): void {
    if (this.#hasRoom(stream, 'bytes', bytes, MAX_DOCUMENT_BYTES)) return;
    const text = `the document has ${this.#all.bytes} bytes of ${MAX_DOCUMENT_BYTES}, and too many are of this node`;
    throw new EclipticError('PAYLOAD_TOO_LARGE', text);
  }

  #hasRoom(stream: string, kind: 'streams' | 'bytes', more: number, limit: number): boolean {
    const total = this.#all[kind] + more;
    if (total > limit) return false;
    const open = limit * OPEN_TO_ALL;
    if (total <= open) return true;
    const own = this.#nodes.get(nodeOf(stream));
    const nodes = this.#nodes.size + (own ? 0 : 1);
    return (own?.[kind] ?? 0) + more <= open / Math.max(2, nodes);
  }

  #partOf(stream: string): Part {
    const node = nodeOf(stream);
    const part = this.#nodes.get(node) ?? new Part();
    this.#nodes.set(node, part);
    return part;
  }
}

function nodeOf(stream: string): string {
  return splitAddress(authorOf(stream)).node ?? '';
}
