import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CONTRACT, type Coverage, type Subject } from './contract.js';
import { minimal } from './shorten.js';
import { type Outcome, simulate } from './simulation.js';

/** As many as take about half a minute of one core. `npm run simulate` runs more, and shortens what fails. */
const SEEDS = Array.from({ length: 12 }, (_, index) => index + 1);
const EVENTS = 2_000;
/**
 * Seeds that found a fault in the product: changes of a document that followed one that a full disk had refused, and
 * permits of streams and proposals whose other side was gone.
 */
const FOUND = [11, 24, 27, 29].map((seed) => ({ seed, events: 2_500 }));

function report({ seed, violations }: Outcome, events: number): string[] {
  const replay = `npm run simulate -- --seed ${seed} --events ${events}`;
  return violations.slice(0, 3).map(({ subject, text }) => `${subject}: ${text} (${replay})`);
}

describe('a whole mesh under random work and faults', () => {
  const examined = new Map<Subject, number>();

  it('keeps every line of the contract, and comes to rest when the faults end [SIM.1]', {
    timeout: 300_000,
  }, async () => {
    const broken: string[] = [];
    for (const { seed, events } of [...SEEDS.map((seed) => ({ seed, events: EVENTS })), ...FOUND]) {
      const outcome = await simulate({ seed, events });
      for (const [subject, times] of outcome.checks) examined.set(subject, (examined.get(subject) ?? 0) + times);
      broken.push(...report(outcome, events));
    }
    expect(broken).toEqual([]);
  });

  it('has examined each line that the table says it checks [SIM.1]', () => {
    const checked = Object.entries<Coverage>(CONTRACT).flatMap(([subject, one]) => ('checks' in one ? [subject] : []));
    expect(checked.filter((subject) => !examined.has(subject as Subject))).toEqual([]);
  });

  it('has an entry for each line of the contract, in its order [SIM.1]', () => {
    const text = readFileSync(new URL('../../docs/contract.md', import.meta.url), 'utf8');
    const rows = [...text.matchAll(/^\| ([^|]+?) \| /gm)].map(([, subject]) => subject);
    expect(Object.keys(CONTRACT)).toEqual(rows.filter((row) => row !== 'subject' && row !== '---'));
  });

  it('gives the same history for the same seed [SIM.2]', { timeout: 120_000 }, async () => {
    for (const seed of [3, 5]) {
      const first = await simulate({ seed, events: 1_000 });
      const again = await simulate({ seed, events: 1_000 });
      expect(again.hash).toBe(first.hash);
      expect(again.log).toEqual(first.log);
      const replayed = await simulate({ seed, events: 1_000, replay: { plan: first.plan, endAt: first.endAt } });
      expect(replayed.hash).toBe(first.hash);
    }
  });

  it('shortens a failing list to the parts that the failure needs [SIM.2]', async () => {
    const items = Array.from({ length: 200 }, (_, index) => index);
    const needed = [3, 77, 150];
    const found = await minimal(items, async (left) => needed.every((item) => left.includes(item)));
    expect(found).toEqual(needed);
  });
});
