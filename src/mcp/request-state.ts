import { createHmac, timingSafeEqual } from 'node:crypto';
import { statement } from '../network/membership/statement.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Ask } from './call.js';

/** How long a caller may take to answer. */
const LIFE_MS = 60 * 60_000;

/**
 * State that a handler keeps between two rounds travels through the caller, sealed: it is accepted only unchanged, by
 * the same owner, from the same caller, for the same question, and in time.
 */
export class RequestState {
  readonly #runtime: Runtime;
  readonly #key: Uint8Array;
  readonly #owner: string;

  constructor(runtime: Runtime, key = runtime.bytes(32), owner = '') {
    this.#runtime = runtime;
    this.#key = key;
    this.#owner = owner;
  }

  /** State that one owner sealed cannot be opened by another. */
  of(owner: string): RequestState {
    return new RequestState(this.#runtime, this.#key, owner);
  }

  seal(state: unknown, caller: string, ask: Ask): string {
    const body = Buffer.from(JSON.stringify([this.#runtime.now() + LIFE_MS, state])).toString('base64url');
    return `${body}.${this.#sign(body, caller, ask)}`;
  }

  open(sealed: string, caller: string, ask: Ask): unknown {
    const [body = '', signature = '', ...more] = sealed.split('.');
    const expected = Buffer.from(this.#sign(body, caller, ask));
    const given = Buffer.from(signature);
    const genuine = more.length === 0 && given.length === expected.length && timingSafeEqual(given, expected);
    if (!genuine) throw refused('it was not made here');
    const [expires, state] = JSON.parse(Buffer.from(body, 'base64url').toString()) as [number, unknown];
    if (expires < this.#runtime.now()) throw refused('it is too old');
    return state;
  }

  #sign(body: string, caller: string, ask: Ask): string {
    const text = statement('request state', { body, owner: this.#owner, caller, ask });
    return createHmac('sha256', this.#key).update(text).digest('base64url');
  }
}

function refused(reason: string): EclipticError {
  return new EclipticError(
    'INVALID_REQUEST_STATE',
    `the request state cannot be used: ${reason}; start the call again`,
    {
      reason,
    },
  );
}
