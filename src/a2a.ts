/** Entry `ecliptic/a2a`: calling remote A2A agents, and the functions of the task gateway. */

export { A2AClient } from './a2a/client/a2a-client.js';
export type { CallOptions } from './a2a/client/call-limits.js';
export { CardSource, type SignatureVerdict } from './a2a/client/card-source.js';
export type { A2AClientComponents, A2AClientInit, Outgoing } from './a2a/client/client-init.js';
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
