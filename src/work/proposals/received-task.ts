import { toWireError, type WireError } from '../../mesh/codec.js';
import type { EnvelopeFactory, ValidEnvelope } from '../../mesh/envelope.js';
import { weighJson } from '../../mesh/json-value.js';
import { isPromise } from '../../mesh/message-sender.js';
import { Deferred } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import {
  type AddresseeEffect,
  type AddresseeInput,
  type AddresseeState,
  addresseeStep,
  newAddressee,
  type Offer,
} from './machine.js';
import type { NegotiationContext } from './negotiation-context.js';
import type { Bid, Complexity, Engagement, ReceivedProposal } from './proposal.js';
import { ProposalSide } from './proposal-side.js';
import { type AcceptPayload, isName, PROPOSAL, type ProposalPayload, type RejectPayload } from './proposal-wire.js';
import type { ProposalRow } from './tables.js';

interface Stored {
  readonly payload: ProposalPayload;
  readonly thread: string;
  readonly state: AddresseeState;
  readonly settled: boolean;
  readonly receivedAt: number;
}

export interface ReceivedTerms {
  /** The message that it came in; undefined in a later run. */
  readonly envelope?: ValidEnvelope;
  readonly payload: ProposalPayload;
  /** The address of the proposer. */
  readonly from: string;
  readonly thread: string;
}

/** What a proposer says to its addressee. */
type ProposerWord = { readonly type: 'proposal' | 'confirm' } | { readonly type: 'refuse'; readonly error: WireError };

/** Default estimates of how long work takes. */
const ESTIMATES: Readonly<Record<Complexity, number>> = { simple: 10_000, medium: 60_000, complex: 600_000 };
/** A durable acceptance waits this long for a proposer that is away. */
const DURABLE_GRACE_MS = 7 * 86_400_000;

