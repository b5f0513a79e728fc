import type { WireError } from '../../mesh/codec.js';
import type { Step } from '../../runtime/machine.js';
import type { ProposalStatus, RefusedAnswer } from './proposal.js';

export interface Offer {
  readonly estimatedCompletionMs: number;
  readonly load: number;
}

export type WorkState = 'none' | 'open' | 'done' | 'failed';

/** The state of one side; `result` and `error` are those of the work. */
export interface Standing {
  readonly status: ProposalStatus;
  readonly work: WorkState;
  /** The addressee's offer; not binding before the proposer confirms. */
  readonly offer: Offer | undefined;
  readonly result: unknown;
  readonly reason?: string;
  readonly alternative?: string;
  readonly error?: WireError;
  /** The proposer took it back before it was accepted. */
  readonly withdrawn?: true;
}

export interface ProposerState extends Standing {
  /** One of several, of which one will be chosen: an acceptance is a bid until then. */
  readonly competing: boolean;
  /** The proposer ended it. */
  readonly own?: true;
}

export type AddresseeState = Standing;

export type ProposerInput =
  | { readonly type: 'accept'; readonly offer: Offer; readonly again: boolean }
  | { readonly type: 'reject'; readonly reason: string; readonly alternative: string | undefined }
  | { readonly type: 'progress'; readonly value: unknown }
  | { readonly type: 'result'; readonly value: unknown }
  | { readonly type: 'failure'; readonly error: WireError }
  /** `query`: the addressee asks whether it is still open. */
  | { readonly type: 'deadline' | 'query' }
  | { readonly type: 'withdraw'; readonly reason: string }
  | { readonly type: 'award' }
  /** It could not be sent, or the addressee fell silent. */
  | { readonly type: 'lost'; readonly error: WireError };

export type ProposerEffect =
  | { readonly type: 'confirm' | 'acknowledge' | 'bid' | 'answered' | 'finished' }
  | { readonly type: 'refuse'; readonly error: WireError }
  | { readonly type: 'progress'; readonly value: unknown }
  | { readonly type: 'count'; readonly kind: RefusedAnswer };

export type AddresseeInput =
  | { readonly type: 'proposal' | 'confirm' | 'lapse' }
  | { readonly type: 'accept'; readonly offer: Offer }
  | { readonly type: 'reject'; readonly reason: string; readonly alternative: string | undefined }
  | { readonly type: 'refuse'; readonly error: WireError }
  | { readonly type: 'result'; readonly value: unknown }
  | { readonly type: 'failure'; readonly error: WireError };

export type AddresseeEffect =
  | { readonly type: 'accept'; readonly again: boolean }
  | { readonly type: 'reject' | 'deliver' | 'engaged' | 'over' | 'cancelled' }
  /** The proposer is wrong about the state of this side. */
  | { readonly type: 'deny'; readonly error: WireError };

type ProposerStep = Step<ProposerState, ProposerEffect>;
type AddresseeStep = Step<AddresseeState, AddresseeEffect>;

export function newProposer(competing: boolean): ProposerState {
  return competing ? NEW_BIDDING : NEW_PROPOSER;
}

export function newAddressee(): AddresseeState {
  return NEW_ADDRESSEE;
}

/** The reason for the bids that were not chosen. */
export const NOT_AWARDED = 'not-awarded';
const WITHDRAWN = { withdrawn: true } as const;

const NEW_PROPOSER: ProposerState = proposer('pending', 'none', undefined, undefined, false);
const NEW_BIDDING: ProposerState = proposer('pending', 'none', undefined, undefined, true);
const NEW_ADDRESSEE: AddresseeState = addressee('pending', 'none', undefined, undefined);
const NOTHING: readonly never[] = [];
const CONFIRMED: readonly ProposerEffect[] = [{ type: 'answered' }, { type: 'confirm' }];
const FINISHED: readonly ProposerEffect[] = [{ type: 'finished' }, { type: 'acknowledge' }];
const OFFERED: readonly AddresseeEffect[] = [{ type: 'accept', again: false }];
const ENGAGED: readonly AddresseeEffect[] = [{ type: 'engaged' }];
const DELIVERED: readonly AddresseeEffect[] = [{ type: 'deliver' }];
const TIMEOUT: WireError = {
  code: 'PROPOSAL_TIMEOUT',
  message: 'the proposal was not answered within its deadline',
  details: {},
};

