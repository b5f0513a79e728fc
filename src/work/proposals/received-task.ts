import type { ValidEnvelope } from '../../mesh/envelope.js';
import { weighJson } from '../../mesh/json-value.js';
import { isPromise } from '../../mesh/message-sender.js';
import { toWireError, type WireError } from '../../mesh/wire-error.js';
import { Deferred } from '../../runtime/async.js';
import { backoffMs } from '../../runtime/backoff.js';
import { Deadline } from '../../runtime/deadlines.js';
import { EclipticError } from '../../runtime/errors.js';
import type { ProposalRow } from '../../store/tables.js';
import {
  type AddresseeEffect,
  type AddresseeInput,
  type AddresseeState,
  addresseeStep,
  newAddressee,
  type Offer,
} from './machine.js';
import { FIRST_CHECK_MS, LONGEST_CHECK_MS, type NegotiationContext, type Side } from './negotiation-context.js';
import type { Bid, Complexity, Engagement, ReceivedProposal, TaskProposal } from './proposal.js';
import { type AcceptPayload, isName, PROPOSAL, type ProposalPayload, type RejectPayload } from './proposal-wire.js';
import { proposalRow, shownProposal } from './shown-proposal.js';

interface Kept {
  readonly payload: ProposalPayload;
  readonly thread: string;
  readonly state: AddresseeState;
  readonly settled: boolean;
  readonly receivedAt: number;
}

export interface ReceivedTerms {
  /** The message that it came in; not there in a later run. */
  readonly envelope?: ValidEnvelope;
  readonly payload: ProposalPayload;
  /** The address of the proposer. */
  readonly from: string;
  readonly thread: string;
}

/** What a proposer says to its addressee. */
type ProposerWord = { readonly type: 'proposal' | 'confirm' } | { readonly type: 'refuse'; readonly error: WireError };

/** What work is said to take by those who do not say. */
const ESTIMATES: Readonly<Record<Complexity, number>> = { simple: 10_000, medium: 60_000, complex: 600_000 };
/** A durable acceptance waits this long for a proposer that is away. */
const DURABLE_GRACE_MS = 7 * 86_400_000;

/** A proposal at its addressee: first what it may accept or reject, then the work that it has to do. */
export class ReceivedTask extends Deadline implements ReceivedProposal, Engagement, Side {
  readonly terms: ReceivedTerms;
  readonly resumed: boolean;
  readonly #context: NegotiationContext;
  /** What was decided, and what of that is on disk, where it must be before anybody hears of it. */
  #state: AddresseeState;
  #shown: AddresseeState;
  readonly #receivedAt: number;
  #accepted: Deferred<Engagement> | undefined;
  #onEngaged: ((engagement: ReceivedTask) => void) | undefined;
  #controller: AbortController | undefined;
  #aborted: EclipticError | undefined;
  #settled = false;
  #heardAt: number;
  #nextCheck = 0;
  #checks = 0;
  weight = 0;
  /** @internal Nothing more happens to it. */
  over = false;
  /** Of another proposer, with the same id. */
  namesake: ReceivedTask | undefined;

