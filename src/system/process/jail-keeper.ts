import { EclipticError } from '../../runtime/errors.js';
import type { JailRequest, JailSettings, JailState } from './jail-settings.js';
import type { Program } from './program.js';

/** A program that was put into a jail. */
export interface Jailed {
  readonly program: Program;
  readonly state: JailState;
  /** To be called when no process of the program is left. */
  readonly release: () => void;
}

/** Puts programs into jails; `src/system/jail` has the one of the operating system. */
export interface JailKeeper {
  /** The jail that a program with these settings would be in. Rejects with `JAIL_UNAVAILABLE` where it must have one. */
  check(settings: JailSettings): Promise<JailState>;
  /** The same program in a jail, or as it is where there is none. */
  enter(program: Program, request: JailRequest): Promise<Jailed>;
}

/** Of a node that was put together without jails. */
export const NO_JAILS: JailKeeper = {
  async check({ required = false }) {
    const remedy = 'give its child processes a keeper of jails';
    const state: JailState = { kind: 'none', reason: 'this node has no jails', remedy };
    if (required) throw jailUnavailable(state);
    return state;
  },
  async enter(program, request) {
    return { program, state: await NO_JAILS.check(request), release() {} };
  },
};

export function jailUnavailable({ reason, remedy }: Extract<JailState, { kind: 'none' }>): EclipticError {
  return new EclipticError('JAIL_UNAVAILABLE', `a jail is required, but ${reason}; ${remedy}`, { reason, remedy });
}
