import { createHash } from 'node:crypto';
import { NO_USAGE, USAGE, type Usage } from '../agent/usage.js';
import { untilAborted } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import { planByCapability, readPlan, type SwarmPlan } from '../work/swarm/swarm-plan.js';
import type { SwarmOutcome } from '../work/swarm/swarm-records.js';
import type { SwarmSession } from '../work/swarm/swarm-session.js';
import { waitingReport } from '../work/waiting-report.js';
import { valueIn } from './answers.js';
import type { Assignment, Dispatched, Dispatcher } from './dispatcher.js';
import { type AgentById, isNodeStopping, type LoopAgent, reasonOf } from './dispatcher.js';
import { splitQuestion } from './questions.js';
import { usageOf } from './run-news.js';

/** Hands tasks out to swarms. A problem that the swarm cannot solve comes back to the loop. */
export class SwarmDispatcher implements Dispatcher {
  readonly #agent: AgentById;

  constructor(agent: AgentById) {
    this.#agent = agent;
  }

  /** Does a swarm of an earlier process work on this task, although the task names no swarm? */
  isUnderWay(assignment: Assignment): boolean {
    if (assignment.task.capabilities === undefined || assignment.lost.length === 0) return false;
    return leftOver(this.#agent(assignment.run.agent), assignment) !== undefined;
  }

  async dispatch(assignment: Assignment): Promise<Dispatched> {
    const { run, task, signal, onProgress } = assignment;
    const agent = this.#agent(run.agent);
    const id = leftOver(agent, assignment) ?? (await this.#form(agent, assignment));
    const { swarms } = agent;
    let counted = spentBy(swarms.getSwarm(id));
    const report = (session: SwarmSession | undefined) => {
      const all = spentBy(session);
      const more = all && difference(all, counted ?? NO_USAGE);
      if (more) onProgress({ [USAGE]: more });
      counted = all ?? counted;
    };
    const stops = [
      swarms.watch(id, (session) => {
        report(session);
        onProgress(waitingReport(decisionsIn(session)));
        onProgress(boardOf(session));
      }),
      swarms.onEscalation((escalation) => {
        if (escalation.swarmId === id) onProgress({ escalation });
      }),
    ];
    try {
      const outcome = await untilAborted(ending(swarms, id), signal);
      report(swarms.getSwarm(id));
      if (outcome.status === 'failed') throw failureOf(task.id, outcome);
      const by = swarms.getSwarm(id)?.participants.join(', ');
      return { result: task.swarm!.aggregator === undefined ? outcome.results : outcome.aggregate, by };
    } catch (error) {
      if (signal.aborted && !isNodeStopping(signal)) swarms.cancelSwarm(id, reasonOf(signal).message);
      throw error;
    } finally {
      for (const stop of stops) stop();
    }
  }

  async #form(agent: LoopAgent, assignment: Assignment): Promise<string> {
    const { run, task, input, signal } = assignment;
    const { capabilities, aggregator } = task.swarm!;
    const swarm = agent.swarm(task.description, {
      id: swarmId(assignment, input.attempt),
      capabilities,
      plan: await this.#split(agent, assignment),
      ...(aggregator !== undefined && { aggregator }),
      justification: `task "${task.id}" of the plan "${run.name}"`,
    });
    try {
      await untilAborted(swarm.active, signal);
    } catch (error) {
      // The swarm may still be formed, and nothing waits for it.
      if (signal.aborted) swarm.active.then(() => swarm.cancel(reasonOf(signal).message)).catch(() => {});
      throw error;
    }
    return swarm.id;
  }

  /** The sub-tasks; each gets the input of the whole task. */
  async #split(agent: LoopAgent, { task, settings, input, signal }: Assignment): Promise<SwarmPlan> {
    const { capabilities, planner, subTasks } = task.swarm!;
    const ask = async (to: string) => {
      const question = splitQuestion(task.description, capabilities, input);
      return valueIn(await agent.request(to, question, { timeoutMs: settings.timeoutMs, signal }), { anywhere: true });
    };
    const said = subTasks ?? (planner === undefined ? undefined : await ask(planner));
    // The schema is that of the whole result.
    const { outputSchema: _, ...shared } = input;
    const { description: whole } = task;
    const parts = said === undefined ? planByCapability(whole, capabilities) : readPlan(said, whole);
    return parts.map(({ id, description, requiredCapabilities, dependsOn, input: own }) => ({
      id,
      description,
      requiredCapabilities: [...requiredCapabilities],
      dependsOn: [...dependsOn],
      input: { ...shared, ...(own !== undefined && { input: own }) },
    }));
  }
}

/** The swarm of an attempt before this node stopped: its members may have gone on without this node. */
function leftOver({ swarms }: LoopAgent, assignment: Assignment): string | undefined {
  const ids = assignment.lost.map((attempt) => swarmId(assignment, attempt));
  return ids.find((id) => swarms.isIn(id));
}

/** Short, because it is part of a document's name. */
function swarmId({ run, task }: Assignment, attempt: number): string {
  return `${run.id}-${createHash('sha256').update(task.id).digest('hex').slice(0, 12)}-${attempt}`;
}

/** Waits through stalls: the task's own time is the limit. */
async function ending(swarms: LoopAgent['swarms'], id: string): Promise<SwarmOutcome> {
  for (;;) {
    try {
      return await swarms.finished(id);
    } catch (error) {
      if (!(error instanceof EclipticError) || error.code !== 'SWARM_STALLED') throw error;
    }
  }
}

/** A short report: every change is reported. */
function boardOf({ id, status, subTasks }: SwarmSession): object {
  const done = subTasks.filter((one) => one.status === 'completed').length;
  return { swarm: id, status, done, of: subTasks.length };
}

/** The decisions of owners that sub-tasks wait for. */
function decisionsIn({ subTasks }: SwarmSession): number {
  return subTasks.reduce((all, { waiting = 0 }) => all + waiting, 0);
}

/** The usage of all sub-tasks so far. */
function spentBy(session: SwarmSession | undefined): Usage | undefined {
  return usageOf(session?.subTasks ?? []);
}

/** What came since; undefined if nothing did. */
function difference(all: Usage, before: Usage): Usage | undefined {
  const cost = (all.costUsd ?? 0) - (before.costUsd ?? 0);
  const more: Usage = {
    inputTokens: all.inputTokens - before.inputTokens,
    outputTokens: all.outputTokens - before.outputTokens,
    modelCalls: all.modelCalls - before.modelCalls,
    ...(cost > 0 && { costUsd: cost }),
  };
  return Object.values(more).some((amount) => amount > 0) ? more : undefined;
}

function failureOf(task: string, { reason, escalations, swarmId: swarm }: SwarmOutcome): EclipticError {
  const named = escalations.map(({ subTask, kind, reason: why }) => `${subTask ?? 'the swarm'}: ${kind}: ${why}`);
  const what = [reason ?? `the swarm for "${task}" failed`, ...named].join('; ');
  return new EclipticError('SWARM_FAILED', what, { swarm, escalations });
}
