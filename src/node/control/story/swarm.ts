import type { StoryEvent, StoryWait } from '../../../http/dashboard/facts.js';
import type { Entry } from '../../../work/swarm/swarm-records.js';
import type { SwarmSession, SwarmSubTask } from '../../../work/swarm/swarm-session.js';
import { eventOf, type StoryContext, type StorySource, type Told } from './told.js';

/** Swarms that agents of this node take part in, by their settled records. */
export function swarmSource(context: StoryContext): StorySource {
  const { swarms } = context.node;
  return {
    kind: 'swarm',
    ids: (given) => swarms.sessions.flatMap(({ id }) => (id.startsWith(given) ? [id] : [])),
    async tell(id) {
      const session = sessionOf(id, context);
      if (!session) return undefined;
      const { taskDescription: title, status, createdAt, participants, creator } = session;
      const over = isOver(session);
      return {
        ...{ id, kind: 'swarm', title, state: status, over, startedAt: createdAt },
        // The log has no times; the member notes that of the end.
        endedAt: over ? endOf(id, context) : null,
        waits: over ? null : swarmWait(session),
        events: recordsOf(id, context)
          .flatMap((one) => recordEvents(one, id, session, context.key))
          .map((event, at, all) =>
            over && at === all.length - 1 && event.word === status ? { ...event, at: endOf(id, context) } : event,
          ),
        parties: [creator, ...participants],
        payload: { ...session, subTasks: session.subTasks.map(({ result: _, ...rest }) => rest) },
        related: session.subTasks.map((subTask) => ({ id: `${id}/${subTask.id}`, kind: 'sub-task' as const })),
      };
    },
  };
}

/** Sub-tasks of swarms: leases, attempts and results. */
export function subTaskSource(context: StoryContext): StorySource {
  const { swarms } = context.node;
  return {
    kind: 'sub-task',
    ids: (given) =>
      given.includes('/')
        ? swarms.sessions.flatMap(({ id, subTasks }) =>
            subTasks.map((subTask) => `${id}/${subTask.id}`).filter((whole) => whole.startsWith(given)),
          )
        : [],
    async tell(id) {
      const { swarm, subTask, session } = split(id, context);
      if (!session || !subTask) return undefined;
      const records = recordsOf(swarm, context).filter(
        ({ record }) => 'subTask' in record && record.subTask === subTask.id,
      );
      const changedAt = participationOf(swarm, context)?.changedAt(subTask.id) ?? null;
      return tellSubTask(id, { swarm, session, subTask, records, changedAt }, context.key);
    },
  };
}

interface KnownSubTask {
  readonly swarm: string;
  readonly session: SwarmSession;
  readonly subTask: SwarmSubTask;
  readonly records: readonly Numbered[];
  /** When it got into its present state. */
  readonly changedAt: number | null;
}

function tellSubTask(id: string, { swarm, session, subTask, records, changedAt }: KnownSubTask, key: string): Told {
  const { description: title, status, reason, assignedAgent } = subTask;
  const planned = eventOf(key, {
    ...{ at: session.createdAt, from: session.creator, to: assignedAgent, word: 'pending', text: title },
    proof: { kind: 'record', text: `plan of swarm ${swarm}` },
  });
  // A member without a seat has no log: it knows the present state only.
  const present = eventOf(key, {
    ...{ at: changedAt, from: assignedAgent, word: status, text: reason ?? null },
    ...(subTask.attempts > 0 && { attempt: subTask.attempts }),
    proof: { kind: 'record', text: 'shared document of the swarm' },
  });
  const told = records
    .flatMap((one) => recordEvents(one, swarm, session, key))
    .map(({ link: _, ...event }, at, all) => (at === all.length - 1 ? { ...event, at: changedAt } : event));
  const over = status === 'completed' || status === 'failed';
  return {
    ...{ id, kind: 'sub-task', title, state: status, over, startedAt: session.createdAt },
    endedAt: over ? changedAt : null,
    waits: subTaskWait(subTask, session),
    events: [planned, ...(told.length > 0 ? told : [present])],
    parties: [session.creator, assignedAgent],
    payload: subTask,
    related: [
      { id: swarm, kind: 'swarm' },
      ...subTask.dependsOn.map((other) => ({ id: `${swarm}/${other}`, kind: 'sub-task' as const })),
    ],
  };
}

interface Numbered extends Entry {
  readonly index: number;
  /** Of the sub-task that the record is about. */
  readonly attempt: number | undefined;
  readonly holder: string | undefined;
}

