import { BROADCAST, type ValidEnvelope } from '../../mesh/envelope.js';
import type { RegistryEntry } from '../../mesh/registry-index.js';
import type { A2ARouter } from '../../mesh/router.js';
import { vacancyFor } from '../../mesh/staffing.js';
import { Callbacks } from '../../runtime/callbacks.js';
import { EclipticError } from '../../runtime/errors.js';
import { ContractNet } from './contract-net.js';
import { Inbound } from './inbound.js';
import { type NegotiationComponents, NegotiationContext } from './negotiation-context.js';
import type { Negotiation, ProposalInit, RefusedAnswer, TaskProposal } from './proposal.js';
import type { ProposalSide } from './proposal-side.js';
import { ProposalTable } from './proposal-table.js';
import { ReceivedTask, type ReceivedTerms } from './received-task.js';
import { SentProposal, termsOf } from './sent-proposal.js';

export interface NegotiatorComponents extends NegotiationComponents {
  /** Finds the agents that have all the capabilities that a proposal needs. */
  router: Pick<A2ARouter, 'capable' | 'explain'>;
}

export interface NegotiatorInit {
  /** Called with every new proposal to this agent, and again with the open ones of an earlier run. */
  onReceived?: (task: ReceivedTask) => void;
  /** Called when a handler is added by `onProposalReceived`. */
  onObserved?: () => void;
  /** Proposals that may be open, each way. Default 10,000. */
  maxOpen?: number;
  /** How long the other side of a proposal that is not durable may be silent. Default 60 s. */
  graceMs?: number;
}

/** The specification's negotiator of one agent: proposals that it made, and proposals made to it, by their ids. */
export class TaskNegotiator {
  readonly #components: NegotiatorComponents;
  readonly #init: NegotiatorInit;
  readonly #maxOpen: number;
  readonly #context: NegotiationContext;
  readonly #table = new ProposalTable();
  readonly #inbound: Inbound;
  readonly #observers: Callbacks<[proposal: TaskProposal]>;
  /** Restored proposals that were not handed over yet. */
  readonly #restored = new Set<ReceivedTask>();

  constructor(components: NegotiatorComponents, init: NegotiatorInit = {}) {
    this.#components = components;
    this.#init = init;
    this.#maxOpen = init.maxOpen ?? 10_000;
    this.#context = new NegotiationContext(components, init.graceMs ?? 60_000);
    const { agentId, callbackFailed } = this.#context;
    this.#observers = new Callbacks(`onProposalReceived of ${agentId}`, callbackFailed);
    this.#inbound = new Inbound(this.#context, this.#table, (terms, weight) => this.#arrive(terms, weight));
    this.#restore();
  }

