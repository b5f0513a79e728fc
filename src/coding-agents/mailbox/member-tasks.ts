import type { Agent } from '../../agent/agent.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Engagement, Negotiation, ReceivedProposal } from '../../work/proposals/proposal.js';
import { oneLine } from './fence.js';

/** A task that somebody offered to the member, and what it has said to it. */
export interface OfferedTask {
  readonly proposal: ReceivedProposal;
  engagement: Engagement | undefined;
  /** How it ended, once it has. */
  ended: 'done' | 'failed' | 'declined' | 'countered' | 'withdrawn' | undefined;
}

/** A task that the member offered to somebody. */
export interface GivenTask {
  readonly negotiation: Negotiation;
  /** What came of it. */
  outcome: { readonly state: 'done' | 'failed'; readonly text: string } | undefined;
  progress: string | undefined;
}

/** Tasks in each direction that a member has open, or has heard the end of. */
const MAX_TASKS = 200;
const NEWS_CHARS = 200;

/** The tasks of one member: those it hands over, and those handed to it. */
export class MemberTasks {
  readonly #agent: Agent;
  readonly #offered = new Map<string, OfferedTask>();
  readonly #given = new Map<string, GivenTask>();
  readonly #unheard = new Set<string>();
  #news: ((display: (address: string) => string) => string)[] = [];
  readonly #waiters = new Set<() => void>();
  /** Called with each task that is offered. */
  onOffer: ((id: string) => void) | undefined;
  /** Called with each task that the member has heard of, or need not hear of any more. */
  onHeard: ((id: string) => void) | undefined;

  constructor(agent: Agent) {
    this.#agent = agent;
    agent.onProposal((proposal) => this.#receive(proposal));
    for (const negotiation of agent.negotiations) this.#follow(negotiation);
  }

  get offered(): ReadonlyMap<string, OfferedTask> {
    return this.#offered;
  }

  get given(): ReadonlyMap<string, GivenTask> {
    return this.#given;
  }

  async offer(init: Parameters<Agent['propose']>[0]): Promise<GivenTask> {
    if (this.#given.size >= MAX_TASKS) forgetEnded(this.#given, ({ outcome }) => outcome !== undefined);
    const negotiation = this.#agent.propose({ ...init, durable: true });
    await negotiation.sent;
    return this.#follow(negotiation);
  }

  /** The task of that id that was offered to this member, and is open. */
  taken(id: string): OfferedTask {
    const task = this.#offered.get(id);
    if (task?.ended !== undefined)
      throw new EclipticError('INVALID_TRANSITION', `task "${id}" is ${task.ended}`, { id });
    if (task) return task;
    throw new EclipticError('PROPOSAL_NOT_FOUND', `no task "${id}" was offered to you; see: list`, { id });
  }

  /** The work on a task that this member has accepted. */
  work(id: string): Engagement {
    const { engagement } = this.taken(id);
    if (engagement) return engagement;
    throw new EclipticError('INVALID_TRANSITION', `accept task "${id}" first`, { id });
  }

  /** The task of that id that this member offered. */
  own(id: string): GivenTask {
    const task = this.#given.get(id);
    if (task) return task;
    throw new EclipticError('PROPOSAL_NOT_FOUND', `you offered no task "${id}"; see: list`, { id });
  }

  end(id: string, ended: NonNullable<OfferedTask['ended']>): void {
    const task = this.#offered.get(id);
    if (!task || task.ended !== undefined) return;
    task.ended = ended;
    this.#heard(id);
  }

  /** Has something happened that the member was not told yet? */
  get hasNews(): boolean {
    return this.#news.length > 0;
  }

  /** Offers that the member was not told of yet. */
  get unheard(): string[] {
    return [...this.#unheard];
  }

  /** What happened since it was last told. */
  announce(display: (address: string) => string): string[] {
    const news = this.#news.map((tell) => tell(display));
    this.#news = [];
    for (const id of this.#unheard) this.#heard(id);
    return news;
  }

  /** Resolves with the next news, or when the signal aborts. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        this.#waiters.delete(end);
        signal.removeEventListener('abort', end);
        resolve();
      };
      if (signal.aborted) return resolve();
      this.#waiters.add(end);
      signal.addEventListener('abort', end);
    });
  }

  #tell(news: (display: (address: string) => string) => string): void {
    this.#news.push(news);
    for (const wake of [...this.#waiters]) wake();
  }

  #heard(id: string): void {
    if (this.#unheard.delete(id)) this.onHeard?.(id);
  }

  #receive(proposal: ReceivedProposal): void {
    const { proposalId: id, taskDescription } = proposal.proposal;
    if (this.#offered.size >= MAX_TASKS) dropEnded(this.#offered, ({ ended }) => ended !== undefined);
    if (this.#offered.size >= MAX_TASKS) {
      void proposal.reject('busy').catch(() => {});
      return;
    }
    this.#offered.set(id, { proposal, engagement: undefined, ended: undefined });
    proposal.signal.addEventListener('abort', () => {
      if (this.#offered.get(id)?.engagement === undefined) this.end(id, 'withdrawn');
    });
    this.#unheard.add(id);
    this.#tell((display) => {
      const title = oneLine(taskDescription, NEWS_CHARS);
      return `Task ${id} offered by ${display(proposal.from)}: ${title}; accept, counter or decline it with mesh_task.`;
    });
    this.onOffer?.(id);
  }

  #follow(negotiation: Negotiation): GivenTask {
    const { proposalId: id } = negotiation.proposal;
    const known = this.#given.get(id);
    if (known) return known;
    const task: GivenTask = { negotiation, outcome: undefined, progress: undefined };
    this.#given.set(id, task);
    negotiation.onProgress((value) => {
      task.progress = oneLine(textOf(value), NEWS_CHARS);
    });
    const end = (state: 'done' | 'failed', text: string) => {
      task.outcome = { state, text };
      this.#tell(() => `Task ${id} ${state}: ${oneLine(text, NEWS_CHARS)}; mesh_task list shows it whole.`);
    };
    negotiation.result.then(
      (value) => end('done', textOf(value)),
      (error: unknown) => end('failed', describeError(error)),
    );
    return task;
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

function dropEnded<T>(tasks: Map<string, T>, isEnded: (task: T) => boolean): void {
  for (const [id, task] of tasks) if (isEnded(task)) tasks.delete(id);
}

function forgetEnded<T>(tasks: Map<string, T>, isEnded: (task: T) => boolean): void {
  dropEnded(tasks, isEnded);
  if (tasks.size >= MAX_TASKS)
    throw new EclipticError('PROPOSALS_FULL', 'too many of your tasks are open; cancel some');
}
