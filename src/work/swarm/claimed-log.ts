import { z } from 'zod';
import { nodeOf } from './recruiting.js';
import type { LogEffects, LogEvent, SeatLog } from './seat-log.js';
import type { MessageOf } from './swarm-messages.js';
import { type Entry, type Frozen, RecordSchema, type SwarmRecord, text, weighRecord, whole } from './swarm-records.js';

/** A value of a swarm's log at the broker: records of one leader. */
const ValueSchema = z.object({
  epoch: whole,
  /** Tells a seat's process from its earlier ones. */
  run: text,
  /** The sequence of the first of the records. */
  from: whole,
  records: z.array(RecordSchema),
});
type Value = Frozen<z.infer<typeof ValueSchema>>;

/** The first value of a log, which its creator writes. */
export function reservation(run: string): Value {
  return { epoch: 0, run, from: 0, records: [] };
}

export function reservationIn(value: unknown): string | undefined {
  const { data } = ValueSchema.safeParse(value);
  return data?.epoch === 0 ? data.run : undefined;
}

export interface ClaimedLogInit {
  readonly me: string;
  readonly swarmId: string;
  /** The only one whose opening counts. */
  readonly creator: string;
  /** Unique to this process. */
  readonly run: string;
  /** Settled records on this seat's disk. */
  readonly log: readonly Entry[];
}

/** Characters of JSON in one value, approximately. A broker takes 1 MiB or more. */
const APPEND_CHARS = 131_072;

/**
 * A record log at a broker. A seat leads after it has appended a claim: the record `arbiter`, with the next epoch, at the
 * end of the log as it knew it, so the first claim of an epoch wins. A deposed leader cannot append, because it does not
 * know the log's end. Readers count a value only if its writer led when it was appended. One operation at the broker is
 * under way at a time; records that are appended meanwhile go into the next value together.
 */
export class ClaimedLog implements SeatLog {
  readonly me: string;
  settled: number;
  inTouchAt: number;
  readonly #init: ClaimedLogInit;
  readonly #effects: ClaimedLogEffects;
  readonly #entries: Entry[];
  /** Records that were read from the broker. Fewer than `settled` after a restart. */
  #counted = 0;
  #sequence = 0;
  #claim: Claim | undefined;
  #value: Value | undefined;
  #isBusy = false;
  #mustRead = true;
  #wantsClaim = false;
  /** The broker has lost records that this seat does not have: it must not lead. */
  #isDamaged = false;
  /** After a failure nothing is tried before the next tick, or a sign of the broker. */
  #isPaused = false;
  #heardAt: number;
  /** The highest number of settled records that a leader has claimed: a log with fewer has been truncated. */
  #heardSettled = 0;

  constructor(init: ClaimedLogInit, effects: ClaimedLogEffects, now: number) {
    this.me = init.me;
    this.#init = init;
    this.#effects = effects;
    this.#entries = [...init.log];
    this.settled = init.log.length;
    this.inTouchAt = now;
    this.#heardAt = now;
  }

  get epoch(): number {
    return this.#claim?.epoch ?? 0;
  }

  get leader(): string | undefined {
    return this.#claim?.address;
  }

  get isLeading(): boolean {
    return this.#claim?.run === this.#init.run;
  }

  get last(): number {
    return this.#entries.length;
  }

  read(above: number, upTo?: number): readonly Entry[] {
    return this.#entries.slice(above, upTo);
  }

  append(expectedLast: number, records: readonly SwarmRecord[]): boolean {
    if (!this.isLeading || expectedLast !== this.last) return false;
    const { epoch } = this;
    this.#entries.push(...records.map((record) => ({ epoch, record })));
    return true;
  }

  create(now: number): void {
    this.#claim = { epoch: 1, address: this.me, run: this.#init.run };
    this.inTouchAt = now;
  }

  heard(from: string, { epoch, settled }: Pick<MessageOf<'beat'>, 'epoch' | 'settled'>, now: number): void {
    if (epoch < this.epoch || (epoch === this.epoch && from !== this.leader)) return;
    if (epoch > this.epoch || settled > this.settled) this.#mustRead = true;
    else this.#wantsClaim = false;
    this.#heardSettled = Math.max(this.#heardSettled, settled);
    this.#heardAt = now;
  }