  /** Makes a proposal to one agent. Throws if it cannot be made. */
  open(init: ProposalInit): Negotiation {
    if (init.to === BROADCAST) {
      const reason = 'a proposal has one addressee; proposeToAll asks everyone who has the capabilities';
      throw new EclipticError('INVALID_ENVELOPE', reason, { faults: ['to'] });
    }
    const { runtime, threads } = this.#components;
    this.#assertRoom(init, 1);
    const to =
      init.to === undefined
        ? this.#capable(init)[0]!
        : this.#addressOf(init.to, init.requiredCapabilities, init.justification);
    const sent = new SentProposal(this.#context, termsOf(init, runtime.id(), to), this.#onClosed);
    this.#add(sent);
    // A thread of its own is known to be new, and need not be looked for.
    if (init.thread === undefined) threads.begin(sent.thread, this.#context);
    sent.start();
    return sent;
  }

  /** Makes a proposal to every agent that is able to do it; the best bid gets the work. */
  openToAll(init: Omit<ProposalInit, 'to'>): Negotiation {
    const { runtime } = this.#components;
    const group = runtime.id();
    const thread = init.thread ?? group;
    const addressees = this.#capable(init);
    this.#assertRoom(init, addressees.length);
    const sides = addressees.map(
      (to) => new SentProposal(this.#context, termsOf({ ...init, thread }, runtime.id(), to, group), this.#onClosed),
    );
    for (const side of sides) this.#add(side);
    const net = new ContractNet(this.#context.callbackFailed, group, sides);
    for (const side of sides) side.start();
    return net;
  }

  /** Resolves when the proposal is with its addressee (durable: on disk); the answer shows in `getProposal`. */
  async propose(
    proposal: Omit<TaskProposal, 'proposalId' | 'status' | 'correlationId'> &
      Pick<ProposalInit, 'to' | 'input' | 'justification' | 'durable' | 'thread'>,
  ): Promise<TaskProposal> {
    const { proposerAgentId, ...init } = proposal;
    if (this.#context.localName(proposerAgentId) !== this.agentId) {
      throw new EclipticError('SENDER_REFUSED', `${this.agentId} does not make proposals of ${proposerAgentId}`);
    }
    const negotiation = this.open(init);
    await negotiation.sent;
    return negotiation.proposal;
  }

  /** Resolves when the proposer has confirmed. */
  async accept(proposalId: string, estimatedCompletionMs: number): Promise<void> {
    await this.#engagement(proposalId).accept({ estimatedCompletionMs });
  }

  async reject(proposalId: string, reason: string, alternative?: string): Promise<void> {
    await this.#engagement(proposalId).reject(reason, alternative === undefined ? {} : { alternative });
  }

  getProposal(proposalId: string): TaskProposal | undefined {
    return (this.#table.sentBy(proposalId) ?? this.#table.receivedBy(proposalId))?.proposal;
  }

  /** Proposals that wait for an answer, made by this agent or to it. */
  listPending(): TaskProposal[] {
    return this.#table.open.map(({ proposal }) => proposal).filter(({ status }) => status === 'pending');
  }

  /** Calls back with every proposal to this agent, which then answers with `accept` or `reject`. */
  onProposalReceived(handler: (proposal: TaskProposal) => void): () => void {
    const stop = this.#observers.add(handler);
    this.#init.onObserved?.();
    this.#components.runtime.defer(() => this.resume());
    return stop;
  }

  get agentId(): string {
    return this.#context.agentId;
  }

  /** @internal Are proposals answered by `accept` and `reject`? */
  get observed(): boolean {
    return this.#observers.size > 0;
  }

  /** @internal The agent's accepted and unfinished work. */
  get load(): number {
    return this.#context.load;
  }

  #engagement(proposalId: string): ReceivedTask {
    const task = this.#table.receivedBy(proposalId);
    if (task) return task;
    const reason = `there is no proposal "${proposalId}" to ${this.agentId}`;
    throw new EclipticError('PROPOSAL_NOT_FOUND', reason, { proposalId });
  }

  /** Proposals that this agent made, those of an earlier run too, as far as they are remembered. */
  get negotiations(): readonly Negotiation[] {
    return this.#table.sent;
  }

  /** @internal Proposals that it made and got, as far as they are remembered. */
  get sides(): readonly ProposalSide[] {
    return [...this.#table.sent, ...this.#table.received];
  }

  /** How many answers were refused, by reason. */
  get refusedAnswers(): Readonly<Record<RefusedAnswer, number>> {
    return this.#context.refusedAnswers;
  }

  /** Takes an envelope that belongs to a proposal; false for any other. */
  take(envelope: ValidEnvelope): boolean {
    return this.#inbound.take(envelope);
  }

  /** Hands over the open proposals of an earlier run. */
  resume(): void {
    for (const task of this.#restored) {
      const { status, work } = task.state;
      this.#restored.delete(task);
      if (status === 'pending' || work === 'open') this.#handOver(task);
    }
  }

  /** This agent leaves. The other sides are told; durable proposals wait until it joins again. */
  end(error: EclipticError): void {
    if (this.#context.ended) return;
    for (const sent of this.#table.sent) if (!sent.durable) sent.withdraw(`${this.agentId} has left`);
    for (const task of this.#table.received) task.leave(error);
    this.#context.end();
    const { open } = this.#table;
    for (const side of open) this.#context.deadlines.remove(side);
    const rows = open.flatMap((side) => (side.durable ? [side.row] : []));
    this.#components.records?.giveBack(this.agentId, rows);
  }

  #assertRoom({ durable }: Pick<ProposalInit, 'durable'>, wanted: number): void {
    if (this.#context.ended) throw new EclipticError('NODE_STOPPED', `agent "${this.agentId}" has left`);
    if (durable && !this.#components.records) {
      throw new EclipticError('STORE_REQUIRED', 'a durable proposal needs a node with a store');
    }
    if (this.#table.openSent + wanted <= this.#maxOpen) return;
    throw new EclipticError('PROPOSALS_FULL', `${this.#maxOpen} proposals of ${this.agentId} are open already`);
  }

  /** The addresses of agents that have all the capabilities, the best first. */
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

  /** The address that answers will come from. The router refuses an unknown one. */
  #addressOf(to: string, asked: readonly string[] | undefined, justification: string | undefined): string {
    const { registry, router } = this.#components;
    const known = registry.entry(to) ?? this.#candidate(to);
    // A handler may have been attached since another node sent its card; only its owner staffs a role.
    const current = known && (known.node === undefined || known.card.status?.fix !== undefined);
    const vacancy = current ? vacancyFor(known.card, 'proposal', asked) : undefined;
    // An agent that policy hides from the proposer is refused by the router, for that reason alone.
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

  /** Takes a new proposal; returns the reason if it cannot. */
  #arrive(terms: ReceivedTerms, weight: number): string | undefined {
    if (terms.payload.durable && !this.#components.records) return 'store-required';
    if (this.#table.openReceived >= this.#maxOpen) return 'busy';
    const task = new ReceivedTask(this.#context, terms, this.#onClosed);
    task.weight = weight;
    this.#add(task);
    task.start(() => this.#handOver(task));
    return undefined;
  }

  #handOver(task: ReceivedTask): void {
    this.#init.onReceived?.(task);
    this.#observers.call(task.proposal);
  }

  #add(side: SentProposal | ReceivedTask): void {
    this.#table.add(side);
    if (side.durable || this.#context.isRemote(side.peer)) this.#context.rechecks.add(side);
  }

  readonly #onClosed = (side: ProposalSide): void => {
    if (this.#table.close(side)) this.#context.rechecks.remove(side);
  };

  #restore(): void {
    const groups = new Map<string, SentProposal[]>();
    for (const row of this.#components.records?.take(this.agentId) ?? []) {
      const side = (row.side === 'sent' ? SentProposal : ReceivedTask).restore(this.#context, row, this.#onClosed);
      this.#add(side);
      if (row.open === 0) this.#onClosed(side);
      if (side instanceof ReceivedTask) this.#restored.add(side);
      else if (side.terms.group !== undefined) {
        groups.set(side.terms.group, [...(groups.get(side.terms.group) ?? []), side]);
      }
    }
    for (const [group, sides] of groups) new ContractNet(this.#context.callbackFailed, group, sides);
  }
}
