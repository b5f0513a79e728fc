import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';

interface ConnectionsInit {
  /** At once to one address and port; further fetches wait, within their time. Default 64. */
  maxPerAddress?: number;
  /** How long a connection is kept for the next fetch. Default 4 s, less than most servers keep theirs. */
  idleMs?: number;
}

/**
 * Connections that outlive a fetch, for whoever fetches from the same places again. They are kept by the address that was
 * connected to, never by name: each fetch is checked anew, and can only get a connection to an address it may use.
 */
export class Connections {
  readonly #plain: HttpAgent;
  readonly #secure: HttpsAgent;

  constructor(init: ConnectionsInit = {}) {
    const options = {
      keepAlive: true,
      maxSockets: init.maxPerAddress ?? 64,
      maxFreeSockets: 4,
      timeout: init.idleMs ?? 4_000,
    };
    this.#plain = new HttpAgent(options);
    this.#secure = new HttpsAgent(options);
  }

  agent(secure: boolean): HttpAgent {
    return secure ? this.#secure : this.#plain;
  }

  /** Closes every connection; fetches under way fail. */
  close(): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }
}
