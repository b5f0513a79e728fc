import { z } from 'zod';
import type { AgentTier } from '../mesh/schemas.js';

const positive = z.int().positive();

const TierSchema = z.strictObject({
  timeoutMs: positive.optional().describe('How long one attempt may take, with its answer and its work.'),
  concurrency: positive.optional().describe('Tasks of this tier that one plan may have under way at once.'),
  retries: z.int().nonnegative().optional().describe('Further attempts at a task that failed or was to be revised.'),
});

const EscalationSchema = z.strictObject({
  policy: z
    .enum(['auto', 'manual', 'threshold'])
    .optional()
    .describe(
      'What is done with a task that ran out of retries. auto (default): an L0 agent is asked, and else it waits for the operator. manual: it waits for the operator. threshold: as auto, but the plan fails when too few tasks succeed.',
    ),
  agent: z.string().min(1).optional().describe('The agent that is asked. Default: sun, if there is one.'),
  successRate: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe('threshold: the plan fails when fewer of the tasks that ended were done. Default 0.5.'),
  afterTasks: positive.optional().describe('threshold: but not before this many tasks have ended. Default 4.'),
});

export const HierarchySchema = z
  .strictObject({
    concurrency: positive.optional().describe('Tasks that one plan may have under way at once, in all. Default 10.'),
    retryDelayMs: positive
      .optional()
      .describe('The pause after an attempt that failed; it doubles, up to 30 s. Default 1,000.'),
    tiers: z
      .strictObject({
        0: TierSchema.optional().describe('Default: 30 s, 1 at once, 2 retries.'),
        1: TierSchema.optional().describe('Default: 60 s, 3 at once, 2 retries.'),
        2: TierSchema.optional().describe('Default: 120 s, 5 at once, 3 retries.'),
        3: TierSchema.optional().describe('Default: 120 s, 10 at once, 5 retries.'),
      })
      .optional()
      .describe('By the tier of the agent that works on a task.'),
    escalation: EscalationSchema.optional(),
  })
  .describe('How the Ralph loop works through plans.');

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

const TIERS: Readonly<Record<AgentTier, TierConfig>> = {
  0: { timeoutMs: 30_000, concurrency: 1, retries: 2 },
  1: { timeoutMs: 60_000, concurrency: 3, retries: 2 },
  2: { timeoutMs: 120_000, concurrency: 5, retries: 3 },
  3: { timeoutMs: 120_000, concurrency: 10, retries: 5 },
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
