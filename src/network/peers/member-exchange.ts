import type { EclipticError } from '../../runtime/errors.js';
import { type Announcement, isAnnouncedBy } from '../membership/announcements.js';
import type { Chain } from '../membership/certificate.js';
import type { KnownMember } from '../membership/membership-file.js';
import { nodeOf, type Removal, RemovalSchema } from '../membership/removal.js';
import type { Peer } from './peer.js';
import type { ExchangeComponents } from './peers.js';
import type { PeerProtocol } from './protocol.js';
import {
  AnnouncedSchema,
  CERTIFIED_MEMBERS,
  ITEM,
  type Item,
  type Known,
  KnownSchema,
  MembersSchema,
  OWNER_DEVICES,
  parsed,
} from './wire.js';

/** Members that a node is told of when it connects, and how many in one item. */
const MAX_TOLD = 256;
const TOLD_AT_ONCE = 32;
/** What a peer knows of another member: the issue of its certificate, and the time of its announcement. */
interface Heard {
  readonly certificate: string;
  readonly at: number;
}

interface MemberExchangeComponents extends ExchangeComponents {
  /** Does that node, with which there is a conversation, learn from the directory who is there? */
  readsDirectory: (node: string) => boolean;
  isListed: (node: string) => boolean;
}

/** Forged removals in one conversation after which the sender is shunned. */
const MAX_FORGED_REMOVALS = 32;

/** Tells peers of other members, removals and renewed certificates, and takes the same from them. */
export class MemberExchange implements PeerProtocol {
  readonly kinds = [ITEM.removal, ITEM.members, ITEM.renewal, ITEM.doubled];
  readonly #components: MemberExchangeComponents;
  readonly #forgedRemovals = new Map<string, number>();
  /** For each conversation, the members that the peer was told of or told of itself: they are not repeated to it. */
  readonly #heard = new Map<string, Map<string, Heard>>();
  readonly #entries = new WeakMap<Chain, { readonly announcement: Announcement | undefined; readonly text: string }>();
  readonly #chains = new WeakMap<Chain, string>();
  /** Nodes of which two processes were reported. */
  readonly #doubledPeers = new Set<string>();
  /** The node that reported a second process with this node's key, and when. */
  doubled: { readonly by: string; readonly at: number } | undefined;

  constructor(components: MemberExchangeComponents) {
    this.#components = components;
  }

  expectAll(): void {
    const { membership, identity, peers } = this.#components;
    for (const member of membership.members.all) this.#expect(member);
    for (const node of Object.keys(membership.members.addresses)) {
      if (node !== identity.key) peers.know(node).vouchedFor = true;
    }
  }

  /** Tells every peer of a removal, and drops the removed node. */
  spread(removal: Removal): void {
    const { membership, peers } = this.#components;
    const removed = peers.get(nodeOf(removal));
    if (removed?.chain && membership.removed(removed.chain)) peers.expel(removed.node);
    for (const peer of peers.conversing) peers.guard(() => this.#sendRemoval(peer, removal));
  }

  began(node: string): void {
    const { membership, peers } = this.#components;
    const peer = peers.get(node)!;
    this.#forgedRemovals.delete(node);
    this.#heard.set(node, new Map());
    if (peer.doubledAt !== undefined) this.#tellDoubled(peer);
    for (const removal of membership.removals) this.#sendRemoval(peer, removal);
    const renewed = membership.renewed(peer.chain!);
    if (renewed) peer.send(JSON.stringify([ITEM.renewal, renewed]));
    peers.guard(() => membership.members.noteAddresses({ [node]: peer.addresses }));
  }

  /** Tells a node of the other members, and the connected ones of it: a node that knows one of them finds all. */
  connected(node: string): void {
    const { peers } = this.#components;
    const peer = peers.get(node)!;
    const others = peers.all.filter((other) => other !== peer && other.chain);
    const present = others.filter(({ status }) => status === 'connected');
    const absent = others.filter(({ status }) => status !== 'connected');
    const { readsDirectory, isListed } = this.#components;
    // Nodes that keep a directory learn from it who is there.
    const untold = readsDirectory(node) ? ({ node: other }: Peer) => !isListed(other) : () => true;
    this.#tellOf(peer, [...present, ...absent].filter(untold).slice(0, MAX_TOLD));
    for (const other of present) if (!readsDirectory(other.node) || !readsDirectory(node)) this.#tellOf(other, [peer]);
  }

  ended(node: string): void {
    this.#heard.delete(node);
  }

  take(node: string, [kind, body]: Item): void {
    if (kind === ITEM.removal) this.#takeRemoval(node, parsed(RemovalSchema, body));
    else if (kind === ITEM.members) this.#takeMembers(node, body);
    else if (kind === ITEM.renewal) this.#takeRenewal(node, body);
    else this.#takeDoubled(node);
  }

  #sendRemoval(peer: Peer, removal: Removal): void {
    if (canRead(peer, removal.of) && canRead(peer, removal.by)) peer.send(JSON.stringify([ITEM.removal, removal]));
  }

