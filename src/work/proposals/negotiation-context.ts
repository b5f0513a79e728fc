import type { RouteOptions, Sender } from '../../mesh/message-sender.js';
import { type A2AObservability, callbackReport } from '../../mesh/observability.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { A2AMessageType, RoutingResult } from '../../mesh/schemas.js';
import type { ThreadTable } from '../../mesh/thread-table.js';
import type { CallbackFailed } from '../../runtime/callbacks.js';
import { DeadlineQueue } from '../../runtime/deadlines.js';
import { type ErrorCode, toEclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { ProposalStatus, RefusedAnswer } from './proposal.js';
import type { ProposalRecords } from './proposal-records.js';
import type { ProposalRow } from './tables.js';

export interface NegotiationComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  threads: ThreadTable;
  observability: A2AObservability;
  sender: Sender;
  /** Default: a queue of its own. */
  deadlines?: DeadlineQueue;
  /** Undefined on a node without a store. */
  records?: ProposalRecords | undefined;
  /** Is there, or was there, an agent of that address? Default: one that the registry knows. */
  knows?: (address: string) => boolean;
}

/** Identifies a proposal in events. */
interface About {
  readonly id: string;
  readonly peer: string;
  readonly thread: string;
}

interface Rechecked {
  check(now: number): void;
}

/** What the proposals of one agent have in common: sending, storing, names, events and load. */
export class NegotiationContext {
  readonly runtime: Runtime;
  readonly deadlines: DeadlineQueue;
  readonly agentId: string;
  /** `id@node`. */
  readonly address: string;
  /** How long the other side of a proposal that is not durable may be silent. */
  readonly graceMs: number;
  readonly callbackFailed: CallbackFailed;
  readonly rechecks: RecheckTimer;
  /** Work that the agent has accepted and not finished. */
  load = 0;
  /** Answers that were refused, by reason. */
  readonly refusedAnswers: Record<RefusedAnswer, number> = { late: 0, duplicate: 0, crossed: 0, forged: 0 };
  readonly #components: NegotiationComponents;
  #ended = false;

  constructor(components: NegotiationComponents, graceMs: number) {
    this.#components = components;
    this.runtime = components.runtime;
    this.deadlines = components.deadlines ?? new DeadlineQueue(components.runtime);
    this.agentId = components.sender.agentId;
    this.address = components.sender.address;
    this.graceMs = graceMs;
    this.rechecks = new RecheckTimer(components.runtime);
    this.callbackFailed = callbackReport(components.runtime, components.observability);
  }

  get ended(): boolean {
    return this.#ended;
  }

  end(): void {
    this.#ended = true;
    this.rechecks.stop();
  }

  /** Sends in a proposal's thread. A refusal is a result, never an exception. */
  post(
    { peer, thread }: Pick<About, 'peer' | 'thread'>,
    type: A2AMessageType,
    payload: unknown,
    options: RouteOptions = { thread },
  ): RoutingResult | Promise<RoutingResult> {
    try {
      return this.#components.sender.route(peer, type, payload, options);
    } catch (error) {
      const { code, message: reason } = toEclipticError(error, 'DELIVERY_FAILED');
      return { delivered: false, path: 'local', targetAgentId: peer, latencyMs: 0, error: code, reason };
    }
  }

  /** Calls `written` when the row is on disk. Neither callback is called after the agent has left. */
  store(row: ProposalRow, written: () => void, failed: (error: unknown) => void): void {
    if (this.#ended) return;
    this.#components.records!.keep(
      row,
      () => {
        if (!this.#ended) written();
      },
      (error) => {
        if (!this.#ended) failed(error);
      },
    );
  }

  /** Ends the wait for the other side's answer in the thread. */
  release(opener: string, responder: string, thread: string): void {
    this.#components.threads.release(thread, opener, responder);
  }

  /** An agent's name as every node understands it. */
  inFull(agent: string): string {
    const { registry } = this.#components;
    return registry.ownEntry(agent) && !agent.includes('@') ? `${agent}@${registry.nodeKey}` : agent;
  }

  /** An agent's name as this node understands it. */
  localName(address: string): string {
    const { nodeKey } = this.#components.registry;
    if (nodeKey === undefined || !address.endsWith(nodeKey)) return address;
    const at = address.length - nodeKey.length - 1;
    return address[at] === '@' ? address.slice(0, at) : address;
  }

  isRemote(peer: string): boolean {
    return peer.includes('@');
  }

  knows(peer: string): boolean {
    const { knows, registry } = this.#components;
    return knows ? knows(peer) : registry.entry(peer) !== undefined;
  }

  changed(about: About, proposalStatus: ProposalStatus): void {
    this.#emit(about, proposalStatus, proposalStatus === 'timed-out' ? 'PROPOSAL_TIMEOUT' : undefined);
  }

  refused(about: About, kind: RefusedAnswer, from: string): void {
    this.refusedAnswers[kind]++;
    const said = { code: 'ANSWER_REFUSED', reason: `a ${kind} answer of ${from}` } as const;
    this.#emit(about, undefined, said.code, said.reason);
    if (kind !== 'forged') return;
    const where = { sender: from, recipient: this.agentId, correlationId: about.thread, proposalId: about.id };
    this.#components.observability.emit({ type: 'security', ...where, ...said, timestamp: this.runtime.now() });
  }

  #emit(about: About, proposalStatus: ProposalStatus | undefined, code?: ErrorCode, reason?: string): void {
    this.#components.observability.emit({
      type: 'proposal',
      sender: this.agentId,
      recipient: about.peer,
      correlationId: about.thread,
      proposalId: about.id,
      proposalStatus,
      code,
      reason,
      timestamp: this.runtime.now(),
    });
  }
}

const RECHECK_MS = 1_000;

/** Once a second, lets proposals with another node, and durable ones, send again what was not answered. */
class RecheckTimer {
  readonly #runtime: Runtime;
  readonly #watched = new Set<Rechecked>();
  #timer: Timer | undefined;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  add(side: Rechecked): void {
    this.#watched.add(side);
    this.#wait();
  }

  remove(side: Rechecked): void {
    if (this.#watched.size > 0) this.#watched.delete(side);
  }

  stop(): void {
    this.#watched.clear();
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #wait(): void {
    if (this.#timer || this.#watched.size === 0) return;
    this.#timer = this.#runtime.setTimer(() => {
      this.#timer = undefined;
      const now = this.#runtime.now();
      for (const side of this.#watched) side.check(now);
      this.#wait();
    }, RECHECK_MS);
  }
}
