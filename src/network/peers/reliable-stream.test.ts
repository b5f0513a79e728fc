import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { IncomingStream, type ItemOutcome, OutgoingStream } from './reliable-stream.js';
import { decodeFrame, encodeData, type Refusal, readData } from './wire.js';

const ROOMY = { items: 100_000, bytes: 64 * 1_048_576 };
/** What one frame and what the window may hold. */
const FRAME_ITEMS = 512;
const FRAME_BYTES = 65_536;
const WINDOW_ITEMS = 4_096;
const WINDOW_BYTES = 4 * 1_048_576;

interface DataOnWire {
  readonly first: number;
  readonly base: number;
  readonly texts: readonly string[];
}

interface AckOnWire {
  readonly received: number;
  readonly refusals: readonly Refusal[];
}

/** The next frame, with its items as texts. Those of these tests have no commas. */
function take(out: OutgoingStream): { first: number; texts: string[] } {
  const { first, runs } = out.take();
  return { first, texts: runs.flatMap((run) => Buffer.from(run).toString().split(',')) };
}

function outcome(taken: () => unknown, refused: (error: EclipticError) => unknown = () => {}): ItemOutcome {
  return { taken: () => void taken(), refused: (error) => void refused(error) };
}

/** Both halves of one conversation, and a wire between them that keeps every frame for as often as the test wants. */
class Conversation {
  readonly out = new OutgoingStream(ROOMY);
  readonly in = new IncomingStream();
  readonly data: DataOnWire[] = [];
  readonly acks: AckOnWire[] = [];
  readonly pushed: string[] = [];
  readonly taken: string[] = [];
  readonly settled: string[] = [];
  readonly #refuses: (text: string) => boolean;

  constructor(refuses: (text: string) => boolean = () => false) {
    this.#refuses = refuses;
  }

  push(text = `item ${this.pushed.length + 1}`): void {
    this.pushed.push(text);
    const taken = () => this.settled.push(`${text}: taken`);
    const refused = (error: EclipticError) => this.settled.push(`${text}: ${error.code} ${error.details.outcome}`);
    this.out.push(text, outcome(taken, refused));
  }

  /** Puts the next frame on the wire. */
  take(): void {
    const { first, texts } = take(this.out);
    if (texts.length > 0) this.data.push({ first, base: this.out.base, texts });
  }

  /** Hands a frame to the other side, as a peer does. */
  deliver({ first, base, texts }: DataOnWire): void {
    const known = this.in.known(first);
    if (known === undefined) return;
    this.in.forget(base);
    for (const text of texts.slice(known)) {
      const seq = this.in.advance();
      this.taken.push(text);
      if (this.#refuses(text)) this.in.refuse(seq, new EclipticError('MAILBOX_FULL', `no room for ${text}`));
    }
  }

  acknowledge(): void {
    this.acks.push({ received: this.in.received, refusals: this.in.refusals });
  }

  hear({ received, refusals }: AckOnWire): boolean {
    return this.out.acknowledge(received, refusals);
  }

  /** A link that works for once: everything is sent again, taken and acknowledged. */
  finish(): void {
    this.out.rewind();
    while (this.out.ready) {
      this.take();
      this.deliver(this.data.at(-1)!);
      this.acknowledge();
      this.hear(this.acks.at(-1)!);
    }
  }

  /** What each item's fate must have been. */
  get fates(): string[] {
    return this.pushed.map((text) => `${text}: ${this.#refuses(text) ? 'MAILBOX_FULL not-delivered' : 'taken'}`);
  }
}

type Step =
  | { readonly do: 'push' | 'take' | 'rewind' | 'acknowledge' }
  | { readonly do: 'deliver' | 'hear'; readonly pick: number };

const arbStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('push' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('take' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('rewind' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('acknowledge' as const) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('deliver' as const), pick: fc.nat(1_000) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('hear' as const), pick: fc.nat(1_000) }) },
);

