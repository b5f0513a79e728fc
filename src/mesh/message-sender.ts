import { EclipticError } from '../runtime/errors.js';
import { joinAddress } from './address.js';
import { BROADCAST, type EnvelopeFactory, ValidEnvelope } from './envelope.js';
import type { Expects } from './message-checks.js';
import type { RegistryEntry } from './registry-index.js';
import { type OnRefusal, type RefusalListener, TOLD_LATER, undelivered } from './remote-delivery.js';
import type { A2ARouter } from './router.js';
import type { A2AMessageType, EnvelopeMetadata, Recipient, RoutingResult } from './schemas.js';

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

export interface RouteOptions extends SendOptions {
  /** Refuse at once if policy would not let the answer back. */
  needsAnswer?: boolean;
}

/** How a feature sends under an agent's name. */
export type Sender = Pick<MessageSender, 'agentId' | 'address' | 'route'>;

/** Sends as one agent: always under its own name, never after it left. Stores nothing. */
export class MessageSender {
  /** The agent's id on this node. */
  readonly agentId: string;
  /** `id@node`. */
  readonly address: string;
  readonly #entry: RegistryEntry;
  readonly #factory: EnvelopeFactory;
  readonly #router: A2ARouter;
  #closed = false;

  constructor(entry: RegistryEntry, nodeKey: string | undefined, factory: EnvelopeFactory, router: A2ARouter) {
    this.agentId = entry.address;
    this.address = joinAddress(entry.address, nodeKey);
    this.#entry = entry;
    this.#factory = factory;
    this.#router = router;
  }

  close(): void {
    this.#closed = true;
  }

  /** Routes one message. The result is synchronous unless the recipient is on another node. */
  route(
    to: Recipient,
    type: A2AMessageType,
    payload: unknown,
    options: RouteOptions = {},
  ): RoutingResult | Promise<RoutingResult> {
    this.#assertOpen();
    const recipient = typeof to === 'string' ? to : to.capability;
    const metadata = metadataFor(to, options);
    const envelope = this.#factory.createFrom(this.agentId, recipient, type, payload, options.thread, metadata);
    return this.#route(envelope, options.needsAnswer ? 'answer' : 'nothing');
  }

  /** Routes one message. Resolves when the recipient has it; rejects otherwise, and throws if it is not valid. */
  send(to: Recipient, type: A2AMessageType, payload: unknown, options: SendOptions = {}): Promise<RoutingResult> {
    this.#assertOpen();
    const recipient = typeof to === 'string' ? to : to.capability;
    const metadata = metadataFor(to, options);
    const envelope = this.#factory.createFrom(this.agentId, recipient, type, payload, options.thread, metadata);
    const result = this.#route(envelope, 'nothing', 'reject');
    if (!isPromise(result)) return Promise.resolve(assertDelivered(result));
    return metadata?.durable || recipient === BROADCAST ? result.then(assertDelivered) : result;
  }

  /**
   * Routes a request that opens a thread, named after its first message, and expects an answer in it. If the recipient is on
   * another node, a refusal is told to `refusals`, and `TOLD_LATER` is returned.
   */
  ask(
    to: Recipient,
    payload: unknown,
    thread: string,
    refusals: RefusalListener,
  ): RoutingResult | Promise<RoutingResult> {
    this.#assertOpen();
    const recipient = typeof to === 'string' ? to : to.capability;
    const metadata = typeof to === 'string' ? undefined : ({ routingHint: 'capability' } as const);
    const envelope = this.#factory.createFrom(this.agentId, recipient, 'request', payload, thread, metadata, thread);
    return this.#route(envelope, 'answer', refusals);
  }

  /**
   * Routes one chunk of a stream; throws if it is refused at once. Returns the bytes that are on their way to another node,
   * whose answer is told to `outcome`, or 0 if the reader has the chunk.
   */
  sendChunk(to: string, payload: unknown, thread: string, index: number, outcome: RefusalListener): number {
    this.#assertOpen();
    // Within a node no chunk can be lost between two others.
    const metadata = to.includes('@') ? { chunk: index } : undefined;
    const envelope = this.#factory.createFrom(this.agentId, to, 'stream-data', payload, thread, metadata);
    const result = this.#route(envelope, 'nothing', outcome);
    if (isPromise(result)) return ValidEnvelope.weightOf(envelope);
    assertDelivered(result);
    return 0;
  }

  /** Routes one message and rejects unless it was delivered. */
  async deliver(to: Recipient, type: A2AMessageType, payload: unknown, options: RouteOptions): Promise<void> {
    assertDelivered(await this.route(to, type, payload, options));
  }

  /** Answers an envelope, if it can be answered. The event stream reports the outcome. */
  reply(envelope: ValidEnvelope, type: A2AMessageType, payload: unknown): void {
    const answer = this.answerTo(envelope, type, payload);
    if (answer) this.post(answer);
  }

  /** The answer to an envelope, if it can be answered. */
  answerTo(envelope: ValidEnvelope, type: A2AMessageType, payload: unknown): ValidEnvelope | undefined {
    if (envelope.correlationId === undefined || this.#closed || !this.#entry.registered) return undefined;
    const { correlationId: thread, sender } = envelope;
    // A durable question gets a durable answer.
    const metadata = envelope.metadata?.durable ? { durable: true } : undefined;
    return this.#factory.createFrom(this.agentId, sender, type, payload, thread, metadata);
  }

  /** Routes an answer. The event stream reports the outcome. */
  post(answer: ValidEnvelope): void {
    const routed = this.#route(answer, 'nothing', IGNORED);
    if (isPromise(routed) && routed !== TOLD_LATER) routed.catch(() => {});
  }

  #route(
    envelope: ValidEnvelope,
    expects: Expects,
    onRefusal: OnRefusal = 'resolve',
  ): RoutingResult | Promise<RoutingResult> {
    let target = this.#entry.latest;
    if (target === undefined || target.address !== envelope.recipient || !target.registered) {
      target = this.#router.exactly(envelope.recipient);
      this.#entry.latest = target;
    }
    return this.#router.route(envelope, expects, this.#entry, target, onRefusal);
  }

  #assertOpen(): void {
    // An agent off the registry is off the mesh, even if this sender was not closed.
    if (this.#closed || !this.#entry.registered) {
      throw new EclipticError('NODE_STOPPED', `agent "${this.agentId}" has left`);
    }
  }
}

const IGNORED: RefusalListener = { fail() {} };

/** Is the result still to come? (Cheaper than `instanceof` where it is synchronous.) */
export function isPromise(result: RoutingResult | Promise<RoutingResult>): result is Promise<RoutingResult> {
  return (result as RoutingResult).delivered === undefined;
}

/** Throws a refusal as its typed error. */
export function assertDelivered(result: RoutingResult): RoutingResult {
  if (result.delivered || result.stored) return result;
  throw undelivered(result);
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
