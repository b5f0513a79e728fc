import { type CallbackFailed, Callbacks } from '../runtime/callbacks.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { DocumentChange, Json, Member, SharedDocument, SharedList, SharedMap, SharedText } from './document.js';
import type { Proof } from './equivocation.js';
import { changesIn } from './paths.js';
import { Replica } from './replica.js';
import { authorOf, type Segment } from './segment.js';
import type { SegmentRecords } from './segment-records.js';
import { SegmentWriter } from './segment-writer.js';
import { Sync, type SyncLink } from './sync.js';
import type { CRDTSyncMessage, VectorClock } from './sync-message.js';
import { contentOf, ListView, MapView, TextView, type ViewOf } from './views.js';

export interface LiveDocumentComponents {
  runtime: Runtime;
  link: SyncLink;
  agentId: string;
  records: SegmentRecords | undefined;
  /** Throws if the agent may not write. */
  assertMayWrite: () => void;
  onBad: (error: EclipticError, source: string, author?: string) => void;
  onClose: (document: LiveDocument) => void;
  callbackFailed: CallbackFailed;
}

/** The weight of the changes in one turn: at its longest in UTF-8, with its overhead, it fits into one segment. */
const MAX_TURN_WEIGHT = 131_072;
/** While a segment is on its way to the disk or to another node, changes of later turns join the next one, for so long. */
const MAX_JOIN_MS = 10;
/** Also after a segment for other nodes, which must be signed and checked: that costs as much as a hundred changes. */
const REMOTE_GAP_MS = 2;

/** An agent's live replica: the changes of one turn are stored, and then sent to the other members. */
export class LiveDocument implements SharedDocument, ViewOf {
  readonly name: string;
  readonly address: string;
  readonly thread: string;
  readonly ready: Promise<void>;
  readonly #components: LiveDocumentComponents;
  readonly #replica: Replica;
  readonly #sync: Sync;
  readonly #watchers: Callbacks<[change: DocumentChange]>;
  readonly #updateWatchers: Callbacks<[message: CRDTSyncMessage]>;
  #flushDue = false;
  readonly #writer: SegmentWriter | undefined;
  /** Own segments. */
  readonly #unstored = new Set<Segment>();
  /** Do changes wait until the disk works again? */
  #isHeldBack = false;
  #flushTimer: Timer | undefined;
  #waitingSince: number | undefined;
  #flushedAt = Number.NEGATIVE_INFINITY;
  #weight = 0;
  #depth = 0;
  #closing: Promise<void> | undefined;

