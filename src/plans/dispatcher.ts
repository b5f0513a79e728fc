import type { Agent } from '../agent/agent.js';
import type { AgentRegistry } from '../mesh/registry.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Negotiation } from '../work/proposals/proposal.js';
import type { LoopTask } from './loop-state.js';
import type { PlanTask } from './plan-schema.js';
import type { RunRecord } from './run-records.js';

/** What the loop needs of an agent that hands out tasks. */
export type LoopAgent = Pick<Agent, 'id' | 'propose' | 'negotiations' | 'request' | 'swarm' | 'swarms'>;

export type AgentById = (id: string) => LoopAgent;

/** What the worker of a task gets besides its description. */
export interface TaskInput {
  readonly run: string;
  readonly task: string;
  /** From 1 on. Above 1, earlier attempts failed, were to be revised, or were broken off when the node stopped. */
  readonly attempt: number;
  readonly input?: unknown;
  /** Results of the tasks that it depends on, by their ids. */
  readonly results: Readonly<Record<string, unknown>>;
  /** Feedback on earlier attempts, the latest last. */
  readonly feedback?: readonly string[];
  /** The JSON Schema that the result must match. */
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  /** Acceptance criteria by which the result is judged. */
  readonly criteria?: readonly string[];
}

/** One attempt at one task. */
export interface Assignment {
  readonly run: RunRecord;
  readonly task: PlanTask;
  readonly settings: LoopTask;
  readonly input: TaskInput;
  /** Earlier attempts, the latest first, that were under way when the node stopped; an agent may still work on them. */
  readonly lost: readonly number[];
  /** Aborted when the result is not wanted any more; with `NODE_STOPPED`, until the node runs again. */
  readonly signal: AbortSignal;
  /** The agent of the latest attempt: it knows the work, and the feedback is about its result. */
  readonly before?: string | undefined;
  onProgress(value: unknown, by?: string): void;
  /** An agent has accepted the task. */
  onAccepted(by: string): void;
}

export interface Dispatched {
  readonly result: unknown;
  /** The agents that did it. */
  readonly by?: string | undefined;
}

/** Gives a task to agents. Rejects with a typed error when it was refused, failed, or took too long. */
export interface Dispatcher {
  dispatch(assignment: Assignment): Promise<Dispatched>;
}

/** Is the work given up only because the node stops? Then agents elsewhere go on with it until the node runs again. */
export function isNodeStopping(signal: AbortSignal): boolean {
  return reasonOf(signal).code === 'NODE_STOPPED';
}

export function reasonOf({ reason }: AbortSignal): EclipticError {
  return reason instanceof EclipticError ? reason : new EclipticError('CANCELLED', 'the result is not wanted any more');
}

/** The prefix of the threads of a run's tasks. */
export function planThreads(run: string): string {
  return `plan:${run}:`;
}

/** What the dispatcher asks about agents. */
interface Workers {
  /** Can the agent that had the task before take it again? */
  canStill(agent: string | undefined, task: PlanTask, as: string): boolean;
}

/** How long an agent has to accept or reject a task. */
const ANSWER_MS = 30_000;

/** Hands tasks out by negotiation: proposed to one agent, done by the one that accepts. */
export class AgentDispatcher implements Dispatcher {
  readonly #runtime: Runtime;
  readonly #agent: AgentById;
  readonly #registry: AgentRegistry;
  readonly #workers: Workers;

  constructor(
    { runtime, agent, registry }: { runtime: Runtime; agent: AgentById; registry: AgentRegistry },
    workers: Workers,
  ) {
    this.#runtime = runtime;
    this.#agent = agent;
    this.#registry = registry;
    this.#workers = workers;
  }

  async dispatch(assignment: Assignment): Promise<Dispatched> {
    const { run, task, signal, onProgress, onAccepted } = assignment;
    const agent = this.#agent(run.agent);
    const negotiation = leftOver(agent, assignment) ?? this.#propose(agent, assignment);
    negotiation.answered.then(
      ({ acceptedBy }) => acceptedBy !== undefined && onAccepted(acceptedBy),
      () => {}, // The result rejects likewise.
    );
    const stop = negotiation.onProgress((value) => onProgress(value, negotiation.to));
    const withdraw = () => {
      if (isNodeStopping(signal) && this.#isElsewhere(task.agent)) return;
      negotiation.withdraw(`the result of the task "${task.id}" is not wanted any more`);
    };
    signal.addEventListener('abort', withdraw, { once: true });
    if (signal.aborted) withdraw();
    try {
      return { result: await negotiation.result, by: negotiation.proposal.acceptedBy };
    } finally {
      stop();
      signal.removeEventListener('abort', withdraw);
    }
  }

  #propose(agent: LoopAgent, assignment: Assignment): Negotiation {
    const { run, task, settings, input, before } = assignment;
    const to = task.agent ?? (this.#workers.canStill(before, task, run.agent) ? before : undefined);
    return agent.propose({
      ...(to !== undefined && { to }),
      taskDescription: task.description,
      requiredCapabilities: task.capabilities ?? [],
      estimatedComplexity: task.complexity ?? 'medium',
      deadlineMs: Math.min(ANSWER_MS, settings.timeoutMs),
      input,
      justification: `task "${task.id}" of the plan "${run.name}"`,
      // Work on this node ends with the node, so its thread must not be found by a later attempt.
      ...(this.#isElsewhere(task.agent)
        ? { durable: true, thread: threadOf(assignment, input.attempt) }
        : { thread: `${threadOf(assignment, input.attempt)}:${this.#runtime.id()}` }),
    });
  }

  /** An agent of another node goes on with its work when this node stops. */
  #isElsewhere(agent: string | undefined): boolean {
    return agent !== undefined && this.#registry.getById(agent)?.node !== undefined;
  }
}

/** The proposal of an attempt before this node stopped: its answer may have come, or may still come. */
function leftOver(agent: LoopAgent, assignment: Assignment): Negotiation | undefined {
  const threads = new Set(assignment.lost.map((attempt) => threadOf(assignment, attempt)));
  return agent.negotiations.findLast(({ proposal }) => threads.has(proposal.correlationId));
}

function threadOf({ run, task }: Assignment, attempt: number): string {
  return `${planThreads(run.id)}${task.id}:${attempt}`;
}
