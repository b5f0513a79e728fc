import { z } from 'zod';
import { EclipticError } from '../runtime/errors.js';
import { weighJson } from './json-value.js';
import { LIMITS } from './limits.js';

/**
 * The data models of the mesh. Types are inferred from these schemas; the hot path uses hand-written checks, which tests
 * compare with them.
 */

/** An agent id starts with a letter or digit, and never contains `@`, `*` or `.`, which have meanings. */
export const AGENT_ID = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;
export const AGENT_ADDRESS = /^[A-Za-z0-9][A-Za-z0-9_-]*(@[A-Za-z0-9_-]+)?$/;

const id = z.string().min(1).max(LIMITS.idChars);
const name = z.string().min(1).max(LIMITS.nameChars);
const text = z.string().max(LIMITS.textChars);
const agentId = z.string().max(LIMITS.agentIdChars).regex(AGENT_ID, 'must be letters, digits, "_" or "-"');
const timestamp = z.number().nonnegative();

/** Any JSON value. Not `z.unknown()`, which would make the key optional. */
const json = (maxBytes: number) =>
  z.custom<unknown>().superRefine((value, context) => {
    const weighed = weighJson(value, maxBytes);
    if (typeof weighed === 'number') return;
    const where = weighed.path ? `${weighed.path} ` : '';
    context.addIssue({ code: 'custom', message: `${where}${weighed.problem}` });
  });

export const AgentTierSchema = z.union([z.literal(0), z.literal(1), z.literal(2), z.literal(3)], {
  error: 'must be 0, 1, 2 or 3',
});

export const AgentEndpointSchema = z.object({
  transport: z.enum(['local', 'hyperswarm', 'websocket']),
  address: name.optional(),
});

export const CapabilityDescriptorSchema = z.object({
  id,
  name,
  description: text,
  inputSchema: json(LIMITS.capabilitySchemaBytes),
  outputSchema: json(LIMITS.capabilitySchemaBytes),
});

export const WorkKindSchema = z.enum(['request', 'task', 'proposal']);

/** Whether an agent can work at present. A card without a status means that it takes every kind of work. */
export const AgentStatusSchema = z.object({
  /** `tools`: it offers tools only. */
  state: z.enum(['ready', 'starting', 'degraded', 'unavailable', 'tools', 'unstaffed']),
  /** The kinds of work that it has a worker for. Default: every kind. */
  takes: z.array(WorkKindSchema).optional(),
  /** The capabilities that it takes tasks and proposals for. Default: all of its card. */
  capabilities: z.array(id).max(LIMITS.cardListEntries).optional(),
  reason: text.optional(),
  fix: text.optional(),
});

const AgentCardFields = z.object({
  id: agentId,
  name,
  version: name,
  description: text,
  tier: AgentTierSchema,
  protocols: z.array(name).max(LIMITS.cardListEntries),
  endpoints: z.array(AgentEndpointSchema).max(LIMITS.cardListEntries),
  capabilities: z.array(CapabilityDescriptorSchema).max(LIMITS.cardListEntries),
  revision: z.int().nonnegative(),
  sandboxId: id.optional(),
  origin: z.enum(['local', 'remote']),
  /** The key of the node that owns the agent; set on remote cards. */
  node: id.optional(),
  lastSeenAt: timestamp,
  status: AgentStatusSchema.optional(),
});

export const AgentCardSchema = AgentCardFields.refine(
  (card) => (card.origin === 'remote') === (card.node !== undefined),
  { path: ['node'], error: 'names the owning node on a remote card, and only there' },
);

export const A2AMessageTypeSchema = z.enum([
  'request',
  'response',
  'notification',
  'task-proposal',
  'task-accept',
  'task-reject',
  'stream-start',
  'stream-data',
  'stream-end',
  'error',
]);

const EnvelopeMetadataSchema = z.object({
  /** The sender's claim. The router refuses an envelope that contradicts the sender's card. */
  tier: AgentTierSchema.optional(),
  sandboxId: id.optional(),
  routingHint: z.literal('capability').optional(),
  escalationJustification: text.optional(),
  durable: z.boolean().optional(),
  ttlMs: z.number().positive().optional(),
  /** The sender is notified if a durable message is not read within this time. */
  readWithinMs: z.number().positive().optional(),
  /** The position of a chunk in its stream to another node, by which the reader notices a missing one. */
  chunk: z.number().int().nonnegative().optional(),
  /** W3C trace context. */
  traceparent: name.optional(),
  tracestate: name.optional(),
});

