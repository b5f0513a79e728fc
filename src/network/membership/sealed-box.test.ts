import { describe, expect, it } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Identity } from './identity.js';
import { BOX_BYTES, SealedBoxes } from './sealed-box.js';

const runtime = systemRuntime();
const [ann, bob, eve] = [Identity.create(runtime), Identity.create(runtime), Identity.create(runtime)];
const boxes = ({ seed }: Identity) => new SealedBoxes(runtime, seed);

describe('a sealed box', () => {
  it('opens for the node that it is for, and for no other', () => {
    const content = Buffer.from('hello');
    const box = boxes(ann).seal(bob.key, 'here', content);
    expect(box.length).toBe(content.length + BOX_BYTES);
    expect(boxes(bob).open('here', box)).toEqual(content);
    expect(boxes(eve).open('here', box)).toBeUndefined();
    expect(boxes(ann).open('here', box)).toBeUndefined();
    expect(boxes(bob).open('there', box)).toBeUndefined();
  });

  it('is different each time', () => {
    const [one, other] = [1, 2].map(() => boxes(ann).seal(bob.key, '', Buffer.from('hello')));
    expect(one!.equals(other!)).toBe(false);
  });

  it('does not open after a change of any of its bytes, or shortened', () => {
    const box = boxes(ann).seal(bob.key, '', Buffer.from('hello'));
    const reader = boxes(bob);
    for (let at = 0; at < box.length; at++) {
      const changed = Buffer.from(box);
      changed[at]! ^= 1;
      expect(reader.open('', changed), `byte ${at}`).toBeUndefined();
    }
    for (let length = 0; length < box.length; length++)
      expect(reader.open('', box.subarray(0, length))).toBeUndefined();
    // A point of small order would make the key known to all.
    expect(reader.open('', Buffer.concat([Buffer.from([1]), Buffer.alloc(64)]))).toBeUndefined();
  });

  it('works for many keys, whatever their sign bit', () => {
    for (let n = 0; n < 50; n++) {
      const other = Identity.create(runtime);
      const box = boxes(ann).seal(other.key, 'x', Buffer.from([n]));
      expect(boxes(other).open('x', box)).toEqual(Buffer.from([n]));
    }
  });

  it('is made for node keys only', () => {
    expect(() => boxes(ann).seal('00'.repeat(32), '', Buffer.alloc(1))).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENTS' }),
    );
  });
});
