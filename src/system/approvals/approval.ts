import { z } from 'zod';

export const VerdictSchema = z.enum(['allow-once', 'allow-always', 'deny']);
export type Verdict = z.infer<typeof VerdictSchema>;

const DecisionSchema = z.strictObject({
  verdict: VerdictSchema,
  /** Who decided; `timeout` where nobody did in time, `standing` where somebody had allowed it for good. */
  by: z.string().min(1),
  at: z.number(),
});

/** Something that waits for the operator's word, or had it. */
export const ApprovalSchema = z.strictObject({
  id: z.string().min(1),
  /** What kind of question it is. */
  kind: z.string().min(1),
  /** What it is about. What is allowed for good is allowed for this kind and subject. */
  subject: z.string().min(1),
  /** One line for people. */
  summary: z.string(),
  details: z.record(z.string(), z.unknown()),
  createdAt: z.number(),
  /** Denied when nobody has decided by then. */
  expiresAt: z.number().optional(),
  decision: DecisionSchema.optional(),
});

export type Approval = Readonly<z.infer<typeof ApprovalSchema>>;

/** What was allowed for good. */
export const StandingSchema = z.strictObject({ kind: z.string(), subject: z.string() });
export type Standing = Readonly<z.infer<typeof StandingSchema>>;
