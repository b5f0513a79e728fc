import type { SeesMail } from '../mailbox/member.js';

/** Per member, for as long as its session lasts. */
export interface WakeState {
  /** The adapter that starts a turn of an idle agent. Only a self-test makes it `proven`. */
  readonly path: 'none' | 'untested' | 'proven' | 'failed';
  /** The hook that the client calls at the end of each turn. */
  readonly turns: 'unseen' | 'works' | 'failed';
  /** Ids of messages and offered tasks to point the idle agent at, oldest first. */
  readonly waiting: readonly string[];
  /** The one pointer that was submitted and not yet followed: its message was not shown, and no turn has ended. */
  readonly outstanding: Outstanding | undefined;
  /** The last pointer that was not followed, and the states before it. */
  readonly missed: (Pick<WakeState, 'path' | 'turns'> & { readonly id: string }) | undefined;
  /** Wake times within the last hour. */
  readonly wokenAt: readonly number[];
}

export interface Outstanding {
  readonly id: string;
  readonly by: 'path' | 'turn';
  /** The message of a self-test. */
  readonly test: boolean;
}

export interface WakeRules {
  readonly perHour: number;
  readonly readWithinMs: number;
  readonly testWithinMs: number;
}

export type WakeEvent =
  /** An adapter was found, or the present one stopped working. */
  | { readonly type: 'path'; readonly open: boolean }
  /** Mail or a task that is worth a turn arrived. */
  | { readonly type: 'arrived'; readonly id: string }
  | { readonly type: 'test'; readonly id: string }
  | { readonly type: 'refused'; readonly id: string }
  /** An answer to the agent contains it. */
  | { readonly type: 'shown'; readonly id: string }
  | { readonly type: 'read'; readonly id: string }
  | { readonly type: 'late'; readonly id: string }
  /** It was shown before the pointer was submitted. */
  | { readonly type: 'needless'; readonly id: string }
  /** A turn ends while these wait for the agent. */
  | { readonly type: 'turn'; readonly unread: readonly string[] }
  | { readonly type: 'tick' };

/** The time of an event, and how long the quiet hours still last. */
export interface WakeTime {
  readonly at: number;
  readonly quietMs: number;
}

export type WakeEffect =
  | { readonly type: 'surface'; readonly id: string }
  | { readonly type: 'continue'; readonly id: string }
  | { readonly type: 'watch'; readonly id: string; readonly ms: number }
  | { readonly type: 'tick'; readonly ms: number }
  | { readonly type: 'tested'; readonly passed: boolean };

interface Step {
  readonly state: WakeState;
  readonly effects: readonly WakeEffect[];
}

const HOUR_MS = 3_600_000;
/** More stay in the mailbox and are found at the end of a turn. */
const MAX_WAITING = 1_000;

export const ASLEEP: WakeState = {
  path: 'none',
  turns: 'unseen',
  waiting: [],
  outstanding: undefined,
  missed: undefined,
  wokenAt: [],
};

/** The status on the card: never more than was proven, and `wakes` only outside quiet hours. */
export function seesMailBy({ path, turns }: WakeState, { quietMs }: Pick<WakeTime, 'quietMs'>): SeesMail {
  return path === 'proven' && quietMs === 0 ? 'wakes' : turns === 'works' ? 'next_turn' : 'polls';
}

/** Decides when the member is woken, and whether its adapter and hook count as working. */
export function stepWake(state: WakeState, event: WakeEvent, time: WakeTime, rules: WakeRules): Step {
  switch (event.type) {
    case 'path':
      return pathChanged(state, event.open, time, rules);
    case 'arrived': {
      const known = state.waiting.includes(event.id) || state.outstanding?.id === event.id;
      if (known || state.waiting.length >= MAX_WAITING) return stay(state);
      return next({ ...state, waiting: [...state.waiting, event.id] }, time, rules);
    }
    case 'test':
      return test(state, event.id, rules);
    case 'refused':
    case 'late':
      return missed(state, event.id);
    case 'shown':
      // A self-test passes only when its message is read.
      return state.outstanding?.test ? stay(state) : read(state, event.id, time, rules);
    case 'read':
      return read(state, event.id, time, rules);
    case 'needless':
      return needless(state, event.id, time, rules);
    case 'turn':
      return turnEnds(state, event.unread, time, rules);
    case 'tick':
      return next(state, time, rules);
  }
}

