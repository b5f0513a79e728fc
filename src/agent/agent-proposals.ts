import type { EnvelopeFactory, ValidEnvelope } from '../mesh/envelope.js';
import type { AgentCard } from '../mesh/schemas.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import { FailedNegotiation } from '../work/proposals/failed-negotiation.js';
import type { Bid, Engagement, Negotiation, ProposalHandler, ProposalInit } from '../work/proposals/proposal.js';
import type { ReceivedTask } from '../work/proposals/received-task.js';
import { Negotiator, type NegotiatorComponents } from '../work/proposals/task-negotiator.js';
import { asInvitation } from '../work/swarm/invitation.js';
import { type AgentTasks, type TaskOpening, type TaskReport, taskIn } from './agent-tasks.js';
import { contentOf, JobResult } from './job-result.js';
import { Message } from './message.js';

/** What of an agent does the work of proposals where nobody decides about them. */
export interface Worker {
  /** Of an agent that works on tasks. */
  readonly tasks: AgentTasks | undefined;
  /** Of one that answers requests. */
  readonly answer: ((message: Message) => unknown) | undefined;
}

export interface AgentProposalsComponents extends NegotiatorComponents {
  factory: EnvelopeFactory;
  card: () => AgentCard;
  worker: () => Worker;
  /** Why the agent has no worker for proposals. */
  refusal: () => EclipticError;
  /** Told when the agent's author listens for proposals in another way than by a handler. */
  onObserved: () => void;
  /** Takes part in a swarm, if that is what was proposed and accepted. */
  enterSwarm: (engagement: Engagement, from: string, bid?: Bid) => boolean;
}

/** Work for the agent's own handler. */
export type Job = Pick<
  ReceivedTask,
  'terms' | 'thread' | 'resumed' | 'signal' | 'from' | 'progress' | 'complete' | 'fail'
> &
  Partial<Pick<ReceivedTask, 'finish'>>;

/** One agent's proposals: what it makes, and what it does with those made to it. */
export class AgentProposals {
  readonly negotiator: Negotiator;
  readonly #components: AgentProposalsComponents;
  #handler: ProposalHandler | undefined;
  #resuming = false;

  constructor(components: AgentProposalsComponents) {
    this.#components = components;
    const { onObserved } = components;
    this.negotiator = new Negotiator(components, { onReceived: (task) => this.#decide(task), onObserved });
  }

  propose(init: ProposalInit): Negotiation {
    return this.#made(init, () => this.negotiator.open(init));
  }

  proposeToAll(init: Omit<ProposalInit, 'to'>): Negotiation {
    return this.#made(init, () => this.negotiator.openToAll(init));
  }

  handle(handler: ProposalHandler): void {
    this.#handler = handler;
    this.resume();
  }

  take(envelope: ValidEnvelope): boolean {
    return this.negotiator.take(envelope);
  }

  /** The agent has a handler: what an earlier run left open goes on, once the author has said everything. */
  resume(): void {
    if (this.#resuming) return;
    this.#resuming = true;
    this.#components.runtime.defer(() => {
      this.#resuming = false;
      this.negotiator.resume();
    });
  }

  end(error: EclipticError): void {
    this.negotiator.end(error);
  }

  #made(init: ProposalInit, make: () => Negotiation): Negotiation {
    try {
      return make();
    } catch (error) {
      const { runtime, sender } = this.#components;
      return new FailedNegotiation(runtime.id(), sender.agentId, init, toEclipticError(error, 'HANDLER_FAILED'));
    }
  }

  #decide(task: ReceivedTask): void {
    if (this.#handler) {
      this.#ask(this.#handler, task);
      return;
    }
    if (this.negotiator.observed) return;
    const { tasks, answer } = this.#components.worker();
    if (!tasks && !answer) {
      const { code, message } = this.#components.refusal();
      decline(task, `${code}: ${message}`);
      return;
    }
    const { capabilities } = this.#components.card();
    if (!task.terms.payload.requiredCapabilities.every((wanted) => capabilities.some(({ id }) => id === wanted))) {
      decline(task, 'missing-capability');
      return;
    }
    task.engage({}, (engaged) => {
      if (this.#components.enterSwarm(engaged, engaged.from)) return;
      this.undertake(engaged);
    });
  }

