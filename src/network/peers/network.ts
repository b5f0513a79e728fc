import { hostname } from 'node:os';
import type { CardDiscovery, Presence } from '../../mesh/ports.js';
import type { AgentTier } from '../../mesh/schemas.js';
import { Deferred, within } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Timer } from '../../runtime/runtime.js';
import { kindsOf } from '../../system/fetch/dial-guard.js';
import type { Directory } from '../directory/directory.js';
import type { Discovery, DiscoveryStatus, Rendezvous, Seeker } from '../discovery/discovery.js';
import type { WebsocketDiscovery } from '../discovery/websocket-discovery.js';
import { EVERY_TIER, type Grant } from '../membership/certificate.js';
import { DirectoryKey } from '../membership/directory-key.js';
import { decodeInvite, encodeInvite, inviteTopic } from '../membership/invite.js';
import { nodeOf } from '../membership/removal.js';
import { CardExchange } from './card-exchange.js';
import { EnvelopeExchange } from './envelope-exchange.js';
import { GossipDirectory } from './gossip-directory.js';
import { LinkAdmission } from './link-admission.js';
import { MemberExchange } from './member-exchange.js';
import { NodeDirectory } from './node-directory.js';
import type { Peer } from './peer.js';
import { type Finding, findings, type PeerRow, peerRows } from './peer-report.js';
import type { PeerLimits } from './peer-state.js';
import { type NetworkComponents, Peers } from './peers.js';
import type { PeerProtocol } from './protocol.js';
import { AddressSchema, DIRECTORY } from './wire.js';

export type { Finding, PeerRow } from './peer-report.js';

export interface NetworkInit {
  /** What people call this node. Default: the machine's name. */
  name?: string;
  software: string;
  /** Where to take WebSocket links. Default: nowhere. */
  listen?: { host: string; port: number };
  /** `ws://` addresses of nodes to call. */
  peers?: readonly string[];
  /** Nodes of a private DHT, `host:port`. Default: the mesh's, else the public DHT. */
  bootstrap?: readonly string[];
  /** Find nodes on a DHT. Default true. */
  dht?: boolean;
  limits?: Partial<PeerLimits> & { greetingMs?: number };
  /** The data folder, if this node has one. */
  folder?: string | undefined;
  /** Carry the directory beside the gossip between neighbours. */
  directories?: () => readonly Directory[];
  /** Brings links instead of the DHT and WebSocket. */
  discovery?: (seeker: Seeker) => Discovery;
  /** More discoveries, beside the DHT and WebSocket. */
  discoveries?: (seeker: Seeker) => readonly Discovery[];
  /** The broker's state. A node is connected to it before it is in a mesh. */
  brokerStatus?: () => DiscoveryStatus;
}

export interface InviteOptions {
  /** Tiers that the new node's agents may have. Default: all, for another device of the owner. */
  tiers?: readonly AgentTier[];
  sandboxes?: readonly string[];
  /** May it invite others? Default: only with all tiers and no sandbox. */
  mayInvite?: boolean;
  /** Is it a device of this owner, which may answer what waits on the others? Default: no. */
  owner?: boolean;
  /** How long the code can be used. Default 15 minutes. */
  ttlMs?: number;
}

export interface Invite {
  readonly code: string;
  readonly expiresAt: number;
  readonly grant: Grant;
  readonly warnings: readonly string[];
}

const INVITE_MS = 15 * 60_000;
const JOIN_MS = 30_000;
/** How long `invite` waits to learn whether the DHT can be reached. */
const SETTLED_MS = 3_000;
/** A shorter text is never taken for the beginning of a key: any name of a few hexadecimal digits would be ambiguous. */
export const MIN_KEY_PREFIX = 4;

/**
 * This node among others: creates, joins and leaves a mesh, invites and removes nodes, and stays connected to them.
 * Protocols between nodes are added with `handle`.
 */
