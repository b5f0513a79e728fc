/** Entry `ecliptic/mesh`: the types behind an agent’s handle, and the parts that a mesh is made of. */

export type { Agent } from './agent/agent.js';
export type { MessageHandler, ReplyOptions, RequestHandler, StreamHandler } from './agent/agent-core.js';
export type { AgentInit, CapabilityInit } from './agent/agent-init.js';
export type { SubTaskInput, SwarmInit, SwarmRun } from './agent/agent-swarms.js';
export type { AgentTask, Content, TaskHandler, TaskOptions } from './agent/agent-tasks.js';
export type { AgentTools, Offered, ToolCallOptions } from './agent/agent-tools.js';
export type { RequestOptions } from './agent/conversations.js';
export type { Message } from './agent/message.js';
export type { StreamReader } from './agent/streams.js';
export { CRDTSyncChannel, type CRDTUpdate } from './documents/crdt-sync.js';
export type {
  DocumentChange,
  DocumentOptions,
  Json,
  Member,
  SharedDocument,
  SharedList,
  SharedMap,
  SharedText,
} from './documents/document.js';
export type { Documents } from './documents/documents.js';
export { type CRDTSyncMessage, CRDTSyncMessageSchema, type VectorClock } from './documents/sync-message.js';
export type { Gateway, GatewayInit } from './http/gateway.js';
export type { Effects } from './mail/incoming-mail.js';
export type { Mail } from './mail/mail.js';
export type { Receipt, ReceiptState, ReceiptStep } from './mail/receipt.js';
export type { UnreadHandler } from './mail/receipts.js';
export type { Call } from './mcp/call.js';
export type { PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition } from './mcp/definitions.js';
export { deserializeInvocation, type InvocationRecord, serializeInvocation } from './mcp/invocations.js';
export type {
  Completions,
  PromptHandler,
  PromptInit,
  ResourceInit,
  ResourceLoader,
  ToolHandler,
  ToolInit,
  ToolOptions,
} from './mcp/offering.js';
export type { CheckedBy, JsonSchema, Schema, StandardSchema } from './mcp/schema.js';
export type { McpService } from './mcp/service.js';
export type { A2AChannel } from './mesh/channel.js';
export type { ChannelStatus } from './mesh/channel-machine.js';
export {
  type ChannelAcceptor,
  ChannelManager,
  type ChannelManagerComponents,
  type ChannelManagerInit,
} from './mesh/channel-manager.js';
export { deserializeEnvelope, serializeEnvelope } from './mesh/codec.js';
export { BROADCAST, EnvelopeFactory, type EnvelopeInit } from './mesh/envelope.js';
export type { SendOptions } from './mesh/message-sender.js';
export { type A2AMetrics, A2AObservability } from './mesh/observability.js';
export { Policy } from './mesh/policy.js';
export type { Carrier, CarryOutcome } from './mesh/ports.js';
export { toPrometheus } from './mesh/prometheus.js';
export { AgentRegistry } from './mesh/registry.js';
export { A2ARouter, type A2ARouterInit, type RouterComponents } from './mesh/router.js';
export {
  type A2AEnvelope,
  A2AEnvelopeSchema,
  type A2ALogEvent,
  A2ALogEventSchema,
  type A2AMessageType,
  A2AMessageTypeSchema,
  type AgentCard,
  AgentCardSchema,
  type AgentEndpoint,
  AgentEndpointSchema,
  type AgentTier,
  AgentTierSchema,
  type BroadcastCounts,
  type CapabilityDescriptor,
  CapabilityDescriptorSchema,
  type EnvelopeMetadata,
  type Recipient,
  type RoutingResult,
  RoutingResultSchema,
  type SandboxRoutingConfig,
  SandboxRoutingConfigSchema,
  SCHEMA_VERSION,
  type TaskProposalPayload,
  TaskProposalPayloadSchema,
  type TierRoutingConfig,
  TierRoutingConfigSchema,
  type TierRule,
} from './mesh/schemas.js';
export { DEFAULT_TIER_ASSIGNMENTS, DEFAULT_TIER_RULES } from './mesh/tier-config.js';
export type { Finding, InviteOptions, Network, PeerRow } from './network/peers/network.js';
export type { PeerLimits, PeerStatus } from './network/peers/peer-state.js';
export type { PeerProtocol } from './network/peers/protocol.js';
export type { TaskInput } from './plans/dispatcher.js';
export type { HierarchyConfig } from './plans/hierarchy.js';
export { RalphLoop, type RalphLoopComponents, type RunInit } from './plans/ralph-loop.js';
export type { RunNews, RunView } from './plans/run-news.js';
export type { Log, Logger, LogLine, Timer } from './runtime/runtime.js';
export type {
  Bid,
  Complexity,
  Engagement,
  Negotiation,
  ProposalHandler,
  ProposalInit,
  ProposalStatus,
  ReceivedProposal,
  TaskProposal,
} from './work/proposals/proposal.js';
export { type NegotiatorComponents, type NegotiatorInit, TaskNegotiator } from './work/proposals/task-negotiator.js';
export {
  type CoordinatorComponents,
  type SwarmAgent,
  SwarmCoordinator,
  type SwarmOptions,
} from './work/swarm/swarm-coordinator.js';
export type { SwarmPlan } from './work/swarm/swarm-plan.js';
export type { EscalationKind, SwarmEscalation, SwarmOutcome, SwarmStatus } from './work/swarm/swarm-records.js';
export type { SwarmSession, SwarmSubTask } from './work/swarm/swarm-session.js';
export type { Swarms } from './work/swarm/swarms.js';
export { type Usage, usageIn } from './work/usage.js';
