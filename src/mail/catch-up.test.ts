import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CatchUp, ResendBackoff } from './catch-up.js';

const PAGE = 3;

/** A table whose reads can be delayed and made to fail, and a queue over it with a bounded memory. */
class Fixture {
  readonly rows: { number: number }[] = [];
  readonly taken: number[] = [];
  readonly failures: unknown[] = [];
  room = 8;
  failing = false;
  readonly queue = new CatchUp<{ number: number }>({
    read: async (above) => {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.failing) throw new Error('disk');
      return this.rows.filter(({ number }) => number > above).slice(0, PAGE);
    },
    take: ({ number }) => {
      this.taken.push(number);
      this.room--;
    },
    hasRoom: () => this.room >= PAGE,
    isFull: () => this.room <= 0,
    onFailure: (error) => this.failures.push(error),
  });

  write(): boolean {
    const row = { number: this.rows.length + 1 };
    this.rows.push(row);
    return this.queue.offer(row);
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

describe('CatchUp', () => {
  it('takes entries from disk first, then from memory as they are written', async () => {
    const fixture = new Fixture();
    fixture.write();
    fixture.write();
    expect(fixture.taken).toEqual([]);
    await fixture.queue.load();
    expect(fixture.taken).toEqual([1, 2]);
    expect(fixture.write()).toBe(true);
    expect(fixture.taken).toEqual([1, 2, 3]);
  });

  it('leaves an entry on disk while older entries are read', async () => {
    const fixture = new Fixture();
    fixture.write();
    const loaded = fixture.queue.load();
    expect(fixture.write()).toBe(false);
    await loaded;
    expect(fixture.taken).toEqual([1, 2]);
  });

  it('leaves entries on disk when it is full, and reads them when there is room', async () => {
    const fixture = new Fixture();
    await fixture.queue.load();
    for (let count = 0; count < 12; count++) fixture.write();
    expect(fixture.taken).toHaveLength(8);
    expect(fixture.queue.behind).toBe(true);
    fixture.room = 10;
    await fixture.queue.load();
    expect(fixture.taken).toEqual(fixture.rows.map(({ number }) => number));
  });

  it('reports a failed read, and reads the same entries when it resumes', async () => {
    const fixture = new Fixture();
    fixture.write();
    fixture.failing = true;
    fixture.queue.resume();
    await settle();
    expect(fixture.failures).toHaveLength(1);
    await expect(fixture.queue.load()).rejects.toThrow('disk');
    fixture.failing = false;
    await fixture.queue.load();
    expect(fixture.taken).toEqual([1]);
  });

  it('discards the page that is being read when it is closed', async () => {
    const fixture = new Fixture();
    fixture.write();
    const loaded = fixture.queue.load();
    fixture.queue.close();
    await loaded;
    expect(fixture.taken).toEqual([]);
  });

  it('takes every entry once and in order, however writes, reads, failures and room interleave', async () => {
    const step = fc.constantFrom('write', 'write', 'resume', 'turn', 'free', 'fail', 'recover');
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const fixture = new Fixture();
        for (const action of steps) {
          if (action === 'write') fixture.write();
          else if (action === 'resume') fixture.queue.resume();
          else if (action === 'turn') await new Promise((resolve) => setImmediate(resolve));
          else if (action === 'free') fixture.room = 8;
          else fixture.failing = action === 'fail';
        }
        fixture.failing = false;
        fixture.room = 1_000;
        await settle();
        await fixture.queue.load();
        await fixture.queue.load();
        expect(fixture.taken).toEqual(fixture.rows.map(({ number }) => number));
        expect(fixture.queue.behind).toBe(false);
      }),
      { numRuns: 200 },
    );
  });
});

describe('ResendBackoff', () => {
  it('waits 5 s, doubles up to 60 s, and starts over at an acknowledgement', () => {
    const backoff = new ResendBackoff();
    expect(backoff.isDue(0, true)).toBe(false);
    expect(backoff.isDue(4_999, true)).toBe(false);
    expect(backoff.isDue(5_000, true)).toBe(true);
    expect(backoff.isDue(14_999, true)).toBe(false);
    expect(backoff.isDue(15_000, true)).toBe(true);
    for (let now = 15_000; now < 400_000; now += 60_000) backoff.isDue(now, true);
    backoff.acknowledged(500_000);
    expect(backoff.isDue(504_999, true)).toBe(false);
    expect(backoff.isDue(505_000, true)).toBe(true);
  });

  it('is never due while nothing is unacknowledged', () => {
    const backoff = new ResendBackoff();
    expect(backoff.isDue(0, true)).toBe(false);
    expect(backoff.isDue(60_000, false)).toBe(false);
    expect(backoff.isDue(60_001, true)).toBe(false);
  });
});
