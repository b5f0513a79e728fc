import { Deferred } from '../../runtime/async.js';
import { type CallbackFailed, Callbacks } from '../../runtime/callbacks.js';
import { EclipticError } from '../../runtime/errors.js';
import { NOT_AWARDED } from './machine.js';
import type { Negotiation, TaskProposal } from './proposal.js';
import type { SentProposal } from './sent-proposal.js';

/** One proposal to several agents: all may bid until the deadline; the best bid gets the work, the others are told. */
export class ContractNet implements Negotiation {
  readonly #id: string;
  readonly #sides: readonly SentProposal[];
  #winner: SentProposal | undefined;
  #decided = false;
  readonly #answered = new Deferred<TaskProposal>();
  readonly #result = new Deferred<unknown>();
  readonly #listeners: Callbacks<[value: unknown]>;

  constructor(callbackFailed: CallbackFailed, id: string, sides: readonly SentProposal[]) {
    this.#listeners = new Callbacks(`onProgress of proposal ${id}`, callbackFailed);
    this.#id = id;
    this.#sides = sides;
    for (const side of sides) {
      side.onTurn = () => this.#turn();
      side.onProgress((value) => this.#listeners.call(value));
    }
    // A restored proposal may be decided already, or have all its bids.
    if (sides.some(({ state }) => state.status !== 'pending' || state.offer)) this.#turn();
  }

  get to(): string | undefined {
    return this.#winner?.to;
  }

  get durable(): boolean {
    return this.#sides[0]!.durable;
  }

  get proposal(): TaskProposal {
    if (this.#winner) return this.#winner.proposal;
    const views = this.#sides.map(({ proposal }) => proposal);
    const { proposalId: _, rejectionReason: _reason, ...first } = views[0]!;
    const alternativeSuggestion = views.find((view) => view.alternativeSuggestion)?.alternativeSuggestion;
    const pending = views.some(({ status }) => status === 'pending');
    const late = views.some(({ status }) => status === 'timed-out');
    const status = pending ? 'pending' : late ? 'timed-out' : 'rejected';
    const reasons = [...new Set(views.flatMap(({ rejectionReason = [] }) => rejectionReason))];
    return {
      ...first,
      proposalId: this.#id,
      status,
      ...(status === 'rejected' && { rejectionReason: reasons.join(', ') }),
      ...(alternativeSuggestion !== undefined && { alternativeSuggestion }),
    };
  }

  get sent(): Promise<void> {
    return Promise.allSettled(this.#sides.map(({ sent }) => sent)).then((outcomes) => {
      const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
      if (failed.length === outcomes.length) throw failed[0]!.reason;
    });
  }

  get answered(): Promise<TaskProposal> {
    return this.#answered.promise;
  }

  get result(): Promise<unknown> {
    return this.#result.promise;
  }

  onProgress(handler: (value: unknown) => void): () => void {
    return this.#listeners.add(handler);
  }

  withdraw(reason?: string): void {
    if (this.#winner) {
      this.#winner.withdraw(reason);
      return;
    }
    for (const side of this.#sides) side.withdraw(reason);
  }

  /** An addressee has bid, declined, or let the deadline pass: when all have, the best bid wins. */
  #turn(): void {
    if (this.#decided) return;
    const awarded = this.#sides.find(({ state }) => state.status === 'accepted');
    if (!awarded && this.#sides.some(({ state }) => state.status === 'pending' && !state.offer)) return;
    this.#decided = true;
    const best = awarded ?? this.#best();
    if (!best) {
      this.#fail();
      return;
    }
    this.#winner = best;
    best.answered.then(
      (proposal) => {
        this.#decline(best);
        this.#answered.resolve(proposal);
      },
      (error) => this.#answered.reject(error),
    );
    best.result.then(
      (value) => this.#result.resolve(value),
      (error) => this.#result.reject(error),
    );
    best.step({ type: 'award' });
  }

  /** The soonest done; of several, the least loaded, then the one that was asked first. */
  #best(): SentProposal | undefined {
    const bids = this.#sides.filter(({ state }) => state.status === 'pending' && state.offer);
    return bids.sort(compareBids)[0];
  }

  #decline(winner: SentProposal): void {
    for (const side of this.#sides) if (side !== winner) side.withdraw(NOT_AWARDED);
  }

  #fail(): void {
    const proposal = this.proposal;
    this.#answered.resolve(proposal);
    const { status, rejectionReason: reason } = proposal;
    const about = { proposalId: this.#id, to: this.#sides.map(({ to }) => to) };
    this.#result.reject(
      status === 'timed-out'
        ? new EclipticError('PROPOSAL_TIMEOUT', 'no agent took the work within the deadline', about)
        : new EclipticError('PROPOSAL_REJECTED', `no agent took the work: ${reason}`, { ...about, reason }),
    );
  }
}

function compareBids(a: SentProposal, b: SentProposal): number {
  const [one, other] = [a.state.offer!, b.state.offer!];
  return one.estimatedCompletionMs - other.estimatedCompletionMs || one.load - other.load;
}
