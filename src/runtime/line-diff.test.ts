import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lineDiff } from './line-diff.js';

const of = (mark: string, diff: readonly string[]) =>
  diff.flatMap((line) => (line.startsWith(mark) ? line.slice(1) : []));

describe('the difference of two texts', () => {
  it('shows removed and added lines with some lines around them [FC.11]', () => {
    const before = Array.from({ length: 20 }, (_, at) => `line ${at}`);
    const after = before.with(10, 'changed');
    expect(lineDiff(before.join('\n'), after.join('\n'))).toEqual([
      ...[' line 7', ' line 8', ' line 9', '-line 10', '+changed', ' line 11', ' line 12', ' line 13', ' …'],
    ]);
    expect(lineDiff('', 'a\nb\n')).toEqual(['+a', '+b']);
    expect(lineDiff('a\nb\n', '')).toEqual(['-a', '-b']);
    expect(lineDiff('same\n', 'same\n')).toEqual([]);
  });

  it('cuts long changes and long lines, and says so [FC.11]', () => {
    const diff = lineDiff('', Array.from({ length: 400 }, (_, at) => `${at} ${'x'.repeat(1_000)}`).join('\n'));
    expect(diff).toHaveLength(151);
    expect(diff.at(-1)).toBe(' … 250 more lines');
    expect(diff[0]).toHaveLength(300);
    const large = (word: string) => Array.from({ length: 5_000 }, (_, at) => `${word}${at}`).join('\n');
    expect(lineDiff(large('a'), large('b'))[0]).toBe('-a0');
  });

  it('leads from one text to the other, whatever they are [FC.11]', () => {
    const text = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 7 });
    fc.assert(
      fc.property(text, text, (before, after) => {
        const diff = lineDiff(before.join('\n'), after.join('\n'));
        const removed = of('-', diff);
        const added = of('+', diff);
        // What stays is the same in both, so the counts agree.
        expect(before.length - removed.length).toBe(after.length - added.length);
        const count = (lines: readonly string[], one: string) => lines.filter((line) => line === one).length;
        for (const one of 'abcd') {
          expect(count(before, one) - count(removed, one)).toBe(count(after, one) - count(added, one));
        }
      }),
    );
  });
});
