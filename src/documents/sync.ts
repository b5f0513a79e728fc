import type { RoutingResult } from '../mesh/schemas.js';
import type { CallbackFailed } from '../runtime/callbacks.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { Asking } from './asking.js';
import type { Proof } from './equivocation.js';
import { type LiveMember, Members } from './members.js';
import { merged } from './merged.js';
import { Quarantine } from './quarantine.js';
import { MERGE_COUNT, type Replica } from './replica.js';
import { authorOf, MAX_STREAMS, Segment, unreadable } from './segment.js';
import { Sending } from './sending.js';
import { MAX_SEGMENTS, readMessage, type SyncBody, type SyncMessage, type VectorClock } from './sync-message.js';

/** How a replica reaches the others, and what it may take from them. */
export interface SyncLink {
  /** This replica's agent, `id@node`. */
  readonly self: string;
  post(to: string, message: SyncMessage): RoutingResult | Promise<RoutingResult>;
  isLocal(address: string): boolean;
  mayRead(address: string): boolean;
  /** May this come from there: is one of them allowed to write? */
  mayWrite(author: string, via: string): boolean;
  /** Makes sure that a segment of this node's own is signed. */
  sign(segment: Segment): void;
}

export interface SyncComponents {
  runtime: Runtime;
  replica: Replica;
  link: SyncLink;
  /** Segments of others are in the document now. */
  onApplied: (segments: readonly Segment[]) => void;
  /** One segment took the place of several. */
  onMerged: (run: readonly Segment[], one: Segment) => void;
  /** An author was proven to equivocate; these segments were taken out of the document. */
  onQuarantined: (proof: Proof, removed: readonly Segment[]) => void;
  /** A stream name for this replica that was never used; its changes so far are segments then. */
  freshStream: () => string;
  /** Something that `source` sent was skipped. */
  onBad: (error: EclipticError, source: string, author?: string) => void;
  callbackFailed: CallbackFailed;
}

/** Bytes of updates in one answer to a replica that lacks something. */
const PART_BYTES = 262_144;
/** What is said to everyone waits this long for more of it. */
const TELL_MS = 50;
/** How often those are told again that are not known to have everything: what got lost is found so. */
const HEARTBEAT_MS = 15_000;

/**
 * Keeps one replica and the live others alike: new segments are pushed to everyone; everyone says how far it is; and
 * who lacks something asks one of those that have it, and gets it in parts, each when it has taken the one before.
 */
export class Sync {
  readonly members: Members;
  readonly #components: SyncComponents;
  #presence: unknown = null;
  #ready = false;
  #closed = false;
  readonly #sending: Sending;
  readonly #asking: Asking;
  readonly #quarantine: Quarantine;
  #tellTimer: Timer | undefined;
  #heartbeat: Timer | undefined;
  #settled: (() => void)[] = [];

