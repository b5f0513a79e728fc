import type { ChannelManager } from '../../mesh/channel-manager.js';
import { packEnvelope } from '../../mesh/codec.js';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import type { A2AObservability } from '../../mesh/observability.js';
import type { Carrier, ChannelCarrier, ChannelRequest } from '../../mesh/ports.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { A2ARouter } from '../../mesh/router.js';
import type { A2ALogEvent, AgentCard, AgentEndpoint } from '../../mesh/schemas.js';
import { describeError, EclipticError, type ErrorCode, type Outcome } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { Link, LinkListener } from '../links/link.js';
import { announce, isAnnouncedBy } from '../membership/announcement.js';
import type { Chain } from '../membership/certificate.js';
import type { Identity } from '../membership/identity.js';
import type { Membership } from '../membership/membership.js';
import type { KnownMember } from '../membership/membership-file.js';
import { nodeOf, type Removal } from '../membership/removal.js';
import { CardExchange } from './card-exchange.js';
import { Greeting, type GreetingOutcome, type Joining } from './greeting.js';
import { Inbound, type PeerDocuments, type PeerLeases, type PeerMail, type PeerOffers } from './inbound.js';
import { type ConversationNames, Peer, type PeerLimits, type PeerStatus } from './peer.js';
import { type Known, PROVEN_HEARSAY } from './wire.js';

export interface PeersComponents {
  runtime: Runtime;
  identity: Identity;
  membership: Membership;
  registry: AgentRegistry;
  observability: A2AObservability;
}

/** What messages from other nodes go to; known only once it is built on the carrier that this is. */
export interface PeersTarget {
  router: A2ARouter;
  channels: ChannelManager;
}

export interface PeersInit extends Partial<PeerLimits> {
  /** What people call this node. */
  name: string;
  software: string;
  /** Where this node can be called. */
  addresses: () => readonly string[];
  /** Told when somebody is missing, again and again until nobody is. */
  onMissing: () => void;
  /** How long a new link may take until both sides know each other. Default 5 s. */
  greetingMs?: number;
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
const GREETING_MS = 5_000;
/** Links whose other end has not proven itself; more are closed at once. */
const MAX_GREETINGS = 64;
const MAX_GREETINGS_PER_NODE = 2;
/** Members that a node which comes is told of, and how many in one item. */
const MAX_TOLD = 256;
const TOLD_AT_ONCE = 32;
/** Characters of the reason why a channel was not taken. */
const MAX_REASON_CHARS = 1_000;
/** How long a node that was refused, or broke the rules, is not talked to. */
const SHUN_MS = 10_000;
/** How long this node does not call one that refused it. */
const REFUSED_MS = 60_000;
const MAX_SHUNNED = 1_000;
/** Forged removals that a node may send before it is not talked to for a while. */
const MAX_FORGED_REMOVALS = 32;

/** The other nodes of the mesh: their links, their cards, and the way of every message to and from them. */
export class Peers implements Carrier, ChannelCarrier {
  readonly #components: PeersComponents;
  readonly #init: PeersInit;
  readonly #limits: PeerLimits;
  readonly #cards: CardExchange;
  readonly #peers = new Map<string, Peer>();
  readonly #greetings = new Map<Link, string>();
  readonly #shunned = new Map<string, number>();
  /** Nodes of which two processes were reported. */
  readonly #doubledPeers = new Set<string>();
  /** This process, as other nodes tell it from others with the same key. */
  readonly #instance: string;
  /** The node that says that another process runs with this one's key, and when it said so. */
  doubled: { readonly by: string; readonly at: number } | undefined;
  #stopWatching: (() => void) | undefined;
  #target: PeersTarget | undefined;
  #inbound: Inbound | undefined;
  #timer: Timer | undefined;
  #lastTick = 0;
  /** An invite that waits for a link to its inviter. */
  joining: Joining | undefined;
  /** Without one, durable mail from other nodes is not taken. */
  mail: PeerMail | undefined;
  /** Called with each node whose membership was taken away. */
  readonly expelled = new Set<(node: string) => void>();
  /** Without one, other nodes are told of no tools, and theirs are not taken. */
  offers: PeerOffers | undefined;
  /** Shared documents. */
  documents: PeerDocuments | undefined;
  /** Without one, this node neither settles leases nor hears of them. */
  leases: PeerLeases | undefined;

