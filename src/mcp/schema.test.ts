import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { readSchema, type Schema, type StandardSchema } from './schema.js';

const PERSON_JSON = {
  type: 'object',
  properties: { name: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } } },
  required: ['name'],
  additionalProperties: false,
};

/** What somebody else's library could look like. */
function handMade(init: { json?: boolean; async?: boolean } = {}): StandardSchema<{ name: string; tags?: string[] }> {
  const judge = (value: unknown) => {
    const { name, tags = [] } = value as { name?: unknown; tags?: unknown[] };
    if (typeof name !== 'string') return { issues: [{ message: 'needed', path: ['name'] }] };
    const wrong = tags.findIndex((tag) => typeof tag !== 'string');
    if (wrong >= 0) return { issues: [{ message: 'no text', path: [{ key: 'tags' }, wrong] }] };
    return { value: { name: name.toUpperCase() } };
  };
  const form = { input: () => PERSON_JSON, output: () => PERSON_JSON };
  return {
    '~standard': {
      version: 1,
      vendor: 'by-hand',
      validate: (value) => (init.async ? Promise.resolve(judge(value)) : judge(value)),
      ...(init.json !== false && { jsonSchema: form }),
    },
  };
}

describe.each<[string, Schema, unknown]>([
  ['zod', z.object({ name: z.string(), tags: z.array(z.string()).optional() }), { name: 'Ada' }],
  ['JSON Schema', PERSON_JSON, { name: 'Ada' }],
  ['another library', handMade(), { name: 'ADA' }],
  ['a library that takes its time', handMade({ async: true }), { name: 'ADA' }],
  ['a library whose schemas are functions', Object.assign(() => {}, handMade()), { name: 'ADA' }],
])('a schema of %s', (_, schema, read) => {
  const shape = readSchema(schema, 'input', 'a tool');

  it('is shown as JSON Schema', () => {
    expect(shape.json).toMatchObject({ type: 'object', properties: { name: { type: 'string' } }, required: ['name'] });
  });

  it('accepts fitting values, as the library parses them', async () => {
    expect(await shape.check({ name: 'Ada' })).toEqual({ value: read });
    expect(await shape.check({ name: 'Ada' })).toEqual({ value: read });
  });

  it.each([
    ['what is missing', {}, /name/],
    ['a place deep inside', { name: 'Ada', tags: ['a', 7] }, /tags\W*1/],
  ])('says where it does not fit: %s', async (_case, value, place) => {
    expect(await shape.check(value)).toEqual({ faults: [expect.stringMatching(place)] });
  });
});

describe('a schema', () => {
  it('that cannot be expressed as JSON Schema still validates', async () => {
    const shape = readSchema(handMade({ json: false }), 'input', 'a tool');
    expect(shape.json).toBeUndefined();
    expect(await shape.check({})).toEqual({ faults: ['name: needed'] });
  });

  it.each([
    ['nothing', null],
    ['a text', 'object'],
    ['a function', () => {}],
  ])('is refused if it is %s', (_, schema) => {
    expect(() => readSchema(schema as unknown as Schema, 'input', 'a tool')).toThrow(
      expect.objectContaining({ code: 'INVALID_TOOL', message: expect.stringContaining('a tool') }),
    );
  });

  it('that its library cannot convert to JSON Schema is refused when it is offered', () => {
    expect(() => readSchema(z.object({ at: z.date() }), 'input', 'tool "x"')).toThrow(
      expect.objectContaining({ code: 'INVALID_TOOL', message: expect.stringContaining('tool "x"') }),
    );
  });

  it('that is invalid JSON Schema is refused at each use', async () => {
    const shape = readSchema({ type: 'object', properties: { a: { type: 'strnig' } } }, 'input', 'tool "x"');
    for (let time = 0; time < 2; time++) {
      await expect(shape.check({ a: 1 })).rejects.toMatchObject({ code: 'INVALID_TOOL' });
    }
  });
});
