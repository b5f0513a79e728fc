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
  AGENT_UNAVAILABLE: entry('The agent is known, but nothing is listening for it right now.', true, 503, -32112),
  SENDER_REFUSED: entry('The sender is not registered here, or the envelope contradicts its card.', false, 403, -32113),
  INVALID_ENVELOPE: entry('The envelope is malformed or holds something that is not JSON.', false, 400, -32114),
  PAYLOAD_TOO_LARGE: entry('The payload is larger or more deeply nested than the limit allows.', false, 413, -32115),
  INVALID_CONFIG: entry('A configuration value is missing, of the wrong kind or contradictory.', false, 400, -32116),
  MAILBOX_FULL: entry('The recipient’s mailbox has reached its limit.', true, 429, -32117),
  QUEUE_FULL: entry('The channel’s send queue has reached its limit.', true, 429, -32118),
  PERMITS_FULL: entry('Too many conversations wait for an answer; no further one can be opened.', true, 429, -32119),
  EXPIRED: entry('The message’s time to live ran out before it was handled.', false, 410, -32120),
  STORE_REQUIRED: entry('A durable message needs a node with a store.', false, 409, -32121),
  REQUEST_TIMEOUT: entry('No answer came within the request’s deadline.', true, 504, -32122),
  HANDLER_FAILED: entry('The recipient’s handler threw an error.', false, 502, -32123),
  NOT_HANDLED: entry('The recipient has no handler for this kind of message.', false, 501, -32124),
  NO_WORKER: entry(
    'The agent has no worker that could do it; the message says what would staff it.',
    false,
    501,
    -32168,
  ),
  CANCELLED: entry('The caller cancelled the work.', false, 499, -32125),
  STREAM_ANSWER: entry('The request was answered with a stream; read it with `stream()`.', false, 409, -32126),
  INVALID_TRANSITION: entry('The state machine does not allow that step from its present state.', false, 409, -32127),
  NODE_STOPPED: entry('The node or the agent has stopped and takes no more work.', false, 503, -32128),
  USAGE: entry('The command line is wrong; the message and `--help` say how it goes.', false, 400, -32129),
  NO_NODE: entry('No node runs on this data folder.', true, 503, -32130),
  NODE_EXISTS: entry('Another process already runs the node of this data folder.', false, 409, -32131),
  DATA_FOLDER: entry('The data folder or its control socket cannot be used.', false, 500, -32132),
  INVALID_FRAME: entry('The connection carried something that is not a frame of its protocol.', false, 400, -32133),
  PROTOCOL_MISMATCH: entry('The two sides speak no common version of the protocol.', false, 426, -32134),
  METHOD_NOT_FOUND: entry('The node offers no such operation.', false, 404, -32135),
  MODULE_FAILED: entry('An agent’s module could not be loaded or set up.', false, 500, -32136),
  INVALID_INVITE: entry('The invite is malformed, unknown, used, expired or revoked.', false, 403, -32137),
  NO_MESH: entry('The node belongs to no mesh yet.', false, 409, -32138),
  MESH_EXISTS: entry('The node belongs to a mesh already.', false, 409, -32139),
  NOT_GRANTED: entry('The node’s certificate does not allow that.', false, 403, -32140),
  MEMBERSHIP_REFUSED: entry('The other node did not prove that it is a member of this mesh.', false, 403, -32141),
  CARD_REFUSED: entry('A card is not its node’s own word, or says what that node may not.', false, 403, -32142),
  PEER_NOT_FOUND: entry('No known node has that key.', false, 404, -32143),
  PEER_UNREACHABLE: entry('No way to the other node was found in time.', true, 504, -32144),
  ADDRESS_UNUSABLE: entry('The node cannot listen at that address.', false, 500, -32145),
  STORE_FAILED: entry('The store could not keep or give what was asked.', true, 503, -32146),
  STORE_DAMAGED: entry('What the store kept is damaged.', false, 500, -32147),
  AMBIGUOUS_ID: entry('Several ids begin with what was given; write more of it.', false, 409, -32193),
  RECEIPT_NOT_FOUND: entry('No durable message of that id is known here.', false, 404, -32148),
  AUDIT_BROKEN: entry('The audit log is not what was written.', false, 500, -32149),
  STORE_RESTORED: entry('A node’s store was put back from a copy, or a copy of it is in use.', false, 409, -32166),
  NODE_DOUBLED: entry('Two processes run with the same node’s key.', false, 409, -32167),
  PROCESS_START_FAILED: entry('A program could not be started.', false, 500, -32180),
  PROCESS_ENDED: entry('The program has ended, or is being stopped.', true, 503, -32181),
  TASK_NOT_FOUND: entry('There is no such task that you may see.', false, 404, -32200),
  TASK_NOT_CANCELABLE: entry('The task has ended and cannot be canceled any more.', false, 400, -32201),
  PUSH_NOT_SUPPORTED: entry('The agent sends no push notifications.', false, 400, -32202),
  OPERATION_NOT_SUPPORTED: entry('The agent cannot do that, or not with the task as it stands.', false, 400, -32203),
  CONTENT_TYPE_NOT_SUPPORTED: entry('The agent does not take or make content of that type.', false, 400, -32204),
  INVALID_AGENT_RESPONSE: entry('The remote agent’s answer breaks the protocol.', false, 500, -32205),
  EXTENDED_CARD_NOT_CONFIGURED: entry('The agent promises an extended card and has none.', false, 400, -32206),
  EXTENSION_REQUIRED: entry('The request leaves out an extension that the agent requires.', false, 400, -32207),
  VERSION_NOT_SUPPORTED: entry('The request is in a version of A2A that is not spoken here.', false, 400, -32208),
  INVALID_PARAMS: entry('The parameters of the request are not what the protocol asks for.', false, 400, -32209),
  INVALID_REQUEST: entry('The body is JSON, but no JSON-RPC 2.0 request.', false, 400, -32210),
  INVALID_JSON: entry('The body of the request is not JSON.', false, 400, -32211),
  DELEGATION_REFUSED: entry(
    'The task was handed on too often, or came back to an agent that had it.',
    false,
    403,
    -32212,
  ),
  REMOTE_FAILED: entry('The remote agent refused, failed, or answered with an error of its own.', false, 502, -32213),
  REMOTE_BUSY: entry('The remote agent, or what stands before it, cannot answer right now.', true, 503, -32214),
  RATE_LIMITED: entry('The caller made too many requests.', true, 429, -32215),
  IDEMPOTENCY_CONFLICT: entry(
    'The message id or Idempotency-Key belongs to an earlier request that asked for something else.',
    false,
    409,
    -32216,
  ),
  UNSUPPORTED_MEDIA_TYPE: entry(
    'The body of the request is of a type, character set or encoding that is not read here.',
    false,
    415,
    -32217,
  ),
  PROVIDER_INIT_FAILED: entry('The provider could not be made ready for work, or not in time.', false, 503, -32270),
  PROVIDER_TIMEOUT: entry('The provider took longer than it may.', true, 504, -32271),
  PROVIDER_CRASHED: entry('The provider ended, or its connection broke, in the middle of the work.', true, 502, -32272),
  PROVIDER_POLICY_DENIED: entry('A policy does not let the provider do that.', false, 403, -32273),
  PROVIDER_CONCURRENCY_EXCEEDED: entry('The provider works on as much at a time as it may.', true, 429, -32274),
  PROVIDER_UNAVAILABLE: entry('The provider is not ready, not connected or not healthy.', true, 503, -32275),
  PROVIDER_EXECUTE_FAILED: entry('The provider took the work and answered with an error.', true, 502, -32276),
  PROVIDER_TERMINATED: entry('The provider was ended while it worked.', true, 503, -32277),
  PROVIDER_CANCELLED: entry('The caller cancelled the provider’s work.', false, 499, -32278),
  PROVIDER_INVALID_INPUT: entry('The provider cannot take what it was asked as it was asked.', false, 400, -32279),
  PROVIDER_TOOL_NOT_FOUND: entry('The provider has no tool, method or skill of that name.', false, 404, -32280),
  PROVIDER_CREDENTIAL_MISSING: entry('The provider wants a credential, and there is none for it.', false, 401, -32281),
  PROVIDER_CREDENTIAL_DENIED: entry('The provider refused the credential that it was given.', false, 403, -32282),
  PROVIDER_PROTOCOL_MISMATCH: entry(
    'The provider speaks no version of the protocol that is spoken here.',
    false,
    426,
    -32283,
  ),
  PROVIDER_NO_CAPABLE_ENDPOINT: entry(
    'No provider that is there has the capabilities that the work needs.',
    true,
    404,
    -32284,
  ),
  PROVIDER_QUEUE_FULL: entry('All providers are down, and as much work waits for them as may.', true, 429, -32285),
  PROVIDER_RATE_LIMITED: entry('The provider takes no more requests for now.', true, 429, -32286),
  PROVIDER_UNKNOWN: entry('A provider’s error that nothing is known of; none is reported so.', true, 500, -32287),
  PROVIDER_NOT_FOUND: entry('There is no provider of that id.', false, 404, -32288),
  PROVIDER_EXISTS: entry('There is a provider of that id already.', false, 409, -32289),
  LOOP_STOPPED: entry('The message would go on a chain of answers that is too long, or too many.', false, 403, -32260),
  LEASE_NOT_FOUND: entry('No lease has that id.', false, 404, -32261),
  FETCH_REFUSED: entry('That URL, or what it led to, may not be fetched.', false, 403, -32190),
  FETCH_FAILED: entry('The other side of a fetch could not be reached, or broke off.', true, 502, -32191),
  FETCH_TIMEOUT: entry('The other side of a fetch took too long or fell silent.', true, 504, -32192),
  DUPLICATE_TOOL: entry('The agent offers a tool of that name already.', false, 409, -32150),
  DUPLICATE_RESOURCE: entry('A resource with that URI is offered already.', false, 409, -32151),
  DUPLICATE_PROMPT: entry('The agent offers a prompt of that name already.', false, 409, -32152),
  INVALID_TOOL: entry('A tool, resource or prompt cannot be offered as it is defined.', false, 400, -32153),
  TOOL_NOT_FOUND: entry('There is no tool of that name that you may use.', false, 404, -32154),
  RESOURCE_NOT_FOUND: entry('There is no resource at that URI that you may read.', false, 404, -32155),
  PROMPT_NOT_FOUND: entry('There is no prompt of that name that you may use.', false, 404, -32156),
  INVALID_ARGUMENTS: entry('The arguments do not fit what the tool or prompt takes.', false, 400, -32157),
  INVALID_RESULT: entry('The tool’s result does not fit what it says of itself.', false, 502, -32158),
  INVALID_REQUEST_STATE: entry('What the call should go on from was not made here, or is too old.', false, 400, -32159),
  CAPABILITY_REQUIRED: entry('The calling client lacks something that this call needs.', false, 400, -32160),
  TOKEN_REQUIRED: entry('The request brings no token, or one that is not known.', false, 401, -32161),
  TOKEN_NOT_FOUND: entry('There is no such token.', false, 404, -32162),
  SCOPE_REQUIRED: entry('The caller’s token was not given for that.', false, 403, -32164),
  PACKAGE_REQUIRED: entry('A package that this needs is not installed.', false, 501, -32165),
  HOST_REFUSED: entry('The Host or Origin header names somebody else.', false, 403, -32163),
  APPROVAL_NOT_FOUND: entry('Nothing of that name or id waits for a decision.', false, 404, -32182),
  LOGIN_REQUIRED: entry('An MCP server wants its user to log in first.', false, 503, -32183),
  LOGIN_FAILED: entry('A login to an MCP server was refused, broke off or came too late.', false, 403, -32184),
  PROPOSAL_TIMEOUT: entry('The proposal was not answered within its deadline.', true, 504, -32230),
  PROPOSAL_REJECTED: entry('The proposal was rejected, taken back, or given to somebody else.', false, 409, -32231),
  PROPOSAL_NOT_FOUND: entry('No proposal of that id is known here.', false, 404, -32232),
  PROPOSALS_FULL: entry('Too many proposals are open; no further one can be made.', true, 429, -32233),
  ANSWER_REFUSED: entry(
    'An answer to a proposal came late, twice, crossed with another, or from somebody else.',
    false,
    409,
    -32234,
  ),
  SERVER_NOT_FOUND: entry('The configuration has no MCP server of that name that can be used so.', false, 404, -32185),
  CREDENTIAL_MISSING: entry('No such credential is kept for that provider and workspace.', false, 401, -32186),
  CREDENTIAL_DENIED: entry('The credential was revoked, or replaced too long ago.', false, 403, -32187),
  CREDENTIAL_UNREADABLE: entry(
    'A kept credential is damaged, or sealed with a key that is not here.',
    false,
    500,
    -32188,
  ),
  CRDT_DESERIALIZATION_FAILED: entry(
    'An update of a shared document cannot be read, or is not its author’s.',
    false,
    400,
    -32220,
  ),
  INVALID_PLAN: entry('A plan has faults, each of which is named.', false, 400, -32240),
  RUN_NOT_FOUND: entry('There is no run of that id.', false, 404, -32241),
  RUN_ACTIVE: entry('The plan is being run already, and that run cannot become what was asked.', false, 409, -32242),
  RUN_INCOMPLETE: entry('A plan’s run ended or stands still before all of its tasks were done.', false, 500, -32243),
  RESULT_REFUSED: entry('A validator did not approve what a task gave.', false, 422, -32244),
  SWARM_NOT_FOUND: entry('No agent here takes part in a swarm of that id.', false, 404, -32250),
  SWARM_EXISTS: entry('There is a swarm of that id already.', false, 409, -32251),
  SWARM_FAILED: entry('A swarm ended without all results; what it could not mend is named.', false, 502, -32252),
  SWARM_STALLED: entry('No majority of a swarm’s seats is in touch, so nothing can be settled.', true, 503, -32253),
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
