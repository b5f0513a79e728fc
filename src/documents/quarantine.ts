import type { EclipticError } from '../runtime/errors.js';
import { claimedPoint, isSame, type Proof, proofAgainst, quarantinePoint, weightOf } from './equivocation.js';
import type { LiveMember, Members } from './members.js';
import type { Replica } from './replica.js';
import { authorOf, type Claim, isClaimSigned, type Segment, unreadable } from './segment.js';
import { MAX_SEGMENTS, type SyncBody } from './sync-message.js';

export interface QuarantineComponents {
  replica: Replica;
  link: { mayWrite(author: string, via: string): boolean; sign(segment: Segment): void };
  members: Members;
  send: (member: LiveMember, body: SyncBody) => void;
  /** Reports this replica's vector to a member. */
  report: (member: LiveMember) => void;
  freshStream: () => string;
  /** Another replica has merged segments that are separate here. */
  merge: (stream: string, claim: Claim) => void;
  mistake: (member: LiveMember) => void;
  onQuarantined: (proof: Proof, removed: readonly Segment[]) => void;
  onBad: (error: EclipticError, source: string, author?: string) => void;
}

type Found = 'unknown' | 'known' | 'merged' | 'contradicts';

const FALSE_PROOF = 'false proof';
const LACKS_PROOF = 'lacks a proof';

/**
 * Finds authors that gave different replicas different segments under the same numbers. Replicas compare a digest of
 * each stream; where these differ, they exchange the signed claims of its segments. Two contradicting claims are a proof,
 * which is sent to every replica, and each refuses the stream from the same number on.
 */
export class Quarantine {
  readonly #components: QuarantineComponents;
  readonly #proofs = new Map<string, { readonly proof: Proof; readonly from: number }>();

  constructor(components: QuarantineComponents) {
    this.#components = components;
  }

