import { describe, expect, it } from 'vitest';
import { headerFault } from './param-headers.js';

const schema = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const named = (name: unknown, type = 'string') => ({ type, 'x-mcp-header': name });

describe('arguments that are repeated in headers [UP2]', () => {
  it('are strings, integers and booleans at a fixed place, under unique names', () => {
    const where = schema({ region: named('Region'), inner: schema({ on: named('On', 'boolean') }) });
    expect(headerFault(where)).toBeUndefined();
    expect(headerFault(schema({ a: { type: 'string', default: { 'x-mcp-header': '' } } }))).toBeUndefined();
    expect(headerFault(schema({ 'x-mcp-header': { type: 'string' } }))).toBeUndefined();
  });

  it.each([
    ['without a name', schema({ a: named('') })],
    ['with a name that is none', schema({ a: named('a b') })],
    ['with a line break in the name', schema({ a: named('a\nb') })],
    ['of numbers', schema({ a: named('A', 'number') })],
    ['of objects', schema({ a: named('A', 'object') })],
    ['of a name that another has', schema({ a: named('A'), b: named('a') })],
    ['in the items of a list', schema({ a: { type: 'array', items: named('A') } })],
    ['in one of several shapes', schema({}, { oneOf: [schema({ a: named('A') })] })],
    ['of the whole', { ...schema({}), 'x-mcp-header': 'A' }],
  ])('are refused %s', (_, wrong) => {
    expect(headerFault(wrong)).toMatch(/x-mcp-header/);
  });
});
