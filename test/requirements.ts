/** Everything the specification asks, one row each. A row is cited by a test title (`[R1.1]`) or `planned`. */
type Capability = 'mesh' | 'nodes' | 'mcp' | 'protocol' | 'gateway' | 'coordination' | 'providers' | 'onramp';

export interface Requirement {
  readonly id: string;
  /** Document and place, e.g. `mesh-requirements 1.1`. */
  readonly source: string;
  readonly sentence: string;
  readonly capability: Capability;
  readonly planned: boolean;
}

type Row = readonly [id: string, capability: Capability, sentence: string];

/** Requirements of every other capability are planned. */
const delivered: ReadonlySet<Capability> = new Set<Capability>([
  'mesh',
  'nodes',
  'mcp',
  'protocol',
  'gateway',
  'providers',
  'coordination',
  'onramp',
]);

/** Rows of one part of a document; the source of a row is `place` followed by its id without `prefix`. */
function section(place: string, prefix: string, rows: readonly Row[]): readonly Requirement[] {
  return rows.map(([id, capability, sentence]) => ({
    id,
    source: `${place} ${id.slice(prefix.length)}`,
    sentence,
    capability,
    planned: !delivered.has(capability),
  }));
}

const acceptanceCriteria = section('mesh-requirements', 'R', [
  // 1: Agent Card publication and discovery
  ['R1.1', 'mesh', 'Registering stores a card with id, name, version, tier, protocols, capabilities and endpoints.'],
  ['R1.2', 'mesh', 'A query by capability returns every card whose capability descriptors match it.'],
  ['R1.3', 'mesh', 'A query by agent identifier returns the matching card or a not-found error.'],
  ['R1.4', 'mesh', 'A card is accepted only with its identifier, name, version, tier and capabilities present.'],
  ['R1.5', 'mesh', 'Registering a duplicate identifier updates the existing card and increments its revision.'],
  ['R1.6', 'mesh', 'Agent Cards serialize to JSON and deserialize back without data loss.'],
  ['R1.7', 'nodes', 'With Hyperswarm discovery on, cards are announced to the DHT and remote cards are discovered.'],
  ['R1.8', 'nodes', 'A card discovered via Hyperswarm is merged into the local registry and marked "remote".'],
  // 2: A2A envelope and message format
  ['R2.1', 'mesh', 'An envelope has id, sender, recipient or broadcast, correlation id, type, timestamp and payload.'],
  ['R2.2', 'mesh', 'Creating an envelope assigns a unique message identifier and the current time.'],
  ['R2.3', 'mesh', 'Envelopes serialize to JSON and deserialize back to equivalent objects.'],
  ['R2.4', 'mesh', 'A correlation identifier associates an envelope with an existing conversation thread.'],
  [
    'R2.5',
    'mesh',
    'Types: request, response, notification, task-proposal/accept/reject, stream-start/data/end and error.',
  ],
  // 3: A2A channel establishment and lifecycle
  ['R3.1', 'mesh', 'A requested channel is created with a unique identifier and "connecting" status.'],
  ['R3.2', 'mesh', 'When both agents acknowledge, the channel becomes "open" and carries messages both ways.'],
  ['R3.3', 'mesh', 'When either agent closes the channel it becomes "closed" and releases its resources.'],
  ['R3.4', 'mesh', 'An open channel delivers from sender to recipient with ordering preserved within the channel.'],
  ['R3.5', 'mesh', 'A failed delivery is retried up to 3 times with exponential backoff, then a failure event.'],
  ['R3.6', 'nodes', 'Channels support local (in-memory) and remote (WebSocket or Hyperswarm stream) transport.'],
  ['R3.7', 'nodes', 'When a remote transport disconnects the channel is "reconnecting" and tries to re-establish.'],
  // 4: A2A message routing
  ['R4.1', 'mesh', 'An envelope with a specific recipient is delivered to the agent with that identifier.'],
  ['R4.2', 'mesh', 'An envelope with a broadcast marker is delivered to all registered agents.'],
  ['R4.3', 'mesh', 'An envelope that targets a capability goes to the first agent in the registry that matches it.'],
  ['R4.4', 'mesh', 'A target not found locally is looked up among remote cards before a routing error is returned.'],
  ['R4.5', 'mesh', 'Tier rules hold: L0 reaches all tiers, L1 reaches L0 and L1, L2 reaches L0-L2, L3 reaches all.'],
  ['R4.6', 'mesh', 'Routing emits an event with envelope id, source, target and decision (local/remote/broadcast).'],
  // 5: MCP tool registry and exposure
  [
    'R5.1',
    'mcp',
    'A registered tool is stored with name, description, input schema, output schema and source agent id.',
  ],
  ['R5.2', 'mcp', 'The tool list returns all registered tools from all agents.'],
  ['R5.3', 'mcp', 'An invocation is routed to the agent that registered the tool and its result is returned.'],
  ['R5.4', 'mcp', 'A failed invocation returns a structured error with code, message and source agent identifier.'],
  ['R5.5', 'mcp', 'Tool names are unique within the registry; duplicates are rejected with a descriptive error.'],
  ['R5.6', 'mcp', 'Tools are namespaced as "agentName.toolName" to prevent collisions across agents.'],
  // 6: MCP resource and context sharing
  ['R6.1', 'mcp', 'A registered resource is stored with its URI, name, MIME type and content loader.'],
  ['R6.2', 'mcp', 'Reading a resource by URI invokes its loader and returns content with the correct MIME type.'],
  ['R6.3', 'mcp', 'An unknown resource URI returns a resource-not-found error with the requested URI.'],
  ['R6.4', 'mcp', 'A registered prompt is stored with name, description, argument definitions and template body.'],
  ['R6.5', 'mcp', 'Requesting a prompt substitutes the arguments into the template and returns the result.'],
  // 7: Task negotiation via A2A
  [
    'R7.1',
    'coordination',
    'A task-proposal has description, required capabilities, estimated complexity and a response deadline.',
  ],
  ['R7.2', 'coordination', 'A task-accept has the accepting agent identifier and an estimated completion time.'],
  ['R7.3', 'coordination', 'A task-reject has a reason code and an optional alternative agent suggestion.'],
  ['R7.4', 'coordination', 'Without response by the deadline a proposal is "timed-out" and the proposer notified.'],
  ['R7.5', 'coordination', 'Acceptance creates a thread linking proposal, acceptance and all later task messages.'],
  // 8: Decentralized swarm coordination
  [
    'R8.1',
    'coordination',
    'A swarm task of the Ralph Loop is broadcast as a task-proposal to agents with the needed capabilities.',
  ],
  ['R8.2', 'coordination', 'Sub-tasks are assigned by the declared capabilities and current load of acceptors.'],
  ['R8.3', 'coordination', 'An active swarm keeps a shared task state all participants reach by A2A messages.'],
  ['R8.4', 'coordination', 'A completed sub-task has its result collected and the shared task state updated.'],
  [
    'R8.5',
    'coordination',
    'The sub-task of a failed participant goes to another capable agent or is escalated to the Ralph Loop.',
  ],
  [
    'R8.6',
    'coordination',
    'When all sub-tasks are completed, results are aggregated and the outcome goes to the Ralph Loop.',
  ],
  // 9: CRDT collaboration via A2A channels
  ['R9.1', 'coordination', 'A local CRDT update is broadcast to all connected agents via A2A messaging.'],
  ['R9.2', 'coordination', 'A CRDT update received from a remote agent is applied to the local CRDT state.'],
  ['R9.3', 'coordination', 'Concurrent CRDT updates from different agents all apply by CRDT merge, without data loss.'],
  ['R9.4', 'coordination', 'Each update message includes a vector clock to maintain causal ordering.'],
  ['R9.5', 'coordination', 'An undecodable update is logged with its source agent and skipped; sync goes on.'],
  // 10: Sandbox-aware communication
  ['R10.1', 'mesh', 'A message from a sandbox goes only to the same sandbox or its allowed communication list.'],
  ['R10.2', 'mesh', 'An unauthorized message out of a sandbox is rejected and a security event is emitted.'],
  ['R10.3', 'mesh', 'Registering a sandboxed agent tags its card with the sandbox identifier.'],
  ['R10.4', 'mesh', 'Sandboxed agents discover only their own sandbox unless granted cross-sandbox access.'],
  // 11: Planetary Agent tier communication rules
  [
    'R11.1',
    'mesh',
    'L0: SUN; L1: MERCURY, EARTH, JUPITER; L2: VENUS, MARS, PLUTO, SATURN, TITAN; L3: all other agents.',
  ],
  ['R11.2', 'mesh', 'A task-proposal from L2 or L3 to L0 or L1 must include an escalation justification.'],
  ['R11.3', 'mesh', 'A directive broadcast by an L0 agent is delivered to all agents regardless of tier.'],
  ['R11.4', 'mesh', 'Cross-tier communication is logged with source tier, target tier and message type.'],
  // 12: Observability and audit
  ['R12.1', 'mesh', 'Sending or receiving an envelope logs its id, sender, recipient, message type and timestamp.'],
  ['R12.2', 'mcp', 'Invoking a tool logs the tool name, source agent, duration and success status.'],
  ['R12.3', 'mesh', 'A routing decision emits its path (local, remote, broadcast), latency and outcome.'],
  ['R12.4', 'mesh', 'Metrics: messages sent, received and by type, average routing latency and error count.'],
  ['R12.5', 'mcp', 'Metrics: tool invocations, invocations by tool, average duration and error count.'],
  // 13: A2A/MCP message serialization
  ['R13.1', 'mesh', 'Envelopes serialize to JSON for storage and transfer.'],
  ['R13.2', 'mesh', 'JSON-formatted envelopes deserialize back into valid envelope objects.'],
  ['R13.3', 'mesh', 'For all valid envelopes, serializing then deserializing gives an equivalent envelope.'],
  ['R13.4', 'mcp', 'Tool invocation records (tool name, arguments, result, duration) serialize to JSON.'],
  ['R13.5', 'mcp', 'For all valid invocation records, serializing then deserializing gives an equivalent record.'],
  ['R13.6', 'mesh', 'Serialized messages include a schema version field to support format migrations.'],
  ['R13.7', 'mesh', 'An unknown schema version returns a descriptive error indicating the version mismatch.'],
]);

const properties = section('mesh-design, property', 'P', [
  ['P1', 'mesh', 'A registered card is returned equivalent by its identifier and by each of its capabilities.'],
  ['P2', 'mesh', 'A card missing any required field is rejected with a descriptive error.'],
  ['P3', 'mesh', 'Registering an id twice leaves one card with the updated data and the revision one higher.'],
  ['P4', 'mesh', 'Any valid card survives serialization to JSON and back.'],
  ['P5', 'mesh', 'Merging a remote card stores it with origin "remote" and all original fields preserved.'],
  ['P6', 'mesh', 'Created envelopes have unique ids, positive timestamps and all required fields.'],
  ['P7', 'mesh', 'Any valid envelope survives serialization to JSON and back, schemaVersion included.'],
  ['P8', 'mesh', 'A thread query returns exactly the envelopes sharing its correlationId, in timestamp order.'],
  ['P9', 'mesh', 'Validation succeeds for each of the ten message types and fails for any other.'],
  ['P10', 'mesh', 'Channels go connecting-open-closed and open-reconnecting-open; other transitions are rejected.'],
  ['P11', 'mesh', 'Of N messages sent on an open channel exactly N are received, in the order sent.'],
  ['P12', 'mesh', 'A failing delivery is retried up to 3 times, each delay at least double, then a failure event.'],
  ['P13', 'mesh', 'An envelope for a registered recipient is delivered to exactly that agent.'],
  ['P14', 'mesh', 'A broadcast envelope is delivered to all N registered agents.'],
  ['P15', 'mesh', 'A capability-addressed envelope is delivered to an agent whose card has that capability.'],
  [
    'P16',
    'mesh',
    'Delivery happens iff the tier rules allow the target tier; L2/L3 to L0/L1 requires a justification.',
  ],
  ['P17', 'mesh', 'Each routed message emits an event with envelope id, source, target, path and latency.'],
  ['P18', 'mcp', 'Listing returns exactly the registered tools with all their fields, named agentName.toolName.'],
  ['P19', 'mcp', 'Invoking a registered tool calls the handler of its source agent and returns its result.'],
  ['P20', 'mcp', 'A second tool with the same fully-qualified name is rejected with a descriptive error.'],
  ['P21', 'mcp', 'Reading a registered resource returns the content of its loader with the correct MIME type.'],
  ['P22', 'mcp', 'Rendering a prompt replaces all N placeholders with the corresponding argument values.'],
  [
    'P23',
    'coordination',
    'A proposal has its four fields, an acceptance agent ID and completion time, a rejection a reason code.',
  ],
  ['P24', 'coordination', 'Proposal, acceptance and all subsequent messages share the same correlationId.'],
  ['P25', 'coordination', 'Swarm proposals go only to agents whose cards contain the required capabilities.'],
  [
    'P26',
    'coordination',
    'Each participant has a sub-task, completing one updates the state, completing all aggregates results.',
  ],
  ['P27', 'coordination', 'All connected agents apply a broadcast update; each has a non-empty vector clock.'],
  ['P28', 'coordination', 'Concurrent CRDT updates lead to the same final state in whatever order applied.'],
  ['P29', 'mesh', 'A sandboxed sender reaches a target iff same sandbox or allowed; rejection emits a security event.'],
  ['P30', 'mesh', 'A sandboxed agent finds only its own sandbox unless cross-sandbox access is granted.'],
  ['P31', 'mesh', 'Any message between different tiers is logged with source tier, target tier and type.'],
  ['P32', 'mesh', 'After K sent and J received, metrics report K, J and the actual distribution by type.'],
  ['P33', 'mcp', 'After N tool invocations, metrics report N and the actual distribution by tool.'],
  ['P34', 'mcp', 'Any valid tool invocation record survives serialization to JSON and back.'],
]);

