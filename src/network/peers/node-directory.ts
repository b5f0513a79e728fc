import { EclipticError } from '../../runtime/errors.js';
import type { Timer } from '../../runtime/runtime.js';
import type { Directory, DirectoryEntry, DirectoryListener } from '../directory/directory.js';
import { FULL_MESH, Ring } from '../directory/neighbours.js';
import { headOf, MAX_ENTRY_CHARS, type NodeAbout, readEntry, signEntry } from './directory-entry.js';
import type { Peer } from './peer.js';
import type { NetworkComponents, Peers } from './peers.js';
import { DIRECTORY, type Item, PROTOCOL } from './wire.js';

interface NodeDirectoryComponents extends NetworkComponents {
  peers: Peers;
  /** Carries the entries. */
  directories: readonly Directory[];
}

interface NodeDirectoryInit {
  software: string;
  /** Where this node listens. */
  addresses: () => readonly string[];
  /** Can other nodes call this one? If not, it keeps a link to every node itself. */
  callable: () => boolean;
}

/** A change is announced after this time, further ones no more often than every second. */
const ANNOUNCE_MS = 50;
const ANNOUNCE_GAP_MS = 1_000;
/** Newly met members are noted on disk together. */
const NOTE_MS = 1_000;
/** With fewer links than this, a node calls more and more of the members that it knows, twice as many after each period. */
const MIN_LINKS = 3;
const LONELY_MS = 5_000;
/** How long a broker may take to list a node that a neighbour told of. */
const BROKER_MS = 5_000;
/** The ring is made again when no node has come or gone for this long, and after the longer time in any case. */
const QUIET_MS = 1_000;
const SETTLE_MS = 5_000;

interface Rings {
  readonly madeAt: number;
  /** Of all members that are known. */
  readonly all: Ring;
  /** Of those that are there. */
  readonly listed: Ring;
}

interface Listed {
  readonly about: NodeAbout;
  heardAt: number;
  readonly since: number;
  /** The directories that list it. */
  readonly by: Set<Directory>;
}

/**
 * The nodes of the mesh that are there, talked to or not. Makes this node's entry, checks those of the others, and gives
 * what they announce to the protocols while there is no conversation. Decides which nodes are neighbours: to these a link
 * is kept, to others it is opened when something is sent.
 */
export class NodeDirectory {
  readonly #components: NodeDirectoryComponents;
  readonly #init: NodeDirectoryInit;
  /** The directories that need no links between nodes. */
  readonly #brokers: readonly Directory[];
  readonly #listed = new Map<string, Listed>();
  /** Entries of nodes that stopped answering. */
  readonly #doubted = new Map<string, NodeAbout>();
  /** Members that are to be noted on disk. */
  readonly #unnoted = new Map<string, NodeAbout>();
  #ring: Rings | undefined;
  #ringHolds = false;
  #changedAt = 0;
  #version = 0;
  /** What was announced last. */
  #said = '';
  #entry: DirectoryEntry | undefined;
  /** The latest version of an earlier process, which this one must exceed. */
  #outdone = 0;
  #announcing: Timer | undefined;
  #announcedAt = Number.NEGATIVE_INFINITY;
  #noting: Timer | undefined;
  #lonelySince: number | undefined;
  #running = false;

  constructor(components: NodeDirectoryComponents, init: NodeDirectoryInit) {
    this.#components = components;
    this.#init = init;
    this.#brokers = components.directories.filter(({ needsNeighbours }) => !needsNeighbours);
  }