  /** The first refused number of each stream whose author equivocated. */
  get points(): Record<string, number> | undefined {
    if (this.#proofs.size === 0) return undefined;
    return Object.fromEntries([...this.#proofs].map(([stream, { from }]) => [stream, from]));
  }

  load(proof: Proof): boolean {
    const { replica, freshStream } = this.#components;
    const from = quarantinePoint(replica.thread, proof);
    if (from === undefined) return false;
    replica.quarantine(proof.stream, from, freshStream, weightOf(proof));
    this.#proofs.set(proof.stream, { proof, from });
    return true;
  }

  /** Compares a member's report with this replica, and sends the claims and proofs that can show an equivocation. */
  compare(member: LiveMember, { sums = {}, quarantined = {} }: Extract<SyncBody, { kind: 'have' }>): void {
    const { replica, send, report } = this.#components;
    const { vector } = replica;
    const own = replica.sums((stream) => sums[stream] !== undefined);
    member.differs = false;
    for (const [stream, { proof, from }] of this.#proofs) {
      if ((quarantined[stream] ?? Number.POSITIVE_INFINITY) <= from) continue;
      if (this.#isFirst(member, `proof ${stream}`)) send(member, { kind: 'equivocation', proof });
    }
    // A member that gets a report sends the proofs that the reporting replica lacks.
    const lacks = Object.keys(quarantined).some((stream) => {
      return quarantined[stream]! < (this.#proofs.get(stream)?.from ?? Number.POSITIVE_INFINITY);
    });
    if (lacks && this.#isFirst(member, LACKS_PROOF)) report(member);
    for (const stream in sums) {
      if (member.vector[stream] !== vector[stream] || sums[stream] === own[stream]) continue;
      if (!this.#isFirst(member, stream)) continue;
      const claims = replica.segmentsOf(stream).map((segment) => this.#signed(segment).claim());
      for (let index = 0; index < claims.length; index += MAX_SEGMENTS) {
        send(member, { kind: 'claims', stream, claims: claims.slice(index, index + MAX_SEGMENTS) });
      }
    }
  }

  /** Does it contradict a known segment? Then its author is quarantined. */
  contradicts(segment: Segment, member: LiveMember): boolean {
    return this.#check(segment.stream, segment, () => this.#signed(segment).claim(), member) === 'contradicts';
  }

  takeClaims(member: LiveMember, stream: string, claims: readonly Claim[]): void {
    for (const claim of claims) {
      const found = this.#check(stream, claim, () => claim, member);
      if (found === 'contradicts') return;
      if (found === 'merged') this.#components.merge(stream, claim);
    }
  }

  take(member: LiveMember, proof: Proof): void {
    const { replica } = this.#components;
    const known = this.#proofs.get(proof.stream);
    if (known && known.from <= claimedPoint(proof)) return;
    // A false proof may cost thousands of signature checks, so each member may send one per heartbeat.
    if (member.told.has(FALSE_PROOF)) return;
    const from = quarantinePoint(replica.thread, proof);
    if (from !== undefined) this.#accept(member, proof, from, member);
    else {
      member.told.add(FALSE_PROOF);
      this.#refuse(member, proof.stream, 'a proof of equivocation proves nothing');
    }
  }

  /** Compares a claim with the known segments in its range. */
  #check(stream: string, range: Pick<Claim, 'first' | 'number'>, claimOf: () => Claim, member: LiveMember): Found {
    const { replica } = this.#components;
    const known = replica.within(stream, range.first, range.number);
    const cause = replica.causeOf(stream);
    if (known.length === 0 && !cause) return 'unknown';
    if (known.some((segment) => segment === range)) return 'known';
    const claim = claimOf();
    if (known.some((segment) => isSame(segment.claim(), claim))) return 'known';
    if (!isClaimSigned(replica.thread, stream, claim)) {
      this.#refuse(member, stream, 'it is not signed by its author’s node');
      return 'contradicts';
    }
    for (const segment of known) this.#signed(segment);
    const proof = proofAgainst(stream, claim, known, cause);
    if (!proof) return known.length > 1 ? 'merged' : 'known';
    const from = quarantinePoint(replica.thread, proof);
    if (from !== undefined) this.#accept(member, proof, from);
    else this.#refuse(member, stream, 'it contradicts a known one that has no signature');
    return 'contradicts';
  }

  /** Applies a valid proof that `member` has sent, or whose claims it has sent; `knows` already has the proof. */
  #accept(member: LiveMember, proof: Proof, from: number, knows?: LiveMember): void {
    const { replica, link, members, freshStream, onQuarantined, onBad, send } = this.#components;
    const { stream } = proof;
    const author = authorOf(stream);
    const known = this.#proofs.get(stream);
    if (known && known.from <= from) return;
    // A member that may write could delete as much; a past author together with a reader may not.
    if (!link.mayWrite(author, member.address)) {
      this.#refuse(member, stream, 'neither its author nor the sender of the proof may write this document');
      return;
    }
    let removed: Segment[];
    try {
      removed = replica.quarantine(stream, from, freshStream, weightOf(proof));
    } catch (error) {
      onBad(error as EclipticError, member.address, author);
      return;
    }
    this.#proofs.set(stream, { proof, from });
    onBad(equivocation(stream, from, removed.length), member.address, author);
    onQuarantined(proof, removed);
    for (const other of members) {
      if (other !== knows && this.#isFirst(other, `proof ${stream}`)) send(other, { kind: 'equivocation', proof });
    }
  }

  #refuse(member: LiveMember, stream: string, reason: string): void {
    this.#components.mistake(member);
    this.#components.onBad(unreadable(reason), member.address, authorOf(stream));
  }

  /** Allows each item once per heartbeat and member, so that a member's reports do not cost this node more than it. */
  #isFirst(member: LiveMember, item: string): boolean {
    member.differs = true;
    if (member.told.has(item)) return false;
    member.told.add(item);
    return true;
  }

  #signed(segment: Segment): Segment {
    this.#components.link.sign(segment);
    return segment;
  }
}

function equivocation(stream: string, number: number, removed: number): EclipticError {
  const reason = `its author signed contradicting segments of ${stream}; from number ${number} on, it is refused`;
  return unreadable(`${reason}, and ${removed} segments were taken out`, {
    equivocation: true,
    stream,
    number,
    removed,
  });
}
