import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Tracer } from '../runtime/tracing.js';
import { type JsonFault, weighJson } from './json-value.js';
import { LIMITS } from './limits.js';
import { stampTrace } from './message-tracing.js';
import {
  type A2AEnvelope,
  A2AEnvelopeSchema,
  type A2AMessageType,
  A2AMessageTypeSchema,
  AGENT_ADDRESS,
  type EnvelopeMetadata,
  SCHEMA_VERSION,
} from './schemas.js';

export const BROADCAST = '*';

const MESSAGE_TYPES: ReadonlySet<unknown> = new Set(A2AMessageTypeSchema.options);

/**
 * An envelope that has passed every check. Its private field proves that, so that it is never checked again; a copy or
 * an imitation lacks the field and is checked.
 */
export class ValidEnvelope implements A2AEnvelope {
  readonly id: string;
  readonly schemaVersion = SCHEMA_VERSION;
  readonly sender: string;
  readonly recipient: string;
  readonly correlationId: string | undefined;
  readonly type: A2AMessageType;
  readonly timestamp: number;
  readonly payload: unknown;
  readonly metadata: EnvelopeMetadata | undefined;
  readonly #weight: number;

  /** @internal The caller has checked every field: use `EnvelopeFactory`, `checkEnvelope` or `readdress`. */
  constructor(
    id: string,
    sender: string,
    recipient: string,
    correlationId: string | undefined,
    type: A2AMessageType,
    timestamp: number,
    payload: unknown,
    metadata: EnvelopeMetadata | undefined,
    weight: number,
  ) {
    this.id = id;
    this.sender = sender;
    this.recipient = recipient;
    this.correlationId = correlationId;
    this.type = type;
    this.timestamp = timestamp;
    this.payload = payload;
    this.metadata = metadata;
    this.#weight = weight;
  }

  static is(value: unknown): value is ValidEnvelope {
    return typeof value === 'object' && value !== null && #weight in value;
  }

  /** Approximate bytes of the payload, for memory limits. */
  static weightOf(envelope: ValidEnvelope): number {
    return envelope.#weight;
  }

  /** The same message without its payload, for records of its delivery. */
  withoutPayload(): ValidEnvelope {
    const { id, sender, recipient, correlationId, type, timestamp, metadata } = this;
    return new ValidEnvelope(id, sender, recipient, correlationId, type, timestamp, null, metadata, 0);
  }

  /** The same message with the addresses that another node uses for its ends. */
  readdress(sender: string, recipient: string): ValidEnvelope {
    const { id, correlationId, type, timestamp, payload, metadata } = this;
    return new ValidEnvelope(id, sender, recipient, correlationId, type, timestamp, payload, metadata, this.#weight);
  }
}

export interface EnvelopeInit {
  sender: string;
  /** An agent address, `*` for all agents, or a capability id with `metadata.routingHint: 'capability'`. */
  recipient: string;
  type: A2AMessageType;
  payload: unknown;
  /** The conversation that it belongs to. A message without one cannot be answered. */
  correlationId?: string;
  metadata?: EnvelopeMetadata;
}

/** Makes envelopes with their ids and timestamps, and refuses invalid messages. */
export class EnvelopeFactory {
  readonly #runtime: Runtime;
  readonly #tracer: Tracer | undefined;

  constructor(runtime: Runtime = systemRuntime()) {
    this.#runtime = runtime;
    this.#tracer = runtime.tracer;
  }

  create(init: EnvelopeInit): ValidEnvelope {
    return readable(init, () => {
      const { sender, recipient, type, payload, correlationId, metadata } = init;
      if (!isAddress(sender) || !isMessageType(type)) throw refusal(draft(init));
      const known = isMetadata(metadata) ? copyMetadata(metadata) : metadata;
      return this.createFrom(sender, recipient, type, payload, correlationId, known);
    });
  }

  /** @internal As `create`, for a sender and a type that are known to be valid. */
  createFrom(
    sender: string,
    recipient: string,
    type: A2AMessageType,
    payload: unknown,
    correlationId?: string,
    metadata?: EnvelopeMetadata,
    id: string = this.#runtime.id(),
  ): ValidEnvelope {
    const weight = weighJson(payload);
    if (
      typeof weight !== 'number' ||
      !isRecipient(recipient) ||
      !isOptionalId(correlationId) ||
      !(metadata === undefined || isMetadata(metadata))
    ) {
      throw refusal(draft({ sender, recipient, type, payload, correlationId, metadata }));
    }
    const timestamp = this.#runtime.now();
    const about = this.#tracer === undefined ? metadata : stampTrace(this.#tracer, type, metadata);
    return new ValidEnvelope(id, sender, recipient, correlationId, type, timestamp, payload, about, weight);
  }
}

/** The envelope that a factory was asked for, with placeholders for the fields that it would add, for the schema. */
function draft(init: EnvelopeInit): object {
  return { id: 'new', schemaVersion: SCHEMA_VERSION, timestamp: 0, ...init };
}

/** Returns a valid envelope with the fields of `value`, or throws a typed error with the reason. */
export function checkEnvelope(value: unknown): ValidEnvelope {
  return ValidEnvelope.is(value) ? value : readable(value, checkFields);
}

/** A getter or a proxy that throws is a fault like any other. */
function readable<T>(value: T, read: (value: T) => ValidEnvelope): ValidEnvelope {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new EclipticError('INVALID_ENVELOPE', `an envelope must be an object, not ${describe(value)}`);
  }
  try {
    return read(value);
  } catch (error) {
    throw toEclipticError(error, 'INVALID_ENVELOPE');
  }
}

