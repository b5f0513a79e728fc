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
  RECEIPT_NOT_FOUND: entry('No durable message of that id is known here.', false, 404, -32148),
  AUDIT_BROKEN: entry('The audit log is not what was written.', false, 500, -32149),
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof ERRORS;

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

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
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

/** The text of anything that was thrown, for logs and events. */
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