/** The proposer's side. The deadline runs here, and both sides end with this side's decision. */
export function proposerStep(state: ProposerState, input: ProposerInput): ProposerStep {
  switch (input.type) {
    case 'accept':
      return hearAcceptance(state, input.offer, input.again);
    case 'reject':
      if (state.status !== 'pending' || state.offer) return counted(state, refusedAs(state, 'reject'));
      return answered({ ...state, status: 'rejected', reason: input.reason, alternative: input.alternative });
    case 'progress':
      return state.work === 'open' ? { state, effects: [{ type: 'progress', value: input.value }] } : same(state);
    case 'result':
      if (state.work !== 'open') return heardAgain(state);
      return { state: proposer('accepted', 'done', state.offer, input.value, state.competing), effects: FINISHED };
    case 'failure':
      return hearFailure(state, input.error);
    case 'deadline':
      // The contract net chooses among bids.
      if (state.status !== 'pending' || (state.competing && state.offer)) return same(state);
      return answered({ ...state, status: 'timed-out' }, TIMEOUT);
    case 'query':
      if (state.status === 'pending' || state.status === 'accepted') return same(state);
      return { state, effects: [{ type: 'refuse', error: refusal(state) }] };
    case 'withdraw':
      return withdraw(state, input.reason);
    case 'award':
      if (state.status !== 'pending' || !state.offer) return same(state);
      return { state: accepted(state, state.offer), effects: CONFIRMED };
    case 'lost':
      if (state.status === 'pending') {
        return answered({ ...state, status: 'rejected', reason: input.error.code, error: input.error, own: true });
      }
      if (state.work !== 'open') return same(state);
      return { state: { ...state, work: 'failed', error: input.error }, effects: [{ type: 'finished' }] };
  }
}

function hearAcceptance(state: ProposerState, offer: Offer, again: boolean): ProposerStep {
  if (state.status === 'pending' && !state.offer) {
    if (state.competing) return { state: { ...state, offer }, effects: [{ type: 'bid' }] };
    return { state: accepted(state, offer), effects: CONFIRMED };
  }
  // A repeated acceptance gets the same answer again.
  const effects: ProposerEffect[] = again ? [] : [{ type: 'count', kind: refusedAs(state, 'accept') }];
  if (state.status === 'accepted') {
    if (state.work === 'open') effects.push({ type: 'confirm' });
    else if (state.work === 'failed') effects.push({ type: 'refuse', error: cancelled(state.error!.message) });
  } else if (state.status !== 'pending') effects.push({ type: 'refuse', error: refusal(state) });
  return { state, effects };
}

// The common steps build their states without a spread, which costs much more.

function accepted({ competing }: ProposerState, offer: Offer): ProposerState {
  return proposer('accepted', 'open', offer, undefined, competing);
}

function proposer(
  status: ProposalStatus,
  work: WorkState,
  offer: Offer | undefined,
  result: unknown,
  competing: boolean,
): ProposerState {
  return { status, work, offer, result, competing };
}

function addressee(status: ProposalStatus, work: WorkState, offer: Offer | undefined, result: unknown): AddresseeState {
  return { status, work, offer, result };
}

/** Why an answer is refused that comes when none is expected any more. */
function refusedAs(state: ProposerState, answer: 'accept' | 'reject'): RefusedAnswer {
  if (state.status === 'timed-out') return 'late';
  if (state.own) return 'crossed';
  const first = state.offer ? 'accept' : 'reject';
  return first === answer ? 'duplicate' : 'crossed';
}

function refusal(state: ProposerState): WireError {
  if (state.status === 'timed-out') return TIMEOUT;
  return { code: 'PROPOSAL_REJECTED', message: state.reason ?? 'the proposal is over', details: {} };
}

function hearFailure(state: ProposerState, error: WireError): ProposerStep {
  if (state.work === 'open') return { state: { ...state, work: 'failed', error }, effects: FINISHED };
  // An addressee that fails before it answers has declined.
  if (state.status === 'pending') return answered({ ...state, status: 'rejected', reason: error.code });
  return heardAgain(state);
}

/** A repeated result is acknowledged again; a result of a proposal that is over is refused and counted. */
function heardAgain(state: ProposerState): ProposerStep {
  if (state.status === 'accepted') return { state, effects: [{ type: 'acknowledge' }] };
  return counted(state, state.status === 'timed-out' ? 'late' : 'crossed');
}