function checkFields(value: unknown): ValidEnvelope {
  const { id, schemaVersion, sender, recipient, correlationId, type, timestamp, payload, metadata } =
    value as Partial<A2AEnvelope>;
  const valid = fromFields(schemaVersion, id, sender, recipient, correlationId, type, timestamp, payload, metadata);
  if (valid) return valid;
  throw refusal(value as object);
}

/** @internal An envelope of these fields; undefined if one of them is invalid. */
export function fromFields(
  schemaVersion: unknown,
  id: unknown,
  sender: unknown,
  recipient: unknown,
  correlationId: unknown,
  type: unknown,
  timestamp: unknown,
  payload: unknown,
  metadata: unknown,
): ValidEnvelope | undefined {
  if (schemaVersion !== SCHEMA_VERSION && Number.isInteger(schemaVersion)) {
    throw new EclipticError(
      'SCHEMA_VERSION_MISMATCH',
      `this release reads envelopes of schema version ${SCHEMA_VERSION}, and this one has ${schemaVersion}`,
      { expected: SCHEMA_VERSION, found: schemaVersion },
    );
  }
  const weight = weighJson(payload);
  if (
    schemaVersion === SCHEMA_VERSION &&
    isId(id) &&
    isAddress(sender) &&
    isRecipient(recipient) &&
    isOptionalId(correlationId) &&
    isMessageType(type) &&
    typeof timestamp === 'number' &&
    timestamp >= 0 &&
    timestamp < Number.POSITIVE_INFINITY &&
    (metadata === undefined || isMetadata(metadata)) &&
    typeof weight === 'number'
  ) {
    const known = metadata && copyMetadata(metadata);
    return new ValidEnvelope(id, sender, recipient, correlationId, type, timestamp, payload, known, weight);
  }
  return undefined;
}

function refusal(value: object): EclipticError {
  const payload = weighJson((value as { payload?: unknown }).payload);
  if (typeof payload !== 'number' && payload.tooLarge) {
    return new EclipticError('PAYLOAD_TOO_LARGE', `the payload ${payload.problem}`, { path: payload.path });
  }
  const faults = A2AEnvelopeSchema.safeParse(value).error?.issues.map(
    (issue) => `${issue.path.join('.') || 'envelope'}: ${issue.message}`,
  ) ?? [describePayloadFault(payload)];
  return new EclipticError('INVALID_ENVELOPE', `not a valid envelope: ${faults.join('; ')}`, { faults });
}

function describePayloadFault(payload: number | JsonFault): string {
  return typeof payload === 'number' ? 'envelope: is malformed' : `payload: ${payload.path} ${payload.problem}`;
}

function describe(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`;
}

export function isMessageType(value: unknown): value is A2AMessageType {
  return MESSAGE_TYPES.has(value);
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= LIMITS.idChars;
}

function isOptionalId(value: unknown): value is string | undefined {
  return value === undefined || isId(value);
}

function isAddress(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LIMITS.nameChars && AGENT_ADDRESS.test(value);
}

function isRecipient(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= LIMITS.nameChars;
}

function isMetadata(value: unknown): value is EnvelopeMetadata {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { tier, sandboxId, routingHint, escalationJustification, durable, ttlMs, readWithinMs } = value as Loose;
  const { chunk, traceparent, tracestate } = value as Loose;
  return (
    (tier === undefined || tier === 0 || tier === 1 || tier === 2 || tier === 3) &&
    isOptionalId(sandboxId) &&
    (routingHint === undefined || routingHint === 'capability') &&
    (escalationJustification === undefined ||
      (typeof escalationJustification === 'string' && escalationJustification.length <= LIMITS.textChars)) &&
    (durable === undefined || typeof durable === 'boolean') &&
    isOptionalTime(ttlMs) &&
    isOptionalTime(readWithinMs) &&
    (chunk === undefined || (Number.isSafeInteger(chunk) && (chunk as number) >= 0)) &&
    (traceparent === undefined || isRecipient(traceparent)) &&
    (tracestate === undefined || isRecipient(tracestate))
  );
}

type Loose = Record<keyof EnvelopeMetadata, unknown>;

function isOptionalTime(value: unknown): boolean {
  return value === undefined || (typeof value === 'number' && value > 0 && value < Number.POSITIVE_INFINITY);
}

/** Copies the keys that this release knows, and drops all others. */
function copyMetadata(metadata: EnvelopeMetadata): EnvelopeMetadata {
  const known: Record<string, unknown> = {};
  for (const key of METADATA_KEYS) if (metadata[key] !== undefined) known[key] = metadata[key];
  return known;
}

const METADATA_KEYS = [
  'tier',
  'sandboxId',
  'routingHint',
  'escalationJustification',
  'durable',
  'ttlMs',
  'readWithinMs',
  'chunk',
  'traceparent',
  'tracestate',
] as const satisfies readonly (keyof EnvelopeMetadata)[];
