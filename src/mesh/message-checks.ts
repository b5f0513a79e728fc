import { type ErrorCode, toEclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { ValidEnvelope } from './envelope.js';
import type { Party, Policy } from './policy.js';
import type { Carrier } from './ports.js';
import type { RegistryEntry } from './registry-index.js';
import type { RoutingResult } from './schemas.js';
import type { Thread } from './thread.js';
import type { ThreadTable } from './thread-table.js';

/** Why a message is not delivered. */
export interface Failure {
  readonly code: ErrorCode;
  readonly reason: string;
  /** The addresses that an ambiguous id may mean. */
  readonly candidates?: string[];
  /** Of a message to another node that failed on the way. */
  readonly outcome?: RoutingResult['outcome'];
}

/** Does the sender need an answer? Then a target whose answer policy would hold back is refused at once. */
export type Expects = 'nothing' | 'answer';

export interface MessageChecksComponents {
  runtime: Runtime;
  policy: Policy;
  threads: ThreadTable;
  carrier: Carrier | undefined;
  mailboxCapacity: number;
}

/** The checks that every message must pass on every path, and the thread that it enters afterwards. */
export class MessageChecks {
  readonly #runtime: Runtime;
  readonly #policy: Policy;
  readonly #threads: ThreadTable;
  readonly #carrier: Carrier | undefined;
  readonly #mailboxCapacity: number;
  #closing = false;

  constructor(components: MessageChecksComponents) {
    this.#runtime = components.runtime;
    this.#policy = components.policy;
    this.#threads = components.threads;
    this.#carrier = components.carrier;
    this.#mailboxCapacity = components.mailboxCapacity;
  }

  /** From now on only messages of existing conversations pass. */
  close(): void {
    this.#closing = true;
  }

  get isClosing(): boolean {
    return this.#closing;
  }

  /** Does the envelope contradict its sender's card? */
  contradiction(envelope: ValidEnvelope, source: Party): Failure | undefined {
    const { tier, sandboxId } = envelope.metadata ?? {};
    if (tier !== undefined && tier !== source.tier) {
      return { code: 'SENDER_REFUSED', reason: `the envelope says tier ${tier}, the sender’s card ${source.tier}` };
    }
    if (sandboxId === undefined || sandboxId === source.sandboxId) return undefined;
    const reason = `the envelope says sandbox "${sandboxId}", the sender’s card otherwise`;
    return { code: 'SENDER_REFUSED', reason };
  }

  /** Does the message itself forbid its delivery now: the node is stopping, or its time to live has run out? */
  unfit(envelope: ValidEnvelope): Failure | undefined {
    if (this.#closing && !this.threadOf(envelope)?.begun) return CLOSING;
    if (envelope.metadata === undefined) return undefined;
    const { ttlMs } = envelope.metadata;
    if (ttlMs !== undefined && envelope.timestamp + ttlMs < this.#runtime.now()) {
      return { code: 'EXPIRED', reason: `its time to live of ${ttlMs} ms has run out` };
    }
    return undefined;
  }

  threadOf(envelope: ValidEnvelope): Thread | undefined {
    return envelope.correlationId === undefined ? undefined : this.#threads.find(envelope.correlationId);
  }

  /** Does policy or the message itself forbid this delivery? */
  refusal(envelope: ValidEnvelope, source: Party, target: Party, inReply = false): Failure | undefined {
    const decision = this.#policy.judge(envelope, source, target, inReply);
    return decision.allowed ? this.unfit(envelope) : decision;
  }

  /** Does policy forbid this delivery? */
  forbidden(envelope: ValidEnvelope, source: Party, target: Party, inReply: boolean): Failure | undefined {
    const decision = this.#policy.judge(envelope, source, target, inReply);
    return decision.allowed ? undefined : decision;
  }

  /** Would policy hold back the target's answer? Replies ignore tiers, but never leave a sandbox. */
  unanswerable(source: Party, target: Party): Failure | undefined {
    if (target.sandboxId === undefined) return undefined;
    const decision = this.#policy.judgeAnswer(target, source);
    if (decision.allowed) return undefined;
    return { code: decision.code, reason: `the answer could not come back: ${decision.reason}` };
  }

  /**
   * Can the target not take a message right now? A reply to a node that is silent waits for it within the conversation:
   * the work that it answers is under way there, and is not asked for again.
   */
  unavailable(target: RegistryEntry, inReply = false): Failure | undefined {
    if (target.node !== undefined) {
      if (this.#carrier?.reachable(target.node)) return undefined;
      if (inReply && this.#carrier?.converses(target.node)) return undefined;
      return { code: 'AGENT_UNAVAILABLE', reason: `there is no link to the node of ${target.address}` };
    }
    const mailbox = target.mailbox;
    if (!mailbox?.attached) {
      return { code: 'AGENT_UNAVAILABLE', reason: `${target.address} is registered, but nothing listens for it` };
    }
    if (!mailbox.full) return undefined;
    return { code: 'MAILBOX_FULL', reason: `${this.#mailboxCapacity} messages wait for ${target.address}` };
  }

  /** Adds a message that has passed to its thread: as a reply, or as one that permits its recipient to reply. */
  enter(
    envelope: ValidEnvelope,
    source: Party,
    target: Party,
    thread: Thread | undefined,
    inReply: boolean,
  ): Failure | undefined {
    if (envelope.correlationId === undefined) return undefined;
    if (inReply) {
      this.#threads.replied(thread!, envelope, source.address, target.address);
      return undefined;
    }
    return this.#threads.opened(thread, envelope, source.address, target.address) ? undefined : PERMITS_FULL;
  }

  /** The message never left, so its sender waits for no answer. */
  retract(envelope: ValidEnvelope, source: Party): void {
    if (envelope.correlationId !== undefined) this.#threads.abandon(envelope.correlationId, source.address);
  }

  /** Adds a broadcast to its thread: all of its recipients may reply. */
  enterBroadcast(envelope: ValidEnvelope, source: Party, reached: readonly Party[]): Failure | undefined {
    if (envelope.correlationId === undefined || reached.length === 0) return undefined;
    const responders = new Set(reached.map((party) => party.address));
    const opened = this.#threads.opened(this.threadOf(envelope), envelope, source.address, responders);
    return opened ? undefined : PERMITS_FULL;
  }
}

/** The failure that a carrier or a postbox reports. */
export function failureOf(error: unknown): Failure {
  const { code, message: reason, details } = toEclipticError(error, 'DELIVERY_FAILED');
  return { code, reason, outcome: details.outcome as Failure['outcome'] };
}

const CLOSING: Failure = { code: 'NODE_STOPPED', reason: 'the node is stopping and opens no more conversations' };
const PERMITS_FULL: Failure = {
  code: 'PERMITS_FULL',
  reason: 'too many conversations of this sender wait for an answer',
};
