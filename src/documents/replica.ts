import * as Y from 'yjs';
import type { EclipticError } from '../runtime/errors.js';
import { AuthorShares } from './author-shares.js';
import { AuthorStream } from './author-stream.js';
import { EarlySegments } from './early-segments.js';
import { inspectUpdate } from './inspect-update.js';
import { merged } from './merged.js';
import { OwnChanges } from './own-changes.js';
import { type Claim, clientOf, MAX_UPDATE_BYTES, Segment, unreadable } from './segment.js';
import type { VectorClock } from './sync-message.js';

/** That many of an author's latest segments become one, where nobody else's came between them. */
export const MERGE_COUNT = 64;

/** What became of a segment: applied, perhaps with others that waited for it; known before; or too early. */
export interface Taken {
  readonly applied: readonly Segment[];
  readonly early: boolean;
  /** Of those that waited, what turned out to be none. */
  readonly bad: readonly BadSegment[];
}

export interface BadSegment {
  readonly segment: Segment;
  readonly error: EclipticError;
}

const KNOWN: Taken = { applied: [], early: false, bad: [] };
const EARLY: Taken = { applied: [], early: true, bad: [] };

/**
 * One copy of a document: the Yjs document, and the segments that it was made from, in an order in which nothing comes
 * before what it builds on. It decides what is applied when. No clock, no I/O.
 */
export class Replica {
  readonly thread: string;
  #stream: string;
  #doc: Y.Doc;
  #own: OwnChanges;
  readonly #streams = new Map<string, AuthorStream>();
  /** Whose client it is, of the streams that are known. */
  readonly #clients = new Map<number, string>();
  #log: Segment[] = [];
  readonly #shares = new AuthorShares();
  readonly #early = new EarlySegments();
  #ownNumber = 0;
  /** Own segments that are not kept yet. */
  readonly #uncommitted = new Set<Segment>();
  /** What the latest own segment said that it had seen. */
  readonly #said = new Map<string, number>();
  /** Streams whose authors were proven to equivocate, and the first number of each that is refused. */
  readonly #proven = new Map<string, number>();
  /** The same, with the streams that build on those. */
  readonly #dead = new Map<string, number>();
  /** What made a stream dead that builds on another. */
  readonly #causes = new Map<string, Claim>();

  /** `stream` must never have been used before, in any process. */
  constructor(thread: string, stream: string) {
    this.thread = thread;
    this.#stream = stream;
    this.#doc = new Y.Doc();
    this.#doc.clientID = clientOf(thread, stream);
    this.#own = new OwnChanges(this.#doc);
  }

  /** The stream of this replica's own changes; another one after a quarantine. */
  get stream(): string {
    return this.#stream;
  }

  /** The document as it is now; another one after one that Yjs could not take, and after a quarantine. */
  get doc(): Y.Doc {
    return this.#doc;
  }