  /** Both processes are told as they come, and neither is refused: only the owner knows which one is right. */
  #tellDoubled(peer: Peer): void {
    const { node } = peer;
    if (peer.protocol >= CERTIFIED_MEMBERS) peer.send(JSON.stringify([ITEM.doubled]));
    if (this.#doubledPeers.has(node)) return;
    this.#doubledPeers.add(node);
    const reason = `two processes run with the key of node ${node}: stop one of them`;
    this.#components.peers.report(node, 'NODE_DOUBLED', reason);
  }

  #tellOf(peer: Peer, others: readonly Peer[]): void {
    const heard = this.#heard.get(peer.node);
    const news = others.filter((other) => !isHeard(heard?.get(other.node), latestOf(other)));
    for (let from = 0; from < news.length; from += TOLD_AT_ONCE) {
      const some = news.slice(from, from + TOLD_AT_ONCE);
      const entries = some.map((other) => this.#entry(peer, other));
      this.#components.peers.guard(() => {
        peer.send(`["${ITEM.members}",[${entries.join(',')}]]`);
        for (const other of some) heard?.set(other.node, latestOf(other));
      });
    }
  }

  /** A member as a peer is told of it. The text is the same for all peers, so it is made once. */
  #entry(peer: Peer, { node, addresses, chain, announcement }: Peer): string {
    if (peer.protocol < CERTIFIED_MEMBERS || !canRead(peer, chain!)) return JSON.stringify([node, addresses]);
    const known = this.#entries.get(chain!);
    if (known && known.announcement === announcement) return known.text;
    const { addresses: announced = [], at = 0, signature = '' } = announcement ?? {};
    const text = JSON.stringify([node, announced, chain, at, signature]);
    this.#entries.set(chain!, { announcement, text });
    return text;
  }

  /** Many peers tell of the same members: a chain that is known here is recognised by its text. */
  #readMember(entry: unknown): Known {
    const chain = this.#knownChain(entry);
    if (!chain) return parsed(KnownSchema, entry);
    const [node, addresses, , at, signature] = entry as readonly unknown[];
    const announced = parsed(AnnouncedSchema, [node, addresses, at, signature]);
    return [announced[0], announced[1], chain, announced[2], announced[3]];
  }

  #knownChain(entry: unknown): Chain | undefined {
    if (!Array.isArray(entry) || entry.length !== 5) return undefined;
    const [node, , said] = entry as readonly unknown[];
    const chain = typeof node === 'string' ? this.#components.peers.get(node)?.chain : undefined;
    if (!chain) return undefined;
    const text = this.#chains.get(chain) ?? JSON.stringify(chain);
    this.#chains.set(chain, text);
    return isJson(said, text) ? chain : undefined;
  }

  #takeRemoval(node: string, removal: Removal): void {
    const { membership, identity, peers, runtime } = this.#components;
    const forged = this.#forgedRemovals.get(node) ?? 0;
    // Its links are about to be closed.
    if (forged >= MAX_FORGED_REMOVALS) return;
    try {
      if (!membership.takeRemoval(removal)) return;
    } catch (error) {
      const { code, message, details } = error as EclipticError;
      peers.report(node, code, message);
      // No honest member passes on a removal that it cannot believe, and each costs several signature checks.
      if (details.forged === true) this.#forgedRemovals.set(node, forged + 1);
      if (details.forged === true && forged + 1 === MAX_FORGED_REMOVALS) peers.dropForger(node);
      return;
    }
    if (nodeOf(removal) === identity.key) runtime.logger.warn({}, 'this node was removed from the mesh');
    this.spread(removal);
  }

  /** A member tells of others: each with its certificate, and its addresses under its own signature. */
  #takeMembers(teller: string, body: unknown): void {
    const { membership, identity, peers } = this.#components;
    const known = parsed(MembersSchema, body).map((entry) => this.#readMember(entry));
    const proven = known.filter((entry) => entry.length === 5 && entry[2][0]!.node === entry[0]);
    const chains = proven.map(([, , chain]) => chain!);
    peers.guard(() => membership.members.vouch(chains, teller));
    const found: Record<string, readonly string[]> = {};
    for (const [node, addresses, chain, at, signature] of proven) {
      const member = membership.members.get(node);
      if (node === identity.key || !member) continue;
      this.#heard.get(teller)?.set(node, { certificate: chain![0]!.signature, at: at! });
      this.#expect(member);
      const peer = peers.know(node);
      const announcement = { addresses, at: at!, signature: signature! };
      const latest = peer.announcement?.at ?? member.metAt ?? 0;
      if (peer.linked || addresses.length === 0 || announcement.at <= latest) continue;
      if (!isAnnouncedBy(node, announcement)) continue;
      peer.announcement = announcement;
      peer.addresses = addresses;
      found[node] = addresses;
    }
    peers.guard(() => membership.members.noteAddresses(found));
  }

  #takeRenewal(node: string, chain: unknown): void {
    try {
      this.#components.membership.renew(chain, node);
    } catch (error) {
      this.#components.peers.report(node, 'MEMBERSHIP_REFUSED', (error as Error).message);
    }
  }

  #takeDoubled(node: string): void {
    const first = this.doubled === undefined;
    this.doubled = { by: node, at: this.#components.runtime.now() };
    const reason = `node ${node} says that another process runs with this node’s key: stop one of the two`;
    if (first) this.#components.peers.report(node, 'NODE_DOUBLED', reason);
  }

  /** Lists a member as missing until it is met. */
  #expect({ chain, metAt }: KnownMember): void {
    const [own] = chain;
    const peer = this.#components.peers.know(own!.node);
    if (peer.chain) return;
    peer.vouchedFor = true;
    peer.chain = chain;
    peer.grant = own!.grant;
    peer.name = own!.name;
    const day = metAt === null ? '' : new Date(metAt).toISOString().slice(0, 10);
    peer.reason = metAt === null ? 'never met' : `not met since this node started, last met ${day}`;
  }
}

function latestOf({ chain, announcement }: Peer): Heard {
  return { certificate: chain![0]!.signature, at: announcement?.at ?? 0 };
}

function isHeard(known: Heard | undefined, { certificate, at }: Heard): boolean {
  return known !== undefined && known.certificate === certificate && known.at >= at;
}

function isJson(value: unknown, text: string): boolean {
  try {
    return JSON.stringify(value) === text;
  } catch {
    // Nested too deeply.
    return false;
  }
}

/** A release before the `owner` grant takes a certificate with it for a violation. */
function canRead({ protocol }: Peer, chain: Chain): boolean {
  return protocol >= OWNER_DEVICES || chain.every(({ grant }) => grant.owner === undefined);
}
