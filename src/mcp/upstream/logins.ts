import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Begun, Login } from './login.js';
import { CredentialStore } from './login-attempt.js';

export interface LoginsInit {
  /** The data folder. Without one, logins end with the process. */
  folder?: string;
  /** Where users come back to. */
  redirectUrl: () => string;
}

/** A login that waits for its user. */
export interface Waiting {
  /** Where the user is to go. */
  readonly url: string;
  /** Settles when the user has come back, time is up, or another login to the server was begun. */
  readonly done: Promise<void>;
}

interface Pending {
  readonly server: string;
  readonly begun: Begun;
  readonly timer: Timer;
  resolve(): void;
  reject(error: EclipticError): void;
}

/** How long a user may take. */
const LIFE_MS = 10 * 60_000;

/** The logins that wait for their users to come back, each recognised once by a number that nobody can guess. */
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
      const timer = this.#runtime.setTimer(() => this.cancel(server, 'nobody came back in time'), LIFE_MS);
      this.#pending.set(begun.state, { server, begun, timer, resolve, reject });
    });
    // Whoever began it may be gone.
    done.catch(() => {});
    return { url: begun.target.href, done };
  }

  /** Takes what a user's browser brings; resolves to the server's name. Whatever comes of it, it counts once. */
  async finish(query: URLSearchParams): Promise<string> {
    const pending = this.#pending.get(query.get('state') ?? '');
    if (!pending) throw new EclipticError('LOGIN_FAILED', 'no login waits for this; begin it anew');
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