const errorCodes = section('mesh-design, error type', 'E.', [
  ['E.AGENT_NOT_FOUND', 'mesh', 'A target in no registry gives a routing error with the unknown agent id.'],
  ['E.CAPABILITY_NOT_FOUND', 'mesh', 'A capability no agent matches gives a routing error with the capability id.'],
  ['E.TIER_VIOLATION', 'mesh', 'A message that violates the tier rules is rejected with a security event.'],
  ['E.SANDBOX_VIOLATION', 'mesh', 'An unauthorized sandbox crossing is rejected with a security event.'],
  ['E.ESCALATION_REQUIRED', 'mesh', 'An L2/L3 to L0/L1 proposal without justification is rejected, saying so.'],
  ['E.CHANNEL_CLOSED', 'mesh', 'Sending on a closed channel returns a channel-closed error.'],
  ['E.DELIVERY_FAILED', 'mesh', 'Delivery that failed after all retries emits a delivery failure event.'],
  ['E.DUPLICATE_TOOL', 'mcp', 'A tool with an existing fully-qualified name is rejected with a descriptive error.'],
  ['E.INVALID_CARD', 'mesh', 'A card missing required fields is rejected with validation errors.'],
  ['E.SCHEMA_VERSION_MISMATCH', 'mesh', 'An unknown schema version gives an error with expected and actual version.'],
  ['E.PROPOSAL_TIMEOUT', 'coordination', 'An expired proposal is marked timed-out and the proposer notified.'],
  ['E.CRDT_DESERIALIZATION_FAILED', 'coordination', 'An undecodable update is logged with its source and skipped.'],
]);

const recoveryStrategies = section('mesh-design, recovery strategy', 'RS', [
  [
    'RS1',
    'nodes',
    'A disconnected channel reconnects via Hyperswarm or WebSocket; after a configurable timeout it closes.',
  ],
  ['RS2', 'nodes', 'A routing failure checks remote registries via Hyperswarm before AGENT_NOT_FOUND is returned.'],
  [
    'RS3',
    'coordination',
    'The sub-task of a failed participant is reassigned; with no capable agent it goes to the Ralph Loop.',
  ],
  ['RS4', 'coordination', 'A malformed CRDT update is logged and skipped, and the remaining ones are processed.'],
  ['RS5', 'mcp', 'A failed tool invocation returns a structured MCP error and is never retried by the server.'],
]);

const unitTests = section('mesh-design, unit testing', 'UT', [
  ['UT1', 'mcp', 'A unit test covers the resource-not-found error (6.3).'],
  ['UT2', 'mesh', 'A unit test covers the schema version mismatch error (13.7).'],
  ['UT3', 'nodes', 'A unit test covers channel reconnection on disconnect (3.7).'],
  ['UT4', 'mesh', 'A unit test covers the remote registry fallback (4.4).'],
  ['UT5', 'coordination', 'A unit test covers the task proposal timeout (7.4).'],
  ['UT6', 'coordination', 'A unit test covers swarm participant failure and reassignment (8.5).'],
  ['UT7', 'coordination', 'A unit test covers skipping a CRDT update that fails deserialization (9.5).'],
  ['UT8', 'mesh', 'A unit test shows that the default tier assignments match the specification (11.1).'],
  ['UT9', 'mcp', 'A unit test covers the structure of the tool invocation error response (5.4).'],
]);

const integrationTests = section('mesh-design, integration testing', 'IT', [
  ['IT1', 'coordination', 'Integration: Ralph Loop to Swarm Coordinator to A2A Router to agent delivery.'],
  ['IT2', 'mcp', 'Integration: MCP tool invocation across agents via A2A.'],
  ['IT3', 'nodes', 'Integration: Hyperswarm-based remote agent discovery and channel establishment.'],
  ['IT4', 'coordination', 'Integration: end-to-end CRDT sync between two agent instances.'],
  ['IT5', 'providers', 'Integration: sandbox enforcement with a real sandbox module.'],
]);

const generators = section('mesh-design, generator', 'GEN.', [
  ['GEN.arbAgentCard', 'mesh', 'Generates valid cards with random tiers, capabilities and endpoints.'],
  ['GEN.arbA2AEnvelope', 'mesh', 'Generates valid envelopes with random types, senders and recipients.'],
  ['GEN.arbCapabilityDescriptor', 'mesh', 'Generates valid capability descriptors.'],
  ['GEN.arbTaskProposal', 'coordination', 'Generates valid task proposal payloads.'],
  ['GEN.arbCRDTSyncMessage', 'coordination', 'Generates valid CRDT sync messages with vector clocks.'],
  ['GEN.arbSandboxConfig', 'mesh', 'Generates sandbox configurations with allow lists.'],
  ['GEN.arbTierPair', 'mesh', 'Generates sender/recipient tier pairs for routing tests.'],
  ['GEN.arbMCPToolDefinition', 'mcp', 'Generates valid MCP tool definitions with schemas.'],
]);

const gatewayTypes = section('task-gateway, type', 'GT.', [
  ['GT.A2ATaskState', 'gateway', 'A task state is submitted, working, completed or failed.'],
  ['GT.A2AMessage', 'gateway', 'A message has a role (user or agent) and text parts.'],
  ['GT.A2ATask', 'gateway', 'A task has id, state, messages, sessionId and timestamps.'],
  ['GT.A2ATaskSendRequest', 'gateway', 'The shape of an inbound tasks/send request is exported.'],
  ['GT.A2ATaskDeps', 'gateway', 'The task handler is injected with db, processManager and optional overrides.'],
  ['GT.RemoteInvocationResult', 'gateway', 'A remote invocation results in success, taskId, responseText and error.'],
]);

const gatewayFunctions = section('task-gateway, function', 'GF.', [
  ['GF.fetchAgentCard', 'gateway', 'Fetches a card from /.well-known/agent-card.json with a 5-minute cache.'],
  ['GF.discoverAgent', 'gateway', 'Fetches a card safely: returns null on fetch failure.'],
  ['GF.clearAgentCardCache', 'gateway', 'Clears the in-memory agent card cache.'],
  ['GF.invokeRemoteAgent', 'gateway', 'Submits a task to a remote agent and polls until completion.'],
  ['GF.handleTaskSend', 'gateway', 'Handles an inbound task: resolve agent, create session, start process.'],
  ['GF.handleTaskGet', 'gateway', 'Retrieves a task by id from the in-memory store, or null.'],
  ['GF.clearTaskStore', 'gateway', 'Clears all tasks from the in-memory store.'],
  ['GF.buildAgentCard', 'gateway', 'Builds the primary instance-level A2A Agent Card.'],
  ['GF.buildAgentCardForAgent', 'gateway', 'Builds an agent-specific A2A Agent Card.'],
]);

const gatewayInvariants = section('task-gateway, invariant', 'GI', [
  ['GI1', 'gateway', 'Tasks go submitted, working, then completed or failed; no backward transition is possible.'],
  ['GI2', 'gateway', 'Events drive transitions: session_exited or session_stopped completes a task, error fails it.'],
  ['GI3', 'gateway', 'Inbound tasks are routed to the first agent that has a defaultProjectId configured.'],
  [
    'GI4',
    'gateway',
    'The task store is capped at 1000; beyond it the oldest finished tasks are pruned, 100 per cycle.',
  ],
  ['GI5', 'gateway', 'Active tasks are never pruned; only completed or failed tasks are evicted.'],
  [
    'GI6',
    'gateway',
    'A task working beyond timeoutMs (default 5 minutes) becomes failed with the message "Task timed out".',
  ],
  ['GI7', 'gateway', 'The timeout is cancelled on session exit or error, preventing a second state transition.'],
  ['GI8', 'gateway', 'Cards fetched within 5 minutes come from the cache; stale ones are pruned on the next fetch.'],
  ['GI9', 'gateway', 'A fetched card missing name or version throws ValidationError.'],
  ['GI10', 'gateway', 'The client polls GET /a2a/tasks/:id every 3 seconds until a terminal state or timeout.'],
  ['GI11', 'gateway', 'On completion the response text is that of the last message with role "agent".'],
  ['GI12', 'gateway', 'Agent cards include all MCP tools as skills, with humanized names and tag categories.'],
  ['GI13', 'gateway', 'Sessions created for A2A tasks use source "agent".'],
  ['GI14', 'gateway', 'With custom mcpToolPermissions only those tools are skills; otherwise the default set is.'],
]);

const gatewayScenarios = section('task-gateway, scenario', 'GS', [
  [
    'GS1',
    'gateway',
    'Inbound lifecycle: submitted, working, assistant output appended as agent message, completed on exit.',
  ],
  ['GS2', 'gateway', 'Inbound timeout: 5 s without a session exit at timeoutMs 5000 fails with "Task timed out".'],
  [
    'GS3',
    'gateway',
    'Remote invocation: POST /a2a/tasks/send, poll to completed, return success, taskId and responseText.',
  ],
  ['GS4', 'gateway', 'Card caching: a second fetch after 2 minutes makes no request, one after 6 minutes does.'],
  ['GS5', 'gateway', 'With no suitable agent handleTaskSend throws NotFoundError("Agent with default project").'],
]);

const gatewayErrors = section('task-gateway, error case', 'GE', [
  ['GE1', 'gateway', 'No agent with defaultProjectId: NotFoundError("Agent with default project").'],
  ['GE2', 'gateway', 'Remote card fetch answers non-2xx: ExternalServiceError with the HTTP status.'],
  ['GE3', 'gateway', 'Remote card lacks name or version: ValidationError with field details.'],
  ['GE4', 'gateway', 'Remote agent discovery fails: discoverAgent returns null.'],
  ['GE5', 'gateway', 'Task submission answers non-2xx: success false, error "Submit failed: HTTP ...".'],
  ['GE6', 'gateway', 'Remote task poll times out: success false, error "Timed out after ...ms".'],
  ['GE7', 'gateway', 'Remote task fails: success false, error is the response text or "Task failed".'],
  ['GE8', 'gateway', 'Process manager emits error: the task becomes failed and its timeout is cleared.'],
]);

const gatewayConfiguration = section('task-gateway, configuration', 'GC.', [
  ['GC.PORT', 'gateway', 'PORT (default 3000) is the port used in the agent card URL.'],
  ['GC.BIND_HOST', 'gateway', 'BIND_HOST (default 127.0.0.1) is the host used in the agent card URL.'],
]);

