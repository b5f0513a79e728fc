import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasHidden, neutralise, neutralText, revealed } from './neutral-text.js';

describe('text of an upstream server [UP6]', () => {
  it('keeps visible characters', () => {
    for (const text of ['plain', 'two\nlines\tand a tab', 'Größe, 価格, цена', '❤️ 👍🏽 ☑︎', '']) {
      expect(neutralText(text)).toBe(text);
      expect(hasHidden(text)).toBe(false);
    }
    expect(neutralText('a\r\nb')).toBe('a\nb');
  });

  it('shows one mark for each run of hidden characters', () => {
    const hidden = [
      '\u200b',
      '\u202e',
      '\u2066',
      '\ufeff',
      '\u0007',
      '\u001b[31m'.slice(0, 1),
      '\u{e0041}\u{e0042}',
      '\u00ad',
      '\u2028',
      '\u3164',
      '\u{e0101}',
    ];
    for (const piece of hidden) expect(neutralText(`a${piece}b`)).toBe('a\ufffdb');
    expect(revealed('a\u200b\u202eb')).toBe('a\\u{200b}\\u{202e}b');
  });

  it('is neutral after one pass', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => !hasHidden(neutralText(text)) && !hasHidden(revealed(text))),
    );
  });

  it('is changed in descriptions, and refused in names and values', () => {
    const schema = { type: 'object', properties: { description: { type: 'string', description: 'x\u200b' } } };
    expect(neutralise({ name: 'a', title: 't\u202e', inputSchema: schema })).toEqual({
      value: {
        name: 'a',
        title: 't\ufffd',
        inputSchema: { type: 'object', properties: { description: { type: 'string', description: 'x\ufffd' } } },
      },
      spoiled: undefined,
    });
    expect(neutralise({ inputSchema: { enum: ['ok', 'b\u200bc'] } }).spoiled).toBe('inputSchema.enum.1');
    expect(neutralise({ properties: { 'k\u200b': {} } }).spoiled).toBe('properties.k\\u{200b}');
  });
});
