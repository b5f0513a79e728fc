import { OWNER } from '../../../coding-agents/mailbox/letter.js';
import type { StoryEvent, StoryWait } from '../../../http/dashboard/facts.js';
import { planThreads } from '../../../plans/dispatcher.js';
import { step } from '../../../plans/loop-machine.js';
import { ENDS, type LoopEvent, type LoopState, type TaskState } from '../../../plans/loop-state.js';
import type { RunView, TaskView } from '../../../plans/run-news.js';
import { EclipticError } from '../../../runtime/errors.js';
import { CANDIDATES } from '../../../runtime/short-ids.js';
import type { Approval } from '../../../system/approvals/approval-queue.js';
import { approvalEvents, approvalWait } from './approval.js';
import { ALONE, eventOf, type StoryContext, type StorySource, type Told } from './told.js';

/** Conversations of one task among which its latest ones are named. */
const MAX_SEARCHED = 200;

/** Runs of plans, by their stored events. */
export function runSource(context: StoryContext): StorySource {
  return {
    kind: 'run',
    ids: (given) => context.loop.idsBeginning(given, CANDIDATES),
    async tell(id) {
      const view = await viewOf(id, context);
      if (!view) return undefined;
      const history = historyOf(await context.loop.events(id));
      const over = view.status !== 'running';
      const openTasks = view.tasks.filter(({ phase }) => phase === 'escalated').map((task) => task.id);
      const asks: StoryWait = {
        ...{ for: OWNER, since: view.updatedAt, until: null },
        reason: `the owner tries ${openTasks.join(', ')} again, or not: ecliptic waiting`,
      };
      return {
        ...{ id, kind: 'run', title: `plan ${view.name}`, state: view.status },
        over: over && view.status !== 'escalated',
        startedAt: view.createdAt,
        endedAt: over ? view.updatedAt : null,
        waits: view.status === 'escalated' ? asks : null,
        events: history.flatMap((one) => runEvents(one, view, context.key)),
        parties: [view.agent, ...view.tasks.map(({ by }) => by)],
        payload: view,
        related: view.tasks.map((task) => ({ id: `${id}/${task.id}`, kind: 'run task' as const })),
      };
    },
  };
}

/** Tasks of runs, as `RUN/TASK`: each attempt, its end and its reason. */
export function runTaskSource(context: StoryContext): StorySource {
  return {
    kind: 'run task',
    async ids(given) {
      const at = given.indexOf('/');
      if (at <= 0) return [];
      const prefix = given.slice(0, at);
      const exact = await viewOf(prefix, context);
      const runs = exact ? [prefix] : await context.loop.idsBeginning(prefix, CANDIDATES);
      const views = await Promise.all(runs.map((run) => viewOf(run, context)));
      const wholes = views.flatMap((view) => view?.tasks.map((task) => `${view.id}/${task.id}`) ?? []);
      return wholes.filter((whole) => whole.slice(whole.indexOf('/')).startsWith(given.slice(at)));
    },
    async tell(id) {
      const at = id.indexOf('/');
      const view = at > 0 ? await viewOf(id.slice(0, at), context) : undefined;
      const task = view?.tasks.find((one) => one.id === id.slice(at + 1));
      return view && task && tellTask(id, view, task, context);
    },
  };
}

