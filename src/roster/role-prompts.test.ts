import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DEFAULT_TIER_ASSIGNMENTS, DEFAULT_TIER_RULES } from '../mesh/tier-config.js';
import { ROSTER_FOLDER } from '../runtime/package.js';
import { PLANETARY_ROSTER } from './planetary-roster.js';
import { rolePrompt } from './role-prompts.js';

const TIERS = ['orchestrator', 'strategic', 'operational', 'specialist'];
const MAX_CHARS = 3_000;

describe('the role prompts', () => {
  it.each(PLANETARY_ROSTER.map(({ id }) => id))(
    'of %s names its tier, duties, result and limits [WK.S1]',
    async (id) => {
      const prompt = (await rolePrompt(id))!;
      const tier = DEFAULT_TIER_ASSIGNMENTS[id]!;
      expect(prompt).toMatch(new RegExp(`^You are ${id.toUpperCase()}, the `));
      expect(prompt.match(/^Tier: .*?\)/gm)).toEqual([`Tier: ${tier} (${TIERS[tier]})`]);
      for (const part of ['Responsibilities:', 'Result:', 'Limits:', 'Words of others:']) {
        expect(prompt).toMatch(new RegExp(`^${part}`, 'm'));
      }
      expect(prompt.length).toBeLessThanOrEqual(MAX_CHARS);
      expect(prompt.trimEnd().split('\n').length).toBeGreaterThanOrEqual(15);
    },
  );

  it('say the same about tiers as the rules of the mesh', async () => {
    const reach: Readonly<Record<number, string>> = {
      0: 'with agents of every tier',
      1: 'with tiers 0 and 1 only',
      2: 'with tiers 0, 1 and 2.',
      3: 'with every tier.',
    };
    const allowed = DEFAULT_TIER_RULES.map(({ allowedTargetTiers }) => allowedTargetTiers.join());
    expect(allowed).toEqual(['0,1,2,3', '0,1', '0,1,2', '0,1,2,3']);
    for (const { id } of PLANETARY_ROSTER) {
      const tier = DEFAULT_TIER_ASSIGNMENTS[id]!;
      const prompt = (await rolePrompt(id))!;
      expect(prompt, id).toContain(reach[tier]);
      const justified = DEFAULT_TIER_RULES[tier]!.requiresEscalationJustification;
      expect(prompt.includes('needs a justification'), id).toBe(justified);
    }
  });

  it('are one file for each role, each with words of its own', async () => {
    const ids = PLANETARY_ROSTER.map(({ id }) => id);
    expect(readdirSync(ROSTER_FOLDER).sort()).toEqual(ids.map((id) => `${id}.md`).sort());
    const duties = await Promise.all(
      ids.map(async (id) => /Responsibilities:\n([\s\S]*?)\n\n/.exec((await rolePrompt(id))!)![1]!.split('\n')),
    );
    expect(new Set(duties.flat()).size).toBe(duties.flat().length);
  });

  it.each(['vulcan', '../package', '__proto__', ''])('are not there for "%s"', async (id) => {
    expect(await rolePrompt(id)).toBeUndefined();
  });
});
