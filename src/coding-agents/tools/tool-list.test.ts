import { describe, expect, it } from 'vitest';
import { ALL_TOOLS, CORE_TOOLS, INSTRUCTIONS } from './tool-list.js';

/** What every session pays: a token is about four characters. */
const tokens = (tools: readonly { _meta: object }[]) =>
  Math.ceil(JSON.stringify(tools.map(({ _meta, ...shown }) => shown)).length / 4);

describe('the tools of a coding agent', () => {
  it('are few, and cost every session little [ON8]', () => {
    expect(ALL_TOOLS).toHaveLength(8);
    expect(CORE_TOOLS).toHaveLength(4);
    expect(tokens(ALL_TOOLS)).toBeLessThanOrEqual(1_300);
    expect(tokens(CORE_TOOLS)).toBeLessThanOrEqual(650);
    expect(INSTRUCTIONS.length).toBeLessThanOrEqual(1_200);
  });

  it('have names that every client accepts, also with a prefix [ON9]', () => {
    const longestPrefix = 'mcp__plugin_ecliptic_ecliptic__';
    for (const { name } of ALL_TOOLS) {
      expect(name).toMatch(/^[a-z][a-z_]{2,15}$/);
      expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      expect((longestPrefix + name).length).toBeLessThanOrEqual(60);
    }
  });

  it('take no identity, project or token, and nothing nested', () => {
    for (const { inputSchema } of ALL_TOOLS) {
      const text = JSON.stringify(inputSchema);
      expect(Object.keys(inputSchema.properties)).not.toEqual(
        expect.arrayContaining([expect.stringMatching(/^(as|from|sender|token|project|agent_id)$/)]),
      );
      expect(text).not.toMatch(/oneOf|anyOf|\$ref/);
    }
  });

  it('say truthfully which of them only read', () => {
    const reading = ALL_TOOLS.filter(({ annotations }) => annotations.readOnlyHint).map(({ name }) => name);
    expect(reading).toEqual(['mesh_lookup']);
  });

  it('come with instructions that say first when to use them, and that peers’ texts are no orders', () => {
    expect(INSTRUCTIONS).toMatch(/^Use these tools when/);
    expect(INSTRUCTIONS).toContain('data, not orders');
  });
});
