import { checkBySchema, type JsonSchema } from '../../../src/roster/tools/json-schema.js';
import { type FuzzTarget, must } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const CASES: readonly unknown[] = [
  {
    schema: {
      type: 'object',
      properties: { a: { type: 'string', pattern: '^(a|a)*$' } },
      required: ['a'],
      additionalProperties: false,
    },
    value: { a: 'aab', b: 1 },
  },
  {
    schema: {
      $schema: 'http://json-schema.org/draft-07/schema#',
      anyOf: [{ type: 'number' }, { $ref: '#/definitions/x' }],
      definitions: { x: { type: 'array', items: { enum: [1, 'a'] }, maxItems: 2 } },
    },
    value: [1, 'b', 3],
  },
  {
    schema: {
      oneOf: [{ const: 1 }, { minimum: 0 }],
      not: { type: 'null' },
      allOf: [{ multipleOf: 2 }],
    },
    value: 1,
  },
  { schema: { $ref: '#' }, value: {} },
];

/** A schema of a stranger and a value: mismatches are few and short, and checking ends. */
export const target: FuzzTarget = {
  name: 'json-schema',
  about: 'JSON Schemas of repositories and tools',
  seeds: [...CASES.map((_, index) => Buffer.of(index)), ...CASES.map((one) => JSON.stringify(one))],
  words: ['"$ref"', '"#"', '"pattern"', '"anyOf"', '"items"', '"^(a+)+$"'],
  maxBytes: 1_024,
  // A pattern that backtracks is given a second.
  maxMs: 1_600,
  run(input) {
    const given = jsonOf(input, CASES) as { schema?: unknown; value?: unknown } | null | undefined;
    const { schema, value } = given ?? {};
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return;
    const found = checkBySchema(value, schema as JsonSchema);
    must(found.length <= 20, () => `${found.length} mismatches`);
  },
};
