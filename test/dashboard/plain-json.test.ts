import { describe, expect, it } from 'vitest';
import { parsePlain } from '../../web/plain-json.js';

describe('texts of agents on the page', () => {
  it('cannot look like other texts: control and direction characters are replaced [FC.7]', () => {
    const hostile = {
      'a\u202e': 'x\u202Eevil\u001b[31m\u0000\b\u2066',
      nested: ['\u200f\u009b', 'tab\tline\nreturn\r'],
    };
    const plain = {
      'a\ufffd': 'x\ufffdevil\ufffd[31m\ufffd\ufffd\ufffd',
      nested: ['\ufffd\ufffd', 'tab\tline\nreturn\r'],
    };
    expect(parsePlain(JSON.stringify(hostile))).toEqual(plain);
    // Escaped by another writer, in either case.
    expect(parsePlain('"\\u202E \\u001B \\u0009"')).toBe('\ufffd \ufffd \t');
  });

  it('keep everything else, also texts that look like escapes [FC.7]', () => {
    const texts = ['\\u202e', '\\\\b', 'C:\\users\\bob\\u0000', '"quoted"', 'straße 漢字 👩‍👩‍👧', 'שלום', '\u00a0'];
    expect(parsePlain(JSON.stringify(texts))).toEqual(texts);
  });
});
