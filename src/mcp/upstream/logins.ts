import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Begun, Login } from './login.js';
import { CredentialStore } from './login-attempt.js';

export interface LoginsInit {
  /** Without a data folder, logins end with the process. */
  folder?: string;
  /** The URL that users return to. */
  redirectUrl: () => string;
}

/** A login whose user has not returned yet. */
export interface Waiting {
  /** Where to send the user. */
  readonly url: string;
  /** Settles when the user returns, time is up, or another login to the server begins. */
  readonly done: Promise<void>;
}

interface Pending {
  readonly server: string;
  readonly begun: Begun;
  readonly timer: Timer;
  resolve(): void;
  reject(error: EclipticError): void;
}

const LIFE_MS = 10 * 60_000;

/** Pending logins. Each is recognised once, by an unguessable number. */
export class Logins {
  readonly store: CredentialStore;
  readonly redirectUrl: () => string;
  readonly #runtime: Runtime;
  readonly #pending = new Map<string, Pending>();

  constructor(runtime: Runtime, { folder, redirectUrl }: LoginsInit) {
    this.#runtime = runtime;
    this.redirectUrl = redirectUrl;
    this.store = new CredentialStore(folder);
  }

  async begin(server: string, login: Login): Promise<Waiting> {
    const begun = await login.begin(Buffer.from(this.#runtime.bytes(32)).toString('base64url'));
    this.cancel(server, 'another login was begun');
    const done = new Promise<void>((resolve, reject) => {
      const timer = this.#runtime.setTimer(() => this.cancel(server, 'the user did not return in time'), LIFE_MS);
      this.#pending.set(begun.state, { server, begun, timer, resolve, reject });
    });
    // The process that began the login may be gone.
    done.catch(() => {});
    return { url: begun.target.href, done };
  }

  /**
   * Takes the query that the user's browser returns with; resolves to the server's name. Each login is finished once.
   */
  async finish(query: URLSearchParams): Promise<string> {
    const pending = this.#pending.get(query.get('state') ?? '');
    if (!pending) throw new EclipticError('LOGIN_FAILED', 'no login is pending for this; start it again');
    this.#end(pending);
    try {
      await pending.begun.finish(query);
    } catch (error) {
      pending.reject(error as EclipticError);
      throw error;
    }
    pending.resolve();
    return pending.server;
  }

  cancel(server: string, reason: string): void {
    for (const pending of this.#pending.values()) {
      if (pending.server !== server) continue;
      this.#end(pending);
      const message = `the login to MCP server "${server}" failed: ${reason}`;
      pending.reject(new EclipticError('LOGIN_FAILED', message, { server }));
    }
  }

  #end({ begun, timer }: Pending): void {
    this.#pending.delete(begun.state);
    timer.cancel();
  }
}
