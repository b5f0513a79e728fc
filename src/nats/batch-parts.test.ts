import { headers } from '@nats-io/transport-node';
import { describe, expect, it } from 'vitest';
import { BatchParts, markPart, partsOf } from './batch-parts.js';

const ID = 'a'.repeat(43);
const OTHER = 'b'.repeat(43);
const bytes = Buffer.from('a batch in some parts');

function marked(text: string) {
  const made = headers();
  markPart(made, text);
  return made;
}

function start() {
  const parts = new BatchParts({ maxBytes: 100, maxSenders: 2 });
  const sent = (id: string, size = 5) => [...partsOf(id, bytes, size)];
  const take = (node: string, [text, data]: readonly [string, Uint8Array]) => parts.take(node, marked(text), data);
  return { parts, sent, take };
}

describe('a batch in parts', () => {
  it('is put together from parts that come in order, of several senders at once', () => {
    const { parts, sent, take } = start();
    const [one, other] = [sent(ID), sent(OTHER, 7)];
    expect([take('ann', one[0]!), take('bob', other[0]!)]).toEqual(['begun', 'begun']);
    expect(one.slice(1, -1).map((part) => take('ann', part))).toEqual(['more', 'more', 'more']);
    expect(take('bob', other[1]!)).toBe('more');
    expect(take('ann', one.at(-1)!)).toEqual(bytes);
    expect(take('bob', other.at(-1)!)).toEqual(bytes);
    expect(parts.take('ann', undefined, bytes)).toBe(bytes);
  });

  it('takes a part that is published again once', () => {
    const { sent, take } = start();
    const [first, second, ...rest] = sent(ID);
    take('ann', first!);
    expect([take('ann', second!), take('ann', second!)]).toEqual(['more', 'more']);
    expect(rest.map((part) => take('ann', part)).at(-1)).toEqual(bytes);
  });

  it('is broken if a part is missing or of another batch, or if it is too large', () => {
    const { parts, sent, take } = start();
    const one = sent(ID);
    expect(take('ann', one[1]!)).toBe('broken');
    take('ann', one[0]!);
    expect(take('ann', one[2]!)).toBe('broken');
    take('ann', one[0]!);
    expect(take('ann', sent(OTHER)[1]!)).toBe('broken');
    expect(parts.take('ann', marked(`${ID} 0 2`), Buffer.alloc(101))).toBe('broken');
    expect(parts.take('ann', marked('nonsense'), bytes)).toBe('broken');
    take('ann', one[0]!);
    take('bob', one[0]!);
    // Memory is bounded.
    expect(take('carol', one[0]!)).toBe('broken');
  });
});
