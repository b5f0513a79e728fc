import { ValidEnvelope } from './envelope.js';
import type { RegistryEntry } from './registry-index.js';
import type { Share } from './reply-shares.js';
import { type LatencySample, REMEMBERED_BYTES, RoutingRecord } from './routing-record.js';
import type { RequestWaiter } from './thread.js';

/**
 * A request between two agents of this node, and its answer: all that most conversations are. It stands for its thread,
 * the reply permit and the answer's envelope, which are made when something looks at them: for most requests, never.
 */
export class Exchange {
  readonly request: ValidEnvelope;
  readonly source: RegistryEntry;
  readonly target: RegistryEntry;
  touchedAt: number;
  /** @internal The generation of the table that keeps it. */
  keptIn: object | undefined;
  /** @internal Its place there. */
  place: number;
  /** Has a thread taken its place in the table? No reference to it: the event stream may keep the exchange for longer. */
  expanded: boolean;
  /** Of a request whose answer comes later: the opener's share, in which it counts as waiting. */
  share: Share | undefined;
  waiter: RequestWaiter | undefined;
  private answerId: string;
  private answer: unknown;
  private answerWeight: number;
  private envelope: ValidEnvelope | undefined;

  constructor(request: ValidEnvelope, source: RegistryEntry, target: RegistryEntry) {
    this.request = request;
    this.source = source;
    this.target = target;
    this.touchedAt = request.timestamp;
    this.keptIn = undefined;
    this.place = 0;
    this.expanded = false;
    this.share = undefined;
    this.waiter = undefined;
    this.answerId = '';
    this.answer = undefined;
    this.answerWeight = 0;
    this.envelope = undefined;
  }

  /** The thread is named after its first message. */
  get id(): string {
    return this.request.id;
  }

  /** The answer was sent. */
  answered(id: string, answer: unknown, weight: number, now: number): void {
    this.answerId = id;
    this.answer = answer;
    this.answerWeight = weight;
    this.touchedAt = now;
  }

  /** Its opener has waited too long: it no longer counts as waiting. */
  expire(limit: number): void {
    if (this.request.timestamp < limit) this.stopWaiting();
  }

  stopWaiting(): void {
    this.share?.giveBack();
    this.share = undefined;
  }

  /** The envelope of the answer, if there is one. */
  get response(): ValidEnvelope | undefined {
    if (this.answerId === '') return undefined;
    if (this.envelope === undefined) {
      const { answerId, source, target, request, touchedAt, answer, answerWeight } = this;
      const [from, to] = [target.address, source.address];
      const thread = request.correlationId;
      this.envelope = new ValidEnvelope(
        answerId,
        from,
        to,
        thread,
        'response',
        touchedAt,
        answer,
        undefined,
        answerWeight,
      );
    }
    return this.envelope;
  }

  /** Is it small enough to be remembered by the event stream as a whole? */
  get isSmall(): boolean {
    return this.answerWeight <= REMEMBERED_BYTES && ValidEnvelope.weightOf(this.request) <= REMEMBERED_BYTES;
  }

  /** The record of the answer, for the event stream. */
  record(latency: LatencySample, tiers: number): RoutingRecord {
    return new RoutingRecord(this.response!, this.target, this.source, latency, tiers);
  }
}