const federation = section('federation', '', [
  // T016: A2A federation router
  ['T016.1', 'providers', 'The A2A federation router has a module of its own, a2a-router.'],
  ['T016.2', 'providers', 'A2ARouterAdapter implements ProviderAdapter<A2AConfig, A2ADelegation, A2AResult>.'],
  ['T016.3', 'providers', 'A2AConfig has endpoints, timeoutMs and failoverEnabled.'],
  ['T016.4', 'providers', 'A2AEndpoint has id, url, priority and capabilities.'],
  ['T016.5', 'providers', 'A2ADelegation has taskDescription, requiredCapabilities and context.'],
  ['T016.6', 'providers', 'A2AResult has endpointId, result, correlationId and duration.'],
  ['T016.7a', 'providers', 'init validates endpoint configurations.'],
  ['T016.7b', 'providers', 'init performs initial health probes on all endpoints.'],
  ['T016.7c', 'providers', 'init builds a routing table sorted by priority.'],
  ['T016.8a', 'providers', 'execute selects an endpoint by matching capabilities and priority.'],
  ['T016.8b', 'providers', 'execute sends the delegation request with its correlation ID.'],
  ['T016.8c', 'providers', 'execute captures the result and syncs it to the local bus.'],
  ['T016.8d', 'providers', 'A failed delegation is isolated to the originating lane and reaches no other lane.'],
  ['T016.9a', 'providers', 'terminate cancels in-flight delegations.'],
  ['T016.9b', 'providers', 'terminate clears the routing table.'],
  ['T016.10', 'providers', 'Multi-endpoint failover and dynamic endpoint discovery exist.'],
  ['T016.V1', 'providers', 'The router delivers a delegation to a real endpoint with correlation.'],
  ['T016.V2', 'providers', 'Failure isolates to the originating lane.'],
  ['T016.V3', 'providers', 'Multi-endpoint failover and dynamic endpoint discovery are documented and tested.'],
  // T017: cross-provider health monitoring coordinator
  ['T017.1', 'providers', 'Health monitoring has a module of its own, health.'],
  ['T017.2a', 'providers', 'HealthCoordinator.register starts periodic health checks of a provider.'],
  ['T017.2b', 'providers', 'HealthCoordinator.unregister stops the checks and removes the provider from tracking.'],
  ['T017.2c', 'providers', 'HealthCoordinator.getStatus returns the current status of a provider.'],
  ['T017.2d', 'providers', 'HealthCoordinator.getAllStatuses returns the statuses of all providers.'],
  ['T017.2e', 'providers', 'HealthCoordinator.getHealthyProviders returns the healthy provider IDs of a type.'],
  ['T017.3a', 'providers', 'adapter.health() is called at the configured interval (default 30 s, minimum 5 s).'],
  ['T017.3b', 'providers', '3 consecutive failures make a provider degraded; the recovery threshold is configurable.'],
  ['T017.3c', 'providers', 'A transition publishes provider.health.changed with provider ID, type, old and new state.'],
  ['T017.4a', 'providers', 'Degraded providers remain registered but are excluded from active routing.'],
  ['T017.4b', 'providers', 'Recovery checks continue at the same interval; a single success restores to healthy.'],
  ['T017.5a', 'providers', 'All providers of a type unhealthy publishes a provider.capability.unavailable alert.'],
  ['T017.5b', 'providers', 'Tasks for an unavailable capability are queued up to a configurable limit, not failed.'],
  ['T017.V1', 'providers', 'Health checks run at configured intervals for all registered providers.'],
  ['T017.V2', 'providers', 'State transitions are deterministic and bus-published.'],
  ['T017.V3', 'providers', 'Degraded providers are excluded from routing queries.'],
  ['T017.V4', 'providers', 'All-unhealthy triggers alert and task queuing.'],
  // T018: failover routing
  ['T018.1a', 'providers', 'FailoverRouter.selectProvider(type, capabilities?) returns a healthy provider ID or null.'],
  ['T018.1b', 'providers', 'Selection is priority-weighted and deterministic among healthy providers of the type.'],
  ['T018.1c', 'providers', 'If the highest-priority provider is degraded, the next healthy one is selected.'],
  ['T018.1d', 'providers', 'If all are unhealthy null is returned and the caller handles queuing or error.'],
  ['T018.2a', 'providers', 'The execute path of the registry uses selectProvider, not direct provider lookup.'],
  ['T018.2b', 'providers', 'Failover publishes provider.failover.activated with from and to provider IDs.'],
  ['T018.3a', 'providers', 'The health coordinator notifies the failover router on state transitions.'],
  ['T018.3b', 'providers', 'The routing table is recalculated on each transition, not on each request.'],
  ['T018.4', 'providers', 'Failover is provider-level: in-flight requests may fail and are not retried automatically.'],
  ['T018.V1', 'providers', 'Failover selects a healthy provider when the primary is degraded.'],
  ['T018.V2', 'providers', 'The failover event is published on the bus.'],
  ['T018.V3', 'providers', 'The routing table updates on health transitions, not on each request.'],
  ['T018.V4', 'providers', 'In-flight requests are never implicitly retried.'],
  // T019: chaos tests for provider crash isolation
  ['T019.1', 'providers', 'Provider crash isolation has a chaos test suite of its own.'],
  [
    'T019.2a',
    'providers',
    'Chaos: the process of provider A in lane 1 is killed mid-execute while B runs in lane 2, both isolated.',
  ],
  ['T019.2b', 'providers', 'The crashed provider A returns a normalized PROVIDER_CRASHED error.'],
  ['T019.2c', 'providers', 'Provider B completes successfully with the correct result.'],
  ['T019.2d', 'providers', 'The crash leaks no resources: no orphan processes, no open FDs.'],
  ['T019.2e', 'providers', 'The health status of lane 2 remains healthy.'],
  ['T019.3a', 'providers', 'Of 5 crashes in quick succession each produces a normalized error.'],
  ['T019.3b', 'providers', 'Rapid successive crashes cause no host process instability.'],
  ['T019.3c', 'providers', 'After rapid successive crashes the health coordinator marks A unavailable.'],
  ['T019.4', 'providers', 'A provider killed mid-health-check is degraded or unavailable; the check does not hang.'],
  ['T019.5', 'providers', 'Each chaos scenario runs at least 10 times with a 100% isolation rate.'],
  ['T019.V1', 'providers', '100% crash isolation across 10 or more runs per scenario.'],
  ['T019.V2', 'providers', 'Zero orphan processes after each test.'],
  ['T019.V3', 'providers', 'SC-025-002 is fully covered.'],
  // T020: integration tests for A2A, failover, credential rotation and error completeness
  ['T020.1', 'providers', 'The providers have an integration test suite of their own.'],
  ['T020.2a', 'providers', 'A real A2A endpoint receives a delegation with its correlation ID.'],
  ['T020.2b', 'providers', 'A delegation failure isolates to the originating lane.'],
  ['T020.2c', 'providers', 'Bus events are emitted for delegation success and failure.'],
  ['T020.3a', 'providers', 'With the primary degraded, traffic routes to the secondary within one health interval.'],
  ['T020.3b', 'providers', 'With the primary recovered, traffic returns to the primary.'],
  ['T020.4a', 'providers', 'After rotation the next execute uses the new credential without provider restart.'],
  ['T020.4b', 'providers', 'No task is interrupted during credential rotation.'],
  ['T020.5a', 'providers', 'All known error scenarios across ACP, MCP and A2A are enumerated and triggered.'],
  ['T020.5b', 'providers', 'Every error maps to a specific normalized code, never PROVIDER_UNKNOWN.'],
  ['T020.5c', 'providers', 'The retryable flag of every error is correct.'],
  ['T020.6a', 'providers', 'An ACP provider and an MCP tool server register and both pass health checks.'],
  ['T020.6b', 'providers', 'Their tasks execute end-to-end with results on the bus under their correlation IDs.'],
  ['T020.7', 'providers', 'All integration tests are mapped to SC-025-001 through SC-025-005.'],
  ['T020.V1', 'providers', 'All test scenarios pass.'],
  ['T020.V2', 'providers', 'Each SC-025 criterion has at least one mapped test.'],
  ['T020.V3', 'providers', 'Coverage across all provider files is at least 85%.'],
]);

const providerSpecification = section('origins 3.1,', '', [
  ['FR-025-001', 'providers', 'Providers share a typed interface: init, health, execute, terminate.'],
  ['FR-025-002', 'providers', 'Providers register with config validation and credential binding.'],
  ['FR-025-003', 'providers', 'ACP tasks run and cancel with bus correlation.'],
  ['FR-025-004', 'providers', 'MCP: discovery, schema registration, sandboxed invocation and result capture.'],
  ['FR-025-005', 'providers', 'A2A delegation has failure isolation and bus sync.'],
  ['FR-025-006', 'providers', 'Credential stores are per provider and isolated from each other.'],
  ['FR-025-007', 'providers', 'Execution contexts are isolated at process level.'],
  ['FR-025-008', 'providers', 'Providers are bound to lanes so that failures stay in the lane.'],
  ['FR-025-009', 'providers', 'All providers have periodic health checks, published to the bus.'],
  ['FR-025-010', 'providers', 'Traffic fails over to another provider when one is degraded.'],
  ['FR-025-011', 'providers', 'Error codes are normalized across ACP, MCP and A2A.'],
  ['FR-025-012', 'providers', 'Policy gates are passed before agent-initiated actions.'],
  ['NFR-025-001', 'providers', 'Initialization takes at most 5 s at p95, else it has failed.'],
  ['NFR-025-002', 'providers', 'The health interval is configurable and defaults to 30 s.'],
  ['NFR-025-003', 'providers', 'Adapter overhead is below 10 ms at p95, excluding the provider.'],
  ['NFR-025-004', 'providers', 'A crash leaks no memory, file descriptors or child processes.'],
  ['NFR-025-005', 'providers', 'A workspace runs at least 10 providers concurrently.'],
  [
    'SC-025-001',
    'providers',
    'At least one ACP provider and one MCP server register, pass health and execute end-to-end.',
  ],
  ['SC-025-002', 'providers', 'A crash in lane A has zero observable effect on lane B in 100% of chaos injections.'],
  ['SC-025-003', 'providers', 'Failover to a healthy provider happens within one interval in 95% of runs.'],
  ['SC-025-004', 'providers', 'All errors map to the taxonomy with zero unmapped.'],
  ['SC-025-005', 'providers', 'Credentials rotate without restart or task interruption in 100% of runs.'],
]);

const store = section('design D7 and D18, the store,', 'ST', [
  ['ST1', 'nodes', 'After a power cut at any sync point nothing acknowledged is lost, and the store opens.'],
  ['ST2', 'nodes', 'Flipped bits and cut files are detected and named: never a silent loss, never a crash.'],
  ['ST3', 'nodes', 'A process that is killed has lost nothing that it acknowledged.'],
  ['ST4', 'nodes', 'A store file of a later release is refused untouched; one of an earlier release is migrated.'],
  ['ST5', 'nodes', 'Opening a store takes no longer because its journal is long.'],
  [
    'ST6',
    'nodes',
    'A full disk or a file that another process holds is a typed error; other requests are still served.',
  ],
  ['ST7', 'nodes', 'The store in memory and the store in files behave the same for every operation.'],
  ['ST8', 'nodes', 'Journal and mail can be searched by words, without blocking other work.'],
  ['ST9', 'nodes', 'The store can be checked, compacted and exported, with the node running or stopped.'],
]);

const durableMail = section('design D7 and D16, durable mail,', 'DM', [
  ['DM1', 'nodes', 'A durable message is acknowledged to its sender when it is on disk, and not before.'],
  ['DM2', 'nodes', 'It is sent again until the other node has it on disk, across restarts of both, within its TTL.'],
  [
    'DM3',
    'nodes',
    'Its handler runs at least once, always with the same id, and is told whenever it may have run before.',
  ],
  ['DM4', 'nodes', 'Changes in commit() happen exactly once, wherever either process crashes.'],
  ['DM5', 'nodes', 'Mail of each sender is handled in order.'],
  ['DM6', 'nodes', 'The queue for an absent peer is bounded, and a message beyond the limit gets a typed refusal.'],
  ['DM7', 'nodes', 'Policy is asked at both ends; a durable question may be answered after restarts of both.'],
  [
    'DM8',
    'nodes',
    'A store failure is a typed error; the node keeps serving other requests, and mail continues afterwards.',
  ],
  [
    'DM9',
    'nodes',
    'kill -9 of either side at random moments: nothing lost, each effect once, order kept, receipts agree.',
  ],
  ['DM10', 'nodes', 'A recipient that is offline across restarts of both sides gets 100 of 100.'],
  ['DM11', 'nodes', 'The guarantees hold on a simulated network and disk with crashes, whatever the seed.'],
  ['DM12', 'nodes', 'A hostile peer can neither forge, change nor suppress the mail and receipts of others.'],
  ['DM13', 'nodes', 'Mail to an agent that is away waits on disk, also when its sender has left.'],
]);

const receipts = section('design D16, receipts,', 'RC', [
  [
    'RC1',
    'nodes',
    'A receipt is one pure machine: nodes that received the same updates show the same states, in any order.',
  ],
  ['RC2', 'nodes', 'Both sides show the same states with the same times and reasons, in the end.'],
  ['RC3', 'nodes', 'A message that is not read in time tells its sender, once, also across restarts.'],
  ['RC4', 'nodes', 'A message whose time runs out ends as expired on both sides.'],
]);

const records = section('design D7 and R13, records,', 'RE', [
  ['RE1', 'nodes', 'Security, cross-tier and policy events are in the audit log, of durable messages too.'],
  ['RE2', 'nodes', 'An edit or a gap in the audit log is detected.'],
  ['RE3', 'nodes', 'The journal is searched by thread, agent and time, and exported whole.'],
  ['RE4', 'nodes', 'Recorded messages are decided again by the present rules, and differences are shown.'],
  ['RE5', 'nodes', 'A journal that an earlier version recorded is decided today as it was then.'],
  ['RE6', 'nodes', 'Journal, audit log and finished receipts are kept within limits of age, count and size.'],
]);

const safeFetches = section('design D15, fetches of foreign URLs,', 'SF', [
  ['SF1', 'nodes', 'Nothing but public addresses is fetched from, v4 or v6, embedded or bare, however it is spelled.'],
  ['SF2', 'nodes', 'A name is resolved once; the connection goes to the address that was checked (no DNS rebinding).'],
  ['SF3', 'nodes', 'Each redirect is checked again, never leads from https to http, and carries no credentials.'],
  ['SF4', 'nodes', 'Oversize, slow drip, header flood and a body without end are typed errors within set limits.'],
  ['SF5', 'nodes', 'A private address is fetched from only if it is listed, on every hop.'],
  ['SF6', 'nodes', 'Server-sent events are the same however the stream was cut, and bounded in size.'],
  ['SF7', 'nodes', 'Errors of fetches reveal only the origin of a URL.'],
]);

