import { describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { Segment } from './segment.js';
import { SegmentWriter } from './segment-writer.js';

const segment = (number: number) =>
  new Segment({ stream: 'a@1/s', first: number, number, after: {}, update: new Uint8Array() });

/** A writer on a disk that is full for as long as the test says. */
function writer() {
  const runtime = new SimulatedRuntime();
  const disk = { isFull: true };
  const [stored, failures]: [number[], unknown[]] = [[], []];
  const subject = new SegmentWriter({
    runtime,
    write: async () => {
      if (disk.isFull) throw new Error('no space left');
    },
    onStored: ({ number }) => void stored.push(number),
    onFailure: (error) => void failures.push(error),
    onIdle: () => {},
  });
  return { runtime, disk, stored, failures, subject };
}

describe('the segments that a replica stores', () => {
  it('are stored in their order once a full disk has room, and none is left out [SIM.1]', async () => {
    const { runtime, disk, stored, failures, subject } = writer();
    subject.add(segment(1));
    const first = subject.stored();
    await expect(first).rejects.toThrow('no space left');
    subject.add(segment(2));
    await runtime.advance(5_000);
    expect(stored).toEqual([]);
    expect(failures).toHaveLength(1);
    disk.isFull = false;
    const second = subject.stored();
    await runtime.advance(10_000);
    await second;
    expect(stored).toEqual([1, 2]);
    expect(subject.busy).toBe(false);
  });

  it('are tried once more when the replica closes, and keep nothing waiting', async () => {
    const { runtime, stored, subject } = writer();
    subject.add(segment(1));
    await runtime.advance(10);
    await subject.close();
    expect(stored).toEqual([]);
    expect(runtime.pending).toBe(0);
  });
});
