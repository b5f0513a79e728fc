import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbMCPToolDefinition } from '../../test/generators.js';
import { DefinitionSchema, keyOf } from './definitions.js';

describe('the generator of tool definitions', () => {
  it('generates only what can be offered, as it is, and as JSON brings it elsewhere [GEN.arbMCPToolDefinition]', () => {
    fc.assert(
      fc.property(arbMCPToolDefinition(), (definition) => {
        expect(DefinitionSchema.parse(definition)).toEqual(definition);
        expect(DefinitionSchema.parse(JSON.parse(JSON.stringify(definition)))).toEqual(definition);
        expect(keyOf(definition)).toBe(definition.name);
      }),
    );
  });
});
