import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cutText, endOfText, isWellFormed } from './text.js';

describe('a text that is cut', () => {
  it('stays well-formed Unicode, and loses at most one unit more than necessary [T-D1]', () => {
    const texts = fc.string({ unit: fc.constantFrom('a', '😀', 'é', '𝒳'), maxLength: 12 });
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 12 }), (text, max) => {
        for (const cut of [cutText(text, max), endOfText(text, max)]) {
          expect(isWellFormed(cut)).toBe(true);
          expect(cut.length).toBeLessThanOrEqual(max);
          expect(cut.length).toBeGreaterThanOrEqual(Math.min(text.length, max) - 1);
        }
        expect(text.startsWith(cutText(text, max))).toBe(true);
        expect(text.endsWith(endOfText(text, max))).toBe(true);
      }),
    );
  });
});
