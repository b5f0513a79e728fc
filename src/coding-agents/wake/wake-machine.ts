import type { SeesMail } from '../mailbox/member.js';

/** What is known of waking one member, as long as its session lasts. */
export interface WakeState {
  /** The way to start a turn of an idle agent. Only a self-test makes it `proven`. */
  readonly path: 'none' | 'untested' | 'proven' | 'failed';
  /** The hook that its client calls at the end of each turn. */
  readonly turns: 'unseen' | 'works' | 'failed';
  /** Messages and offered tasks that an idle agent should be told of, oldest first. */
  readonly waiting: readonly string[];
  /** The one pointer that was handed over and not followed by `read` yet. */
  readonly outstanding: Outstanding | undefined;
  /** The pointer that was not followed in time, and what was believed before. */
  readonly missed: Missed | undefined;
  /** When it was woken within the last hour. */
  readonly wokenAt: readonly number[];
}

export interface Outstanding {
  readonly id: string;
  readonly by: 'path' | 'turn';
  /** Is it the nonce of a self-test? */
  readonly test: boolean;
}

interface Missed {
  readonly id: string;
  readonly path: WakeState['path'];
  readonly turns: WakeState['turns'];
}

export interface WakeRules {
  /** Pointers in one hour. */
  readonly perHour: number;
  readonly readWithinMs: number;
  readonly testWithinMs: number;
}

export type WakeEvent =
  /** Another way in was found, or the one that there was is closed. */
  | { readonly type: 'path'; readonly open: boolean }
  /** Mail or a task that is worth a turn of its own has come. */
  | { readonly type: 'arrived'; readonly id: string }
  | { readonly type: 'test'; readonly id: string }
  /** The pointer was not taken. */
  | { readonly type: 'refused'; readonly id: string }
  | { readonly type: 'read'; readonly id: string }
  | { readonly type: 'late'; readonly id: string }
  /** It was shown before the pointer could be handed over. */
  | { readonly type: 'needless'; readonly id: string }
  /** A turn ends, and these need something of the agent that has not seen them. */
  | { readonly type: 'turn'; readonly unread: readonly string[] }
  /** Time has passed. */
  | { readonly type: 'tick' };

/** When something happens, and how long from then nobody may be woken. */
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
/** Messages that wait to be pointed at; the mailbox itself has what is beyond. */
const MAX_WAITING = 1_000;

export const ASLEEP: WakeState = {
  path: 'none',
  turns: 'unseen',
  waiting: [],
  outstanding: undefined,
  missed: undefined,
  wokenAt: [],
};

/** What may be said of a member: never more than was tried, nor more than is done now. */
export function seesMailBy({ path, turns }: WakeState, { quietMs }: Pick<WakeTime, 'quietMs'>): SeesMail {
  return path === 'proven' && quietMs === 0 ? 'wakes' : turns === 'works' ? 'next_turn' : 'polls';
}

/** Decides who is woken, when, and what is believed of the way there. */
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
  // What was handed to the old way in is not waited for any longer.
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

/** A self-test is asked for by a person: neither quiet hours nor what failed before stand in its way. */
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

/** Nothing came of it: what was believed of that way is believed no longer, and it is not used until there is news. */
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
    // It was only slow. What a self-test had shown before holds again; a test that was slow has shown nothing.
    const { path, turns } = state.missed;
    return next({ ...state, waiting, path, turns, missed: undefined }, time, rules);
  }
  if (state.outstanding?.id !== id) return stay({ ...state, waiting });
  const { test } = state.outstanding;
  const after = next({ ...state, waiting, outstanding: undefined, ...(test && { path: 'proven' }) }, time, rules);
  const effects: WakeEffect[] = test ? [{ type: 'tested', passed: true }] : [];
  return { state: after.state, effects: [...effects, ...after.effects] };
}

/** Nothing was handed over, so nothing is learnt. */
function needless(state: WakeState, id: string, time: WakeTime, rules: WakeRules): Step {
  const { outstanding } = state;
  if (outstanding?.id !== id) return stay(state);
  // Self-tests are not counted.
  const wokenAt = outstanding.test ? state.wokenAt : state.wokenAt.slice(0, -1);
  const after = next({ ...state, outstanding: undefined, wokenAt }, time, rules);
  const effects: WakeEffect[] = outstanding.test ? [{ type: 'tested', passed: false }] : [];
  return { state: after.state, effects: [...effects, ...after.effects] };
}

/** The agent is not idle yet: it goes on for what needs something of it, and not again before that was read. */
function turnEnds(state: WakeState, unread: readonly string[], { at }: WakeTime, rules: WakeRules): Step {
  const turns = state.turns === 'unseen' ? 'works' : state.turns;
  const seen: WakeState = { ...state, turns, wokenAt: recent(state, at) };
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

/** The next pointer, if there may be one now. */
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

/** How agents are woken, as the configuration says it. */
export interface WakeInit {
  /** Pointers to one agent in an hour. Default 30. */
  readonly perHour?: number | undefined;
  /** Seconds within which a pointer is to lead to `read`. Default 300. */
  readonly readWithinS?: number | undefined;
  /** Seconds that a self-test takes at most. Default 60. */
  readonly testWithinS?: number | undefined;
  /** When no idle agent is woken, as `22:00-07:00`. Default never. */
  readonly quietHours?: string | undefined;
  /** Test each way in when it is found, at the price of a short turn. Default false: `ecliptic doctor --wake` does. */
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

/** Hours of the day in which nobody is woken, as `22:00-07:00`, on the clock of this machine. */
export const QUIET_HOURS = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$/;

const MINUTE_MS = 60_000;
const DAY = 1_440;

/** How long from then it stays quiet; 0 when it is not. */
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
