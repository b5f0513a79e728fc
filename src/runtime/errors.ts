/**
 * The one error catalogue. Everything this package throws or reports carries one of these codes; callers match on
 * `code`, never on text. `docs/errors.md` is checked against this table in both directions.
 */
interface CatalogueEntry {
  readonly meaning: string;
  /** May the same call succeed later without the caller changing anything about it? */
  readonly retryable: boolean;
  readonly http: number;
  readonly rpc: number;
}

export const ERRORS = {
  AGENT_NOT_FOUND: entry('No agent has that id, here or on a known node.', false, 404, -32101),
  CAPABILITY_NOT_FOUND: entry('No reachable agent that you may address offers that capability.', true, 404, -32102),
  TIER_VIOLATION: entry('The tier rules do not let the sender open a conversation with that tier.', false, 403, -32103),
  SANDBOX_VIOLATION: entry('The message would leave the sender’s sandbox without permission.', false, 403, -32104),
  ESCALATION_REQUIRED: entry('A proposal to a higher tier needs an escalation justification.', false, 403, -32105),
  CHANNEL_CLOSED: entry('The channel is closed, or its opening was refused.', false, 409, -32106),
  DELIVERY_FAILED: entry('The message could not be delivered after all retries.', true, 502, -32107),
  INVALID_CARD: entry('The agent card lacks required fields or holds wrong ones.', false, 400, -32108),
  SCHEMA_VERSION_MISMATCH: entry(
    'The document was written with a schema version this release cannot read.',
    false,
    400,
    -32109,
  ),
  AMBIGUOUS_AGENT: entry('Several nodes have an agent with that id; write the full address.', false, 409, -32110),
  AGENT_EXISTS: entry('This node already has a live agent with that id.', false, 409, -32111),
  AGENT_UNAVAILABLE: entry('The agent is known, but no process serves it at present.', true, 503, -32112),
  SENDER_REFUSED: entry('The sender is not registered here, or the envelope contradicts its card.', false, 403, -32113),
  INVALID_ENVELOPE: entry('The envelope is malformed or holds something that is not JSON.', false, 400, -32114),
  PAYLOAD_TOO_LARGE: entry('The payload is larger or more deeply nested than the limit allows.', false, 413, -32115),
  INVALID_CONFIG: entry('A configuration value is missing, of the wrong kind or contradictory.', false, 400, -32116),
  MAILBOX_FULL: entry('The recipient’s mailbox has reached its limit.', true, 429, -32117),
  QUEUE_FULL: entry('The channel’s send queue has reached its limit.', true, 429, -32118),
  PERMITS_FULL: entry('Too many conversations wait for an answer.', true, 429, -32119),
  EXPIRED: entry('The message’s time to live ran out before it was handled.', false, 410, -32120),
  STORE_REQUIRED: entry('A durable message needs a node with a store.', false, 409, -32121),
  REQUEST_TIMEOUT: entry('No answer came within the request’s deadline.', true, 504, -32122),
  HANDLER_FAILED: entry('The recipient’s handler threw an error.', false, 502, -32123),
  NOT_HANDLED: entry('The recipient has no handler for this kind of message.', false, 501, -32124),
  NO_WORKER: entry('The agent has no worker for this; the message says how to give it one.', false, 501, -32168),
  CANCELLED: entry('The caller cancelled the work.', false, 499, -32125),
  STREAM_ANSWER: entry('The request was answered with a stream; read it with `stream()`.', false, 409, -32126),
  INVALID_TRANSITION: entry('The state machine does not allow that step from its present state.', false, 409, -32127),
  NODE_STOPPED: entry('The node or the agent has stopped and takes no more work.', false, 503, -32128),
  USAGE: entry('The command line is wrong; the message and `--help` explain its use.', false, 400, -32129),
  DEMO_FAILED: entry('The demo did not see something that it shows.', false, 500, -32196),
  NO_NODE: entry('No node runs on this data folder.', true, 503, -32130),
  NODE_EXISTS: entry('Another process already runs the node of this data folder.', false, 409, -32131),
  DATA_FOLDER: entry('The data folder or its control socket cannot be used.', false, 500, -32132),
  INVALID_FRAME: entry('The connection carried data that is no frame of its protocol.', false, 400, -32133),
  PROTOCOL_MISMATCH: entry('The two sides speak no common version of the protocol.', false, 426, -32134),
  METHOD_NOT_FOUND: entry('The node offers no such operation.', false, 404, -32135),
  MODULE_FAILED: entry('An agent’s module could not be loaded or set up.', false, 500, -32136),
  INVALID_INVITE: entry('The invite is malformed, unknown, used, expired or revoked.', false, 403, -32137),
  NO_MESH: entry('The node belongs to no mesh yet.', false, 409, -32138),
  MESH_EXISTS: entry('The node belongs to a mesh already.', false, 409, -32139),
  NOT_GRANTED: entry('The node’s certificate does not allow that.', false, 403, -32140),
  MEMBERSHIP_REFUSED: entry('The other node did not prove that it is a member of this mesh.', false, 403, -32141),
  CARD_REFUSED: entry(
    'A card was not signed by its node, or claims something that its node may not.',
    false,
    403,
    -32142,
  ),
  PEER_NOT_FOUND: entry('No known node has that key.', false, 404, -32143),
  PEER_UNREACHABLE: entry('The other node could not be reached in time.', true, 504, -32144),
  BROKER_UNREACHABLE: entry('The NATS server cannot be reached, or refuses this node.', true, 503, -32169),
  ADDRESS_UNUSABLE: entry('The node cannot listen at that address.', false, 500, -32145),
  STORE_FAILED: entry('The store could not write or read the data.', true, 503, -32146),
  STORE_DAMAGED: entry('Stored data is damaged.', false, 500, -32147),
  AMBIGUOUS_ID: entry('Several ids begin with these characters; give more of them.', false, 409, -32193),
  STORY_NOT_FOUND: entry('Nothing with that id is known here, or the caller may not see it.', false, 404, -32195),
  RECEIPT_NOT_FOUND: entry('No durable message with that id is known here.', false, 404, -32148),
  AUDIT_BROKEN: entry('The audit log was changed or damaged.', false, 500, -32149),
  STORE_RESTORED: entry('A node’s store was restored from a copy, or a copy of it is in use.', false, 409, -32166),
  NODE_DOUBLED: entry('Two processes run with the same node’s key.', false, 409, -32167),
  PROCESS_START_FAILED: entry('A program could not be started.', false, 500, -32180),
  JAIL_UNAVAILABLE: entry('The program must run in a jail, and this machine has none.', false, 500, -32189),
  PROCESS_ENDED: entry('The program has ended, or is being stopped.', true, 503, -32181),
  TASK_NOT_FOUND: entry('There is no such task, or the caller may not see it.', false, 404, -32200),
  TASK_NOT_CANCELABLE: entry('The task has ended and cannot be canceled.', false, 400, -32201),
  PUSH_NOT_SUPPORTED: entry('The agent sends no push notifications.', false, 400, -32202),
  OPERATION_NOT_SUPPORTED: entry(
    'The agent does not support the operation, or not in the present state of the task.',
    false,
    400,
    -32203,
  ),
  CONTENT_TYPE_NOT_SUPPORTED: entry('The agent does not accept or produce content of that type.', false, 400, -32204),
  INVALID_AGENT_RESPONSE: entry('The remote agent’s answer breaks the protocol.', false, 500, -32205),
  EXTENDED_CARD_NOT_CONFIGURED: entry('The agent announces an extended card and has none.', false, 400, -32206),
  EXTENSION_REQUIRED: entry('The request leaves out an extension that the agent requires.', false, 400, -32207),
  VERSION_NOT_SUPPORTED: entry('The request is in an unsupported version of A2A.', false, 400, -32208),
  INVALID_PARAMS: entry('The parameters of the request do not follow the protocol.', false, 400, -32209),
  INVALID_REQUEST: entry('The body is JSON, but no JSON-RPC 2.0 request.', false, 400, -32210),
  INVALID_JSON: entry('The body of the request is not JSON.', false, 400, -32211),
  DELEGATION_REFUSED: entry(
    'The task was delegated too often, or came back to an agent that had it.',
    false,
    403,
    -32212,
  ),
  REMOTE_FAILED: entry('The remote agent refused, failed, or answered with an error of its own.', false, 502, -32213),
  REMOTE_BUSY: entry('The remote agent, or a proxy in front of it, cannot answer at present.', true, 503, -32214),
  RATE_LIMITED: entry('The caller made too many requests.', true, 429, -32215),
  IDEMPOTENCY_CONFLICT: entry(
    'The message id or Idempotency-Key belongs to an earlier request that asked for something else.',
    false,
    409,
    -32216,
  ),
  UNSUPPORTED_MEDIA_TYPE: entry(
    'The body of the request has an unsupported type, character set or encoding.',
    false,
    415,
    -32217,
  ),
  PROVIDER_INIT_FAILED: entry('The provider could not be started, or not in time.', false, 503, -32270),
  PROVIDER_TIMEOUT: entry('The provider exceeded its time limit.', true, 504, -32271),
  PROVIDER_CRASHED: entry('The provider ended, or its connection broke, in the middle of the work.', true, 502, -32272),
  PROVIDER_POLICY_DENIED: entry('A policy does not let the provider do that.', false, 403, -32273),
  PROVIDER_CONCURRENCY_EXCEEDED: entry('The provider is at its concurrency limit.', true, 429, -32274),
  PROVIDER_UNAVAILABLE: entry('The provider is not ready, not connected or not healthy.', true, 503, -32275),
  PROVIDER_EXECUTE_FAILED: entry('The provider accepted the work and answered with an error.', true, 502, -32276),
  PROVIDER_TERMINATED: entry('The provider was terminated while it worked.', true, 503, -32277),
  PROVIDER_CANCELLED: entry('The caller cancelled the provider’s work.', false, 499, -32278),
  PROVIDER_INVALID_INPUT: entry('The provider cannot process the input.', false, 400, -32279),
  PROVIDER_TOOL_NOT_FOUND: entry('The provider has no tool, method or skill of that name.', false, 404, -32280),
  PROVIDER_CREDENTIAL_MISSING: entry('The provider requires a credential, and there is none.', false, 401, -32281),
  PROVIDER_CREDENTIAL_DENIED: entry('The provider refused the credential.', false, 403, -32282),
  PROVIDER_PROTOCOL_MISMATCH: entry(
    'The provider supports no version of the protocol that this node supports.',
    false,
    426,
    -32283,
  ),
  PROVIDER_NO_CAPABLE_ENDPOINT: entry('No provider has the capabilities that the work requires.', true, 404, -32284),
  PROVIDER_QUEUE_FULL: entry('All providers are down, and the queue of waiting work is full.', true, 429, -32285),
  PROVIDER_RATE_LIMITED: entry('The provider refuses requests for a while.', true, 429, -32286),
  PROVIDER_UNKNOWN: entry('An unknown error of a provider; never reported by this release.', true, 500, -32287),
  PROVIDER_NOT_FOUND: entry('There is no provider with that id.', false, 404, -32288),
  PROVIDER_EXISTS: entry('There is already a provider with that id.', false, 409, -32289),
  LOOP_STOPPED: entry('The message would continue a chain of automatic answers beyond its limit.', false, 403, -32260),
  OBJECT_NOT_FOUND: entry('There is no such object, or it has expired.', false, 404, -32290),
  OBJECT_REFUSED: entry('The object was not sent to this agent.', false, 403, -32291),
  OBJECT_TOO_LARGE: entry('The object is larger than the limit allows.', false, 413, -32292),
  OBJECTS_FULL: entry('The agent or the node has used its share of the space for objects.', true, 429, -32293),
  OBJECT_DAMAGED: entry('The bytes of an object are not those that its reference promises.', false, 502, -32294),
  ENTRY_NOT_FOUND: entry('No collection that the caller may read has an entry with that id.', false, 404, -32295),
  ENTRY_REFUSED: entry('Only its author or the owner of the node may remove an entry.', false, 403, -32296),
  COLLECTION_FULL: entry('The author or the node has used its share of a collection.', false, 409, -32297),
  LEASE_NOT_FOUND: entry('No lease has that id.', false, 404, -32261),
  GIT_REQUIRED: entry('The work needs git, which cannot be started.', false, 501, -32262),
  GIT_FAILED: entry('A command of git failed; the message has what it said.', false, 500, -32263),
  WORKSPACE_NOT_FOUND: entry('There is no workspace with that id.', false, 404, -32264),
  WORKSPACE_REFUSED: entry(
    'The workspace is in use, is not the caller’s, or the action would lose work.',
    false,
    409,
    -32265,
  ),
  WORKSPACES_FULL: entry('The agent has too many workspaces with work that is not merged.', false, 409, -32266),
  MERGE_CONFLICT: entry('The branch conflicts with the one that it should be merged into.', false, 409, -32267),
  FETCH_REFUSED: entry('The URL, or a redirect from it, may not be fetched.', false, 403, -32190),
  FETCH_FAILED: entry('The other side of a fetch could not be reached, or closed the connection.', true, 502, -32191),
  FETCH_TIMEOUT: entry('The other side of a fetch took too long or sent nothing.', true, 504, -32192),
  DUPLICATE_TOOL: entry('The agent already offers a tool with that name.', false, 409, -32150),
  DUPLICATE_RESOURCE: entry('A resource with that URI is already offered.', false, 409, -32151),
  DUPLICATE_PROMPT: entry('The agent already offers a prompt with that name.', false, 409, -32152),
  INVALID_TOOL: entry(
    'A tool, resource or prompt cannot be offered as defined, or a schema cannot be used.',
    false,
    400,
    -32153,
  ),
  TOOL_NOT_FOUND: entry('There is no tool with that name that the caller may use.', false, 404, -32154),
  RESOURCE_NOT_FOUND: entry('There is no resource at that URI that the caller may read.', false, 404, -32155),
  PROMPT_NOT_FOUND: entry('There is no prompt with that name that the caller may use.', false, 404, -32156),
  INVALID_ARGUMENTS: entry(
    'The arguments or the input do not match the schema of the tool, prompt or task.',
    false,
    400,
    -32157,
  ),
  INVALID_RESULT: entry('A tool’s result or an agent’s answer does not match its schema.', false, 502, -32158),
  INVALID_REQUEST_STATE: entry('The request state was not made by this node, or is too old.', false, 400, -32159),
  CAPABILITY_REQUIRED: entry('The calling client lacks a capability that this call requires.', false, 400, -32160),
  TOKEN_REQUIRED: entry('The request has no token, or an unknown one.', false, 401, -32161),
  TOKEN_NOT_FOUND: entry('There is no such token.', false, 404, -32162),
  SCOPE_REQUIRED: entry('The caller’s token does not have the required scope.', false, 403, -32164),
  PACKAGE_REQUIRED: entry('A required package is not installed.', false, 501, -32165),
  HOST_REFUSED: entry('The Host or Origin header is not allowed.', false, 403, -32163),
  APPROVAL_NOT_FOUND: entry('No approval request with that name or id is open.', false, 404, -32182),
  ALREADY_ANSWERED: entry('Another answer was given before, here or on another device.', false, 409, -32194),
  LOGIN_REQUIRED: entry('An MCP server requires a login.', false, 503, -32183),
  LOGIN_FAILED: entry('A login to an MCP server was refused, failed or came too late.', false, 403, -32184),
  PROPOSAL_TIMEOUT: entry('The proposal was not answered within its deadline.', true, 504, -32230),
  PROPOSAL_REJECTED: entry('The proposal was rejected, withdrawn or given to another agent.', false, 409, -32231),
  PROPOSAL_NOT_FOUND: entry('No proposal with that id is known here.', false, 404, -32232),
  PROPOSALS_FULL: entry('Too many proposals are open.', true, 429, -32233),
  ANSWER_REFUSED: entry(
    'An answer to a proposal came late, twice, crossed with another, or from the wrong agent.',
    false,
    409,
    -32234,
  ),
  SERVER_NOT_FOUND: entry('The configuration has no MCP server with that name for this use.', false, 404, -32185),
  CREDENTIAL_MISSING: entry('There is no such credential for that provider and workspace.', false, 401, -32186),
  CREDENTIAL_DENIED: entry('The credential was revoked, or replaced too long ago.', false, 403, -32187),
  CREDENTIAL_UNREADABLE: entry('A stored credential is damaged, or encrypted with a missing key.', false, 500, -32188),
  CRDT_DESERIALIZATION_FAILED: entry(
    'An update of a shared document is malformed, or not by its author.',
    false,
    400,
    -32220,
  ),
  INVALID_PLAN: entry('The plan is invalid; the message names each fault.', false, 400, -32240),
  RUN_NOT_FOUND: entry('There is no run with that id.', false, 404, -32241),
  RUN_ACTIVE: entry('The plan is already running, and that run cannot be changed as requested.', false, 409, -32242),
  RUN_INCOMPLETE: entry('A plan’s run ended or stalled before all of its tasks were done.', false, 500, -32243),
  RESULT_REFUSED: entry('A validator did not approve the result of a task.', false, 422, -32244),
  SWARM_NOT_FOUND: entry('No agent here takes part in a swarm with that id.', false, 404, -32250),
  SWARM_EXISTS: entry('There is already a swarm with that id.', false, 409, -32251),
  SWARM_FAILED: entry('A swarm ended without all results; the message names the open failures.', false, 502, -32252),
  SWARM_STALLED: entry('The swarm’s log cannot be reached, so nothing can be committed.', true, 503, -32253),
  SWARMS_FULL: entry('The node’s agents are in too many swarms to join another.', true, 429, -32254),
  SUB_TASK_NOT_HELD: entry('The agent does not hold that sub-task.', false, 409, -32255),
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERRORS;

/** Whether a message or call that failed may have had its effect: certainly not, or it cannot be known. */
export type Outcome = 'not-delivered' | 'unknown';

export class EclipticError extends Error {
  readonly code: ErrorCode;
  /** Machine-readable context: ids, faults, expected and found values. Never a secret. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, details: Record<string, unknown> = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'EclipticError';
    this.code = code;
    this.details = details;
  }

  /** Where it is unknown whether the call had its effect, making it again could make that effect twice. */
  get retryable(): boolean {
    return ERRORS[this.code].retryable && this.details.outcome !== 'unknown';
  }

  toJSON(): { code: ErrorCode; message: string; retryable: boolean; details: Readonly<Record<string, unknown>> } {
    return { code: this.code, message: this.message, retryable: this.retryable, details: this.details };
  }
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(ERRORS, value);
}

/** An error of the catalogue as it is; anything else as the given code, with the original as its cause. */
export function toEclipticError(error: unknown, code: ErrorCode): EclipticError {
  return error instanceof EclipticError ? error : new EclipticError(code, describeError(error), {}, error);
}

/** The message of anything that was thrown, for logs and events. */
export function describeError(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return 'something that cannot be put into words';
  }
}

function entry(meaning: string, retryable: boolean, http: number, rpc: number): CatalogueEntry {
  return { meaning, retryable, http, rpc };
}