  constructor(components: PeersComponents, init: PeersInit) {
    this.#components = components;
    this.#init = init;
    this.#instance = components.runtime.id();
    this.#limits = { ...DEFAULTS, ...defined(init) };
    this.#cards = new CardExchange({
      ...components,
      onRefused: (peer, { code, message }) => this.#report(peer.node, code, message),
    });
  }

  /** Says where messages from other nodes go. */
  attach(target: PeersTarget): void {
    this.#target = target;
    this.#inbound = new Inbound({
      ...target,
      cards: this.#cards,
      mail: () => this.mail,
      offers: () => this.offers,
      documents: () => this.documents,
      leases: () => this.leases,
      onRemoval: (peer, removal) => this.#takeRemoval(peer, removal),
      onKnown: (peer, known) => this.#takeKnown(peer, known),
      onRenewal: (peer, chain) => this.#takeRenewal(peer, chain),
      onDoubled: (peer) => this.#takeDoubled(peer),
      onForgery: (peer, { code, message }) => this.#report(peer.node, code, message),
    });
  }

  /** Begins to watch over the other nodes, and to tell them of this one's cards. */
  start(): void {
    this.#stopWatching ??= this.#components.registry.onLocalChange((id, card) => {
      for (const peer of this.#peers.values()) {
        if (peer.conversing) this.#guard(() => this.#cards.announce(peer, id, card));
      }
    });
    this.#timer ??= this.#tickLater();
  }

  /** Misses every member that the data folder names, until it is met. */
  expectMembers(): void {
    const { membership, identity } = this.#components;
    for (const member of membership.members) this.#expect(member);
    for (const node of Object.keys(membership.addresses)) {
      if (node !== identity.key) this.#peer(node).vouchedFor = true;
    }
  }

  #expect({ chain, metAt }: KnownMember): void {
    const [own] = chain;
    const peer = this.#peer(own!.node);
    if (peer.chain) return;
    peer.vouchedFor = true;
    peer.chain = chain;
    peer.grant = own!.grant;
    peer.name = own!.name;
    peer.reason = metAt === null ? 'never met' : `not met since this node started, last met ${dayOf(metAt)}`;
  }

  /** Drops a node of which nothing proves that it is a member. */
  forget(node: string): void {
    this.#dismiss(node);
  }

  /** Ends every link. `leaving` is for good, `stopping` until the next start. */
  stop(reason: 'stopping' | 'leaving'): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#stopWatching?.();
    this.#stopWatching = undefined;
    this.leaveAll(reason);
  }

  leaveAll(reason: 'stopping' | 'leaving'): void {
    for (const link of this.#greetings.keys()) link.close();
    for (const peer of this.#peers.values()) {
      peer.leave(reason);
      this.#components.registry.forgetNode(peer.node);
    }
    this.#peers.clear();
  }

  get all(): Peer[] {
    return [...this.#peers.values()];
  }

  get(node: string): Peer | undefined {
    return this.#peers.get(node);
  }

  /** Whoever was not talked to gets another chance: somebody invites, or joins. */
  forgive(): void {
    this.#shunned.clear();
  }

  /** Is there a link to that node, or one being greeted? */
  isLinked(node: string): boolean {
    return this.#peers.get(node)?.linked === true || [...this.#greetings.values()].includes(node);
  }

  /** Takes a new link, from whichever side it came. */
  take(link: Link): void {
    const { runtime, membership } = this.#components;
    const { remoteKey: node } = link;
    const useless = node === this.#components.identity.key || (!membership.joined && !this.joining);
    const greeted = [...this.#greetings.values()].filter((other) => other === node).length;
    if (
      useless ||
      greeted >= MAX_GREETINGS_PER_NODE ||
      this.#isShunned(node) ||
      (link.initiator && this.#peers.get(node)?.linked)
    ) {
      link.close();
      return;
    }
    if (this.#greetings.size >= MAX_GREETINGS) {
      link.close();
      this.#report(node, 'MEMBERSHIP_REFUSED', `${MAX_GREETINGS} others have not introduced themselves yet`);
      return;
    }
    this.#greetings.set(link, node);
    const over = () => this.#greetings.delete(link);
    let said: ConversationNames | undefined;
    const components = {
      runtime,
      membership,
      name: this.#init.name,
      limitMs: this.#init.greetingMs ?? GREETING_MS,
      met: this.#peers.get(node)?.chain !== undefined,
      introduce: () => {
        const { software } = this.#init;
        said = this.#peer(node).names;
        const { addresses, ...announced } = announce(this.#components.identity, this.#init.addresses(), runtime.now());
        return { software, instance: this.#instance, addresses, announced, ...said };
      },
    };
    const outcome: GreetingOutcome = {
      admitted: (hello, chain, grant) => {
        over();
        const peer = this.#peer(node);
        // What the caller said must still be so; if not, the next link says it right.
        const stale = link.initiator && (said?.session !== peer.names.session || said.knows !== peer.names.knows);
        if (stale || (!link.initiator && this.#yieldsTo(node))) {
          link.close();
          return DEAF;
        }
        peer.chain = chain;
        peer.grant = grant;
        peer.name = chain[0]!.name;
        return peer.attach(link, hello, () => this.#begin(peer));
      },
      incompatible: (reason) => {
        over();
        this.#shun(node);
        const peer = this.#peers.get(node);
        if (peer?.chain || peer?.vouchedFor) peer.drop('incompatible', reason);
        else this.#peers.delete(node);
        this.#components.runtime.logger.warn({ node, reason }, 'an incompatible node');
      },
      refused: (error) => {
        over();
        this.#shun(node);
        this.#forgetStranger(node);
        this.#report(node, error.code, error.message);
      },
      ended: (error) => {
        over();
        const peer = this.#peers.get(node);
        if (peer && !peer.linked) peer.reason = error.message;
        // Who was refused would be refused again.
        if (error.code !== 'PEER_UNREACHABLE') this.#shun(node, REFUSED_MS);
        this.#forgetStranger(node);
      },
    };
    new Greeting(components, link, outcome, this.joining);
  }

  /** Both call each other at once: the call of the one with the smaller key counts. */
  #yieldsTo(node: string): boolean {
    if (this.#components.identity.key > node) return false;
    return [...this.#greetings].some(([link, other]) => other === node && link.initiator);
  }

  /** Tells everyone of a removal, and lets the node go. */
  spreadRemoval(removal: Removal): void {
    const { membership } = this.#components;
    const removed = this.#peers.get(nodeOf(removal));
    if (removed?.chain && membership.removed(removed.chain)) this.#expel(removed.node);
    const text = JSON.stringify(['r', removal]);
    for (const peer of this.#peers.values()) if (peer.conversing) this.#guard(() => peer.post(text));
  }

  /** One security event about another node. */
  report(node: string | undefined, code: ErrorCode, reason: string): void {
    this.#report(node, code, reason);
  }

  // Carrier

  reachable(node: string): boolean {
    return this.#peers.get(node)?.status === 'connected';
  }

  carry(node: string, envelope: ValidEnvelope): Promise<void> {
    const unknown = this.#unknownTo(node, envelope.sender);
    return unknown ? Promise.reject(unknown) : this.#post(node, `["m",${packEnvelope(envelope)}]`);
  }

  /** Puts an item on its way to a node; throws when there is no conversation with it, or too much waits. */
  say(node: string, text: string): void {
    const peer = this.#peers.get(node);
    if (!peer?.conversing) throw new EclipticError('AGENT_UNAVAILABLE', `there is no conversation with node ${node}`);
    peer.post(text);
  }

  /** As `say`, and tells what became of it: resolves when the other node has taken it, rejects with its refusal. */
  tell(node: string, text: string): Promise<void> {
    return this.#post(node, text);
  }

  /** As `tell`; `replace` puts another text in its place, as far as the node has not taken it. */
  tellReplaceably(node: string, text: string): { taken: Promise<void>; replace: (text: string) => Outcome } {
    const peer = this.#peers.get(node);
    if (!peer?.conversing) {
      return { taken: Promise.reject(lost(node)), replace: () => 'not-delivered' };
    }
    let replace: (text: string) => Outcome = () => 'not-delivered';
    const taken = new Promise<void>((resolve, reject) => {
      const number = peer.post(text, resolve, reject);
      replace = (other) => peer.replace(number, other);
    });
    return { taken, replace };
  }

  speaks(node: string, version: number): boolean {
    return (this.#peers.get(node)?.protocol ?? 0) >= version;
  }

  /** Was that node told of this agent? */
  knows(node: string, agent: string): boolean {
    const peer = this.#peers.get(node);
    return peer !== undefined && this.#cards.isTold(peer, agent);
  }

  /** Tells a node of an agent of this one that has left, until what is returned is called. */
  introduce(node: string, card: AgentCard): () => void {
    const peer = this.#peers.get(node);
    if (!peer?.conversing || this.#cards.isTold(peer, card.id)) return () => {};
    this.#cards.announce(peer, card.id, card);
    return () => this.#cards.announce(peer, card.id, undefined);
  }

  // ChannelCarrier

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

  transportTo(node: string): 'websocket' | 'hyperswarm' | 'local' {
    const kind = this.#peers.get(node)?.linkKind;
    return kind === 'websocket' || kind === 'hyperswarm' ? kind : 'local';
  }

  open(node: string, { channelId, from, to }: ChannelRequest): Promise<void> {
    if (!this.reachable(node)) {
      const error = new EclipticError('AGENT_UNAVAILABLE', `there is no link to node ${node}`);
      return Promise.reject(error);
    }
    const unknown = this.#unknownTo(node, from);
    return unknown ? Promise.reject(unknown) : this.#post(node, JSON.stringify(['o', channelId, from, to]));
  }

  answer(node: string, channelId: string, refusal: string | undefined): Promise<void> {
    return this.#post(
      node,
      JSON.stringify(['y', channelId, refusal === undefined ? null : cutText(refusal, MAX_REASON_CHARS)]),
    );
  }

  deliver(node: string, channelId: string, envelope: ValidEnvelope): Promise<void> {
    return this.#post(node, `["x",${JSON.stringify(channelId)},${packEnvelope(envelope)}]`);
  }

  close(node: string, channelId: string): Promise<void> {
    return this.#post(node, JSON.stringify(['z', channelId]));
  }

  /** An agent whom grant or sandbox keep from that node cannot speak to it either. */
  #unknownTo(node: string, agent: string): EclipticError | undefined {
    const peer = this.#peers.get(node);
    if (!peer?.conversing || this.#cards.isTold(peer, agent)) return undefined;
    const reason = `node ${node} may not know of "${agent}", so "${agent}" cannot speak to its agents`;
    return new EclipticError('NOT_GRANTED', reason, { outcome: 'not-delivered' });
  }

  #post(node: string, text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const peer = this.#peers.get(node);
      if (peer?.conversing) peer.post(text, resolve, reject);
      else reject(lost(node));
    });
  }

  /** The first words of a conversation. */
  #begin(peer: Peer): void {
    try {
      this.#introduce(peer);
    } catch (error) {
      this.#components.runtime.logger.error({ node: peer.node, err: error }, 'a conversation could not begin');
      peer.drop('away', describeError(error));
    }
  }

  #introduce(peer: Peer): void {
    const { membership } = this.#components;
    peer.forgedRemovals = 0;
    if (peer.doubledAt !== undefined) this.#tellDoubled(peer);
    this.#cards.announceAll(peer);
    for (const removal of membership.removals) peer.post(JSON.stringify(['r', removal]));
    const renewed = membership.renewed(peer.chain!);
    if (renewed) peer.post(JSON.stringify(['n', renewed]));
    this.#guard(() => membership.noteAddresses({ [peer.node]: peer.addresses }));
    this.mail?.began(peer.node);
    this.offers?.began(peer.node);
    this.documents?.began(peer.node);
    this.leases?.began(peer.node);
  }

  /** Both processes are told as they come, and neither is kept out: which of them is the right one, only the owner knows. */
  #tellDoubled(peer: Peer): void {
    if (peer.protocol >= PROVEN_HEARSAY) peer.post(JSON.stringify(['i']));
    if (this.#doubledPeers.has(peer.node)) return;
    this.#doubledPeers.add(peer.node);
    this.#report(peer.node, 'NODE_DOUBLED', `two processes run with the key of node ${peer.node}: stop one of them`);
  }

  #takeRemoval(peer: Peer, removal: Removal): void {
    const { membership, identity } = this.#components;
    // Its links are about to be closed.
    if (peer.forgedRemovals >= MAX_FORGED_REMOVALS) return;
    try {
      if (!membership.takeRemoval(removal)) return;
    } catch (error) {
      const { code, message, details } = error as EclipticError;
      this.#report(peer.node, code, message);
      // No honest member passes on a removal that it cannot believe, and each costs several signature checks.
      if (details.forged === true && ++peer.forgedRemovals === MAX_FORGED_REMOVALS) this.#dropForger(peer);
      return;
    }
    if (nodeOf(removal) === identity.key)
      this.#components.runtime.logger.warn({}, 'this node was removed from the mesh');
    this.spreadRemoval(removal);
  }

  #dropForger(peer: Peer): void {
    this.#shun(peer.node);
    this.#components.runtime.defer(() => peer.drop('away', 'it spread forged removals'));
  }

  /** A member tells of others: each with its certificate, and where it can be called in its own signed words. */
  #takeKnown(teller: Peer, known: Known): void {
    const { membership, identity } = this.#components;
    const proven = known.filter((entry) => entry.length === 5 && entry[2][0]!.node === entry[0]);
    const found: Record<string, readonly string[]> = {};
    this.#guard(() => {
      membership.vouch(
        proven.map(([, , chain]) => chain!),
        teller.node,
      );
    });
    for (const [node, addresses, , at, signature] of proven) {
      const member = membership.member(node);
      if (node === identity.key || !member) continue;
      this.#expect(member);
      const peer = this.#peer(node);
      const announcement = { addresses, at: at!, signature: signature! };
      const latest = peer.announcement?.at ?? member.metAt ?? 0;
      if (peer.linked || addresses.length === 0 || announcement.at <= latest) continue;
      if (!isAnnouncedBy(node, announcement)) continue;
      peer.announcement = announcement;
      peer.addresses = addresses;
      found[node] = addresses;
    }
    this.#guard(() => membership.noteAddresses(found));
  }

  #takeDoubled(peer: Peer): void {
    const news = this.doubled === undefined;
    this.doubled = { by: peer.node, at: this.#components.runtime.now() };
    const reason = `node ${peer.node} says that another process runs with this node’s key: stop one of the two`;
    if (news) this.#report(peer.node, 'NODE_DOUBLED', reason);
  }

  #takeRenewal(peer: Peer, chain: unknown): void {
    try {
      this.#components.membership.renew(chain, peer.node);
    } catch (error) {
      this.#report(peer.node, 'MEMBERSHIP_REFUSED', (error as Error).message);
    }
  }

  #peer(node: string): Peer {
    let peer = this.#peers.get(node);
    if (!peer) {
      const { runtime, identity } = this.#components;
      peer = new Peer(
        {
          runtime,
          ownKey: identity.key,
          limits: this.#limits,
          take: (from, item) => this.#inbound!.take(from, item),
          onStatus: (changed, status) => this.#onStatus(changed, status),
          onEnd: (ended) => {
            this.#cards.end(ended);
            this.mail?.ended(ended.node);
            this.offers?.ended(ended.node);
            this.documents?.ended(ended.node);
            this.leases?.ended(ended.node);
            this.#target?.channels.remote?.peerChanged(ended.node, 'lost');
          },
          onFarewell: (gone) => this.#dismiss(gone.node),
          onViolation: (offender, error) => {
            this.#shun(offender.node);
            this.#report(offender.node, error.code, error.message);
          },
        },
        node,
      );
      this.#peers.set(node, peer);
    }
    return peer;
  }

  #onStatus(peer: Peer, status: PeerStatus): void {
    const { registry, runtime } = this.#components;
    const channels = this.#target?.channels.remote;
    if (status === 'connected') {
      channels?.peerChanged(peer.node, 'resumed');
      this.#makeKnown(peer);
    }
    if (status === 'suspected' || status === 'away') channels?.peerChanged(peer.node, 'interrupted');
    if (status === 'lost') registry.forgetNode(peer.node);
    runtime.logger.info({ node: peer.node, status, reason: peer.reason }, 'a peer changed');
    if (status !== 'connecting')
      this.#emit({ type: 'peer-status', node: peer.node, peerStatus: status, reason: peer.reason });
  }

  /** Tells a node that is there who else is, and them of it: whoever knows one of them finds all. */
  #makeKnown(peer: Peer): void {
    const others = this.all.filter((other) => other !== peer && other.chain);
    const present = others.filter(({ status }) => status === 'connected');
    const absent = others.filter(({ status }) => status !== 'connected');
    this.#tellOf(peer, [...present, ...absent].slice(0, MAX_TOLD));
    for (const other of present) this.#tellOf(other, [peer]);
  }

  /** Tells a node of others, with the proof that they are members. */
  #tellOf(peer: Peer, others: readonly Peer[]): void {
    const entries = others.map(({ node, addresses, chain, announcement }) => {
      if (peer.protocol < PROVEN_HEARSAY) return [node, addresses];
      return [node, announcement?.addresses ?? [], chain, announcement?.at ?? 0, announcement?.signature ?? ''];
    });
    for (let from = 0; from < entries.length; from += TOLD_AT_ONCE) {
      this.#guard(() => peer.post(JSON.stringify(['k', entries.slice(from, from + TOLD_AT_ONCE)])));
    }
  }

  /** A node's membership was taken away: what waits for it or came from it goes too. */
  #expel(node: string): void {
    this.#dismiss(node);
    this.mail?.removed(node);
    for (const listener of this.expelled) listener(node);
  }

  /** A node is no longer a member. */
  #dismiss(node: string): void {
    const peer = this.#peers.get(node);
    if (!peer) return;
    this.#peers.delete(node);
    this.#guard(() => this.#components.membership.forget(node));
    peer.leave('removed');
    this.#components.registry.forgetNode(node);
    this.#emit({ type: 'peer-status', node, peerStatus: 'removed' });
  }

  /** A node that was never met and did not get in is not worth remembering. */
  #forgetStranger(node: string): void {
    const peer = this.#peers.get(node);
    if (peer && !peer.chain && !peer.vouchedFor) this.#peers.delete(node);
  }

  #tickLater(): Timer {
    const { runtime } = this.#components;
    this.#lastTick = runtime.stopwatch();
    return runtime.setTimer(() => this.#tick(), TICK_MS);
  }

  #tick(): void {
    const { runtime, membership } = this.#components;
    const now = runtime.stopwatch();
    const asleep = now - this.#lastTick > 4 * TICK_MS;
    let missing = false;
    for (const peer of [...this.#peers.values()]) {
      if (asleep) peer.excuse(now);
      if (peer.chain && !this.#isStillAdmitted(peer, peer.chain)) continue;
      peer.tick(now);
      missing ||= peer.status !== 'connected' && peer.status !== 'incompatible';
    }
    if (missing || (this.#peers.size === 0 && (membership.joined || this.joining))) this.#init.onMissing();
    this.#timer = this.#tickLater();
  }

  /** A removed node is forgotten. One whose certificate expired is only let go: a renewal or a right clock brings it back. */
  #isStillAdmitted(peer: Peer, chain: Chain): boolean {
    const { membership, registry } = this.#components;
    const lapsed = membership.lapsed(chain);
    if (!lapsed) return true;
    const { node, linked } = peer;
    if (linked) this.#report(node, 'MEMBERSHIP_REFUSED', `node ${node} is no longer admitted: ${lapsed}`);
    if (membership.removed(chain)) {
      this.#expel(node);
      return false;
    }
    if (linked) {
      peer.leave('expired', lapsed);
      registry.forgetNode(node);
    }
    return true;
  }

  #shun(node: string, ms = SHUN_MS): void {
    const [oldest] = this.#shunned.keys();
    if (oldest !== undefined && this.#shunned.size >= MAX_SHUNNED) this.#shunned.delete(oldest);
    this.#shunned.set(node, this.#components.runtime.stopwatch() + ms);
  }

  #isShunned(node: string): boolean {
    return (this.#shunned.get(node) ?? 0) > this.#components.runtime.stopwatch();
  }

  /** What cannot be queued for one peer must not keep the others from being told. */
  #guard(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#components.runtime.logger.error({ err: error }, 'a peer could not be told');
    }
  }

  #report(node: string | undefined, code: ErrorCode, reason: string): void {
    this.#components.runtime.logger.warn({ node, code, reason }, 'refused');
    this.#emit({ type: 'security', node, code, reason });
  }

  #emit(event: Omit<A2ALogEvent, 'timestamp'>): void {
    this.#components.observability.emit({ ...event, timestamp: this.#components.runtime.now() });
  }
}

/** For a link that is closed before anybody listened. */
const DEAF: LinkListener = { onFrame() {}, onDrain() {}, onClose() {} };

function dayOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}

function defined(init: PeersInit): Partial<PeerLimits> {
  return Object.fromEntries(
    (Object.keys(DEFAULTS) as (keyof PeerLimits)[])
      .filter((key) => init[key] !== undefined)
      .map((key) => [key, init[key]]),
  );
}

function lost(node: string): EclipticError {
  return new EclipticError('DELIVERY_FAILED', `node ${node} is lost`, { outcome: 'not-delivered' });
}
