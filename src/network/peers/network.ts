import { hostname } from 'node:os';
import type { A2AObservability } from '../../mesh/observability.js';
import type { CardDiscovery, Presence } from '../../mesh/ports.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { AgentTier } from '../../mesh/schemas.js';
import { within } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { kindsOf } from '../../system/fetch/dial-guard.js';
import type { Discovery, Meeting, Seeker } from '../discovery/discovery.js';
import type { WebsocketDiscovery } from '../discovery/websocket-discovery.js';
import { EVERY_TIER, type Grant } from '../membership/certificate.js';
import type { Identity } from '../membership/identity.js';
import { decodeInvite, encodeInvite, inviteTopic } from '../membership/invite.js';
import type { Membership } from '../membership/membership.js';
import { nodeOf } from '../membership/removal.js';
import { permits } from '../membership/signed-card.js';
import type { Peer, PeerLimits, PeerStatus } from './peer.js';
import { Peers, type PeersTarget } from './peers.js';
import { AddressSchema } from './wire.js';

export interface NetworkComponents {
  runtime: Runtime;
  identity: Identity;
  membership: Membership;
  registry: AgentRegistry;
  observability: A2AObservability;
}

export interface NetworkInit {
  /** What people call this node. Default: the machine's name. */
  name?: string;
  /** This release, as others see it. */
  software: string;
  /** Where to take WebSocket links. Default: nowhere. */
  listen?: { host: string; port: number };
  /** `ws://` addresses of nodes to call. */
  peers?: readonly string[];
  /** Nodes of a private DHT, `host:port`. Default: the mesh's, else the public DHT. */
  bootstrap?: readonly string[];
  /** Meet on a DHT. Default true. */
  dht?: boolean;
  limits?: Partial<PeerLimits> & { greetingMs?: number };
  /** Instead of the DHT and WebSocket: what brings links. */
  discovery?: (seeker: Seeker) => Discovery;
}

export interface InviteOptions {
  /** Tiers that the new node's agents may have. Default: all, for a device of one's own. */
  tiers?: readonly AgentTier[];
  /** The only sandboxes that its agents may live in. */
  sandboxes?: readonly string[];
  /** May it invite others? Default: only with all tiers and no sandbox. */
  mayInvite?: boolean;
  /** How long the code can be used. Default 15 minutes. */
  ttlMs?: number;
}

export interface Invite {
  readonly code: string;
  readonly expiresAt: number;
  readonly grant: Grant;
  /** Why the other node may not find this one. */
  readonly warnings: readonly string[];
}

/** A row of the peers' table. */
export interface PeerRow {
  readonly node: string;
  readonly name: string;
  readonly state: PeerStatus;
  /** Why it is not connected. */
  readonly reason: string | null;
  readonly link: string | null;
  readonly since: number;
  readonly agents: number;
  readonly tiers: readonly AgentTier[];
  readonly sandboxes: readonly string[] | null;
  readonly roundTripMs: number | null;
  readonly clockSkewMs: number | null;
  readonly software: string | null;
  readonly expiresAt: number | null;
}

export interface Finding {
  readonly level: 'ok' | 'warning' | 'problem';
  readonly text: string;
}

const INVITE_MS = 15 * 60_000;
const JOIN_MS = 30_000;
/** How long an invite waits to learn whether the DHT can be reached. */
const SETTLED_MS = 3_000;
const SKEW_MS = 5_000;
/** A shorter text is never taken for the beginning of a key: any name of a few hexadecimal digits would be ambiguous. */
export const MIN_KEY_PREFIX = 4;
const EXPIRES_SOON_MS = 30 * 86_400_000;

/** This node's place among others: founding, inviting, joining and leaving a mesh, and what keeps it in touch. */
export class Network implements CardDiscovery {
  readonly peers: Peers;
  readonly #components: NetworkComponents;
  readonly #init: NetworkInit;
  readonly #name: string;
  #discoveries: Discovery[] = [];
  #websocket: WebsocketDiscovery | undefined;
  /** Addresses of the inviter, while joining. */
  #inviteAddresses: readonly string[] = [];
  #expiry: Timer | undefined;
  #open = false;

