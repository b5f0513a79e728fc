import { describe, expect, it } from 'vitest';
import { bagOf, rank } from './ranking.js';

const named = (text: string) => ({ text, bag: bagOf(text) });

const NOTES = [
  'Deployments to production wait for green CI; nobody deploys on Fridays.',
  'The staging database is reset every night at two.',
  'parseConfig() in src/config.ts throws INVALID_CONFIG for unknown keys.',
  'Coffee is in the kitchen.',
  '数据库 每晚 备份',
].map(named);

const best = (query: string) => rank(NOTES, query).map(({ item }) => item.text.slice(0, 12));

describe('the ranking of entries', () => {
  it('finds inflected words, parts of names in code, and scripts without spaces, best first [CO.2]', () => {
    expect(best('may I deploy on friday?')[0]).toBe('Deployments ');
    expect(best('when are databases resetting')[0]).toBe('The staging ');
    expect(best('config parsing')[0]).toBe('parseConfig(');
    expect(best('invalid_config')[0]).toBe('parseConfig(');
    expect(best('备份')).toEqual(['数据库 每晚 备份']);
    expect(best('the and of')).toEqual([]);
    expect(best('kubernetes')).toEqual([]);
  });

  it('prefers rare words and short texts, and keeps the order of equal ones', () => {
    const some = ['alpha alpha alpha beta', 'beta gamma', 'beta gamma', 'beta'].map(named);
    expect(rank(some, 'gamma beta').map(({ item }) => some.indexOf(item))).toEqual([1, 2, 3, 0]);
    expect(rank([], 'beta')).toEqual([]);
  });

  it('takes a query of any length and any characters', () => {
    const long = `${'deploy '.repeat(20_000)}\u0000\ud800 ({[*+?`;
    expect(rank(NOTES, long)[0]?.item).toBe(NOTES[0]);
  });
});
