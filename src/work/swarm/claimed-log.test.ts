import { describe, expect, it } from 'vitest';
import type { SharedLogValue } from '../../store/shared/record-log.js';
import { ClaimedLog, reservation } from './claimed-log.js';
import { logEffects } from './seat-log.js';
import type { SwarmEffect } from './swarm-messages.js';
import type { Entry, SwarmOpening, SwarmRecord } from './swarm-records.js';

const [A, B, C] = ['a@na', 'b@nb', 'c@nc'] as const;
const SWARM: SwarmOpening = {
  ...{ id: 'swarm', task: 'test', capabilities: [], creator: A, createdAt: 0, members: [], log: 'broker' },
  rules: { leaseMs: 1_000, attempts: 1, patienceMs: 1_000 },
  seats: [A, B, C],
};
const note = (name: string): SwarmRecord => ({ type: 'escalation', subTask: name, reason: 'test' });
const nodeOf = (address: string) => address.slice(2);

/** A broker with one log, and seats whose operations it performs when it is told to. */
class Broker {
  values: SharedLogValue[] = [];
  now = 0;
  #sequence = 0;
  readonly #waiting = new Map<ClaimedLog, SwarmEffect[]>();

  seat(me: string, run: string, log: readonly Entry[] = []): ClaimedLog {
    const effects: SwarmEffect[] = [];
    const init = { me, swarmId: 'swarm', creator: A, run, log };
    const seat = new ClaimedLog(
      init,
      logEffects((effect) => effects.push(effect)),
      this.now,
    );
    this.#waiting.set(seat, effects);
    return seat;
  }

