import { describe, expect, it } from 'vitest';
import { citations } from './citations.js';
import { requirements } from './requirements.js';

const cited = citations();

describe('the requirements', () => {
  it('have one row each', () => {
    const ids = requirements.map((row) => row.id);
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
  });

  it('are each cited by a test, or planned', () => {
    expect(requirements.filter((row) => !row.planned && !cited.has(row.id)).map((row) => row.id)).toEqual([]);
  });

  it('are not planned any more once a test cites them', () => {
    expect(requirements.filter((row) => row.planned && cited.has(row.id)).map((row) => row.id)).toEqual([]);
  });

  it('are the only ids that tests cite', () => {
    const known = new Set(requirements.map((row) => row.id));
    expect([...cited.keys()].filter((id) => !known.has(id))).toEqual([]);
  });
});
