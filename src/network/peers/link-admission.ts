import type { Link, LinkListener } from '../links/link.js';
import { type Announcement, announce } from '../membership/announcements.js';
import { Greeting, type GreetingOutcome, type Joining } from './greeting.js';
import type { SessionIds } from './peer-state.js';
import type { ExchangeComponents } from './peers.js';

interface LinkAdmissionInit {
  name: string;
  software: string;
  addresses: () => readonly string[];
  /** How long a new link may take until both sides know each other. Default 5 s. */
  greetingMs?: number;
}

const GREETING_MS = 5_000;
/** Links whose other end has not proven itself; more are closed at once. */
const MAX_GREETINGS = 64;
const MAX_GREETINGS_PER_NODE = 2;
/** How long one announcement of this node's addresses serves for new greetings. */
const ANNOUNCEMENT_MS = 60_000;
/** How long this node does not call a node that refused it. */
const REFUSED_MS = 60_000;

/** Takes new links, greets the other end, and attaches the link to its peer once the other end has proven itself. */
export class LinkAdmission {
  readonly #components: ExchangeComponents;
  readonly #init: LinkAdmissionInit;
  readonly #greetings = new Map<Link, string>();
  /** Tells this process from others with the same key. */
  readonly #instance: string;
  #announcement: Announcement | undefined;
  /** An invite that waits for a link to its inviter. */
  joining: Joining | undefined;

  constructor(components: ExchangeComponents, init: LinkAdmissionInit) {
    this.#components = components;
    this.#init = init;
    this.#instance = components.runtime.id();
  }

  close(): void {
    for (const link of this.#greetings.keys()) link.close();
  }

  /**
   * Should a discovery call that node? Not while the next greeting waits after a late one: this node would hang up at once, and
   * if the other side does not notice, it takes that for one more late greeting and waits longer itself.
   */
  shouldCall(node: string): boolean {
    const { peers } = this.#components;
    const linked = peers.get(node)?.linked === true || [...this.#greetings.values()].includes(node);
    return !linked && !peers.shunned.waits(node);
  }

  take(link: Link): void {
    const { runtime, membership, peers } = this.#components;
    const { remoteKey: node } = link;
    if (this.#isUseless(link)) {
      link.close();
      return;
    }
    if (this.#greetings.size >= MAX_GREETINGS) {
      link.close();
      peers.report(node, 'MEMBERSHIP_REFUSED', `${MAX_GREETINGS} others have not introduced themselves yet`);
      return;
    }
    this.#greetings.set(link, node);
    let said: SessionIds | undefined;
    const components = {
      runtime,
      membership,
      name: this.#init.name,
      limitMs: this.#init.greetingMs ?? GREETING_MS,
      introduce: () => {
        said = peers.know(node).sessionIds;
        return { ...this.#introduction(), ...said };
      },
    };
    new Greeting(
      components,
      link,
      this.#outcome(link, () => said),
      this.joining,
    );
  }

  #isUseless({ remoteKey: node, initiator }: Link): boolean {
    const { membership, identity, peers } = this.#components;
    const stranger = peers.get(node)?.chain === undefined;
    const greeted = [...this.#greetings.values()].filter((other) => other === node).length;
    return (
      node === identity.key ||
      (!membership.joined && !this.joining) ||
      greeted >= MAX_GREETINGS_PER_NODE ||
      peers.shunned.has(node) ||
      (peers.shunned.waits(node) && (initiator || stranger)) ||
      (initiator && peers.get(node)?.linked === true)
    );
  }

  #introduction() {
    const { addresses, ...announced } = this.#announce();
    return { software: this.#init.software, instance: this.#instance, addresses, announced };
  }

  #announce(): Announcement {
    const { identity, runtime } = this.#components;
    const addresses = this.#init.addresses();
    const now = runtime.now();
    const latest = this.#announcement;
    const age = now - (latest?.at ?? 0);
    if (latest && 0 <= age && age < ANNOUNCEMENT_MS && latest.addresses.join() === addresses.join()) return latest;
    this.#announcement = announce(identity, addresses, now);
    return this.#announcement;
  }

  #outcome(link: Link, said: () => SessionIds | undefined): GreetingOutcome {
    const { peers, runtime } = this.#components;
    const { remoteKey: node } = link;
    const over = () => this.#greetings.delete(link);
    return {
      admitted: (hello, chain, grant) => {
        over();
        peers.shunned.noteGreeted(node);
        const peer = peers.know(node);
        // The session ids that the caller sent must still be right; if not, the next link sends the right ones.
        const { session, knows } = peer.sessionIds;
        const stale = link.initiator && (said()?.session !== session || said()?.knows !== knows);
        if (stale || (!link.initiator && this.#yieldsTo(node))) {
          link.close();
          return DEAF;
        }
        peer.chain = chain;
        peer.grant = grant;
        peer.name = chain[0]!.name;
        return peer.attach(link, hello, () => peers.begin(peer));
      },
      incompatible: (reason) => {
        over();
        peers.shunned.shun(node);
        if (!peers.forgetStranger(node)) peers.get(node)?.drop('incompatible', reason);
        runtime.logger.warn({ node, reason }, 'peer speaks an incompatible protocol');
      },
      refused: (error) => {
        over();
        peers.shunned.shun(node);
        peers.forgetStranger(node);
        peers.report(node, error.code, error.message);
      },
      ended: (error) => {
        over();
        const peer = peers.get(node);
        if (peer && !peer.linked) peer.reason = error.message;
        // A node that refused this one would refuse it again.
        if (error.code !== 'PEER_UNREACHABLE') peers.shunned.shun(node, REFUSED_MS);
        peers.forgetStranger(node);
      },
      late: (error) => {
        over();
        const peer = peers.get(node);
        if (peer && !peer.linked) peer.reason = error.message;
        peers.shunned.noteLate(node);
        const stranger = peers.forgetStranger(node);
        if (stranger && link.reliable && !link.initiator) peers.report(node, error.code, error.message);
      },
    };
  }

  /** When both call each other at once, the call of the node with the smaller key counts. */
  #yieldsTo(node: string): boolean {
    if (this.#components.identity.key > node) return false;
    return [...this.#greetings].some(([link, other]) => other === node && link.initiator);
  }
}

/** For a link that is closed before it has a listener. */
const DEAF: LinkListener = { onFrame() {}, onDrain() {}, onClose() {} };
