import { afterEach, describe, expect, it, vi } from 'vitest';
import { Deferred } from '../runtime/async.js';
import { withProgress } from './progress.js';

afterEach(() => vi.restoreAllMocks());

describe('a long call on a terminal', () => {
  it('is shown with its seconds, and taken back at its end [FM.progress]', async () => {
    const work = new Deferred<number>();
    const said: string[] = [];
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
      said.push(String(text));
      if (said.length === 1) work.resolve(7);
      return true;
    });
    // The first line is the event that ends the work.
    const alive = setInterval(() => {}, 1_000);
    expect(await withProgress(work.promise, 'store.check')).toBe(7);
    clearInterval(alive);
    expect(said).toEqual([expect.stringMatching(/the node works on store\.check … 2 s/), '\r\u001b[K']);
  });

  it('is not shown if it ends soon [FM.progress]', async () => {
    const write = vi.spyOn(process.stderr, 'write').mockImplementation(() => true);
    expect(await withProgress(Promise.resolve(7), 'agents')).toBe(7);
    expect(write).not.toHaveBeenCalled();
  });
});