  constructor(components: SyncComponents) {
    const { runtime, replica, link } = components;
    const members = new Members(components.callbackFailed);
    this.members = members;
    this.#components = components;
    this.#sending = new Sending({
      runtime,
      members,
      post: (to, message) => link.post(to, message),
      tell: (member) => this.#tell(member),
      onSettled: () => this.#checkSettled(),
    });
    this.#asking = new Asking({
      runtime,
      replica,
      members,
      isLocal: (address) => link.isLocal(address),
      ask: (member) => this.#send(member, this.#message({ kind: 'want' }, replica.vector)),
    });
    this.#quarantine = new Quarantine({
      replica,
      link,
      members,
      freshStream: components.freshStream,
      onBad: components.onBad,
      send: (member, body) => this.#send(member, this.#message(body, replica.vector)),
      tell: (member) => this.#tell(member),
      mistake: (member) => this.#asking.mistake(member),
      merge: (stream, claim) => this.#takeMerged({ kind: 'merged', stream, ...claim }),
      onQuarantined: (proof, removed) => {
        components.onQuarantined(proof, removed);
        this.#tellSoon();
      },
    });
  }

  /** Takes a proof that was on disk, before any segment is. False, if it proves nothing. */
  load(proof: Proof): boolean {
    return this.#quarantine.load(proof);
  }

  /** What was kept is in the replica: from now on the others are told and asked. */
  start(): void {
    if (this.#closed) return;
    this.#ready = true;
    this.#asking.start();
    this.#tellAll();
    this.#beat();
  }

  close(): void {
    this.#closed = true;
    for (const part of [this.#sending, this.#asking]) part.close();
    for (const timer of [this.#tellTimer, this.#heartbeat]) timer?.cancel();
    for (const { address } of [...this.members]) this.members.remove(address);
    this.#checkSettled();
  }

  add(address: string): void {
    if (this.#closed) return;
    const { runtime } = this.#components;
    const member = this.members.add(address, runtime.now());
    if (!member || !this.#ready) return;
    // Not before the other side, too, had a chance to learn of this one.
    runtime.defer(() => {
      if (this.members.get(address) === member) this.#tell(member);
    });
  }

  remove(address: string): void {
    const member = this.members.get(address);
    if (!member) return;
    this.members.remove(address);
    for (const part of [this.#sending, this.#asking]) part.forget(member);
    this.#checkSettled();
  }

  /** What this agent says of itself; told soon, with whatever else is to be told. */
  setPresence(value: unknown): void {
    this.#presence = value;
    this.#tellSoon();
  }

  /** Tells everyone of an own segment. */
  push(segment: Segment): void {
    const { stream, number, after } = segment;
    const clock = { ...after, [stream]: number };
    const messages = new Map<boolean, SyncMessage>();
    for (const member of this.members) {
      if (!this.#sending.hasRoom(member)) continue;
      const local = this.#components.link.isLocal(member.address);
      let message = messages.get(local);
      if (!message) {
        message = this.#message({ kind: 'update', segments: [this.#wire(segment, local)] }, clock);
        messages.set(local, message);
      }
      this.#send(member, message, segment.update.length);
    }
    if (number % MERGE_COUNT === 0) this.#mergeOwn();
  }

  /** Takes what a member sent. Whatever is wrong with it is reported, and skipped. */
  take(from: string, payload: unknown): void {
    const member = this.members.get(from);
    if (!member || this.#closed) return;
    const { runtime, onBad } = this.#components;
    let message: SyncMessage;
    try {
      message = readMessage(payload);
    } catch (error) {
      onBad(error as EclipticError, from);
      return;
    }
    member.seenAt = runtime.now();
    const { payload: body, vectorClock } = message;
    if (body.kind === 'update') for (const name in vectorClock) raise(member.vector, name, vectorClock[name]!);
    else if (body.kind === 'have' || body.kind === 'want' || body.kind === 'part') {
      member.vector = { ...vectorClock };
      member.heard = true;
    }
    switch (body.kind) {
      case 'update':
        if (this.#takeSegments(member, body.segments).early) this.#asking.now();
        break;
      case 'have':
        member.presence = body.presence;
        this.#quarantine.compare(member, body);
        break;
      case 'want':
        this.#answer(member);
        break;
      case 'part':
        this.#asking.answered(member, this.#takeSegments(member, body.segments).gained);
        break;
      case 'merged':
        // Only the author's word moves this node to sign a merge for one of its own agents.
        if (from === authorOf(body.stream) || !this.#components.link.isLocal(authorOf(body.stream))) {
          this.#takeMerged(body);
        }
        break;
      case 'claims':
        this.#quarantine.takeClaims(member, body.stream, body.claims);
        break;
      case 'equivocation':
        this.#quarantine.take(member, body.proof);
    }
    this.members.tell(member);
    this.#checkSettled();
    this.#asking.soon();
  }

  get quarantined(): VectorClock {
    return this.#quarantine.points ?? {};
  }

  /** Resolves when every live member has been handed all that is here, or is known to have it. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#settled.push(resolve);
      this.#checkSettled();
    });
  }

  /** Is everything here that the live others have said they have? */
  get caughtUp(): boolean {
    for (const { heard, vector } of this.members) if (!heard || this.#components.replica.lacks(vector)) return false;
    return this.#ready;
  }

  // Taking

  /** Returns how many were applied, and whether something before one of them is missing. */
  #takeSegments(member: LiveMember, values: readonly unknown[]): { gained: number; early: boolean } {
    const { replica, onApplied, onBad } = this.#components;
    const applied: Segment[] = [];
    let early = false;
    for (const value of values) {
      let author: string | undefined;
      try {
        const segment = Segment.read(value);
        author = segment.author;
        if (this.#quarantine.contradicts(segment, member) || replica.has(segment)) continue;
        this.#check(segment, member, value);
        const taken = replica.apply(segment);
        applied.push(...taken.applied);
        early ||= taken.early;
        for (const bad of taken.bad) onBad(bad.error, bad.segment.author, bad.segment.author);
      } catch (thrown) {
        const error = toEclipticError(thrown, 'CRDT_DESERIALIZATION_FAILED');
        this.#asking.mistake(member);
        onBad(error, member.address, author);
      }
    }
    if (applied.length > 0) {
      onApplied(applied);
      this.#tellSoon();
    }
    return { gained: applied.length, early };
  }

  #check(segment: Segment, { address }: LiveMember, value: unknown): void {
    const { replica, link } = this.#components;
    if (!link.mayWrite(segment.author, address)) {
      throw new EclipticError('TIER_VIOLATION', `${segment.author} may not write this document`);
    }
    // What an agent of this process handed over by reference is what this process made or checked.
    if (Segment.isMadeHere(value) || segment.isSigned(replica.thread)) return;
    throw unreadable(`it is not signed by the node of ${segment.author}`);
  }

  #answer(member: LiveMember): void {
    const { replica, link } = this.#components;
    if (!this.#ready || !link.mayRead(member.address)) return;
    const { segments, more } = replica.missing(member.vector, PART_BYTES, MAX_SEGMENTS);
    const local = link.isLocal(member.address);
    const wires = segments.map((segment) => this.#wire(segment, local));
    this.#send(member, this.#message({ kind: 'part', segments: wires, more }, this.#components.replica.vector));
  }

  // Telling

  #tellSoon(): void {
    if (this.#tellTimer || this.#closed || !this.#ready) return;
    this.#tellTimer = this.#components.runtime.setTimer(() => {
      this.#tellTimer = undefined;
      this.#tellAll();
    }, TELL_MS);
  }

  #tellAll(): void {
    for (const member of [...this.members]) this.#tell(member);
  }

  #tell(member: LiveMember): void {
    const { vector, sums } = this.#components.replica;
    const quarantined = this.#quarantine.points;
    const body: SyncBody = { kind: 'have', presence: this.#presence, sums, ...(quarantined && { quarantined }) };
    this.#send(member, this.#message(body, vector));
  }

  #beat(): void {
    this.#heartbeat = this.#components.runtime.setTimer(() => {
      const { replica } = this.#components;
      for (const member of [...this.members]) {
        member.told.clear();
        if (!member.heard || member.differs || !replica.isCovered(member.vector)) this.#tell(member);
      }
      this.#beat();
    }, HEARTBEAT_MS);
  }

  #send(member: LiveMember, message: SyncMessage, bytes?: number): void {
    if (this.#components.link.mayRead(member.address)) this.#sending.send(member, message, bytes);
  }

  // Merging

  /** Many small segments of this replica become one; the others, who have them too, are told its signature. */
  #mergeOwn(): void {
    const { replica, link } = this.#components;
    for (let one = replica.merge(); one; one = replica.merge()) {
      link.sign(one);
      if (!this.#replace(one)) return;
      const { stream, first, number, signature } = one;
      const message = this.#message({ kind: 'merged', stream, first, number, signature }, { [stream]: number });
      for (const member of this.members) if (!member.behind) this.#send(member, message);
    }
  }

  /** What is here merges to the same, or stays as it is. */
  #takeMerged({ stream, first, number, signature }: Extract<SyncBody, { kind: 'merged' }>): void {
    const { replica, link } = this.#components;
    const run = replica.replaceable(stream, first, number);
    if (!run) return;
    const local = link.isLocal(authorOf(stream));
    const one = new Segment(merged(run), local ? '' : signature);
    if (local) link.sign(one);
    if (local || one.isSigned(replica.thread)) this.#replace(one);
  }

  #replace(one: Segment): boolean {
    const { replica, onMerged } = this.#components;
    const run = replica.replaceable(one.stream, one.first, one.number);
    if (!run) return false;
    replica.swap(run, one);
    onMerged(run, one);
    return true;
  }

  #wire(segment: Segment, local: boolean): unknown {
    if (!local) this.#components.link.sign(segment);
    return segment.wire(!local);
  }

  #message(payload: SyncBody, vectorClock: VectorClock): SyncMessage {
    const { runtime, link } = this.#components;
    return { sourceAgentId: link.self, vectorClock, payload, timestamp: runtime.now() };
  }

  #checkSettled(): void {
    if (this.#settled.length === 0) return;
    const { replica, link } = this.#components;
    for (const { address, behind, inFlight, vector } of this.members) {
      const handed = !behind && inFlight === 0;
      if (!handed && link.mayRead(address) && !replica.isCovered(vector)) return;
    }
    for (const resolve of this.#settled.splice(0)) resolve();
  }
}

function raise(vector: Record<string, number>, name: string, number: number): void {
  const known = vector[name];
  if (known === undefined && Object.keys(vector).length >= MAX_STREAMS) return;
  if (number > (known ?? 0)) vector[name] = number;
}