const toolSharing = section('design D4, D11, D14 and D15, the MCP endpoint,', 'MC', [
  ['MC1', 'mcp', 'Names on the wire are safe and unique, both forms are taken, and none comes to mean another tool.'],
  ['MC2', 'mcp', 'A sandboxed principal neither sees nor calls anything outside; each attempt is one security event.'],
  ['MC3', 'mcp', 'A call to another node is executed at most once; one that is lost fails with an unknown outcome.'],
  ['MC4', 'mcp', 'The owner’s node asks its own policy about every call, whatever the calling node claims.'],
  ['MC5', 'mcp', 'Messages of another node that break the rules are refused, reported once, and affect no other node.'],
  ['MC6', 'mcp', 'Foreign Host and Origin headers and callers without a known token are refused.'],
  [
    'MC7',
    'mcp',
    'Clients of MCP 2026-07-28 and of 2025 list, call, read, prompt and are told of changes at one endpoint.',
  ],
  ['MC8', 'mcp', 'An ordinary call is answered on the short way exactly as by the SDK.'],
  ['MC9', 'mcp', 'Sessions, request state and headers are of no use to another principal, or when changed.'],
  ['MC10', 'mcp', 'A caller’s token is neither forwarded nor stored.'],
  ['MC11', 'mcp', 'The command line lists, calls, reads and fills in, and speaks MCP on standard input and output.'],
]);

const upstreamServers = section('design D4 and D12, upstream MCP servers,', 'UP', [
  ['UP1', 'mcp', 'A block of MCP servers of any client is taken as it is, and one that is wrong loses only itself.'],
  ['UP2', 'mcp', 'Lists, calls, progress, logs, cancellation, questions and errors pass, over stdio and HTTP.'],
  [
    'UP3',
    'mcp',
    'A server that hangs, floods, dies or writes garbage affects no other server and is listed with its state.',
  ],
  ['UP4', 'mcp', 'No call is repeated; while its server is away a tool stays listed and its calls fail at once.'],
  ['UP5', 'mcp', 'A changed, renamed or new definition cannot be used until it is approved, with one security event.'],
  ['UP6', 'mcp', 'Invisible text is made visible, or its definition is left out.'],
  ['UP7', 'mcp', 'However often servers are started and stopped, no process of theirs is left behind.'],
  ['UP8', 'mcp', 'Secrets of a server appear in no log, event, error or state.'],
  ['UP9', 'mcp', 'An approval request survives a restart, is decided once, and is denied when it expires.'],
  [
    'UP10',
    'mcp',
    'A server that wants a login waits for it and says how; a login counts once, is kept in private, is renewed and can be forgotten.',
  ],
  [
    'UP11',
    'mcp',
    'A node logs in to a server as itself, with client credentials that only their authorization server gets.',
  ],
]);

/** Rules that implementations of A2A get wrong. `protocol` marks those that `src/a2a/protocol/` alone decides. */
const a2aRules = section('facts/a2a', 'A2A-', [
  ['A2A-1.9.1', 'protocol', 'A request without A2A-Version is in 0.3.'],
  ['A2A-1.9.2', 'protocol', 'A patch number in a version is ignored.'],
  ['A2A-1.9.3', 'protocol', 'The version may come as a query parameter.'],
  ['A2A-1.9.4', 'protocol', 'A blocking send returns when the task has ended, or is interrupted.'],
  ['A2A-1.9.5', 'gateway', 'The first event of a stream is a Task or a Message, of a subscription a Task.'],
  ['A2A-1.9.6', 'gateway', 'SubscribeToTask is served by POST and GET; the client sends POST, and GET after a 405.'],
  ['A2A-1.9.7', 'protocol', 'A stream ends with its task only, not where the task is interrupted.'],
  ['A2A-1.9.8', 'gateway', 'SendMessage waits by default, and returns at once when returnImmediately is set.'],
  ['A2A-1.9.9', 'protocol', 'Lists of tasks and of skills may be empty.'],
  ['A2A-1.9.10', 'gateway', 'Errors of the HTTP binding are sent as application/a2a+json.'],
  ['A2A-1.9.11', 'protocol', 'statusTimestampAfter is inclusive.'],
  ['A2A-1.9.12', 'protocol', 'The canonical form of a card keeps required fields that are empty.'],
  ['A2A-1.9.13', 'protocol', 'A part has exactly one content, of which null data is one; role and parts are checked.'],
  ['A2A-1.9.14', 'protocol', 'The task of another caller is not found.'],
  ['A2A-1.9.15', 'gateway', 'Deleting a push configuration twice is no fault; of an unknown task it is TaskNotFound.'],
  ['A2A-1.9.16', 'protocol', 'Canceling a canceled task succeeds; one that ended otherwise is not cancelable.'],
  ['A2A-1.9.17', 'protocol', 'A context id is taken as it is or refused, never replaced.'],
  ['A2A-1.9.18', 'gateway', 'Every error of the HTTP binding carries an ErrorInfo, those of the framework too.'],
  ['A2A-1.9.19', 'protocol', 'Timestamps are in UTC with milliseconds and Z.'],
  ['A2A-1.9.20', 'gateway', 'A tenant is echoed exactly, and left out when there is none.'],
  ['A2A-2.5.1', 'gateway', 'Bodies of more than 100 KB are taken, and too large ones refused in the protocol’s form.'],
  ['A2A-2.5.2', 'protocol', 'Version query parameters and patch numbers are understood.'],
  [
    'A2A-2.5.3',
    'protocol',
    'Empty parts, wrong roles and parts with no or two contents are refused; null data is kept.',
  ],
  ['A2A-2.5.4', 'protocol', 'The time filter is inclusive, and a negative historyLength is refused.'],
  ['A2A-2.5.5', 'protocol', 'A page after a cursor is right when the task of the cursor has changed.'],
  ['A2A-2.5.6', 'protocol', 'A malformed JSON-RPC request is -32600.'],
  ['A2A-2.5.7', 'gateway', 'Push URLs are validated, private addresses refused, and deliveries retried.'],
  ['A2A-2.5.8', 'protocol', 'Signatures are made over required fields too.'],
  ['A2A-2.5.9', 'gateway', 'Streams have heartbeats, event ids and backpressure, and notice a reader that left.'],
  ['A2A-2.5.10', 'gateway', 'A subscription goes on after a restart of the server.'],
  ['A2A-2.5.11', 'protocol', 'Context ids longer than 36 characters work.'],
  ['A2A-2.5.12', 'gateway', 'Callers that are not authenticated do not share their tasks.'],
]);

const ralphLoop = section('design D7 and D9, the Ralph loop,', 'RL', [
  ['RL1', 'coordination', 'A task begins when its dependencies are done; it ends done, failed, blocked or escalated.'],
  ['RL2', 'coordination', 'A task goes to one agent by negotiation, or to a swarm; it gets its dependencies’ results.'],
  ['RL3', 'coordination', 'A result counts when a validator agent, a command or a JSON Schema has approved it.'],
  ['RL4', 'coordination', 'A task that failed or needs a revision is retried with the feedback in its input.'],
  ['RL5', 'coordination', 'A task that keeps failing is escalated by the policy, and its dependents are blocked.'],
  ['RL6', 'coordination', 'The hierarchy’s timeouts, retries and concurrency hold, in each tier and in all.'],
  ['RL7', 'coordination', 'A plan that is run again goes on where it was and repeats nothing that finished.'],
  [
    'RL8',
    'coordination',
    'kill -9 of the node at random moments: the plan finishes, and no completed task runs twice.',
  ],
  ['RL9', 'coordination', 'Every fault of a plan is reported with its line before anything of it runs.'],
  ['RL10', 'coordination', 'The command line shows a run’s progress, as JSON too, and fails unless all was done.'],
]);

const plans = section('agents that really work, plans,', 'WK.P', [
  ['WK.P1', 'coordination', '`plan run --out` prints each result as it arrives and writes results and a report.'],
  ['WK.P2', 'coordination', 'A report of a failed or interrupted run says of no task that it is done which is not.'],
  ['WK.P3', 'coordination', '`plan make` writes a checked plan; faults go back to the planner at most three times.'],
  ['WK.P4', 'coordination', 'The loop forms swarms for divisible tasks, and never chooses an agent without a worker.'],
  ['WK.P5', 'coordination', 'A retry with feedback goes to the same agent; workers get output schema and criteria.'],
  ['WK.P6', 'coordination', 'Verdicts, advice and splits are asked for in words with an output schema.'],
  ['WK.P7', 'coordination', 'Later tasks get checked results as typed inputs, and may pick parts of them.'],
  ['WK.P8', 'coordination', 'Usage is added up per task and run, survives restarts, and is no progress.'],
]);

const swarmRules = section('design D9, swarms,', 'SW', [
  ['SW1', 'coordination', 'A record counts when a majority of the seats has it; without one nothing is settled.'],
  [
    'SW2',
    'coordination',
    'When the arbiter is gone the next seat in order takes the next epoch, with all that was settled.',
  ],
  ['SW3', 'coordination', 'A sub-task runs at least once and completes once; a late result is dropped and counted.'],
  ['SW4', 'coordination', 'A swarm goes on after restarts, and repeats nothing that was settled.'],
  ['SW5', 'coordination', 'The command line forms, lists, shows, joins and cancels swarms, as JSON too.'],
  ['SW6', 'coordination', 'A plan with circles or unknown dependencies is refused; a planner’s is checked likewise.'],
]);

const leases = section('facts/onramp 4f, leases,', 'ON13.', [
  ['ON13.1', 'onramp', 'Two globs conflict if, and only if, some path can match both.'],
  ['ON13.2', 'onramp', 'A holder is told at 80 % of a lease’s time and when it has lapsed, also if it is away.'],
  ['ON13.3', 'onramp', 'A lease whose holder’s process is gone can be taken at once; both are told.'],
  ['ON13.4', 'onramp', 'Leases outlive their node; fencing tokens grow across restarts.'],
  [
    'ON13.5',
    'onramp',
    'A device out of reach loses its leases within 15 s, and its holders see it before others get them.',
  ],
  ['ON13.6', 'onramp', 'The guard denies in each client’s own contract, and allows on failure, garbage or delay.'],
  ['ON13.7', 'onramp', 'A repository is the same wherever it is checked out, and never tells its address.'],
]);

const onramp = section('on-ramp, test', 'ON', [
  ['ON1', 'onramp', 'Two clients on two nodes talk for twenty turns: every message is read, in order.'],
  ['ON2', 'onramp', 'Mail to an absent agent is read once when it is back, also after restarts; its sender sees that.'],
  ['ON3', 'onramp', 'Under random kills nothing is lost or seen twice, and every message ends with a reason.'],
  ['ON4', 'onramp', 'Mail that was shown before a crash, and not proven to be read, is shown again.'],
  ['ON5', 'onramp', 'A wake path that drops wakes never leads to read, and the sender is warned.'],
  ['ON6', 'onramp', 'An idle client is asked for a turn within 2 s; wrong or dead paths are never claimed to wake.'],
  ['ON7', 'onramp', 'initialize and tools/list are answered at once, also without node or network.'],
  ['ON8', 'onramp', 'Tools, instructions and answers keep to their budgets.'],
  ['ON9', 'onramp', 'Every tool has a name that every client accepts.'],
  ['ON10', 'onramp', 'Each process has an identity of its own; forged senders and human origins are refused.'],
  ['ON11', 'onramp', 'Replies go where they belong; ambiguous names are refused with candidates.'],
  ['ON12', 'onramp', 'A client that was killed is offline within 10 s.'],
  ['ON13', 'onramp', 'Racing takes of a lease have one holder; dead holders lose it; guards deny in each contract.'],
  ['ON14', 'onramp', 'Agents that answer each other for ever are stopped, with the reason, while real work passes.'],
  ['ON15', 'onramp', 'No text gets out of its fence.'],
  ['ON16', 'onramp', 'An eavesdropper between two nodes sees none of their content.'],
  ['ON18', 'onramp', 'Setup and undo are idempotent and exact to the byte; a dry run touches nothing.'],
]);

