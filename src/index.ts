/** The front door: everything to write and run agents, and the names of the specification. Rooms have entries of their own. */

export { clearAgentCardCache, discoverAgent, fetchAgentCard, invokeRemoteAgent } from './a2a/client/remote-agents.js';
export { ExternalServiceError, NotFoundError, ValidationError } from './a2a/protocol/errors.js';
export { buildAgentCard, buildAgentCardForAgent } from './a2a/server/cards.js';
export { clearTaskStore, handleTaskGet, handleTaskSend } from './a2a/server/task-handler.js';
export type { Agent } from './agent/agent.js';
export type { AgentInit } from './agent/agent-init.js';
export type { AgentObjects } from './agent/agent-objects.js';
export type { SubTaskInput, SwarmRun } from './agent/agent-swarms.js';
export type { AgentTask } from './agent/agent-tasks.js';
export type { Message } from './agent/message.js';
export type { StreamReader } from './agent/streams.js';
export type { Collections } from './collections/collections.js';
export type { Entry } from './collections/entry.js';
export { CRDTSyncChannel } from './documents/crdt-sync.js';
export type { SharedDocument } from './documents/document.js';
export { type CRDTSyncMessage, CRDTSyncMessageSchema } from './documents/sync-message.js';
export type { Receipt } from './mail/receipt.js';
export type { Call } from './mcp/call.js';
export type { A2AChannel } from './mesh/channel.js';
export type { ChannelStatus } from './mesh/channel-machine.js';
export { ChannelManager } from './mesh/channel-manager.js';
export { deserializeEnvelope, serializeEnvelope } from './mesh/codec.js';
export { EnvelopeFactory } from './mesh/envelope.js';
export { type A2AMetrics, A2AObservability } from './mesh/observability.js';
export { AgentRegistry } from './mesh/registry.js';
export { A2ARouter } from './mesh/router.js';
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
  type CapabilityDescriptor,
  CapabilityDescriptorSchema,
  type RoutingResult,
  RoutingResultSchema,
  type SandboxRoutingConfig,
  type TaskProposalPayload,
  TaskProposalPayloadSchema,
  type TierRoutingConfig,
  type TierRule,
} from './mesh/schemas.js';
export { DEFAULT_TIER_ASSIGNMENTS, DEFAULT_TIER_RULES } from './mesh/tier-config.js';
export { createNode, type EclipticNode, type NatsInit, type NodeInit, type NodeNetworkInit } from './node/compose.js';
export { openStore } from './node/tables.js';
export type { ObjectRef } from './objects/reference.js';
export { RalphLoop } from './plans/ralph-loop.js';
export { A2ARouterAdapter } from './providers/a2a/a2a-router.js';
export { ACPClientAdapter } from './providers/acp/acp-client.js';
export type { ProviderAdapter } from './providers/adapter/adapter.js';
export { NormalizedProviderError } from './providers/adapter/errors.js';
export { HealthCoordinator } from './providers/health/health.js';
export { MCPBridgeAdapter } from './providers/mcp/mcp-bridge.js';
export { FailoverRouter } from './providers/registry/failover.js';
export { ProviderRegistry } from './providers/registry/registry.js';
export { EclipticError, ERRORS, type ErrorCode } from './runtime/errors.js';
export type { Runtime } from './runtime/runtime.js';
export { systemRuntime } from './runtime/system-runtime.js';
export type { FileStore } from './store/file-store.js';
export { MemoryStore } from './store/memory-store.js';
export type { Store } from './store/store.js';
export { ActionGate } from './system/approvals/action-gate.js';
export type { Negotiation, ReceivedProposal, TaskProposal } from './work/proposals/proposal.js';
export { TaskNegotiator } from './work/proposals/task-negotiator.js';
export { SwarmCoordinator } from './work/swarm/swarm-coordinator.js';
export type { SwarmSession, SwarmSubTask } from './work/swarm/swarm-session.js';
export { type Usage, usageIn } from './work/usage.js';
