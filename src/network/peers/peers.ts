import type { A2AObservability } from '../../mesh/observability.js';
import type { Presence } from '../../mesh/ports.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { A2ALogEvent, AgentEndpoint } from '../../mesh/schemas.js';
import { describeError, EclipticError, type ErrorCode, type Outcome } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { FULL_MESH } from '../directory/neighbours.js';
import { type Chain, isOwners } from '../membership/certificate.js';
import type { Identity } from '../membership/identity.js';
import type { Membership } from '../membership/membership.js';
import { FairReading } from './fair-reading.js';
import { Openings } from './openings.js';
import { Peer } from './peer.js';
import { PEER_LIMITS, type PeerLimits, type PeerStatus } from './peer-state.js';
import { type PeerProtocol, Protocols } from './protocol.js';
import type { ItemOutcome } from './reliable-stream.js';
import { ShunnedNodes } from './shunned-nodes.js';
import { StrangerReports } from './stranger-reports.js';
import { DIRECTORY, type Item } from './wire.js';

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

/** The nodes that are there, as `NodeDirectory` knows them. */
interface PresentNodes {
  heardAt(node: string): number | undefined;
  isNeighbour(node: string): boolean;
  onGone(node: string): void;
  forget(node: string): void;
  ended(node: string, lost: boolean): void;
  membersChanged(): void;
}

interface PeersComponents extends NetworkComponents {
  directory: () => PresentNodes;
  /** Neighbours are missing, or something waits for one of these nodes. */
  onMissing: (wanted: readonly string[]) => void;
}

const TICK_MS = 300;
/** News of a node may be this old when it arrives: a link that is silent for longer than that is dead. */
const DEAD_LINK_MS = 5_000;
/** In a larger mesh, a neighbour that is missing for this long is called by its key. */
const MISSING_MS = 1_000;

/** The other nodes of the mesh: their state, the protocols spoken with them, and the sending of items. */
export class Peers implements Presence {
  readonly #components: PeersComponents;
  readonly #limits: PeerLimits;
  readonly protocols = new Protocols();
  readonly #openings: Openings;
  readonly #peers = new Map<string, Peer>();
  readonly shunned: ShunnedNodes;
  readonly #reading: FairReading;
  readonly #strangers: StrangerReports;
  readonly #removedListeners = new Set<(node: string) => void>();
  #timer: Timer | undefined;
  /** The node whose conversation the protocols begin at this moment. */
  #beginning: string | undefined;
  #lastTick = 0;

  constructor(components: PeersComponents, limits: Partial<PeerLimits> = {}) {
    this.#components = components;
    this.shunned = new ShunnedNodes(components.runtime);
    this.#reading = new FairReading(components.runtime);
    this.#strangers = new StrangerReports(components.runtime);
    this.#openings = new Openings(components.runtime);
    const given = Object.entries(limits).filter(([, limit]) => limit !== undefined);
    this.#limits = { ...PEER_LIMITS, ...Object.fromEntries(given) };
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
    const peers = this.all;
    this.#peers.clear();
    for (const peer of peers) {
      this.#openings.fail(peer.node, 'this node has stopped');
      peer.leave(reason);
      this.#components.registry.forgetNode(peer.node);
    }
  }

  /** Adds a protocol; if there are conversations already, it begins in each of them. */
  handle(protocol: PeerProtocol): void {
    this.protocols.add(protocol);
    for (const { node } of this.conversing) protocol.began?.(node);
  }

  /** @internal Calls back with each node whose membership was taken away. */
  onRemoved(listener: (node: string) => void): void {
    this.#removedListeners.add(listener);
  }

