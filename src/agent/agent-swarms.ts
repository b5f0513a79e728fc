import type { SharedDocument } from '../documents/document.js';
import type { Sender } from '../mesh/message-sender.js';
import type { AgentCard } from '../mesh/schemas.js';
import { workedCapabilities } from '../mesh/staffing.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { SwarmCoordinator, SwarmOptions } from '../work/swarm/swarm-coordinator.js';
import type { WorkInHand } from '../work/swarm/swarm-participation.js';
import type { SwarmEscalation, SwarmOutcome } from '../work/swarm/swarm-records.js';
import type { SwarmSession } from '../work/swarm/swarm-session.js';
import type { Swarms } from '../work/swarm/swarms.js';
import type { AgentProposals } from './agent-proposals.js';
import { type GivenWork, requestOf } from './given-work.js';

export interface SwarmInit extends SwarmOptions {
  /** Agents with one of these are invited. */
  capabilities: readonly string[];
}

/** A swarm as its creator follows it. */
export interface SwarmRun {
  readonly id: string;
  /** Undefined until it is active. */
  readonly session: SwarmSession | undefined;
  /** Resolves when it is active; rejects when it could not be formed. */
  readonly active: Promise<SwarmSession>;
  /**
   * All results. Rejects typed: `SWARM_FAILED` with the outcome so far, `SWARM_STALLED` while nothing can be settled
   * (ask `finished` again then), or why it was not formed.
   */
  readonly result: Promise<SwarmOutcome>;
  /** The members' shared document, once it is active. */
  readonly document: SharedDocument | undefined;
  /** Calls back with the swarm whenever it has changed. */
  onChange(handler: (session: SwarmSession) => void): () => void;
  onEscalation(handler: (escalation: SwarmEscalation) => void): () => void;
  /** Ends it, as failed for that reason. */
  cancel(reason: string): void;
}

export interface AgentSwarmsComponents {
  runtime: Runtime;
  swarms: Swarms;
  sender: Sender;
  card: () => AgentCard;
  proposals: () => AgentProposals;
  /** Gives work to the agent's own handler; false where it has none. */
  undertake: (work: GivenWork) => boolean;
  ask: (to: string, payload: unknown, timeoutMs: number) => Promise<unknown>;
}

/** What the worker of a sub-task gets besides its description. */
export interface SubTaskInput {
  readonly swarm: string;
  readonly subTask: string;
  /** The task of the whole swarm. */
  readonly task: string;
  readonly input?: unknown;
  /** Results of the sub-tasks that it depends on, by their ids. */
  readonly results: Readonly<Record<string, unknown>>;
}

/** One agent's swarms: its own handler does its share of the work. */
export class AgentSwarms {
  readonly coordinator: SwarmCoordinator;
  readonly #components: AgentSwarmsComponents;

  constructor(components: AgentSwarmsComponents) {
    this.#components = components;
    const { swarms, sender, card, proposals, ask } = components;
    this.coordinator = swarms.coordinator(sender, {
      capabilities: () => workedCapabilities(card()),
      load: () => proposals().negotiator.load,
      work: (work) => this.#work(work),
      propose: (init) => proposals().propose(init),
      ask,
    });
  }

  run(task: string, { capabilities, ...options }: SwarmInit): SwarmRun {
    const { coordinator } = this;
    const id = options.id ?? this.#components.runtime.id();
    const active = coordinator.createSwarm(task, capabilities, { ...options, id });
    const result = active.then(() => coordinator.finished(id)).then(wholeOutcome);
    // A caller may use only one of the two promises.
    active.catch(() => {});
    result.catch(() => {});
    return {
      id,
      active,
      result,
      get session() {
        return coordinator.getSwarm(id);
      },
      get document() {
        return coordinator.document(id);
      },
      onChange: (handler) => follow(active, () => coordinator.watch(id, handler)),
      onEscalation: (handler) =>
        coordinator.onEscalation((escalation) => (escalation.swarmId === id ? handler(escalation) : undefined)),
      cancel: (reason) => coordinator.cancelSwarm(id, reason),
    };
  }

  #work(work: WorkInHand): Promise<unknown> | undefined {
    const { swarmId, subTask, description: taskDescription, task, dependencies: results, signal } = work;
    const input: SubTaskInput = {
      swarm: swarmId,
      subTask,
      task,
      ...(work.input !== undefined && { input: work.input }),
      results,
    };
    const { runtime, sender, undertake } = this.#components;
    const from = sender.agentId;
    const thread = `swarm:${swarmId}`;
    const about = {
      id: runtime.id(),
      taskDescription,
      input,
      from,
      thread,
      // Of the message that gives the work: the swarm's document may come later.
      capabilities: work.requiredCapabilities,
      asker: work.creator,
      resumed: false,
      signal,
    };
    let begun = false;
    const done = new Promise<unknown>((resolve, reject) => {
      begun = undertake({
        ...about,
        envelope: (factory) => factory.createFrom(from, from, 'request', requestOf(about), thread),
        progress: (value) => work.progress(value),
        finish: resolve,
        fail: async (error) => reject(error),
      });
    });
    return begun ? done : undefined;
  }
}

/** Subscribes once the swarm has begun, unless it was unsubscribed before. */
function follow(begun: Promise<unknown>, begin: () => () => void): () => void {
  let stop: (() => void) | undefined;
  let stopped = false;
  begun.then(
    () => {
      if (!stopped) stop = begin();
    },
    () => {},
  );
  return () => {
    stopped = true;
    stop?.();
  };
}

function wholeOutcome(outcome: SwarmOutcome): SwarmOutcome {
  if (outcome.status === 'completed') return outcome;
  throw new EclipticError('SWARM_FAILED', outcome.reason ?? 'the swarm failed', { outcome });
}
