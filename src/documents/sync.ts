import type { RoutingResult } from '../mesh/schemas.js';
import type { CallbackFailed } from '../runtime/callbacks.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { Proof } from './equivocation.js';
import { type LiveMember, Members, SegmentRequests, SegmentSender } from './members.js';
import { Quarantine } from './quarantine.js';
import { type BadSegment, MERGE_COUNT, type Replica } from './replica.js';
import { authorOf, MAX_STREAMS, mergeSegments, Segment, unreadable } from './segment.js';
import {
  MAX_SEGMENTS,
  markMadeHere,
  readMessage,
  type SyncBody,
  type SyncMessage,
  type VectorClock,
} from './sync-message.js';

/** Connects a replica to the others, and to policy. */
export interface SyncLink {
  /** The address of this replica's agent, `id@node`. */
  readonly self: string;
  post(to: string, message: SyncMessage): RoutingResult | Promise<RoutingResult>;
  isLocal(address: string): boolean;
  mayRead(address: string): boolean;
  /** May a segment of this author arrive from there? One of the two must be allowed to write. */
  mayWrite(author: string, via: string): boolean;
  /** Signs a segment of an agent of this node, if it is not signed. */
  sign(segment: Segment): void;
}

export interface SyncComponents {
  runtime: Runtime;
  replica: Replica;
  link: SyncLink;
  /** Segments of other authors were applied. */
  onApplied: (segments: readonly Segment[]) => void;
  /** A message has reached its member, or could not. */
  onSent: () => void;
  /** One segment has replaced several. */
  onMerged: (run: readonly Segment[], one: Segment) => void;
  /** An author was proven to equivocate, and these segments were removed from the document. */
  onQuarantined: (proof: Proof, removed: readonly Segment[]) => void;
  /** Turns pending changes into a segment, and returns an unused stream name for this replica. */
  freshStream: () => string;
  /** An invalid segment or message of `source` was skipped. */
  onBad: (error: EclipticError, source: string, author?: string) => void;
  callbackFailed: CallbackFailed;
}

/** Bytes of updates in one answer to a replica that lacks segments. */
const PART_BYTES = 262_144;
/** A report to all members waits this long for further changes. */
const REPORT_MS = 50;
/** How often members that may lack segments get a report: this finds lost messages. */
const HEARTBEAT_MS = 15_000;

/**
 * Synchronizes one replica with the other live ones. New segments are pushed to all members, every member reports its
 * vector, and a member that lacks segments asks another for them and gets them in parts, one at a time.
 */
export class Sync {
  readonly members: Members;
  readonly #components: SyncComponents;
  #presence: unknown = null;
  #ready = false;
  #closed = false;
  readonly #sender: SegmentSender;
  readonly #requests: SegmentRequests;
  readonly #quarantine: Quarantine;
  #reportTimer: Timer | undefined;
  #heartbeat: Timer | undefined;
  #settled: (() => void)[] = [];