function withdraw(state: ProposerState, reason: string): ProposerStep {
  if (state.status === 'pending') {
    const error: WireError = { code: 'PROPOSAL_REJECTED', message: reason, details: {} };
    return answered(
      { ...state, status: 'rejected', reason, own: true, ...(reason !== NOT_AWARDED && WITHDRAWN) },
      error,
    );
  }
  if (state.work !== 'open') return same(state);
  const error = cancelled(reason);
  return { state: { ...state, work: 'failed', error }, effects: [{ type: 'finished' }, { type: 'refuse', error }] };
}

function cancelled(message: string): WireError {
  return { code: 'CANCELLED', message, details: {} };
}

function answered(state: ProposerState, tell?: WireError): ProposerStep {
  return {
    state,
    effects: tell ? [{ type: 'answered' }, { type: 'refuse', error: tell }] : [{ type: 'answered' }],
  };
}

function counted(state: ProposerState, kind: RefusedAnswer): ProposerStep {
  return { state, effects: [{ type: 'count', kind }] };
}

/** The addressee's side. Its acceptance is an offer until the proposer confirms it; its rejection is final at once. */
export function addresseeStep(state: AddresseeState, input: AddresseeInput): AddresseeStep {
  switch (input.type) {
    case 'proposal':
      return { state, effects: repeated(state) };
    case 'accept':
      if (state.status !== 'pending' || state.offer) return same(state);
      return { state: addressee('pending', 'none', input.offer, undefined), effects: OFFERED };
    case 'reject':
      if (state.status !== 'pending' || state.offer) return same(state);
      return {
        state: { ...state, status: 'rejected', reason: input.reason, alternative: input.alternative },
        effects: [{ type: 'reject' }],
      };
    case 'confirm':
      return hearConfirmation(state);
    case 'refuse':
      return hearRefusal(state, input.error);
    case 'lapse':
      if (state.status !== 'pending') return same(state);
      return { state: { ...state, status: 'timed-out' }, effects: [{ type: 'over' }] };
    case 'result':
      if (state.work !== 'open') return same(state);
      return { state: addressee('accepted', 'done', state.offer, input.value), effects: DELIVERED };
    case 'failure':
      if (state.work !== 'open') return same(state);
      return { state: { ...state, work: 'failed', error: input.error }, effects: DELIVERED };
  }
}

/** The proposer sends the proposal again: it has missed the answer. */
function repeated(state: AddresseeState): readonly AddresseeEffect[] {
  if (state.status === 'pending') return state.offer ? [{ type: 'accept', again: true }] : NOTHING;
  return state.status === 'rejected' && state.offer === undefined ? [{ type: 'reject' }] : NOTHING;
}

function hearConfirmation(state: AddresseeState): AddresseeStep {
  if (state.status === 'accepted') {
    return state.work === 'open' ? same(state) : { state, effects: DELIVERED };
  }
  if (state.status === 'pending' && state.offer) {
    return { state: addressee('accepted', 'open', state.offer, undefined), effects: ENGAGED };
  }
  if (state.status === 'pending') return same(state);
  return { state, effects: [{ type: 'deny', error: TIMEOUT }] };
}

function hearRefusal(state: AddresseeState, error: WireError): AddresseeStep {
  if (state.status === 'pending' && state.offer && error.code === 'CANCELLED') {
    // Only accepted work is cancelled, so a confirmation was sent before, and lost.
    return { state: { ...state, status: 'accepted', work: 'failed', error }, effects: [{ type: 'cancelled' }] };
  }
  if (state.status === 'pending') {
    const timedOut = error.code === 'PROPOSAL_TIMEOUT' || error.code === 'PROPOSAL_NOT_FOUND';
    const ended: AddresseeState = timedOut
      ? { ...state, status: 'timed-out' }
      : { ...state, status: 'rejected', reason: error.message, ...(error.message !== NOT_AWARDED && WITHDRAWN) };
    return { state: ended, effects: [{ type: 'over' }] };
  }
  if (state.work !== 'open') return same(state);
  return { state: { ...state, work: 'failed', error }, effects: [{ type: 'cancelled' }] };
}

function same<State>(state: State): Step<State, never> {
  return { state, effects: NOTHING };
}

/** Did the proposer end it, before or after it was accepted? */
export function isCanceled({ withdrawn, work, error }: Pick<Standing, 'withdrawn' | 'work' | 'error'>): boolean {
  return withdrawn === true || (work === 'failed' && error?.code === 'CANCELLED');
}
