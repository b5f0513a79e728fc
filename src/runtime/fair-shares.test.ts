import { describe, expect, it } from 'vitest';
import { FairShares } from './fair-shares.js';

describe('fair shares of a table', () => {
  it('leave room for other owners when one owner has filled the table, in items [T-F3]', () => {
    const shares = new FairShares({ items: 10, bytes: 1_000 });
    while (shares.hasRoom('greedy')) shares.add('greedy', 1);
    expect(shares.hasRoom('greedy')).toBe(false);
    let others = 0;
    for (; shares.hasRoom('honest'); others++) shares.add('honest', 1);
    expect(others).toBe(5);
    shares.remove('honest', 1);
    expect(shares.hasRoom('honest')).toBe(true);
    expect(shares.hasRoom('greedy')).toBe(false);
  });

  it('leave room for other owners when one owner has filled the table, in bytes [T-F4]', () => {
    const shares = new FairShares({ items: 1_000, bytes: 100 });
    shares.add('greedy', 100);
    expect([shares.hasRoom('greedy'), shares.hasRoom('honest')]).toEqual([false, true]);
    shares.remove('greedy', 100);
    expect(shares.hasRoom('greedy')).toBe(true);
  });

  it('take no removal of what was never added', () => {
    const shares = new FairShares({ items: 1, bytes: 1 });
    shares.remove('stranger', 5);
    shares.add('one', 1);
    expect(shares.hasRoom('one')).toBe(false);
  });
});