export class Network implements CardDiscovery {
  readonly peers: Peers;
  readonly links: LinkAdmission;
  readonly cards: CardExchange;
  /** Who is there, talked to or not. */
  readonly directory: NodeDirectory;
  readonly #gossip: GossipDirectory;
  /** Protects the directory where a broker holds it. */
  readonly directoryKey: DirectoryKey;
  /** How the router and the channels reach other nodes. */
  readonly envelopes: EnvelopeExchange;
  readonly #members: MemberExchange;
  readonly #components: NetworkComponents;
  readonly #init: NetworkInit;
  /** The name that people use for this node. */
  readonly name: string;
  #discoveries: Discovery[] = [];
  #websocket: WebsocketDiscovery | undefined;
  #inviteAddresses: readonly string[] = [];
  #expiry: Timer | undefined;
  #open = false;

  constructor(components: NetworkComponents, init: NetworkInit) {
    this.#components = components;
    this.#init = init;
    this.name = (init.name ?? hostname()) || 'a node';
    const { greetingMs, ...limits } = init.limits ?? {};
    const onMissing = (wanted: readonly string[]) => {
      for (const discovery of this.#discoveries) {
        discovery.seek();
        for (const node of wanted) discovery.reach(node);
      }
    };
    const peers: Peers = new Peers({ ...components, onMissing, directory: () => this.directory }, limits);
    const parts = { ...components, peers };
    const addresses = () => this.#websocket?.addresses ?? [];
    this.directoryKey = new DirectoryKey(components.runtime, { folder: init.folder });
    const gossip = new GossipDirectory({
      ...components,
      say: (node, text) => peers.get(node)?.sendAside(text),
      isFullMember: (node) => isFullMember(peers.get(node)),
      key: this.directoryKey,
      isNeighbour: (node) => this.directory.isNeighbour(node),
      onKey: () => this.directory.rekey(),
      brokerMs: () => this.directory.brokerMs,
    });
    const directories = [...(init.directories?.() ?? []), gossip];
    const callable = () =>
      this.#discoveries.some((discovery) => discovery !== this.#websocket) || addresses().length > 0;
    this.directory = new NodeDirectory({ ...parts, directories }, { software: init.software, addresses, callable });
    this.peers = peers;
    this.links = new LinkAdmission(parts, { name: this.name, software: init.software, addresses, greetingMs });
    this.cards = new CardExchange({ ...parts, changed: () => this.directory.changed() });
    this.#members = new MemberExchange({
      ...parts,
      readsDirectory: (node) => isFullMember(peers.get(node)) && components.membership.grant.sandboxes === undefined,
      isListed: (node) => this.directory.heardAt(node) !== undefined,
    });
    this.envelopes = new EnvelopeExchange(peers, this.cards);
    // Cards come first: a node refuses whatever else it is told of an agent that it does not know.
    this.handle(this.cards);
    this.handle(this.#members);
    this.handle(gossip);
    this.#gossip = gossip;
  }

  /** Adds a protocol: from now on it takes the items of its kinds from every peer. */
  handle(protocol: PeerProtocol): void {
    this.peers.handle(protocol);
  }

  get presence(): Presence {
    return this.peers;
  }

  /** Connects to the other members, if this node is one. */
  async start(): Promise<void> {
    const { membership } = this.#components;
    this.cards.start();
    this.peers.start();
    if (!membership.joined) return;
    this.#members.expectAll();
    await this.#connect(membership.bootstrap);
  }

  async stop(): Promise<void> {
    this.cards.stop();
    this.links.close();
    const withdrawn = this.directory.stop();
    this.peers.stop();
    await withdrawn;
    await this.#disconnect();
  }

  get joined(): boolean {
    return this.#components.membership.joined;
  }

  /** Makes a code that admits one node to this mesh. The first invite creates the mesh. */
  async invite(options: InviteOptions = {}): Promise<Invite> {
    const { membership, runtime } = this.#components;
    const { ttlMs = INVITE_MS, tiers = EVERY_TIER, sandboxes } = options;
    const everything = tiers.length === EVERY_TIER.length && sandboxes === undefined;
    const grant: Grant = {
      tiers: [...tiers],
      ...(sandboxes && { sandboxes: [...sandboxes] }),
      invite: options.mayInvite ?? everything,
      ...(options.owner === true && { owner: true as const }),
    };
    this.peers.shunned.forgive();
    await this.#ensureMesh();
    const secret = membership.invite(grant, ttlMs);
    this.#meetMembers();
    const addresses = this.#websocket?.addresses ?? [];
    const bootstrap = this.#init.bootstrap ?? membership.bootstrap;
    const warnings = await this.#obstacles(addresses);
    const code = encodeInvite({ secret, bootstrap, addresses });
    return { code, expiresAt: runtime.now() + ttlMs, grant, warnings };
  }

  async #obstacles(addresses: readonly string[]): Promise<string[]> {
    const { runtime } = this.#components;
    const settling = Promise.all(this.#discoveries.map((discovery) => discovery.settled?.()));
    const settled = await within(runtime, settling, SETTLED_MS, () => undefined);
    const dht = this.#discoveries.map((discovery) => discovery.status()).find(({ kind }) => kind === 'hyperswarm');
    const listens = addresses.length > 0 ? `; the code also names ${addresses.join(', ')}` : '';
    const problem = settled ? dht?.detail : 'has not reached the DHT yet; see: ecliptic doctor';
    if (dht && !dht.working) return [`this node ${problem}${listens}`];
    const failed = this.#discoveries
      .map((discovery) => discovery.status())
      .find(({ kind, working }) => kind === 'nats' && !working);
    if (failed) return [failed.detail];
    const blind =
      !dht &&
      !this.#init.discoveries &&
      addresses.length === 0 &&
      !this.#init.discovery &&
      (this.#init.peers ?? []).length === 0;
    return blind ? ['this node uses no DHT and listens nowhere: start it with --listen HOST:PORT to be found'] : [];
  }

  /** Creates a mesh, unless this node is in one, or cannot be reached. */
  async #ensureMesh(): Promise<void> {
    const { membership } = this.#components;
    if (membership.joined) return this.#connect(membership.bootstrap);
    membership.create(this.name, this.#init.bootstrap ?? []);
    this.directoryKey.renew();
    try {
      await this.#connect(membership.bootstrap);
    } catch (error) {
      membership.leave();
      throw error;
    }
  }

  /** Joins the mesh that a code invites to. Resolves as soon as this node is a member. */
  async join(code: string, signal?: AbortSignal): Promise<{ mesh: string }> {
    const { membership, runtime } = this.#components;
    const { secret, bootstrap, addresses: given } = decodeInvite(code);
    const addresses = given.filter((address) => AddressSchema.safeParse(address).success);
    if (membership.joined)
      throw new EclipticError('MESH_EXISTS', 'this node belongs to a mesh already; leave it first');
    this.peers.shunned.forgive();
    if (this.links.joining) throw new EclipticError('MESH_EXISTS', 'this node is joining a mesh already');
    const joined = new Deferred<void>();
    const refused = (error: unknown) => joined.reject(error);
    signal?.addEventListener('abort', () => refused(new EclipticError('CANCELLED', 'the caller went away')));
    this.#inviteAddresses = addresses;
    this.links.joining = { secret, addresses, joined: () => joined.resolve(), refused };
    this.#connect(bootstrap, [{ topic: inviteTopic(secret), role: 'guest' }]).catch(refused);
    try {
      await within(runtime, joined.promise, JOIN_MS, () => {
        throw new EclipticError('PEER_UNREACHABLE', this.#whyUnanswered(), { waitedMs: JOIN_MS });
      });
    } catch (error) {
      await this.#disconnect();
      throw error;
    } finally {
      this.links.joining = undefined;
      this.#inviteAddresses = [];
    }
    this.#meetMembers();
    return { mesh: membership.mesh };
  }

  async leave(): Promise<void> {
    const { membership } = this.#components;
    if (!membership.joined) throw new EclipticError('NO_MESH', 'this node belongs to no mesh');
    this.links.close();
    await this.directory.stop();
    this.peers.leaveAll('leaving');
    membership.leave();
    this.directoryKey.clear();
    await this.#disconnect();
  }

  /** Removes a node from the mesh, wherever it is and whichever member invited it; the others stay. */
  remove(node: string): void {
    const { membership } = this.#components;
    const peer = this.find(node);
    // A node without a certificate is no member: only this node's notes of it are removed.
    if (!peer.chain) this.peers.forget(peer.node);
    else {
      this.#members.spread(membership.remove(peer.chain));
      this.#renewDirectoryKey();
    }
  }

  /** Gives the directory another key, which a node that was removed does not learn. */
  #renewDirectoryKey(): void {
    if (this.#components.membership.grant.sandboxes !== undefined) return;
    this.peers.guard(() => this.directoryKey.renew());
    this.#gossip.spreadKey();
    this.directory.rekey();
  }

  /** Is that node a device of the same owner? Exactly those may have agents of every tier, as this node may. */
  isOwnDevice(node: string): boolean {
    const { membership } = this.#components;
    if (!membership.joined || !membership.grant.tiers.includes(0)) return false;
    return this.peers.get(node)?.grant?.tiers.includes(0) === true;
  }

  /** Do both certificates, that node's and this one's, say that they are devices of the owner? */
  isOwnerDevice(node: string): boolean {
    return this.peers.isOwnerDevice(node);
  }

  /** When that member last proved itself to this node, perhaps in an earlier run; null if never. */
  lastMet(node: string): number | null {
    return this.#components.membership.members.get(node)?.metAt ?? null;
  }

  hasRemoved(node: string): boolean {
    return this.removed.includes(node);
  }

  /** The nodes that were removed from the mesh and not admitted again since. */
  get removed(): string[] {
    const { membership } = this.#components;
    const nodes = new Set(membership.removals.map(nodeOf));
    return [...nodes].filter((node) => !membership.members.get(node));
  }

  /** The peer with this name, or whose key begins with it. */
  find(text: string): Peer {
    const [key, ...others] = this.matching(text);
    if (key !== undefined && others.length === 0 && key !== this.#components.identity.key) return this.peers.get(key)!;
    const reason = others.length === 0 ? 'no known node has' : 'several nodes have';
    throw new EclipticError('PEER_NOT_FOUND', `${reason} the name "${text}", or a key that begins with it`, {
      candidates: this.matching(text),
    });
  }

  /**
   * The keys of the peers that have this name, and of the nodes, this one included, whose key begins with it. Nodes choose
   * their own names, so one node's name may be the beginning of another's key: several keys mean that the text is ambiguous.
   */
  matching(text: string): string[] {
    const keys = [this.#components.identity.key, ...this.peers.all.map(({ node }) => node)];
    const isPrefix = text.length >= MIN_KEY_PREFIX;
    return keys.filter((key) => (isPrefix && key.startsWith(text)) || this.peers.get(key)?.name === text);
  }

  list(): PeerRow[] {
    return peerRows({ ...this.#components, peers: this.peers });
  }

  diagnose(): Finding[] {
    const broker = this.#open ? undefined : this.#init.brokerStatus?.();
    const discoveries = broker ? [broker] : this.#discoveries.map((discovery) => discovery.status());
    const { doubled } = this.#members;
    const { software } = this.#init;
    return findings({ ...this.#components, peers: this.peers, discoveries, doubled, software });
  }

  #whyUnanswered(): string {
    const details = this.#discoveries.map((discovery) => discovery.status().detail);
    return ['the inviting node did not answer; is it running?', ...details].join(' · ');
  }

  async #connect(bootstrap: readonly string[], points?: readonly Rendezvous[]): Promise<void> {
    if (!this.#open) {
      this.#open = true;
      try {
        await this.#startDiscoveries(this.#init.bootstrap ?? bootstrap);
      } catch (error) {
        await this.#disconnect();
        throw error;
      }
    }
    if (points) this.#setRendezvous(points);
    else this.#meetMembers();
  }

  async #startDiscoveries(bootstrap: readonly string[]): Promise<void> {
    const { runtime, identity, membership } = this.#components;
    const { discovery, listen, dht = true, peers = [] } = this.#init;
    const shouldCall = (node: string) => this.links.shouldCall(node);
    const isNeighbour = (node: string) => this.directory.isNeighbour(node);
    const seeker: Seeker = { key: identity.key, shouldCall, isNeighbour };
    if (discovery) this.#discoveries.push(discovery(seeker));
    else {
      // The native modules are loaded only by nodes that use a network.
      const { WebsocketDiscovery } = await import('../discovery/websocket-discovery.js');
      const { keyPair } = identity;
      const given = () => [...peers, ...this.#inviteAddresses];
      const addressesOf = (node: string) => {
        const listed = this.directory.addressesOf(node);
        return listed.length > 0 ? listed : (membership.members.addresses[node] ?? []);
      };
      const missing = () => this.peers.all.filter(({ node, linked }) => !linked && isNeighbour(node));
      const learnt = () => missing().flatMap(({ node }) => (shouldCall(node) ? addressesOf(node) : []));
      const ownersOwn = () => [...given(), ...membership.given, ...(this.#websocket?.addresses ?? [])];
      const wanted = () => ({ given: given(), learnt: learnt(), inside: kindsOf(ownersOwn()) });
      const onFailure = (from: string, reason: string) => {
        this.peers.report(undefined, 'MEMBERSHIP_REFUSED', `a caller from ${from} is not a node: ${reason}`);
      };
      const parts = { runtime, keyPair, wanted, addressesOf, shouldCall, onFailure, listen };
      this.#websocket = new WebsocketDiscovery(parts);
      this.#discoveries.push(this.#websocket);
      if (dht) {
        const { HyperswarmDiscovery } = await import('../discovery/hyperswarm-discovery.js');
        this.#discoveries.push(new HyperswarmDiscovery({ runtime, keyPair, shouldCall }, { bootstrap }));
      }
    }
    this.#discoveries.push(...(this.#init.discoveries?.(seeker) ?? []));
    for (const started of this.#discoveries) await started.start((link) => this.links.take(link));
    await this.directory.start();
  }

  async #disconnect(): Promise<void> {
    this.#expiry?.cancel();
    const discoveries = this.#discoveries;
    this.#discoveries = [];
    this.#websocket = undefined;
    this.#open = false;
    await Promise.all(discoveries.map((discovery) => discovery.stop()));
  }

  /** Looks for members, and waits for invited nodes for as long as their invites are open. */
  #meetMembers(): void {
    const { membership, runtime } = this.#components;
    this.directory.changed();
    const invites = membership.openInvites();
    this.#setRendezvous([
      { topic: membership.topic, role: 'member' },
      ...invites.map((secret) => ({ topic: inviteTopic(secret), role: 'host' as const })),
    ]);
    this.#expiry?.cancel();
    if (invites.length > 0) this.#expiry = runtime.setTimer(() => this.#meetMembers(), 60_000);
  }

  #setRendezvous(points: readonly Rendezvous[]): void {
    for (const discovery of this.#discoveries) {
      discovery.setRendezvous(points);
      discovery.seek();
    }
  }
}

/** Does that node learn what every full member announces, and keep a directory? */
function isFullMember(peer: Peer | undefined): boolean {
  return peer?.grant !== undefined && peer.grant.sandboxes === undefined && peer.protocol >= DIRECTORY;
}
