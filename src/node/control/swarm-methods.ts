import type { Agent } from '../../agent/agent.js';
import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Coordinator } from '../../work/swarm/swarm-coordinator.js';
import type { SwarmPlan } from '../../work/swarm/swarm-plan.js';
import type { SwarmEscalation } from '../../work/swarm/swarm-records.js';
import type { SwarmSession, SwarmSubTask } from '../../work/swarm/swarm-session.js';
import type { Swarms } from '../../work/swarm/swarms.js';
import { fitting } from './page.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';
import { completeId } from './short-ids.js';

/** A swarm on one line. */
export interface SwarmRow {
  readonly id: string;
  readonly task: string;
  readonly status: SwarmSession['status'];
  readonly arbiter: string;
  readonly epoch: number;
  readonly confirmed: boolean;
  readonly participants: readonly string[];
  readonly standby: readonly string[];
  /** How many sub-tasks are in each state. */
  readonly counts: Readonly<Record<SwarmSubTask['status'], number>>;
  /** How often sub-tasks were given to somebody again. */
  readonly retries: number;
  readonly lateResults: number;
  readonly reason: string | null;
  readonly createdAt: number;
}

/** A swarm with its sub-tasks, or the first of them. */
export interface SwarmDetail extends SwarmRow {
  readonly subTasks: readonly SwarmSubTask[];
  readonly sharedState: Readonly<Record<string, unknown>>;
}

/** What happens to a swarm, for whoever follows it. */
export type SwarmEvent =
  | ({ readonly event: 'swarm' } & SwarmRow)
  | ({ readonly event: 'sub-task' } & SwarmSubTask)
  | ({ readonly event: 'escalation' } & SwarmEscalation)
  | {
      readonly event: 'ended';
      readonly status: 'completed' | 'failed';
      readonly reason?: string;
      readonly aggregate?: unknown;
    };