/** The settled records, with the attempt that each is about. */
function recordsOf(swarm: string, context: StoryContext): Numbered[] {
  const participation = participationOf(swarm, context);
  const leases = new Map<string, { attempt: number; holder: string }>();
  return (participation?.machine.settled ?? []).map((entry, at): Numbered => {
    const { record } = entry;
    const subTask = 'subTask' in record ? record.subTask : undefined;
    if (record.type === 'lease') {
      const attempt = (leases.get(record.subTask)?.attempt ?? 0) + 1;
      leases.set(record.subTask, { attempt, holder: record.holder });
    }
    const lease = subTask === undefined ? undefined : leases.get(subTask);
    return { ...entry, index: at + 1, attempt: lease?.attempt, holder: lease?.holder };
  });
}

function recordEvents(
  { index, epoch, record, attempt, holder }: Numbered,
  id: string,
  session: SwarmSession,
  key: string,
): StoryEvent[] {
  const proof = { kind: 'log', text: `record ${index} of the swarm, term ${epoch}` } as const;
  const about = { proof, ...(attempt !== undefined && { attempt }) };
  const by = { from: holder ?? null, to: session.arbiter, ...about };
  const event = (given: Partial<StoryEvent> & Pick<StoryEvent, 'word'>) => [
    eventOf(key, { at: null, ...about, ...given }),
  ];
  switch (record.type) {
    case 'open':
      return event({ at: session.createdAt, from: record.swarm.creator, word: 'recruiting', text: record.swarm.task });
    case 'plan':
      return event({ from: session.creator, word: 'planned', text: `${record.subTasks.length} sub-tasks` });
    case 'begin':
      return event({ from: session.creator, word: 'active' });
    case 'arbiter':
      return event({
        from: record.address,
        word: 'arbiter',
        text: `${record.address} is the arbiter of term ${epoch}`,
      });
    case 'join':
      return event({ from: record.member.address, word: 'joined' });
    case 'lease':
      return event({
        from: session.arbiter,
        to: record.holder,
        word: 'running',
        text: record.subTask,
        link: `${id}/${record.subTask}`,
      });
    case 'result':
      return event({ ...by, word: 'completed', text: record.subTask, link: `${id}/${record.subTask}` });
    case 'failure': {
      const word = record.lapsed ? 'lapsed' : 'failed';
      return event({
        ...by,
        word,
        text: record.reason,
        rule: record.lapsed ? 'its holder fell silent' : null,
        link: `${id}/${record.subTask}`,
      });
    }
    case 'escalation':
      return event({ from: session.arbiter, word: 'escalated', text: record.reason, link: `${id}/${record.subTask}` });
    case 'end':
      return event({ from: session.arbiter, word: record.status, text: record.reason ?? null });
  }
}

function participationOf(swarm: string, { node }: StoryContext) {
  return node.swarms.find(swarm)?.participations.get(swarm);
}

function endOf(swarm: string, context: StoryContext): number | null {
  return participationOf(swarm, context)?.endedAt ?? null;
}

function sessionOf(id: string, { node }: StoryContext): SwarmSession | undefined {
  return node.swarms.find(id)?.getSwarm(id);
}

function split(id: string, context: StoryContext) {
  const at = id.indexOf('/');
  const swarm = id.slice(0, Math.max(0, at));
  const session = at > 0 ? sessionOf(swarm, context) : undefined;
  const subTask = session?.subTasks.find((one) => one.id === id.slice(at + 1));
  return { swarm, session, subTask };
}

function isOver({ status }: SwarmSession): boolean {
  return status === 'completed' || status === 'failed';
}

function swarmWait({ confirmed, reason, arbiter, subTasks }: SwarmSession): StoryWait | null {
  const about = { since: null, until: null };
  if (!confirmed) return { for: 'a majority of its members', ...about, reason: reason ?? 'no majority is in touch' };
  const running = subTasks.filter(({ status }) => status === 'running').length;
  if (running > 0) return null;
  const pending = subTasks.filter(({ status }) => status === 'pending').length;
  return pending === 0 ? null : { for: arbiter, ...about, reason: `a capable member for ${pending} sub-tasks` };
}

function subTaskWait(
  { status, dependsOn, requiredCapabilities }: SwarmSubTask,
  session: SwarmSession,
): StoryWait | null {
  if (status !== 'pending') return null;
  const about = { since: null, until: null };
  const open = dependsOn.filter((other) => session.subTasks.find(({ id }) => id === other)?.status !== 'completed');
  if (open.length > 0) return { for: open.join(', '), ...about, reason: `the results of ${open.join(', ')}` };
  const needed = requiredCapabilities.join(', ') || 'no special capability';
  return { for: session.arbiter, ...about, reason: `a free member with ${needed}` };
}