/** Any frame that is still on the wire, however old, may come now, again or never. */
function perform(conversation: Conversation, step: Step): void {
  const { data, acks, out } = conversation;
  if (step.do === 'push') conversation.push();
  else if (step.do === 'take') conversation.take();
  else if (step.do === 'rewind') out.rewind();
  else if (step.do === 'acknowledge') conversation.acknowledge();
  else if (step.do === 'deliver' && data.length > 0) conversation.deliver(data[step.pick % data.length]!);
  else if (step.do === 'hear' && acks.length > 0) conversation.hear(acks[step.pick % acks.length]!);
}

describe('an item that must not be taken any more', () => {
  it('is replaced wherever the other side has not taken it, which says whether it may have arrived [T-C3]', () => {
    const out = new OutgoingStream(ROOMY);
    const numbers = ['one', 'two', 'three'].map((text) => out.push(text));
    expect(numbers).toEqual([1, 2, 3]);
    out.take();
    expect(out.replace(out.push('four'), 'nothing')).toBe('not-delivered');
    expect(take(out)).toEqual({ first: 4, texts: ['nothing'] });
    out.acknowledge(1, []);
    expect(out.replace(1, 'nothing')).toBe('unknown');
    expect(out.replace(2, 'nothing')).toBe('unknown');
    out.rewind();
    expect(take(out)).toEqual({ first: 2, texts: ['nothing', 'three', 'nothing'] });
    out.acknowledge(4, []);
    expect(out.settled).toBe(true);
  });

  it('is not replaced by its number in another conversation', () => {
    const out = new OutgoingStream(ROOMY);
    const theirs = outcome(() => {});
    out.push(
      'one',
      outcome(() => {}),
    );
    expect(out.replace(1, 'nothing', theirs)).toBe('unknown');
    expect(take(out)).toEqual({ first: 1, texts: ['one'] });
  });
});

describe('texts of any length and script', () => {
  it('are sent as they were given, also again and also next to others that were acknowledged', () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.integer({ min: 1, max: 70_000 }).map((length) => 'ä'.repeat(length)),
      fc.integer({ min: 1, max: 70_000 }).map((length) => 'a'.repeat(length)),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(text, fc.nat(3)), { maxLength: 40 }), (steps) => {
        const out = new OutgoingStream(ROOMY);
        const taken: unknown[] = [];
        const takeAll = () => {
          while (out.ready) {
            const { first, runs } = out.take();
            const frame = encodeData(first, out.base, 0, [], runs);
            const read = readData(decodeFrame(frame)).items as readonly unknown[];
            for (const item of read.slice(Math.max(0, taken.length + 1 - first))) taken.push(item);
          }
        };
        for (const [each, step] of steps) {
          out.push(JSON.stringify(['text', each]));
          if (step > 0) takeAll();
          if (step === 2) out.acknowledge(taken.length, []);
          if (step === 3) out.rewind();
        }
        takeAll();
        expect(taken).toEqual(steps.map(([each]) => ['text', each]));
      }),
      { numRuns: 100 },
    );
  });
});