/** A proposal at its addressee: first what it may accept or reject, then the work that it has to do. */
export class ReceivedTask
  extends ProposalSide<AddresseeState, AddresseeInput, AddresseeEffect>
  implements ReceivedProposal, Engagement
{
  readonly side = 'received';
  readonly terms: ReceivedTerms;
  readonly resumed: boolean;
  readonly #receivedAt: number;
  #accepted: Deferred<Engagement> | undefined;
  #onEngaged: ((engagement: ReceivedTask) => void) | undefined;
  #controller: AbortController | undefined;
  #aborted: EclipticError | undefined;
  /** The proposer has the result on its disk. */
  #settled = false;
  #heardAt: number;
  /** @internal A proposal of another proposer with the same id. */
  namesake: ReceivedTask | undefined;

  constructor(
    context: NegotiationContext,
    terms: ReceivedTerms,
    onClosed: (side: ProposalSide) => void,
    stored?: Stored,
  ) {
    const { payload, from: peer, thread } = terms;
    super(context, { payload, peer, thread }, stored?.state ?? newAddressee(), onClosed);
    this.terms = terms;
    this.namesake = undefined;
    this.resumed = stored !== undefined;
    this.#settled = stored?.settled ?? false;
    const now = context.runtime.now();
    this.#receivedAt = stored?.receivedAt ?? now;
    this.#heardAt = now;
    if (this.state.work === 'open') context.load++;
    if (this.state.status === 'pending') context.deadlines.add(this, this.#patience - (now - this.#receivedAt));
  }

  static restore(context: NegotiationContext, row: ProposalRow, onClosed: (side: ProposalSide) => void): ReceivedTask {
    const stored = JSON.parse(row.document) as Stored;
    const { payload, thread } = stored;
    const task = new ReceivedTask(context, { payload, thread, from: row.peer }, onClosed, stored);
    task.changedAt = row.at;
    return task;
  }

  get from(): string {
    return this.peer;
  }

  get capabilities(): readonly string[] {
    return this.payload.requiredCapabilities;
  }

  get taskDescription(): string {
    return this.payload.taskDescription;
  }

  get open(): boolean {
    const { status, work } = this.decided;
    return status === 'pending' || work === 'open' || (this.durable && work !== 'none' && !this.#settled);
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#aborted) this.#controller.abort(this.#aborted);
    return this.#controller.signal;
  }

  /** The message that it came in, made again in a later run. */
  envelope(factory: EnvelopeFactory): ValidEnvelope {
    const { envelope, from, payload, thread } = this.terms;
    return envelope ?? factory.createFrom(from, this.context.agentId, 'task-proposal', payload, thread);
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
    const { status, offer, work } = this.decided;
    if (onEngaged) this.#onEngaged = onEngaged;
    // A proposal that was accepted in an earlier run needs no second acceptance.
    if (this.resumed && status === 'accepted' && work === 'open') return void this.#engaged();
    if (this.resumed && status === 'pending' && offer) return;
    if (status !== 'pending' || offer) throw this.#over();
    this.take({ type: 'accept', offer: this.#offer(bid) });
  }

  reject(reason: string, { alternative }: { alternative?: string } = {}): Promise<void> {
    if (!isName(reason) || (alternative !== undefined && !isName(alternative))) {
      const text = 'a rejection needs a reason, and both it and the alternative are short';
      return Promise.reject(new EclipticError('INVALID_ENVELOPE', text));
    }
    if (this.decided.status !== 'pending' || this.decided.offer) return Promise.reject(this.#over());
    return new Promise((resolve, fail) => this.take({ type: 'reject', reason, alternative }, resolve, fail));
  }

  progress(value: unknown): void {
    if (this.state.work === 'open') {
      this.changedAt = this.context.runtime.now();
      this.context.post(this, 'stream-data', { [PROPOSAL]: this.id, progress: value ?? null });
    }
  }

  complete(result: unknown = null): Promise<void> {
    return new Promise((resolve, reject) => this.finish(result, resolve, reject));
  }

  /** As `complete`, without a promise. Throws if the result cannot be sent. */
  finish(result: unknown, done?: () => void, failed?: (error: unknown) => void): void {
    if (this.decided.work !== 'open') throw this.#over();
    const weight = weighJson(result);
    if (typeof weight !== 'number') {
      const code = weight.tooLarge ? 'PAYLOAD_TOO_LARGE' : 'INVALID_ENVELOPE';
      throw new EclipticError(code, `the result ${weight.path} ${weight.problem}`);
    }
    this.weight += weight;
    this.take({ type: 'result', value: result }, done, failed);
  }

  fail(error: unknown): Promise<void> {
    if (this.decided.work !== 'open') return Promise.reject(this.#over());
    return new Promise((resolve, reject) => this.take({ type: 'failure', error: toWireError(error) }, resolve, reject));
  }

  /** Stores a durable proposal before it is handed over. */
  start(arrived: () => void): void {
    if (!this.durable) return void arrived();
    // One that could not be stored was never received: the proposer sends it again.
    this.context.store(this.row, arrived, () => this.close());
  }

  /** The proposer asks again, confirms, or takes back. */
  hear(input: ProposerWord): void {
    this.#heardAt = this.context.runtime.now();
    // A proposer that does not know the proposal waits for no result either.
    if (input.type === 'refuse' && input.error.code === 'PROPOSAL_NOT_FOUND' && this.decided.work !== 'none') {
      this.settle();
    }
    this.take(input);
  }

  /** The proposer has the result, on its disk. */
  settle(): void {
    const { work } = this.decided;
    if (this.#settled || (work !== 'done' && work !== 'failed')) return;
    this.#settled = true;
    this.#release();
    const nothing = () => {};
    if (this.durable) this.context.store(this.row, nothing, nothing);
    this.close();
  }

  /** The proposer does not wait for this side any more. */
  #release(): void {
    this.context.release(this.peer, this.context.agentId, this.thread);
  }

  check(now: number): void {
    if (!this.isDue(now)) return;
    const { status, offer, work } = this.state;
    if (status === 'pending') {
      if (offer) this.#sayAccept(true);
      // The deadline has passed without a word from the proposer.
      else if (now > this.#receivedAt + this.payload.deadlineMs) {
        this.context.post(this, 'stream-data', { [PROPOSAL]: this.id, query: true });
      }
    } else if (work === 'open' && !this.durable && now - this.#heardAt > this.context.graceMs) {
      const message = `nothing is heard of ${this.peer}, who wanted the work`;
      this.take({ type: 'refuse', error: { code: 'AGENT_UNAVAILABLE', message, details: {} } });
    } else if (this.durable && !this.#settled && (work === 'done' || work === 'failed')) this.#deliver();
  }

  override expire(): void {
    this.take({ type: 'lapse' });
  }

  /** This agent leaves: the work ends, but a durable proposal is not over. */
  leave(error: EclipticError): void {
    this.#abort(error);
    if (this.durable) return;
    if (this.decided.status === 'pending' && !this.decided.offer) return void this.reject('left').catch(() => {});
    if (this.open) this.#sayError(toWireError(error));
  }

  protected get document(): Stored {
    const { payload, thread, decided: state } = this;
    return { payload, thread, state, settled: this.#settled, receivedAt: this.#receivedAt };
  }

  protected decide(state: AddresseeState, input: AddresseeInput) {
    return addresseeStep(state, input);
  }

  protected notStored(input: AddresseeInput, error: unknown): void {
    if (input.type === 'accept') this.#accepted?.reject(error);
  }

  protected override publish(state: AddresseeState, effects: readonly AddresseeEffect[]): void {
    const before = this.state.work;
    if (before !== 'open' && state.work === 'open') this.context.load++;
    else if (before === 'open' && state.work !== 'open') this.context.load--;
    super.publish(state, effects);
  }

  protected perform(effect: AddresseeEffect): void {
    const { deadlines } = this.context;
    switch (effect.type) {
      case 'accept':
        this.#sayAccept(effect.again);
        break;
      case 'reject':
        deadlines.remove(this);
        this.#sayReject();
        this.close();
        break;
      case 'engaged':
        deadlines.remove(this);
        this.#engaged();
        break;
      case 'deliver':
        this.#deliver();
        if (!this.durable) this.close();
        break;
      case 'over':
        deadlines.remove(this);
        this.#abort(this.#over());
        this.close();
        this.#release();
        break;
      case 'cancelled': {
        const { code, message, details } = this.state.error!;
        deadlines.remove(this);
        this.#abort(new EclipticError(code, message, details));
        this.settle();
        if (!this.durable) this.close();
        break;
      }
      case 'deny':
        this.#sayError(effect.error);
        break;
    }
  }

  get #patience(): number {
    return this.payload.deadlineMs + (this.durable ? DURABLE_GRACE_MS : this.context.graceMs);
  }

  #offer({ estimatedCompletionMs, load }: Bid): Offer {
    const estimate = estimatedCompletionMs ?? ESTIMATES[this.payload.estimatedComplexity];
    const burden = load ?? this.context.load;
    if (!Number.isFinite(estimate) || estimate <= 0 || !Number.isFinite(burden) || burden < 0) {
      throw new EclipticError('INVALID_ENVELOPE', 'an estimate is a finite number above 0, and a load one not below 0');
    }
    return { estimatedCompletionMs: estimate, load: burden };
  }

  #engaged(): void {
    this.#accepted?.resolve(this);
    const onEngaged = this.#onEngaged;
    this.#onEngaged = undefined;
    onEngaged?.(this);
  }

  #sayAccept(again: boolean): void {
    const acceptedBy = this.context.address;
    const said: AcceptPayload = { proposalId: this.id, acceptedBy, ...this.decided.offer!, ...(again && { again }) };
    this.context.post(this, 'task-accept', said);
  }

  #sayReject(): void {
    const { reason, alternative } = this.decided;
    const alternativeSuggestion = alternative && this.context.inFull(alternative);
    const said: RejectPayload = {
      proposalId: this.id,
      rejectionReason: reason!,
      ...(alternativeSuggestion !== undefined && { alternativeSuggestion }),
    };
    this.context.post(this, 'task-reject', said);
  }

  #deliver(): void {
    const { work, result, error } = this.state;
    const routed =
      work === 'done'
        ? this.context.post(this, 'response', { [PROPOSAL]: this.id, result: result ?? null })
        : this.#sayError(error!);
    const heard = (delivered: boolean) => {
      if (delivered) return;
      this.checks = 0;
      // Its proposer is gone, and with it the wait for the result.
      if (!this.durable) this.#release();
    };
    if (isPromise(routed)) void routed.then(({ delivered }) => heard(delivered));
    else heard(routed.delivered);
  }

  #sayError(error: WireError) {
    return this.context.post(this, 'error', { [PROPOSAL]: this.id, ...error });
  }

  #abort(error: EclipticError): void {
    this.#aborted ??= error;
    this.#controller?.abort(error);
    this.#accepted?.reject(error);
  }

  /** Why nothing more can be said. */
  #over(): EclipticError {
    const { status, reason, work, error } = this.decided;
    const about = { proposalId: this.id };
    if (work === 'failed' && error) return new EclipticError(error.code, error.message, about);
    if (status === 'timed-out') return new EclipticError('PROPOSAL_TIMEOUT', 'the proposal has timed out', about);
    if (status === 'rejected') return new EclipticError('PROPOSAL_REJECTED', `the proposal is over: ${reason}`, about);
    return new EclipticError('INVALID_TRANSITION', 'the proposal was answered already', about);
  }
}