const fieldUse = section('field trials', 'T-', [
  [
    'T-A1',
    'onramp',
    'A mesh tool answers with text content alone, so that every client’s model receives the words of every message.',
  ],
  [
    'T-A2',
    'onramp',
    'An agent without a worker refuses work as NO_WORKER, and lists of peers show it last and marked.',
  ],
  ['T-A3', 'onramp', 'The words that an agent addresses to the person appear in inbox, watch, thread and export.'],
  ['T-A4', 'onramp', 'A waiting mesh_inbox returns when a task is offered.'],
  ['T-A5', 'onramp', 'mesh_lookup finds a task by its id.'],
  ['T-A6', 'onramp', 'mesh_state and ecliptic state read and write the same place of a document.'],
  [
    'T-A7',
    'onramp',
    'A tool error begins with its code, lists the valid names, and sends the model to its user only when that helps.',
  ],
  ['T-A8', 'onramp', 'The background node takes a free port and says which configuration it reads.'],
  ['T-A9', 'onramp', 'Setup leaves neighbouring entries and folders as they were and survives an upgrade of Node.'],
  ['T-A10', 'onramp', 'An idle agent is woken by an answer to its question, a task offer and ecliptic tell.'],
  ['T-A11', 'onramp', 'Undo removes our entry also when the client rewrote its file and setup ran again.'],
  ['T-A12', 'onramp', 'The mode of an ACP agent can be configured, so that it asks before it acts.'],
  ['T-A13', 'onramp', 'Setup says what each client’s guard needs, and where there is none.'],
  ['T-A14', 'onramp', 'mesh_send takes a recipient beside a matching reply_to.'],
  ['T-A15', 'onramp', 'A node that was stopped on purpose is not started again by a connected client.'],
  ['T-A16', 'onramp', 'Mesh tools are loaded at once where a client defers tools.'],
  [
    'T-A17',
    'onramp',
    'Names of members stay whole; a holder sees its own lease; watch shows pending offers; logs hold no token.',
  ],
  ['T-B1', 'mesh', 'up names the addresses that it serves; hints name the data folder and agents that exist.'],
  ['T-B2', 'mesh', 'up names a taken port and the one that it serves instead.'],
  ['T-B3', 'mesh', 'run prints the result; tail shows each message with its payload and refuses unknown types.'],
  ['T-B4', 'mesh', 'Keys, names of nodes and ids may be shortened wherever they are unique.'],
  ['T-B5', 'mesh', 'agents, providers, health and config check agree about an agent’s state.'],
  ['T-B6', 'mesh', 'A sub-task without a description still hands its worker a text.'],
  ['T-B7', 'mesh', 'The answer to a request has an unknown type until the caller checks it.'],
  ['T-B8', 'mesh', 'leave and peers remove ask on a terminal; leave and invite say so when the DHT is out of reach.'],
  ['T-B9', 'mesh', 'Commands refuse bad arguments by name, and print answers, times and states in full.'],
  [
    'T-B10',
    'mesh',
    'The debug log covers starts, requests, refusals and stops; /metrics serves counters, histograms and gauges.',
  ],
  ['T-C1', 'mesh', 'A throw or a rejection in a user’s callback is reported and never ends the process.'],
  ['T-C2', 'mesh', 'Reply permits have an owner and a share: one agent’s messages never stop another’s requests.'],
  ['T-C3', 'mesh', 'A tool call whose caller gave up never runs later, and its error says what is known.'],
  ['T-C4', 'mesh', 'Waiting for an acceptance with an invalid time is refused.'],
  ['T-C5', 'mesh', 'A proposal to everybody is refused at once with a typed error.'],
  ['T-C6', 'mesh', 'A card names the endpoints that its viewer can use; lastSeenAt of a remote card moves.'],
  ['T-C7', 'mesh', 'Durable mail to a plain id finds its recipient after the peer’s cards are gone.'],
  ['T-C8', 'mesh', 'Capability routing across a sandbox leaves a security event.'],
  ['T-C9', 'mesh', 'messagesByType counts sent and received messages.'],
  ['T-C10', 'mesh', 'A task whose capabilities no one agent has becomes a swarm or a clear error.'],
  ['T-C11', 'mesh', 'A durable proposal survives kill -9 of its worker as the contract says.'],
  ['T-C12', 'mesh', 'An agent joins a swarm that its node knows without naming a participant.'],
  ['T-C13', 'mesh', 'A routing event that is looked at carries its own latency.'],
  ['T-C14', 'mesh', 'A thread of a node with a store returns every envelope.'],
  ['T-C15', 'mesh', 'A CRDT broadcast takes any JSON value.'],
  ['T-C16', 'mesh', 'A loopback URL that the developer’s own code names is fetched.'],
  ['T-D1', 'gateway', 'A text is never cut inside a surrogate pair.'],
  ['T-D2', 'gateway', 'A repeated messageId or Idempotency-Key with another request is refused.'],
  ['T-D3', 'gateway', 'A question of a resumable agent survives a restart.'],
  ['T-D4', 'gateway', 'A message to a working task reaches its agent.'],
  ['T-D5', 'gateway', 'A task lives as long as it makes progress.'],
  ['T-D6', 'gateway', 'A task is WORKING from the moment its agent starts on it.'],
  ['T-D7', 'gateway', 'An unaddressed task goes to the configured agent, and cards list the skills that agents have.'],
  ['T-D8', 'gateway', 'Webhook events that were pending at a stop or a crash are sent after the restart.'],
  ['T-D9', 'gateway', 'The card functions honour permissions, need no served node, and a task needs a project.'],
  ['T-D10', 'gateway', 'Requests take every ProtoJSON form: proto field names, enum numbers, numbers as strings.'],
  ['T-D11', 'gateway', 'The public card passes a strict ProtoJSON reader.'],
  ['T-D12', 'gateway', 'Content-Type, Content-Encoding and media types of parts are checked.'],
  [
    'T-D13',
    'gateway',
    'Push hosts, notifications, answers without optional ids and odd Host headers are handled by the rules.',
  ],
  ['T-D14', 'gateway', 'A card’s capabilities can be configured, for the node and for each agent.'],
  [
    'T-E1',
    'providers',
    'Tasks in a row reuse or close their sessions, so that a coding agent keeps within its memory.',
  ],
  ['T-E2', 'providers', 'A streamed answer arrives as one text in proposals, plans and swarms.'],
  ['T-E3', 'providers', 'Cancelling a waiting prompt leaves the running one alone.'],
  ['T-E4', 'providers', 'A remote agent that dies in the middle of a task fails the task soon.'],
  ['T-E5', 'providers', 'A starting agent is not healthy, and its work waits for it.'],
  ['T-E6', 'providers', 'A missing login that shows at the prompt is visible in health and doctor.'],
  ['T-E7', 'providers', 'Work for an agent that cannot work fails at once with the reason.'],
  ['T-E8', 'providers', 'File and URL parts reach ACP and command agents.'],
  ['T-E9', 'providers', 'Endpoint failover emits its event, and the first call after an idle primary died succeeds.'],
  ['T-E10', 'providers', 'MCP arguments are checked against the input schema on every path.'],
  ['T-E11', 'providers', 'MCP errors surface with the codes of the taxonomy.'],
  ['T-E12', 'providers', 'The reason of a crashed program is its error, not its runtime’s banner.'],
  ['T-E13', 'providers', 'ACP errors keep their details.'],
  ['T-E14', 'providers', 'The specification’s provider classes can be constructed and called as specified.'],
  ['T-E15', 'providers', 'A closed lane can be opened again.'],
  ['T-E16', 'providers', 'File access can be withheld from an ACP agent.'],
  [
    'T-E17',
    'providers',
    'Tasks beyond the limit wait; provider show reports health without changing it; ACP carries the correlation id.',
  ],
  ['T-E18', 'providers', 'A rotated credential reaches running programs without interruption.'],
  ['T-F1', 'nodes', 'A device is removed by its key also after the owner’s node restarted, and stays removed.'],
  ['T-F2', 'nodes', 'A member of another owner cannot exhaust reply permits.'],
  ['T-F3', 'nodes', 'Durable mail into a node has a quota per sender and a longest lifetime.'],
  ['T-F4', 'nodes', 'Mail limits count bytes, and arrivals apply back-pressure.'],
  ['T-F5', 'nodes', 'A restored or doubled data folder is detected and loses no mail in silence.'],
  ['T-F6', 'nodes', 'The overlap of two globs is decided in bounded time.'],
  ['T-F7', 'nodes', 'A clock error removes no peer.'],
  ['T-F8', 'nodes', 'Addresses learnt from a member are bounded, guarded and removable.'],
  ['T-F9', 'nodes', 'No member can make a shared document unwritable for others.'],
  ['T-F10', 'nodes', 'A removed member does not come back through another member’s keep list.'],
  ['T-F11', 'nodes', 'Idle connections keep no member out.'],
  ['T-F12', 'nodes', 'The address book has a limit per owner.'],
  ['T-F13', 'nodes', 'Equivocation is detected, and every replica quarantines the same segments.'],
  [
    'T-F14',
    'nodes',
    'Refused mail, false removals and sandboxed probes gain nothing; tokens rotate; unsafe files are reported.',
  ],
  ['T-F15', 'nodes', 'Memory stays flat under mixed load.'],
  [
    'T-G1',
    'mesh',
    'Lone surrogates are input errors, clock skew is allowed at joining, and absent members stay listed.',
  ],
  ['T-G2', 'mesh', 'A2A inputs with lone surrogates, repeated ids or odd paths get the right error.'],
  ['T-G3', 'mesh', 'Coding agents’ updates are readable, rate limits back off, and deadlines suit coding.'],
  [
    'T-G4',
    'mesh',
    'A node holds up under exhausted descriptors, read-only folders, edited files, clock jumps and forged tokens.',
  ],
  ['T-G5', 'mesh', 'Commands hint at the durable, the quoted and the existing alternative.'],
  ['T-G6', 'mesh', 'The store ends without a panic.'],
  ['T-G7', 'mesh', 'Another person’s agent needs an approval at its first use of a tool with a credential.'],
]);

const jail = section('jail', 'JL.', [
  [
    'JL.1',
    'providers',
    'A jailed program writes its workspace; the kernel refuses files, sockets and networks outside.',
  ],
  [
    'JL.2',
    'providers',
    'It has no capabilities, mounts, namespaces, setuid programs, tracing or inherited descriptors.',
  ],
  ['JL.3', 'providers', 'It ends with its node and with its worker, however these end, with all that it started.'],
  ['JL.4', 'providers', 'Home and data folder stay hidden whatever surrounds them; more is shown only as configured.'],
  [
    'JL.5',
    'providers',
    'Programs of every kind are jailed: exec, command, ACP agents with their commands, MCP servers.',
  ],
  ['JL.6', 'providers', 'The network is a list of hosts, reached through a proxy; names must have public addresses.'],
  ['JL.7', 'providers', 'Without a jail, "required" refuses to start, and otherwise lists and doctor say so.'],
  [
    'JL.9',
    'providers',
    'Hooks and settings of a repository at the top of a jailed program’s folders are read-only; commits still work.',
  ],
  ['JL.8', 'providers', 'On macOS a profile for sandbox-exec denies by default.'],
]);

const background = section('background node', 'BG.', [
  ['BG.1', 'onramp', 'A background node reads the user’s own configuration and comes back at its port.'],
  ['BG.2', 'onramp', 'It exits when no client has used it for a time, unless configured to stay.'],
  [
    'BG.4',
    'onramp',
    'A project’s own ecliptic.json runs nothing before the owner has allowed exactly its content, and is asked about again when that changes.',
  ],
  ['BG.5', 'onramp', 'The agents of a project exist for the clients that work in it and for the owner only.'],
  ['BG.3', 'onramp', '`service install` and `remove` let systemd or launchd run the node; --print shows the file.'],
]);

const people = section('mailbox for people', 'PM.', [
  ['PM.1', 'onramp', '`ecliptic inbox` shows the messages of agents to the owner.'],
  ['PM.2', 'onramp', '`ecliptic reply ID TEXT` answers one of them, signed as a person’s words, and closes it.'],
  ['PM.3', 'onramp', '`ecliptic log --text` finds words in the mail of coding agents and of the owner.'],
  [
    'PM.4',
    'onramp',
    'The owner is told of each item that begins to wait, once, on the desktop and by a webhook that is repeated, with bounds.',
  ],
  ['PM.6', 'onramp', 'A message that the owner closes without an answer tells a sender that waits for one.'],
  ['PM.5', 'onramp', '`ecliptic watch` rings the terminal when something new waits, unless configured not to.'],
]);

