import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isFinal,
  isReceiptState,
  presentState,
  RECEIPT_STATES,
  type Receipt,
  type ReceiptState,
  type ReceiptStep,
  stepReceipt,
  story,
} from './receipt.js';

const ENDS = RECEIPT_STATES.filter(isFinal);

/** Every state is reached at one time, for one reason, whichever side reports it. */
const facts = fc.uniqueArray(fc.constantFrom(...RECEIPT_STATES), { maxLength: RECEIPT_STATES.length }).chain((states) =>
  fc.tuple(
    ...states.map((state) =>
      fc.record({
        state: fc.constant(state),
        at: fc.nat(),
        reason: fc.option(fc.string({ maxLength: 20 }), { nil: null }),
      }),
    ),
  ),
) as fc.Arbitrary<ReceiptStep[]>;

/** The same facts as two sides may hear of them: in any order, some of them several times. */
const heardTwice = facts.chain((steps) =>
  fc.record({ steps: fc.constant(steps), here: hearings(steps), there: hearings(steps) }),
);

function hearings(steps: readonly ReceiptStep[]): fc.Arbitrary<ReceiptStep[]> {
  const repeated = steps.length === 0 ? fc.constant([]) : fc.array(fc.constantFrom(...steps), { maxLength: 10 });
  return repeated.chain((again) => shuffled([...steps, ...again]));
}

function shuffled<T>(values: readonly T[]): fc.Arbitrary<T[]> {
  return fc
    .shuffledSubarray([...values.keys()], { minLength: values.length })
    .map((order) => order.map((index) => values[index]!));
}

function fold(steps: readonly ReceiptStep[]): Receipt {
  return steps.reduce<Receipt>(stepReceipt, []);
}

function step(state: ReceiptState, at = 1, reason: string | null = null): ReceiptStep {
  return { state, at, reason };
}

describe('a receipt', () => {
  it('is the same on both sides, in whatever order and however often updates arrive [RC1]', () => {
    fc.assert(
      fc.property(heardTwice, ({ here, there }) => {
        expect(fold(here)).toEqual(fold(there));
        expect(story(fold(here))).toEqual(story(fold(there)));
        expect(presentState(fold(here))).toBe(presentState(fold(there)));
      }),
      { numRuns: 2_000 },
    );
  });

  it('has each state once, in order', () => {
    fc.assert(
      fc.property(heardTwice, ({ steps, here }) => {
        const ranks = fold(here).map(({ state }) => RECEIPT_STATES.indexOf(state));
        expect(ranks).toEqual([...ranks].sort((a, b) => a - b));
        expect(new Set(ranks).size).toBe(steps.length);
      }),
    );
  });

  it('is unchanged by known states, and never changed in place', () => {
    fc.assert(
      fc.property(heardTwice, ({ steps, here }) => {
        const receipt = Object.freeze(fold(here));
        for (const known of steps) expect(stepReceipt(receipt, { ...known })).toBe(receipt);
        const before = JSON.stringify(receipt);
        for (const state of RECEIPT_STATES) stepReceipt(receipt, step(state));
        expect(JSON.stringify(receipt)).toBe(before);
      }),
    );
  });

  it('shows at most one final state, and never loses it', () => {
    fc.assert(
      fc.property(heardTwice, ({ here }) => {
        let receipt: Receipt = [];
        let over = false;
        for (const news of here) {
          receipt = stepReceipt(receipt, news);
          const state = presentState(receipt)!;
          if (over) expect(isFinal(state)).toBe(true);
          over = isFinal(state);
          const ends = story(receipt).filter((shown) => isFinal(shown.state));
          expect(ends.map((shown) => shown.state)).toEqual(over ? [state] : []);
        }
      }),
    );
  });

  it('shows all states up to its end', () => {
    const receipt = fold([
      step('done', 9),
      step('read', 8),
      step('stored', 1),
      step('arrived', 2),
      step('surfaced', 3),
    ]);
    expect(story(receipt).map(({ state }) => state)).toEqual(['stored', 'arrived', 'surfaced', 'read', 'done']);
    expect(presentState(receipt)).toBe('done');
    expect(presentState(fold([step('stored'), step('surfaced'), step('arrived')]))).toBe('surfaced');
    expect(presentState([])).toBeUndefined();
  });

  it.each(ENDS.flatMap((one) => ENDS.filter((other) => other !== one).map((other) => [one, other] as const)))(
    'that reaches %s here and %s there ends alike on both sides',
    (one, other) => {
      const way = [step('stored'), step('arrived')];
      const here = fold([...way, step(one, 5, 'here'), step(other, 4, 'there')]);
      const there = fold([...way, step(other, 4, 'there'), step(one, 5, 'here')]);
      expect(story(here)).toEqual(story(there));
      const counts = [one, other].sort((a, b) => RECEIPT_STATES.indexOf(a) - RECEIPT_STATES.indexOf(b))[0];
      expect(presentState(here)).toBe(counts);
    },
  );

  it('that is done counts as done, even if it expired meanwhile', () => {
    for (const lost of ['expired', 'undeliverable', 'refused'] as const) {
      expect(presentState(fold([step(lost), step('done')]))).toBe('done');
      expect(presentState(fold([step('replied'), step(lost)]))).toBe('replied');
    }
  });

  it('that both sides end in the same way at different moments is the same on both sides', () => {
    // As when the sender's outbox and the recipient's inbox each let the message expire.
    const way = [step('stored'), step('arrived')];
    const sender = step('expired', 1_000, 'before its node could be reached');
    const recipient = step('expired', 1_700, 'before it was read');
    expect(fold([...way, sender, recipient])).toEqual(fold([...way, recipient, sender]));
  });

  it('tells its states from other values', () => {
    for (const state of RECEIPT_STATES) expect(isReceiptState(state)).toBe(true);
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect(isReceiptState(value)).toBe(RECEIPT_STATES.some((state) => state === value));
      }),
    );
    expect(['toString', '__proto__', 'Done', 'done '].some(isReceiptState)).toBe(false);
  });
});
