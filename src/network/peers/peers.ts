import type { A2AObservability } from '../../mesh/observability.js';
import type { Presence } from '../../mesh/ports.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { A2ALogEvent, AgentEndpoint } from '../../mesh/schemas.js';
import { describeError, EclipticError, type ErrorCode, type Outcome } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Chain } from '../membership/certificate.js';
import type { Identity } from '../membership/identity.js';
import type { Membership } from '../membership/membership.js';
import { Peer, type PeerLimits, type PeerStatus } from './peer.js';
import { type PeerProtocol, Protocols } from './protocol.js';

export interface NetworkComponents {
  runtime: Runtime;
  identity: Identity;
  membership: Membership;
  registry: AgentRegistry;
  observability: A2AObservability;
}

export interface ExchangeComponents extends NetworkComponents {
  peers: Peers;
}

interface PeersComponents extends NetworkComponents {
  onMissing: () => void;
}

const DEFAULTS: PeerLimits = {
  suspectMs: 2_000,
  heartbeatMs: 700,
  graceMs: 60_000,
  acknowledgeMs: 2_000,
  retries: 3,
  queueItems: 100_000,
  queueChars: 64 * 1_048_576,
};
const TICK_MS = 300;
/** How long a node that was refused, or broke the rules, is not talked to. */
const SHUN_MS = 10_000;
const MAX_SHUNNED = 1_000;

/** The other nodes of the mesh: their state, the protocols spoken with them, and the sending of items. */
export class Peers implements Presence {
  readonly #components: PeersComponents;
  readonly #limits: PeerLimits;
  readonly #protocols = new Protocols();
  readonly #peers = new Map<string, Peer>();
  /** Until when each node is not talked to. */
  readonly #shunned = new Map<string, number>();
  readonly #removedListeners = new Set<(node: string) => void>();
  #timer: Timer | undefined;
  #lastTick = 0;

  constructor(components: PeersComponents, limits: Partial<PeerLimits> = {}) {
    this.#components = components;
    const given = Object.entries(limits).filter(([, limit]) => limit !== undefined);
    this.#limits = { ...DEFAULTS, ...Object.fromEntries(given) };
  }

  start(): void {
    this.#timer ??= this.#tickLater();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.leaveAll('stopping');
  }

  /** Ends every link: `leaving` the mesh, or `stopping` until the next start. */
  leaveAll(reason: 'stopping' | 'leaving'): void {
    for (const peer of this.#peers.values()) {
      peer.leave(reason);
      this.#components.registry.forgetNode(peer.node);
    }
    this.#peers.clear();
  }

  /** Adds a protocol; if there are conversations already, it begins in each of them. */
  handle(protocol: PeerProtocol): void {
    this.#protocols.add(protocol);
    for (const { node } of this.conversing) protocol.began?.(node);
  }

  /** @internal Calls back with each node whose membership was taken away. */
  onRemoved(listener: (node: string) => void): void {
    this.#removedListeners.add(listener);
  }

  get all(): Peer[] {
    return [...this.#peers.values()];
  }

  /** The peers that there is a conversation with, even if it is interrupted. */
  get conversing(): Peer[] {
    return this.all.filter((peer) => peer.conversing);
  }

  get(node: string): Peer | undefined {
    return this.#peers.get(node);
  }

  /** The peer with that key, which this node remembers from now on. */
  know(node: string): Peer {
    let peer = this.#peers.get(node);
    if (!peer) {
      const { runtime, identity } = this.#components;
      peer = new Peer(
        {
          runtime,
          ownKey: identity.key,
          limits: this.#limits,
          take: (from, item) => this.#protocols.take(from.node, item),
          onStatus: (changed, status) => this.#onStatus(changed, status),
          onEnd: (ended) => this.#protocols.tell('ended', ended.node),
          onFarewell: (gone) => this.forget(gone.node),
          onViolation: (offender, error) => {
            this.shun(offender.node);
            this.report(offender.node, error.code, error.message);
          },
        },
        node,
      );
      this.#peers.set(node, peer);
    }
    return peer;
  }

  reachable(node: string): boolean {
    return this.#peers.get(node)?.status === 'connected';
  }

  speaks(node: string, version: number): boolean {
    return (this.#peers.get(node)?.protocol ?? 0) >= version;
  }

  // Sending. Every item arrives in order and at most once; it is lost only when the conversation ends.

  /** Queues an item without an outcome. Throws when there is no conversation with the node, or its queue is full. */
  sendUnconfirmed(node: string, text: string): void {
    const peer = this.#peers.get(node);
    if (!peer?.conversing) throw new EclipticError('AGENT_UNAVAILABLE', `there is no conversation with node ${node}`);
    peer.send(text);
  }

  /** Queues an item. Resolves when the other node has taken it; rejects when that node refused it, or was lost. */
  sendConfirmed(node: string, text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const peer = this.#peers.get(node);
      if (peer?.conversing) peer.send(text, resolve, reject);
      else reject(lost(node));
    });
  }

  /** As `sendConfirmed`; `replace` puts another item in its place, unless the other node has taken it. */
  sendReplaceable(node: string, text: string): { taken: Promise<void>; replace: (text: string) => Outcome } {
    const peer = this.#peers.get(node);
    if (!peer?.conversing) {
      return { taken: Promise.reject(lost(node)), replace: () => 'not-delivered' };
    }
    let replace: (text: string) => Outcome = () => 'not-delivered';
    const taken = new Promise<void>((resolve, reject) => {
      const number = peer.send(text, resolve, reject);
      replace = (other) => peer.replace(number, other);
    });
    return { taken, replace };
  }