const workers = section('workers', 'WK.', [
  ['WK.1', 'mesh', 'Brains and programs make a plan, do it and write files and a report; nothing is done twice.'],
  ['WK.2', 'mesh', 'Nothing is reported as done that was not done, whatever is killed in between.'],
  ['WK.S1', 'providers', 'Each role of the roster has a prompt that names its tier, duties, result and limits.'],
  [
    'WK.E1',
    'providers',
    'An exec program gets its task on standard input and in environment variables, never in a command line.',
  ],
  [
    'WK.E2',
    'providers',
    'Its standard output is the result and its exit code the verdict; a failure quotes what it said.',
  ],
  ['WK.E3', 'providers', 'Its standard error is progress, limited in rate and length and without secrets.'],
  [
    'WK.E4',
    'providers',
    'It runs in its folder with few variables and the latest credentials, with or without a shell.',
  ],
  [
    'WK.E5',
    'providers',
    'Time, cancellation, memory, termination and the lane end it with everything that it started.',
  ],
  [
    'WK.E6',
    'providers',
    'A program that ignores its input, its output or signals neither hangs the work nor leaves a process.',
  ],
  ['WK.E7', 'providers', 'Its health says what is missing, without starting a program.'],
  [
    'WK.A1',
    'mesh',
    'request with a reply schema gives the schema’s type; an answer that does not match is INVALID_RESULT.',
  ],
  [
    'WK.A2',
    'mcp',
    'A tool call with an output schema gives the typed structured content; a mismatch is INVALID_RESULT.',
  ],
  ['WK.A3', 'mesh', 'A task shows text, input, results, feedback and attempt, the same however it came.'],
  ['WK.A4', 'mesh', 'Handlers of tasks and requests have a log that names agent and conversation, and a signal.'],
  ['WK.A5', 'mesh', 'Usage that a handler reports reaches its proposer, swarm and A2A task, added up.'],
  ['WK.A6', 'mesh', 'A typed task has the schema’s type as its input; one that does not match is rejected.'],
  [
    'WK.S2',
    'providers',
    'ecliptic staff finds coding agents, models and package scripts, and says why others do not serve.',
  ],
  ['WK.S3', 'providers', 'ecliptic staff proposes workers for roles, and leaves roles alone that have one.'],
  ['WK.S4', 'providers', 'ecliptic staff changes ecliptic.json on consent, and keeps every other byte of it.'],
  ['WK.S5', 'providers', 'An agent without a worker is unstaffed on every surface, refuses work and is never chosen.'],
  ['WK.M1', 'providers', 'A model gets its role, its rules and the task, and its answer is streamed in order.'],
  [
    'WK.M2',
    'providers',
    'Its tool calls run in order under the gate, in every form that servers send, and are fenced.',
  ],
  [
    'WK.M3',
    'providers',
    'An answer that must match a JSON Schema does, after at most three repairs, or the task fails.',
  ],
  [
    'WK.M4',
    'providers',
    'Steps, tokens and context are limited, usage and cost are reported, a cut answer is a failure.',
  ],
  [
    'WK.M5',
    'providers',
    'A bad endpoint causes a typed error within bounded time and memory, and the next task succeeds.',
  ],
  ['WK.M6', 'providers', 'A retry continues the conversation of its task; few conversations are remembered.'],
  ['WK.M7', 'providers', 'No error, event, log or description of a model contains its key.'],
  ['WK.M8', 'providers', 'A model that obeys hostile text cannot do what the policy denies.'],
  ['WK.M9', 'providers', 'Workers of any type stand in for each other, in the order of the configuration.'],
  ['WK.M10', 'providers', 'One model may work for every role without a worker, and for no other agent.'],
]);

const face = section('dashboard', 'FC.', [
  ['FC.1', 'gateway', 'A link opens one page session, once and for ten minutes; sessions can be revoked.'],
  ['FC.2', 'gateway', 'A page session serves its own origin only: a cookie without the page’s key is worth nothing.'],
  ['FC.3', 'gateway', 'Only the owner is served by the data API, whatever another token may do.'],
  ['FC.4', 'gateway', 'The event stream resumes, is bounded for each reader, and says when it shows a sample.'],
  ['FC.5', 'gateway', 'The page allows no code but its own, loads nothing from elsewhere and fits in no frame.'],
  ['FC.6', 'gateway', 'What waits for the owner is shown with its details and answered on the spot, by keyboard too.'],
  ['FC.7', 'gateway', 'Markup in anything that agents say is shown as text.'],
  ['FC.8', 'gateway', 'While the node is away, the page marks its data stale; afterwards it resumes without a gap.'],
  ['FC.9', 'gateway', 'The page is small, and fits on a screen of 400 pixels in both themes.'],
  [
    'FC.10',
    'gateway',
    'Everything that waits for the owner is in one list, with answers by the operations of its part.',
  ],
  ['FC.30', 'nodes', 'The owner’s devices show and answer what waits on each other; the node of the agent decides.'],
  ['FC.31', 'nodes', 'A node without the owner grant sees nothing of other nodes, and its answers are refused.'],
  ['FC.32', 'nodes', 'A device that does not answer is named; an answer is sent, and repeated, until it is confirmed.'],
  ['FC.33', 'nodes', 'Of two answers one counts, and the other learns where and by which device it was answered.'],
  [
    'FC.34',
    'nodes',
    'The page answers items of other nodes, and names the node of each and the devices that are missing.',
  ],
  [
    'FC.35',
    'nodes',
    'The owner grant is in the certificate, given on request by those that have it, and ends with removal.',
  ],
  [
    'FC.36',
    'nodes',
    'Requests of other members, and forged, relayed and repeated answers, have no effect and tell nothing.',
  ],
  ['FC.37', 'nodes', 'Questions between devices are bounded in rate, size and time.'],
  ['FC.38', 'nodes', 'A device is asked about once a second at most, and sends its items only when they have changed.'],
  ['FC.39', 'nodes', 'Releases without the owner grant are sent no certificate that they cannot read.'],
  ['FC.11', 'gateway', 'A request to write a file shows what would change.'],
  ['FC.12', 'gateway', 'On a desktop the link is opened in the browser, and does not appear in the list of processes.'],
  [
    'FC.13',
    'gateway',
    'The page stays usable at 5,000 messages a second, says that it samples, and takes no more memory.',
  ],
  ['FC.20', 'gateway', 'The story of a refused message tells its code, its rule and the rows that prove it.'],
  ['FC.21', 'gateway', 'The story of a durable message tells what it waits for and until when, and each receipt.'],
  ['FC.22', 'gateway', 'The story of a task tells that it waits for an approval, and who decided and when.'],
  ['FC.23', 'gateway', 'The story of a run and of its tasks tells each attempt, its end and its reason.'],
  ['FC.24', 'gateway', 'The owner reads status, stories and what waits over MCP, by tools that only read.'],
  ['FC.25', 'gateway', 'An agent, a sandbox and a caller with a token read only what concerns them.'],
  ['FC.26', 'gateway', 'The page shows a story with a column for each agent, arrows, waits with deadlines, and proof.'],
  [
    'FC.27',
    'gateway',
    'From a story the owner asks today’s rules and sends again; a narrow screen shows it as a list.',
  ],
  ['FC.28', 'gateway', 'Proposals, swarms, sub-tasks, tool calls and leases have stories.'],
  [
    'FC.29',
    'gateway',
    'Any id, whole or shortened, leads to one story, or to a typed error; bounds and gaps are named.',
  ],
  [
    'FC.14',
    'gateway',
    'The owner answers questions of tasks in the terminal and on the page; other callers answer their own.',
  ],
  ['FC.15', 'gateway', 'axe has no serious finding in any view of the page, in both themes.'],
  ['FC.16', 'gateway', 'The main path of the page can be taken with the keyboard only.'],
  [
    'FC.17',
    'gateway',
    'Each view shows what the node has; the pictures of the documentation are taken from a seeded demo.',
  ],
  [
    'FC.18',
    'gateway',
    'During faults the page shows within two seconds what the node says, and its stream has no gap.',
  ],
  [
    'FC.19',
    'gateway',
    'An item that was answered elsewhere says where and how, and no key that was meant for it answers another one.',
  ],
  ['FC.60', 'gateway', 'The page lists tasks and runs of plans; a run is followed to its end, and tried again.'],
  ['FC.61', 'gateway', 'A task is canceled on the page, and its question is answered there.'],
  ['FC.62', 'gateway', 'The page shows conversations, inboxes and the outbox; the owner replies as a person.'],
  ['FC.63', 'gateway', 'The journal is searched on the page, with earlier pages.'],
  ['FC.64', 'gateway', 'Providers are shown with their health over time; they are restarted and drained on the page.'],
  ['FC.65', 'gateway', 'Tools are called from a form that their schema makes; the result and the record are shown.'],
  ['FC.66', 'gateway', 'A swarm is started on the page, followed on its board, and cancelled.'],
  ['FC.67', 'gateway', 'Shared documents are shown live with their history and authors, and changed on the page.'],
  ['FC.68', 'gateway', 'The owner sends from the page; a refusal shows its code and reason.'],
  [
    'FC.69',
    'gateway',
    'Markup in names, payloads, tools and schemas is text in every view; empty views say how to begin.',
  ],
  ['FC.40', 'gateway', 'Metrics are valid Prometheus text with histograms of routing, delivery, tools and tasks.'],
  [
    'FC.41',
    'gateway',
    'The Grafana dashboard queries nothing that a node does not serve, and shows all that it serves.',
  ],
  [
    'FC.42',
    'gateway',
    'A node that starts, stops or cannot write is not ready; one with an unwell worker is degraded.',
  ],
  ['FC.43', 'gateway', 'Traces and metrics go to an OTLP collector, by option, configuration or standard variable.'],
  ['FC.44', 'gateway', 'One trace covers the messages, tools and nodes of one piece of work, with W3C trace context.'],
  ['FC.45', 'gateway', 'A collector that is away costs a bounded queue: dropped spans are counted, others sent later.'],
  ['FC.46', 'gateway', 'The samples of the last hour are kept in memory that does not grow.'],
  [
    'FC.47',
    'gateway',
    '`ecliptic watch` shows what waits, with the line that answers it, agents, messages and refusals.',
  ],
  [
    'FC.48',
    'gateway',
    '`ecliptic tail` prints a line for each message with an excerpt and the verdict, and no control codes.',
  ],
  ['FC.49', 'gateway', 'Logs are lines for people on a terminal, and JSON everywhere else.'],
  ['FC.50', 'gateway', 'The orrery has a place for each agent of each node; names never overlap; many are one body.'],
  [
    'FC.51',
    'gateway',
    'The orrery draws each message, refusal and broadcast; many messages are flows with the true rate.',
  ],
  ['FC.52', 'gateway', 'The orrery moves only while something happens, and not at all where less motion is preferred.'],
  ['FC.53', 'gateway', 'The orrery is used by keyboard, and the same facts are a table one key away.'],
  ['FC.54', 'gateway', 'An agent is shown with state, workers, tools, tasks and messages, or with how to staff it.'],
  ['FC.55', 'gateway', 'A device is invited from the page by a code that works, and is removed after a question.'],
  ['FC.56', 'gateway', 'Each member of the mesh is shown with state, link and grants, and the node can be diagnosed.'],
  ['FC.57', 'gateway', 'Metrics are charts with their values as text; without a history the counters are shown.'],
  ['FC.58', 'gateway', 'Questions about policy are answered by the rules of the router, with the rule that decides.'],
  ['FC.59', 'gateway', 'Refusals and security events are listed, and the audit log is verified from the page.'],
]);

const joining = section('network', '', [
  ['NT.1', 'nodes', 'A greeting that does not end in time is no refusal: either side tries again soon.'],
  ['NT.2', 'nodes', 'Late greetings with a node are retried after growing waits; a refusal keeps its pause of 60 s.'],
  ['NT.3', 'nodes', 'A caller that stalls greetings is bounded in links and in how often it is listened to.'],
  ['NT.4', 'nodes', 'A card that a node announces again is recognised by its digest and not verified again.'],
  ['NT.5', 'nodes', 'Since wire version 4, a list of cards has one signature; older nodes get one for each card.'],
  ['NT.6', 'nodes', 'In a conversation, a node is told of another member once, unless its announcement changed.'],
]);

const relayedMail = section('relayed mail', '', [
  ['NM.1', 'nodes', 'Mail for an absent node arrives from the broker after its sender has gone: all of it, in order.'],
  ['NM.2', 'nodes', 'Once the broker has acknowledged it, the receipt says `relayed` with the custodian, durably.'],
  ['NM.3', 'nodes', 'A message that comes from the broker and over a link is handled once, also across restarts.'],
  ['NM.4', 'nodes', 'A batch proves who its senders are to a node that has never met them.'],
  ['NM.5', 'nodes', 'A broker that restarts, or is killed while mail is published, loses and repeats none of it.'],
  ['NM.6', 'nodes', 'Mail that the broker has lost is noticed and published again, and keeps its order.'],
  ['NM.7', 'nodes', 'After a restore of either side from a copy, mail is stored once and nothing is lost silently.'],
  ['NM.8', 'nodes', 'Confirmed batches make room for others without the right to delete what others sent.'],
  [
    'NM.9',
    'nodes',
    'Batches that are forged, replayed, damaged or of no member are refused, counted and reported once.',
  ],
  ['NM.10', 'nodes', 'The broker reads nothing of the mail but who writes to whom, when and how much.'],
  ['NM.11', 'nodes', 'The stream is bounded for each sender and recipient, and never changed once it is there.'],
  ['NM.12', 'nodes', 'Nodes that are killed, and never there together, lose no mail and handle none twice.'],
  ['NM.13', 'nodes', 'Mail for a node that hangs is relayed too, and handled once when it goes on.'],
  ['NM.14', 'nodes', 'Relayed mail needs no rights at the broker to the subjects of other nodes.'],
  ['NM.15', 'nodes', 'A custodian that loses, repeats or delays batches changes nothing about the promises of mail.'],
  [
    'NM.16',
    'nodes',
    'On a cluster of three, mail survives the kill and the isolation of each server, the leader included.',
  ],
  ['NM.17', 'nodes', 'Mail that is larger than a message of the broker is relayed in parts, and holds nothing back.'],
]);