async function tellTask(id: string, view: RunView, task: TaskView, context: StoryContext): Promise<Told> {
  const history = historyOf(await context.loop.events(view.id));
  const prefix = `${planThreads(view.id)}${task.id}:`;
  const rows = (await context.node.records?.journal.beginningWith(prefix, MAX_SEARCHED)) ?? [];
  const threads = [...new Set(rows.flatMap(({ thread }) => thread ?? []))];
  const all = await context.on.approvals({ all: true }, ALONE);
  const approvals = all.filter(({ details }) => String(details.correlationId ?? '').startsWith(prefix));
  const state = history.at(-1)?.state;
  const until = history.findLast((one) => one.pauses.has(task.id))?.pauses.get(task.id) ?? null;
  const over = ENDS.has(task.phase) && task.phase !== 'escalated';
  return {
    ...{ id, kind: 'run task', title: `task ${task.id} of plan ${view.name}`, state: task.phase, over },
    endedAt: over ? task.since : null,
    waits: taskWait(task, view, state, until, approvals),
    events: [
      ...history.flatMap((one) => taskEvents(one, task.id, view, context.key)),
      ...approvals.flatMap((one) => approvalEvents(one, context.key)),
    ],
    parties: [view.agent, task.by],
    payload: task,
    related: [
      { id: view.id, kind: 'run' },
      ...threads.map((thread) => ({ id: thread, kind: 'thread' as const })),
      ...approvals.map((one) => ({ id: one.id, kind: 'approval' as const })),
    ],
  };
}

async function viewOf(id: string, { on }: StoryContext): Promise<RunView | undefined> {
  try {
    const view = await on.run({ id }, ALONE);
    return view.id === id ? view : undefined;
  } catch (error) {
    if (error instanceof EclipticError && (error.code === 'RUN_NOT_FOUND' || error.code === 'AMBIGUOUS_ID')) {
      return undefined;
    }
    throw error;
  }
}

/** One stored event of a run, and the changes that followed from it. */
interface Change {
  readonly number: number;
  readonly event: LoopEvent;
  readonly before: LoopState | undefined;
  readonly state: LoopState;
  readonly changed: readonly string[];
  /** The agents that took attempts, by task and attempt, as far as is known by now. */
  readonly takers: ReadonlyMap<string, string>;
  /** When the pause of a task ends. */
  readonly pauses: ReadonlyMap<string, number>;
}

function attemptKey(task: string, attempt: number): string {
  return `${attempt} ${task}`;
}

function historyOf(events: readonly LoopEvent[]): Change[] {
  const takers = new Map<string, string>();
  for (const event of events) {
    if ('by' in event && event.by !== undefined) takers.set(attemptKey(event.task, event.attempt), event.by);
  }
  let before: LoopState | undefined;
  return events.map((event, at) => {
    const { state, changed, effects } = step(before, event);
    const pauses = effects.flatMap((one) => (one.type === 'pause' ? [[one.task, event.at + one.ms] as const] : []));
    const change = { number: at + 1, event, before, state, changed, takers, pauses: new Map(pauses) };
    before = state;
    return change;
  });
}

/** The run's own changes, and those of its tasks. */
function runEvents(change: Change, view: RunView, key: string): StoryEvent[] {
  const { event, number, state, before } = change;
  const { at, type } = event;
  const proof = { kind: 'row', text: `event ${number} of the run` } as const;
  const own = type === 'opened' || type === 'reopened' || type === 'resumed' || type === 'stopped';
  const ended = state.status !== 'running' && state.status !== before?.status && type !== 'stopped';
  const tasks = [...new Set(change.changed)].flatMap((task) => {
    return taskEvents(change, task, view, key).map((one) => ({ ...one, link: `${view.id}/${task}` }));
  });
  return [
    ...(own ? [eventOf(key, { at, from: view.agent, word: type, proof })] : []),
    ...tasks.map((one) => ({ ...one, text: one.text ?? one.link.slice(view.id.length + 1) })),
    ...(ended ? [eventOf(key, { at, from: view.agent, word: state.status, proof })] : []),
  ];
}

