import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { AddressKind } from '../../system/fetch/address.js';
import { dialable } from '../../system/fetch/dial-guard.js';
import type { Link } from '../links/link.js';
import { dialWebsocket, type NoiseKeyPair, WebsocketListener } from '../links/websocket.js';
import type { Discovery, DiscoveryStatus } from './discovery.js';

/** Addresses of nodes that a link is wanted to. */
interface Wanted {
  /** Named by the owner, in the configuration or in an invite's code. */
  readonly given: readonly string[];
  /** Named by other nodes. */
  readonly learnt: readonly string[];
  /** The kinds of inside addresses that may be dialled although another node named them. */
  readonly inside: ReadonlySet<AddressKind>;
}

export interface WebsocketDiscoveryComponents {
  runtime: Runtime;
  keyPair: NoiseKeyPair;
  wanted: () => Wanted;
  /** The addresses that a member has announced. */
  addressesOf: (node: string) => readonly string[];
  shouldCall: (node: string) => boolean;
  onFailure: (from: string, reason: string) => void;
  /** Where to listen; without it, this node calls and is not called. */
  listen: { host: string; port: number } | undefined;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
const MAX_DIALS = 16;
/** An address that another node named, and that failed this often, is tried less often. */
const PATIENT_FAILURES = 50;
const RARE_WAIT_MS = 60_000;

interface Attempt {
  dialing: boolean;
  wait: number;
  nextAt: number;
  failure: string | undefined;
  failures: number;
  learnt: boolean;
  node: string | undefined;
}

const FIRST_ATTEMPT = {
  dialing: false,
  wait: FIRST_WAIT_MS,
  nextAt: 0,
  failure: undefined,
  failures: 0,
  node: undefined,
};

/** Dials nodes at the addresses that the owner, an invite or other members named, and listens for calls. */
export class WebsocketDiscovery implements Discovery {
  readonly #components: WebsocketDiscoveryComponents;
  readonly #attempts = new Map<string, Attempt>();
  #dialing = 0;
  #listener: WebsocketListener | undefined;
  #onLink: ((link: Link) => void) | undefined;
  addresses: readonly string[] = [];

  constructor(components: WebsocketDiscoveryComponents) {
    this.#components = components;
  }

  async start(onLink: (link: Link) => void): Promise<void> {
    const { listen, ...components } = this.#components;
    this.#onLink = onLink;
    if (!listen) return;
    this.#listener = new WebsocketListener({ ...components, onLink });
    this.addresses = await this.#listener.listen(listen.host, listen.port);
  }

  /** Addresses need no rendezvous. */
  setRendezvous(): void {}

  seek(): void {
    const { wanted, shouldCall, runtime } = this.#components;
    const { given, learnt, inside } = wanted();
    const own = new Set(given);
    const addresses = new Set([...given, ...learnt]);
    const now = runtime.stopwatch();
    for (const [address, { dialing, nextAt }] of this.#attempts) {
      // An address that `reach` dials keeps its back-off.
      if (!addresses.has(address) && !dialing && now > nextAt) this.#attempts.delete(address);
    }
    for (const address of addresses) {
      const attempt = this.#attempts.get(address) ?? { ...FIRST_ATTEMPT, learnt: true };
      attempt.learnt = !own.has(address);
      this.#attempts.set(address, attempt);
    }
    // Dial the address that has waited longest, so that dead addresses cannot starve the others.
    const waiting = [...this.#attempts].sort(([, one], [, other]) => one.nextAt - other.nextAt);
    for (const [address, attempt] of waiting) {
      if (attempt.node !== undefined && !shouldCall(attempt.node)) attempt.wait = FIRST_WAIT_MS;
      else if (!attempt.dialing && now >= attempt.nextAt && this.#dialing < MAX_DIALS)
        void this.#dial(address, attempt, inside);
    }
  }

  reach(node: string): void {
    const { addressesOf, shouldCall, wanted, runtime } = this.#components;
    if (!shouldCall(node)) return;
    const { inside } = wanted();
    const now = runtime.stopwatch();
    for (const address of addressesOf(node)) {
      const attempt = this.#attempts.get(address) ?? { ...FIRST_ATTEMPT, learnt: true };
      this.#attempts.set(address, attempt);
      const isDue = !attempt.dialing && now >= attempt.nextAt;
      if (isDue && this.#dialing < MAX_DIALS) void this.#dial(address, attempt, inside);
    }
  }

  status(): DiscoveryStatus {
    const { given, learnt } = this.#components.wanted();
    const wanted = new Set([...given, ...learnt]);
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

  async #dial(address: string, attempt: Attempt, inside: ReadonlySet<AddressKind>): Promise<void> {
    const { runtime, keyPair } = this.#components;
    attempt.dialing = true;
    this.#dialing++;
    try {
      const at = attempt.learnt ? await dialable(address, inside) : undefined;
      const link = await dialWebsocket(runtime, address, keyPair, at);
      attempt.failure = undefined;
      attempt.failures = 0;
      attempt.node = link.remoteKey;
      if (this.#onLink) this.#onLink(link);
      else link.close();
    } catch (error) {
      // An inside address of another network is not dialled, which is no fault.
      const guarded = error instanceof EclipticError && error.details.kind !== undefined;
      attempt.failure = guarded ? undefined : describeError(error);
      attempt.failures++;
    }
    attempt.dialing = false;
    this.#dialing--;
    attempt.nextAt = runtime.stopwatch() + attempt.wait * (0.5 + runtime.random());
    const rare = attempt.learnt && attempt.failures > PATIENT_FAILURES;
    attempt.wait = Math.min(attempt.wait * 2, rare ? RARE_WAIT_MS : LONGEST_WAIT_MS);
  }
}