export const SCHEMA_VERSION = 1;

export const A2AEnvelopeSchema = z.object({
  id,
  schemaVersion: z.literal(SCHEMA_VERSION),
  sender: z.string().max(LIMITS.nameChars).regex(AGENT_ADDRESS, 'must be an agent address'),
  /** An agent address, `*`, or a capability id when `metadata.routingHint` says so. */
  recipient: z.string().min(1).max(LIMITS.nameChars),
  correlationId: id.optional(),
  type: A2AMessageTypeSchema,
  timestamp,
  payload: json(LIMITS.payloadBytes),
  metadata: EnvelopeMetadataSchema.optional(),
});

export const PROPOSAL_LIMITS = { descriptionChars: 65_536, deadlineMs: 30 * 86_400_000 } as const;

export const TaskProposalPayloadSchema = z.object({
  taskDescription: z.string().max(PROPOSAL_LIMITS.descriptionChars),
  requiredCapabilities: z.array(id).max(LIMITS.cardListEntries),
  estimatedComplexity: z.enum(['simple', 'medium', 'complex']),
  deadlineMs: z.number().positive().max(PROPOSAL_LIMITS.deadlineMs),
  estimatedCompletionMs: z.number().positive().optional(),
  rejectionReason: name.optional(),
  alternativeSuggestion: name.optional(),
});

const TierRuleSchema = z.strictObject({
  sourceTier: AgentTierSchema,
  allowedTargetTiers: z.array(AgentTierSchema),
  requiresEscalationJustification: z.boolean(),
});

export const TierRoutingConfigSchema = z.strictObject({
  rules: z
    .array(TierRuleSchema)
    .refine((rules) => new Set(rules.map((rule) => rule.sourceTier)).size === rules.length, 'one rule for each tier'),
});

export const SandboxRoutingConfigSchema = z.strictObject({
  enforced: z.boolean(),
  /** Agents that every sandbox may reach. */
  crossSandboxAllowList: z.array(name).default([]),
  /** Agents that one sandbox may reach, by sandbox id. */
  allow: z.record(id, z.array(name)).default({}),
  /** Sandboxes that span nodes; any other sandbox id means a separate sandbox on each node. */
  shared: z.array(id).default([]),
});

/** The tiers that may read and write each shared document, by its name. Default: all. */
export const StateRulesSchema = z.record(
  id,
  z.strictObject({ read: z.array(AgentTierSchema).optional(), write: z.array(AgentTierSchema).optional() }),
);

const BroadcastCountsSchema = z.object({
  /** Registered agents other than the sender; the sum of the next three. */
  recipients: z.int().nonnegative(),
  delivered: z.int().nonnegative(),
  withheld: z.int().nonnegative(),
  failed: z.int().nonnegative(),
  withheldByCode: z.record(z.string(), z.int().positive()),
});

export const RoutingResultSchema = z.object({
  delivered: z.boolean(),
  path: z.enum(['local', 'remote', 'broadcast']),
  targetAgentId: z.string(),
  /** The time from `send` to the recipient’s mailbox. One in 32 local sends is measured; the others repeat its value. */
  latencyMs: z.number().nonnegative(),
  error: z.string().optional(),
  reason: z.string().optional(),
  /** The addresses that an ambiguous id may mean. */
  candidates: z.array(z.string()).optional(),
  /** A durable message is on this node's disk; its receipt reports its progress. */
  stored: z.boolean().optional(),
  /** The id of a durable message's receipt. */
  messageId: z.string().optional(),
  /** Of a message to another node that failed: it certainly did not arrive, or that is unknown. */
  outcome: z.enum(['not-delivered', 'unknown']).optional(),
  broadcast: BroadcastCountsSchema.optional(),
});

