import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { UriPattern } from './uri-pattern.js';

describe('a URI template', () => {
  it.each([
    ['file:///{name}', 'file:///notes.txt', { name: 'notes.txt' }],
    ['file:///{name}', 'file:///a/b', undefined],
    ['file:///{name}', 'file:///', undefined],
    ['file:///{name}', 'memory:///a', undefined],
    ['file:///{+path}', 'file:///a/b/c.txt', { path: 'a/b/c.txt' }],
    ['x://{id}/data', 'x://7/data', { id: '7' }],
    ['x://{id}/data', 'x://7/data/more', undefined],
    ['x://{id}/data', 'x:///data', undefined],
    ['x://{a}/{b}', 'x://1/2', { a: '1', b: '2' }],
    ['x://{a}-{b}.txt', 'x://1-2-3.txt', { a: '1', b: '2-3' }],
    ['x://{+path}/end', 'x://a/end/end', { path: 'a/end' }],
    ['x://{a}', 'x://%E2%82%AC%2Fz', { a: '€/z' }],
    ['x://{a}', 'x://%zz', { a: '%zz' }],
  ])('%s reads %s', (template, uri, expected) => {
    expect(new UriPattern(template).match(uri)).toEqual(expected);
  });

  it.each([
    ['x://nothing', /no variable/],
    ['x://{a}{b}', /side by side/],
    ['x://{?query}', /is not \{name\}/],
    ['x://{a,b}', /is not \{name\}/],
    ['x://{}', /is not \{name\}/],
    ['x://{a}/{a}', /twice/],
  ])('%s is refused', (template, reason) => {
    expect(() => new UriPattern(template)).toThrow(
      expect.objectContaining({ code: 'INVALID_TOOL', message: expect.stringMatching(reason) }),
    );
  });

  it('extracts the values that a URI was built from', () => {
    const value = fc.string({ minLength: 1, unit: 'grapheme' });
    fc.assert(
      fc.property(value, value, (a, b) => {
        const uri = `x://${encodeURIComponent(a)}/of/${encodeURIComponent(b)}`;
        expect(new UriPattern('x://{a}/of/{b}').match(uri)).toEqual({ a, b });
      }),
    );
  });

  it('matches any URI in linear time', () => {
    const pattern = new UriPattern('x://{+a}/{+b}/{+c}/{+d}/end');
    expect(pattern.match(`x://${'/'.repeat(200_000)}`)).toBeUndefined();
    expect(pattern.match(`x://${'a/'.repeat(200_000)}`)).toBeUndefined();
  });
});
