import type { AgentRegistry } from '../mesh/registry.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Negotiation } from '../work/proposals/proposal.js';
import type { Assignment, Dispatched, Dispatcher } from './dispatcher.js';
import { type AgentById, isNodeStopping, type LoopAgent } from './loop-agent.js';
import { planThreads } from './plan-threads.js';

export interface AgentDispatcherComponents {
  readonly runtime: Runtime;
  readonly agent: AgentById;
  readonly registry: AgentRegistry;
}

/** How long an agent has to say whether it takes a task. */
const ANSWER_MS = 30_000;

/** Hands tasks out by negotiation: proposed to one agent, done by whoever accepts. */
export class AgentDispatcher implements Dispatcher {
  readonly #runtime: Runtime;
  readonly #agent: AgentById;
  readonly #registry: AgentRegistry;

  constructor({ runtime, agent, registry }: AgentDispatcherComponents) {
    this.#runtime = runtime;
    this.#agent = agent;
    this.#registry = registry;
  }

  async dispatch(assignment: Assignment): Promise<Dispatched> {
    const { run, task, signal, onProgress } = assignment;
    const agent = this.#agent(run.agent);
    const negotiation = leftOver(agent, assignment) ?? this.#propose(agent, assignment);
    const stop = negotiation.onProgress((value) => onProgress(value, negotiation.to));
    const withdraw = () => {
      if (isNodeStopping(signal) && this.#isElsewhere(task.agent)) return;
      negotiation.withdraw(`the task "${task.id}" is not waited for any more`);
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
    const { run, task, settings, input } = assignment;
    return agent.propose({
      ...(task.agent !== undefined && { to: task.agent }),
      taskDescription: task.description,
      requiredCapabilities: task.capabilities ?? [],
      estimatedComplexity: task.complexity ?? 'medium',
      deadlineMs: Math.min(ANSWER_MS, settings.timeoutMs),
      input,
      justification: `task "${task.id}" of the plan "${run.name}"`,
      // Work of this node ends with it: an attempt of an earlier start is not found again by its thread.
      ...(this.#isElsewhere(task.agent)
        ? { durable: true, thread: threadOf(assignment, input.attempt) }
        : { thread: `${threadOf(assignment, input.attempt)}:${this.#runtime.id()}` }),
    });
  }

  /** One of another node goes on with its work when this node stops; one of this node stops with it. */
  #isElsewhere(agent: string | undefined): boolean {
    return agent !== undefined && this.#registry.getById(agent)?.node !== undefined;
  }
}

/** What an attempt proposed before this node stopped: its answer may have come, or may yet. */
function leftOver(agent: LoopAgent, assignment: Assignment): Negotiation | undefined {
  const threads = new Set(assignment.lost.map((attempt) => threadOf(assignment, attempt)));
  return agent.negotiations.findLast(({ proposal }) => threads.has(proposal.correlationId));
}

function threadOf({ run, task }: Assignment, attempt: number): string {
  return `${planThreads(run.id)}${task.id}:${attempt}`;
}