  tick(now: number): void {
    this.#isPaused = false;
    const rules = this.#swarm?.rules;
    if (this.isLeading || !rules) {
      // The leader looks whether it still leads. The others have heard of it by its beats.
      this.#mustRead = true;
      return;
    }
    if (now - this.#heardAt < rules.leaseMs + (this.#rank() * rules.leaseMs) / 4) return;
    this.#mustRead = true;
    this.#wantsClaim = true;
  }

  take(event: LogEvent, now: number): void {
    switch (event.type) {
      case 'grown':
        this.#mustRead = true;
        this.#isPaused = false;
        break;
      case 'unanswered':
        this.#isBusy = false;
        this.#value = undefined;
        this.#mustRead = true;
        this.#isPaused = true;
        break;
      case 'appended':
        this.#onAppended(event.sequence, now);
        break;
      case 'read':
        this.#isBusy = false;
        this.inTouchAt = now;
        this.#mustRead = event.tail.isCut;
        for (const { sequence, writer, value } of event.tail.values) {
          const read = sequence > this.#sequence ? ValueSchema.safeParse(value).data : undefined;
          if (read) this.#count(read, writer, now);
        }
        this.#sequence = Math.max(this.#sequence, event.tail.last);
    }
  }

  flush(): void {
    if (this.#isBusy || this.#isPaused) return;
    if (this.#mustRead) {
      this.#isBusy = true;
      this.#mustRead = false;
      this.#effects.read(this.#sequence);
    } else if (this.isLeading) {
      if (this.last > this.settled) this.#append(this.epoch, this.#batch());
    } else if (this.#wantsClaim && this.#isWhole) {
      this.#wantsClaim = false;
      this.#append(this.epoch + 1, [{ type: 'arbiter', address: this.me }]);
    }
  }

  /** Has the broker shown all records that are known to be settled? */
  get #isWhole(): boolean {
    const known = Math.max(this.settled, this.#heardSettled);
    return this.#claim !== undefined && !this.#isDamaged && this.#counted >= known;
  }

  #append(epoch: number, records: readonly SwarmRecord[]): void {
    this.#isBusy = true;
    this.#value = { epoch, run: this.#init.run, from: this.settled + 1, records };
    this.#effects.append(this.#sequence, this.#value);
  }

  #batch(): SwarmRecord[] {
    const records: SwarmRecord[] = [];
    for (let n = this.settled, chars = 0; n < this.last && chars < APPEND_CHARS; n++) {
      records.push(this.#entries[n]!.record);
      chars += weighRecord(records.at(-1)!);
    }
    return records;
  }

  #onAppended(sequence: number | undefined, now: number): void {
    const value = this.#value;
    this.#isBusy = false;
    this.#value = undefined;
    this.inTouchAt = now;
    if (sequence === undefined) this.#mustRead = true;
    else if (value && sequence > this.#sequence) {
      this.#sequence = sequence;
      this.#count(value, nodeOf(this.me), now);
    }
  }

  /** Takes the records of the next value, if its writer led the log, or leads it by this value. */
  #count(value: Value, writer: string, now: number): void {
    const isAhead = value.epoch > this.epoch + 1 || value.from > this.#counted + 1;
    if (isAhead && this.#isSeat(writer)) this.#isDamaged = true;
    const claim = this.#claimed(value, writer);
    // A copy of an earlier value is behind.
    if (!claim || value.from !== this.#counted + 1) return;
    if (claim !== this.#claim) {
      // Records of this seat that were not settled are lost.
      if (this.isLeading) this.#entries.length = this.settled;
      this.#claim = claim;
    }
    const from = this.settled + 1;
    for (const record of value.records) {
      if (++this.#counted <= this.settled) continue;
      if (this.#counted > this.last) this.#entries.push({ epoch: value.epoch, record });
      this.settled = this.#counted;
    }
    if (this.settled >= from)
      this.#effects.keep({ term: value.epoch, votedFor: null, from, entries: this.read(from - 1, this.settled) });
    this.#heardAt = now;
    this.#wantsClaim = false;
  }

  /** The claim by which the value counts. */
  #claimed({ epoch, run, records }: Value, writer: string): Claim | undefined {
    const claim = this.#claim;
    if (claim && epoch === claim.epoch)
      return run === claim.run && writer === nodeOf(claim.address) ? claim : undefined;
    const [first] = records;
    if (epoch !== this.epoch + 1 || !first) return undefined;
    const address = epoch === 1 ? this.#opener(first) : this.#claimant(first);
    return address !== undefined && nodeOf(address) === writer ? { epoch, address, run } : undefined;
  }

  #isSeat(node: string): boolean {
    return (this.#swarm?.seats ?? [this.#init.creator]).some((seat) => nodeOf(seat) === node);
  }

  #opener(first: SwarmRecord): string | undefined {
    const { swarmId, creator } = this.#init;
    const isOurs = first.type === 'open' && first.swarm.id === swarmId && first.swarm.creator === creator;
    return isOurs ? creator : undefined;
  }

  #claimant(first: SwarmRecord): string | undefined {
    return first.type === 'arbiter' && this.#swarm?.seats.includes(first.address) ? first.address : undefined;
  }

  get #swarm() {
    const first = this.#entries[0]?.record;
    return first?.type === 'open' ? first.swarm : undefined;
  }

  /** How many seats come before this one when the leader is gone: they claim in the order of the seats. */
  #rank(): number {
    const seats = this.#swarm?.seats ?? [];
    const last = this.leader === undefined ? -1 : seats.indexOf(this.leader);
    return (seats.indexOf(this.me) - last - 1 + seats.length) % seats.length;
  }
}

type ClaimedLogEffects = Pick<LogEffects, 'append' | 'read' | 'keep'>;

interface Claim {
  readonly epoch: number;
  readonly address: string;
  readonly run: string;
}