/** The end of an attempt, and the phase that the task is in afterwards. */
function taskEvents(
  { event, number, state, changed, takers }: Change,
  id: string,
  view: RunView,
  key: string,
): StoryEvent[] {
  const { at } = event;
  const proof = { kind: 'row', text: `event ${number} of the run` } as const;
  const now = state.tasks.get(id)!;
  const isOwn = 'task' in event && event.task === id;
  const outcome = isOwn ? outcomeOf(event) : undefined;
  const attempt = isOwn ? event.attempt : now.attempt;
  const ended = outcome
    ? [eventOf(key, { at, ...wayOf(event, now.by ?? null, view.agent), ...outcome, attempt, proof })]
    : [];
  if (!changed.includes(id) || now.phase === outcome?.word) return ended;
  const taker = takers.get(attemptKey(id, now.attempt)) ?? now.by;
  return [...ended, phaseEvent({ ...now, by: taker }, at, view, key, proof)];
}

/** Who says how an attempt went: its worker, the run that checked it, or the agent that was asked for advice. */
function wayOf(event: LoopEvent, worker: string | null, run: string): Pick<StoryEvent, 'from' | 'to'> {
  if (event.type === 'answered') {
    return event.adviser === undefined ? { from: run, to: null } : { from: event.adviser, to: run };
  }
  if (event.type === 'judged' || event.type === 'unjudged') return { from: run, to: worker };
  return { from: ('by' in event && event.by) || worker, to: run };
}

function phaseEvent(
  { phase, attempt, by, reason }: TaskState,
  at: number,
  view: RunView,
  key: string,
  proof: NonNullable<StoryEvent['proof']>,
): StoryEvent {
  const failed = phase === 'failed' || phase === 'blocked' || phase === 'escalated';
  const handed = phase === 'running' ? { from: view.agent, to: by ?? null } : { from: view.agent };
  const way = phase === 'done' ? { from: by ?? view.agent } : handed;
  const why = failed && reason ? { code: reason.code, text: reason.message } : {};
  return eventOf(key, { at, ...way, word: phase, ...why, proof, ...(attempt > 0 && { attempt }) });
}

/** How an attempt ended, or was judged. */
function outcomeOf(event: LoopEvent): (Pick<StoryEvent, 'word'> & Partial<StoryEvent>) | undefined {
  switch (event.type) {
    case 'finished':
      return { word: 'finished' };
    case 'failed':
    case 'unjudged':
      return {
        word: event.type === 'failed' ? 'failed' : 'unjudged',
        code: event.error.code,
        text: event.error.message,
      };
    case 'judged':
      return {
        word: event.verdict.replace('-', ' '),
        text: event.feedback ?? null,
        rule: event.verdict === 'approved' ? null : 'the check of the plan',
      };
    case 'answered':
      return { word: 'answered', text: event.answer.action };
    default:
      return undefined;
  }
}

function taskWait(
  { id, phase, since, by, reason }: TaskView,
  view: RunView,
  state: LoopState | undefined,
  until: number | null,
  approvals: readonly Approval[],
): StoryWait | null {
  const why = reason === null ? '' : ` (${reason.message})`;
  const plan = state?.settings.tasks.find((task) => task.id === id);
  const open = (plan?.dependsOn ?? []).filter((other) => state?.tasks.get(other)?.phase !== 'done');
  switch (phase) {
    case 'waiting':
      if (view.status !== 'running') return { for: OWNER, since, until: null, reason: `the run is ${view.status}` };
      if (open.length > 0)
        return { for: open.join(', '), since, until: null, reason: `the results of ${open.join(', ')}` };
      return { for: view.agent, since, until: null, reason: 'room among the tasks that run at once' };
    case 'pausing':
      return { for: 'its next attempt', since, until, reason: `a pause before the next attempt${why}` };
    case 'escalating':
      return { for: 'an L0 agent', since, until: null, reason: `the decision of an L0 agent${why}` };
    case 'escalated':
      return { for: OWNER, since, until: null, reason: `the owner tries it again, or not${why}` };
    case 'running': {
      const asked = approvalWait(approvals);
      if (asked || by !== null) return asked;
      const timeoutMs = plan?.timeoutMs;
      const end = timeoutMs === undefined ? null : since + timeoutMs;
      return { for: 'a worker', since, until: end, reason: 'a worker that accepts it' };
    }
    default:
      return null;
  }
}
