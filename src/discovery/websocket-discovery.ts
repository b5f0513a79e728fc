import type { Link } from '../links/link.js';
import { dialWebsocket, type NoiseKeyPair, WebsocketListener } from '../links/websocket.js';
import { describeError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Discovery, DiscoveryStatus } from './discovery.js';

export interface WebsocketDiscoveryComponents {
  runtime: Runtime;
  keyPair: NoiseKeyPair;
  /** Addresses of nodes that a link is wanted to. */
  wanted: () => readonly string[];
  isLinked: (node: string) => boolean;
  onFailure: (from: string, reason: string) => void;
}

export interface WebsocketDiscoveryInit {
  /** Where to listen, `host:port`; without it, this node calls and is not called. */
  listen?: { host: string; port: number };
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
const MAX_DIALS = 16;

interface Attempt {
  dialing: boolean;
  wait: number;
  nextAt: number;
  failure: string | undefined;
  /** Who answered there. */
  node: string | undefined;
}

const FIRST_ATTEMPT: Attempt = { dialing: false, wait: FIRST_WAIT_MS, nextAt: 0, failure: undefined, node: undefined };

/** Finds nodes at addresses that are known: given by the user, by an invite, or by other members. */
export class WebsocketDiscovery implements Discovery {
  readonly #components: WebsocketDiscoveryComponents;
  readonly #init: WebsocketDiscoveryInit;
  readonly #attempts = new Map<string, Attempt>();
  #dialing = 0;
  #listener: WebsocketListener | undefined;
  #onLink: ((link: Link) => void) | undefined;
  /** Where this node can be called. */
  addresses: readonly string[] = [];

  constructor(components: WebsocketDiscoveryComponents, init: WebsocketDiscoveryInit) {
    this.#components = components;
    this.#init = init;
  }

  async start(onLink: (link: Link) => void): Promise<void> {
    const { runtime, keyPair, onFailure } = this.#components;
    this.#onLink = onLink;
    if (!this.#init.listen) return;
    this.#listener = new WebsocketListener({ runtime, keyPair, onLink, onFailure });
    this.addresses = await this.#listener.listen(this.#init.listen.host, this.#init.listen.port);
  }

  meet(): void {
    // Whoever has the address is there.
  }

  seek(): void {
    const { wanted, isLinked, runtime } = this.#components;
    const addresses = new Set(wanted());
    const now = runtime.stopwatch();
    for (const address of this.#attempts.keys()) if (!addresses.has(address)) this.#attempts.delete(address);
    for (const address of addresses) {
      if (!this.#attempts.has(address)) this.#attempts.set(address, { ...FIRST_ATTEMPT });
    }
    // Who has waited longest goes first, so that many that never answer cannot keep one that would from its turn.
    const waiting = [...this.#attempts].sort(([, one], [, other]) => one.nextAt - other.nextAt);
    for (const [address, attempt] of waiting) {
      if (attempt.node !== undefined && isLinked(attempt.node)) attempt.wait = FIRST_WAIT_MS;
      else if (!attempt.dialing && now >= attempt.nextAt && this.#dialing < MAX_DIALS)
        void this.#dial(address, attempt);
    }
  }

  status(): DiscoveryStatus {
    const wanted = new Set(this.#components.wanted());
    const failures = [...this.#attempts].filter(
      ([address, { failure }]) => failure !== undefined && wanted.has(address),
    );
    const listening = this.addresses.length > 0 ? `listens on ${this.addresses.join(', ')}` : 'does not listen';
    const detail = [listening, ...failures.map(([, { failure }]) => failure)].join('; ');
    return { kind: 'websocket', working: failures.length === 0, detail };
  }

  async stop(): Promise<void> {
    this.#onLink = undefined;
    await this.#listener?.close();
  }

  async #dial(address: string, attempt: Attempt): Promise<void> {
    const { runtime, keyPair } = this.#components;
    attempt.dialing = true;
    this.#dialing++;
    try {
      const link = await dialWebsocket(runtime, address, keyPair);
      attempt.failure = undefined;
      attempt.node = link.remoteKey;
      if (this.#onLink) this.#onLink(link);
      else link.close();
    } catch (error) {
      attempt.failure = describeError(error);
    }
    attempt.dialing = false;
    this.#dialing--;
    attempt.nextAt = runtime.stopwatch() + attempt.wait * (0.5 + runtime.random());
    attempt.wait = Math.min(attempt.wait * 2, LONGEST_WAIT_MS);
  }
}
