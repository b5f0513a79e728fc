import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { SwarmCoordinator } from '../../work/swarm/swarm-coordinator.js';
import type { SwarmPlan } from '../../work/swarm/swarm-plan.js';
import type { SwarmSession } from '../../work/swarm/swarm-session.js';
import { type ControlContext, completeId, type Handlers, inFull } from './context.js';
import { fitting } from './protocol.js';
import type { SwarmEvent, SwarmRow } from './rows.js';
import type { CallContext } from './server.js';

/** The owner's operations on swarms that agents of this node take part in. */
export function swarmMethods({ node }: Pick<ControlContext, 'node'>) {
  const { swarms } = node;
  const inFullId = (given: string) => completeId(given, swarms.sessions);
  const find = (id: string): SwarmCoordinator => {
    const found = swarms.find(id);
    if (found) return found;
    throw new EclipticError('SWARM_NOT_FOUND', `no agent of this node takes part in a swarm ${id}`, { swarmId: id });
  };
  return {
    swarms: () => fitting(swarms.sessions.map(rowOf).sort((a, b) => b.createdAt - a.createdAt)),
    swarm({ id: given }) {
      const id = inFullId(given);
      const session = find(id).getSwarm(id);
      if (!session) throw new EclipticError('SWARM_NOT_FOUND', `the state of swarm ${id} has not arrived yet`);
      const { subTasks, sharedState, creator, escalations } = session;
      return { ...rowOf(session), subTasks: fitting(subTasks), sharedState, creator, escalations };
    },
    async 'swarm.start'({ as = 'sun', task, plan, capabilities = [], ...options }) {
      const swarm = node.agentById(as).swarm(task, {
        capabilities: [...capabilities],
        ...(plan !== undefined && { plan: readPlanText(plan) }),
        ...options,
      });
      return rowOf(await swarm.active);
    },
    async 'swarm.follow'({ id: given }, context) {
      const id = inFullId(given);
      await follow(find(id), id, context);
    },
    async 'swarm.join'({ id: given, as, via }) {
      const id = inFullId(given);
      const agent = node.agentById(as);
      await agent.swarms.joinSwarm(id, agent.id, via === undefined ? swarms.memberOf(id) : inFull(via, node));
      const session = agent.swarms.getSwarm(id);
      return session ? rowOf(session) : null;
    },
    'swarm.cancel'({ id: given }) {
      const id = inFullId(given);
      find(id).cancelSwarm(id, 'its owner cancelled it');
    },
  } satisfies Partial<Handlers>;
}

/** Emits the swarm, then each change, until the swarm ends or the caller disconnects. */
async function follow(coordinator: SwarmCoordinator, id: string, context: CallContext<SwarmEvent>): Promise<void> {
  const { emit, drained, signal } = context;
  const shown = new Map<string, string>();
  let busy = Promise.resolve();
  const tell = (session: SwarmSession) => {
    emit({ event: 'swarm', ...rowOf(session) });
    for (const row of session.subTasks) {
      const text = JSON.stringify(row);
      if (shown.get(row.id) === text) continue;
      shown.set(row.id, text);
      emit({ event: 'sub-task', ...row });
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
      if (escalation.swarmId === id) emit({ event: 'escalation', ...escalation });
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
    emit({ event: 'ended', status, ...more });
  } finally {
    for (const stop of stops) stop();
  }
}

/** Waits through a stall: followers see it in the swarm's state. */
async function finished(coordinator: SwarmCoordinator, id: string, signal: AbortSignal) {
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
    throw new EclipticError('INVALID_PLAN', `the plan is not JSON: ${(error as Error).message}`);
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