  get all(): Peer[] {
    return [...this.#peers.values()];
  }

  get size(): number {
    return this.#peers.size;
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
      const { runtime, identity, directory } = this.#components;
      peer = new Peer(
        {
          runtime,
          ownKey: identity.key,
          limits: this.#limits,
          reading: this.#reading,
          take: (from, item) => this.protocols.take(from.node, item),
          onStatus: (changed, status) => this.#onStatus(changed, status),
          onEnd: (ended) => this.protocols.tell('ended', ended.node),
          isBusy: ({ node: other }) => !this.#mayRest(other),
          onReturned: (to, text, outcome) => this.guard(() => this.#sendLater(to.node, text, outcome)),
          onStopping: (stopping) => directory().onGone(stopping.node),
          onFarewell: (gone) => this.forget(gone.node),
          onViolation: (offender, error) => {
            this.shunned.shun(offender.node);
            this.report(offender.node, error.code, error.message);
          },
        },
        node,
      );
      this.#peers.set(node, peer);
      this.#components.directory().membersChanged();
    }
    return peer;
  }

  get linkCount(): number {
    return [...this.#peers.values()].filter(({ linked }) => linked).length;
  }

  /** Is the node there? It need not be linked: sending to it opens a link. */
  reachable(node: string): boolean {
    const status = this.#peers.get(node)?.status;
    return status === 'connected' || status === 'idle';
  }

  /** Do both certificates, that node's and this one's, say that they are devices of the owner? */
  isOwnerDevice(node: string): boolean {
    const { membership } = this.#components;
    const chain = this.#peers.get(node)?.chain;
    if (!membership.isOwners || !chain || !isOwners(chain[0]!)) return false;
    return membership.lapsed(chain) === undefined;
  }

  speaks(node: string, version: number): boolean {
    return (this.#peers.get(node)?.protocol ?? 0) >= version;
  }

  // Sending. Every item arrives in order and at most once; it is lost only when the conversation ends.

  /** Begins a conversation with a node that is there, unless there is one. */
  open(node: string): void {
    if (this.#peers.get(node)?.status !== 'idle') return;
    this.#openings.open(node);
    this.#components.onMissing([node]);
  }

  /** Resolves when there is a conversation with that node, which is begun if the node is there. */
  begun(node: string): Promise<void> {
    return new Promise((resolve, reject) => this.#send(node, () => resolve(), reject));
  }

  /** Queues an item without an outcome. Throws when the node is not there, or its queue is full. */
  sendUnconfirmed(node: string, text: string): void {
    this.#send(
      node,
      (peer) => peer.send(text),
      () => {},
      () => {
        throw new EclipticError('AGENT_UNAVAILABLE', `there is no conversation with node ${node}`);
      },
    );
  }

  /** Queues an item. Resolves when the other node has taken it; rejects when that node refused it, or was lost. */
  sendConfirmed(node: string, text: string): Promise<void> {
    return new Promise((resolve, reject) => this.send(node, text, { taken: resolve, refused: reject }));
  }

  /** As `sendConfirmed`, without a promise. An item may wait for a conversation to begin. */
  send(node: string, text: string, outcome: ItemOutcome): void {
    const peer = this.#peers.get(node);
    try {
      if (peer?.conversing && !this.#waits(node)) peer.send(text, outcome);
      else this.#sendLater(node, text, outcome);
    } catch (error) {
      outcome.refused(error as EclipticError);
    }
  }

  /** As `sendConfirmed`; `replace` puts another item in its place, unless the other node has taken it. */
  sendReplaceable(node: string, text: string): { taken: Promise<void>; replace: (text: string) => Outcome } {
    let present = text;
    let replaceSent: ((other: string) => Outcome) | undefined;
    const taken = new Promise<void>((resolve, reject) => {
      const outcome: ItemOutcome = { taken: resolve, refused: reject };
      const send = (peer: Peer) => {
        const number = peer.send(present, outcome);
        replaceSent = (other) => peer.replace(number, other, outcome);
      };
      this.#send(node, send, reject);
    });
    const replace = (other: string): Outcome => {
      if (replaceSent) return replaceSent(other);
      present = other;
      return 'not-delivered';
    };
    return { taken, replace };
  }

  /** Sends an item when a conversation has begun, if its protocol still lets it go then. */
  #sendLater(node: string, text: string, outcome: ItemOutcome): void {
    const send = (peer: Peer) => {
      const refusal = this.protocols.whyNot(node, JSON.parse(text) as Item);
      if (refusal) outcome.refused(refusal);
      else peer.send(text, outcome);
    };
    this.#send(node, send, (error) => outcome.refused(error));
  }

  /** Do items that wait for the conversation go first? */
  #waits(node: string): boolean {
    return this.#openings.has(node) && this.#beginning !== node;
  }

  /** Calls `send` now if there is a conversation, and once it has begun if the node is there. */
  #send(
    node: string,
    send: (peer: Peer) => void,
    fail: (error: EclipticError) => void,
    absent: () => void = () => fail(lost(node)),
  ): void {
    const peer = this.#peers.get(node);
    if (peer?.conversing && !this.#waits(node)) send(peer);
    else if (peer?.conversing || peer?.status === 'idle') {
      this.#openings.wait(node, () => send(peer), fail);
      this.#components.onMissing([node]);
    } else absent();
  }

  // Presence

  seenAt(node: string): number | undefined {
    const { runtime, directory } = this.#components;
    const peer = this.#peers.get(node);
    const heardAt = peer?.status === 'idle' ? directory().heardAt(node) : undefined;
    const lastHeard = heardAt ?? (peer?.conversing ? peer.lastHeard : undefined);
    if (lastHeard === undefined) return undefined;
    return Math.floor(runtime.now() - (runtime.stopwatch() - lastHeard));
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
      this.#beginning = peer.node;
      this.protocols.tell('began', peer.node);
    } catch (error) {
      this.#components.runtime.logger.error({ node: peer.node, err: error }, 'conversation could not begin');
      peer.drop('away', describeError(error));
    } finally {
      this.#beginning = undefined;
    }
    // Protocols may announce something a little later that these items depend on.
    this.#components.runtime.defer(() => peer.conversing && this.#openings.began(peer.node));
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
    this.#components.directory().forget(node);
    this.#openings.fail(node, `node ${node} is no longer a member`);
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

  dropForger(node: string): void {
    this.shunned.shun(node);
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
    const isStranger = node === undefined || !this.#peers.get(node)?.chain;
    if (isStranger && !this.#strangers.take((event) => this.#emit(event))) return;
    this.#components.runtime.logger.warn({ node, code, reason }, 'peer refused');
    this.#emit({ type: 'security', node, code, reason });
  }

  #emit(event: Omit<A2ALogEvent, 'timestamp'>): void {
    this.#components.observability.emit({ ...event, timestamp: this.#components.runtime.now() });
  }

  #onStatus(peer: Peer, status: PeerStatus): void {
    const { node, reason } = peer;
    const { registry, runtime, directory } = this.#components;
    if (status === 'connected') this.protocols.tell('connected', node);
    if (status === 'suspected' || status === 'away') this.protocols.tell('interrupted', node);
    if (status === 'lost') registry.forgetNode(node);
    runtime.logger.info({ node, status, reason }, 'peer state changed');
    if (status !== 'connecting') this.#emit({ type: 'peer-status', node, peerStatus: status, reason });
    const isOver = status !== 'incompatible' && !peer.linked && !peer.conversing;
    if (isOver && this.#peers.get(node) === peer) directory().ended(node, status === 'lost');
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
    const wanted = new Set<string>(this.#openings.nodes);
    let missing = this.#peers.size === 0;
    const isLarge = this.#peers.size > FULL_MESH;
    for (const peer of this.all) {
      if (asleep) peer.excuse(now);
      if (peer.chain && !this.#isStillAdmitted(peer, peer.chain)) continue;
      peer.tick(now);
      if (peer.status === 'suspected' && this.#isElsewhere(peer)) peer.closeLinks();
      if (peer.linked) this.#restIdle(peer, now);
      // A conversation that was interrupted goes on, with a neighbour or not.
      else if (peer.waiting || peer.conversing) wanted.add(peer.node);
      else if (peer.status !== 'incompatible' && this.#components.directory().isNeighbour(peer.node)) {
        missing = true;
        if (isLarge && this.#components.runtime.now() - peer.since > MISSING_MS) wanted.add(peer.node);
      }
    }
    if (missing || wanted.size > 0) this.#components.onMissing([...wanted]);
    this.#timer = this.#tickLater();
  }

  /** Was the node heard of through the directory since its link is silent? Then it has restarted, or the link is dead. */
  #isElsewhere({ node, lastHeard }: Peer): boolean {
    const heardAt = this.#components.directory().heardAt(node);
    return heardAt !== undefined && heardAt - lastHeard > DEAD_LINK_MS;
  }

  /** Ends a conversation with a node that is no neighbour, and in which nothing was said for a while. */
  #restIdle(peer: Peer, now: number): void {
    const { idleSince, node, protocol } = peer;
    if (idleSince === undefined || now - idleSince < this.#limits.idleMs || protocol < DIRECTORY) return;
    if (this.linkCount > this.#limits.keptLinks && this.#mayRest(node)) peer.askToRest();
  }

  #mayRest(node: string): boolean {
    const directory = this.#components.directory();
    return directory.heardAt(node) !== undefined && !directory.isNeighbour(node) && !this.protocols.isBusy(node);
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
    } else if (peer.status === 'idle') this.#components.directory().onGone(node);
    return true;
  }
}

function lost(node: string): EclipticError {
  return new EclipticError('DELIVERY_FAILED', `node ${node} is lost`, { outcome: 'not-delivered' });
}