  constructor(components: NetworkComponents, init: NetworkInit) {
    this.#components = components;
    this.#init = init;
    this.#name = (init.name ?? hostname()) || 'a node';
    this.peers = new Peers(components, {
      ...init.limits,
      name: this.#name,
      software: init.software,
      addresses: () => this.#websocket?.addresses ?? [],
      onMissing: () => {
        for (const discovery of this.#discoveries) discovery.seek();
      },
    });
  }

  /** Says where messages from other nodes go. */
  attach(target: PeersTarget): void {
    this.peers.attach(target);
  }

  get presence(): Presence {
    return this.peers;
  }

  /** A member gets in touch with the others; anyone else stays silent. */
  async start(): Promise<void> {
    const { membership } = this.#components;
    this.peers.start();
    if (!membership.joined) return;
    this.peers.expectMembers();
    await this.#getInTouch(membership.bootstrap);
  }

  async stop(): Promise<void> {
    this.peers.stop('stopping');
    await this.#loseTouch();
  }

  get joined(): boolean {
    return this.#components.membership.joined;
  }

  /** Makes a code that lets one node into this mesh, which is founded by the first. */
  async invite(options: InviteOptions = {}): Promise<Invite> {
    const { membership, runtime } = this.#components;
    const { ttlMs = INVITE_MS, tiers = EVERY_TIER, sandboxes } = options;
    const everything = tiers.length === EVERY_TIER.length && sandboxes === undefined;
    const grant: Grant = {
      tiers: [...tiers],
      ...(sandboxes && { sandboxes: [...sandboxes] }),
      invite: options.mayInvite ?? everything,
    };
    this.peers.forgive();
    await this.#found();
    const secret = membership.invite(grant, ttlMs);
    this.#meet();
    const addresses = this.#websocket?.addresses ?? [];
    const bootstrap = this.#init.bootstrap ?? membership.bootstrap;
    const warnings = await this.#obstacles(addresses);
    const code = encodeInvite({ secret, bootstrap, addresses });
    return { code, expiresAt: runtime.now() + ttlMs, grant, warnings };
  }

  /** What may keep the other node from finding this one. */
  async #obstacles(addresses: readonly string[]): Promise<string[]> {
    const { runtime } = this.#components;
    const settling = Promise.all(this.#discoveries.map((discovery) => discovery.settled?.()));
    const settled = await within(runtime, settling, SETTLED_MS, () => undefined);
    const dht = this.#discoveries.map((discovery) => discovery.status()).find(({ kind }) => kind === 'hyperswarm');
    const listens = addresses.length > 0 ? `; the code also names ${addresses.join(', ')}` : '';
    const problem = settled ? dht?.detail : 'has not reached the DHT yet; see: ecliptic doctor';
    if (dht && !dht.working) return [`this node ${problem}${listens}`];
    const blind = !dht && addresses.length === 0 && !this.#init.discovery && (this.#init.peers ?? []).length === 0;
    return blind ? ['this node uses no DHT and listens nowhere: start it with --listen HOST:PORT to be found'] : [];
  }

  /** A mesh that cannot be reached is not founded. */
  async #found(): Promise<void> {
    const { membership } = this.#components;
    if (membership.joined) return this.#getInTouch(membership.bootstrap);
    membership.found(this.#name, this.#init.bootstrap ?? []);
    try {
      await this.#getInTouch(membership.bootstrap);
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
    this.peers.forgive();
    if (this.peers.joining) throw new EclipticError('MESH_EXISTS', 'this node is about to join a mesh');
    try {
      await new Promise<void>((resolve, reject) => {
        const late = runtime.setTimer(() => {
          reject(new EclipticError('PEER_UNREACHABLE', this.#whyNobodyAnswered(), { waitedMs: JOIN_MS }));
        }, JOIN_MS);
        const settle = (act: () => void) => {
          late.cancel();
          act();
        };
        signal?.addEventListener('abort', () =>
          settle(() => reject(new EclipticError('CANCELLED', 'the caller went away'))),
        );
        this.#inviteAddresses = addresses;
        this.peers.joining = {
          secret,
          addresses,
          joined: () => settle(resolve),
          refused: (error) => settle(() => reject(error)),
        };
        this.#getInTouch(bootstrap, [{ topic: inviteTopic(secret), role: 'guest' }]).catch(reject);
      });
    } catch (error) {
      await this.#loseTouch();
      throw error;
    } finally {
      this.peers.joining = undefined;
      this.#inviteAddresses = [];
    }
    this.#meet();
    return { mesh: membership.mesh };
  }

  /** Leaves the mesh for good; the others are told. */
  async leave(): Promise<void> {
    const { membership } = this.#components;
    if (!membership.joined) throw new EclipticError('NO_MESH', 'this node belongs to no mesh');
    this.peers.leaveAll('leaving');
    membership.leave();
    await this.#loseTouch();
  }

  /** Takes a node's membership away, whoever invited it and wherever it is; the others stay. */
  remove(node: string): void {
    const { membership } = this.#components;
    const peer = this.find(node);
    // Without a certificate it is no member: there is nothing to take away but what this node noted of it.
    if (peer.chain) this.peers.spreadRemoval(membership.remove(peer.chain));
    else this.peers.forget(peer.node);
  }

  /** Is that node one of this owner's own devices? Those, and only those, may speak with every tier, as this one may. */
  isOwnDevice(node: string): boolean {
    const { membership } = this.#components;
    const grants = [
      membership.joined ? membership.grant : undefined,
      this.peers.all.find((peer) => peer.node === node)?.grant,
    ];
    return grants.every((grant) => grant?.tiers.includes(0));
  }

  /** Was that node's membership taken away, and not given back since? */
  hasRemoved(node: string): boolean {
    return this.removed.includes(node);
  }

  /** The nodes whose membership was taken away, and not given back since. */
  get removed(): string[] {
    const { membership } = this.#components;
    const nodes = new Set(membership.removals.map(nodeOf));
    return [...nodes].filter((node) => !membership.member(node));
  }

  /** The peer with this name, or whose key begins with it. */
  find(text: string): Peer {
    const [key, ...others] = this.matching(text);
    if (key !== undefined && others.length === 0 && key !== this.#components.identity.key) return this.peers.get(key)!;
    const reason = others.length === 0 ? 'no other known node has' : 'several nodes have';
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
    const { registry } = this.#components;
    return this.peers.all.map((peer) => ({
      node: peer.node,
      name: peer.name,
      state: peer.status,
      reason: this.#whyAway(peer),
      link: peer.linkKind ?? null,
      since: peer.since,
      agents: registry.countOf(peer.node),
      tiers: peer.grant?.tiers ?? [],
      sandboxes: peer.grant?.sandboxes ?? null,
      roundTripMs: peer.roundTripMs ?? null,
      clockSkewMs: peer.clockSkewMs ?? null,
      software: peer.software || null,
      expiresAt: peer.chain?.[0]?.expiresAt ?? null,
    }));
  }

  #whyAway({ status, chain, reason }: Peer): string | null {
    const lapsed = status !== 'connected' && chain ? this.#components.membership.lapsed(chain) : undefined;
    return (lapsed ?? reason) || null;
  }

  /** What works, what does not, and why. */
  diagnose(): Finding[] {
    const { membership, runtime, registry } = this.#components;
    if (!membership.joined) return [{ level: 'ok', text: 'in no mesh: nothing is announced, nobody can call' }];
    const own = membership.chain[0]!;
    const findings: Finding[] = [
      { level: 'ok', text: `member of mesh ${membership.mesh} as ${JSON.stringify(own.name)}` },
    ];
    if (own.expiresAt - runtime.now() < EXPIRES_SOON_MS) {
      findings.push({
        level: 'warning',
        text: `this node’s certificate ends ${dateOf(own.expiresAt)}; its issuer renews it on contact`,
      });
    }
    const silent = registry.getLocalCards().filter((card) => !permits(own.grant, card));
    if (silent.length > 0) {
      const ids = silent.map(({ id }) => id).join(', ');
      findings.push({
        level: 'warning',
        text: `not announced, because this node’s certificate does not allow it: ${ids}`,
      });
    }
    for (const discovery of this.#discoveries) {
      const { kind, working, detail } = discovery.status();
      findings.push({ level: working ? 'ok' : 'problem', text: `${kind}: ${detail}` });
    }
    const { doubled } = this.peers;
    if (doubled) {
      const text = `another process runs with this node’s key, says node ${doubled.by.slice(0, 12)}; stop one of the two`;
      findings.push({ level: 'problem', text });
    }
    for (const row of this.list()) findings.push(...this.#aboutPeer(row));
    if (this.peers.all.length === 0) findings.push({ level: 'warning', text: 'no other node has been met yet' });
    return findings;
  }

  #aboutPeer(row: PeerRow): Finding[] {
    // Names are others' words: nothing in them may look like a line of ours.
    const who = `${JSON.stringify(row.name || 'a node').slice(1, -1)} (${row.node.slice(0, 12)})`;
    const findings: Finding[] = [];
    if (row.state === 'connected') {
      const time = row.roundTripMs === null ? '' : `, round trip ${row.roundTripMs.toFixed(1)} ms`;
      findings.push({ level: 'ok', text: `${who}: connected over ${row.link}${time}` });
    } else {
      findings.push({ level: 'problem', text: `${who}: ${row.state}${row.reason ? `, ${row.reason}` : ''}` });
    }
    if (this.peers.get(row.node)?.doubledAt !== undefined)
      findings.push({ level: 'problem', text: `${who}: two processes run with its key; stop one of them` });
    if (row.clockSkewMs !== null && Math.abs(row.clockSkewMs) > SKEW_MS) {
      const direction = row.clockSkewMs > 0 ? 'ahead' : 'behind';
      const seconds = Math.round(Math.abs(row.clockSkewMs) / 1_000);
      findings.push({ level: 'warning', text: `${who}: its clock is ${seconds} s ${direction}; times to live suffer` });
    }
    if (row.software !== null && row.software !== this.#init.software) {
      findings.push({ level: 'warning', text: `${who}: runs ${row.software}, this node ${this.#init.software}` });
    }
    return findings;
  }

  #whyNobodyAnswered(): string {
    const details = this.#discoveries.map((discovery) => discovery.status().detail);
    return ['nobody who made this code answered; is the inviting node up?', ...details].join(' · ');
  }

  async #getInTouch(bootstrap: readonly string[], meetings?: readonly Meeting[]): Promise<void> {
    if (!this.#open) {
      this.#open = true;
      try {
        await this.#startDiscoveries(this.#init.bootstrap ?? bootstrap);
      } catch (error) {
        await this.#loseTouch();
        throw error;
      }
    }
    if (meetings) this.#meetAt(meetings);
    else this.#meet();
  }

  async #startDiscoveries(bootstrap: readonly string[]): Promise<void> {
    const { runtime, identity, membership } = this.#components;
    const { discovery, listen, dht = true, peers = [] } = this.#init;
    const isLinked = (node: string) => this.peers.isLinked(node);
    if (discovery) this.#discoveries.push(discovery({ key: identity.key, isLinked }));
    else {
      // The native parts of a network are loaded only by those who use one.
      const { WebsocketDiscovery } = await import('../discovery/websocket-discovery.js');
      const { keyPair } = identity;
      const given = () => [...peers, ...this.#inviteAddresses];
      const learnt = () => Object.entries(membership.addresses).flatMap(([node, to]) => (isLinked(node) ? [] : to));
      const ownersOwn = () => [...given(), ...membership.given, ...(this.#websocket?.addresses ?? [])];
      const wanted = () => ({ given: given(), learnt: learnt(), inside: kindsOf(ownersOwn()) });
      const onFailure = (from: string, reason: string) => {
        this.peers.report(undefined, 'MEMBERSHIP_REFUSED', `a caller from ${from} is no node: ${reason}`);
      };
      this.#websocket = new WebsocketDiscovery({ runtime, keyPair, wanted, isLinked, onFailure }, { listen });
      this.#discoveries.push(this.#websocket);
      if (dht) {
        const { HyperswarmDiscovery } = await import('../discovery/hyperswarm-discovery.js');
        this.#discoveries.push(new HyperswarmDiscovery({ runtime, keyPair }, { bootstrap }));
      }
    }
    for (const started of this.#discoveries) await started.start((link) => this.peers.take(link));
  }

  async #loseTouch(): Promise<void> {
    this.#expiry?.cancel();
    const discoveries = this.#discoveries;
    this.#discoveries = [];
    this.#websocket = undefined;
    this.#open = false;
    await Promise.all(discoveries.map((discovery) => discovery.stop()));
  }

  /** Be where the members meet, and where those look who were invited. */
  #meet(): void {
    const { membership, runtime } = this.#components;
    const invites = membership.openInvites();
    this.#meetAt([
      { topic: membership.topic, role: 'member' },
      ...invites.map((secret) => ({ topic: inviteTopic(secret), role: 'host' as const })),
    ]);
    this.#expiry?.cancel();
    if (invites.length > 0) this.#expiry = runtime.setTimer(() => this.#meet(), 60_000);
  }

  #meetAt(meetings: readonly Meeting[]): void {
    for (const discovery of this.#discoveries) {
      discovery.meet(meetings);
      discovery.seek();
    }
  }
}

function dateOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}
