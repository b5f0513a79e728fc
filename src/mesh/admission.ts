import type { ErrorCode } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { ValidEnvelope } from './envelope.js';
import type { Party, Policy } from './policy.js';
import type { RoutingResult } from './schemas.js';
import type { Thread } from './thread.js';
import type { ThreadTable } from './thread-table.js';

/** Why a message does not go where it was sent. */
export interface Failure {
  readonly code: ErrorCode;
  readonly reason: string;
  /** Whom an ambiguous id may mean. */
  readonly candidates?: string[];
  /** Of a message that was on its way to another node. */
  readonly outcome?: RoutingResult['outcome'];
}

export interface AdmissionComponents {
  runtime: Runtime;
  policy: Policy;
  threads: ThreadTable;
}

/** The questions every message must pass, whatever path it takes; and the thread it enters when it has passed. */
export class Admission {
  readonly #runtime: Runtime;
  readonly #policy: Policy;
  readonly #threads: ThreadTable;

  #closing = false;

  constructor(components: AdmissionComponents) {
    this.#runtime = components.runtime;
    this.#policy = components.policy;
    this.#threads = components.threads;
  }

  /** From now on only conversations that have begun go on. */
  close(): void {
    this.#closing = true;
  }

  /** Does the envelope claim what its sender's card does not say? */
  contradiction(envelope: ValidEnvelope, source: Party): Failure | undefined {
    const { tier, sandboxId } = envelope.metadata ?? {};
    if (tier !== undefined && tier !== source.tier) {
      return { code: 'SENDER_REFUSED', reason: `the envelope says tier ${tier}, the sender’s card ${source.tier}` };
    }
    if (sandboxId !== undefined && sandboxId !== source.sandboxId) {
      return {
        code: 'SENDER_REFUSED',
        reason: `the envelope says sandbox "${sandboxId}", the sender’s card otherwise`,
      };
    }
    return undefined;
  }

  /** Is there anything about the message itself that forbids delivering it now? */
  unfit(envelope: ValidEnvelope): Failure | undefined {
    if (this.#closing && !this.threadOf(envelope)?.begun) return CLOSING;
    if (envelope.metadata === undefined) return undefined;
    const { ttlMs } = envelope.metadata;
    if (ttlMs !== undefined && envelope.timestamp + ttlMs < this.#runtime.now()) {
      return { code: 'EXPIRED', reason: `its time to live of ${ttlMs} ms has run out` };
    }
    return undefined;
  }

  /** The conversation this envelope is part of, if it has begun. */
  threadOf(envelope: ValidEnvelope): Thread | undefined {
    return envelope.correlationId === undefined ? undefined : this.#threads.find(envelope.correlationId);
  }

  /** May this message go from here to there? One that has arrived to be kept is fit for that at any time. */
  refusal(
    envelope: ValidEnvelope,
    source: Party,
    target: Party,
    inReply: boolean,
    arriving = false,
  ): Failure | undefined {
    const decision = this.#policy.judge(envelope, source, target, inReply);
    if (!decision.allowed) return decision;
    return arriving ? undefined : this.unfit(envelope);
  }

  /** Would the target's answer be kept from coming back? Replies ignore tiers, but never leave a sandbox. */
  unanswerable(source: Party, target: Party): Failure | undefined {
    if (target.sandboxId === undefined) return undefined;
    const decision = this.#policy.judgeAnswer(target, source);
    if (decision.allowed) return undefined;
    return { code: decision.code, reason: `the answer could not come back: ${decision.reason}` };
  }

  /** Notes an admitted message in its thread: as a reply, or as one that gives its recipient the right to reply. */
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

  /** Takes back the wait for an answer to a message that never left. */
  retract(envelope: ValidEnvelope, source: Party): void {
    if (envelope.correlationId !== undefined) this.#threads.abandon(envelope.correlationId, source.address);
  }

  /** Notes a broadcast in its thread: everyone it reached may reply. */
  enterBroadcast(envelope: ValidEnvelope, source: Party, reached: readonly Party[]): Failure | undefined {
    if (envelope.correlationId === undefined) return undefined;
    if (reached.length === 0) return undefined;
    const responders = new Set(reached.map((party) => party.address));
    const opened = this.#threads.opened(this.threadOf(envelope), envelope, source.address, responders);
    return opened ? undefined : PERMITS_FULL;
  }
}

const CLOSING: Failure = { code: 'NODE_STOPPED', reason: 'the node is stopping and opens no more conversations' };
const PERMITS_FULL: Failure = {
  code: 'PERMITS_FULL',
  reason: 'too many conversations of this sender wait for an answer',
};