function stay(state: WakeState): Step {
  return { state, effects: [] };
}

function pathChanged(state: WakeState, open: boolean, time: WakeTime, rules: WakeRules): Step {
  const { outstanding } = state;
  // A pointer that went to the old adapter goes back to the queue.
  const left = outstanding?.by === 'path' ? undefined : outstanding;
  const effects: WakeEffect[] = outstanding?.test ? [{ type: 'tested', passed: false }] : [];
  const waiting = outstanding?.by === 'path' && !outstanding.test ? [outstanding.id, ...state.waiting] : state.waiting;
  const fresh: WakeState = {
    ...state,
    path: open ? 'untested' : 'none',
    outstanding: left,
    waiting,
    missed: undefined,
  };
  const after = next(fresh, time, rules);
  return { state: after.state, effects: [...effects, ...after.effects] };
}

/** A person asks for a self-test: it ignores quiet hours and earlier failures. */
function test(state: WakeState, id: string, rules: WakeRules): Step {
  if (state.path === 'none' || state.outstanding) return { state, effects: [{ type: 'tested', passed: false }] };
  const outstanding: Outstanding = { id, by: 'path', test: true };
  return {
    state: { ...state, outstanding },
    effects: [
      { type: 'surface', id },
      { type: 'watch', id, ms: rules.testWithinMs },
    ],
  };
}

/** The pointer led to nothing: the adapter or hook counts as failed until it proves itself again. */
function missed(state: WakeState, id: string): Step {
  const { outstanding, path, turns } = state;
  if (outstanding?.id !== id) return stay(state);
  const known: WakeState = { ...state, outstanding: undefined, missed: { id, path, turns } };
  if (outstanding.by === 'turn') return stay({ ...known, turns: 'failed' });
  return {
    state: { ...known, path: 'failed' },
    effects: outstanding.test ? [{ type: 'tested', passed: false }] : [],
  };
}

function read(state: WakeState, id: string, time: WakeTime, rules: WakeRules): Step {
  const waiting = state.waiting.filter((other) => other !== id);
  if (state.missed?.id === id) {
    // The agent was only slow: restore the states from before. A self-test that was slow proves nothing.
    const { path, turns } = state.missed;
    return next({ ...state, waiting, path, turns, missed: undefined }, time, rules);
  }
  if (state.outstanding?.id !== id) return stay({ ...state, waiting });
  const { test } = state.outstanding;
  const after = next({ ...state, waiting, outstanding: undefined, ...(test && { path: 'proven' }) }, time, rules);
  const effects: WakeEffect[] = test ? [{ type: 'tested', passed: true }] : [];
  return { state: after.state, effects: [...effects, ...after.effects] };
}

/** No pointer was submitted, so nothing is learnt of the adapter. */
function needless(state: WakeState, id: string, time: WakeTime, rules: WakeRules): Step {
  const { outstanding } = state;
  if (outstanding?.id !== id) return stay(state);
  // Self-tests do not count towards the hourly limit.
  const wokenAt = outstanding.test ? state.wokenAt : state.wokenAt.slice(0, -1);
  const after = next({ ...state, outstanding: undefined, wokenAt }, time, rules);
  const effects: WakeEffect[] = outstanding.test ? [{ type: 'tested', passed: false }] : [];
  return { state: after.state, effects: [...effects, ...after.effects] };
}

/** Prolongs the turn for the oldest message, and not again before that message was read. */
function turnEnds(before: WakeState, unread: readonly string[], { at }: WakeTime, rules: WakeRules): Step {
  const turns = before.turns === 'unseen' ? 'works' : before.turns;
  const state: WakeState = { ...before, turns, wokenAt: recent(before, at) };
  const { outstanding } = state;
  if (outstanding && !outstanding.test && unread.includes(outstanding.id)) return unfollowed(state, outstanding);
  const seen: WakeState = { ...state, outstanding: outstanding?.test ? outstanding : undefined };
  const [id] = unread;
  const may = turns === 'works' && !seen.outstanding && seen.wokenAt.length < rules.perHour;
  if (id === undefined || !may) return stay(seen);
  const waiting = seen.waiting.filter((other) => other !== id);
  return {
    state: { ...seen, waiting, outstanding: { id, by: 'turn', test: false }, wokenAt: [...seen.wokenAt, at] },
    effects: [
      { type: 'continue', id },
      { type: 'watch', id, ms: rules.readWithinMs },
    ],
  };
}

