import { backoffMs } from '../../runtime/backoff.js';
import type { EclipticError } from '../../runtime/errors.js';
import type { Step } from '../../runtime/machine.js';

/** When to restart after a crash, and when to give up. */
export interface RestartPolicy {
  /** The delay after the first crash; it doubles with each further one. Default 250. */
  readonly firstDelayMs: number;
  /** The longest delay. Default 30,000. */
  readonly maxDelayMs: number;
  /** After running this long, the next crash counts as the first for the delay. Default 60,000. */
  readonly wellMs: number;
  /** That many crashes … Default 5. */
  readonly maxCrashes: number;
  /** … within this time: it has failed until it is restarted by hand. Default 60,000. */
  readonly withinMs: number;
  /** A start that takes longer counts as a crash. Default 30,000. */
  readonly startMs: number;
}

export const RESTART_POLICY: RestartPolicy = {
  firstDelayMs: 250,
  maxDelayMs: 30_000,
  wellMs: 60_000,
  maxCrashes: 5,
  withinMs: 60_000,
  startMs: 30_000,
};

export type SupervisedState =
  | { readonly kind: 'idle' }
  | { readonly kind: 'starting' }
  | { readonly kind: 'running'; readonly since: number }
  | { readonly kind: 'backing-off'; readonly delayMs: number; readonly reason: EclipticError }
  | { readonly kind: 'stopping'; readonly next: 'idle' | 'starting' }
  | { readonly kind: 'failed'; readonly reason: EclipticError };

type Stopping = Extract<SupervisedState, { kind: 'stopping' }>;

/** The state and its earlier crashes. */
export interface Supervision {
  readonly state: SupervisedState;
  /** Times of the crashes within `withinMs`. */
  readonly crashes: readonly number[];
  /** Crashes since it last ran for `wellMs`. */
  readonly streak: number;
}

export type SupervisionEvent =
  | { readonly type: 'start' }
  | { readonly type: 'restart' }
  | { readonly type: 'stop' }
  | { readonly type: 'started'; readonly at: number }
  | {
      readonly type: 'crashed';
      readonly at: number;
      readonly reason: EclipticError;
      /** In [0, 1); spreads the restarts of programs that crashed together. */
      readonly jitter: number;
      /** A restart would change nothing. */
      readonly final?: boolean;
    }
  | { readonly type: 'stopped' }
  | { readonly type: 'due' };

export type SupervisionEffect =
  | { readonly type: 'launch' }
  | { readonly type: 'halt' }
  | { readonly type: 'set-timer'; readonly ms: number }
  | { readonly type: 'cancel-timer' };

type SupervisionStep = Step<Supervision, SupervisionEffect>;

export const IDLE: Supervision = { state: { kind: 'idle' }, crashes: [], streak: 0 };

/** The pure supervision machine. An event without a meaning in the present state changes nothing. */
export function supervise(now: Supervision, event: SupervisionEvent, policy: RestartPolicy): SupervisionStep {
  const { state } = now;
  switch (event.type) {
    case 'start':
      if (state.kind === 'idle' || state.kind === 'failed') return launchAfresh();
      if (state.kind === 'stopping') return redirect(now, state, 'starting');
      return same(now);
    case 'restart':
      if (state.kind === 'backing-off') return launchAfresh({ type: 'cancel-timer' });
      if (state.kind === 'starting' || state.kind === 'running') return halt(now, 'starting');
      return supervise(now, { type: 'start' }, policy);
    case 'stop':
      if (state.kind === 'failed') return to(now, IDLE.state);
      if (state.kind === 'backing-off') return to(now, IDLE.state, { type: 'cancel-timer' });
      if (state.kind === 'stopping') return redirect(now, state, 'idle');
      return state.kind === 'idle' ? same(now) : halt(now, 'idle');
    case 'started':
      return state.kind === 'starting' ? to(now, { kind: 'running', since: event.at }) : same(now);
    case 'crashed':
      return state.kind === 'starting' || state.kind === 'running' ? crash(now, event, policy) : same(now);
    case 'stopped':
      if (state.kind !== 'stopping') return same(now);
      return state.next === 'idle' ? to(now, IDLE.state) : launchAfresh();
    case 'due':
      return state.kind === 'backing-off' ? to(now, { kind: 'starting' }, { type: 'launch' }) : same(now);
  }
}

function crash(
  now: Supervision,
  { at, reason, jitter, final }: Extract<SupervisionEvent, { type: 'crashed' }>,
  policy: RestartPolicy,
): SupervisionStep {
  const { state } = now;
  const crashes = [...now.crashes.filter((earlier) => at - earlier < policy.withinMs), at];
  if (final || crashes.length >= policy.maxCrashes) return to({ ...now, crashes }, { kind: 'failed', reason });
  const streak = state.kind === 'running' && at - state.since >= policy.wellMs ? 0 : now.streak;
  const delayMs = backoffMs(streak, policy.firstDelayMs, policy.maxDelayMs) * (0.5 + jitter / 2);
  const next: Supervision = { state: { kind: 'backing-off', delayMs, reason }, crashes, streak: streak + 1 };
  return { state: next, effects: [{ type: 'set-timer', ms: delayMs }] };
}

/** A start by hand forgets earlier crashes. */
function launchAfresh(...before: SupervisionEffect[]): SupervisionStep {
  return to(IDLE, { kind: 'starting' }, ...before, { type: 'launch' });
}

function halt(now: Supervision, next: Stopping['next']): SupervisionStep {
  return to(now, { kind: 'stopping', next }, { type: 'halt' });
}

function redirect(now: Supervision, state: Stopping, next: Stopping['next']): SupervisionStep {
  return state.next === next ? same(now) : to(now, { kind: 'stopping', next });
}

function to(now: Supervision, state: SupervisedState, ...effects: SupervisionEffect[]): SupervisionStep {
  return { state: { ...now, state }, effects };
}

function same(now: Supervision): SupervisionStep {
  return { state: now, effects: [] };
}