interface SwarmNode {
  readonly swarms: Swarms;
  agentById(id: string): Agent;
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

/** The owner's operations on swarms that agents of this node take part in. */
export function swarmMethods(node: SwarmNode): Readonly<Record<string, ControlMethod>> {
  const idOf = (params: Readonly<Record<string, unknown>>) => {
    const given = new Params(params).string('id');
    return completeId(
      given,
      node.swarms.sessions.map(({ id }) => id).filter((id) => id.startsWith(given)),
    );
  };
  const find = (id: string): Coordinator => {
    const found = node.swarms.find(id);
    if (found) return found;
    throw new EclipticError('SWARM_NOT_FOUND', `no agent of this node takes part in a swarm ${id}`, { swarmId: id });
  };
  return {
    swarms() {
      const rows = node.swarms.sessions.map(rowOf).sort((a, b) => b.createdAt - a.createdAt);
      return fitting(rows, (row) => JSON.stringify(row).length);
    },
    swarm(params) {
      const id = idOf(params);
      const session = find(id).getSwarm(id);
      if (!session) throw new EclipticError('SWARM_NOT_FOUND', 'nothing is known of that swarm yet');
      const subTasks = fitting([...session.subTasks], (row) => JSON.stringify(row).length);
      return { ...rowOf(session), subTasks, sharedState: session.sharedState } satisfies SwarmDetail;
    },
    async 'swarm.start'(params) {
      const read = new Params(params);
      const {
        as = 'sun',
        plan,
        planner,
        aggregator,
        leaseMs,
        attempts,
      } = read.optional({
        as: 'string',
        plan: 'string',
        planner: 'string',
        aggregator: 'string',
        leaseMs: 'number',
        attempts: 'number',
      });
      const capabilities = read.listOf('capabilities', isText, 'a list of capabilities') ?? [];
      const agent = node.agentById(as);
      const swarm = agent.swarm(read.string('task'), {
        capabilities,
        ...(plan !== undefined && { plan: readPlanText(plan) }),
        ...(planner !== undefined && { planner }),
        ...(aggregator !== undefined && { aggregator }),
        ...(leaseMs !== undefined && { leaseMs }),
        ...(attempts !== undefined && { attempts }),
      });
      return rowOf(await swarm.active);
    },
    // The swarm as it is, then what changes of it, until it ends or nobody listens.
    async 'swarm.follow'(params, { emit, drained, signal }) {
      const id = idOf(params);
      const coordinator = find(id);
      const shown = new Map<string, string>();
      let busy = Promise.resolve();
      const tell = (session: SwarmSession) => {
        emit({ event: 'swarm', ...rowOf(session) } satisfies SwarmEvent);
        for (const row of session.subTasks) {
          const text = JSON.stringify(row);
          if (shown.get(row.id) === text) continue;
          shown.set(row.id, text);
          emit({ event: 'sub-task', ...row } satisfies SwarmEvent);
        }
      };
      let latest: SwarmSession | undefined;
      const stops = [
        coordinator.watch(id, (session) => {
          const waiting = latest !== undefined;
          latest = session;
          if (waiting) return;
          busy = busy.then(async () => {
            await drained();
            const next = latest!;
            latest = undefined;
            if (!signal.aborted) tell(next);
          });
        }),
        coordinator.onEscalation((escalation) => {
          if (escalation.swarmId === id) emit({ event: 'escalation', ...escalation } satisfies SwarmEvent);
        }),
      ];
      try {
        const outcome = await Promise.race([finished(coordinator, id, signal), aborted(signal)]);
        await busy;
        if (!outcome) return;
        const session = coordinator.getSwarm(id);
        if (session) tell(session);
        const { status, reason, aggregate } = outcome;
        const more = { ...(reason !== undefined && { reason }), ...(aggregate !== undefined && { aggregate }) };
        emit({ event: 'ended', status, ...more } satisfies SwarmEvent);
      } finally {
        for (const stop of stops) stop();
      }
    },
    async 'swarm.join'(params) {
      const read = new Params(params);
      const id = read.string('id');
      const agent = node.agentById(read.string('as'));
      const { via } = read.optional({ via: 'string' });
      await agent.swarms.joinSwarm(id, agent.id, via ?? node.swarms.memberOf(id));
      return agent.swarms.getSwarm(id) ? rowOf(agent.swarms.getSwarm(id)!) : null;
    },
    'swarm.cancel'(params) {
      const id = idOf(params);
      find(id).cancelSwarm(id, 'its owner cancelled it');
      return null;
    },
  };
}

/** Waits on while nothing can be settled: whoever follows sees that on the board. */
async function finished(coordinator: Coordinator, id: string, signal: AbortSignal) {
  for (;;) {
    try {
      return await coordinator.finished(id);
    } catch (error) {
      if (!(error instanceof EclipticError) || error.code !== 'SWARM_STALLED' || signal.aborted) throw error;
      await new Promise<void>((resolve) => {
        const stop = coordinator.watch(id, ({ confirmed }) => {
          if (!confirmed) return;
          queueMicrotask(() => stop());
          resolve();
        });
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      if (signal.aborted) return undefined;
    }
  }
}

function readPlanText(text: string): SwarmPlan {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new EclipticError('INVALID_PLAN', `the plan is no JSON: ${(error as Error).message}`);
  }
}

function rowOf(session: SwarmSession): SwarmRow {
  const counts = { pending: 0, running: 0, completed: 0, failed: 0 };
  let retries = 0;
  for (const { status, attempts } of session.subTasks) {
    counts[status]++;
    retries += Math.max(0, attempts - 1);
  }
  const { id, taskDescription: task, status, arbiter, epoch, confirmed, participants, standby } = session;
  const { lateResults, reason = null, createdAt } = session;
  const about = { id, task, status, arbiter, epoch, confirmed, participants, standby };
  return { ...about, counts, retries, lateResults, reason, createdAt };
}
