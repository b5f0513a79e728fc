import { backoffMs } from '../runtime/backoff.js';

/**
 * The decisions of a channel as a pure machine: state and event in, next state and effects out. Envelopes stay with the
 * shell; the machine only knows how many are queued, and refers to "the first".
 */
export type ChannelStatus = 'connecting' | 'open' | 'reconnecting' | 'closed';

export interface ChannelState {
  readonly status: ChannelStatus;
  /** Envelopes accepted and not yet settled. The first may be in flight. */
  readonly queued: number;
  readonly failures: number;
  readonly first: 'waiting' | 'in-flight' | 'backing-off';
}

export interface ChannelRules {
  readonly queueCapacity: number;
  readonly retries: number;
  readonly retryDelayMs: number;
}

export type ChannelEvent =
  | { readonly type: 'acknowledged' }
  | { readonly type: 'disconnected' }
  | { readonly type: 'reconnected' }
  | { readonly type: 'closed' }
  | { readonly type: 'sent' }
  | { readonly type: 'delivered' }
  | { readonly type: 'failed' }
  | { readonly type: 'dropped' }
  | { readonly type: 'retry-due' };

export type ChannelEffect =
  | { readonly type: 'attempt-first'; readonly attempt: number }
  | { readonly type: 'retry-after'; readonly ms: number }
  | { readonly type: 'settle-first'; readonly delivered: boolean }
  | { readonly type: 'settle-all' }
  | { readonly type: 'status'; readonly status: ChannelStatus };

export type ChannelStep =
  | { readonly ok: true; readonly state: ChannelState; readonly effects: readonly ChannelEffect[] }
  | { readonly ok: false; readonly code: 'INVALID_TRANSITION' | 'CHANNEL_CLOSED' | 'QUEUE_FULL' };

export const CONNECTING: ChannelState = { status: 'connecting', queued: 0, failures: 0, first: 'waiting' };

const NEXT: Readonly<Record<ChannelStatus, readonly ChannelStatus[]>> = {
  connecting: ['open', 'closed'],
  open: ['reconnecting', 'closed'],
  reconnecting: ['open', 'closed'],
  closed: [],
};

export function stepChannel(state: ChannelState, event: ChannelEvent, rules: ChannelRules): ChannelStep {
  switch (event.type) {
    case 'acknowledged':
      return state.status === 'connecting' ? moveTo(state, 'open') : invalid();
    case 'disconnected':
      return moveTo(state, 'reconnecting');
    case 'reconnected':
      return state.status === 'reconnecting' ? moveTo(state, 'open') : invalid();
    case 'closed':
      return close(state);
    case 'sent':
      return accept(state, rules);
    case 'delivered':
      return state.first === 'in-flight' ? settleFirst(state, true) : ignored(state);
    case 'failed':
      return state.first === 'in-flight' ? failed(state, rules) : ignored(state);
    case 'dropped':
      return state.first === 'in-flight' ? settleFirst(state, false) : ignored(state);
    case 'retry-due':
      return state.first === 'backing-off' ? proceed({ ...state, first: 'waiting' }, []) : ignored(state);
  }
}

function moveTo(state: ChannelState, status: 'open' | 'reconnecting'): ChannelStep {
  if (!NEXT[state.status].includes(status)) return invalid();
  // An attempt that was under way when the transport disconnected is made again: its outcome is unknown.
  const first = status === 'reconnecting' && state.first === 'in-flight' ? 'waiting' : state.first;
  return proceed({ ...state, status, first }, [{ type: 'status', status }]);
}

function close(state: ChannelState): ChannelStep {
  if (state.status === 'closed') return invalid();
  const effects: ChannelEffect[] = [{ type: 'status', status: 'closed' }];
  if (state.queued > 0) effects.push({ type: 'settle-all' });
  return { ok: true, state: { status: 'closed', queued: 0, failures: 0, first: 'waiting' }, effects };
}

function accept(state: ChannelState, rules: ChannelRules): ChannelStep {
  if (state.status === 'closed') return { ok: false, code: 'CHANNEL_CLOSED' };
  if (state.queued >= rules.queueCapacity) return { ok: false, code: 'QUEUE_FULL' };
  return proceed({ ...state, queued: state.queued + 1 }, []);
}

function failed(state: ChannelState, rules: ChannelRules): ChannelStep {
  if (state.failures === rules.retries) return settleFirst(state, false);
  const ms = backoffMs(state.failures, rules.retryDelayMs);
  return {
    ok: true,
    state: { ...state, failures: state.failures + 1, first: 'backing-off' },
    effects: [{ type: 'retry-after', ms }],
  };
}

function settleFirst(state: ChannelState, delivered: boolean): ChannelStep {
  const next: ChannelState = { ...state, queued: state.queued - 1, failures: 0, first: 'waiting' };
  return proceed(next, [{ type: 'settle-first', delivered }]);
}

/** Starts an attempt at the first envelope if the channel is open and there is none under way. */
function proceed(state: ChannelState, effects: ChannelEffect[]): ChannelStep {
  if (state.status !== 'open' || state.first !== 'waiting' || state.queued === 0) return { ok: true, state, effects };
  return {
    ok: true,
    state: { ...state, first: 'in-flight' },
    effects: [...effects, { type: 'attempt-first', attempt: state.failures + 1 }],
  };
}

function ignored(state: ChannelState): ChannelStep {
  return { ok: true, state, effects: [] };
}

function invalid(): ChannelStep {
  return { ok: false, code: 'INVALID_TRANSITION' };
}