  async start(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    for (const directory of this.#components.directories) await directory.start(this.#listenerOf(directory));
    this.changed();
  }

  async stop(): Promise<void> {
    if (!this.#running) return;
    this.#running = false;
    this.#announcing?.cancel();
    this.#announcing = undefined;
    this.#noting?.cancel();
    this.#noting = undefined;
    this.#note();
    this.#publish(true);
    this.#listed.clear();
    this.#doubted.clear();
    this.#said = '';
    this.#entry = undefined;
    this.#ring = undefined;
    for (const directory of this.#components.directories) await directory.stop();
  }

  /** Something that this node announces has changed. */
  changed(): void {
    if (!this.#running || this.#announcing) return;
    const { runtime } = this.#components;
    const wait = Math.max(ANNOUNCE_MS, this.#announcedAt + ANNOUNCE_GAP_MS - runtime.stopwatch());
    this.#announcing = runtime.setTimer(() => {
      this.#announcing = undefined;
      this.#publish(false);
    }, wait);
  }

  /** The key under which brokers hold the directory has come or changed: they get the same entry under that key. */
  rekey(): void {
    const entry = this.#entry;
    if (this.#running && entry) for (const broker of this.#brokers) broker.publish(entry);
  }

  /** Members have come or gone, so that there may be other neighbours. */
  membersChanged(): void {
    this.#ringHolds = false;
    this.#changedAt = this.#components.runtime.stopwatch();
  }

  /** When that node was last heard of through the directory, by the stopwatch; undefined if it is not listed. */
  heardAt(node: string): number | undefined {
    return this.#listed.get(node)?.heardAt;
  }

  addressesOf(node: string): readonly string[] {
    return this.#listed.get(node)?.about.addresses ?? [];
  }

  /** Is a link to that node kept open, whether or not anything is to be sent? */
  isNeighbour(node: string): boolean {
    const { peers, membership } = this.#components;
    const peer = peers.get(node);
    // A node that was found and never met may be anyone: the first few are called.
    if (!peer) return this.#brokers.length > 0 ? this.#isBlind() : peers.linkCount < FULL_MESH;
    // The ring is for nodes that the directory brings together; all others meet directly.
    if (membership.joined && membership.grant.sandboxes !== undefined) return true;
    if (!this.#init.callable() || !isFull(peer) || this.#isOwners(peer)) return true;
    const listed = this.#listed.get(node);
    if (listed && !listed.about.complete) return true;
    if (peer.conversing && peer.protocol < DIRECTORY) return true;
    if (peers.size > FULL_MESH && this.#isBrokered(peer, listed)) return false;
    if (this.#mayGrow(peer)) return false;
    const rings = this.#rings();
    const candidates = this.#candidates();
    if (candidates > 0) return rings.all.isNear(node, candidates);
    return rings.all.isNeighbour(node) || rings.listed.isNeighbour(node);
  }

  /** Does no broker list anyone, although there was time? The key may have changed, which any member passes on. */
  #isBlind(): boolean {
    const { peers } = this.#components;
    if (peers.linkCount > 0) return false;
    for (const { by } of this.#listed.values()) if (this.#brokers.some((broker) => by.has(broker))) return false;
    return peers.size === 0 || this.#candidates() > MIN_LINKS;
  }

  /** Does a broker bring more and more nodes, so that a node without a link may soon be one of many? */
  #mayGrow({ linked, since }: Peer): boolean {
    const { runtime } = this.#components;
    if (linked || this.#brokers.length === 0 || runtime.stopwatch() - this.#changedAt >= QUIET_MS) return false;
    return runtime.now() - since < SETTLE_MS;
  }

  /** Does a broker list that node, or may it still do so? Then no link is needed to know of it. */
  #isBrokered({ since }: Peer, listed: Listed | undefined): boolean {
    if (this.#brokers.length === 0) return false;
    if (listed && this.#brokers.some((broker) => listed.by.has(broker))) return true;
    const { runtime } = this.#components;
    return (listed ? runtime.stopwatch() - listed.since : runtime.now() - since) < BROKER_MS;
  }

  /** How long an entry that a neighbour offers may still come from a broker. */
  get brokerMs(): number {
    return this.#brokers.length > 0 ? BROKER_MS : 0;
  }

  /** Has a broker brought this version to the node and, as far as is known, to all that it talks to? */
  #isBrought(node: string, version: number): boolean {
    const listed = this.#listed.get(node);
    if (!listed || listed.about.version < version || !this.#brokers.some((broker) => listed.by.has(broker)))
      return false;
    return this.#components.peers.conversing.every((peer) => this.#isBrokered(peer, this.#listed.get(peer.node)));
  }

  /** How many of the following nodes a node with hardly any link calls: its neighbours may all be away. */
  #candidates(): number {
    const { peers, runtime } = this.#components;
    if (peers.linkCount >= MIN_LINKS) {
      this.#lonelySince = undefined;
      return 0;
    }
    const now = runtime.stopwatch();
    this.#lonelySince ??= now;
    return MIN_LINKS * 2 ** Math.min(20, Math.floor((now - this.#lonelySince) / LONELY_MS));
  }

  // Listens to the directories

  /** A node is there while one of the directories lists it. */
  #listenerOf(directory: Directory): DirectoryListener {
    return {
      onEntry: (text) => this.#onEntry(text, directory),
      onOutdone: (version) => this.#onOutdone(version),
      isBrought: (node, version) => this.#isBrought(node, version),
      onHeard: (node) => this.#onHeard(node),
      onGone: (node) => {
        const listed = this.#listed.get(node);
        listed?.by.delete(directory);
        if (!listed || listed.by.size === 0) this.onGone(node);
      },
    };
  }

  #onEntry(text: string, directory: Directory): boolean {
    const { identity, membership, peers, runtime } = this.#components;
    const { node, version } = headOf(text);
    if (node === identity.key || !membership.joined) return false;
    const listed = this.#listed.get(node);
    const known = listed?.about ?? this.#doubted.get(node);
    if (version < (known?.version ?? -1)) return false;
    try {
      if (version === known?.version) {
        // Another directory has brought it.
        const isNew = listed !== undefined && !listed.by.has(directory);
        if (isNew) {
          readEntry(text);
          listed.by.add(directory);
        }
        return isNew;
      }
      const about = readEntry(text);
      const grant = membership.checkMember(about.chain, node);
      if (grant.sandboxes !== undefined) return false;
      this.#list(about);
      this.#listed.get(node)?.by.add(directory);
      return true;
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'INVALID_FRAME') throw error;
      const reason = error instanceof EclipticError ? error.message : String(error);
      runtime.logger.warn({ node, reason }, 'directory: an entry was refused');
      peers.report(node, 'MEMBERSHIP_REFUSED', `the directory entry of node ${node} is refused: ${reason}`);
      return false;
    }
  }

  /** The clock of an earlier process with this key was ahead. */
  #onOutdone(version: number): void {
    if (version <= this.#version) return;
    this.#version = version;
    this.#outdone = version;
    this.changed();
  }

  #onHeard(node: string): void {
    const listed = this.#listed.get(node);
    const doubted = this.#doubted.get(node);
    if (listed) listed.heardAt = this.#components.runtime.stopwatch();
    else if (doubted) this.#list(doubted);
  }

  /** That node has left or stopped, as it said itself. */
  onGone(node: string): void {
    const { peers } = this.#components;
    this.#doubted.delete(node);
    if (!this.#listed.delete(node)) return;
    this.membersChanged();
    const peer = peers.get(node);
    if (peer?.status === 'idle' || (peer && !peer.conversing)) this.#forget(peer);
  }

  /** That node is no longer a member. */
  forget(node: string): void {
    for (const directory of this.#components.directories) directory.forget(node);
    this.onGone(node);
    this.membersChanged();
  }

  /**
   * The conversation with that node is over: what the directory says of it counts again. A node that was `lost`, though, is
   * listed again only when it is heard of.
   */
  ended(node: string, lost: boolean): void {
    const { peers, membership } = this.#components;
    const listed = this.#listed.get(node);
    const peer = peers.get(node);
    if (lost && listed) {
      this.#listed.delete(node);
      this.#doubted.set(node, listed.about);
      this.membersChanged();
      return;
    }
    if (!listed || !peer || !this.#running || membership.lapsed(listed.about.chain) !== undefined) return;
    this.#learn(peer, listed.about);
  }

  #list(about: NodeAbout): void {
    const { peers, runtime, membership } = this.#components;
    const { node, chain } = about;
    const isNew = !this.#listed.has(node);
    if (about.gone) {
      this.onGone(node);
      return;
    }
    this.#doubted.delete(node);
    const now = runtime.stopwatch();
    const { by = new Set<Directory>(), since = now } = this.#listed.get(node) ?? {};
    this.#listed.set(node, { about, heardAt: now, since, by });
    if (isNew) this.membersChanged();
    const peer = peers.know(node);
    peer.vouchedFor = true;
    if (!peer.linked) {
      peer.chain = chain;
      peer.grant = chain[0]!.grant;
      peer.name = chain[0]!.name;
    }
    const known = membership.members.get(node)?.chain[0]?.signature === chain[0]!.signature;
    const { addresses } = membership.members;
    if (!known || (addresses[node] ?? []).join() !== about.addresses.join()) this.#noteLater(about);
    if (!peer.conversing) this.#learn(peer, about);
  }

  #learn(peer: Peer, about: NodeAbout): void {
    const { peers } = this.#components;
    peer.addresses = about.addresses;
    peer.software = about.software;
    peer.protocol = about.protocol;
    peers.guard(() => peers.protocols.learn(peer.node, about.items));
    peer.list();
    peers.guard(() => peers.protocols.tell('listed', peer.node));
  }

  #forget(peer: Peer): void {
    const { peers, registry } = this.#components;
    peers.guard(() => peers.protocols.learn(peer.node, []));
    registry.forgetNode(peer.node);
    if (peer.status === 'idle') peer.drop('lost', 'it has not been heard of for a while');
  }

  #publish(gone: boolean): void {
    const { membership, identity, runtime, peers, directories } = this.#components;
    if (!membership.joined || membership.grant.sandboxes !== undefined) return;
    const texts = gone ? [] : peers.protocols.announce();
    const addresses = [...this.#init.addresses()];
    const said = JSON.stringify([gone, addresses, membership.chain[0]!.signature, this.#outdone, ...texts]);
    if (said === this.#said) return;
    this.#said = said;
    this.#announcedAt = runtime.stopwatch();
    this.#version = Math.max(this.#version + 1, Math.floor(runtime.now()));
    const complete = texts.reduce((sum, text) => sum + text.length, 0) < MAX_ENTRY_CHARS / 2;
    const items = complete ? texts.map((text) => JSON.parse(text) as Item) : [];
    const about = { version: this.#version, protocol: PROTOCOL.max, software: this.#init.software };
    const entry = signEntry(identity, { ...about, chain: membership.chain, addresses, complete, gone, items });
    this.#entry = entry;
    for (const directory of directories) directory.publish(entry);
  }

  #noteLater(about: NodeAbout): void {
    this.#unnoted.set(about.node, about);
    this.#noting ??= this.#components.runtime.setTimer(() => {
      this.#noting = undefined;
      this.#note();
    }, NOTE_MS);
  }

  #note(): void {
    const { membership, peers, runtime } = this.#components;
    const all = [...this.#unnoted.values()];
    this.#unnoted.clear();
    if (all.length === 0 || !membership.joined) return;
    const chains = all.map(({ chain }) => chain);
    const addresses = Object.fromEntries(all.map((about) => [about.node, about.addresses]));
    peers.guard(() => {
      membership.members.noteMet(chains, runtime.now());
      membership.members.noteAddresses(addresses);
    });
  }

  #isOwners({ node }: Peer): boolean {
    return this.#components.peers.isOwnerDevice(node);
  }

  /** While many nodes become known at once, the ring waits: each of them would bring other neighbours. */
  #rings(): Rings {
    const { identity, peers, runtime } = this.#components;
    const now = runtime.stopwatch();
    const { madeAt = now } = this.#ring ?? {};
    const isSettling = now - this.#changedAt < QUIET_MS && now - madeAt < SETTLE_MS;
    if (this.#ring && (this.#ringHolds || (isSettling && peers.size > FULL_MESH))) return this.#ring;
    this.#ringHolds = true;
    this.#ring = {
      madeAt: now,
      all: new Ring(
        identity.key,
        peers.all.filter(isFull).map(({ node }) => node),
      ),
      listed: new Ring(identity.key, this.#listed.keys()),
    };
    return this.#ring;
  }
}

/** Does that node, as far as is known, learn what every full member announces? */
function isFull({ grant }: Peer): boolean {
  return grant !== undefined && grant.sandboxes === undefined;
}
