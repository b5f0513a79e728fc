import { BROADCAST, type ValidEnvelope } from '../../mesh/envelope.js';
import type { RouteOptions, Sender } from '../../mesh/message-sender.js';
import { type A2AObservability, callbackReport } from '../../mesh/observability.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { RegistryEntry } from '../../mesh/registry-index.js';
import type { A2ARouter } from '../../mesh/router.js';
import type { A2AMessageType, RoutingResult } from '../../mesh/schemas.js';
import { vacancyFor } from '../../mesh/staffing.js';
import type { ThreadTable } from '../../mesh/thread-table.js';
import { type CallbackFailed, Callbacks } from '../../runtime/callbacks.js';
import type { DeadlineQueue } from '../../runtime/deadlines.js';
import { EclipticError, type ErrorCode, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { ContractNet } from './contract-net.js';
import { Inbound } from './inbound.js';
import type { About, NegotiationContext, Side } from './negotiation-context.js';
import type {
  Negotiation,
  ProposalInit,
  ProposalStatus,
  RefusedAnswer,
  TaskNegotiator,
  TaskProposal,
} from './proposal.js';
import type { ProposalRecords } from './proposal-records.js';
import { ProposalTable } from './proposal-table.js';
import { termsOf } from './proposal-terms.js';
import { ReceivedTask, type ReceivedTerms } from './received-task.js';
import { RecheckTimer } from './recheck-timer.js';
import { SentProposal } from './sent-proposal.js';

/** One end of a proposal, as the owner of the node may see it. */
export type ProposalSide = Pick<Side, 'side' | 'peer' | 'durable' | 'proposal' | 'input' | 'state'>;

export interface NegotiatorComponents {
  runtime: Runtime;
  deadlines: DeadlineQueue;
  registry: AgentRegistry;
  threads: ThreadTable;
  observability: A2AObservability;
  /** Finds who has all the capabilities that a proposal needs. */
  router: Pick<A2ARouter, 'capable' | 'explain'>;
  sender: Sender;
  /** Where durable proposals are kept, if the node keeps any. */
  records: ProposalRecords | undefined;
  /** Is there, or was there, an agent of that address? */
  knows: (address: string) => boolean;
}

export interface NegotiatorInit {
  /** Called with every new proposal to this agent, and again with what an earlier run left open. */
  onReceived: (task: ReceivedTask) => void;
  /** Called when an observer of proposals comes. */
  onObserved?: () => void;
  /** Proposals that may be open, each way. Default 10,000. */
  maxOpen?: number;
  /** How long nothing may be heard of the other side of a proposal that is not durable. Default 60 s. */
  graceMs?: number;
}

/** One agent's proposals: those it made, and those made to it. Everything of a proposal stays in its thread. */
export class Negotiator implements TaskNegotiator, NegotiationContext {
  readonly runtime: Runtime;
  readonly deadlines: DeadlineQueue;
  readonly agentId: string;
  readonly address: string;
  readonly graceMs: number;
  readonly #components: NegotiatorComponents;
  readonly #onReceived: (task: ReceivedTask) => void;
  readonly #onObserved: (() => void) | undefined;
  readonly #maxOpen: number;
  readonly #table = new ProposalTable();
  readonly #rechecks: RecheckTimer;
  readonly #inbound: Inbound;
  readonly callbackFailed: CallbackFailed;
  readonly #observers: Callbacks<[proposal: TaskProposal]>;
  readonly #refused: Record<RefusedAnswer, number> = { late: 0, duplicate: 0, crossed: 0, forged: 0 };
  /** What an earlier run left, and nobody was asked about yet. */
  readonly #left = new Set<ReceivedTask>();
  #load = 0;
  #ended = false;

  constructor(components: NegotiatorComponents, init: NegotiatorInit) {
    this.#components = components;
    this.runtime = components.runtime;
    this.deadlines = components.deadlines;
    this.agentId = components.sender.agentId;
    this.address = components.sender.address;
    this.graceMs = init.graceMs ?? 60_000;
    this.#onReceived = init.onReceived;
    this.#onObserved = init.onObserved;
    this.#maxOpen = init.maxOpen ?? 10_000;
    this.#rechecks = new RecheckTimer(components.runtime);
    this.callbackFailed = callbackReport(components.runtime, components.observability);
    this.#observers = new Callbacks(`onProposalReceived of ${this.agentId}`, this.callbackFailed);
    const arrived = (terms: ReceivedTerms, weight: number) => this.#arrive(terms, weight);
    this.#inbound = new Inbound({ context: this, table: this.#table, arrived });
    this.#restore();
  }

  /** Makes a proposal, to one agent. */
  open(init: ProposalInit): Negotiation {
    if (init.to === BROADCAST) {
      const reason = 'a proposal has one addressee; proposeToAll asks everyone who has the capabilities';
      throw new EclipticError('INVALID_ENVELOPE', reason, { faults: ['to'] });
    }
    this.#assertRoom(init, 1);
    const to = init.to === undefined ? this.#capable(init)[0]! : this.#addressOf(init.to, init.justification);
    const sent = new SentProposal(this, termsOf(init, this.runtime.id(), to));
    this.#add(sent);
    // A thread of its own is known to be new, and need not be looked for.
    if (init.thread === undefined) this.#components.threads.begin(sent.thread, this);
    sent.start();
    return sent;
  }

  /** Makes a proposal to everyone who could do it; the best bid gets the work. */
  openToAll(init: Omit<ProposalInit, 'to'>): Negotiation {
    const group = this.runtime.id();
    const thread = init.thread ?? group;
    const addressees = this.#capable(init);
    this.#assertRoom(init, addressees.length);
    const sides = addressees.map(
      (to) => new SentProposal(this, termsOf({ ...init, thread }, this.runtime.id(), to, group)),
    );
    for (const side of sides) this.#add(side);
    const net = new ContractNet(this, group, sides);
    for (const side of sides) side.start();
    return net;
  }

  async propose(proposal: Parameters<TaskNegotiator['propose']>[0]): Promise<TaskProposal> {
    const { proposerAgentId, ...init } = proposal;
    if (this.localName(proposerAgentId) !== this.agentId) {
      throw new EclipticError('SENDER_REFUSED', `${this.agentId} does not make proposals of ${proposerAgentId}`);
    }
    const negotiation = this.open(init);
    await negotiation.sent;
    return negotiation.proposal;
  }

  async accept(proposalId: string, estimatedCompletionMs: number): Promise<void> {
    await this.engagement(proposalId).accept({ estimatedCompletionMs });
  }

  async reject(proposalId: string, reason: string, alternative?: string): Promise<void> {
    await this.engagement(proposalId).reject(reason, alternative === undefined ? {} : { alternative });
  }

  getProposal(proposalId: string): TaskProposal | undefined {
    return (this.#table.sentBy(proposalId) ?? this.#table.receivedBy(proposalId))?.proposal;
  }

  listPending(): TaskProposal[] {
    return this.#table.open.map(({ proposal }) => proposal).filter(({ status }) => status === 'pending');
  }

  onProposalReceived(handler: (proposal: TaskProposal) => void): () => void {
    const stop = this.#observers.add(handler);
    this.#onObserved?.();
    this.runtime.defer(() => this.resume());
    return stop;
  }

  /** Does somebody answer proposals by `accept` and `reject`? */
  get observed(): boolean {
    return this.#observers.size > 0;
  }

  /** A proposal to this agent, and the work that it became. */
  engagement(proposalId: string): ReceivedTask {
    const task = this.#table.receivedBy(proposalId);
    if (task) return task;
    const reason = `there is no proposal "${proposalId}" to ${this.agentId}`;
    throw new EclipticError('PROPOSAL_NOT_FOUND', reason, { proposalId });
  }

  /** Proposals that this agent made, those of an earlier run too, as far as they are remembered. */
  get negotiations(): readonly Negotiation[] {
    return this.#table.sent;
  }

  /** Both those it made and those it got, as far as they are remembered. */
  get sides(): readonly ProposalSide[] {
    return [...this.#table.sent, ...this.#table.received];
  }

  /** Answers that were not taken, by what was wrong with them. */
  get refusedAnswers(): Readonly<Record<RefusedAnswer, number>> {
    return this.#refused;
  }

  /** Takes an envelope that belongs to a proposal; false when it belongs to none. */
  take(envelope: ValidEnvelope): boolean {
    return this.#inbound.take(envelope);
  }

  /** Hands what an earlier run left open to whoever decides about it now. */
  resume(): void {
    for (const task of this.#left) {
      const { status, work } = task.state;
      this.#left.delete(task);
      if (status === 'pending' || work === 'open') this.#handOver(task);
    }
  }

  /** This agent leaves. The others are told; what is durable waits for its coming back. */
  end(error: EclipticError): void {
    if (this.#ended) return;
    for (const sent of this.#table.sent) if (!sent.durable) sent.withdraw(`${this.agentId} has left`);
    for (const task of this.#table.received) task.leave(error);
    this.#ended = true;
    this.#rechecks.stop();
    const open = this.#table.open;
    for (const side of open) this.deadlines.remove(side);
    const durable = open.filter((side) => side.durable);
    this.#components.records?.giveBack(
      this.agentId,
      durable.map(({ row }) => row),
    );
  }

  // What a proposal needs of its negotiator

  get load(): number {
    return this.#load;
  }

  burden(change: 1 | -1): void {
    this.#load += change;
  }

  post(
    { peer, thread }: Pick<Side, 'peer' | 'thread'>,
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

  keep(side: Side, written: () => void, failed: (error: unknown) => void): void {
    if (this.#ended) return;
    this.#components.records!.keep(
      side.row,
      () => {
        if (!this.#ended) written();
      },
      (error) => {
        if (!this.#ended) failed(error);
      },
    );
  }

  closed(side: SentProposal | ReceivedTask): void {
    if (this.#table.close(side)) this.#rechecks.remove(side);
  }

  released(opener: string, responder: string, thread: string): void {
    this.#components.threads.release(thread, opener, responder);
  }

  inFull(agent: string): string {
    const { registry } = this.#components;
    return registry.ownEntry(agent) && !agent.includes('@') ? `${agent}@${registry.nodeKey}` : agent;
  }

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
    return this.#components.knows(peer);
  }

  changed(about: About, proposalStatus: ProposalStatus): void {
    this.#emit(about, proposalStatus, proposalStatus === 'timed-out' ? 'PROPOSAL_TIMEOUT' : undefined);
  }

  refused(about: About, kind: RefusedAnswer, from: string): void {
    this.#refused[kind]++;
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

  #assertRoom({ durable }: Pick<ProposalInit, 'durable'>, wanted: number): void {
    if (this.#ended) throw new EclipticError('NODE_STOPPED', `agent "${this.agentId}" has left`);
    if (durable && !this.#components.records) {
      throw new EclipticError('STORE_REQUIRED', 'a durable proposal needs a node with a store');
    }
    if (this.#table.openSent + wanted <= this.#maxOpen) return;
    throw new EclipticError('PROPOSALS_FULL', `${this.#maxOpen} proposals of ${this.agentId} are open already`);
  }

  /** The addresses of those who have what it takes, the best first. */
  #capable({ requiredCapabilities = [], justification }: ProposalInit): string[] {
    if (requiredCapabilities.length === 0) {
      throw new EclipticError('INVALID_ENVELOPE', 'a proposal needs an addressee, or capabilities to find one by');
    }
    const { router } = this.#components;
    const { found, refusal } = router.capable(this.agentId, requiredCapabilities, 'task-proposal', justification);
    if (found.length > 0) return found.map(({ address }) => address);
    if (refusal?.code === 'ESCALATION_REQUIRED' || refusal?.code === 'NO_WORKER')
      throw new EclipticError(refusal.code, refusal.reason);
    const wanted = requiredCapabilities.join(', ');
    throw new EclipticError('CAPABILITY_NOT_FOUND', `no reachable agent that ${this.agentId} may ask offers ${wanted}`);
  }

  /** The address that answers will come from. One that is not known is the router's to refuse. */
  #addressOf(to: string, justification: string | undefined): string {
    const { registry, router } = this.#components;
    const known = registry.entry(to) ?? this.#candidate(to);
    // An author may have attached a handler since another node's card was sent; only its owner staffs a role.
    const current = known && (known.node === undefined || known.card.status?.fix !== undefined);
    const vacancy = current ? vacancyFor(known.card, 'proposal') : undefined;
    // One that policy hides from the proposer is refused by the router, and by that reason alone.
    if (vacancy && known && router.explain(this.agentId, known.address, 'task-proposal', justification).allowed) {
      throw new EclipticError(vacancy.code, vacancy.reason, { agentId: known.address });
    }
    return known?.address ?? to;
  }

  #candidate(to: string): RegistryEntry | undefined {
    try {
      return this.#components.registry.candidate(to);
    } catch {
      return undefined;
    }
  }

  /** Takes a new proposal; the reason where it cannot. */
  #arrive(terms: ReceivedTerms, weight: number): string | undefined {
    if (terms.payload.durable && !this.#components.records) return 'store-required';
    if (this.#table.openReceived >= this.#maxOpen) return 'busy';
    const task = new ReceivedTask(this, terms);
    task.weight = weight;
    this.#add(task);
    task.start(() => this.#handOver(task));
    return undefined;
  }

  #handOver(task: ReceivedTask): void {
    this.#onReceived(task);
    this.#observers.call(task.proposal);
  }

  #add(side: SentProposal | ReceivedTask): void {
    this.#table.add(side);
    if (side.durable || this.isRemote(side.peer)) this.#rechecks.add(side);
  }

  #restore(): void {
    const groups = new Map<string, SentProposal[]>();
    for (const row of this.#components.records?.take(this.agentId) ?? []) {
      const side = row.side === 'sent' ? SentProposal.restore(this, row) : ReceivedTask.restore(this, row);
      this.#add(side);
      if (row.open === 0) this.closed(side);
      if (side instanceof ReceivedTask) this.#left.add(side);
      else if (side.terms.group !== undefined) {
        groups.set(side.terms.group, [...(groups.get(side.terms.group) ?? []), side]);
      }
    }
    for (const [group, sides] of groups) new ContractNet(this, group, sides);
  }
}
