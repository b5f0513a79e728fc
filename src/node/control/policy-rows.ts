import type { Decision } from '../../mesh/policy.js';
import type { A2ALogEvent, AgentTier } from '../../mesh/schemas.js';

/** The decisions about one tier that opens a conversation with another, without sandboxes. */
export interface TierCell {
  readonly from: AgentTier;
  readonly to: AgentTier;
  readonly request: Decision;
  /** Of a task proposal without a justification. */
  readonly proposal: Decision;
}

/** Which agents of one sandbox are within reach of another sandbox of this node. Null: in no sandbox. */
export interface SandboxCell {
  readonly from: string | null;
  readonly to: string | null;
  /** The node of the agents; null for this one. */
  readonly node: string | null;
  readonly agents: number;
  readonly reached: number;
  /** Some of the agents within reach, where they are not all. */
  readonly some: readonly string[];
}

export interface PolicyMatrix {
  readonly tiers: readonly TierCell[];
  readonly sandboxes: readonly SandboxCell[];
}

/** An audited event, with its row in the audit log. */
export interface AuditedEvent {
  readonly seq: number;
  readonly at: number;
  /** The subject: the action of an agent and its target, a credential, an item that was answered. */
  readonly about: string | null;
  readonly event: A2ALogEvent;
}
