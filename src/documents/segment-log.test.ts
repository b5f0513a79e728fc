import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SegmentEnds } from './author-streams.js';
import { Segment } from './segment.js';
import { SegmentLog } from './segment-log.js';

const STREAMS = ['ada@node/1', 'bob@node/1', 'cyd@other/2'];
const SIGNATURE = Buffer.alloc(64, 7).toString('base64url');

function fieldsOf(segment: Segment): unknown {
  const { stream, first, number, after, update, signature, end, seenAt } = segment;
  return { stream, first, number, after, update: Buffer.from(update).toString('hex'), signature, end, seenAt };
}

describe('the log of a replica', () => {
  const arbSegment = fc.record({
    stream: fc.nat(2),
    turns: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 70 }), fc.constant(2 ** 40), fc.constant(2 ** 52)),
    after: fc.dictionary(fc.constantFrom(...STREAMS), fc.integer({ min: 1, max: 2 ** 53 - 1 }), {
      maxKeys: 2,
      noNullPrototype: true,
    }),
    update: fc.uint8Array({ minLength: 2, maxLength: 40 }),
    signature: fc.constantFrom('', SIGNATURE, 'something else'),
    end: fc.option(fc.nat(2 ** 31 - 1), { nil: undefined }),
    seenAt: fc.option(fc.nat(2 ** 31 - 1), { nil: undefined }),
  });

  function filled(records: readonly (typeof arbSegment extends fc.Arbitrary<infer T> ? T : never)[]) {
    const log = new SegmentLog();
    const all: Segment[] = [];
    const numbers = [0, 0, 0];
    for (let round = 0; round < 60; round++) {
      for (const { stream, turns, after, update, signature, end, seenAt } of records) {
        const first = numbers[stream]! + 1;
        const number = first - 1 + (first + turns < 2 ** 53 - 10_000 ? turns : 1);
        numbers[stream] = number;
        const segment = new Segment({ stream: STREAMS[stream]!, first, number, after, update }, signature);
        segment.end = end;
        segment.seenAt = seenAt;
        log.push(segment);
        all.push(segment);
      }
    }
    return { log, all };
  }

  it('returns packed segments as they were, by any question [T-F15]', () => {
    fc.assert(
      fc.property(fc.array(arbSegment, { minLength: 15, maxLength: 30 }), fc.nat(), (records, draw) => {
        const { log, all } = filled(records);
        expect([...log].map(fieldsOf)).toEqual(all.map(fieldsOf));
        expect([...log.backwards()].map(fieldsOf)).toEqual(all.map(fieldsOf).reverse());
        expect([log.count, log.bytes]).toEqual([all.length, all.reduce((sum, { update }) => sum + update.length, 0)]);
        const known = all[draw % all.length]!;
        const later = all.filter(({ stream, number }) => stream === known.stream && number > known.number);
        expect(log.of(known.stream, known.number).map(fieldsOf)).toEqual(later.map(fieldsOf));
        const vector = { [known.stream]: known.number };
        const missing = all.filter(({ stream, number }) => stream !== known.stream || number > known.number);
        expect([...log.missing(vector)].map(fieldsOf)).toEqual(missing.map(fieldsOf));
      }),
      { numRuns: 20 },
    );
  });

  it('puts a merged segment where the first of those it covers was, also among packed ones', () => {
    fc.assert(
      fc.property(
        fc.array(arbSegment, { minLength: 15, maxLength: 30 }),
        fc.nat(),
        fc.nat(400),
        (records, draw, count) => {
          const { log, all } = filled(records);
          const begin = all[draw % all.length]!;
          const run = all
            .filter(({ stream, first }) => stream === begin.stream && first >= begin.first)
            .slice(0, count + 1);
          const { stream, first, after, update } = begin;
          const one = new Segment({ stream, first, number: run.at(-1)!.number, after, update });
          expect(log.replace(one).map(fieldsOf)).toEqual(run.map(fieldsOf));
          const expected = all.flatMap((segment) =>
            segment === begin ? [one] : run.includes(segment) ? [] : [segment],
          );
          expect([...log].map(fieldsOf)).toEqual(expected.map(fieldsOf));
          expect(log.count).toBe(expected.length);
        },
      ),
      { numRuns: 20 },
    );
  });

  it('keeps signatures that were made after a segment was packed', () => {
    const { log } = filled(
      Array.from({ length: 20 }, (_, index) => ({
        stream: index % 2,
        turns: 1,
        after: {},
        update: new Uint8Array([index, 1]),
        signature: '',
        end: undefined,
        seenAt: undefined,
      })),
    );
    const wanted = [...log.missing({})].slice(0, 100);
    const signer = { sign: () => SIGNATURE };
    for (const segment of wanted) segment.sign('t', signer);
    log.update(wanted);
    const signatures = [...log].map(({ signature }) => signature);
    expect(signatures).toEqual(signatures.map((_, index) => (index < 100 ? SIGNATURE : '')));
  });
});

describe('the ends of segments', () => {
  it('are those of a plain map, whatever their distances are', () => {
    const arbSteps = fc.array(
      fc.oneof(
        fc.record({ add: fc.constantFrom(1, 1, 1, 2, 50), clock: fc.constantFrom(0, 1, 1, 1, 7) }),
        fc.record({ from: fc.nat(60), count: fc.nat(30) }),
      ),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(arbSteps, (steps) => {
        const ends = new SegmentEnds();
        const plain = new Map<number, number>();
        let [number, clock] = [0, 0];
        for (const step of steps) {
          if ('add' in step) {
            number += step.add;
            clock += step.clock;
            ends.add(number, clock);
            plain.set(number, clock);
          } else {
            ends.remove(step.from, step.from + step.count);
            for (const known of [...plain.keys()]) {
              if (known >= step.from && known < step.from + step.count) plain.delete(known);
            }
          }
        }
        for (let at = 0; at <= number + 1; at++) {
          expect(ends.at(at)).toBe(plain.get(at));
          const next = [...plain.keys()].find((known) => known >= at);
          expect(ends.atOrAfter(at)).toBe(next === undefined ? undefined : plain.get(next));
        }
      }),
      { numRuns: 200 },
    );
  });
});
