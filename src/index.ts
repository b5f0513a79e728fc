/** The public surface: what is listed here is kept stable; everything else is internal. */
export type { A2AChannel } from './a2a/channel.js';
export type { ChannelStatus } from './a2a/channel-machine.js';
export type { ChannelAcceptor, ChannelManager, ChannelManagerInit } from './a2a/channel-manager.js';
export { deserializeEnvelope, serializeEnvelope } from './a2a/codec.js';
export { BROADCAST, EnvelopeFactory, type EnvelopeInit } from './a2a/envelope.js';
export { type A2AMetrics, A2AObservability } from './a2a/observability.js';
export type { Carrier } from './a2a/ports.js';
export { toPrometheus } from './a2a/prometheus.js';
export { AgentRegistry } from './a2a/registry.js';
export type { A2ARouter } from './a2a/router.js';
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
} from './a2a/schemas.js';
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
} from './a2a/schemas.js';
export { DEFAULT_TIER_ASSIGNMENTS, DEFAULT_TIER_RULES } from './a2a/tier-config.js';
export {
  A2AClient,
  type A2AClientComponents,
  type A2AClientInit,
  type Outgoing,
} from './a2a-protocol/client/a2a-client.js';
export type { CallOptions } from './a2a-protocol/client/call-limits.js';
export type { SignatureVerdict } from './a2a-protocol/client/card-keys.js';
export { CardSource } from './a2a-protocol/client/card-source.js';
export type { Credentials, CredentialsOf } from './a2a-protocol/client/credentials.js';
export {
  clearAgentCardCache,
  discoverAgent,
  fetchAgentCard,
  type InvokeOptions,
  invokeRemoteAgent,
  type RemoteAgentOptions,
} from './a2a-protocol/client/remote-agents.js';
export { ExternalServiceError, NotFoundError, ValidationError } from './a2a-protocol/service-errors.js';
export type { A2AAgentCard, RemoteInvocationResult } from './a2a-protocol/simple-types.js';
export type { Agent, MessageHandler, RequestHandler, StreamHandler } from './agent/agent.js';
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
export type { Recipient, SendOptions } from './agent/outbox.js';
export type { StreamReader } from './agent/streams.js';
export type {
  Bid,
  Complexity,
  Engagement,
  Negotiation,
  ProposalHandler,
  ProposalInit,
  ProposalStatus,
  ReceivedProposal,
  TaskNegotiator,
  TaskProposal,
} from './coordination/negotiation/proposal.js';
export { CRDTSyncChannel, type CRDTUpdate } from './coordination/state/crdt-sync-channel.js';
export type {
  DocumentChange,
  DocumentOptions,
  Json,
  Member,
  SharedDocument,
  SharedList,
  SharedMap,
  SharedText,
} from './coordination/state/document.js';
export type { Documents } from './coordination/state/documents.js';
export {
  type CRDTSyncMessage,
  CRDTSyncMessageSchema,
  type VectorClock,
} from './coordination/state/sync-message.js';
export type { SwarmCoordinator, SwarmOptions } from './coordination/swarm/swarm-coordinator.js';
export type { SwarmPlan } from './coordination/swarm/swarm-plan.js';
export type { EscalationKind, SwarmEscalation, SwarmOutcome, SwarmStatus } from './coordination/swarm/swarm-records.js';
export type { SwarmSession, SwarmSubTask } from './coordination/swarm/swarm-session.js';
export type { Swarms } from './coordination/swarm/swarms.js';
export type { CredentialSource } from './credentials/credential-source.js';
export { buildAgentCard, buildAgentCardForAgent } from './gateway/a2a/instance-card.js';
export type { ProcessEvent, ProcessManager, Session } from './gateway/a2a/process-manager.js';
export {
  type A2ATaskDeps,
  clearTaskStore,
  handleTaskGet,
  handleTaskSend,
  type TaskDatabase,
} from './gateway/a2a/task-handler.js';
export type { Gateway, GatewayInit } from './gateway/gateway.js';
export type { Effects } from './mail/delivery.js';
export type { Mail } from './mail/mail.js';
export type { Receipt, ReceiptState, ReceiptStep } from './mail/receipt.js';
export type { UnreadHandler } from './mail/watches.js';
export type { Call } from './mcp/call.js';
export type { PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition } from './mcp/definitions.js';
export { deserializeInvocation, type InvocationRecord, serializeInvocation } from './mcp/invocation-record.js';
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
export { createNode, type EclipticNode, type NodeInit, type NodeNetworkInit } from './node.js';
export type { TaskInput } from './orchestrator/ralph/dispatcher.js';
export type { HierarchyConfig } from './orchestrator/ralph/hierarchy.js';
export { RalphLoop, type RalphLoopComponents, type RunInit } from './orchestrator/ralph/ralph-loop.js';
export type { RunNews, RunView } from './orchestrator/ralph/run-news.js';
export type { Finding, InviteOptions, Network, PeerRow } from './peers/network.js';
export type { PeerLimits, PeerStatus } from './peers/peer.js';
export { Children, type ChildrenInit } from './process/children.js';
export { MemoryWatch } from './process/memory-watch.js';
export { A2ARouterAdapter, type A2ARouterComponents, type EndpointSource } from './providers/a2a-router.js';
export type { A2AConfig, A2ADelegation, A2AEndpoint, A2AResult } from './providers/a2a-types.js';
export {
  ACPClientAdapter,
  type ACPComponents,
  type ACPConfig,
  type ACPResult,
  type ACPTask,
} from './providers/acp-client-adapter.js';
export { CommandAdapter } from './providers/command-adapter.js';
export { FailoverRouter } from './providers/failover.js';
export { HealthCoordinator } from './providers/health.js';
export type { HostLimits } from './providers/host/limits.js';
export type { ProcessComponents, ProcessConfig } from './providers/host/provider-process.js';
export { type Lane, type LaneRow, Lanes } from './providers/lanes.js';
export {
  MCPBridgeAdapter,
  type MCPBridgeComponents,
  type MCPConfig,
  type MCPToolInvocation,
  type MCPToolResult,
} from './providers/mcp-bridge.js';
export type {
  ExecuteTerms,
  ProviderAdapter,
  ProviderCrash,
  ProviderHealthStatus,
  ProviderRegistration,
  ProviderUpdate,
} from './providers/provider-adapter.js';
export { isRetryable, NormalizedProviderError, normalizeError } from './providers/provider-errors.js';
export { ProviderEvents } from './providers/provider-events.js';
export type { ExecuteRoute, ProviderRegistry } from './providers/provider-registry.js';
export type { ProviderRow } from './providers/provider-row.js';
export { EclipticError, ERRORS, type ErrorCode } from './runtime/errors.js';
export type { Logger, Runtime, Timer } from './runtime/runtime.js';
export { systemRuntime } from './runtime/system-runtime.js';
export { MemoryStore } from './store/memory-store.js';
export { SqliteStore } from './store/sqlite-store.js';
export type { Store } from './store/store.js';