  constructor(context: NegotiationContext, terms: ReceivedTerms, kept?: Kept) {
    super();
    this.#context = context;
    this.terms = terms;
    this.namesake = undefined;
    this.resumed = kept !== undefined;
    this.#state = kept?.state ?? newAddressee();
    this.#shown = this.#state;
    this.#settled = kept?.settled ?? false;
    const now = context.runtime.now();
    this.#receivedAt = kept?.receivedAt ?? now;
    this.#heardAt = now;
    if (this.#state.work === 'open') context.burden(1);
    if (this.#state.status === 'pending') context.deadlines.add(this, this.#patience - (now - this.#receivedAt));
  }

  static restore(context: NegotiationContext, row: ProposalRow): ReceivedTask {
    const kept = JSON.parse(row.document) as Kept;
    return new ReceivedTask(context, { payload: kept.payload, thread: kept.thread, from: row.peer }, kept);
  }

  get side(): 'received' {
    return 'received';
  }

  get id(): string {
    return this.terms.payload.proposalId;
  }

  get peer(): string {
    return this.terms.from;
  }

  get from(): string {
    return this.terms.from;
  }

  get thread(): string {
    return this.terms.thread;
  }

  get durable(): boolean {
    return this.terms.payload.durable === true;
  }

  get input(): unknown {
    return this.terms.payload.input;
  }

  get state(): AddresseeState {
    return this.#shown;
  }

  /** Is there anything yet to be said, or to be heard? */
  get open(): boolean {
    const { status, work } = this.#state;
    return status === 'pending' || work === 'open' || (this.durable && work !== 'none' && !this.#settled);
  }

  get proposal(): TaskProposal {
    const { payload, thread } = this.terms;
    return shownProposal(payload, this.#shown, { proposer: this.terms.from, addressee: this.#context.agentId, thread });
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted) this.#controller.abort(this.#aborted);
    return this.#controller.signal;
  }

  get row(): ProposalRow {
    const { payload, thread } = this.terms;
    const document: Kept = {
      payload,
      thread,
      state: this.#state,
      settled: this.#settled,
      receivedAt: this.#receivedAt,
    };
    return proposalRow(this.#context, this, this.#state.status, document);
  }

  accept(bid: Bid = {}): Promise<Engagement> {
    try {
      this.#accepted ??= new Deferred();
      this.engage(bid);
      return this.#accepted.promise;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** As `accept`, without a promise. */
  engage(bid: Bid, onEngaged?: (engagement: ReceivedTask) => void): void {
    const { status, offer, work } = this.#state;
    if (onEngaged) this.#onEngaged = onEngaged;
    // What was accepted in an earlier run needs no second acceptance.
    if (this.resumed && status === 'accepted' && work === 'open') {
      this.#engaged();
      return;
    }
    if (this.resumed && status === 'pending' && offer) return;
    if (status !== 'pending' || offer) throw this.#over();
    this.#step({ type: 'accept', offer: this.#offer(bid) });
  }

  reject(reason: string, { alternative }: { alternative?: string } = {}): Promise<void> {
    if (!isName(reason) || (alternative !== undefined && !isName(alternative))) {
      const text = 'a rejection needs a reason, and both it and the alternative are short';
      return Promise.reject(new EclipticError('INVALID_ENVELOPE', text));
    }
    if (this.#state.status !== 'pending' || this.#state.offer) return Promise.reject(this.#over());
    return this.#said({ type: 'reject', reason, alternative });
  }

  progress(value: unknown): void {
    if (this.#shown.work === 'open') {
      this.#context.post(this, 'stream-data', { [PROPOSAL]: this.id, progress: value ?? null });
    }
  }

  complete(result: unknown = null): Promise<void> {
    return new Promise((resolve, reject) => {
      this.finish(result, resolve, reject);
    });
  }

  /** As `complete`, without a promise. Throws what is wrong with the result. */
  finish(result: unknown, done?: () => void, notKept?: (error: unknown) => void): void {
    if (this.#state.work !== 'open') throw this.#over();
    const weight = weighJson(result);
    if (typeof weight !== 'number') {
      const code = weight.tooLarge ? 'PAYLOAD_TOO_LARGE' : 'INVALID_ENVELOPE';
      throw new EclipticError(code, `the result ${weight.path} ${weight.problem}`);
    }
    this.weight += weight;
    this.#step({ type: 'result', value: result }, done, notKept);
  }

  fail(error: unknown): Promise<void> {
    if (this.#state.work !== 'open') return Promise.reject(this.#over());
    return this.#said({ type: 'failure', error: toWireError(error) });
  }

  /** Keeps a durable one before anybody decides about it. */
  start(arrived: () => void): void {
    if (!this.durable) {
      arrived();
      return;
    }
    // Not kept, it is not there: the proposer asks again.
    this.#context.keep(this, arrived, () => this.#context.closed(this));
  }

  /** The proposer asks again, confirms, or takes back. */
  hear(input: ProposerWord): void {
    this.#heardAt = this.#context.runtime.now();
    // One that knows nothing of the work waits for no result either.
    if (input.type === 'refuse' && input.error.code === 'PROPOSAL_NOT_FOUND' && this.#state.work !== 'none') {
      this.settle();
    }
    this.#step(input);
  }

  /** The proposer has the result, on its disk. */
  settle(): void {
    const { work } = this.#state;
    if (this.#settled || (work !== 'done' && work !== 'failed')) return;
    this.#settled = true;
    this.#context.released(this.peer, this.#context.agentId, this.thread);
    if (this.durable)
      this.#context.keep(
        this,
        () => {},
        () => {},
      );
    this.#context.closed(this);
  }

  check(now: number): void {
    if (now < this.#nextCheck) return;
    this.#nextCheck = now + backoffMs(this.#checks++, FIRST_CHECK_MS, LONGEST_CHECK_MS);
    const { status, offer, work } = this.#shown;
    if (status === 'pending') {
      if (offer) this.#sayAccept(true);
      // Its deadline has passed, and nobody said what became of it.
      else if (now > this.#receivedAt + this.terms.payload.deadlineMs) this.#ask();
    } else if (work === 'open' && !this.durable && now - this.#heardAt > this.#context.graceMs) {
      const message = `nothing is heard of ${this.peer}, who wanted the work`;
      this.#step({ type: 'refuse', error: { code: 'AGENT_UNAVAILABLE', message, details: {} } });
    } else if (this.durable && !this.#settled && (work === 'done' || work === 'failed')) this.#deliver();
  }

  override expire(): void {
    this.#step({ type: 'lapse' });
  }

  /** This agent leaves: the work ends, but a durable proposal is not over. */
  leave(error: EclipticError): void {
    this.#abort(error);
    if (this.durable) return;
    if (this.#state.status === 'pending' && !this.#state.offer) return void this.reject('left').catch(() => {});
    if (this.open) this.#context.post(this, 'error', { [PROPOSAL]: this.id, ...toWireError(error) });
  }

  get #patience(): number {
    return this.terms.payload.deadlineMs + (this.durable ? DURABLE_GRACE_MS : this.#context.graceMs);
  }

  #offer({ estimatedCompletionMs, load }: Bid): Offer {
    const estimate = estimatedCompletionMs ?? ESTIMATES[this.terms.payload.estimatedComplexity];
    const burden = load ?? this.#context.load;
    if (!Number.isFinite(estimate) || estimate <= 0 || !Number.isFinite(burden) || burden < 0) {
      throw new EclipticError('INVALID_ENVELOPE', 'an estimate is a finite number above 0, and a load one not below 0');
    }
    return { estimatedCompletionMs: estimate, load: burden };
  }

  /** A step that this side takes of itself; resolves when it is on disk, if it must be, and on its way. */
  #said(input: AddresseeInput): Promise<void> {
    return new Promise((resolve, reject) => this.#step(input, resolve, reject));
  }

  #step(input: AddresseeInput, done?: () => void, notKept?: (error: unknown) => void): void {
    const before = this.#state;
    const { state, effects } = addresseeStep(before, input);
    if (effects.length === 0) {
      done?.();
      return;
    }
    this.#state = state;
    if (!this.durable) {
      this.#perform(state, effects);
      done?.();
      return;
    }
    this.#context.keep(
      this,
      () => {
        this.#perform(state, effects);
        done?.();
      },
      (error) => {
        this.#context.runtime.logger.error({ proposal: this.id, err: error }, 'a step of a proposal was not kept');
        if (this.#state === state) this.#state = before;
        if (input.type === 'accept') this.#accepted?.reject(error);
        notKept?.(error);
      },
    );
  }

  #perform(state: AddresseeState, effects: readonly AddresseeEffect[]): void {
    const before = this.#shown.work;
    this.#shown = state;
    if (before !== 'open' && state.work === 'open') this.#context.burden(1);
    else if (before === 'open' && state.work !== 'open') this.#context.burden(-1);
    for (const effect of effects) this.#do(effect);
  }

  #do(effect: AddresseeEffect): void {
    const context = this.#context;
    switch (effect.type) {
      case 'accept':
        this.#sayAccept(effect.again);
        break;
      case 'reject':
        context.deadlines.remove(this);
        this.#sayReject();
        context.closed(this);
        break;
      case 'engaged':
        context.deadlines.remove(this);
        this.#engaged();
        break;
      case 'deliver':
        this.#deliver();
        if (!this.durable) context.closed(this);
        break;
      case 'over':
        context.deadlines.remove(this);
        this.#abort(this.#over());
        context.closed(this);
        break;
      case 'cancelled': {
        const { code, message, details } = this.#shown.error!;
        context.deadlines.remove(this);
        this.#abort(new EclipticError(code, message, details));
        this.settle();
        if (!this.durable) context.closed(this);
        break;
      }
      case 'deny':
        this.#post('error', effect.error);
        break;
    }
  }

  #engaged(): void {
    this.#accepted?.resolve(this);
    const onEngaged = this.#onEngaged;
    this.#onEngaged = undefined;
    onEngaged?.(this);
  }

  #sayAccept(again: boolean): void {
    const acceptedBy = this.#context.address;
    const said: AcceptPayload = { proposalId: this.id, acceptedBy, ...this.#state.offer!, ...(again && { again }) };
    this.#context.post(this, 'task-accept', said);
  }

  #sayReject(): void {
    const { reason, alternative } = this.#state;
    const alternativeSuggestion = alternative && this.#context.inFull(alternative);
    const said: RejectPayload = {
      proposalId: this.id,
      rejectionReason: reason!,
      ...(alternativeSuggestion !== undefined && { alternativeSuggestion }),
    };
    this.#context.post(this, 'task-reject', said);
  }

  #ask(): void {
    this.#context.post(this, 'stream-data', { [PROPOSAL]: this.id, query: true });
  }

  #deliver(): void {
    const { work, result, error } = this.#shown;
    const routed =
      work === 'done'
        ? this.#context.post(this, 'response', { [PROPOSAL]: this.id, result: result ?? null })
        : this.#post('error', error!);
    const heard = (delivered: boolean) => {
      if (!delivered) this.#checks = 0;
    };
    if (isPromise(routed)) void routed.then(({ delivered }) => heard(delivered));
    else heard(routed.delivered);
  }

  #post(type: 'error', error: WireError) {
    return this.#context.post(this, type, { [PROPOSAL]: this.id, ...error });
  }

  #abort(error: EclipticError): void {
    this.#aborted ??= error;
    this.#controller?.abort(error);
    this.#accepted?.reject(error);
  }

  /** Why nothing more can be said. */
  #over(): EclipticError {
    const { status, reason, work, error } = this.#state;
    const about = { proposalId: this.id };
    if (work === 'failed' && error) return new EclipticError(error.code, error.message, about);
    if (status === 'timed-out') return new EclipticError('PROPOSAL_TIMEOUT', 'the proposal has timed out', about);
    if (status === 'rejected') return new EclipticError('PROPOSAL_REJECTED', `the proposal is over: ${reason}`, about);
    return new EclipticError('INVALID_TRANSITION', 'the proposal was answered already', about);
  }
}