  /** Gives work to the agent's task or request handler. False where it has neither. */
  undertake(job: Job): boolean {
    const { tasks, answer } = this.#components.worker();
    if (tasks) this.#work(job, tasks);
    else if (answer) this.#answer(job, answer);
    return tasks !== undefined || answer !== undefined;
  }

  /** Asks the author's handler. What it throws is a rejection, or, once it has accepted, the end of the work. */
  #ask(handler: ProposalHandler, task: ReceivedTask): void {
    const failed = (error: unknown) => {
      this.#components.runtime.logger.error({ proposal: task.id, err: error }, 'a proposal handler failed');
      const { status, offer, work } = task.state;
      if (work === 'open') fail(task, error);
      else if (status === 'pending' && !offer) decline(task, 'handler-failed');
    };
    try {
      const result = handler(asInvitation(task, this.#components.enterSwarm));
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** One that only answers requests is asked what is proposed, with what was given along. */
  #answer(task: Job, answer: (message: Message) => unknown): void {
    const { taskDescription, input } = task.terms.payload;
    const payload = input === undefined ? taskDescription : { taskDescription, input };
    this.#run(task, () => answer(this.#message(task, payload)));
  }

  #work(task: Job, tasks: AgentTasks): void {
    const { proposalId: id, taskDescription, input } = task.terms.payload;
    const parts = [{ text: taskDescription }, ...(input === undefined ? [] : [{ data: input }])];
    const message = { messageId: id, role: 'ROLE_USER', parts, contextId: task.thread, taskId: id } as const;
    const opening: TaskOpening = { id, contextId: task.thread, message, resumed: task.resumed };
    task.signal.addEventListener('abort', () => tasks.take(task.from, { id, cancel: true }));
    this.#run(task, () => tasks.run(this.#message(task), opening));
  }

  #run(task: Job, work: () => unknown): void {
    try {
      const value = work();
      if (value instanceof Promise) {
        value.then((settled) => this.#finish(task, settled)).catch((error) => fail(task, error));
      } else this.#finish(task, value);
    } catch (error) {
      fail(task, error);
    }
  }

  #finish(task: Job, value: unknown): void {
    if (isAsyncIterable(value)) return void this.#follow(task, value).catch((error) => fail(task, error));
    const result = new JobResult();
    const report = taskIn<TaskReport>(value);
    if (report) this.#hear(task, report, result);
    complete(task, report ? result.value : value);
  }

  /** Work that says how it goes on: reports are progress or pieces of the result. */
  async #follow(task: Job, source: AsyncIterable<unknown>): Promise<void> {
    const result = new JobResult();
    for await (const item of source) {
      if (task.signal.aborted) break;
      const report = taskIn<TaskReport>(item);
      if (report) this.#hear(task, report, result);
      else result.addChunk(item);
    }
    if (!task.signal.aborted) complete(task, result.value);
  }

  #hear(task: Job, report: TaskReport, result: JobResult): void {
    switch (report.report) {
      case 'accepted':
      case 'took':
        return;
      case 'working':
        if (report.parts) task.progress(contentOf(report.parts));
        return;
      case 'artifact':
        result.addArtifact(report);
        return;
      case 'message':
        result.addMessage(report.parts);
        return;
      case 'rejected':
        throw new EclipticError('PROPOSAL_REJECTED', String(contentOf(report.parts)));
      default:
        throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the work of a proposal cannot ask its proposer anything');
    }
  }

  #message(task: Job, said?: unknown): Message {
    const { sender, factory } = this.#components;
    const { envelope, payload, from, thread } = task.terms;
    const made = envelope ?? factory.createFrom(from, sender.agentId, 'task-proposal', payload, thread);
    return new Message(made, undefined, said);
  }
}

function decline(task: ReceivedTask, reason: string): void {
  task.reject(reason).catch(() => {});
}

function complete(task: Job, value: unknown): void {
  const failed = (error: unknown) => fail(task, error);
  try {
    if (task.finish) task.finish(value ?? null, undefined, failed);
    else task.complete(value ?? null).catch(failed);
  } catch (error) {
    failed(error);
  }
}

/** Whoever failed too late to be heard failed alone. */
function fail(task: Job, error: unknown): void {
  task.fail(error).catch(() => {});
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
