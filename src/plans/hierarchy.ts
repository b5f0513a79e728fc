import { z } from 'zod';
import type { AgentTier } from '../mesh/schemas.js';

const positive = z.int().positive();

const TierSchema = z.strictObject({
  timeoutMs: positive.optional().describe('Time limit of one attempt, including the agent’s answer and its work.'),
  concurrency: positive.optional().describe('Tasks of this tier that one plan may have in progress at once.'),
  retries: z.int().nonnegative().optional().describe('Further attempts at a task that failed or needs a revision.'),
});

const EscalationSchema = z.strictObject({
  policy: z
    .enum(['auto', 'manual', 'threshold'])
    .optional()
    .describe(
      'Handling of a task without retries left. auto (default): an L0 agent decides, otherwise the task waits for the operator. manual: the task waits for the operator. threshold: like auto, but the plan fails when too few tasks succeed.',
    ),
  agent: z.string().min(1).optional().describe('The agent that decides. Default: sun, if there is one.'),
  successRate: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe('threshold: the minimum share of ended tasks that must be done. Default 0.5.'),
  afterTasks: positive.optional().describe('threshold: applies only after this many tasks have ended. Default 4.'),
});

export const HierarchySchema = z
  .strictObject({
    concurrency: positive.optional().describe('Tasks of one plan in progress at once, in total. Default 10.'),
    retryDelayMs: positive.optional().describe('Pause after a failed attempt; it doubles, up to 30 s. Default 1,000.'),
    tiers: z
      .strictObject({
        0: TierSchema.optional().describe('Default: 5 minutes, 1 at once, 2 retries.'),
        1: TierSchema.optional().describe('Default: 10 minutes, 3 at once, 2 retries.'),
        2: TierSchema.optional().describe('Default: 30 minutes, 5 at once, 3 retries.'),
        3: TierSchema.optional().describe('Default: 30 minutes, 10 at once, 5 retries.'),
      })
      .optional()
      .describe('Settings by the tier of the agent that works on a task.'),
    escalation: EscalationSchema.optional(),
  })
  .describe('Settings of the Ralph loop, which runs plans.');

export type HierarchyConfig = z.input<typeof HierarchySchema>;
type TierConfig = Required<z.input<typeof TierSchema>>;
type EscalationConfig = Required<Omit<z.input<typeof EscalationSchema>, 'agent'>> & { agent?: string };

/** The configuration with all defaults filled in. */
export interface Hierarchy {
  readonly concurrency: number;
  readonly retryDelayMs: number;
  readonly tiers: Readonly<Record<AgentTier, TierConfig>>;
  readonly escalation: EscalationConfig;
}

/** Models and coding agents think for minutes; a worker that hangs is noticed earlier, by its own limits. */
const TIERS: Readonly<Record<AgentTier, TierConfig>> = {
  0: { timeoutMs: 300_000, concurrency: 1, retries: 2 },
  1: { timeoutMs: 600_000, concurrency: 3, retries: 2 },
  2: { timeoutMs: 1_800_000, concurrency: 5, retries: 3 },
  3: { timeoutMs: 1_800_000, concurrency: 10, retries: 5 },
};

export function completeHierarchy(config: HierarchyConfig = {}): Hierarchy {
  const { concurrency = 10, retryDelayMs = 1_000, tiers = {}, escalation = {} } = config;
  return {
    concurrency,
    retryDelayMs,
    tiers: {
      0: { ...TIERS[0], ...tiers[0] },
      1: { ...TIERS[1], ...tiers[1] },
      2: { ...TIERS[2], ...tiers[2] },
      3: { ...TIERS[3], ...tiers[3] },
    },
    escalation: { policy: 'auto', successRate: 0.5, afterTasks: 4, ...escalation },
  };
}
