import type { Agent } from '../../agent/agent.js';
import { oneLine } from '../../mcp/fence.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { branchIn, describeBranch } from '../../work/branch-report.js';
import type { Engagement, Negotiation, ReceivedProposal } from '../../work/proposals/proposal.js';
import { usageIn } from '../../work/usage.js';
import { waitingIn } from '../../work/waiting-report.js';
import { Waiters } from './member-mail.js';

export interface OfferedTask {
  readonly proposal: ReceivedProposal;
  engagement: Engagement | undefined;
  ended: 'done' | 'failed' | 'declined' | 'countered' | 'withdrawn' | undefined;
}

export interface GivenTask {
  readonly negotiation: Negotiation;
  outcome: { readonly state: 'done' | 'failed'; readonly text: string } | undefined;
  progress: string | undefined;
  /** The branch with its work, in words. */
  branch: string | undefined;
}

/** Tasks remembered in each direction, open or ended. */
const MAX_TASKS = 200;
const NEWS_CHARS = 200;

/** The tasks that one member offers, and those offered to it. */
export class MemberTasks {
  readonly #agent: Agent;
  readonly #offered = new Map<string, OfferedTask>();
  readonly #given = new Map<string, GivenTask>();
  readonly #unheard = new Set<string>();
  #news: ((display: (address: string) => string) => string)[] = [];
  readonly #arrivals = new Waiters();
  onOffer: ((id: string) => void) | undefined;
  /** Called with each offer that the member was told of, or need not be told of any more. */
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
    if (this.#given.size >= MAX_TASKS) dropEnded(this.#given, ({ outcome }) => outcome !== undefined);
    if (this.#given.size >= MAX_TASKS)
      throw new EclipticError('PROPOSALS_FULL', 'too many of your tasks are open; cancel some');
    const negotiation = this.#agent.propose({ ...init, durable: true });
    await negotiation.sent;
    return this.#follow(negotiation);
  }

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

  get hasNews(): boolean {
    return this.#news.length > 0;
  }

  /** Ids of offers that the member was not told of yet. */
  get unheard(): string[] {
    return [...this.#unheard];
  }

  /** The news since the last call. */
  announce(display: (address: string) => string): string[] {
    const news = this.#news.map((tell) => tell(display));
    this.#news = [];
    for (const id of this.#unheard) this.#heard(id);
    return news;
  }

  /** Resolves at the next news, or when the signal aborts. */
  next(signal: AbortSignal): Promise<void> {
    return this.#arrivals.next(signal);
  }

  #tell(news: (display: (address: string) => string) => string): void {
    this.#news.push(news);
    this.#arrivals.wake();
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
    const task: GivenTask = { negotiation, outcome: undefined, progress: undefined, branch: undefined };
    this.#given.set(id, task);
    negotiation.onProgress((value) => {
      const branch = branchIn(value);
      if (branch) task.branch = oneLine(describeBranch(branch), NEWS_CHARS);
      else if (!usageIn(value) && waitingIn(value) === undefined) task.progress = oneLine(textOf(value), NEWS_CHARS);
    });
    const end = (state: 'done' | 'failed', text: string) => {
      task.outcome = { state, text };
      const work = task.branch === undefined ? '' : ` (${task.branch})`;
      this.#tell(() => `Task ${id} ${state}${work}: ${oneLine(text, NEWS_CHARS)}; mesh_task list shows it whole.`);
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
