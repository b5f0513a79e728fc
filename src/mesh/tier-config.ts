import type { AgentTier, TierRule } from './schemas.js';

/** The 21 Planetary agents: L0 orchestrator, L1 strategic, L2 operational, L3 specialists. */
export const DEFAULT_TIER_ASSIGNMENTS: Readonly<Record<string, AgentTier>> = {
  sun: 0,
  mercury: 1,
  earth: 1,
  jupiter: 1,
  venus: 2,
  mars: 2,
  pluto: 2,
  saturn: 2,
  titan: 2,
  enceladus: 3,
  ganymede: 3,
  neptune: 3,
  charon: 3,
  uranus: 3,
  europa: 3,
  mimas: 3,
  io: 3,
  triton: 3,
  callisto: 3,
  atlas: 3,
  andromeda: 3,
};

export const DEFAULT_TIER_RULES: readonly TierRule[] = [
  { sourceTier: 0, allowedTargetTiers: [0, 1, 2, 3], requiresEscalationJustification: false },
  { sourceTier: 1, allowedTargetTiers: [0, 1], requiresEscalationJustification: false },
  { sourceTier: 2, allowedTargetTiers: [0, 1, 2], requiresEscalationJustification: true },
  { sourceTier: 3, allowedTargetTiers: [0, 1, 2, 3], requiresEscalationJustification: true },
];

/** The tier of an agent that does not name one: its assignment, or the specialists'. */
export function defaultTier(agentId: string): AgentTier {
  return Object.hasOwn(DEFAULT_TIER_ASSIGNMENTS, agentId) ? DEFAULT_TIER_ASSIGNMENTS[agentId]! : 3;
}
