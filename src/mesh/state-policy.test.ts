import { describe, expect, it } from 'vitest';
import { type Party, Policy } from './policy.js';
import type { AgentTier } from './schemas.js';

function party(address: string, tier: AgentTier, sandboxId?: string, node?: string): Party {
  return { address, node, tier, sandboxId };
}

const open = party('plan', 3);
const inLab = party('plan', 3, 'lab');

describe('access to a shared document', () => {
  it('is everyone of every tier, unless its rules say otherwise', () => {
    const policy = new Policy();
    for (const tier of [0, 1, 2, 3] as const) {
      expect(policy.judgeState(party('mars', tier), 'state-read', open).allowed).toBe(true);
      expect(policy.judgeState(party('mars', tier), 'state-write', open).allowed).toBe(true);
    }
    policy.setStateConfig({ plan: { read: [0, 1, 2], write: [0] } });
    const may = (tier: AgentTier) => {
      const one = party('mars', tier);
      return [policy.judgeState(one, 'state-read', open), policy.judgeState(one, 'state-write', open)].map(
        (decision) => (decision.allowed ? 'yes' : decision.code),
      );
    };
    expect(may(0)).toEqual(['yes', 'yes']);
    expect(may(1)).toEqual(['yes', 'TIER_VIOLATION']);
    expect(may(3)).toEqual(['TIER_VIOLATION', 'TIER_VIOLATION']);
    expect(policy.judgeState(party('mars', 3), 'state-read', party('other', 3)).allowed).toBe(true);
  });

  it('is decided by sandbox first: nothing leaves one, by reading or by writing', () => {
    const policy = new Policy();
    policy.setSandboxConfig({ enforced: true, allow: { lab: ['guide'] }, shared: ['hall'] });
    policy.setStateConfig({ plan: { read: [0], write: [0] } });
    const code = (who: Party, action: 'state-read' | 'state-write', document: Party) => {
      const decision = policy.judgeState(who, action, document);
      return decision.allowed ? 'yes' : decision.code;
    };
    expect(code(party('sun', 0), 'state-read', inLab)).toBe('SANDBOX_VIOLATION');
    expect(code(party('guide', 0), 'state-read', inLab)).toBe('yes');
    expect(code(party('inmate', 0, 'lab'), 'state-read', inLab)).toBe('yes');
    expect(code(party('inmate', 0, 'lab'), 'state-write', open)).toBe('SANDBOX_VIOLATION');
    // A sandbox of the same name on another node is another one, unless it is shared.
    expect(code(party('inmate@n', 0, 'lab', 'n'), 'state-read', inLab)).toBe('SANDBOX_VIOLATION');
    expect(code(party('inmate@n', 0, 'hall', 'n'), 'state-read', party('plan', 3, 'hall'))).toBe('yes');
  });

  it('is not decided by rules that are none', () => {
    const policy = new Policy();
    const rules = { plan: { read: [7] } } as never;
    expect(() => policy.setStateConfig(rules)).toThrowError(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });
});
