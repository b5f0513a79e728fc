import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Action, type ActionRule, ActionRulesSchema, decideAction } from './action-gate.js';

const WRITE: Action = { agent: 'mars', provider: 'mars', action: 'fs.write', subject: 'src/a.ts' };

const decide = (rules: readonly ActionRule[], change: Partial<Action> = {}) =>
  decideAction(rules, { ...WRITE, ...change }).decision;

const word = fc.constantFrom('mars', 'venus', 'm*', '*');
const rule = fc.record(
  {
    agent: word,
    provider: word,
    action: fc.constantFrom('fs.write', 'fs.read', 'fs.*', '*'),
    match: fc.constantFrom('src/*', '*.ts', 'src/a.ts', '*'),
    decision: fc.constantFrom('allow' as const, 'deny' as const, 'ask' as const),
  },
  { requiredKeys: ['action', 'decision'] },
);
const action = fc.record({
  agent: fc.constantFrom('mars', 'venus'),
  provider: fc.option(fc.constantFrom('mars', 'venus'), { nil: undefined }),
  action: fc.constantFrom('fs.write', 'fs.read', 'terminal.run'),
  subject: fc.constantFrom('src/a.ts', 'b.ts', '../c', 'src/../../d.ts'),
});

describe('action rules [FR-025-012]', () => {
  it('deny an action that none matches', () => {
    expect(decideAction([], WRITE)).toEqual({ decision: 'deny', rule: undefined });
    expect(decide([{ action: 'fs.read', decision: 'allow' }])).toBe('deny');
    expect(decide([{ agent: 'venus', action: '*', decision: 'allow' }])).toBe('deny');
    expect(decide([{ provider: 'venus', action: '*', decision: 'allow' }])).toBe('deny');
    expect(decide([{ provider: '*', action: '*', decision: 'allow' }], { provider: undefined })).toBe('deny');
    expect(decide([{ action: 'fs.write', match: 'test/*', decision: 'allow' }])).toBe('deny');
  });

  it('are applied in order, but a matching denial always wins', () => {
    const ask: ActionRule = { action: 'fs.*', decision: 'ask' };
    const allow: ActionRule = { action: 'fs.write', match: 'src/*', decision: 'allow' };
    const deny: ActionRule = { agent: 'mars', action: '*', match: '*a.ts', decision: 'deny' };
    expect(decideAction([allow, ask], WRITE)).toEqual({ decision: 'allow', rule: 0 });
    expect(decide([ask, allow])).toBe('ask');
    expect(decideAction([allow, ask, deny], WRITE)).toEqual({ decision: 'deny', rule: 2 });
  });

  it('do not let a path with `..` match a pattern', () => {
    const allow: ActionRule = { action: 'fs.write', match: 'src/*', decision: 'allow' };
    for (const subject of ['src/../../etc/passwd', 'src/..', 'src\\..\\x'])
      expect(decide([allow], { subject })).toBe('deny');
    expect(decide([allow], { subject: 'src/..a' })).toBe('allow');
  });

  it('treat `*` as any characters', () => {
    const fits = (match: string, subject: string) =>
      decide([{ action: '*', match, decision: 'ask' }], { subject }) === 'ask';
    expect(['a*c', 'a*', '*c', '*', 'a*b*c', 'abc', 'a**c', '*b*'].every((match) => fits(match, 'abc'))).toBe(true);
    expect(['a*b', 'b*', '*b', 'ab', 'abcd', 'abc*c', 'a.c', 'ac*'].some((match) => fits(match, 'abc'))).toBe(false);
    // Patterns that would take for ever if they were tried out.
    expect(fits(`${'a*'.repeat(500)}b`, 'a'.repeat(100_000))).toBe(false);
  });

  it('allow only actions that a rule allows, and none that a rule denies', () => {
    fc.assert(
      fc.property(fc.array(rule), action, (rules, wanted) => {
        const { decision, rule: place } = decideAction(rules, wanted);
        if (place === undefined) expect(decision).toBe('deny');
        else expect(rules[place]!.decision).toBe(decision);
        const alone = rules.map((one) => decideAction([one], wanted));
        const denials = alone.filter((one) => one.decision === 'deny' && one.rule !== undefined);
        if (denials.length > 0) expect(decision).toBe('deny');
        // More denials never open anything, whoever adds them and wherever.
        const denyAll: ActionRule = { action: '*', decision: 'deny' };
        for (const more of [
          [denyAll, ...rules],
          [...rules, denyAll],
        ])
          expect(decideAction(more, wanted).decision).toBe('deny');
        expect(ActionRulesSchema.parse(rules)).toEqual(rules);
      }),
    );
  });
});