/**
 * A turn ended, and the message of the pointer is unread: the agent ignored the pointer, or was busy and follows it in
 * its next turn. Later mail may wake it again; the claim that it wakes returns when the message is read.
 */
function unfollowed(state: WakeState, { id, by }: Outstanding): Step {
  const { path, turns } = state;
  const less = by === 'turn' ? { turns: 'failed' as const } : { path: 'untested' as const };
  return stay({ ...state, ...less, outstanding: undefined, missed: { id, path, turns } });
}

/** Submits the next pointer, unless quiet hours, the hourly limit or an outstanding pointer forbid it. */
function next(state: WakeState, { at, quietMs }: WakeTime, rules: WakeRules): Step {
  const [id, ...waiting] = state.waiting;
  const usable = state.path === 'untested' || state.path === 'proven';
  if (id === undefined || !usable || state.outstanding) return stay(state);
  const wokenAt = recent(state, at);
  const budgetMs = wokenAt.length < rules.perHour ? 0 : wokenAt[0]! + HOUR_MS - at;
  const pauseMs = Math.max(quietMs, budgetMs);
  if (pauseMs > 0) return { state: { ...state, wokenAt }, effects: [{ type: 'tick', ms: pauseMs }] };
  return {
    state: { ...state, waiting, outstanding: { id, by: 'path', test: false }, wokenAt: [...wokenAt, at] },
    effects: [
      { type: 'surface', id },
      { type: 'watch', id, ms: rules.readWithinMs },
    ],
  };
}

function recent({ wokenAt }: WakeState, at: number): number[] {
  return wokenAt.filter((then) => at - then < HOUR_MS);
}

export interface WakeInit {
  /** Pointers to one agent in an hour. Default 30. */
  readonly perHour?: number | undefined;
  /** Seconds within which a pointer must lead to `read`. Default 300. */
  readonly readWithinS?: number | undefined;
  /** Longest duration of a self-test. Default 60. */
  readonly testWithinS?: number | undefined;
  /** Hours in which no idle agent is woken, as `22:00-07:00`. Default none. */
  readonly quietHours?: string | undefined;
  /** Test each adapter when it is found, at the price of a short turn. Default false: `ecliptic doctor --wake` tests. */
  readonly selfTest?: boolean | undefined;
}

export interface WakeSettings extends WakeRules {
  readonly quietHours: string | undefined;
  readonly selfTest: boolean;
}

export function wakeSettings(init: WakeInit = {}): WakeSettings {
  const { perHour = 30, readWithinS = 300, testWithinS = 60, quietHours, selfTest = false } = init;
  return { perHour, readWithinMs: readWithinS * 1_000, testWithinMs: testWithinS * 1_000, quietHours, selfTest };
}

/** As `22:00-07:00`, in local time. */
export const QUIET_HOURS = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$/;

const MINUTE_MS = 60_000;
const DAY = 1_440;

/** Milliseconds from `at` to the end of the quiet hours; 0 outside them. */
export function quietFor(hours: string | undefined, at: number): number {
  const found = QUIET_HOURS.exec(hours ?? '');
  if (!found) return 0;
  const [from, to] = [minutes(found[1]!, found[2]!), minutes(found[3]!, found[4]!)];
  const clock = new Date(at);
  const now = clock.getHours() * 60 + clock.getMinutes();
  const since = (now - from + DAY) % DAY;
  const length = (to - from + DAY) % DAY;
  return since < length ? (length - since) * MINUTE_MS - (at % MINUTE_MS) : 0;
}

function minutes(hour: string, minute: string): number {
  return Number(hour) * 60 + Number(minute);
}
