import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { renderTemplate } from './offering.js';

/** What a placeholder may hold. */
const arbName = fc.stringMatching(/^[^{}\s]([^{}]{0,10}[^{}\s])?$/);
const arbText = fc.string().map((text) => text.replaceAll(/[{}]/g, ''));

describe('a prompt’s template', () => {
  it('has every placeholder replaced by its argument [P22 R6.5]', () => {
    const piece = fc.record({ before: arbText, name: arbName, value: fc.string(), spaces: fc.constantFrom('', ' ') });
    const pieces = fc.uniqueArray(piece, { selector: ({ name }) => name, maxLength: 12 });
    fc.assert(
      fc.property(pieces, arbText, (parts, end) => {
        const template =
          parts.map(({ before, name, spaces }) => `${before}{{${spaces}${name}${spaces}}}`).join('') + end;
        const expected = parts.map(({ before, value }) => before + value).join('') + end;
        expect(renderTemplate(template, Object.fromEntries(parts.map(({ name, value }) => [name, value])))).toBe(
          expected,
        );
      }),
    );
  });

  it('is filled in one pass: values are never expanded again [P22 R6.5]', () => {
    const values = { a: '{{b}} and {{ a }}', b: 'secret', 'a}}{{b': 'no' };
    expect(renderTemplate('{{a}}|{{b}}', values)).toBe('{{b}} and {{ a }}|secret');
    expect(renderTemplate('{{{{a}}}}', { a: 'b', b: 'secret' })).toBe('{{b}}');
  });

  it.each(['$&', '$1', '$$', "$'", '$`', '\\', '{{', '}}', '\u0000'])('takes %j for what it is', (value) => {
    expect(renderTemplate('<{{a}}>', { a: value })).toBe(`<${value}>`);
  });

  it('keeps unknown placeholders as written, also names that objects inherit', () => {
    const text = '{{unknown}} {{toString}} {{__proto__}} {{}} {{ }} {a} {{a';
    expect(renderTemplate(text, { a: '1' })).toBe(text);
  });

  it('is filled in linear time', () => {
    expect(renderTemplate(`{{${' '.repeat(100_000)}`, {})).toHaveLength(100_002);
    expect(renderTemplate('{{'.repeat(100_000), {})).toHaveLength(200_000);
  });
});
