import type { AgentCard } from '../mesh/schemas.js';
import { workedCapabilities } from '../mesh/staffing.js';
import { type EclipticError, toEclipticError } from '../runtime/errors.js';
import type {
  Bid,
  Engagement,
  Negotiation,
  ProposalHandler,
  ProposalInit,
  TaskProposal,
} from '../work/proposals/proposal.js';
import type { ReceivedTask } from '../work/proposals/received-task.js';
import { type NegotiatorComponents, TaskNegotiator } from '../work/proposals/task-negotiator.js';
import { asInvitation } from '../work/swarm/recruiting.js';
import type { GivenWork } from './given-work.js';

export interface AgentProposalsComponents extends NegotiatorComponents {
  card: () => AgentCard;
  /** Does the agent have a handler that can do the work of proposals? */
  isStaffed: () => boolean;
  /** Gives work to that handler. */
  undertake: (work: GivenWork) => void;
  /** Why the agent has no worker for proposals. */
  refusal: () => EclipticError;
  /** Called when the agent's author subscribes to proposals instead of attaching a handler. */
  onObserved: () => void;
  /** Takes part in a swarm; false if the accepted proposal was not about a swarm. */
  enterSwarm: (engagement: Engagement, from: string, bid?: Bid) => boolean;
}

/** One agent's proposals: those it makes, and what it does with those made to it. */
export class AgentProposals {
  readonly negotiator: TaskNegotiator;
  readonly #components: AgentProposalsComponents;
  #handler: ProposalHandler | undefined;
  #resuming = false;

  constructor(components: AgentProposalsComponents) {
    this.#components = components;
    const { onObserved } = components;
    this.negotiator = new TaskNegotiator(components, { onReceived: (task) => this.#decide(task), onObserved });
  }

  propose(init: ProposalInit): Negotiation {
    return this.#tryTo(init, () => this.negotiator.open(init));
  }

  proposeToAll(init: Omit<ProposalInit, 'to'>): Negotiation {
    return this.#tryTo(init, () => this.negotiator.openToAll(init));
  }

  handle(handler: ProposalHandler): void {
    this.#handler = handler;
    this.resume();
  }

  /** The agent has a handler: proposals of an earlier run go on, once the author has attached everything. */
  resume(): void {
    if (this.#resuming) return;
    this.#resuming = true;
    this.#components.runtime.defer(() => {
      this.#resuming = false;
      this.negotiator.resume();
    });
  }

  #tryTo(init: ProposalInit, make: () => Negotiation): Negotiation {
    try {
      return make();
    } catch (error) {
      const { runtime, sender } = this.#components;
      return failedNegotiation(runtime.id(), sender.agentId, init, toEclipticError(error, 'HANDLER_FAILED'));
    }
  }

  #decide(task: ReceivedTask): void {
    if (this.#handler) return void this.#ask(this.#handler, task);
    if (this.negotiator.observed) return;
    const { isStaffed, refusal, card, enterSwarm, undertake } = this.#components;
    if (!isStaffed()) {
      const { code, message } = refusal();
      return void decline(task, `${code}: ${message}`);
    }
    const { capabilities } = card();
    const wanted = task.capabilities;
    if (!wanted.every((one) => capabilities.some(({ id }) => id === one))) {
      return void decline(task, 'missing-capability');
    }
    const worked = workedCapabilities(card());
    if (!wanted.every((one) => worked.includes(one))) {
      const { code, message } = refusal();
      return void decline(task, `${code}: ${message}`);
    }
    task.engage({}, (engaged) => {
      if (!enterSwarm(engaged, engaged.from)) undertake(engaged);
    });
  }

  /** Asks the author's handler. An error that it throws is a rejection, or, once it has accepted, the end of the work. */
  #ask(handler: ProposalHandler, task: ReceivedTask): void {
    const failed = (error: unknown) => {
      this.#components.runtime.logger.error({ proposal: task.id, err: error }, 'proposal handler failed');
      const { status, offer, work } = task.state;
      if (work === 'open') task.fail(error).catch(() => {});
      else if (status === 'pending' && !offer) decline(task, 'handler-failed');
    };
    try {
      const result = handler(asInvitation(task, this.#components.enterSwarm));
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}

function decline(task: ReceivedTask, reason: string): void {
  task.reject(reason).catch(() => {});
}

/** A proposal that could not be made: its promises reject with the reason. */
function failedNegotiation(id: string, proposer: string, init: ProposalInit, error: EclipticError): Negotiation {
  const rejected = Promise.reject<never>(error);
  rejected.catch(() => {});
  const proposal: TaskProposal = {
    proposalId: id,
    taskDescription: init.taskDescription,
    requiredCapabilities: [...(init.requiredCapabilities ?? [])],
    estimatedComplexity: init.estimatedComplexity ?? 'medium',
    deadlineMs: init.deadlineMs ?? 0,
    proposerAgentId: proposer,
    status: 'rejected',
    rejectionReason: error.code,
    correlationId: init.thread ?? id,
  };
  const nothing = () => {};
  const promises = { sent: rejected, answered: rejected, result: rejected };
  return { proposal, to: undefined, durable: false, ...promises, onProgress: () => nothing, withdraw: nothing };
}
