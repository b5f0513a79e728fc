/** Entry `ecliptic/providers`: adapters, health, failover, lanes and what they need of the system. */

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
export type { WorkerTask } from './providers/adapter/worker-task.js';
export { CommandAdapter } from './providers/command/command-adapter.js';
export { ExecAdapter, type ExecConfig } from './providers/exec/exec-adapter.js';
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
export { ModelAdapter, type ModelComponents, type ModelConfig } from './providers/model/model-adapter.js';
export { FailoverRouter } from './providers/registry/failover.js';
export type { ProviderRow } from './providers/registry/registered-provider.js';
export {
  type ExecuteRoute,
  ProviderRegistry,
  type ProviderRegistryComponents,
  type ProviderRegistryInit,
} from './providers/registry/registry.js';
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