  /** How many segments of each stream were applied. */
  get vector(): VectorClock {
    const vector: Record<string, number> = {};
    for (const [name, { number }] of this.#streams) if (number > 0) vector[name] = number;
    return vector;
  }

  /** Every segment, in an order in which they can be applied. */
  get segments(): readonly Segment[] {
    return this.#log;
  }

  /** Has this replica changes that are not kept yet? */
  get changed(): boolean {
    return this.#own.any || this.#uncommitted.size > 0;
  }

  /** Is there room for more? */
  assertWritable(): void {
    this.#ownStream();
    this.#shares.assertBytes(this.stream, 1);
  }

  has({ stream, number }: Segment): boolean {
    return number <= (stream === this.stream ? this.#ownNumber : this.#numberOf(stream));
  }

  /** What this replica changed since the last time, as a segment. It counts once it is `committed`. */
  take(): Segment | undefined {
    const changes = this.#own.take();
    if (!changes) return undefined;
    const own = this.#ownStream();
    const after: Record<string, number> = {};
    for (const [name, { number }] of this.#streams) {
      if (name === this.stream || number === 0 || this.#said.get(name) === number) continue;
      after[name] = number;
      this.#said.set(name, number);
    }
    const number = ++this.#ownNumber;
    own.clock = changes.clock;
    own.ends.set(number, changes.clock);
    const segment = new Segment({ stream: this.stream, first: number, number, after, update: changes.update });
    this.#uncommitted.add(segment);
    return segment;
  }

  /** An own segment is on disk if it has to be, and may be told of. False, if a quarantine took what it builds on. */
  commit(segment: Segment): boolean {
    if (segment.stream !== this.stream) return this.apply(segment).applied.length > 0;
    const own = this.#ownStream();
    this.#uncommitted.delete(segment);
    own.number = segment.number;
    this.#addSeen(own.seen, segment.after);
    this.#keep(segment, own);
    return true;
  }

  /** Applies a segment whose signature was checked, and whatever waited for it. Throws why it is no good. */
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

  /** Applies what was kept, in whatever order it is given; returns what cannot be, for want of what came before. */
  load(segments: readonly Segment[], onBad: (bad: BadSegment) => void): Segment[] {
    let waiting = [...segments];
    for (let before = -1; before !== waiting.length; ) {
      before = waiting.length;
      waiting = waiting.filter((segment) => {
        if (this.has(segment) || this.#refuses(segment)) return false;
        if (!this.#isDue(segment)) return true;
        try {
          this.#integrate(segment);
        } catch (error) {
          onBad({ segment, error: error as EclipticError });
        }
        return false;
      });
    }
    return waiting;
  }

  /** Does this vector name anything that is missing here, and may come yet? */
  lacks(vector: VectorClock): boolean {
    for (const name in vector) {
      const number = this.#numberOf(name);
      if (name === this.stream || vector[name]! <= number) continue;
      if (number + 1 < (this.#proven.get(name) ?? Number.POSITIVE_INFINITY)) return true;
    }
    return false;
  }

  /** Does this vector name everything that is here? */
  isCovered(vector: VectorClock): boolean {
    for (const [name, { number }] of this.#streams) if (number > (vector[name] ?? 0)) return false;
    return true;
  }

  /** What a replica with that vector lacks, in order, up to that many; and whether there is more. */
  missing(vector: VectorClock, maxBytes: number, maxCount: number): { segments: Segment[]; more: boolean } {
    const segments: Segment[] = [];
    let bytes = 0;
    for (const segment of this.#log) {
      if (segment.number <= (vector[segment.stream] ?? 0)) continue;
      const full = segments.length === maxCount || bytes + segment.update.length > maxBytes;
      if (segments.length > 0 && full) return { segments, more: true };
      segments.push(segment);
      bytes += segment.update.length;
    }
    return { segments, more: false };
  }

  /** The latest own segments as one, once there are enough that can be; nothing has changed until it is `swap`ped in. */
  merge(): Segment | undefined {
    const run: Segment[] = [];
    let bytes = 0;
    for (let index = this.#log.length - 1; index >= 0 && run.length < MERGE_COUNT; index--) {
      const segment = this.#log[index]!;
      if (segment.stream !== this.stream && !run[0]) continue;
      if (segment.stream !== this.stream || (run[0] && segment.turns !== run[0].turns)) break;
      // What a later segment had seen that an earlier one had not lies between them: they cannot be one.
      if (run[0] && Object.keys(run[0].after).length > 0) break;
      bytes += segment.update.length;
      if (bytes > MAX_UPDATE_BYTES / 2) break;
      run.unshift(segment);
    }
    return run.length < MERGE_COUNT ? undefined : merged(run);
  }

  /** The segments that another stands for, if they are here and it can take their place. */
  replaceable(stream: string, first: number, number: number): Segment[] | undefined {
    const run = this.within(stream, first, number);
    let next = first;
    for (const segment of run) {
      if (segment.first !== next) return undefined;
      // What it had seen that those before had not lies between them.
      if (next > first && Object.keys(segment.after).length > 0) return undefined;
      next = segment.number + 1;
    }
    return run.length > 1 && next === number + 1 ? run : undefined;
  }

  /** The segments of a stream that stand for a number in that range. */
  within(stream: string, first: number, number: number): Segment[] {
    return this.#streams.get(stream)?.within(first, number) ?? [];
  }

  /** Every segment of a stream, in order. */
  segmentsOf(stream: string): readonly Segment[] {
    return this.#streams.get(stream)?.segments ?? [];
  }

  /** The refused segment because of which a stream is refused that builds on a quarantined one. */
  causeOf(stream: string): Claim | undefined {
    return this.#causes.get(stream);
  }

  /** A digest of the segments of each stream. */
  get sums(): Record<string, string> {
    const sums: Record<string, string> = {};
    for (const [name, stream] of this.#streams) if (stream.number > 0) sums[name] = stream.sum;
    return sums;
  }

  /**
   * Refuses a stream from a number on, with everything that builds on it, and takes out what was applied of that. If
   * something was, this replica continues under the stream that `fresh` names. Returns the segments that it took out.
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

  /** Puts one segment in the place of those that it stands for. */
  swap(run: readonly Segment[], one: Segment): void {
    const gone = new Set(run);
    const place = this.#log.indexOf(run[0]!);
    this.#log = this.#log.filter((segment) => !gone.has(segment));
    this.#log.splice(place, 0, one);
    const stream = this.#streams.get(one.stream)!;
    stream.swap(gone, one);
    for (const segment of run) {
      this.#shares.addBytes(segment.stream, -segment.update.length);
      if (segment.number !== one.number) stream.ends.delete(segment.number);
    }
    this.#shares.addBytes(one.stream, one.update.length);
  }

  #ownStream(): AuthorStream {
    let own = this.#streams.get(this.stream);
    if (!own) {
      own = this.#newStream(this.stream);
      this.#shares.addStream(this.stream);
      this.#streams.set(this.stream, own);
      this.#clients.set(own.client, this.stream);
    }
    return own;
  }

  #newStream(name: string): AuthorStream {
    const client = clientOf(this.thread, name);
    const other = this.#clients.get(client);
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
    // Each that is applied may be what others wait for that came before it.
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
      first === stream.number + 1 ? stream.clock : first === 1 ? 0 : (stream.ends.get(first - 1) ?? stream.clock);
    const seen = (client: number) => fresh.get(client) ?? stream.seen.get(client) ?? 0;
    const clock = inspectUpdate(update, { client: stream.client, from, seen });
    if (clock < stream.clock) throw unreadable('it ends before what is known of its author');
    this.#change(update, stream.client, clock, segment);
    this.#shares.addStream(segment.stream);
    this.#streams.set(segment.stream, stream);
    this.#clients.set(stream.client, segment.stream);
    stream.number = number;
    stream.clock = clock;
    stream.ends.set(number, clock);
    for (const [client, end] of fresh) stream.seen.set(client, end);
    this.#keep(segment, stream);
  }

  #change(update: Uint8Array, client: number, clock: number, segment: Segment): void {
    try {
      Y.applyUpdate(this.#doc, update, segment);
      const { store } = this.#doc;
      if (!store.pendingStructs && !store.pendingDs && Y.getState(store, client) === clock) return;
    } catch {
      // Part of it may be in the document now.
    }
    this.#makeAnew();
    throw unreadable('the document could not take it whole');
  }

  /** The document as it was, from the segments that it was made from. */
  #makeAnew(): void {
    const doc = new Y.Doc();
    for (const { update } of [...this.#log, ...this.#uncommitted]) Y.applyUpdate(doc, update);
    Y.applyUpdate(doc, this.#own.write());
    // Not before: Yjs takes another client id when an update has changes under its own.
    doc.clientID = this.#doc.clientID;
    this.#own = new OwnChanges(doc, this.#own);
    this.#doc = doc;
  }

  /** Is it of a quarantined stream, or does it build on one? Then so is everything that follows it. */
  #refuses(segment: Segment): boolean {
    const { stream, number, first, after } = segment;
    if (this.#isDead(stream, number)) return true;
    for (const name in after) {
      if (!this.#isDead(name, after[name]!)) continue;
      // A stream too many is refused in any case.
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

  /** Applies the log again, without what is refused, under another own stream: numbers are never given twice. */
  #rebuild(stream: string): Segment[] {
    const log = this.#log;
    this.#log = [];
    for (const segment of log) this.#shares.addBytes(segment.stream, -segment.update.length);
    for (const part of [this.#streams, this.#clients, this.#said, this.#uncommitted]) part.clear();
    this.#stream = stream;
    this.#ownNumber = 0;
    this.#doc = new Y.Doc();
    this.#doc.clientID = clientOf(this.thread, stream);
    this.#own = new OwnChanges(this.#doc);
    for (const segment of this.load(log, () => {})) this.#early.add(segment);
    const kept = new Set(this.#log);
    return log.filter((segment) => !kept.has(segment));
  }

  /** Where the streams' changes ended at those numbers; of one that lies inside a merged segment, where that ends. */
  #addSeen(seen: Map<number, number>, after: Segment['after']): void {
    for (const name in after) {
      const { client, ends, clock, number: latest } = this.#streams.get(name)!;
      let number = after[name]!;
      while (!ends.has(number) && number < latest) number++;
      seen.set(client, ends.get(number) ?? clock);
    }
  }

  #keep(segment: Segment, stream: AuthorStream): void {
    this.#log.push(segment);
    stream.keep(segment);
    this.#shares.addBytes(segment.stream, segment.update.length);
  }
}