const nats = section('network', '', [
  [
    'NX.1',
    'nodes',
    'Without NATS in its configuration a node loads nothing of it; with it, it starts without the broker.',
  ],
  ['NX.2', 'nodes', 'A link over NATS loses nothing unnoticed, and puts the frames of one turn into one message.'],
  ['NX.3', 'nodes', 'A broker sees ciphertext and keys; it can delay and drop, and changes and replays are refused.'],
  ['NX.4', 'nodes', 'A node’s login key at a broker is derived from its seed and is not the key of its membership.'],
  ['NX.5', 'nodes', 'Every feature between nodes works over WebSocket, Hyperswarm and NATS.'],
  ['NX.6', 'nodes', 'A broker that dies, hangs or is cut off loses and duplicates no acknowledged message.'],
  [
    'NX.7',
    'nodes',
    '`ecliptic nats` runs a server for development; its configuration pins each member to itself and follows joins and removals.',
  ],
  ['NX.8', 'nodes', 'A node with valid broker credentials cannot act as another, read its mail or fill its memory.'],
  ['NX.9', 'nodes', 'The directory is encrypted for members; an entry counts while its node is present.'],
  ['NX.10', 'nodes', 'A node leaves a server that is gone without a word, or cut off from its cluster, for another.'],
  ['NX.11', 'nodes', 'A node in no mesh says why its broker is of no use, in `doctor` and once in its log.'],
]);

const objects = section('objects', '', [
  [
    'NO.1',
    'nodes',
    'A file goes with a message between nodes, in bounded memory, and is complete only if its digest is.',
  ],
  ['NO.2', 'nodes', 'A transfer that was cut, or a file that was saved in part, continues at the missing byte.'],
  ['NO.3', 'nodes', 'Bytes that are changed, too many or too few are never reported as complete.'],
  ['NO.4', 'nodes', 'An object is read only by the agents that it was attached for, within the sandbox rules.'],
  ['NO.5', 'nodes', 'Transfers between two nodes are bounded in number and in bytes under way.'],
  ['NO.6', 'nodes', 'With NATS, an object can be read although its node has stopped.'],
  ['NO.7', 'nodes', 'The broker reads nothing of an object, and what it changes is refused.'],
  ['NO.8', 'nodes', 'A node cannot write under the objects of another; copies are stored once the broker is back.'],
  ['NO.9', 'nodes', 'Each agent, and the node, has a share of the disk for objects.'],
  ['NO.10', 'nodes', 'Objects survive a restart and are removed when they expire.'],
  ['NO.11', 'onramp', 'Coding agents send each other files of their checkouts, and no others.'],
]);

const edges = section('edge', '', [
  ['EG.1', 'gateway', 'A task id names the node that keeps the task; an id without a node is one of the node asked.'],
  ['EG.2', 'gateway', 'Every device of the owner gets, continues and cancels the tasks of all of them.'],
  ['EG.3', 'gateway', 'A stream of a task on another node reaches its end, and resumes without a gap at any node.'],
  ['EG.4', 'gateway', 'A list has the tasks of all devices, in one order; its cursor is valid at each of them.'],
  ['EG.5', 'gateway', 'A task’s node that is away is a typed error within seconds; a list names the missing nodes.'],
  ['EG.6', 'gateway', 'Only devices of the owner may ask for callers; others learn nothing, not even of existence.'],
  ['EG.7', 'gateway', 'A caller has the same rights through every node, and an agent’s name is its own node’s only.'],
  ['EG.8', 'gateway', 'A webhook can be configured at any node, and the task’s node calls it.'],
  ['EG.9', 'gateway', 'A stateless gateway creates tasks at the nodes of their agents, and can be replaced.'],
  ['EG.10', 'gateway', 'Requests between edges have shares and limits; a slow reader stops the sender.'],
  ['EG.11', 'gateway', 'The MCP endpoint of every node lists and calls the tools of the whole mesh.'],
  ['EG.12', 'gateway', 'Tasks for a skill are spread over the nodes that have it by what each has open.'],
]);

const directoryOfNodes = section('directory', '', [
  [
    'DR.1',
    'nodes',
    'In a mesh of more than nine nodes, every card is known everywhere, with about 2 log n links a node.',
  ],
  [
    'DR.2',
    'nodes',
    'A conversation with a node that is there opens when something is sent, and ends when nothing is said.',
  ],
  ['DR.3', 'nodes', 'When a conversation opens or ends, no message is lost, repeated or out of order.'],
  ['DR.4', 'nodes', 'A conversation with work under way is not ended, and its silence is noticed within 3 s.'],
  [
    'DR.5',
    'nodes',
    'A node that stops is gone everywhere within seconds, one that crashes within 75 s; either may return.',
  ],
  ['DR.6', 'nodes', 'A removed node is forgotten by nodes that never talked to it, and its entry is refused.'],
  ['DR.7', 'nodes', 'Three hundred nodes that stop, crash and come back list exactly those that run.'],
  ['DR.8', 'nodes', 'No member can forge, replay, withhold or flood the entries of others.'],
  ['DR.10', 'nodes', 'Requests by capability are spread over nodes by what each has not answered yet.'],
  ['DR.9', 'nodes', 'Nodes confined to sandboxes, and nodes of earlier versions, are never told of the directory.'],
]);

const sharedState = section('leases and records with a broker', '', [
  ['NL.1', 'onramp', 'Either lease authority grants all paths or none across devices, with tokens that only grow.'],
  ['NL.2', 'onramp', 'Under losses, lags and cuts no path has two confirmed holders, whichever authority decides.'],
  ['NL.3', 'nodes', 'A shared register is written only by who knows its latest revision.'],
  ['NL.4', 'nodes', 'A forged, moved, replayed or deleted register gives no lease and frees none.'],
  ['NL.5', 'onramp', 'Two devices that compete on a broker two hundred times have one winner each time.'],
  ['NL.6', 'onramp', 'A mesh that moves to a broker has one authority at a time, and its tokens go on growing.'],
  ['NL.7', 'onramp', 'While servers of a cluster are killed and cut off under load, no lease has two holders.'],
  ['NL.11', 'onramp', 'Leases of a killed process are taken by another device, with higher tokens.'],
  ['NL.12', 'onramp', 'Nodes with a broker decide leases there with the permissions of the generated configuration.'],
  [
    'SL.1',
    'nodes',
    'With a broker a swarm goes on after the kill of its creator and arbiter; results stay as recorded.',
  ],
  ['SL.2', 'nodes', 'With a broker a swarm goes on with one of its seats.'],
  [
    'SL.3',
    'nodes',
    'A record log has one leader an epoch; what a deposed one appends is never settled, by Raft or broker.',
  ],
  ['SL.4', 'nodes', 'A log at the broker takes one of several values for the same place.'],
  ['SL.5', 'nodes', 'Forged, copied and hidden records count nowhere; the broker reads none.'],
  ['SL.6', 'nodes', 'While servers of a cluster are killed, every record of a log is there once.'],
  ['SL.7', 'nodes', 'Swarm records are at the broker if all members use the same, and otherwise among the seats.'],
  ['SL.8', 'nodes', 'Records of swarms need no more rights than the generated configuration gives.'],
]);

const worktrees = section('worktrees', '', [
  [
    'WT.1',
    'providers',
    'A task of an agent with worktrees yields a branch with a commit, a diff stat and the commits.',
  ],
  ['WT.2', 'providers', 'The files, branch and index of the user stay as they were until a merge.'],
  ['WT.3', 'providers', 'Worktrees are listed, shown, merged and dropped; a drop that would lose work is refused.'],
  ['WT.4', 'providers', 'Two agents work in one repository at once, and neither overwrites the other.'],
  ['WT.5', 'providers', 'Failed work is kept for inspection, with the reason.'],
  ['WT.6', 'providers', 'A merge conflict is reported with its files, and changes nothing.'],
  ['WT.7', 'providers', 'The worktree of a task that died with its node is listed as kept.'],
  ['WT.8', 'providers', 'Tasks of one conversation continue in its worktree, one after the other, across restarts.'],
  ['WT.9', 'providers', 'A task begins at a named base, and its report says which changes it did not have.'],
  ['WT.10', 'providers', 'By policy the branch is kept, merged, or also written as a patch that git applies.'],
  ['WT.11', 'providers', 'An agent has a limited number of worktrees; merged and empty ones make room.'],
  ['WT.12', 'providers', 'Neither a hook of the repository nor a repository that an agent makes runs a program.'],
  ['WT.13', 'providers', 'Work that cannot be committed stays in its folder, with the reason.'],
  ['WT.14', 'providers', 'Bare, shallow and detached repositories and odd names of files and folders work.'],
  ['WT.15', 'providers', 'Without git, a repository or a commit the task is refused, and told what to do.'],
  ['WT.18', 'providers', 'A real Claude Code edits a file in the worktree of its task; its answer has the branch.'],
  ['WT.19', 'providers', 'The answer to a plain request, or to a task of mesh_task, names the branch with the work.'],
  [
    'WT.20',
    'providers',
    'No command of the node’s git reads settings or hooks of a repository, which a jailed program may rewrite at any moment.',
  ],
  ['WT.16', 'providers', 'Agents over ACP and programs that run on work in the folder of each task.'],
  [
    'WT.17',
    'providers',
    'The branch is an artifact of an A2A task and a part of a plan’s task, and no part of the result.',
  ],
]);

const radar = section('conflict radar', '', [
  ['RD.1', 'onramp', 'A file that is changed in two worktrees is one event, and one more for further files only.'],
  ['RD.2', 'onramp', 'A changed file that an agent elsewhere has reserved is an event; a file of the holder is none.'],
  [
    'RD.3',
    'onramp',
    'Whatever two devices edit, lease and check out, both know each overlap within 3 s of contact, and no other.',
  ],
  ['RD.4', 'onramp', 'A command shows the changed files on the owner’s devices, and the overlap of two agents.'],
  ['RD.5', 'onramp', 'Changed, staged, new, deleted and conflicting files are found, whatever their names.'],
  ['RD.6', 'onramp', 'When a file is saved that another agent has changed, the agents of both devices are told once.'],
  [
    'RD.7',
    'onramp',
    'The guard stops an edit of a file that another agent has changed, and a git operation that takes HEAD, index or files from another agent in the folder.',
  ],
  [
    'RD.8',
    'onramp',
    'Changes in new, moved and replaced folders and by git are noticed, ignored ones cost nothing, and a folder that cannot be watched is read from time to time.',
  ],
  [
    'RD.11',
    'onramp',
    'An operation of git that was stopped is one event, and the agents that would have lost HEAD, index or files are told.',
  ],
  ['RD.10', 'onramp', 'The dashboard shows changed files and overlaps.'],
  ['RD.9', 'onramp', 'Operations of git are recognised in the shell commands that agents write.'],
]);

const streamsBetweenNodes = section('streams between nodes', '', [
  ['ST.1', 'nodes', 'A stream from another node has several chunks in flight, and never more than its share.'],
  ['ST.2', 'nodes', 'It is whole and in order, or ends with a typed error, whatever the network does.'],
  ['ST.4', 'nodes', 'What an agent answers while the asking node is silent waits for it within the conversation.'],
  ['ST.3', 'nodes', 'A chunk that is missing between two others is an error of the reader.'],
]);

const directPath = section('direct path', '', [
  ['MX.1', 'mesh', 'A message on the direct path has the outcome, events, counters and thread of the general path.'],
]);

const editors = section('editors', '', [
  [
    'ED.1',
    'onramp',
    '`ecliptic acp --to AGENT` makes any agent of the mesh an agent for editors that speak ACP: sessions, streams, questions, cancellation, refusals and failures.',
  ],
  [
    'ED.2',
    'onramp',
    'The agent reads files through the editor, and writes those that its user allows; no other agent may.',
  ],
  [
    'ED.3',
    'onramp',
    'The editor shows plans and tool calls of an agent on another device, asks its user for permission, and loads a session of another editor.',
  ],
  ['ED.4', 'onramp', 'A real client of ACP works with agents of the mesh.'],
]);

const chats = section('front ends', '', [
  [
    'MC12',
    'gateway',
    'A client finds the issuer of tokens for the MCP endpoint by its metadata as a protected resource.',
  ],
  [
    'AU.1',
    'gateway',
    'The official AG-UI client runs an agent and sees text, reasoning, plan and tool calls in a valid order.',
  ],
  ['AU.2', 'gateway', 'A question of an agent is an interrupt of AG-UI, which a later run answers or abandons.'],
  ['AU.3', 'gateway', 'Failures and refusals end a run of AG-UI with an error, and an aborted run ends its task.'],
  ['EG.S1', 'gateway', 'Every HTTP edge takes a token with its scope, and no other.'],
  ['EG.S2', 'gateway', 'Every HTTP edge refuses foreign Host and Origin headers.'],
  ['EG.S3', 'gateway', 'Every HTTP edge limits the requests of each caller.'],
  ['EG.S4', 'gateway', 'Every HTTP edge refuses oversized and malformed bodies, and wrong media types.'],
  ['EG.S5', 'gateway', 'Every edge that takes tasks keeps callers in their sandbox.'],
  ['EG.S6', 'gateway', 'Every stream ends with the token of its caller.'],
  ['GC.1', 'gateway', 'Our client speaks gRPC with the official server, and with ours.'],
  [
    'GC.2',
    'gateway',
    'A2A over gRPC uses TLS on both sides by configuration, with certificates of callers where they are asked for.',
  ],
  [
    'MB.1',
    'gateway',
    'Over the mesh, a card is taken only from the node whose key signed it, and a caller is an agent of the asking node.',
  ],
  ['MB.2', 'gateway', 'The A2A suites that judge HTTP judge the mesh binding, with the official client and with ours.'],
  ['MB.3', 'gateway', 'A stream over the mesh goes on without loss or doubles after a cut link and a killed node.'],
  ['MB.4', 'gateway', 'Sandboxes, tiers, projects, shares and limits hold for A2A over the mesh.'],
  [
    'OA.1',
    'gateway',
    'The official OpenAI client lists the agents as models and chats with them, with history, files and schemas.',
  ],
  ['OA.2', 'gateway', 'Chat completions stream, and show the tool calls of the agent as text.'],
  ['OA.3', 'gateway', 'Errors have the shape of the OpenAI API, and its client does not repeat work that failed.'],
  ['OA.4', 'gateway', 'A request that its client gives up ends the task, and a chat leaves no question waiting.'],
  [
    'OA.5',
    'gateway',
    'Responses go on in the conversation before, answer a question, and stream the events of the API.',
  ],
  [
    'OA.6',
    'gateway',
    'An agent that a chat cannot use is not listed, and what an agent cannot do with a request is refused with its reason.',
  ],
]);

