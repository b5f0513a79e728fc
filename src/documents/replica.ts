import * as Y from 'yjs';
import type { EclipticError } from '../runtime/errors.js';
import { AuthorShares, AuthorStream, EarlySegments } from './author-streams.js';
import { inspectUpdate } from './inspect-update.js';
import { asOne, OwnChanges } from './own-changes.js';
import { type Claim, clientOf, MAX_UPDATE_BYTES, mergeSegments, Segment, unreadable } from './segment.js';
import { SegmentLog } from './segment-log.js';
import type { VectorClock } from './sync-message.js';

/** This many latest segments of an author are merged, unless they depend on segments of others in between. */
export const MERGE_COUNT = 64;

export interface Taken {
  /** The segment and those that waited for it; empty if it is known or early. */
  readonly applied: readonly Segment[];
  /** Does it wait for segments that it depends on? */
  readonly early: boolean;
  /** Waiting segments that turned out to be invalid. */
  readonly bad: readonly BadSegment[];
}

export interface BadSegment {
  readonly segment: Segment;
  readonly error: EclipticError;
}

const KNOWN: Taken = { applied: [], early: false, bad: [] };
const EARLY: Taken = { applied: [], early: true, bad: [] };

/**
 * One copy of a document: the Yjs document, and the segments that it was made from, each after those that it depends on.
 * Decides which segment is applied when. No clock, no I/O.
 */
export class Replica {
  readonly thread: string;
  #stream: string;
  #doc: Y.Doc;
  #own: OwnChanges;
  readonly #streams = new Map<string, AuthorStream>();
  /** The stream of each Yjs client id. */
  readonly clients = new Map<number, string>();
  #log = new SegmentLog();
  readonly #shares = new AuthorShares();
  readonly #early = new EarlySegments();
  #ownNumber = 0;
  readonly #uncommitted = new Set<Segment>();
  /** The segments of other streams that own segments have named in `after`. */
  readonly #named = new Map<string, number>();
  /** The first refused number of each stream whose author was proven to equivocate. */
  readonly #proven = new Map<string, number>();
  /** The same, including the streams that depend on those. */
  readonly #dead = new Map<string, number>();
  /** The first refused claim of each stream that depends on a dead one. */
  readonly #causes = new Map<string, Claim>();

  /** `stream` must never have been used before, in any process. */
  constructor(thread: string, stream: string) {
    this.thread = thread;
    this.#stream = stream;
    this.#doc = new Y.Doc();
    this.#doc.clientID = clientOf(thread, stream);
    this.#own = new OwnChanges(this.#doc);
  }

  /** The stream of this replica's own changes. A quarantine may replace it. */
  get stream(): string {
    return this.#stream;
  }

  /** The current document. A failed update or a quarantine replaces it. */
  get doc(): Y.Doc {
    return this.#doc;
  }