  constructor(components: SyncComponents) {
    const { runtime, replica, link } = components;
    const members = new Members(components.callbackFailed);
    this.members = members;
    this.#components = components;
    this.#sender = new SegmentSender({
      runtime,
      members,
      post: (to, message) => link.post(to, message),
      report: (member) => this.#report(member),
      onSettled: () => {
        this.#checkSettled();
        components.onSent();
      },
    });
    this.#requests = new SegmentRequests({
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
      report: (member) => this.#report(member),
      mistake: (member) => this.#requests.mistake(member),
      merge: (stream, claim) => this.#takeMerged({ kind: 'merged', stream, ...claim }),
      onQuarantined: (proof, removed) => {
        components.onQuarantined(proof, removed);
        this.#reportSoon();
      },
    });
  }

  /** Takes a stored proof, before any segment is loaded. Returns false if it proves nothing. */
  load(proof: Proof): boolean {
    return this.#quarantine.load(proof);
  }

  /** Stored segments are loaded: begins to report to and ask the others. */
  start(): void {
    if (this.#closed) return;
    this.#ready = true;
    this.#requests.start();
    this.#reportToAll();
    this.#beat();
  }

  close(): void {
    this.#closed = true;
    this.#sender.close();
    this.#requests.close();
    for (const timer of [this.#reportTimer, this.#heartbeat]) timer?.cancel();
    for (const { address } of [...this.members]) this.members.remove(address);
    this.#checkSettled();
  }

  add(address: string): void {
    if (this.#closed) return;
    const { runtime } = this.#components;
    const member = this.members.add(address, runtime.now());
    if (!member || !this.#ready) return;
    // Deferred, so that the other side can learn of this member first.
    runtime.defer(() => {
      if (this.members.get(address) === member) this.#report(member);
    });
  }

  remove(address: string): void {
    const member = this.members.get(address);
    if (!member) return;
    this.members.remove(address);
    member.retry?.cancel();
    this.#requests.forget(member);
    this.#checkSettled();
  }

  setPresence(value: unknown): void {
    this.#presence = value;
    this.#reportSoon();
  }

  /** Sends an own segment to all members. */
  push(segment: Segment): void {
    const { stream, number, after } = segment;
    const clock = { ...after, [stream]: number };
    const messages = new Map<boolean, SyncMessage>();
    for (const member of this.members) {
      if (!this.#sender.hasRoom(member)) continue;
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

  /** Do members on other nodes get new segments, and is one on its way to them? */
  get remote(): 'none' | 'idle' | 'busy' {
    let found: 'none' | 'idle' = 'none';
    for (const { address, inFlightBytes, behind } of this.members) {
      if (behind || this.#components.link.isLocal(address)) continue;
      if (inFlightBytes > 0) return 'busy';
      found = 'idle';
    }
    return found;
  }

  /** Takes a message of a member. Invalid parts are reported and skipped. */
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
        if (this.#takeSegments(member, body.segments).early) this.#requests.now();
        break;
      case 'have':
        member.presence = body.presence;
        this.#quarantine.compare(member, body);
        break;
      case 'want':
        this.#answer(member);
        break;
      case 'part':
        this.#requests.answered(member, this.#takeSegments(member, body.segments).gained);
        break;
      case 'merged':
        // This node signs a merge for one of its own agents only at that agent's request.
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
    this.members.notify(member);
    this.#checkSettled();
    this.#requests.soon();
  }

  get quarantined(): VectorClock {
    return this.#quarantine.points ?? {};
  }

  /** Resolves when every live member has been sent all segments, or is known to have them. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#settled.push(resolve);
      this.#checkSettled();
    });
  }

  /** Are all segments here that the live members have reported? */
  get caughtUp(): boolean {
    for (const { heard, vector } of this.members) if (!heard || this.#components.replica.lacks(vector)) return false;
    return this.#ready;
  }

  // Receiving

  /** Returns how many segments were applied, and whether one depends on a missing segment. */
  #takeSegments(member: LiveMember, values: readonly unknown[]): { gained: number; early: boolean } {
    const { runtime, replica, onApplied } = this.#components;
    const valid: Segment[] = [];
    for (const value of values) {
      let author: string | undefined;
      try {
        const segment = Segment.read(value);
        author = segment.author;
        if (this.#quarantine.contradicts(segment, member) || replica.has(segment)) continue;
        this.#check(segment, member, value);
        segment.seenAt ??= runtime.now();
        valid.push(segment);
      } catch (error) {
        this.#refuse(member, error, author);
      }
    }
    const applied: Segment[] = [];
    const again: Segment[] = [];
    const bad: BadSegment[] = [];
    const refused: [error: unknown, author: string][] = [];
    let early = false;
    const apply = () => {
      for (const segment of valid) {
        if (replica.has(segment)) {
          again.push(segment);
          continue;
        }
        try {
          const taken = replica.apply(segment);
          applied.push(...taken.applied);
          early ||= taken.early;
          bad.push(...taken.bad);
        } catch (error) {
          refused.push([error, segment.author]);
        }
      }
    };
    if (valid.length > 1) replica.together(apply);
    else apply();
    for (const [error, author] of refused) this.#refuse(member, error, author);
    for (const { segment, error } of bad) this.#components.onBad(error, segment.author, segment.author);
    // Known only since the segments before them in this message.
    for (const segment of again) this.#quarantine.contradicts(segment, member);
    if (applied.length > 0) {
      onApplied(applied);
      this.#reportSoon();
    }
    return { gained: applied.length, early };
  }

  #refuse(member: LiveMember, error: unknown, author?: string): void {
    this.#requests.mistake(member);
    this.#components.onBad(toEclipticError(error, 'CRDT_DESERIALIZATION_FAILED'), member.address, author);
  }

  #check(segment: Segment, { address }: LiveMember, value: unknown): void {
    const { replica, link } = this.#components;
    if (!link.mayWrite(segment.author, address)) {
      throw new EclipticError('TIER_VIOLATION', `${segment.author} may not write this document`);
    }
    // A segment that is passed within this process was made or checked by it.
    if (Segment.referencedBy(value) || segment.isSigned(replica.thread)) return;
    throw unreadable(`it is not signed by the node of ${segment.author}`);
  }

  #answer(member: LiveMember): void {
    const { replica, link } = this.#components;
    if (!this.#ready || !link.mayRead(member.address)) return;
    const { segments, more } = replica.missing(member.vector, PART_BYTES, MAX_SEGMENTS);
    const local = link.isLocal(member.address);
    const unsigned = local ? [] : segments.filter(({ signature }) => signature === '');
    const wires = segments.map((segment) => this.#wire(segment, local));
    replica.signed(unsigned);
    this.#send(member, this.#message({ kind: 'part', segments: wires, more }, this.#components.replica.vector));
  }

  // Reporting

  #reportSoon(): void {
    if (this.#reportTimer || this.#closed || !this.#ready) return;
    this.#reportTimer = this.#components.runtime.setTimer(() => {
      this.#reportTimer = undefined;
      this.#reportToAll();
    }, REPORT_MS);
  }

  #reportToAll(): void {
    for (const member of [...this.members]) this.#report(member);
  }

  #report(member: LiveMember): void {
    const { replica, link } = this.#components;
    const local = link.isLocal(member.address);
    // An author of this node cannot tell the replicas of this node different things.
    const sums = replica.sums((stream) => !local || !link.isLocal(authorOf(stream)));
    const quarantined = this.#quarantine.points;
    const body: SyncBody = { kind: 'have', presence: this.#presence, sums, ...(quarantined && { quarantined }) };
    this.#send(member, this.#message(body, replica.vector));
  }

  #beat(): void {
    this.#heartbeat = this.#components.runtime.setTimer(() => {
      const { replica } = this.#components;
      for (const member of [...this.members]) {
        member.told.clear();
        if (!member.heard || member.differs || !replica.isCovered(member.vector)) this.#report(member);
      }
      this.#beat();
    }, HEARTBEAT_MS);
  }

  #send(member: LiveMember, message: SyncMessage, bytes?: number): void {
    if (this.#components.link.mayRead(member.address)) this.#sender.send(member, message, bytes);
  }

  // Merging

  /** Merges many small segments of this replica; members, which have them too, only need the signature of the result. */
  #mergeOwn(): void {
    const { replica, link } = this.#components;
    for (let one = replica.merge(); one; one = replica.merge()) {
      if ([...this.members].some(({ address }) => !link.isLocal(address))) link.sign(one);
      if (!this.#replace(one)) return;
      const { stream, first, number, signature } = one;
      const body = one.referred<SyncBody>({ kind: 'merged', stream, first, number, signature });
      const message = this.#message(body, { [stream]: number });
      for (const member of this.members) if (!member.behind) this.#send(member, message);
    }
  }

  /** Merges the same segments here, if the result has that signature. */
  #takeMerged(body: Extract<SyncBody, { kind: 'merged' }>): void {
    const { replica, link } = this.#components;
    const { stream, first, number, signature } = body;
    const run = replica.replaceable(stream, first, number);
    if (!run) return;
    const local = link.isLocal(authorOf(stream));
    const merged = Segment.referencedBy(body) ?? mergeSegments(run);
    const one = local ? merged : new Segment(merged, signature);
    one.end = merged.end;
    if (local || one.isSigned(replica.thread)) this.#replace(one);
  }

  #replace(one: Segment): boolean {
    const { replica, onMerged } = this.#components;
    const run = replica.replaceable(one.stream, one.first, one.number);
    if (!run) return false;
    replica.swap(one);
    onMerged(run, one);
    return true;
  }

  #wire(segment: Segment, local: boolean): unknown {
    if (local) return segment.reference();
    this.#components.link.sign(segment);
    return segment.wire();
  }

  #message(payload: SyncBody, vectorClock: VectorClock): SyncMessage {
    const { runtime, link } = this.#components;
    return markMadeHere({ sourceAgentId: link.self, vectorClock, payload, timestamp: runtime.now() });
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