  put(writer: string, value: unknown): number {
    this.values.push({ sequence: ++this.#sequence, writer, value });
    return this.#sequence;
  }

  /** Lets a seat do everything that it wants to do, and answers. */
  serve(seat: ClaimedLog, isAnswered = true): void {
    for (seat.flush(); this.#waiting.get(seat)!.length > 0; seat.flush()) {
      for (const effect of this.#waiting.get(seat)!.splice(0)) {
        const answer = this.#answer(seat, effect);
        if (answer) seat.take(isAnswered ? answer : { type: 'unanswered' }, this.now);
      }
    }
  }

  #answer(seat: ClaimedLog, effect: SwarmEffect) {
    if (effect.type === 'read') {
      const values = this.values.filter(({ sequence }) => sequence > effect.above);
      return { type: 'read', tail: { values, last: values.at(-1)?.sequence ?? effect.above, isCut: false } } as const;
    }
    if (effect.type !== 'append') return undefined;
    const isLast = (this.values.at(-1)?.sequence ?? 0) === effect.expectedLast;
    const sequence = isLast ? this.put(nodeOf(seat.me), effect.value) : undefined;
    return { type: 'appended', sequence } as const;
  }

  /** Time passes without a sign of the leader. */
  silence(seat: ClaimedLog): void {
    this.now += 2_000;
    seat.tick(this.now);
    this.serve(seat);
  }
}

function begin() {
  const broker = new Broker();
  broker.put(nodeOf(A), reservation('swarm'));
  const [a, b, c] = [broker.seat(A, 'run-a'), broker.seat(B, 'run-b'), broker.seat(C, 'run-c')];
  a.create(0);
  a.append(0, [{ type: 'open', swarm: SWARM }, note('one')]);
  for (const seat of [a, b, c]) broker.serve(seat);
  return { broker, a, b, c };
}

const names = (log: ClaimedLog) =>
  log.read(0, log.settled).flatMap(({ record }) => (record.type === 'escalation' ? [record.subTask] : []));

describe('a log of claims', () => {
  it('gives an epoch to the first claim, and the others learn of it [SL.3]', () => {
    const { broker, a, b, c } = begin();
    broker.silence(b);
    expect([b.isLeading, b.epoch, b.leader]).toEqual([true, 2, B]);
    c.tick(broker.now);
    broker.serve(c);
    expect([c.isLeading, c.epoch, c.leader]).toEqual([false, 2, B]);
    expect(a.isLeading).toBe(true);
    a.append(a.last, [note('lost')]);
    broker.serve(a);
    expect([a.isLeading, a.epoch, a.last]).toEqual([false, 2, b.last]);
    b.append(b.last, [note('two')]);
    for (const seat of [b, a, c]) {
      seat.tick(broker.now);
      seat.take({ type: 'grown' }, broker.now);
      broker.serve(seat);
      expect(names(seat)).toEqual(['one', 'two']);
    }
  });

  it('settles a record once whose append was not answered [SL.3]', () => {
    const { broker, a } = begin();
    a.append(a.last, [note('two')]);
    broker.serve(a, false);
    expect(names(a)).toEqual(['one']);
    a.append(a.last, [note('three')]);
    a.tick(broker.now);
    broker.serve(a);
    expect(names(a)).toEqual(['one', 'two', 'three']);
    expect(names(broker.seat(B, 'x'))).toEqual([]);
    const other = broker.seat(B, 'another');
    broker.serve(other);
    expect(names(other)).toEqual(['one', 'two', 'three']);
  });

  it('does not count what others than its leader have written, nor copies [SL.5]', () => {
    const { broker, a, b } = begin();
    const from = a.last + 1;
    const forged = { epoch: 1, run: 'run-a', from, records: [note('forged')] };
    const claim = { type: 'arbiter', address: B };
    broker.put('rogue', forged);
    broker.put(nodeOf(B), forged);
    broker.put(nodeOf(A), { ...forged, run: 'an earlier process' });
    broker.put('rogue', { epoch: 2, run: 'r', from, records: [claim] });
    broker.put(nodeOf(C), { epoch: 2, run: 'r', from, records: [claim] });
    broker.put('rogue', { epoch: 2, run: 'r', from, records: [{ type: 'arbiter', address: 'rogue@rogue' }] });
    broker.put('rogue', { epoch: 9, run: 'r', from: 99, records: [] });
    broker.put('rogue', 'nothing');
    const [, genuine] = broker.values;
    broker.put(genuine!.writer, genuine!.value);
    a.append(a.last, [note('two')]);
    a.take({ type: 'grown' }, 0);
    broker.serve(a);
    b.take({ type: 'grown' }, 0);
    broker.serve(b);
    for (const seat of [a, b]) expect([names(seat), seat.epoch]).toEqual([['one', 'two'], 1]);
    // It may still lead: nothing is missing.
    broker.silence(b);
    expect(b.isLeading).toBe(true);
  });

  it('is not led by a seat from which the broker hides records [SL.5]', () => {
    const { broker, a, b, c } = begin();
    for (const name of ['two', 'three']) {
      a.append(a.last, [note(name)]);
      broker.serve(a);
    }
    const whole = broker.values;
    // One from the middle is gone.
    broker.values = whole.filter((_, at) => at !== 2);
    b.take({ type: 'grown' }, 0);
    broker.serve(b);
    broker.silence(b);
    expect([b.isLeading, names(b)]).toEqual([false, ['one']]);
    // The latest are gone, and the leader has told how many there are.
    broker.values = whole.slice(0, 2);
    c.heard(A, { epoch: 1, settled: a.settled }, broker.now);
    broker.silence(c);
    expect(c.isLeading).toBe(false);
    // They are gone from the broker, but not from the seat's disk.
    const again = broker.seat(B, 'a later process', a.read(0));
    broker.silence(again);
    broker.silence(again);
    expect([again.isLeading, names(again)]).toEqual([false, ['one', 'two', 'three']]);
    expect(broker.values).toHaveLength(2);
    broker.values = whole;
    // A record that it reads now is a sign of life.
    broker.silence(c);
    broker.silence(c);
    expect([c.isLeading, names(c)]).toEqual([true, ['one', 'two', 'three']]);
  });

  it('is not led by the process that follows its leader without a new claim [SL.3]', () => {
    const { broker, a } = begin();
    const again = broker.seat(A, 'a later process', a.read(0));
    broker.serve(again);
    expect([again.isLeading, again.leader, again.epoch, names(again)]).toEqual([false, A, 1, ['one']]);
    broker.silence(again);
    expect([again.isLeading, again.epoch]).toEqual([true, 2]);
    // A value of the earlier process that was under way comes too late.
    broker.put(nodeOf(A), { epoch: 1, run: 'run-a', from: a.last + 1, records: [note('late')] });
    again.append(again.last, [note('two')]);
    again.take({ type: 'grown' }, broker.now);
    broker.serve(again);
    expect(names(again)).toEqual(['one', 'two']);
  });
});