  /** The number of applied segments of each stream. */
  get vector(): VectorClock {
    const vector: Record<string, number> = {};
    for (const [name, { number }] of this.#streams) if (number > 0) vector[name] = number;
    return vector;
  }

  /** All segments, each after those that it depends on. */
  get segments(): readonly Segment[] {
    return [...this.#log];
  }

  get size(): { readonly segments: number; readonly bytes: number } {
    return { segments: this.#log.count, bytes: this.#log.bytes };
  }

  /** These segments were signed since `missing` returned them. */
  signed(segments: readonly Segment[]): void {
    if (segments.length > 0) this.#log.update(segments);
  }

  /** Are there own changes that are not stored yet? */
  get changed(): boolean {
    return this.#own.any || this.#uncommitted.size > 0;
  }

  /** Throws if this node's share of the document is used up. */
  assertWritable(): void {
    this.#ownStream();
    this.#shares.assertBytes(this.stream, 1);
  }

  has({ stream, number }: Segment): boolean {
    return number <= (stream === this.stream ? this.#ownNumber : this.#numberOf(stream));
  }

  /** The own changes since the last call, as a segment. It takes effect with `commit`. */
  take(): Segment | undefined {
    const changes = this.#own.take();
    if (!changes) return undefined;
    const own = this.#ownStream();
    const after: Record<string, number> = {};
    for (const [name, { number }] of this.#streams) {
      if (name === this.stream || number === 0 || this.#named.get(name) === number) continue;
      after[name] = number;
      this.#named.set(name, number);
    }
    const number = ++this.#ownNumber;
    own.clock = changes.clock;
    own.ends.add(number, changes.clock);
    const segment = new Segment({ stream: this.stream, first: number, number, after, update: changes.update });
    segment.end = changes.clock;
    this.#uncommitted.add(segment);
    return segment;
  }

  /** Adds an own segment, which is stored if it must be. Returns false if a quarantine removed segments it depends on. */
  commit(segment: Segment): boolean {
    if (segment.stream !== this.stream) return this.apply(segment).applied.length > 0;
    const own = this.#ownStream();
    this.#uncommitted.delete(segment);
    own.number = segment.number;
    this.#addSeen(own.seen, segment.after);
    this.#keep(segment, own);
    return true;
  }

  /** Applies a segment with a valid signature, and the segments that waited for it. Throws if it is invalid. */
  apply(segment: Segment): Taken {
    if (this.has(segment) || this.#refuses(segment)) return KNOWN;
    if (segment.stream === this.stream) throw unreadable('it is of this replica, which never made it');
    if (!this.#isDue(segment)) {
      this.#early.add(segment);
      return EARLY;
    }
    this.#integrate(segment);
    const applied = [segment];
    const bad = this.#integrateEarly(applied);
    return { applied, early: false, bad };
  }

  /**
   * Runs `apply` in one transaction of the document: most of what an update costs is its transaction. It may only apply
   * segments, because an own change would not be told from theirs.
   */
  together<T>(apply: () => T): T {
    return asOne(this.#doc, apply);
  }

  /** Applies stored segments, in any order. Returns those whose dependencies are missing. */
  load(segments: readonly Segment[], onBad: (bad: BadSegment) => void): Segment[] {
    const bad: BadSegment[] = [];
    const left = this.together(() => this.#load(segments, bad));
    bad.forEach(onBad);
    return left;
  }

  #load(segments: readonly Segment[], bad: BadSegment[]): Segment[] {
    let waiting = [...segments];
    for (let before = -1; before !== waiting.length; ) {
      before = waiting.length;
      waiting = waiting.filter((segment) => {
        if (this.has(segment) || this.#refuses(segment)) return false;
        if (!this.#isDue(segment)) return true;
        try {
          this.#integrate(segment);
        } catch (error) {
          bad.push({ segment, error: error as EclipticError });
        }
        return false;
      });
    }
    return waiting;
  }

  /** Does this vector contain segments that are missing here and not refused? */
  lacks(vector: VectorClock): boolean {
    for (const name in vector) {
      const number = this.#numberOf(name);
      if (name === this.stream || vector[name]! <= number) continue;
      if (number + 1 < (this.#proven.get(name) ?? Number.POSITIVE_INFINITY)) return true;
    }
    return false;
  }

  /** Does this vector contain all segments of this replica? */
  isCovered(vector: VectorClock): boolean {
    for (const [name, { number }] of this.#streams) if (number > (vector[name] ?? 0)) return false;
    return true;
  }

  /** The segments that a replica with that vector lacks, in order and up to a limit, and whether there are more. */
  missing(vector: VectorClock, maxBytes: number, maxCount: number): { segments: Segment[]; more: boolean } {
    const segments: Segment[] = [];
    let bytes = 0;
    for (const segment of this.#log.missing(vector)) {
      const full = segments.length === maxCount || bytes + segment.update.length > maxBytes;
      if (segments.length > 0 && full) return { segments, more: true };
      segments.push(segment);
      bytes += segment.update.length;
    }
    return { segments, more: false };
  }

  /** The latest own segments merged into one, if there are enough. Takes effect with `swap`. */
  merge(): Segment | undefined {
    const run: Segment[] = [];
    let bytes = 0;
    for (const segment of this.#log.backwards()) {
      if (run.length === MERGE_COUNT) break;
      if (segment.stream !== this.stream && !run[0]) continue;
      if (segment.stream !== this.stream || (run[0] && segment.turns !== run[0].turns)) break;
      // A later segment depends on segments that an earlier one does not: they cannot be merged.
      if (run[0] && Object.keys(run[0].after).length > 0) break;
      bytes += segment.update.length;
      if (bytes > MAX_UPDATE_BYTES / 2) break;
      run.unshift(segment);
    }
    return run.length < MERGE_COUNT ? undefined : mergeSegments(run);
  }

  /** The segments that a merged one covers, if they are all here and it can replace them. */
  replaceable(stream: string, first: number, number: number): Segment[] | undefined {
    const run = this.within(stream, first, number);
    let next = first;
    for (const segment of run) {
      if (segment.first !== next) return undefined;
      if (next > first && Object.keys(segment.after).length > 0) return undefined;
      next = segment.number + 1;
    }
    return run.length > 1 && next === number + 1 ? run : undefined;
  }

  within(stream: string, first: number, number: number): Segment[] {
    if (first > this.#numberOf(stream)) return [];
    return this.#log.of(stream, first - 1).filter((segment) => segment.first <= number);
  }

  segmentsOf(stream: string): readonly Segment[] {
    return this.#log.of(stream);
  }

  /** The first refused claim of a stream that depends on a quarantined one. */
  causeOf(stream: string): Claim | undefined {
    return this.#causes.get(stream);
  }

  /** The digests of the wanted streams. */
  sums(isWanted: (stream: string) => boolean): Record<string, string> {
    const sums: Record<string, string> = {};
    for (const [name, stream] of this.#streams) {
      if (stream.number > 0 && isWanted(name)) sums[name] = stream.sum((above) => this.#log.of(name, above));
    }
    return sums;
  }

  /**
   * Refuses a stream from a number on, with all segments that depend on it, and removes those that were applied. If there
   * are any, this replica continues under the stream that `fresh` names. Returns the removed segments.
   */
  quarantine(stream: string, from: number, fresh: () => string, proofBytes = 0): Segment[] {
    if (from >= (this.#proven.get(stream) ?? Number.POSITIVE_INFINITY)) return [];
    this.#shares.assertStream(stream);
    if (!this.#streams.has(stream)) this.#shares.assertBytes(stream, proofBytes);
    this.#shares.addBytes(stream, proofBytes);
    this.#markDead(stream, from);
    this.#proven.set(stream, from);
    const known = stream === this.stream ? this.#ownNumber : this.#numberOf(stream);
    return from > known ? [] : this.#rebuild(fresh());
  }

  /** Puts a merged segment in place of those that it covers. */
  swap(one: Segment): void {
    const stream = this.#streams.get(one.stream)!;
    for (const { update } of this.#log.replace(one)) this.#shares.addBytes(one.stream, -update.length);
    stream.kept(one);
    stream.ends.remove(one.first, one.number);
    this.#shares.addBytes(one.stream, one.update.length);
  }

  #ownStream(): AuthorStream {
    let own = this.#streams.get(this.stream);
    if (!own) {
      own = this.#newStream(this.stream);
      this.#shares.addStream(this.stream);
      this.#streams.set(this.stream, own);
      this.clients.set(own.client, this.stream);
    }
    return own;
  }

  #newStream(name: string): AuthorStream {
    const client = clientOf(this.thread, name);
    const other = this.clients.get(client);
    if (other !== undefined) throw unreadable(`${name} takes the place of ${other}`);
    this.#shares.assertStream(name);
    return new AuthorStream(client);
  }

  #numberOf(stream: string): number {
    return this.#streams.get(stream)?.number ?? 0;
  }

  #isDue({ stream, first, after }: Segment): boolean {
    if (first > this.#numberOf(stream) + 1) return false;
    for (const name in after) if (after[name]! > this.#numberOf(name)) return false;
    return true;
  }

  #integrateEarly(applied: Segment[]): BadSegment[] {
    const bad: BadSegment[] = [];
    // Each applied segment may be the one that earlier arrivals wait for.
    for (let before = -1; before !== applied.length; ) {
      before = applied.length;
      for (const segment of this.#early.take(
        (early) => this.has(early) || this.#refuses(early) || this.#isDue(early),
      )) {
        if (this.has(segment) || this.#refuses(segment)) continue;
        try {
          this.#integrate(segment);
          applied.push(segment);
        } catch (error) {
          bad.push({ segment, error: error as EclipticError });
        }
      }
    }
    return bad;
  }

  #integrate(segment: Segment): void {
    this.#shares.assertBytes(segment.stream, segment.update.length);
    const { first, number, update, after } = segment;
    const stream = this.#streams.get(segment.stream) ?? this.#newStream(segment.stream);
    const fresh = new Map<number, number>();
    this.#addSeen(fresh, after);
    const from =
      first === stream.number + 1 ? stream.clock : first === 1 ? 0 : (stream.ends.at(first - 1) ?? stream.clock);
    const seen = (client: number) => fresh.get(client) ?? stream.seen.get(client) ?? 0;
    // An update that this process has made or inspected is valid; Yjs refuses to apply it where what it refers to is missing.
    const clock = segment.end ?? inspectUpdate(update, { client: stream.client, from, seen });
    if (clock < stream.clock) throw unreadable('it ends before the known changes of its author');
    this.#change(update, stream.client, clock, segment);
    this.#shares.addStream(segment.stream);
    this.#streams.set(segment.stream, stream);
    this.clients.set(stream.client, segment.stream);
    stream.number = number;
    stream.clock = clock;
    stream.ends.add(number, clock);
    segment.end = clock;
    for (const [client, end] of fresh) stream.seen.set(client, end);
    this.#keep(segment, stream);
  }

  #change(update: Uint8Array, client: number, clock: number, segment: Segment): void {
    try {
      Y.applyUpdate(this.#doc, update, segment);
      const { store } = this.#doc;
      if (!store.pendingStructs && !store.pendingDs && Y.getState(store, client) === clock) return;
    } catch {
      // A part of it may be in the document.
    }
    this.#restoreDocument();
    throw unreadable('the document could not take it whole');
  }

  /** Makes the document again from its segments. */
  #restoreDocument(): void {
    const doc = new Y.Doc();
    asOne(doc, () => {
      for (const { update } of this.#log) Y.applyUpdate(doc, update);
      for (const { update } of this.#uncommitted) Y.applyUpdate(doc, update);
      Y.applyUpdate(doc, this.#own.write());
    });
    // Only now: Yjs changes the client id when an update contains changes under it.
    doc.clientID = this.#doc.clientID;
    this.#own = new OwnChanges(doc, this.#own);
    this.#doc = doc;
  }

  /** Is it of a quarantined stream, or does it depend on one? Then its successors are refused, too. */
  #refuses(segment: Segment): boolean {
    const { stream, number, first, after } = segment;
    if (this.#isDead(stream, number)) return true;
    for (const name in after) {
      if (!this.#isDead(name, after[name]!)) continue;
      // A stream beyond the limit is refused in any case.
      if (this.#shares.hasRoomFor(stream)) {
        this.#markDead(stream, first);
        this.#causes.set(stream, segment.claim());
      }
      return true;
    }
    return false;
  }

  #isDead(stream: string, number: number): boolean {
    return number >= (this.#dead.get(stream) ?? Number.POSITIVE_INFINITY);
  }

  #markDead(stream: string, from: number): void {
    this.#shares.addStream(stream);
    this.#dead.set(stream, Math.min(from, this.#dead.get(stream) ?? from));
  }

  /** Applies the log again without the refused segments, under a new own stream, so that no number is used twice. */
  #rebuild(stream: string): Segment[] {
    const log = [...this.#log];
    this.#log = new SegmentLog();
    for (const segment of log) this.#shares.addBytes(segment.stream, -segment.update.length);
    for (const part of [this.#streams, this.clients, this.#named, this.#uncommitted]) part.clear();
    this.#stream = stream;
    this.#ownNumber = 0;
    this.#doc = new Y.Doc();
    this.#doc.clientID = clientOf(this.thread, stream);
    this.#own = new OwnChanges(this.#doc);
    for (const segment of this.load(log, () => {})) this.#early.add(segment);
    return log.filter((segment) => segment.number > this.#numberOf(segment.stream));
  }

  /** Adds the ends of the streams' changes at those numbers; for a number inside a merged segment, the end of that. */
  #addSeen(seen: Map<number, number>, after: Segment['after']): void {
    for (const name in after) {
      const { client, ends, clock } = this.#streams.get(name)!;
      seen.set(client, ends.atOrAfter(after[name]!) ?? clock);
    }
  }

  #keep(segment: Segment, stream: AuthorStream): void {
    this.#log.push(segment);
    stream.kept(segment);
    this.#shares.addBytes(segment.stream, segment.update.length);
  }
}
