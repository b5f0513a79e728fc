import { describe, expect, it } from 'vitest';
import { MailQuota } from './mail-quota.js';

const LIMITS = {
  all: { messages: 100, bytes: 1_000_000 },
  node: { messages: 60, bytes: 600_000 },
  agent: { messages: 40, bytes: 400_000 },
};

function fill(quota: MailQuota, sender: string, messages: number, chars = 0): void {
  for (let n = 0; n < messages; n++) quota.add(`${sender} ${n}`, sender, chars);
}

describe('the quota of durable mail', () => {
  it('gives another node its share, and each of its agents one within it [T-F3]', () => {
    const quota = new MailQuota({ messages: 0, bytes: 0 }, LIMITS);
    fill(quota, 'a@x', 40);
    expect([quota.agentHasRoom('a@x'), quota.agentHasRoom('b@x'), quota.hasRoom('b@x')]).toEqual([false, true, true]);
    fill(quota, 'b@x', 20);
    expect([quota.hasRoom('b@x'), quota.hasRoom('c@x'), quota.hasRoom('a@y')]).toEqual([false, false, true]);
    quota.remove('b@x 0');
    expect(quota.hasRoom('c@x')).toBe(true);
  });

  it('counts bytes as it counts messages [T-F4]', () => {
    const quota = new MailQuota({ messages: 0, bytes: 0 }, LIMITS);
    fill(quota, 'a@x', 4, 100_000);
    expect([quota.agentHasRoom('a@x'), quota.hasRoom('a@x')]).toEqual([false, true]);
    fill(quota, 'b@x', 2, 100_000);
    expect([quota.hasRoom('b@x'), quota.hasRoom('local')]).toEqual([false, true]);
  });

  it('leaves an equal part to every owner when it is full [T-F3]', () => {
    const quota = new MailQuota({ messages: 0, bytes: 0 }, LIMITS);
    quota.complete();
    fill(quota, 'greedy', 100);
    expect([quota.hasRoom('greedy'), quota.hasRoom('modest'), quota.hasRoom('a@x')]).toEqual([false, true, true]);
    fill(quota, 'modest', 50);
    expect([quota.hasRoom('modest'), quota.hasRoom('a@x')]).toEqual([false, true]);
  });

  it('counts the messages of earlier processes by sender, except those that ended meanwhile', () => {
    const quota = new MailQuota({ messages: 100, bytes: 100 }, LIMITS);
    expect(quota.hasRoom('modest')).toBe(false);
    quota.remove('old 7');
    const rows = Array.from({ length: 100 }, (_, n) => ({ key: `old ${n}`, sender: 'greedy', chars: 0 }));
    quota.found(rows);
    quota.complete();
    quota.add('new', 'greedy', 0);
    expect([quota.hasRoom('greedy'), quota.hasRoom('modest')]).toEqual([false, true]);
    for (const { key } of rows) if (key !== 'old 7') quota.remove(key);
    quota.remove('new');
    expect(quota.hasRoom('greedy')).toBe(true);
  });
});
