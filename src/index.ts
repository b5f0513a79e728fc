/** The public surface: what is listed here is kept stable; everything else is internal. */

export {
  A2AClient,
  type A2AClientComponents,
  type A2AClientInit,
  type Outgoing,
} from './a2a/client/a2a-client.js';
export type { CallOptions } from './a2a/client/call-limits.js';
export type { SignatureVerdict } from './a2a/client/card-source.js';
export { CardSource } from './a2a/client/card-source.js';
export type { Credentials, CredentialsOf } from './a2a/client/credentials.js';
export {
  clearAgentCardCache,
  discoverAgent,
  fetchAgentCard,
  type InvokeOptions,
  invokeRemoteAgent,
  type RemoteAgentOptions,
} from './a2a/client/remote-agents.js';
export { ExternalServiceError, NotFoundError, ValidationError } from './a2a/protocol/errors.js';
export type { A2AAgentCard, RemoteInvocationResult } from './a2a/protocol/simple.js';
export { buildAgentCard, buildAgentCardForAgent } from './a2a/server/cards.js';
export type { ProcessEvent, ProcessManager, Session } from './a2a/server/process-manager.js';
export {
  type A2ATaskDeps,
  clearTaskStore,
  handleTaskGet,
  handleTaskSend,
  type TaskDatabase,
} from './a2a/server/task-handler.js';
export type { Agent } from './agent/agent.js';
export type { MessageHandler, RequestHandler, StreamHandler } from './agent/agent-core.js';
export type { AgentInit, CapabilityInit } from './agent/agent-init.js';
export type { SubTaskInput, SwarmInit, SwarmRun } from './agent/agent-swarms.js';
export type {
  AgentTask,
  Content,
  TaskHandler,
  TaskOptions,
} from './agent/agent-tasks.js';
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
export {
  type CRDTSyncMessage,
  CRDTSyncMessageSchema,
  type VectorClock,
} from './documents/sync-message.js';
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
export type { Recipient, SendOptions } from './mesh/message-sender.js';
export { type A2AMetrics, A2AObservability } from './mesh/observability.js';
export { Policy } from './mesh/policy.js';
export type { Carrier } from './mesh/ports.js';
export { toPrometheus } from './mesh/prometheus.js';
export { AgentRegistry } from './mesh/registry.js';
export { A2ARouter, type A2ARouterInit, type RouterComponents } from './mesh/router.js';
export type {
  A2AEnvelope,
  A2ALogEvent,
  A2AMessageType,
  AgentCard,
  AgentEndpoint,
  AgentTier,
  BroadcastCounts,
  CapabilityDescriptor,
  EnvelopeMetadata,
  RoutingResult,
  SandboxRoutingConfig,
  TaskProposalPayload,
  TierRoutingConfig,
  TierRule,
} from './mesh/schemas.js';
export {
  A2AEnvelopeSchema,
  A2ALogEventSchema,
  A2AMessageTypeSchema,
  AgentCardSchema,
  AgentEndpointSchema,
  AgentTierSchema,
  CapabilityDescriptorSchema,
  RoutingResultSchema,
  SandboxRoutingConfigSchema,
  SCHEMA_VERSION,
  TaskProposalPayloadSchema,
  TierRoutingConfigSchema,
} from './mesh/schemas.js';
export { DEFAULT_TIER_ASSIGNMENTS, DEFAULT_TIER_RULES } from './mesh/tier-config.js';
export type { Finding, InviteOptions, Network, PeerRow } from './network/peers/network.js';
export type { PeerLimits, PeerStatus } from './network/peers/peer.js';
export { createNode, type EclipticNode, type NodeInit, type NodeNetworkInit } from './node/compose.js';
export type { TaskInput } from './plans/dispatcher.js';
export type { HierarchyConfig } from './plans/hierarchy.js';
export { RalphLoop, type RalphLoopComponents, type RunInit } from './plans/ralph-loop.js';
export type { RunNews, RunView } from './plans/run-news.js';
export { A2ARouterAdapter, type A2ARouterComponents, type EndpointSource } from './providers/a2a/a2a-router.js';
export type { A2AConfig, A2ADelegation, A2AEndpoint, A2AResult } from './providers/a2a/a2a-types.js';
export {
  ACPClientAdapter,
  type ACPComponents,
  type ACPConfig,
  type ACPResult,
  type ACPTask,
} from './providers/acp/acp-client.js';
export type {
  ExecuteTerms,
  ProviderAdapter,
  ProviderCrash,
  ProviderHealthStatus,
  ProviderRegistration,
  ProviderUpdate,
} from './providers/adapter/adapter.js';
export { isRetryable, NormalizedProviderError, normalizeError } from './providers/adapter/errors.js';
export { ProviderEvents } from './providers/adapter/events.js';
export { CommandAdapter } from './providers/command/command-adapter.js';
export { HealthCoordinator } from './providers/health/health.js';
export { type Lane, type LaneRow, Lanes } from './providers/host/lanes.js';
export type { ProcessComponents, ProcessConfig } from './providers/host/process-adapter.js';
export type { HostLimits } from './providers/host/watched-process.js';
export {
  MCPBridgeAdapter,
  type MCPBridgeComponents,
  type MCPConfig,
  type MCPServerConnection,
  type MCPToolInvocation,
  type MCPToolResult,
} from './providers/mcp/mcp-bridge.js';
export { FailoverRouter } from './providers/registry/failover.js';
export type { ProviderRow } from './providers/registry/registered-provider.js';
export {
  type ExecuteRoute,
  ProviderRegistry,
  type ProviderRegistryComponents,
  type ProviderRegistryInit,
} from './providers/registry/registry.js';
export { EclipticError, ERRORS, type ErrorCode } from './runtime/errors.js';
export type { Logger, Runtime, Timer } from './runtime/runtime.js';
export { systemRuntime } from './runtime/system-runtime.js';
export { MemoryStore } from './store/memory-store.js';
export { SqliteStore } from './store/sqlite-store.js';
export type { Store } from './store/store.js';
export {
  type Action,
  ActionGate,
  type ActionGateComponents,
  type ActionGateInit,
  type ActionRule,
  type ActionRuling,
} from './system/approvals/action-gate.js';
export { Approvals } from './system/approvals/approvals.js';
export { Children, type ChildrenInit } from './system/process/children.js';
export { MemoryWatch } from './system/process/memory-watch.js';
export type { CredentialSource } from './system/secrets/credential-source.js';
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
