import type { EnvelopeFactory, ValidEnvelope } from '../mesh/envelope.js';
import type { RegistryEntry } from '../mesh/registry-index.js';
import type { A2ARouter } from '../mesh/router.js';
import type { A2AMessageType, EnvelopeMetadata, RoutingResult } from '../mesh/schemas.js';
import { EclipticError, type ErrorCode } from '../runtime/errors.js';

/** An agent's id or address, or whoever offers a capability. */
export type Recipient = string | { readonly capability: string };

export interface SendOptions {
  /** Default 'notification'. */
  type?: A2AMessageType;
  /** The conversation it belongs to. Only a message in a thread can be answered. */
  thread?: string;
  /** Why this goes over the recipient's rank; a proposal from L2 or L3 to L0 or L1 needs it. */
  justification?: string;
  /** Not handled within this time, it is dropped and reported. */
  ttlMs?: number;
  /** Kept on disk until the recipient is done with it, across restarts of both sides. Resolves when it is on disk. */
  durable?: boolean;
  /** Of a durable message: not read within this time, its sender is told (`onUnread`). */
  readWithinMs?: number;
}

/** How one agent puts messages on the mesh: always under its own name, never after it left. */
export class Outbox {
  readonly #sender: string;
  readonly #entry: RegistryEntry;
  readonly #factory: EnvelopeFactory;
  readonly #router: A2ARouter;
  #closed = false;
  /** The agent of this node that was addressed last: most messages go where the one before them went. */
  #latest: RegistryEntry | undefined;

  constructor(entry: RegistryEntry, factory: EnvelopeFactory, router: A2ARouter) {
    this.#sender = entry.address;
    this.#entry = entry;
    this.#factory = factory;
    this.#router = router;
  }

  close(): void {
    this.#closed = true;
  }

  /** Routes one message. The result is there at once unless the recipient is on another node. */
  route(
    to: Recipient,
    type: A2AMessageType,
    payload: unknown,
    options: SendOptions = {},
    needsAnswer = false,
  ): RoutingResult | Promise<RoutingResult> {
    this.#assertOpen();
    const recipient = typeof to === 'string' ? to : to.capability;
    const metadata = metadataFor(to, options);
    const envelope = this.#factory.createFrom(this.#sender, recipient, type, payload, options.thread, metadata);
    return this.#route(envelope, needsAnswer);
  }

  /** Routes a request that opens a thread, named after its first message, and expects an answer in it. */
  ask(to: Recipient, payload: unknown, thread: string): RoutingResult | Promise<RoutingResult> {
    this.#assertOpen();
    const recipient = typeof to === 'string' ? to : to.capability;
    const metadata = typeof to === 'string' ? undefined : ({ routingHint: 'capability' } as const);
    const envelope = this.#factory.createFrom(this.#sender, recipient, 'request', payload, thread, metadata, thread);
    return this.#route(envelope, true);
  }

  /** Routes one message and rejects unless it was delivered. */
  async deliver(
    to: Recipient,
    type: A2AMessageType,
    payload: unknown,
    options: SendOptions,
    needsAnswer = false,
  ): Promise<void> {
    assertDelivered(await this.route(to, type, payload, options, needsAnswer));
  }

  /** Answers an envelope, if it can be answered. What becomes of the reply is on the event stream. */
  reply(envelope: ValidEnvelope, type: A2AMessageType, payload: unknown): void {
    const answer = this.answerTo(envelope, type, payload);
    if (answer) this.post(answer);
  }

  /** The answer to an envelope, if it can be answered. */
  answerTo(envelope: ValidEnvelope, type: A2AMessageType, payload: unknown): ValidEnvelope | undefined {
    if (envelope.correlationId === undefined || this.#closed || !this.#entry.registered) return undefined;
    const { correlationId: thread, sender } = envelope;
    // Whoever asked durably is answered durably.
    const metadata = envelope.metadata?.durable ? { durable: true } : undefined;
    return this.#factory.createFrom(this.#sender, sender, type, payload, thread, metadata);
  }

  /** Routes an answer. What becomes of it is on the event stream. */
  post(answer: ValidEnvelope): void {
    const routed = this.#route(answer, false);
    if (isPromise(routed)) routed.catch(() => {});
  }

  #route(envelope: ValidEnvelope, needsAnswer: boolean): RoutingResult | Promise<RoutingResult> {
    let target = this.#latest;
    if (target === undefined || target.address !== envelope.recipient || !target.registered) {
      target = this.#router.exactly(envelope.recipient);
      this.#latest = target;
    }
    return this.#router.route(envelope, needsAnswer, this.#entry, target);
  }

  #assertOpen(): void {
    // Off the registry is off the mesh, even where the handle was not told.
    if (this.#closed || !this.#entry.registered) {
      throw new EclipticError('NODE_STOPPED', `agent "${this.#sender}" has left`);
    }
  }
}

/** Is the result still to come? (Cheaper than `instanceof` on the path where it is there.) */
export function isPromise(result: RoutingResult | Promise<RoutingResult>): result is Promise<RoutingResult> {
  return (result as RoutingResult).delivered === undefined;
}

/** Turns a refusal into the typed error it is. */
export function assertDelivered(result: RoutingResult): RoutingResult {
  if (result.delivered || result.stored) return result;
  const { error, reason, targetAgentId: recipient, candidates, outcome } = result;
  const details = { recipient, ...(candidates && { candidates }), ...(outcome && { outcome }) };
  throw new EclipticError(error as ErrorCode, reason ?? 'the message was not delivered', details);
}

function metadataFor(to: Recipient, options: SendOptions): EnvelopeMetadata | undefined {
  const { justification, ttlMs, durable, readWithinMs } = options;
  if (typeof to === 'string' && justification === undefined && ttlMs === undefined && !durable) return undefined;
  return {
    ...(typeof to === 'string' ? undefined : { routingHint: 'capability' as const }),
    ...(justification === undefined ? undefined : { escalationJustification: justification }),
    ...(ttlMs === undefined ? undefined : { ttlMs }),
    ...(durable && { durable }),
    ...(readWithinMs === undefined ? undefined : { readWithinMs }),
  };
}