const agentSessions = section('sessions of coding agents', '', [
  [
    'SN.1',
    'providers',
    'A task reaches a coding agent on another device by command, streams its work, and the next one of its context goes on in the same session, also after a crash.',
  ],
  [
    'SN.2',
    'providers',
    'A conversation whose process ended goes on in its session where the agent loads or resumes it.',
  ],
  ['SN.3', 'providers', 'Where it cannot, a new session begins with a summary, and the answer says so.'],
  ['SN.4', 'providers', 'The tokens and the cost of each task of a coding agent are recorded, and summed per worker.'],
  [
    'SN.5',
    'providers',
    'Mode, model and options of sessions are configured; a choice that the agent lacks is refused.',
  ],
  ['AP.1', 'providers', 'An approval is listed, shown with change, folder and rule, and answered on another device.'],
  ['AP.2', 'providers', 'The requester of a task sees that it waits for an approval, and what was decided.'],
  [
    'AP.5',
    'providers',
    'Where the link between two devices is cut in the middle, an approval is answered once, and its task loses nothing.',
  ],
  [
    'AP.4',
    'providers',
    'Nor does it count against the time limit of a task of a plan, also where a swarm does it; proposals are told of it in words.',
  ],
  ['AP.6', 'providers', 'Nor does it count against the time limit of a plain request, up to a day.'],
  ['AP.3', 'providers', 'The time that an approval takes counts against no time limit of its task.'],
]);

const benchmarks = section('benchmarks', '', [
  ['BN.1', 'mesh', 'A benchmark names its spread and its floor, and says when the spread reaches beyond the floor.'],
  ['BN.2', 'mesh', 'Writing the benchmarks of one suite leaves the sections of all others as they are.'],
  ['BN.3', 'mesh', 'The benchmark program lists its suites, prints text or JSON, and never writes a quick run.'],
]);

const tasksAtOnce = section('tasks that are answered at once', '', [
  [
    'AO.1',
    'gateway',
    'A task whose agent answers at once has the results, events, counters and stored state of any other.',
  ],
]);

const firstMinutes = section('first minutes', '', [
  [
    'FM.welcome',
    'onramp',
    'The program without a word says what it is, what is on this machine, and one next step for each kind of user.',
  ],
  ['FM.welcome-quiet', 'onramp', 'That look starts no program, and contacts no other machine.'],
  [
    'FM.json',
    'nodes',
    'Each command that prints JSON has a published schema, shown by `ecliptic help --json-schema`, which what it prints matches.',
  ],
  [
    'FM.demo',
    'onramp',
    'The demo shows a mesh, a plan with an approval and findings of the roster’s tools, a failover, durable mail and refusals, succeeds only if all were seen, and leaves nothing but its report.',
  ],
  [
    'FM.readme',
    'onramp',
    'The README’s first screen says what Ecliptic is, for whom and what it is not; its sessions run from a fresh install.',
  ],
  [
    'FM.pages',
    'onramp',
    'Commands, sessions, snippets and configuration of the documents are true: run, part of a program that runs, or checked; links lead somewhere.',
  ],
  [
    'FM.served',
    'gateway',
    'A node serves the documents, rendered, under /docs, without scripts and nothing else of the package.',
  ],
  ['FM.examples', 'onramp', 'Twelve examples in the package each check what a page claims.'],
  [
    'FM.new',
    'onramp',
    'A starter of an agent or a tool is typed, its test passes, and nothing that exists is replaced.',
  ],
  [
    'FM.help',
    'onramp',
    'Every failure of a command names the next command; every error code has help in the terminal.',
  ],
  ['FM.width', 'onramp', 'Tables fit the width of a terminal, and are whole in files and pipes.'],
  ['FM.progress', 'onramp', 'A command that waits for the node for long says so on a terminal.'],
  ['FM.logs', 'onramp', 'The log of a node in the background is shown for people, and followed.'],
  ['FM.fix', 'onramp', 'Doctor repairs what it can, with consent, and says what became of it.'],
  [
    'FM.init',
    'onramp',
    'A new configuration has what is found on the machine as far as the user agrees, the rest as comments, and no secret.',
  ],
  [
    'FM.backup',
    'nodes',
    'A backup of a working node has all that was acknowledged before it, is complete when it has its name, and is restored without loss or repetition.',
  ],
  [
    'FM.servers',
    'onramp',
    'MCP servers of the clients on a machine are found; values that may be secret are not copied.',
  ],
]);

const bridges = section('bridges to frameworks', '', [
  [
    'BR.1',
    'providers',
    'Tools of the mesh are native tools of the AI SDK, the OpenAI Agents SDK and LangGraph, under policy.',
  ],
  [
    'BR.2',
    'providers',
    'An agent or a graph of these does tasks: it streams, and its approvals and interrupts ask the caller.',
  ],
]);

const collections = section('shared context', '', [
  [
    'CO.1',
    'mcp',
    'Agents and the owner add, search and forget entries of memory, rules and taste, which outlive a restart.',
  ],
  ['CO.2', 'mcp', 'Search ranks entries by their words, the same everywhere and without a model.'],
  ['CO.3', 'mcp', 'Sandboxes and the rules of documents decide on every read and write of an entry.'],
  ['CO.4', 'mcp', 'An author and a node have a share of a collection; what is no entry is ignored.'],
  ['CO.5', 'mcp', 'A worker gets the rules of the owner and fitting entries, these in fences, within a budget.'],
  ['CO.6', 'nodes', 'Nodes share collections as documents; author and signer of an entry are shown.'],
  ['CO.8', 'nodes', 'The dashboard lists, searches, adds and removes entries, live, by mouse and by keyboard.'],
  ['CO.7', 'mcp', 'MCP clients read collections as resources and templates, and hear of changes.'],
]);

const rosterTools = section('tools of the roster', '', [
  [
    'RT.1',
    'coordination',
    'Secrets, import cycles, missing imports, bad data, leftovers and failed tests are found by file and line with redacted evidence, and look-alikes are not.',
  ],
  ['RT.2', 'coordination', 'The findings in pinned packages are those that were labelled by hand.'],
  ['RT.3', 'coordination', 'Reports of JUnit, TAP, vitest, jest, pytest and go are recognised, counted and placed.'],
  [
    'RT.4',
    'coordination',
    'The tools of a role do tasks, proposals and steps of plans for the capabilities that they implement, unless it has a worker; other work is refused with NO_WORKER.',
  ],
  [
    'RT.5',
    'coordination',
    '`ecliptic review` reports as text, Markdown, JSON and SARIF, of a change too, fails on request, runs nothing unasked, and reports nothing where nothing is wrong.',
  ],
  [
    'RT.6',
    'coordination',
    'A hostile repository runs nothing, leads nowhere outside its folder, and takes bounded time.',
  ],
  ['RT.7', 'coordination', 'The tools read folders of the caller only; tests run once the owner has allowed it.'],
  [
    'RT.9',
    'nodes',
    'The tools of a role do tasks, proposals, plans and parts of swarms for other nodes, also where only that role is configured.',
  ],
  ['RT.8', 'coordination', 'A coding agent finds and calls the tools of the roster, and gets findings as text.'],
]);

const hardening = section('hardening', '', [
  [
    'FZ.1',
    'mesh',
    'Every parser and boundary refuses what it cannot read with an error of the catalogue, within bounds of time and memory, and reads what it wrote.',
  ],
  ['HX.1', 'nodes', 'Strangers that are refused again and again do not push the rest out of the audit log.'],
  ['HX.2', 'nodes', 'While a node is busy, a peer that floods it is read later, and the others are served.'],
  ['HX.3', 'coordination', 'One node or agent cannot take all the places in swarms.'],
  ['HX.4', 'mesh', 'The threat model says of each actor what it may not do, and which tests show it.'],
]);

const toolTasks = section('tool calls as tasks', '', [
  ['MT.1', 'mcp', 'The official client follows a tool call as a task to its result, in both generations of tasks.'],
  ['MT.2', 'mcp', 'A task asks its caller, as often as the tool needs, and goes on with the answers.'],
  ['MT.3', 'mcp', 'A caller cancels its task, and the handler is told.'],
  [
    'MT.4',
    'mcp',
    'Tasks outlast their node: ends can be read, questions can be answered, and a call that was under way has failed and is not made again.',
  ],
  ['MT.5', 'mcp', 'A task belongs to its caller; for others it does not exist.'],
  ['MT.6', 'mcp', 'Tasks have shares and a time to live, and are listed in pages.'],
  [
    'MT.7',
    'mcp',
    'A tool that can be a task is an ordinary tool for agents, and for clients without tasks where it allows that.',
  ],
  ['MT.8', 'onramp', 'A tool that asks its caller is answered at the terminal, or by an option.'],
]);

const simulation = section('the whole fabric in simulation', '', [
  ['SIM.1', 'nodes', 'Whole nodes under random work and faults keep every line of the contract, and come to rest.'],
  [
    'SIM.2',
    'nodes',
    'A seed gives the same history each time, and a failing one is shortened to the events that it needs.',
  ],
  ['SIM.3', 'mesh', 'Each planted bug applies to the present source, and names what must find it.'],
]);

const evidence = section('evidence', 'EV.', [
  ['EV.1', 'mesh', 'The evidence page has a row for each line of the contract.'],
  ['EV.2', 'mesh', 'Its figures come from the results of runs; one that was typed by hand shows.'],
  ['EV.3', 'mesh', 'A part whose command is missing, fails or prints no figures has failed.'],
  ['EV.4', 'mesh', 'The licences of all packages are listed and allowed; a bill of materials lists what users get.'],
]);

const realFaults = section('faults', 'FX.', [
  [
    'FX.1',
    'nodes',
    'Work of every kind survives cuts, one-way cuts and packet loss between nodes in their own networks.',
  ],
  ['FX.2', 'nodes', 'Work of every kind survives a frozen node.'],
  ['FX.3', 'nodes', 'Work of every kind survives clocks that jump ahead and back.'],
  ['FX.4', 'nodes', 'A full disk refuses what cannot be stored, is reported, and loses nothing.'],
  ['FX.5', 'nodes', 'A read-only data folder keeps a node from starting, with the reason, and stays unchanged.'],
  ['FX.6', 'nodes', 'A slow disk loses nothing and does not slow down other nodes.'],
  ['FX.7', 'nodes', 'Three nodes under mixed load use no more memory, descriptors, timers and disk, and lose nothing.'],
  [
    'FX.9',
    'nodes',
    'A node that is put back from an old copy gets its later document changes from the others, and goes on.',
  ],
  ['FX.10', 'nodes', 'A node that runs out of memory has lost and doubled nothing when it runs again.'],
  ['FX.11', 'nodes', 'Nodes of earlier builds work with present ones, and keep all they have when they are upgraded.'],
  ['FX.8', 'nodes', 'Growth is told from scatter by the trend of a series.'],
]);

export const requirements: readonly Requirement[] = [
  ...realFaults,
  ...hardening,
  ...evidence,
  ...simulation,
  ...rosterTools,
  ...firstMinutes,
  ...acceptanceCriteria,
  ...properties,
  ...errorCodes,
  ...recoveryStrategies,
  ...unitTests,
  ...integrationTests,
  ...generators,
  ...gatewayTypes,
  ...gatewayFunctions,
  ...gatewayInvariants,
  ...gatewayScenarios,
  ...gatewayErrors,
  ...gatewayConfiguration,
  ...a2aRules,
  ...federation,
  ...providerSpecification,
  ...store,
  ...durableMail,
  ...receipts,
  ...records,
  ...safeFetches,
  ...toolSharing,
  ...upstreamServers,
  ...ralphLoop,
  ...plans,
  ...swarmRules,
  ...leases,
  ...onramp,
  ...fieldUse,
  ...workers,
  ...face,
  ...joining,
  ...relayedMail,
  ...nats,
  ...objects,
  ...edges,
  ...directoryOfNodes,
  ...sharedState,
  ...collections,
  ...bridges,
  ...worktrees,
  ...radar,
  ...streamsBetweenNodes,
  ...directPath,
  ...jail,
  ...background,
  ...people,
  ...agentSessions,
  ...editors,
  ...chats,
  ...benchmarks,
  ...tasksAtOnce,
  ...toolTasks,
];