  /** `session` is unique for each opening of a replica. */
  constructor(components: LiveDocumentComponents, name: string, thread: string, session: string) {
    const { runtime, link, onBad, callbackFailed } = components;
    this.#watchers = new Callbacks(`onChange of document ${name}`, callbackFailed);
    this.#updateWatchers = new Callbacks(`onUpdate of document ${name}`, callbackFailed);
    this.#components = components;
    this.name = name;
    this.address = link.self;
    this.thread = thread;
    this.#replica = new Replica(thread, `${link.self}/${session}`);
    this.#sync = new Sync({
      runtime,
      replica: this.#replica,
      link,
      onBad,
      callbackFailed,
      onApplied: (segments) => this.#onApplied(segments),
      onSent: () => this.#flushSooner(),
      freshStream: () => {
        this.#flush();
        return `${link.self}/${runtime.id().toLowerCase()}`;
      },
      onQuarantined: (proof, removed) => this.#onQuarantined(proof, removed),
      onMerged: (run, one) => this.#writer?.add((records) => records.replace(thread, components.agentId, run, one)),
    });
    const { records, agentId } = components;
    const onFailed = (error: EclipticError) => onBad(error, link.self);
    this.#writer =
      records &&
      new SegmentWriter({ runtime, records, thread, agentId, onFailed, onStored: (it) => this.#onStored(it) });
    this.ready = this.#load();
    // The event stream reports a failure to callers that do not wait for it.
    this.ready.catch(() => {});
  }

  // Content

  get doc() {
    return this.#replica.doc;
  }

  /** @internal */
  writerOf(client: number): string | undefined {
    const stream = this.#replica.clients.get(client);
    return stream === undefined ? undefined : authorOf(stream);
  }

  map(name: string): SharedMap {
    return new MapView(this, name);
  }

  list(name: string): SharedList {
    return new ListView(this, name);
  }

  text(name: string): SharedText {
    return new TextView(this, name);
  }

  toJSON(): Record<string, Json> {
    return contentOf(this.doc);
  }

  transact<T>(change: () => T): T {
    this.#assertOpen();
    this.#depth++;
    try {
      return this.doc.transact(change);
    } finally {
      if (--this.#depth === 0) this.#changed();
    }
  }

  change(weight: number, change: () => void): void {
    this.#assertOpen();
    this.#components.assertMayWrite();
    this.#replica.assertWritable();
    if (this.#weight + weight > MAX_TURN_WEIGHT) {
      if (weight > MAX_TURN_WEIGHT || this.#depth > 0) {
        throw new EclipticError('PAYLOAD_TOO_LARGE', `one change may have ${MAX_TURN_WEIGHT} bytes`);
      }
      this.#flush();
    }
    this.#weight += weight;
    change();
    if (this.#depth === 0) this.#changed();
  }

  onChange(handler: (change: DocumentChange) => void): () => void {
    return this.#watchers.add(handler);
  }

  onUpdate(handler: (message: CRDTSyncMessage) => void): () => void {
    return this.#updateWatchers.add(handler);
  }

  // Members

  get vector(): VectorClock {
    return this.#replica.vector;
  }

  /** The changes that a segment of this document made, as text. */
  changesOf({ update }: Segment): string[] {
    return changesIn(this.#replica.doc, update);
  }

  /** @internal All segments, each after those that it depends on. */
  get segments(): readonly Segment[] {
    return this.#replica.segments;
  }

  /** @internal How many segments there are, and the bytes of their updates. */
  get size(): { readonly segments: number; readonly bytes: number } {
    return this.#replica.size;
  }

  /** @internal The first refused number of each stream whose author equivocated. */
  get quarantined(): VectorClock {
    return this.#sync.quarantined;
  }

  get members(): ReadonlyMap<string, Member> {
    return this.#sync.members.view;
  }

  onMember(handler: (address: string, member: Member | undefined) => void): () => void {
    return this.#sync.members.watch(handler);
  }

  reached(addresses: readonly string[]): boolean {
    if (this.#replica.changed) return false;
    return addresses.every((address) => {
      if (address === this.#components.link.self) return true;
      const member = this.#sync.members.get(address);
      return member !== undefined && this.#replica.isCovered(member.vector);
    });
  }

  presence(value: unknown): void {
    this.#assertOpen();
    this.#sync.setPresence(value ?? null);
  }

  async stored(): Promise<void> {
    this.#flush();
    await this.ready;
    await this.#writer?.written();
  }

  async synced(): Promise<void> {
    await this.stored();
    await this.#sync.settled();
  }

  caughtUp(timeoutMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (caughtUp: boolean) => {
        for (const stop of stops) stop();
        timer.cancel();
        resolve(caughtUp);
      };
      const check = () => {
        if (this.#sync.caughtUp) end(true);
      };
      const stops = [this.onMember(check), this.onChange(check)];
      const timer = this.#components.runtime.setTimer(() => end(false), timeoutMs);
      this.ready.then(check, () => end(false));
    });
  }

  /** @internal */
  join(address: string): void {
    this.#sync.add(address);
  }

  /** @internal */
  part(address: string): void {
    this.#sync.remove(address);
  }

  /** @internal */
  take(from: string, payload: unknown): void {
    this.#sync.take(from, payload);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#flush();
    try {
      await this.#writer?.written();
    } finally {
      this.#writer?.close();
      this.#sync.close();
      this.#components.onClose(this);
      this.#watchers.clear();
      this.#updateWatchers.clear();
    }
  }

  // Storing

  async #load(): Promise<void> {
    const { records, agentId, onBad } = this.#components;
    if (records) {
      const source = `${this.thread} of ${agentId}`;
      const damaged = (stream: string, number: number, reason: string) => {
        const where = { thread: this.thread, agent: agentId, stream, number };
        const text = `segment ${number} of ${stream} in ${source} is damaged: ${reason}`;
        onBad(new EclipticError('STORE_DAMAGED', text, where), source);
      };
      try {
        const kept = await records.read(this.thread, agentId);
        for (const { stream, number, error } of kept.damaged) damaged(stream, number, error.message);
        for (const proof of kept.proofs) if (!this.#sync.load(proof)) damaged(proof.stream, 0, 'it proves nothing');
        const left = this.#replica.load(kept.segments, ({ segment, error }) => {
          damaged(segment.stream, segment.number, error.message);
        });
        for (const segment of left) {
          damaged(segment.stream, segment.number, 'segments that it depends on are missing');
          // Another member may have them.
          this.#replica.apply(segment);
        }
      } catch (error) {
        const failed = toEclipticError(error, 'STORE_FAILED');
        onBad(failed, source);
        throw failed;
      }
      this.#notifyChanged([...new Set(this.#replica.segments.map(({ author }) => author))]);
    }
    this.#sync.start();
  }

  #changed(): void {
    this.#notifyChanged([this.#components.link.self]);
    if (this.#flushDue) return;
    this.#flushDue = true;
    this.#components.runtime.defer(() => {
      this.#flushDue = false;
      this.#flushOrWait();
    });
  }

  /** Lets changes of several turns become one segment, if the previous segment keeps the disk or other nodes busy. */
  #flushOrWait(): void {
    if (!this.#replica.changed) return;
    const { remote } = this.#sync;
    // While the disk fails, changes wait together; they are taken when it works again.
    if (this.#writer?.isFailing) {
      this.#isHeldBack = true;
      return;
    }
    const isStoring = this.#writer?.isBusy === true;
    if (!isStoring && remote === 'none') {
      this.#flush();
      return;
    }
    const { runtime } = this.#components;
    const now = runtime.stopwatch();
    this.#waitingSince ??= now;
    const isBusy = isStoring || remote === 'busy';
    const due = isBusy ? this.#waitingSince + MAX_JOIN_MS : remote === 'idle' ? this.#flushedAt + REMOTE_GAP_MS : now;
    if (due <= now) {
      this.#flushedAt = now;
      this.#flush();
    } else {
      this.#flushTimer ??= runtime.setTimer(() => {
        this.#flushedAt = due;
        this.#flush();
      }, due - now);
    }
  }

  /** The disk or another node is less busy than before. */
  #flushSooner(): void {
    if (!this.#flushTimer) return;
    this.#flushTimer.cancel();
    this.#flushTimer = undefined;
    this.#flushOrWait();
  }

  /** Turns pending changes into a segment: stored first, then sent. */
  #flush(): void {
    if (this.#depth > 0) return;
    this.#weight = 0;
    this.#flushTimer?.cancel();
    this.#flushTimer = undefined;
    this.#waitingSince = undefined;
    const segment = this.#replica.take();
    if (!segment) return;
    if (!this.#writer) {
      this.#commit(segment);
      return;
    }
    this.#unstored.add(segment);
    this.#writer.add(segment);
  }

  #onStored(segment: Segment): void {
    if (this.#unstored.delete(segment)) this.#commit(segment);
    if (this.#isHeldBack) {
      this.#isHeldBack = false;
      this.#flushOrWait();
    } else this.#flushSooner();
  }

  #commit(segment: Segment): void {
    segment.seenAt = this.#components.runtime.now();
    try {
      if (!this.#replica.commit(segment)) return;
    } catch (error) {
      this.#components.onBad(toEclipticError(error, 'CRDT_DESERIALIZATION_FAILED'), this.#components.link.self);
      return;
    }
    this.#sync.push(segment);
    this.#notifyUpdates([segment]);
  }

  #onQuarantined(proof: Proof, removed: readonly Segment[]): void {
    this.#writer?.add((records) => records.quarantine(this.thread, this.#components.agentId, proof, removed));
    this.#notifyChanged([...new Set(removed.map(({ author }) => author))]);
  }

  #onApplied(segments: readonly Segment[]): void {
    for (const segment of segments) this.#writer?.add(segment);
    this.#notifyUpdates(segments);
    this.#notifyChanged([...new Set(segments.map(({ author }) => author))]);
  }

  #notifyUpdates(segments: readonly Segment[]): void {
    if (this.#updateWatchers.size === 0) return;
    const timestamp = this.#components.runtime.now();
    for (const { author: sourceAgentId, stream, number, after, update } of segments) {
      const vectorClock = { ...after, [stream]: number };
      const payload = Buffer.from(update).toString('base64');
      this.#updateWatchers.call({ sourceAgentId, vectorClock, payload, timestamp });
    }
  }

  #notifyChanged(authors: readonly string[]): void {
    if (this.#watchers.size === 0) return;
    const { self } = this.#components.link;
    for (const by of authors) this.#watchers.call({ by, local: by === self });
  }

  #assertOpen(): void {
    if (this.#closing) throw new EclipticError('NODE_STOPPED', `the document "${this.name}" is closed`);
  }
}