describe('a conversation over links that lose, repeat and reorder', () => {
  it('takes every item exactly once and in order, and settles each exactly once and in order', () => {
    fc.assert(
      fc.property(fc.array(arbStep, { maxLength: 150 }), fc.integer({ min: 2, max: 9 }), (steps, every) => {
        const conversation = new Conversation((text) => Number(text.slice(5)) % every === 0);
        for (const step of steps) {
          perform(conversation, step);
          // At no moment is anything out of order, taken twice or settled before it was taken.
          expect(conversation.taken).toEqual(conversation.pushed.slice(0, conversation.taken.length));
          expect(conversation.settled).toEqual(conversation.fates.slice(0, conversation.settled.length));
          expect(conversation.settled.length).toBeLessThanOrEqual(conversation.taken.length);
        }
        conversation.finish();
        expect(conversation.taken).toEqual(conversation.pushed);
        expect(conversation.settled).toEqual(conversation.fates);
        expect(conversation.out.settled).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it('tells every item whether it may have arrived when the conversation is given up at any moment', () => {
    fc.assert(
      fc.property(fc.array(arbStep, { maxLength: 100 }), (steps) => {
        const conversation = new Conversation();
        for (const step of steps) perform(conversation, step);
        const sent = Math.max(0, ...conversation.data.map(({ first, texts }) => first + texts.length - 1));
        const before = conversation.settled.length;
        conversation.out.fail('the other node is lost');
        const rest = conversation.pushed.slice(before).map((text, index) => {
          return `${text}: DELIVERY_FAILED ${before + index < sent ? 'unknown' : 'not-delivered'}`;
        });
        expect(conversation.settled.slice(before)).toEqual(rest);
        // Nothing that was taken is ever called undelivered.
        const undelivered = conversation.settled.filter((fate) => fate.endsWith('not-delivered'));
        for (const fate of undelivered) expect(conversation.taken).not.toContain(fate.split(':')[0]);
      }),
      { numRuns: 300 },
    );
  });

  it('forgets a refusal only when the other side has heard of it', () => {
    const conversation = new Conversation((text) => text === 'item 1');
    conversation.push();
    conversation.take();
    conversation.deliver(conversation.data[0]!);
    expect(conversation.in.refusals).toEqual([[1, 'MAILBOX_FULL', 'no room for item 1']]);
    conversation.push();
    conversation.take();
    conversation.deliver(conversation.data[1]!);
    expect(conversation.in.refusals, 'its acknowledgement may be lost').toHaveLength(1);
    conversation.acknowledge();
    conversation.hear(conversation.acks[0]!);
    conversation.push();
    conversation.take();
    conversation.deliver(conversation.data[2]!);
    expect(conversation.in.refusals).toEqual([]);
  });
});

describe('an outgoing stream', () => {
  it('numbers from one, and keeps its base until something is acknowledged', () => {
    const out = new OutgoingStream(ROOMY);
    out.push('a');
    out.push('b');
    expect(take(out)).toEqual({ first: 1, texts: ['a', 'b'] });
    expect(out.base).toBe(1);
    expect(out.acknowledge(1, [])).toBe(true);
    expect(out.base).toBe(2);
  });

  it('is settled when everything that it was given is acknowledged or given up, sent or not', () => {
    const out = new OutgoingStream(ROOMY);
    expect(out.settled).toBe(true);
    out.push('a');
    expect(out.settled).toBe(false);
    out.take();
    out.rewind();
    expect(out.settled).toBe(false);
    out.acknowledge(1, []);
    expect(out.settled).toBe(true);
    out.push('b');
    out.fail('over');
    expect(out.settled).toBe(true);
  });

  it('does not take old news for news', () => {
    const out = new OutgoingStream(ROOMY);
    out.push('a');
    out.take();
    expect(out.acknowledge(0, [])).toBe(false);
    expect(out.acknowledge(1, [])).toBe(true);
    expect(out.acknowledge(1, [])).toBe(false);
  });

  it.each([
    ['something was sent', 1, 2],
    ['nothing was sent', 0, 1],
  ])('refuses an acknowledgement of what was never sent when %s', (_, sent, received) => {
    const out = new OutgoingStream(ROOMY);
    let settled = 0;
    for (let count = 0; count < sent; count++)
      out.push(
        'sent',
        outcome(() => settled++),
      );
    out.take();
    out.push(
      'waits',
      outcome(() => settled++),
    );
    expect(() => out.acknowledge(received, [])).toThrow(expect.objectContaining({ code: 'INVALID_FRAME' }));
    expect(settled).toBe(0);
  });

  it('refuses a late acknowledgement of items that were never sent, also after a rewind', () => {
    const out = new OutgoingStream(ROOMY);
    out.push('a');
    out.take();
    out.push('b');
    out.rewind();
    expect(() => out.acknowledge(2, [])).toThrow(expect.objectContaining({ code: 'INVALID_FRAME' }));
    expect(out.acknowledge(1, [])).toBe(true);
    expect(take(out)).toEqual({ first: 2, texts: ['b'] });
  });

  it('passes the other side’s refusal on, and makes an unknown code a failed delivery', () => {
    const out = new OutgoingStream(ROOMY);
    const errors: EclipticError[] = [];
    for (const text of ['a', 'b', 'c']) {
      out.push(
        text,
        outcome(
          () => {},
          (error) => errors.push(error),
        ),
      );
    }
    out.take();
    out.acknowledge(3, [
      [1, 'MAILBOX_FULL', 'full'],
      [2, '__proto__', 'made up'],
      [3, 'toString', 'made up'],
    ]);
    expect(errors.map(({ code, message, details }) => [code, message, details.outcome])).toEqual([
      ['MAILBOX_FULL', 'full', 'not-delivered'],
      ['DELIVERY_FAILED', 'made up', 'not-delivered'],
      ['DELIVERY_FAILED', 'made up', 'not-delivered'],
    ]);
  });

  it('ignores refusals of numbers that are settled, or not yet reached', () => {
    const out = new OutgoingStream(ROOMY);
    const fates: string[] = [];
    for (const text of ['a', 'b']) {
      const refused = () => fates.push(`${text} refused`);
      out.push(
        text,
        outcome(() => fates.push(`${text} taken`), refused),
      );
    }
    out.take();
    out.acknowledge(1, [[2, 'MAILBOX_FULL', 'full']]);
    expect(fates).toEqual(['a taken']);
    out.acknowledge(2, [[1, 'MAILBOX_FULL', 'full']]);
    expect(fates).toEqual(['a taken', 'b taken']);
  });

  it('takes no more items than it may keep, until some are acknowledged', () => {
    const out = new OutgoingStream({ items: 3, bytes: 1_000 });
    for (let count = 0; count < 3; count++) out.push('a');
    expect(() => out.push('a')).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
    out.take();
    expect(() => out.push('a'), 'sent is not yet settled').toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
    out.acknowledge(1, []);
    out.push('a');
    expect(() => out.push('a')).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
  });

  it('takes no more bytes than it may keep, until some are acknowledged', () => {
    const out = new OutgoingStream({ items: 1_000, bytes: 10 });
    out.push('12345');
    out.push('12345');
    expect(() => out.push('1')).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
    out.take();
    out.acknowledge(1, []);
    expect(() => out.push('123456')).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
    out.push('12345');
  });

  it('does not count an item that it refused', () => {
    const out = new OutgoingStream({ items: 10, bytes: 10 });
    expect(() => out.push('x'.repeat(11))).toThrow(expect.objectContaining({ code: 'QUEUE_FULL' }));
    out.push('x'.repeat(10));
    expect(take(out).texts).toHaveLength(1);
  });

  it('puts no more than one frame’s items and bytes into a frame, unless one item is larger', () => {
    const many = new OutgoingStream(ROOMY);
    for (let count = 0; count < FRAME_ITEMS + 1; count++) many.push('a');
    expect(take(many).texts).toHaveLength(FRAME_ITEMS);
    expect(take(many)).toEqual({ first: FRAME_ITEMS + 1, texts: ['a'] });
    const large = new OutgoingStream(ROOMY);
    large.push('a'.repeat(FRAME_BYTES));
    large.push('b');
    large.push('c'.repeat(FRAME_BYTES * 3));
    expect(take(large).texts.map((text) => text.length)).toEqual([FRAME_BYTES]);
    expect(take(large).texts.map((text) => text.length)).toEqual([1]);
    expect(take(large).texts.map((text) => text.length)).toEqual([FRAME_BYTES * 3]);
    expect(take(large).texts).toEqual([]);
  });

  it('sends no more items than the window holds before some are acknowledged', () => {
    const out = new OutgoingStream(ROOMY);
    for (let count = 0; count < WINDOW_ITEMS + 100; count++) out.push('a');
    let sent = 0;
    while (out.ready) sent += take(out).texts.length;
    expect(sent).toBe(WINDOW_ITEMS);
    out.acknowledge(10, []);
    expect(out.ready).toBe(true);
    expect(take(out)).toEqual({ first: WINDOW_ITEMS + 1, texts: new Array(10).fill('a') });
    expect(out.ready).toBe(false);
  });

  it('sends no more bytes than the window holds before some are acknowledged', () => {
    const out = new OutgoingStream(ROOMY);
    const text = 'a'.repeat(1_000_000);
    for (let count = 0; count < 10; count++) out.push(text);
    let sent = 0;
    while (out.ready) sent += take(out).texts.length;
    expect((sent - 1) * text.length).toBeLessThan(WINDOW_BYTES);
    expect(sent).toBe(5);
    out.acknowledge(1, []);
    expect(out.ready).toBe(true);
  });

  it('sends unacknowledged items again, under the same numbers, within the same window', () => {
    const out = new OutgoingStream(ROOMY);
    for (let count = 1; count <= WINDOW_ITEMS + 1; count++) out.push(`${count}`);
    while (out.ready) out.take();
    out.acknowledge(3, []);
    out.rewind();
    expect(out.settled).toBe(false);
    expect(take(out)).toMatchObject({ first: 4, texts: expect.arrayContaining(['4']) });
    let sent = FRAME_ITEMS;
    while (out.ready) sent += take(out).texts.length;
    expect(sent).toBe(WINDOW_ITEMS + 1 - 3);
  });

  it('knows after a rewind that an item may have arrived before it', () => {
    const out = new OutgoingStream(ROOMY);
    const outcomes: unknown[] = [];
    const note = (error: EclipticError) => outcomes.push([error.code, error.details.outcome, error.message]);
    const noted = outcome(() => {}, note);
    out.push('sent', noted);
    out.take();
    out.rewind();
    out.push('waits', noted);
    out.fail('it was away for too long');
    expect(outcomes).toEqual([
      ['DELIVERY_FAILED', 'unknown', 'it was away for too long'],
      ['DELIVERY_FAILED', 'not-delivered', 'it was away for too long'],
    ]);
  });

  it('settles nothing a second time when it is given up', () => {
    const out = new OutgoingStream(ROOMY);
    let settled = 0;
    const count = () => settled++;
    out.push('a', outcome(count, count));
    out.push('b', outcome(count, count));
    out.take();
    out.acknowledge(1, []);
    out.fail('over');
    out.fail('over again');
    expect(settled).toBe(2);
  });
});

describe('an incoming stream', () => {
  it('counts the items it has taken, and detects a gap', () => {
    const stream = new IncomingStream();
    expect(stream.known(1)).toBe(0);
    expect(stream.known(2)).toBeUndefined();
    stream.advance();
    stream.advance();
    expect(stream.received).toBe(2);
    expect([stream.known(1), stream.known(2), stream.known(3), stream.known(4)]).toEqual([2, 1, 0, undefined]);
  });

  it('remembers refusals of an honest sender’s window, and no more than of two windows', () => {
    const stream = new IncomingStream();
    const error = new EclipticError('MAILBOX_FULL', 'full');
    for (let count = 0; count < 2 * WINDOW_ITEMS; count++) stream.refuse(stream.advance(), error);
    expect(stream.refusals).toHaveLength(2 * WINDOW_ITEMS);
    const more = () => {
      for (let count = 0; count < 2; count++) stream.refuse(stream.advance(), error);
    };
    expect(more).toThrow(expect.objectContaining({ code: 'INVALID_FRAME' }));
    stream.forget(WINDOW_ITEMS + 1);
    expect(stream.refusals[0]?.[0]).toBe(WINDOW_ITEMS + 1);
    expect(more).not.toThrow();
  });
});