  // Presence

  seenAt(node: string): number | undefined {
    const peer = this.#peers.get(node);
    if (!peer?.conversing) return undefined;
    const { runtime } = this.#components;
    return Math.floor(runtime.now() - (runtime.stopwatch() - peer.lastHeard));
  }

  endpointsOf(node: string): readonly AgentEndpoint[] {
    const { linkKind, addresses = [] } = this.#peers.get(node) ?? {};
    const endpoints: AgentEndpoint[] = addresses.map((address) => ({ transport: 'websocket', address }));
    if (linkKind === 'hyperswarm') endpoints.unshift({ transport: 'hyperswarm', address: node });
    // A node that called this one may listen nowhere.
    if (linkKind === 'websocket' && endpoints.length === 0) endpoints.push({ transport: 'websocket' });
    return endpoints;
  }

  // Membership

  begin(peer: Peer): void {
    try {
      this.#protocols.tell('began', peer.node);
    } catch (error) {
      this.#components.runtime.logger.error({ node: peer.node, err: error }, 'conversation could not begin');
      peer.drop('away', describeError(error));
    }
  }

  /** A node's membership was taken away: everything that waits for it or came from it goes too. */
  expel(node: string): void {
    this.forget(node);
    for (const listener of this.#removedListeners) listener(node);
  }

  /** Drops a node that is no longer a member. */
  forget(node: string): void {
    const peer = this.#peers.get(node);
    if (!peer) return;
    this.#peers.delete(node);
    this.guard(() => this.#components.membership.members.forget(node));
    peer.leave('removed');
    this.#components.registry.forgetNode(node);
    this.#emit({ type: 'peer-status', node, peerStatus: 'removed' });
  }

  /** Forgets a node that was never met and did not get in. True when there is nothing to remember. */
  forgetStranger(node: string): boolean {
    const peer = this.#peers.get(node);
    if (peer?.chain || peer?.vouchedFor) return false;
    this.#peers.delete(node);
    return true;
  }

  shun(node: string, ms = SHUN_MS): void {
    const [oldest] = this.#shunned.keys();
    if (oldest !== undefined && this.#shunned.size >= MAX_SHUNNED) this.#shunned.delete(oldest);
    this.#shunned.set(node, this.#components.runtime.stopwatch() + ms);
  }

  isShunned(node: string): boolean {
    return (this.#shunned.get(node) ?? 0) > this.#components.runtime.stopwatch();
  }

  /** Talks to shunned nodes again, because the owner invites or joins. */
  forgive(): void {
    this.#shunned.clear();
  }

  dropForger(node: string): void {
    this.shun(node);
    this.#components.runtime.defer(() => this.get(node)?.drop('away', 'it spread forged removals'));
  }

  // Reports

  /** Runs an action for one peer; its failure is logged and does not keep the others from their turn. */
  guard(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#components.runtime.logger.error({ err: error }, 'peer update failed');
    }
  }

  report(node: string | undefined, code: ErrorCode, reason: string): void {
    this.#components.runtime.logger.warn({ node, code, reason }, 'peer refused');
    this.#emit({ type: 'security', node, code, reason });
  }

  #emit(event: Omit<A2ALogEvent, 'timestamp'>): void {
    this.#components.observability.emit({ ...event, timestamp: this.#components.runtime.now() });
  }

  #onStatus({ node, reason }: Peer, status: PeerStatus): void {
    const { registry, runtime } = this.#components;
    if (status === 'connected') this.#protocols.tell('connected', node);
    if (status === 'suspected' || status === 'away') this.#protocols.tell('interrupted', node);
    if (status === 'lost') registry.forgetNode(node);
    runtime.logger.info({ node, status, reason }, 'peer state changed');
    if (status !== 'connecting') this.#emit({ type: 'peer-status', node, peerStatus: status, reason });
  }

  // Upkeep

  #tickLater(): Timer {
    const { runtime } = this.#components;
    this.#lastTick = runtime.stopwatch();
    return runtime.setTimer(() => this.#tick(), TICK_MS);
  }

  #tick(): void {
    const now = this.#components.runtime.stopwatch();
    const asleep = now - this.#lastTick > 4 * TICK_MS;
    let missing = false;
    for (const peer of this.all) {
      if (asleep) peer.excuse(now);
      if (peer.chain && !this.#isStillAdmitted(peer, peer.chain)) continue;
      peer.tick(now);
      missing ||= peer.status !== 'connected' && peer.status !== 'incompatible';
    }
    if (missing || this.#peers.size === 0) this.#components.onMissing();
    this.#timer = this.#tickLater();
  }

  /** Expels a removed node. A node whose certificate expired is only let go: a renewal or a right clock brings it back. */
  #isStillAdmitted(peer: Peer, chain: Chain): boolean {
    const { membership, registry } = this.#components;
    const lapsed = membership.lapsed(chain);
    if (!lapsed) return true;
    const { node, linked } = peer;
    if (linked) this.report(node, 'MEMBERSHIP_REFUSED', `node ${node} is no longer admitted: ${lapsed}`);
    if (membership.removed(chain)) {
      this.expel(node);
      return false;
    }
    if (linked) {
      peer.leave('expired', lapsed);
      registry.forgetNode(node);
    }
    return true;
  }
}

function lost(node: string): EclipticError {
  return new EclipticError('DELIVERY_FAILED', `node ${node} is lost`, { outcome: 'not-delivered' });
}