export const A2ALogEventSchema = z.object({
  type: z.enum([
    'message-sent',
    'message-received',
    'routing-decision',
    'tool-invocation',
    'error',
    'security',
    'tier-audit',
    'delivery-failure',
    'channel-status',
    'peer-status',
    'receipt',
    'provider',
    'credential',
    'action',
    'proposal',
    'swarm',
    'radar',
  ]),
  envelopeId: z.string().optional(),
  correlationId: z.string().optional(),
  sender: z.string().optional(),
  recipient: z.string().optional(),
  messageType: A2AMessageTypeSchema.optional(),
  routingPath: z.enum(['local', 'remote', 'broadcast']).optional(),
  sourceTier: AgentTierSchema.optional(),
  targetTier: AgentTierSchema.optional(),
  channelId: z.string().optional(),
  channelStatus: z.enum(['connecting', 'open', 'reconnecting', 'closed']).optional(),
  node: z.string().optional(),
  peerStatus: z.enum(['connected', 'idle', 'suspected', 'away', 'lost', 'incompatible', 'removed']).optional(),
  receiptState: z.string().optional(),
  /** The event of a provider, a credential, an action or the radar: `provider.health.changed`, `action.denied`, `radar.overlap`, … */
  topic: z.string().optional(),
  provider: z.string().optional(),
  providerType: z.string().optional(),
  details: z.record(z.string(), z.unknown()).optional(),
  proposalId: z.string().optional(),
  proposalStatus: z.enum(['pending', 'accepted', 'rejected', 'timed-out']).optional(),
  swarmId: z.string().optional(),
  swarmStatus: z.enum(['recruiting', 'active', 'completing', 'completed', 'failed']).optional(),
  toolName: z.string().optional(),
  duration: z.number().optional(),
  /** The duration is that of an earlier local send: this one was not timed. */
  sampled: z.boolean().optional(),
  success: z.boolean().optional(),
  code: z.string().optional(),
  reason: z.string().optional(),
  broadcast: BroadcastCountsSchema.optional(),
  traceparent: z.string().optional(),
  timestamp: z.number(),
});

export type AgentTier = z.infer<typeof AgentTierSchema>;
export type AgentEndpoint = z.infer<typeof AgentEndpointSchema>;
export type CapabilityDescriptor = z.infer<typeof CapabilityDescriptorSchema>;
export type WorkKind = z.infer<typeof WorkKindSchema>;
export type AgentStatus = Readonly<z.infer<typeof AgentStatusSchema>>;
export type AgentCard = Readonly<z.infer<typeof AgentCardSchema>>;
export type A2AMessageType = z.infer<typeof A2AMessageTypeSchema>;
export type EnvelopeMetadata = Readonly<z.infer<typeof EnvelopeMetadataSchema>>;
export type A2AEnvelope = Readonly<z.infer<typeof A2AEnvelopeSchema>>;
export type TaskProposalPayload = z.infer<typeof TaskProposalPayloadSchema>;
export type TierRule = z.infer<typeof TierRuleSchema>;
export type TierRoutingConfig = z.infer<typeof TierRoutingConfigSchema>;
export type SandboxRoutingConfig = z.input<typeof SandboxRoutingConfigSchema>;
export type StateRules = z.infer<typeof StateRulesSchema>;
export type BroadcastCounts = z.infer<typeof BroadcastCountsSchema>;
/** Several sends may share one. */
export type RoutingResult = Readonly<z.infer<typeof RoutingResultSchema>>;
export type A2ALogEvent = Readonly<z.infer<typeof A2ALogEventSchema>>;

/** Returns a frozen copy of a valid card, or throws `INVALID_CARD` with all faults. */
export function checkCard(value: unknown): AgentCard {
  const parsed = AgentCardSchema.safeParse(value);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'card'}: ${issue.message}`);
    throw new EclipticError('INVALID_CARD', `not a valid agent card: ${faults.join('; ')}`, { faults });
  }
  // Copied through JSON, because a card must survive that; the caller's object is not frozen.
  return freezeDeep(JSON.parse(JSON.stringify(parsed.data)) as AgentCard);
}

function freezeDeep<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) freezeDeep(member);
    Object.freeze(value);
  }
  return value;
}

/** An agent's id or address, or any agent that offers a capability. */
export type Recipient = string | { readonly capability: string };
